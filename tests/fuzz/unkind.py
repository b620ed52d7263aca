"""Unkind streams of rows and documents, and what must hold on them for every model."""

import time

import numpy as np
import pyarrow as pa

ROW = 0.1  # seconds of CPU time that a row may take


def _ramp(rng, n):
    return np.sort(rng.normal(size=(n, 3)), axis=0)


def _holes(rng, n):
    X = rng.normal(size=(n, 3))
    X[rng.random(X.shape) < 0.8] = np.nan
    return X


def _one_missing(rng, n):
    X = rng.normal(size=(n, 3))
    X[:, 1] = np.nan
    return X


ROWS = {
    "constant": lambda rng, n: np.full((n, 3), 3.25),
    "zero": lambda rng, n: np.zeros((n, 3)),
    "huge": lambda rng, n: 1e30 * rng.normal(size=(n, 3)),
    "tiny": lambda rng, n: 1e-200 * rng.normal(size=(n, 3)),
    "alternating": lambda rng, n: np.where(np.arange(n) % 2, 1e9, -1e9)[:, None] * np.ones(3),
    "duplicated": lambda rng, n: rng.normal(size=(3, 3))[rng.integers(0, 3, n)],
    "sorted": _ramp,
    "far outliers": lambda rng, n: rng.normal(size=(n, 3)) * 1e25 ** (rng.random((n, 1)) < 0.01),
    "all scales": lambda rng, n: rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-9, 9, (n, 1)),
    "Cauchy": lambda rng, n: rng.standard_cauchy((n, 3)),
    "on an offset": lambda rng, n: 1e12 + rng.normal(size=(n, 3)),
}
GAPS = {"holes": _holes, "one missing": _one_missing}
_ODD = ["", " ", "\x00", "a", "the", "\u202e\u0301", "\ud7ff", "\U0001d518" * 40, "x" * 5000,
        "1 2 3", "!?",        "<a href=x>", "東京" * 30, "é" * 99, "-1e308 nan inf"]  # fmt: skip
TEXTS = {
    "the same": lambda rng, n: ["oil price up"] * n,
    "empty": lambda rng, n: [""] * n,
    "odd": lambda rng, n: [_ODD[i] for i in rng.integers(0, len(_ODD), n)],
    "all new": lambda rng, n: [f"a{i} b{i} c{i}" for i in range(n)],
    "one new": lambda rng, n: [f"oil price {i}" for i in range(n)],
    "long": lambda rng, n: [" ".join(f"w{w}" for w in rng.zipf(1.3, 300) % 5000) for _ in range(n)],
    "bursts": lambda rng, n: [f"story{i // 50} word{i % 3}" for i in range(n)],
}


def batch_of(X):
    """Return a table in which NaN is null."""
    columns = {f"c{d}": pa.array(x, mask=np.isnan(x)) for d, x in enumerate(X.T)}
    return pa.table(columns)


def assert_sane(out, wait):
    """Scores after the warm-up are numbers, null where nothing can be scored; so is the rest."""
    for name in out.schema.names:
        column = out.column(name)
        if not pa.types.is_floating(column.type):
            continue
        values = column.slice(wait).to_numpy(zero_copy_only=False)
        if name in ("label_prob", "p_new", "p_change"):
            known = values[~np.isnan(values)]
            assert (known >= 0.0).all(), name
            assert (known <= 1.0 + 1e-9).all(), name
        elif name == "score":
            assert not np.isnan(column.drop_null().to_numpy()).any()
            silent = np.isnan(values)  # texts without words, which have no probability either
            if silent.any():
                prob = out.column("label_prob").slice(wait).to_numpy(zero_copy_only=False)
                assert (np.nan_to_num(prob[silent]) == 0.0).all()
        elif name != "threshold":  # infinite as long as it is not known
            assert np.isfinite(column.drop_null().to_numpy()).all(), name


def assert_summary(table):
    """Spreads are not negative, and nothing that is there is infinite or NaN."""
    for name in table.column_names:
        if not pa.types.is_floating(table.column(name).type):
            continue
        values = table.column(name).drop_null().to_numpy()
        assert not np.isnan(values).any(), name
        if name.startswith(("sd_", "var_", "std_", "weight", "prob", "length")):
            assert (values >= 0.0).all(), name


def slowest(learn, rows, *, by_step):
    """Return the most CPU time that learning one of the rows took.

    ``by_step``: the model learns many rows at a time, so that the last of them waits for all; the
    time of a row is then the mean.
    """
    times = []
    for row in rows:
        begun = time.process_time()
        learn(row)
        times.append(time.process_time() - begun)
    return float(np.mean(times) if by_step else np.max(times))
