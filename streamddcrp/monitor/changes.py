"""From probabilities of a change, or from labels, to change points."""

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError
from streamddcrp.monitor.kernels import mark_changes
from streamddcrp.typing import IntArray

COST = 5.0  # nats, of a change of regime


def change_points(
    p_change: ArrayLike, threshold: float = 0.9, *, armed: bool = True
) -> tuple[IntArray, bool]:
    """Return the rows at which a change is declared: at most one in a run.

    A change is declared where its probability rises above ``threshold``; the next one can only be
    declared once the probability has been below 1 - ``threshold``, that is once the model is as
    sure that the present run goes on.

    Parameters
    ----------
    p_change : array_like of float, shape (N,)
        The column of that name of `SeqDDCRP.step_many`. NaN or null: nothing is known.
    threshold : float, default 0.9
        At least 0.5.
    armed : bool, default True
        Whether a change may be declared at once. For a stream in batches: what the call for the
        batch before returned.

    Returns
    -------
    rows : ndarray of int64
        Numbers of rows, rising.
    armed : bool
        For the next batch.

    Raises
    ------
    ConfigError
        If the threshold is not in [0.5, 1).

    Examples
    --------
    >>> rows, armed = change_points([0.0, 0.2, 0.95, 0.99, 0.8, 0.97, 0.05, 0.5, 0.93])
    >>> rows, armed
    (array([2, 8]), False)
    """
    if not 0.5 <= threshold < 1:
        message = f"threshold must be at least 0.5 and below 1, got {threshold!r}"
        raise ConfigError(message)
    p = np.asarray(p_change, dtype=np.float64)
    said = (p > threshold).astype(np.int64) - (p < 1.0 - threshold)  # 1: changed, -1: goes on
    said = np.concatenate([[-1 if armed else 1], said])
    last = np.maximum.accumulate(np.where(said != 0, np.arange(len(said)), 0))
    state = said[last]
    rows = np.flatnonzero(np.diff(state) > 0)
    return rows.astype(np.int64), bool(state[-1] < 0)


def label_changes(labels: ArrayLike, hold: int = 10) -> IntArray:
    """Return the rows at which a regime begins, by the tables that its rows sit at.

    A regime may be a mixture of tables, and visit another one for a few rows: 0 0 1 0 0 1 0 0 is
    one regime. So each regime has shares of the labels of its own, and the rows are divided such
    that this is most probable, each change and each visit at a price.

    `SeqDDCRP.recent_labels` gives labels in which later rows have had their say; with them, fewer
    regimes are missed and broken than with labels given on arrival.

    Parameters
    ----------
    labels : array_like of int, shape (N,)
        In the order of time.
    hold : int, default 10
        Rows that a regime has at least; fewer rows at another table may be a visit.

    Returns
    -------
    ndarray of int64
        Numbers of rows, rising.

    Raises
    ------
    ConfigError
        If ``hold`` is below 1.

    Notes
    -----
    A regime of N rows, n_l of them with label l of L, has the log evidence of a
    Dirichlet-multinomial in which a row counts for a half, as neighbours follow each other:

        sum over l of [log Gamma(n_l / 2 + 2 / L) - log Gamma(2 / L)] - log Gamma(N / 2 + 2).

    A change costs 5 nats. A run of fewer than ``hold`` rows with one label that would cost the
    regime more than 5 + log(L) is a visit: it costs that, and is not counted. Changes lie between
    runs. Of the places where the present regime may have begun, the 256 most probable ones are
    remembered. O(256 R + N) for R runs, and a number for each of the 256 and each label.

    Examples
    --------
    >>> label_changes(5 * [0, 0, 1, 0] + [4, 4, 0, 0] + 5 * [0, 1, 0, 0] + 6 * [4, 4, 5, 4])
    array([44])
    """
    if hold < 1:
        message = f"hold must be at least 1 row, got {hold!r}"
        raise ConfigError(message)
    known, codes = np.unique(np.asarray(labels), return_inverse=True)
    if len(codes) == 0:
        return np.empty(0, dtype=np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(codes) != 0))
    change = np.empty(len(starts), dtype=np.bool_)
    mark_changes(
        codes[starts].astype(np.int64), np.append(starts, len(codes)).astype(np.int64),
        len(known), int(hold), COST, change,
    )  # fmt: skip
    return starts[change].astype(np.int64)
