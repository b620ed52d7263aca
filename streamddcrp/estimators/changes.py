"""From probabilities of a change, or from labels, to change points."""

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError
from streamddcrp.typing import IntArray

__all__ = ["change_points", "label_changes"]


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


def label_changes(labels: ArrayLike, hold: int = 5) -> IntArray:
    """Return the rows at which a label begins that holds for some rows and is not the one before.

    Runs shorter than ``hold`` rows are passed over, so that A A A B A A A is one regime. For labels
    that have settled, see `SeqDDCRP.recent_labels`.

    Parameters
    ----------
    labels : array_like of int, shape (N,)
        In the order of time.
    hold : int, default 5
        Rows from which a run counts.

    Returns
    -------
    ndarray of int64
        Numbers of rows, rising.

    Raises
    ------
    ConfigError
        If ``hold`` is not at least 1.

    Examples
    --------
    >>> label_changes([0, 0, 0, 7, 0, 0, 0, 2, 2, 2, 2], hold=3)
    array([7])
    """
    if hold < 1:
        message = f"hold must be at least 1 row, got {hold!r}"
        raise ConfigError(message)
    given = np.asarray(labels)
    starts = np.flatnonzero(np.append(True, given[1:] != given[:-1])[: len(given)])
    starts = starts[np.diff(starts, append=len(given)) >= hold]
    held = given[starts]
    return starts[1:][held[1:] != held[:-1]].astype(np.int64)
