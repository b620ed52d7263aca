"""Which atoms are known, from a list of all that happened: the slow twin of `kernels.known`."""

LASTING, AHEAD = 32, 2
FEWEST_VISITS, RUN, LONG_RUN, RARE = 3, 2, 4, 20


class KnownAtoms:
    """Follows arrivals, each seen at one atom, and gives a verdict on all atoms now and then."""

    def __init__(self):
        self.seen = {}  # by atom, the arrivals seen there
        self.removed = {}  # by atom, whether it had lasted
        self.known, self.strays = set(), set()
        self.enough = 1
        self.now = 0

    def see(self, atom):
        """Learn at which atom the next arrival was seen."""
        self.seen.setdefault(atom, []).append(self.now)
        self.now += 1
        enough = len(self.seen[atom]) >= self.enough or self.has_lasted(atom)
        if enough and atom not in self.strays:
            self.known.add(atom)

    def has_lasted(self, atom):
        rows = len(self.seen[atom])
        return rows >= LASTING or rows >= LONG_RUN * self.visits(atom)

    def visits(self, atom):
        rows = self.seen[atom]
        return sum(row - 1 not in rows for row in rows)

    def remove(self, atom):
        self.removed[atom] = self.has_lasted(atom) and atom not in self.strays

    def judge(self):
        here = [atom for atom in self.seen if atom not in self.removed]
        rows = sum(len(self.seen[atom]) for atom in here)
        runs_last = rows >= LONG_RUN * sum(self.visits(atom) for atom in here)
        self.strays = {
            atom
            for atom in here
            if runs_last and self.visits(atom) >= FEWEST_VISITS
            and len(self.seen[atom]) < RUN * self.visits(atom)
            and RARE * len(self.seen[atom]) < rows
        }  # fmt: skip
        failed = [LASTING for _ in self.strays]  # they have failed with any number of rows
        failed += [
            min(len(self.seen[atom]), LASTING - 1)
            for atom, had_lasted in self.removed.items()
            if not had_lasted
        ]
        lasted = AHEAD + sum(self.removed.values())
        for atom in set(here) - self.strays:
            rows = self.seen[atom]
            lasted += self.has_lasted(atom)
            if not self.has_lasted(atom) and self.now - rows[-1] > LASTING:
                failed.append(len(rows))
        self.enough = 1
        while self.enough < LASTING and sum(n >= self.enough for n in failed) >= lasted:
            self.enough += 1
