"""Streams that are made to break a model, of the kind of rows that its case takes.

A stream is a succession of segments of some hundred rows; each has a kind, and kinds change at
random: what one leaves behind is what the next meets.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from tests.conformance.streams import Stream

TOPS = (1e99, 1e39, 1e30, 1e15, 1e6)
TINY = 5e-324  # the least number above zero


def _top(rng):
    return TOPS[rng.integers(len(TOPS))]


def _all_scales(rng, n, d):
    return rng.choice([-1.0, 1.0], (n, d)) * 10.0 ** rng.uniform(-308, 99, (n, 1))


def _outliers(rng, n, d):
    return rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < 0.02, _top(rng), 1.0)


def _neighbours(rng, n, d):
    """Numbers that differ in their last bit."""
    at = rng.normal(size=d) * 10.0 ** rng.uniform(-9, 9)
    return np.where(rng.random((n, d)) < 0.5, at, np.nextafter(at, np.inf))


def _collinear(rng, n, d):
    return rng.normal(size=(n, 1)) * np.arange(1.0, d + 1.0)


def _one_moves(rng, n, d):
    X = np.full((n, d), 2.5)
    X[:, rng.integers(d)] = rng.normal(size=n) * _top(rng)
    return X


def _zeros_of_both_signs(rng, n, d):
    return np.where(rng.random((n, d)) < 0.5, 0.0, -0.0)


NUMBERS = {
    "constant": lambda rng, n, d: np.full((n, d), 3.25),
    "zeros of both signs": _zeros_of_both_signs,
    "huge": lambda rng, n, d: rng.uniform(-1, 1, (n, d)) * _top(rng),
    "tiny": lambda rng, n, d: 1e-300 * rng.normal(size=(n, d)),
    "denormal": lambda rng, n, d: TINY * rng.integers(-9, 10, (n, d)),
    "alternating": lambda rng, n, d: (
        np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * np.full(d, _top(rng))
    ),
    "huge and tiny": lambda rng, n, d: np.where(
        np.arange(n)[:, None] % 2, _top(rng), 1e-300 * rng.normal(size=(n, d))
    ),
    "ties": lambda rng, n, d: rng.integers(0, 3, (n, d)).astype(float),
    "outliers": _outliers,
    "all scales": _all_scales,
    "Cauchy": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "on an offset": lambda rng, n, d: 1e15 + rng.normal(size=(n, d)),
    "neighbours": _neighbours,
    "always new": lambda rng, n, d: np.arange(n)[:, None] * 1e3 + rng.normal(size=(n, d)),
    "growing": lambda rng, n, d: np.minimum(1.3 ** np.arange(n), _top(rng))[:, None] * np.ones(d),
    "sorted": lambda rng, n, d: np.sort(rng.normal(size=(n, d)), axis=0),
    "walk": lambda rng, n, d: np.cumsum(rng.normal(size=(n, d)), axis=0),
    "collinear": _collinear,
    "one moves": _one_moves,
    "usual": lambda rng, n, d: rng.normal(size=(n, d)) + 8.0 * (np.arange(n) * 4 // n)[:, None],
}
HOLES = (0.2, 0.8, 1.0)  # shares of missing values; 1: whole rows
POISONS = (1e101, -1e200, 1e300, np.inf, -np.inf, np.finfo(float).max)


def numbers(rng, n, d, name, *, gaps):
    """Return the name of a kind and rows (n, d) of it; ``name``: None for any."""
    name = name or rng.choice([*NUMBERS])
    X = NUMBERS[name](rng, n, d).astype(float)
    if gaps and rng.random() < 0.3:
        share = HOLES[rng.integers(len(HOLES))]
        X[rng.random(X.shape) < share] = np.nan
        if rng.random() < 0.5:  # a column is away for long
            X[:, rng.integers(d)] = np.nan
        name += f", {share:.0%} missing"
    if rng.random() < 0.1:
        for _ in range(rng.integers(1, 4)):
            X[rng.integers(n), rng.integers(d)] = POISONS[rng.integers(len(POISONS))]
        name += ", poisoned"
    return name, X


_ODD = ["", " ", "\x00", "a", "the", "\u202e\u0301", "\ud7ff", "\U0001d518" * 40, "x" * 5000,
        "1 2 3", "!?", "<a href=x>", "東京" * 30, "é" * 99, "-1e308 nan inf", "oil"]  # fmt: skip


def _texts_new(rng, n, at):
    return [f"a{at + i} b{at + i} c{at + i}" for i in range(n)]


def _long(rng, n, at):
    return [" ".join(f"w{w}" for w in rng.zipf(1.3, 300) % 5000) for _ in range(n)]


def _giant(rng, n, at):
    """A few documents of some thousand words among short ones."""
    giant = " ".join(f"g{w}" for w in rng.integers(0, 3000, 3000))
    return [giant if i % 97 == 3 else "oil price" for i in range(n)]


TEXTS = {
    "the same": lambda rng, n, at: ["oil price up"] * n,
    "empty": lambda rng, n, at: [""] * n,
    "one word": lambda rng, n, at: ["oil"] * n,
    "one word, always new": lambda rng, n, at: [f"q{at + i}" for i in range(n)],
    "odd": lambda rng, n, at: [_ODD[i] for i in rng.integers(0, len(_ODD), n)],
    "all new": _texts_new,
    "one new": lambda rng, n, at: [f"oil price {at + i}" for i in range(n)],
    "long": _long,
    "giant": _giant,
    "bursts": lambda rng, n, at: [f"story{(at + i) // 50} word{i % 3}" for i in range(n)],
    "usual": lambda rng, n, at: [
        " ".join(rng.choice(["oil", "price", "cup", "goal", "vote", "party"], 5)) for _ in range(n)
    ],
}


def texts(rng, n, at, name):
    name = name or rng.choice([*TEXTS])
    return name, TEXTS[name](rng, n, at)


COUNTS = (0, 1, 0.5, 1e-300, 1e15, 1e99, 1e300, -1, 10**400)


def counted(rng, n):
    """Return documents as counts of words, some of them none at all."""
    some = COUNTS[: rng.integers(3, len(COUNTS) + 1)]
    words = ["oil", "price", "cup", "goal"]
    return "counts", [{w: some[rng.integers(len(some))] for w in words} for _ in range(n)]


CLOCKS = {
    "unit": lambda rng, n: np.ones(n),
    "repeated": lambda rng, n: np.zeros(n),
    "often repeated": lambda rng, n: 1.0 * (rng.random(n) < 0.1),
    "nanoseconds": lambda rng, n: 1e-9 * rng.random(n),
    "denormal": lambda rng, n: np.full(n, TINY),
    "all scales": lambda rng, n: 10.0 ** rng.uniform(-300, 4, n),
    "years apart": lambda rng, n: 1e8 * rng.random(n),
}
FAR = (1e12, 1e15, 1e18, 1e100, 1e149)


def clock(rng, n, now, *, last):
    """Return the name of a kind and times (n,) from ``now`` on; far away in ``last`` segments."""
    name = rng.choice([*CLOCKS])
    gaps = CLOCKS[name](rng, n)
    if last:
        gaps[n // 2] = FAR[rng.integers(len(FAR))]
        name += f", {gaps[n // 2]:g} on"
    with np.errstate(over="ignore"):
        return name, np.minimum(now + np.cumsum(gaps), 1e150)


class Adversary:
    """Segments of rows for a case, of one of its kinds or of any."""

    def __init__(self, case, seed, *, width=None, kind=None):
        self.case, self.rng, self.kind = case, np.random.default_rng(seed), kind
        self.sample = case.stream(1)
        self.timed = case.times == "needed" or (
            case.times == "optional" and self.rng.random() < 0.5
        )
        self.now, self.at = float(self.rng.choice([0.0, -1e9, 1.75e9, 1e-3])), 0
        self.rows = self._choose(width)

    @property
    def kinds(self):
        rows = self.sample.rows
        if isinstance(rows, pa.Table):
            return TEXTS if "text" in rows.column_names else NUMBERS
        return TEXTS if isinstance(rows, list) else NUMBERS if rows.dtype.kind == "f" else [None]

    def segment(self, n, *, last=False):
        """Return the name of a kind and the next n rows."""
        name, rows = self.rows(n)
        t = None
        if self.timed:
            pace, t = clock(self.rng, n, self.now, last=last)
            self.now, name = t[-1], f"{name}; times {pace}"
        side = {what: self._side(what, n) for what in self.sample.side}
        self.at += n
        return str(name), Stream(rows, t, side)

    def _choose(self, width):
        """Return what makes rows like those of the case's stream."""
        rows, rng = self.sample.rows, self.rng
        if isinstance(rows, pa.Table):
            if "key" in rows.column_names:
                return self._keyed
            return partial(self._table, {f.name: f.type for f in rows.schema})
        if isinstance(rows, list):
            if self.case.name.startswith("LinkLanguageModel"):
                return lambda n: ("words", [f"w{v}" for v in self._tokens(n)])
            return self._documents
        if rows.ndim == 2 and rows.dtype.kind == "f":
            d, gaps = width or rows.shape[1], self.case.can("gaps")
            return lambda n: numbers(rng, n, d, self.kind, gaps=gaps)
        if rows.ndim == 2:
            return lambda n: ("counts", self._counts(n, rows.shape[1]))
        if rows.dtype.kind == "i":
            return lambda n: ("tokens", self._tokens(n))
        return self._scores

    def _documents(self, n):
        if self.rng.random() < 0.1 and not self.case.name.startswith("TemporalDPM"):
            return counted(self.rng, n)
        return texts(self.rng, n, self.at, self.kind)

    def _table(self, types, n):
        name, X = numbers(self.rng, n, len(types), self.kind, gaps=True)
        columns = {}
        for x, (column, kind) in zip(X.T, types.items(), strict=True):
            mask = np.isnan(x)
            if pa.types.is_boolean(kind):
                values = np.nan_to_num(x) > 0
            elif pa.types.is_integer(kind):
                values = np.minimum(np.abs(np.nan_to_num(x)), 2.0**62).astype(np.int64)
            else:
                values = x
            columns[column] = pa.array(values, mask=mask)
        if self.at == 0:  # all features are there once
            columns = {k: v.fill_null(v.type == pa.bool_() or 1) for k, v in columns.items()}
        return name, pa.table(columns)

    def _keyed(self, n):
        """Few keys, or many: memory grows with each, so that they are not new for ever."""
        name = self.sample.rows.column_names
        if self.rng.random() < 0.2:
            keys, kind = [f"k{(self.at + i) // 20 % 300}" for i in range(n)], "many keys"
        else:
            keys, kind = self.rng.choice(["p", "q", "r"], n), "few keys"
        columns = {"key": pa.array(keys)}
        if "text" in name:
            kind_of_rows, columns["text"] = texts(self.rng, n, self.at, self.kind)
        else:
            kind_of_rows, X = numbers(self.rng, n, len(name) - 1, self.kind, gaps=True)
            for column, x in zip(name[1:], X.T, strict=True):
                columns[column] = pa.array(x, mask=np.isnan(x))
        return f"{kind_of_rows}; {kind}", pa.table(columns)

    def _counts(self, n, v):
        rng = self.rng
        X = rng.poisson(rng.choice([0.02, 1.0, 50.0]), (n, v))
        if rng.random() < 0.3:  # one word only, some of them often
            X[:] = 0
            X[np.arange(n), rng.integers(0, v, n)] = rng.choice([1, 3, 2000, 10**15], n)
        return X.astype(np.int64)

    def _tokens(self, n):
        rng = self.rng
        return [np.zeros(n, int), rng.integers(0, 7, n), np.arange(n) % 7][rng.integers(3)]

    def _scores(self, n):
        name, X = numbers(self.rng, n, 1, self.kind, gaps=True)
        return name, X[:, 0]

    def _side(self, what, n):
        rng = self.rng
        if what == "group":
            new = rng.random() < 0.2
            names = [f"g{(self.at + i) % 300}" if new else "abc"[i % 3] for i in range(n)]
            if isinstance(self.sample.side["group"][0], tuple):
                return [("xy"[i % 2], name) for i, name in enumerate(names)]
            return names
        return [self._parents(k) for k in range(self.at, self.at + n)]

    def _parents(self, k):
        """Parents that form a clique: an earlier item and some of its own parents."""
        known = self.__dict__.setdefault("_known", {})
        if k == 0 or self.rng.random() < 0.2:
            known[k] = []
        else:
            last = int(self.rng.integers(max(k - 20, 0), k))
            mine = [j for j in known.get(last, []) if j >= k - 20]
            known[k] = [*mine, last]
        known.pop(k - 25, None)
        return known[k]


def without(stream, places):
    """Return a stream without some rows."""
    if not places:
        return stream
    kept = np.array([i for i in range(len(stream)) if i not in places], dtype=np.int64)
    rows = stream.rows
    if isinstance(rows, list):
        rows = [rows[i] for i in kept]
    else:
        rows = rows.take(kept) if isinstance(rows, pa.Table) else rows[kept]
    t = None if stream.t is None else stream.t[kept]
    side = {name: [more[i] for i in kept] for name, more in stream.side.items()}
    return replace(stream, rows=rows, t=t, side=side)
