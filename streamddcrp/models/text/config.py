"""Settings of the text engine."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray, IntArray

SHARE = (
    0.06  # of a new table in the weight of all, which after a while is that of `decay` documents
)

OCTAVES = np.arange(-4.0, 4.0)  # about `decay`, of the scales of one that is learned


class Config(NamedTuple):
    """Settings in the kernels' terms; made and checked by `make_config`.

    Attributes
    ----------
    alpha : float
        Weight of a new table, in documents that arrive now, at the start.
    share : float
        If positive, that weight as a part of the documents that come in the time `decay`, at the
        rate of the last documents; it then follows them.
    decay : float
        Documents, or units of time, in which the weight of a document falls to 1/e.
    clocked : bool
        Whether `decay` is measured in time.
    discount, smoothing : float
        d and b of the Pitman-Yor tables and their base measure.
    dissolve : float
        Nats in favour of leaving a table of at most two documents at the last visit.
    retire : float
        Weight below which a table is let go.
    ages : ndarray of int64, shape (R,)
        After how many documents one is visited again; the last is the lag.
    clocks : int
        By how many clocks the decay is learned: none if it is given; that of documents; time, too.
    """

    alpha: float
    share: float
    decay: float
    clocked: bool
    discount: float
    smoothing: float
    dissolve: float
    retire: float
    ages: IntArray
    clocks: int


def make_config(
    *,
    alpha: float | None = None,
    decay: float = 500.0,
    clocked: bool = False,
    discount: float = 0.6,
    smoothing: float = 0.25,
    lag: int = 500,
    revisits: int = 3,
    dissolve: float = 3.0,
    retire: float = 1e-3,
    learned: bool = False,
) -> Config:
    """Check the settings and put them into the kernels' order.

    Parameters
    ----------
    alpha : float, optional
        Default: 0.06 of the documents that come in the time `decay`.
    decay : float
        Where it is learned: about what it is expected to be, in documents.
    clocked : bool
        Whether `decay` is a time; where it is learned: whether documents have times.
    learned : bool
        Whether the decay is learned, see `kernels.scales`.

    Raises
    ------
    ConfigError
        If a setting is out of its range.
    """
    share = 0.0
    for name, number in (("decay", decay), ("alpha", 1.0 if alpha is None else alpha)):
        if isinstance(number, bool | str) or not 0.0 < float(number) < math.inf:
            message = f"{name} must be a positive number, got {number!r}"
            raise ConfigError(message)
    if alpha is None:
        alpha, share = (30.0, SHARE) if clocked or learned else (SHARE * decay, 0.0)
    if isinstance(discount, bool) or not 0.0 < discount < 1.0:
        message = f"discount must lie between 0 and 1, got {discount!r}"
        raise ConfigError(message)
    _check_whole("lag", lag, 1)
    _check_whole("revisits", revisits, 1)
    ages = sorted({max(1, round(lag * (r / revisits) ** 2)) for r in range(1, revisits + 1)})
    return Config(
        float(alpha), share, float(decay), bool(clocked), float(discount), float(smoothing),
        float(dissolve), float(retire), np.array(ages, np.int64),
        (1 + clocked) if learned else 0,
    )  # fmt: skip


def scales_of(config: Config) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
    """Return what a decay that is learned is made of, shape (G,) each.

    Returns
    -------
    scales : ndarray of float64
        Of the exponentials, in documents.
    timed : ndarray of bool
        Whether they are of time: that in which so many documents came at first.
    prior : ndarray of float64
        What part of the documents follows one at each scale, a priori.
    """
    clocks = config.clocks
    prior = np.tile(np.exp(-0.5 * OCTAVES**2), clocks)
    timed = np.repeat(np.arange(clocks) > 0, len(OCTAVES))
    return np.tile(config.decay * 2.0**OCTAVES, clocks), timed, prior / max(prior.sum(), 1.0)


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not float(value).is_integer() or value < least:
        message = f"{name} must be a whole number of at least {least}, got {value!r}"
        raise ConfigError(message)
