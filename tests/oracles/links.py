"""Dense prior links of a sequential ddCRP, for small N."""

import numpy as np

from streamddcrp.decay.base import Decay
from streamddcrp.errors import OrderError, SchemaError
from streamddcrp.typing import ArrayLike, FloatArray
from streamddcrp.validation import positive


def prior_links(decay: Decay, alpha: float, times: int | ArrayLike) -> FloatArray:
    """Return the log prior of all links, log p(c_i = j) for j <= i.

    p(c_i = j) = f(t_i - t_j) / S_i and p(c_i = i) = alpha / S_i, with
    S_i = alpha + sum_{j<i} f(t_i - t_j). Dense, O(N^2).

    Parameters
    ----------
    decay : Decay
    alpha : float
        Concentration, > 0.
    times : int or array_like of float, shape (N,)
        The number of customers, the distance being the difference of their indices; or their
        times, in an order that never falls.

    Returns
    -------
    ndarray of float64, shape (N, N)
        Lower triangular; -inf above the diagonal and for impossible links.

    Examples
    --------
    >>> from streamddcrp.decay import NoDecay
    >>> import numpy as np
    >>> np.exp(prior_links(NoDecay(), 0.5, 3))
    array([[1.    , 0.    , 0.    ],
           [0.6667, 0.3333, 0.    ],
           [0.4   , 0.4   , 0.2   ]])
    """
    log_alpha = np.log(positive("prior_links: alpha", alpha))
    if isinstance(times, int | np.integer):
        if isinstance(times, bool) or times < 0:
            message = f"times: expected a number of customers >= 0 or their times, got {times!r}"
            raise SchemaError(message)
        t = np.arange(times, dtype=np.float64)
    else:
        t = np.asarray(times, dtype=np.float64)
    if t.ndim != 1 or not np.isfinite(t).all():
        message = f"times: expected one finite time per customer, got an array of shape {t.shape}"
        raise SchemaError(message)
    if np.any(t[1:] < t[:-1]):
        row = 1 + int(np.flatnonzero(t[1:] < t[:-1])[0])
        message = f"times: time {t[row]} of customer {row} is before {t[row - 1]}; sort by time"
        raise OrderError(message, row=row)
    out = np.full((t.size, t.size), -np.inf)
    for i in range(t.size):
        out[i, :i] = decay.log_weight(t[i] - t[:i])
        out[i, i] = log_alpha
        top = out[i, : i + 1].max()
        out[i, : i + 1] -= top + np.log(np.exp(out[i, : i + 1] - top).sum())
    return out
