"""Words of scripts without spaces, the slow way: exact fractions, all ways to cut by recursion."""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import pairwise

LONGEST, MOST, AT_A_TIME, UNIT = 8, 1 << 16, 128, 256
ALPHA, ENDS, CHARACTERS, LINKED = 3000, Fraction(1, 5), 4096, 20


def pairs(run):
    """Return pairs of neighbouring characters, or the one that there is."""
    return [a + b for a, b in pairwise(run)] or run


class Pieces:
    """Counts of pieces and characters, in 1 / 256, and runs cut by them.

    A way to cut a run has the product of the probabilities of its pieces, each of at most eight
    characters: (count + alpha p0) / (all + alpha), p0 by length and characters.
    """

    def __init__(self):
        self.pieces, self.letters, self.due = Counter(), Counter(), []

    def cut(self, run, own=0):
        """Return the words of a list of characters; `learn` counts the pieces.

        ``own`` is left out of the count of each piece, in 1 / 256.
        """
        found = []
        for start in range(0, len(run), AT_A_TIME):
            part = run[start : start + AT_A_TIME]
            ends = self._ends(part, own)
            begin = 0
            for j in range(1, len(part) + 1):
                if ends[j] > Fraction(1, 2) or j - begin == LONGEST:
                    while begin < j:
                        end = self._first(part, begin, j, own)
                        found.append("".join(part[begin:end]))
                        begin = end
        return found

    def _new(self, letters):
        """Return alpha times the probability of a new piece."""
        out, n = Fraction(ALPHA) * ENDS * (1 - ENDS) ** (len(letters) - 1), self.letters.total()
        for letter in letters:
            out *= Fraction(self.letters[letter] + UNIT, n + CHARACTERS * UNIT)
        return out

    def _first(self, run, begin, end, own):
        """Return where the first of the words of a piece ends."""

        def count(i, j):
            return Fraction(max(self.pieces["".join(run[i:j])] - own, 0), UNIT)

        halves = [(count(begin, j), count(j, end), -j) for j in range(begin + 1, end)]
        least = max(count(begin, end), Fraction(1, UNIT))
        most, at = max(((a * b, j) for a, b, j in halves if min(a, b) >= least), default=(0, 0))
        n = Fraction(self.pieces.total(), UNIT)
        return -at if most > LINKED * self._new(run[begin:end]) * n else end

    def _ends(self, run, own):
        """Return the probability that a piece ends before each place, and note what to count."""
        R, n = len(run), self.pieces.total()

        @cache
        def weight(i, j):
            count = max(self.pieces["".join(run[i:j])] - own, 0)
            return (count + UNIT * self._new(run[i:j])) / (n + ALPHA * UNIT)

        before, after = [Fraction(1)], [Fraction(1)]  # sums over all ways up to and from a place
        for j in range(1, R + 1):
            ways = range(max(0, j - LONGEST), j)
            before.append(sum(before[i] * weight(i, j) for i in ways))
        for i in range(R - 1, -1, -1):
            ways = range(i + 1, min(R, i + LONGEST) + 1)
            after.insert(0, sum(weight(i, j) * after[j - i - 1] for j in ways))
        for i in range(R):
            self.due.append((self.letters, run[i], UNIT))
            for j in range(i + 1, min(R, i + LONGEST) + 1):
                expected = before[i] * weight(i, j) * after[j] / before[R]
                count = int(expected * UNIT + Fraction(1, 2))
                if count:
                    self.due.append((self.pieces, "".join(run[i:j]), count))
        return [a * b / before[R] for a, b in zip(before, after, strict=True)]

    def cut_again(self, run):
        """Return the words of a list of characters that was learned; nothing is to be counted."""
        found, self.due = self.cut(run, UNIT), []
        return found

    def learn(self):
        """Count what came in the runs that were cut since the last time."""
        for counts, name, n in self.due:
            counts[name] += n
        self.due = []
        while len(self.pieces) + len(self.letters) > MOST:
            for counts in self.pieces, self.letters:
                halves = {name: n // 2 for name, n in counts.items() if n // 2 >= UNIT // 2}
                counts.clear()
                counts.update(halves)
