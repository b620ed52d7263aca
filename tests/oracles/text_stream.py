"""The text engine over dicts, word by word and table by table: slow and obvious."""

import math
from collections import Counter
from dataclasses import dataclass, field


@dataclass(eq=False)
class Table:
    id: int
    words: Counter = field(default_factory=Counter)
    size: int = 0
    copies: int = 0
    next_merge: int = 3
    next_split: int = 8
    rivals: list = field(default_factory=lambda: [None] * 4)

    @property
    def n(self):
        return sum(self.words.values())


@dataclass(eq=False)
class Member:
    words: list
    row: int
    table: Table | None = None
    sure: float = 1.0
    aside: list = field(default_factory=list)
    copies: int = 0
    newer: "Member | None" = None

    @property
    def every(self):
        return set(self.words) | set(self.aside)


class SlowText:
    """Documents are lists of distinct words; decay counts documents."""

    def __init__(
        self, *, alpha=30.0, decay=500.0, d=0.6, b=0.25, breadth=0.0, long=math.inf,
        ages=(56, 222, 500), sweep=50,
    ):  # fmt: skip
        self.alpha, self.decay, self.d, self.ages, self.sweep = alpha, decay, d, ages, sweep
        self.least_b, self.breadth, self.long = b, breadth, long
        self.tables, self.members, self.merges, self.final = [], [], [], []
        self.splits, self.due = [], None
        self.B, self.news, self.tokens = 40.0, 20.0, 0.5
        self.n_ids, self.clock = 0, -1  # texts without copies are the time
        self.mass = {}  # of each table, by the rows of its documents
        self.aside, self.next_look = {}, 50  # boilerplate and its parts of all words

    @property
    def b(self):
        return max(self.least_b, self.breadth * self.B)

    def df(self, w):
        return sum(w in table.words for table in self.tables)

    def p(self, w):
        vocabulary = {v for table in self.tables for v in table.words}
        total = sum(self.df(v) for v in vocabulary)
        return (self.df(w) + self.b) / (total + self.b * max(len(vocabulary) + 1, 3000))

    def weight(self, table, now):
        return sum(math.exp((row - now) / self.decay) for row in self.mass[table.id])

    def odds(self, table, doc, now):
        """Equations (2a) and (2b)."""
        U, B, d = len(doc), self.B, self.d
        delta, u, n = d * (U - 1) / 2, len(table.words), table.n
        s = math.log(self.weight(table, now)) - math.log(self.alpha)
        for w in doc:
            c = table.words[w]
            if c > 0:
                s += math.log1p((c - d) / ((B + d * u + delta) * self.p(w)))
        s += U * math.log((B + d * u + delta) / (B + n + (U - 1) / 2))
        return s - U * math.log((B + delta) / (B + (U - 1) / 2))

    def best(self, doc, now):
        sharing = [table for table in self.tables if any(table.words[w] > 0 for w in doc)]
        scored = [(self.odds(table, doc, now), -table.id, table) for table in sharing]
        scored.sort(key=lambda item: item[:2], reverse=True)
        return [item[::2] for item in scored] + 2 * [(-math.inf, None)]

    def score(self, doc, now):
        """-log predictive density over all tables."""
        aside, doc = [w for w in doc if w in self.aside], [w for w in doc if w not in self.aside]
        U, B = len(doc), self.B
        said = -sum(math.log(self.aside[w]) for w in aside)
        said -= U * math.log(1.0 - sum(self.aside.values()))
        root = (B + self.d * (U - 1) / 2) / (B + (U - 1) / 2)
        base = sum(math.log(self.p(w)) for w in doc) + U * math.log(root)
        weights = [math.exp(self.odds(table, doc, now)) for table in self.tables]
        total = sum(self.weight(table, now) for table in self.tables)
        prior = math.log(self.alpha / (self.alpha + total))
        return said - (math.log(1.0 + sum(weights)) + prior + base)

    def sureness(self, best, doc, now):
        weights = [math.exp(self.odds(table, doc, now)) for table in self.tables]
        return math.exp(best) / (1.0 + sum(weights))

    def learn(self, doc, near=None):
        """Learn a document; ``near``: the number of the one that it is a near copy of."""
        n, self.due = len(self.members), None
        same = self.copied(doc)
        if near is not None and not same:
            same = [self.members[near]]
            assert self.gain_of_copy(same[0], doc) > 0.0
        self.clock = now = self.clock + (not same)
        score, arrival = self.score(doc, now), -1
        aside, doc = [w for w in doc if w in self.aside], [w for w in doc if w not in self.aside]
        member = Member(doc, now, aside=aside)
        self.members.append(member)
        if same:
            member.words, member.aside = same[-1].words, same[-1].aside
            self.take_place(member, same[-1])
            arrival = member.table.id
        elif doc:
            (s, table), second = self.best(doc, now)[:2]
            member.sure = self.sureness(max(s, 0.0), doc, now)
            if s > 0.0:
                self.learn_concentration(table, doc)
                self.remember(table, table.size, s, *second)
            else:
                table = self.open()
            arrival = table.id
            self.seat(member, table, now)
        for age in self.ages:
            last = age == self.ages[-1]
            if n >= age and (last or self.members[n - age].sure <= 0.999):
                self.visit(self.members[n - age], now, last=last)
        for member in self.members[: max(0, n + 1 - 4 * self.ages[-1])]:
            member.table = None
        if (n + 1) % self.sweep == 0:
            held = [id(m.table) for m in self.members]
            for table in list(self.tables):
                if self.weight(table, now) < 1e-3 and id(table) not in held:
                    self.tables.remove(table)
        if n + 1 >= self.next_look:
            self.look(self.members[-4 * self.ages[-1] :])
        if self.due in self.tables:
            self.split(self.due, now)
        return arrival, score

    def copied(self, doc):
        """Return the documents that this one copies, oldest first."""
        words = [w for w in doc if w not in self.aside]
        return [
            m
            for m in self.members[-4 * self.ages[-1] :]
            if words and m.table and m.words == words and m.every == set(doc)
        ]

    def gain_of_copy(self, member, doc):
        """Equation (5)."""
        table, mine = member.table, {w for w in doc if w not in self.aside}
        shared, other = mine & set(member.words), mine ^ set(member.words)
        if 2 * len(other) > len(shared):
            return 0.0
        window = self.members[-4 * self.ages[-1] :]
        n = min(len(self.members), 4 * self.ages[-1] + 1)
        out = math.log(0.1 / n) + len(other) * math.log(0.1)
        for w in shared:
            own = table.words[w] - self.d + (self.B + self.d * len(table.words)) * self.p(w)
            common = sum(w in m.words for m in window) / n
            out += math.log(0.9) - math.log(max(own / (table.n + self.B), common))
        return out

    def take_place(self, member, old):
        """Let a copy stand for an older one."""
        member.table, member.sure, member.copies = old.table, 0.0, old.copies + 1
        member.table.copies += 1
        self.mass[member.table.id].remove(old.row)
        self.mass[member.table.id].append(member.row)
        old.words, old.aside, old.table, old.newer = [], [], None, member

    def said(self, window, w, least):
        """R2 of a word: what part of the variance of its presence other words explain."""
        n, q = len(window), sum(w in m.every for m in window) / len(window)
        parts = []
        for v in {v for m in window for v in m.every}:
            there = [w in m.every for m in window if v in m.every]
            m, both = len(there), sum(there)
            if 4 <= m < least and both <= 0.5 * max(m, q * n):
                p = both / m
                parts += m * [(p - q) ** 2 - p * (1 - p) / (m - 1)]
        if len(parts) < 50:
            return math.nan
        return sum(parts) / len(parts) / (q * (1 - q)) if q < 1.0 else 0.0

    def look(self, window):
        """Set words aside that many texts have and that say nothing about the rest of them."""
        recent, window = window[-self.ages[-1] :], [m for m in window if m.every]
        seen, n = len(self.members), len(window)
        self.next_look, before = seen + min(seen, 1000), set(self.aside)
        self.aside = {}
        if n < 50:
            return
        counts = Counter(w for m in window for w in m.every)
        least = max(0.05 * n, 10)
        while sum(c >= least for c in counts.values()) > 32:
            least *= 1.25
        for w, c in counts.items():
            few = 2.0 if w in before else 1.0
            said = self.said(window, w, least) if few * c >= least else math.inf
            if said < few * 0.2 * n / counts.total() or (w in before and math.isnan(said)):
                self.aside[w] = c / counts.total()
        rest = []
        for w in sorted(w for w, c in counts.items() if c >= 4 and w not in self.aside):
            said = self.said(window, w, least) if len(rest) < 32 else math.nan
            rest += [] if math.isnan(said) else [said]
        mute = sum(rest) / max(len(rest), 1) < 0.2 * n / counts.total()
        if sum(self.aside.values()) > 0.75 or (mute and set(self.aside) - before):
            self.aside = {}
        for w in set(self.aside) - before:
            for table in self.tables:
                del table.words[w]
            for m in [m for m in window if w in m.words]:
                m.words.remove(w)
                m.aside.append(w)
        if sum(self.aside[w] for w in set(self.aside) - before) > 0.1:
            self.reassign([m for m in recent if m.words], self.clock)

    def reassign(self, members, now):
        """Take documents out of their tables, then assign them anew in order."""
        for m in members:
            m.table.words.subtract(m.words)
            m.table.words = +m.table.words
            m.table.size -= 1
            m.table.copies -= m.copies
            self.mass[m.table.id].remove(m.row)
            if m.table.size == 0:
                self.tables.remove(m.table)
            m.sure, m.table = 0.0, None
        for m in members:
            (s, table), second = self.best(m.words, now)[:2]
            if s > 0.0:
                self.remember(table, table.size, s, *second)
            else:
                table = self.open()
            self.seat(m, table, now)

    def open(self):
        table = Table(self.n_ids)
        self.n_ids += 1
        self.mass[table.id] = []
        self.tables.append(table)
        return table

    def remember(self, table, size, s, other_s, other):
        near = other is not None and other_s > s + math.log(1e-3)
        table.rivals[size % 4] = (other, other.id) if near else None

    def learn_concentration(self, table, doc):
        u, n, B, d = len(table.words), table.n, self.B, self.d
        for w in doc:
            c, p = table.words[w], self.p(w)
            self.news += B * p / ((B + d * u) * p + max(c - d, 0.0)) if c else B / (B + d * u)
        self.tokens += len(doc) / (B + n + len(doc) / 2)
        self.B = max(1.0, self.news / self.tokens)

    def seat(self, member, table, now, *, grown=True):
        table.words.update(member.words)
        table.size += 1
        table.copies += member.copies
        self.mass[table.id].append(member.row)
        member.table = table
        if grown and table.size >= table.next_split and self.due is None:
            self.due = table
        if grown and table.size >= table.next_merge:
            self.merge(table, now)

    def visit(self, member, now, *, last):
        old = member.table
        stays = last and member.sure > 1.0 - 1e-9 and old is not None and old.size > 2
        if old is not None and not stays and member.words:
            old.words.subtract(member.words)
            old.words = +old.words
            old.size -= 1
            self.mass[old.id].remove(member.row)
            (s, table), second = self.best(member.words, now)[:2]
            bonus = 3.0 if last and old.size + old.copies < 2 else 0.0
            old.copies -= member.copies
            if s + bonus <= 0.0:
                table = old if old.size == 0 else self.open()
            else:
                self.remember(table, table.size + (table is old), s, *second)
            if old.size == 0 and table is not old:
                self.tables.remove(old)
            self.seat(member, table, now, grown=table is not old)
        if last:
            while member.newer:
                member = member.newer
            self.final.append(member.table.id if member.table else -1)

    def prior_gain(self, a, b, now):
        Fa, Fb = (max(self.weight(k, now), 1.0) for k in (a, b))
        return math.lgamma(Fa + Fb) - math.lgamma(Fa) - math.lgamma(Fb) - math.log(self.alpha)

    def broad(self):
        """Whether texts are so long that tables are compared as topics."""
        return sum(t.n for t in self.tables) >= self.long * sum(t.size for t in self.tables)

    def topic_gain(self, a, b, now):
        """By the marginal likelihoods of Dirichlet-multinomials about all words of the tables."""
        every = Counter(w for t in self.tables for w in t.words.elements())

        def evidence(words):
            total = math.lgamma(every.total()) - math.lgamma(every.total() + words.total())
            return total + sum(math.lgamma(every[w] + c) - math.lgamma(every[w])
                               for w, c in words.items())  # fmt: skip

        gain = evidence(a.words + b.words) - evidence(+a.words) - evidence(+b.words)
        return gain + self.prior_gain(a, b, now)

    def gain(self, a, b, now):
        """Equation (3), or that of topics."""
        if self.broad():
            return self.topic_gain(a, b, now)
        d, B, shared = self.d, self.B, [w for w in a.words if b.words[w] > 0]
        total, s = 0.0, len(shared)

        def g(m):
            return math.lgamma(1 - d + m) - math.lgamma(1 - d)

        def h(u):
            return math.lgamma(B / d + u) - math.lgamma(B / d)

        def r(n):
            return math.lgamma(B + n) - math.lgamma(B)

        for w in shared:
            ca, cb = a.words[w], b.words[w]
            total += -math.log(self.p(w)) + g(ca + cb - 1) - g(ca - 1) - g(cb - 1)
        ua, ub = len(a.words), len(b.words)
        total += h(ua + ub - s) - h(ua) - h(ub) - s * math.log(d) - r(a.n + b.n) + r(a.n) + r(b.n)
        return total + self.prior_gain(a, b, now)

    def merge(self, table, now):
        table.next_merge = table.size + 1 + table.size // (4 if table.size < 16 else 2)
        others = [
            rival[0]
            for rival in table.rivals
            if rival and rival[0] in self.tables and rival[0].id == rival[1] and rival[0].size >= 3
        ]
        if self.broad():
            others = [other for other in self.tables if other is not table and other.size >= 3]
        scored = [(self.gain(table, other, now), -other.id, other) for other in others]
        least = 0.0 if self.broad() else 6.0
        if not scored or max(scored, key=lambda item: item[:2])[0] <= least:
            return
        other = max(scored, key=lambda item: item[:2])[2]
        large, small = sorted((table, other), key=lambda k: len(k.words), reverse=True)
        if len(large.words) == len(small.words):
            large, small = table, other
        self.merges.append((max(large.id, small.id), min(large.id, small.id)))
        rows = self.mass.pop(large.id) + self.mass.pop(small.id)
        large.id = min(large.id, small.id)
        self.mass[large.id] = rows
        large.words.update(small.words)
        large.size += small.size
        large.copies += small.copies
        large.next_merge = min(large.next_merge, small.next_merge, large.size + 1)
        large.next_split = max(large.next_split, large.size + 1)
        self.tables.remove(small)
        for member in self.members:
            if member.table is small:
                member.table = large

    def halves(self, table, leaving):
        """The tables that a split would make."""
        there = Table(-1, Counter(w for m in leaving for w in m.words), len(leaving))
        here = Table(table.id, table.words - there.words, table.size - len(leaving))
        return there, here

    def parting(self, table, leaving, now):
        """Minus (3) on the halves, as if they were tables already."""
        there, here = self.halves(table, leaving)
        tables, rows = self.tables, self.mass[table.id]
        self.tables = [t for t in tables if t is not table] + [there, here]
        self.mass[there.id] = [m.row for m in leaving]
        self.mass[here.id] = [*(Counter(rows) - Counter(self.mass[there.id])).elements()]
        gain = -self.gain(there, here, now)
        self.tables, self.mass[table.id] = tables, rows
        return gain

    def rare(self, table, w):
        """At most a quarter of the tables have a word in a quarter of the part that has it here."""
        part = table.words[w] / table.size
        common = sum(t.words[w] / t.size > 0.25 * part for t in self.tables)
        return common <= max(1.0, 0.25 * len(self.tables))

    def apart(self, table, leaving):
        """No rare word is in a quarter of the documents of both halves."""
        there, here = self.halves(table, leaving)
        return not any(
            c > 0.25 * there.size and here.words[w] > 0.25 * here.size and self.rare(table, w)
            for w, c in there.words.items()
        )

    def settle(self, table, rows, leaving, now):
        """Let documents change sides, twice."""
        B, d = self.B, self.d
        vocabulary = {v for t in self.tables for v in t.words}
        total = sum(self.df(v) for v in vocabulary) + self.b * max(len(vocabulary) + 1, 3000)
        base = {w: (self.df(w) + 1 + self.b) / total for w in table.words}
        leaving, rest = list(leaving), len(self.mass[table.id])
        for _ in range(2):
            before = list(leaving)
            for member in rows:
                others = [m for m in leaving if m is not member]
                if (member in leaving and not others) or (
                    member not in leaving and rest - len(leaving) == 1
                ):
                    continue
                there, here = self.halves(table, others)
                here.words = here.words - Counter(member.words)
                U, value = len(member.words), 0.0
                gone = sum(math.exp((m.row - now) / self.decay) for m in others)
                own = math.exp((member.row - now) / self.decay)
                for half, F, sign in (
                    (there, gone, 1.0),
                    (here, self.weight(table, now) - gone - own, -1.0),
                ):
                    up = B + d * (len(half.words) + (U - 1) / 2)
                    value += sign * (math.log(F) + U * math.log(up / (B + half.n + (U - 1) / 2)))
                    for w in member.words:
                        if half.words[w] > 0:
                            value += sign * math.log1p((half.words[w] - d) / (up * base[w]))
                leaving = others + [member] * (value > 0.0)
            if set(before) == set(leaving):
                break
        return leaving

    def split(self, table, now):
        size = table.size
        if size < table.next_split:
            return
        table.next_split = size + 1 + size // 2
        rows = [m for m in reversed(self.members) if m.table is table]
        n = len(rows)
        if n < max(6, 0.2 * size):
            return
        seeds = []
        for w, c in Counter(w for m in rows for w in m.words).items():
            leaving = [m for m in rows if w in m.words]
            if not self.rare(table, w):
                continue
            if c < 0.15 * n or c > (1.0 - 0.15) * n or not self.apart(table, leaving):
                continue
            gain = self.parting(table, leaving, now)
            if gain >= -0.06 * sum(len(m.words) for m in rows):
                seeds.append((gain, leaving))
        best, chosen = 0.0, None
        for _, seed in sorted(seeds, key=lambda item: -item[0])[:2]:
            leaving = self.settle(table, rows, seed, now)
            least = max(3, 0.2 * size)
            if min(len(leaving), size - len(leaving)) < least or not self.apart(table, leaving):
                continue
            gain = self.parting(table, leaving, now)
            if gain > best:
                best, chosen = gain, leaving
        if chosen is None:
            return
        if n == size and rows[-1] in chosen:
            chosen = [m for m in rows if m not in chosen]
        there, here = self.halves(table, chosen)
        new = self.open()
        self.splits.append((new.id, table.id))
        new.words, new.size = there.words, there.size
        table.words, table.size = here.words, here.size
        for member in chosen:
            member.table = new
            new.copies += member.copies
            table.copies -= member.copies
            self.mass[table.id].remove(member.row)
            self.mass[new.id].append(member.row)
        for k in (table, new):
            k.next_split = k.size + 1 + k.size // 2
        new.next_merge = new.next_split
        if new.size > table.size:
            new.id, table.id = table.id, new.id
            self.mass[new.id], self.mass[table.id] = self.mass[table.id], self.mass[new.id]
