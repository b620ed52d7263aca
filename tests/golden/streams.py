"""Small fixed streams, and how a case follows one."""

import numpy as np
import pyarrow as pa

WORDS = [
    ["oil", "price", "barrel", "opec", "crude", "output"],
    ["cup", "final", "goal", "team", "match", "coach"],
    ["vote", "poll", "senate", "party", "seat", "läuft"],
    ["storm", "rain", "flood", "coast", "wind", "alert"],
]
PATHS = [(0, 1, 4), (0, 1, 5), (0, 2, 6), (0, 2, 7)]


def regimes(n=240, d=2, seed=0, length=30):
    """Rows of regimes of ``length`` rows, five of them, that come and return."""
    rng = np.random.default_rng(seed)
    order = np.array([0, 1, 2, 1, 0, 3, 2, 4])[np.arange(n) // length % 8]
    levels = rng.normal(0.0, 7.0, (5, d))
    return levels[order] + rng.normal(size=(n, d))


def times(n, seed=1):
    """Times with short and long gaps, some of them equal."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(2.0, n) * (rng.random(n) < 0.9)
    return np.cumsum(gaps + 60.0 * (np.arange(n) % 71 == 70))


def masked(X, seed=2, share=0.08):
    """Rows with missing values, as a masked array."""
    mask = np.random.default_rng(seed).random(X.shape) < share
    mask[0] = False
    return np.ma.masked_array(X, mask)


def with_gaps(X, seed=2):
    """Rows with missing values, as a table with the columns x0, x1, .."""
    rows = masked(X, seed)
    columns = [pa.array(rows.data[:, d], mask=rows.mask[:, d]) for d in range(X.shape[1])]
    return pa.table(columns, names=[f"x{d}" for d in range(X.shape[1])])


def counts(n=200, d=3, seed=3, length=25):
    """Counts of regimes."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 5.0, (4, d))
    return rng.poisson(rates[np.arange(n) // length * 5 % 4]).astype(float)


def bits(n=200, d=4, seed=4, length=25):
    """Zeros and ones of regimes."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(0.5, 0.5, (3, d))
    return (rng.random((n, d)) < chances[np.arange(n) // length % 3]).astype(float)


def mixed(n=200, seed=5):
    """A table of numbers, counts, zeros and ones, and truth values, with nulls."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "flow": pa.array(regimes(n, 1, seed)[:, 0], mask=rng.random(n) < 0.1),
            "count": counts(n, 1, seed)[:, 0].astype(int),
            "bit": bits(n, 1, seed)[:, 0].astype(int),
            "open": pa.array(rng.random(n) < 0.3),
        }
    )


def waves(n=240, seed=6, order=2):
    """A column that follows its own past by laws that change."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n)
    for i in range(order, n):
        slope = (0.9, -0.6, 0.3)[i // 60 % 3]
        x[i] = slope * x[i - 1] + 0.2 * x[i - 2] + (i // 60 % 2) + 0.5 * rng.normal()
    return x[:, None]


def texts(n=240, seed=7, longest=7):
    """Texts of topics that come and go, empty ones among them."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        words = WORDS[(rng.integers(0, 2) + i // 50) % 4]
        more = [f"word{rng.integers(0, 40)}", "the", f"news{i // 7}"]
        out.append(" ".join(rng.choice([*words, *more], size=rng.integers(0, longest))))
    return out


def counted(documents):
    """The same as dictionaries of counts."""
    return [{w: text.split().count(w) for w in sorted(set(text.split()))} for text in documents]


def corpus(n=60, seed=8, V=40):
    """Counts of words (n, V) by a small tree of topics."""
    rng = np.random.default_rng(seed)
    topics = np.kron(np.eye(8), np.full(5, 0.2))[:, :V]
    X = np.zeros((n, V), np.int64)
    for d, path in enumerate(rng.integers(0, 4, n)):
        levels = rng.multinomial(rng.integers(20, 40), rng.dirichlet((5, 3, 2)))
        for level, m in enumerate(levels):
            X[d] += rng.multinomial(m, topics[PATHS[path][level]])
    return X


def points(n=300, seed=9):
    """Points along one common axis and one of three others."""
    rng = np.random.default_rng(seed)
    axes = np.eye(6)[rng.integers(1, 4, n)]
    X = 3.0 * rng.normal(size=(n, 1)) * np.eye(6)[0] + 2.0 * rng.normal(size=(n, 1)) * axes
    return 5.0 + X + 0.1 * rng.normal(size=X.shape)


def features(n=90, seed=10):
    """Rows that are sums of three causes, which come and go."""
    rng = np.random.default_rng(seed)
    causes = np.array([[3.0, 0.0, 3.0, 0.0], [0.0, 4.0, 0.0, 1.0], [2.0, -2.0, 0.0, 3.0]])
    on = rng.random((n, 3)) < 0.5
    on[: n // 3, 2] = on[2 * n // 3 :, 0] = False
    return on @ causes + 0.3 * rng.normal(size=(n, 4))


def cliques(n, r, seed=11):
    """Parents that form cliques: an earlier item of the last r and some of its parents."""
    rng = np.random.default_rng(seed)
    parents = [[]]
    for k in range(1, n):
        last = int(rng.integers(max(k - r, 0), k))
        mine = [j for j in parents[last] if j >= k - r and rng.random() < 0.7]
        parents.append([*mine, last] if rng.random() < 0.9 else [])
    return parents


def follow(record, name, model, rows, t=None, probes=(), at=None, views=(), **side):
    """Let a model step over a stream in four pieces, restored between two; record what it gives.

    The second piece is a single row, which the model learns by `learn_one`.

    Parameters
    ----------
    record : Record
    name : str
        Under which everything is recorded.
    model
        New.
    rows, t
        Of the stream.
    probes : sequence
        Single rows to predict, at the time ``at``, before the last piece and at the end.
    views : sequence of str
        Further methods without arguments, or properties.
    **side : sequences
        What comes with each row, such as parents.

    Returns
    -------
    The model.
    """
    n = len(rows)
    cuts = [0, n // 7, n // 7 + 1, n // 2, n]
    batches, events = [], []
    for k in range(4):
        here = slice(cuts[k], cuts[k + 1])
        if k == 1:
            coming = {key: value[here.start] for key, value in side.items()}
            model.learn_one(
                row_of(rows, here.start), *(() if t is None else (t[here.start],)), **coming
            )
        else:
            batch = (
                rows.slice(here.start, here.stop - here.start)
                if hasattr(rows, "slice")
                else rows[here]
            )
            more = {key: value[here] for key, value in side.items()}
            batches.append(model.step_many(batch, *(() if t is None else (t[here],)), **more))
        events += model.events() if hasattr(model, "events") else []
        if k == 2:
            coming = {key: value[here.stop] for key, value in side.items()}
            time = None if at is None else float(t[here.stop - 1])
            ask(record, f"{name}.half", model, probes[:1], time, coming)
            model = type(model).from_bytes(model.to_bytes())
    record.add(f"{name}.step", pa.Table.from_batches(batches))
    record.add(f"{name}.events", events)
    for view in ("summary", "objective", "n_seen", "n_tables", *views):
        value = getattr(model, view, None)
        if value is not None:
            record.add(f"{name}.{view}", value() if callable(value) else value)
    ask(record, f"{name}.end", model, probes, at, {key: value[-1] for key, value in side.items()})
    record.state(model, f"{name}.state")
    return model


def row_of(rows, i):
    """Return a row of a batch as `learn_one` takes it."""
    if hasattr(rows, "slice"):
        row = rows.slice(i, 1).to_pylist()[0]
        return {name: value for name, value in row.items() if value is not None}
    return dict(enumerate(rows[i].tolist())) if isinstance(rows, np.ndarray) else rows[i]


def ask(record, name, model, probes, at, side):
    """Record the predictions of single rows."""
    for i, x in enumerate(probes):
        time = () if at is None else (at,)
        for method in ("predict_one", "predict_proba_one", "score_one"):
            if hasattr(model, method):
                record.add(f"{name}.{i}.{method}", getattr(model, method)(x, *time, **side))
