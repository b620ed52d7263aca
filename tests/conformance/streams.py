"""Streams that models are tested on: rows, and what comes with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

WORDS = [
    ["oil", "price", "barrel", "opec", "crude", "output"],
    ["cup", "final", "goal", "team", "match", "coach"],
    ["vote", "poll", "senate", "party", "seat", "läuft"],
]


@dataclass(frozen=True)
class Stream:
    """Rows in the order of time.

    Attributes
    ----------
    rows : array, table or list
        A batch as a model takes it.
    t : ndarray of float, optional
        A time for each row.
    side : dict of str to list
        What else comes with each row, by the name of the argument.
    """

    rows: Any
    t: Any = None
    side: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, part):
        t = None if self.t is None else self.t[part]
        return Stream(self.rows[part], t, {name: more[part] for name, more in self.side.items()})

    @property
    def more(self):
        """Everything but the rows, as arguments."""
        return dict(self.side) if self.t is None else {"t": self.t, **self.side}

    @property
    def both(self):
        return self.rows, self.t

    @property
    def untimed(self):
        return replace(self, t=None)

    def one(self, i):
        """Return a row as `learn_one` takes it, and its other arguments."""
        row = self.rows[i : i + 1]
        if isinstance(row, pa.Table):
            x = row.to_pylist()[0]
        elif isinstance(row, np.ndarray):
            x = row[0].item() if row.ndim == 1 else dict(enumerate(row[0].tolist()))
        else:
            x = row[0]
        return x, {name: part[i] for name, part in self.more.items()}


def clock(seed, n):
    return np.cumsum(np.random.default_rng(seed + 1).exponential(1.0, n))


def levels(seed, n=90, d=2):
    """Four regimes that come and go."""
    rng = np.random.default_rng(seed)
    label = np.repeat(rng.integers(0, 4, n), rng.integers(1, 20, n))[:n]
    return Stream(rng.normal(0, 5, (4, d))[label] + rng.normal(size=(n, d)), clock(seed, n))


def with_holes(seed):
    """The same with a fifth of the values missing, by name."""
    stream = levels(seed)
    holes = np.random.default_rng(seed).random(stream.rows.shape) < 0.2
    holes[0] = False
    columns = zip("ba", stream.rows.T, holes.T, strict=True)
    table = pa.table({name: pa.array(x, mask=mask) for name, x, mask in columns})
    return replace(stream, rows=table)


def mixed(seed, n=90):
    """A level, a flag and a rate of two regimes; a tenth of all values is missing."""
    rng = np.random.default_rng(seed)
    second = np.repeat([False, True, False], n // 3)
    columns = {
        "temp": np.where(second, 30.0, 10.0) + rng.normal(size=n),
        "open": rng.random(n) < np.where(second, 0.9, 0.1),
        "starts": rng.poisson(np.where(second, 6.0, 1.0)),
    }
    holes = rng.random((n, 3)) < 0.1
    holes[0] = False
    parts = {
        name: pa.array(x, mask=mask)
        for (name, x), mask in zip(columns.items(), holes.T, strict=True)
    }
    return Stream(pa.table(parts), clock(seed, n))


def with_parents(seed):
    """Parents that form cliques: an earlier item of the last 20 and some of its parents."""
    stream, rng, parents = levels(seed), np.random.default_rng(seed), [[]]
    for k in range(1, len(stream)):
        last = int(rng.integers(max(k - 20, 0), k))
        mine = [j for j in parents[last] if j >= k - 20 and rng.random() < 0.7]
        parents.append([*mine, last] if rng.random() < 0.9 else [])
    return replace(stream, side={"parents": parents})


def with_groups(seed, n=90):
    stream = levels(seed, n)
    group = np.random.default_rng(seed).integers(0, 3, len(stream))
    return replace(stream, side={"group": ["abc"[g] for g in group]})


def with_nodes(seed):
    stream = with_groups(seed)
    return replace(stream, side={"group": [("xy"[g == "c"], g) for g in stream.side["group"]]})


def with_keys(seed):
    stream = levels(seed)
    keys = np.random.default_rng(seed).choice(["p", "q", "r"], len(stream))
    table = pa.table({"key": keys, "a": stream.rows[:, 0], "b": stream.rows[:, 1]})
    return replace(stream, rows=table)


def directions(seed, n=120):
    """Vectors about three directions, then about three others."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n) + (np.arange(n) > n // 2)
    return Stream(np.eye(16)[label] + rng.normal(0.0, 0.1, (n, 16)), clock(seed, n))


def causes(seed, n=120, d=4, offset=0.0):
    """Three features that are on and off: one only before the middle, one only after it."""
    rng = np.random.default_rng(seed)
    first = np.arange(n)[:, None] < n // 2
    Z = rng.random((n, 3)) < np.where(first, [0.5, 0.5, 0.0], [0.0, 0.5, 0.5])
    X = Z @ (3.0 * rng.normal(size=(3, d))) + 0.3 * rng.normal(size=(n, d)) + offset
    return Stream(X, clock(seed, n))


def long_causes():
    return Stream(np.concatenate([causes(seed, 1000).rows for seed in range(20)]))


def causes_with_holes(seed):
    stream = causes(seed)
    holes = np.add.outer(np.arange(len(stream)), np.arange(4)) % 9 == 0
    columns = zip("abcd", stream.rows.T, holes.T, strict=True)
    table = pa.table({name: pa.array(x, mask=mask) for name, x, mask in columns})
    return replace(stream, rows=table)


def epochs(seed, n=80, d=2):
    """Rows of clusters that come and go, several rows a time."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 14, n)) * 0.5
    z = (rng.integers(0, 3, n) + (t > 3.5)) % 4
    return Stream(rng.normal(0, 8, (4, d))[z] + rng.normal(size=(n, d)), t)


def epochs_of_texts(seed, n=60):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 10, n)).astype(float)
    out = []
    for i in range(n):
        words = [WORDS[0][:4], WORDS[1][:4], WORDS[2][:2]][rng.integers(0, 3)]
        out.append(" ".join(rng.choice([*words, f"word{i % 7}", "the"], size=rng.integers(0, 7))))
    return Stream(out, t)


def few_epochs_of_texts(seed):
    return epochs_of_texts(seed, 16)


GERMAN = ["der", "die", "das", "und", "nicht", "ein", "eine", "auf", "mit", "dem", "den", "von"]


def texts(seed, n=150):
    """Texts of topics that come and go, empty ones among them."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.exponential(0.8, n))
    out = []
    for i in range(n):
        words = WORDS[(rng.integers(0, 2) + i // 60) % 3]
        more = [f"word{rng.integers(0, 40)}", "the", "news" + str(i // 7)]
        out.append(" ".join(rng.choice([*words, *more], size=rng.integers(0, 7))))
    return Stream(out, t)


def texts_without_spaces(seed):
    """The same in Chinese characters, two for each word."""
    stream = texts(seed)
    written = [
        "".join(
            chr(0x4E00 + sum(word.encode()) % 400) + chr(0x5200 + len(word)) for word in row.split()
        )
        for row in stream.rows
    ]
    return replace(stream, rows=written)


def german_texts(seed):
    """The same with German stop words, from the fortieth text on."""
    stream, rng = texts(seed), np.random.default_rng(seed)
    written = [
        " ".join([*row.split(), *rng.choice(GERMAN, 3, replace=False)]) if i >= 40 and row else row
        for i, row in enumerate(stream.rows)
    ]
    return replace(stream, rows=written)


def untimed_texts(seed):
    return texts(seed).untimed


def turnover(seed=5):
    """Texts of 40 times 300 words of their own."""
    rng, rows = np.random.default_rng(seed), []
    for part in range(40):
        own = [f"t{part}w{i}" for i in range(300)]
        rows += [" ".join(rng.choice(own[:: 1 + i % 7], 7)) for i in range(500)]
    return Stream(rows)


def texts_with_keys(seed):
    stream = texts(seed)
    keys = np.random.default_rng(seed).choice(["p", "q", "r"], len(stream))
    return replace(stream, rows=pa.table({"key": keys, "text": stream.rows}))


PATHS = [(0, 1, 4), (0, 1, 5), (0, 2, 6), (0, 2, 7)]


def corpus(D, seed=0, V=40):
    """Return counts (D, V) and paths: every node of a small tree has five words of its own."""
    rng = np.random.default_rng(seed)
    topics = np.zeros((8, V))
    for k in range(8):
        topics[k, 5 * k : 5 * k + 5] = 0.2
    X = np.zeros((D, V), np.int64)
    paths = rng.integers(0, 4, D)
    for d in range(D):
        sizes = rng.multinomial(rng.integers(20, 40), rng.dirichlet((5, 3, 2)))
        for level, n in enumerate(sizes):
            X[d] += rng.multinomial(n, topics[PATHS[paths[d]][level]])
    return X, paths


def counts(seed, n=300):
    return Stream(corpus(n, seed)[0])


def many_counts():
    X = corpus(4000)[0]
    return Stream(np.concatenate([X[:1000], *[X[1000:]] * 3]))


def points(n, seed=0):
    """Points along a common direction and one of three others."""
    rng = np.random.default_rng(seed)
    axes = np.eye(6)[rng.integers(1, 4, n)]
    X = 3.0 * rng.normal(size=(n, 1)) * np.eye(6)[0] + 2.0 * rng.normal(size=(n, 1)) * axes
    return 5.0 + X + 0.1 * rng.normal(size=X.shape)


def waves(n, d=1, period=9.0, seed=0):
    time = np.arange(n)[:, None] + 3.0 * np.arange(d)
    return np.sin(2 * np.pi * time / period) + 0.1 * np.random.default_rng(seed).normal(size=(n, d))


def points_of_tree(seed):
    return Stream(points(300, seed))


def binary_rows(seed, n=300):
    """Whether the coordinates of such points are above the centre."""
    return Stream((points(n, seed) > 5.0).astype(float))


def some_waves(seed):
    rng = np.random.default_rng(seed)
    return Stream(waves(int(rng.integers(60, 500)), 3 - seed % 3, seed=seed))


def cycles(seed, n=300):
    """Waves, the time of most rows their number; some rows are lost."""
    X = waves(n, 2, seed=seed) + 4.0 * (np.arange(n) > 2 * n // 3)[:, None]
    kept = np.flatnonzero(np.random.default_rng(seed).random(n) < 0.9)
    return Stream(X[kept], kept.astype(np.float64))


def hours(seed):
    """Days of rows by the hour, the last of them on another level."""
    hour = np.arange(330.0)
    X = np.sin(2 * np.pi * (hour[:, None] / 24 + [0.0, 0.3])) * 5.0
    X += np.random.default_rng(seed).normal(size=X.shape) + 6.0 * (hour > 200)[:, None]
    return Stream(X, 3600.0 * hour)


def waves_with_holes(seed):
    X = waves(450, 2, seed=seed)
    holes = np.random.default_rng(seed).random(X.shape) < 0.3
    holes[0] = False
    columns = zip("ba", X.T, holes.T, strict=True)
    return Stream(pa.table({name: pa.array(x, mask=mask) for name, x, mask in columns}))


def jumps(seed, n=120):
    """Four levels, and ten rows that are far off."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + np.repeat(rng.normal(0, 5, (4, 2)), n // 4, axis=0)
    X[n // 2 : n // 2 + 10] += 50.0
    return Stream(X, clock(seed, n))


def surprises(seed, n=400):
    rng = np.random.default_rng(seed)
    scores = rng.exponential(size=n) + 8.0 * (rng.random(n) < 0.02)
    scores[rng.random(n) < 0.01] = np.nan
    return Stream(scores)


def tokens(seed, n=80):
    """Numbers of words that repeat what came lately."""
    rng = np.random.default_rng(seed)
    word = [0]
    for _ in range(n - 1):
        old = rng.random() < 0.6
        word.append(word[-min(rng.integers(1, 10), len(word))] if old else int(rng.integers(6)))
    gaps = rng.choice([0.0, 0.3, 1.0, 7.5, 1e4], n)
    return Stream(np.array(word), np.cumsum(gaps))


def words(seed):
    stream = tokens(seed)
    return replace(stream, rows=[f"w{v}" for v in stream.rows])
