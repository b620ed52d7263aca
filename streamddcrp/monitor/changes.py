"""Change points from probabilities of a change, or from labels."""

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.arguments import checked, number_array
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import Autoregression
from streamddcrp.likelihoods.regression import carried_forward
from streamddcrp.monitor.kernels import mark_changes, nearest
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

COST = 5.0  # nats, for a change of regime
ORDER, KAPPA = 8, 0.01  # of the autoregressions that relocate changes
CHUNK = 4096  # rows whose statistics are in memory at a time
STRETCHES = 8  # in the search range of a change
FINEST = 256  # most values compared in such a range
LIBRARY = 2048  # most values on either side
LEAST_SQUARE = 0.01  # distance of a value from its copy, in variances of the column


@checked
def change_points(
    p_change: ArrayLike, threshold: float = 0.9, *, armed: bool = True
) -> tuple[IntArray, bool]:
    """Return the rows at which a change is declared: at most one for each run.

    A change is declared where its probability exceeds ``threshold``. The next one can follow only
    after the probability was below 1 - ``threshold``, when the model is equally sure that the
    present run continues.

    Parameters
    ----------
    p_change : array_like of float, shape (N,)
        The column of that name of `SeqDDCRP.step_many`. NaN or null: unknown.
    threshold : float, default 0.9
        At least 0.5.
    armed : bool, default True
        Whether a change may be declared at once. For a stream in batches: the value returned by the
        previous call.

    Returns
    -------
    rows : ndarray of int64
        Row numbers, increasing.
    armed : bool
        For the next batch.

    Raises
    ------
    ConfigError
        The threshold is not in [0.5, 1).

    Examples
    --------
    >>> rows, armed = change_points([0.0, 0.2, 0.95, 0.99, 0.8, 0.97, 0.05, 0.5, 0.93])
    >>> rows, armed
    (array([2, 8]), False)
    """
    if not 0.5 <= threshold < 1:
        raise ConfigError(f"threshold must be at least 0.5 and below 1, got {threshold!r}")
    p = number_array("p_change", p_change)
    said = (p > threshold).astype(np.int64) - (p < 1.0 - threshold)  # 1: changed, -1: continues
    said = np.concatenate([[-1 if armed else 1], said])
    last = np.maximum.accumulate(np.where(said != 0, np.arange(len(said)), 0))
    state = said[last]
    rows = np.flatnonzero(np.diff(state) > 0)
    return rows.astype(np.int64), bool(state[-1] < 0)


@checked
def label_changes(labels: ArrayLike, hold: int = 10) -> IntArray:
    """Return the rows at which a regime begins, given the tables of the rows.

    A regime may be a mixture of tables, or visit another table for a few rows: 0 0 1 0 0 1 0 0 is
    one regime. Each regime therefore has its own shares of the labels, and the most probable
    segmentation is found, with a cost for each change and each visit.

    `SeqDDCRP.recent_labels` gives labels that use later rows. With them, fewer regimes are missed
    or split than with labels given on arrival.

    Parameters
    ----------
    labels : array_like of int, shape (N,)
        In time order.
    hold : int, default 10
        Least rows of a regime; fewer rows at another table may be a visit.

    Returns
    -------
    ndarray of int64
        Row numbers, increasing.

    Raises
    ------
    ConfigError
        ``hold`` is below 1.

    Notes
    -----
    A regime of N rows, n_l of them with label l of L, has the log evidence of a
    Dirichlet-multinomial with rows of weight one half, because neighbours are correlated:

        sum over l of [log Gamma(n_l / 2 + 2 / L) - log Gamma(2 / L)] - log Gamma(N / 2 + 2).

    A change costs 5 nats. A run of fewer than ``hold`` rows with one label that would cost the
    regime more than 5 + log(L) is a visit: it costs that, and is not counted. Changes lie between
    runs. Only the 256 most probable beginnings of the present regime are kept. O(256 R + N) for R
    runs, and a number for each of the 256 and each label.

    Examples
    --------
    >>> label_changes(5 * [0, 0, 1, 0] + [4, 4, 0, 0] + 5 * [0, 1, 0, 0] + 6 * [4, 4, 5, 4])
    array([44])
    """
    hold = whole("hold", hold, 1)
    known, codes = np.unique(number_array("labels", labels), return_inverse=True)
    if len(codes) == 0:
        return np.empty(0, dtype=np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(codes) != 0))
    change = np.empty(len(starts), dtype=np.bool_)
    mark_changes(
        codes[starts].astype(np.int64), np.append(starts, len(codes)).astype(np.int64),
        len(known), hold, COST, change,
    )  # fmt: skip
    return starts[change].astype(np.int64)


@checked
def relocate_changes(changes: ArrayLike, signal: ArrayLike, within: int) -> IntArray:
    """Return the most probable rows of a signal's changes, given rough positions.

    For changes found in features of windows, such as those of `WindowFeatures`: a window across a
    change resembles neither side, so the change is known to about a window. Here every row nearby
    is tried, by how well two autoregressions explain the two sides, and by how well the signal
    before and after it resembles its side.

    Parameters
    ----------
    changes : array_like of int, shape (C,)
        Rows at which a regime begins, increasing, between 1 and N - 1.
    signal : array_like of float, shape (N,) or (N, D)
        The rows themselves; NaN marks a missing value.
    within : int
        Largest distance in rows of a change from its given position: the length of a window.

    Returns
    -------
    ndarray of int64, shape (C,)
        Increasing: a change moves at most half way to the previous one, as relocated, and to the
        next.

    Raises
    ------
    ConfigError
        ``within`` is below 1, or the changes do not increase or are not rows of the signal.
    SchemaError
        The signal has another shape, or a value beyond 1e40.

    Notes
    -----
    A change at row c, between rows a and b and restricted to f to l, has log evidence

        log m(a .. c) + log m(c .. b) + sum over f <= t < c of p(t) + sum over c <= t < l of q(t).

    m is the marginal likelihood of `Autoregression` on the last 8 values, coefficients and noise
    integrated out. p(t) is -1/2 log(d + .01): d is the mean squared distance, in variances of the
    column, of the stretch of within / 8 rows that ends at t to the nearest disjoint one that lies
    before f. q(t) is the reverse: for the stretch that begins at t, and those from l on. A stretch
    across the change therefore counts on neither side, and the shape of a period need not be known.
    Both sides have equally many rows to compare with, at most 2048 and at least two stretches; else
    p and q are 0. If ``within`` is above 256, every second, third .. row is compared. Columns add
    up, and the first maximum counts. Time is O(D N + C D within), memory O(D N); a row nearby costs
    a factor of 45 for the order, and 8192 steps for the stretches.

    Examples
    --------
    >>> signal = np.sin(2 * np.pi * np.arange(400) / 20)
    >>> signal[210:] = np.sign(signal[210:])  # waves become blocks
    >>> relocate_changes([240], signal, within=80)
    array([210])
    """
    within = whole("within", within, 1)
    X = number_array("signal", signal, ndim=None)
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2:
        raise SchemaError(f"signal must have shape (N,) or (N, D), got {X.shape}")
    edges = np.concatenate([[0], number_array("changes", changes, whole=True), [len(X)]])
    if len(edges) == 2:
        return edges[1:-1]
    if not (np.diff(edges) > 0).all():
        raise ConfigError(
            f"changes must rise and lie between 1 and {len(X) - 1}, the rows of the signal"
        )
    family = Autoregression(ORDER, kappa=KAPPA).scaled(X)
    family.check_rows(X)
    X = np.concatenate([np.full((ORDER, X.shape[1]), np.nan), X])
    known = carried_forward(X)
    scaled = np.nan_to_num((known[ORDER:] - family.mean) / family.scale)
    for i in range(1, len(edges) - 1):
        before, found, after = edges[i - 1 : i + 2].tolist()
        first = found - min(within, (found - before) // 2)
        last = found + min(within, (after - found) // 2)
        left = np.cumsum(
            [_sum(family, X, known, before, first), *_each(family, X, known, first, last)], axis=0
        )
        right = left[-1] - left + _sum(family, X, known, last, after)
        evidence = family.log_marginal(left) + family.log_marginal(right)
        for column in scaled.T:
            evidence += _likeness(column, within, before, first, last, after)
        edges[i] = first + np.argmax(evidence)
    return edges[1:-1]


def _likeness(
    column: FloatArray, within: int, before: int, first: int, last: int, after: int
) -> FloatArray:
    """Return the sums of p and q for a change at each row from ``first`` to ``last``."""
    step = -(-within // FINEST)
    length = max(within // (STRETCHES * step), 1)
    n_known = min(LIBRARY, (first - before) // step, (after - last) // step)
    if n_known < 2 * length:
        return np.zeros(last - first + 1)
    back = n_known * step
    sums: list[FloatArray] = []
    for values in column[first - back : last : step], column[first : last + back][::-1][::step]:
        square = np.empty(len(values) - n_known)
        nearest(np.ascontiguousarray(values), n_known, length, square)
        rows = np.repeat(-0.5 * np.log(square + LEAST_SQUARE), step)[: last - first]
        sums.append(np.concatenate([[0.0], np.cumsum(rows)]))
    return sums[0] + sums[1][::-1]


def _each(
    family: Autoregression, X: FloatArray, known: FloatArray, start: int, end: int
) -> FloatArray:
    """Return statistics (N, P) of rows with ``ORDER`` predecessors; ``known`` has no gaps."""
    return family.suffstats(X[start + ORDER : end + ORDER], known[start : start + ORDER])


def _sum(
    family: Autoregression, X: FloatArray, known: FloatArray, start: int, end: int
) -> FloatArray:
    total = np.zeros(family.n_stats(X.shape[1]))
    for at in range(start, end, CHUNK):
        total += _each(family, X, known, at, min(at + CHUNK, end)).sum(axis=0)
    return total
