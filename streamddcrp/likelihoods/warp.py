"""Monotone maps that bring columns with skew or heavy tails closer to a Gaussian.

With z = (x - center) / scale, the image of x is center + scale w(z), so a column keeps its unit. w
is Yeo and Johnson's power about the median (Biometrika 87, 2000), side = 0,

    w(z) = ((1 + z)^a - 1) / a for z >= 0, -((1 - z)^(2 - a) - 1) / (2 - a) for z < 0,

or the logarithm of the distance from an edge of the rows, the low one (side = 1) or the high one
(side = -1), w(z) = side log(side z - edge + offset), continued by its tangent beyond the edge, or,
for heavy tails on both sides, w(z) = asinh(tail z) / tail: linear near the median, logarithmic far
from it, so that power-law tails become exponential. A map found without runs of far rows continues
by its tangent outside ``low`` to ``high``, the range of the other rows, so that values beyond the
tail remain far. Densities of x are those of its image times w'(z).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.typing import FloatArray

FEWEST_ROWS = 32
LARGEST = 1e100  # image; beyond, squares overflow
GAIN = 5.0  # nats that a single Gaussian for all rows must gain
FAR = 3.0  # deviations from the median beyond which successive values may be a regime
BY_CHANCE = 0.01  # accepted expected number of chance runs of far values
GOLDEN = 0.6180339887498949  # its multiples, modulo 1, fill an interval evenly
UNTIED = 0.9  # share of different values below which a column counts as rounded
# Maps that are tried, one in each row.
_POWERS = np.array([[-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0]]).T
_OFFSETS = np.array([[0.01, 0.03, 0.1, 0.3, 1.0, 3.0] * 2]).T
_SIDES = np.array([[1.0] * 6 + [-1.0] * 6]).T
_TAILS = np.array([[0.25, 0.5, 1.0, 2.0, 4.0]]).T  # over the scale


class Warp(NamedTuple):
    """The map of one column; the defaults change nothing."""

    center: float = 0.0
    scale: float = 1.0
    power: float = 1.0
    side: float = 0.0
    edge: float = 0.0
    offset: float = 1.0
    tail: float = 0.0
    low: float = -LARGEST
    high: float = LARGEST

    def apply(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the images of values, and the logs of the slopes there."""
        z = (x - self.center) / self.scale
        inside = np.clip(z, self.low, self.high)
        w, log_slope = self._curve(inside)
        with np.errstate(over="ignore"):
            image = self.center + self.scale * (w + (z - inside) * np.exp(log_slope))
        image = np.clip(image, -LARGEST, LARGEST)
        return np.where(np.isnan(z), np.nan, image), log_slope  # NaN of one sign, however many rows

    def _curve(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        if np.any(self.tail):
            return _asinh(self.tail, z)
        return _log(self, z) if np.any(self.side) else _power(self.power, z)

    def inverse(self, image: FloatArray) -> FloatArray:
        """Return the values of images."""
        w = (image - self.center) / self.scale
        with np.errstate(over="ignore"):
            ends = self._curve(np.array([self.low, self.high]))[0]
        inside = np.clip(w, *ends)
        z = self._inverse(inside)
        return self.center + self.scale * (z + (w - inside) * np.exp(-self._curve(z)[1]))

    def _inverse(self, w: FloatArray) -> FloatArray:
        if self.tail:
            return np.asarray(np.sinh(self.tail * w) / self.tail)
        if self.side:
            least = 0.5 * self.offset
            u = np.maximum(np.exp(self.side * w), least)
            u += least * np.minimum(self.side * w - np.log(least), 0.0)
            return np.asarray(self.side * (u + self.edge - self.offset))
        power = _exponents(self.power, w >= 0.0)
        safe = np.where(power == 0.0, 1.0, power)
        grown = np.log1p(np.maximum(safe * np.abs(w), -1.0 + 1e-12)) / safe
        return np.asarray(np.sign(w) * np.expm1(np.where(power == 0.0, np.abs(w), grown)))

    def __str__(self) -> str:
        """Describe the map in words."""
        if self.tail:
            return f"on a log scale beyond {self.scale / self.tail:g} from {self.center:g}"
        if not self.side:
            return f"to the power {self.power:g} about {self.center:g}"
        start = self.center + self.scale * self.side * (self.edge - self.offset)
        return f"on a log scale {'above' if self.side > 0 else 'below'} {start:g}"


def _exponents(power: Any, positive: NDArray[np.bool_]) -> FloatArray:
    exponents: FloatArray = np.where(positive, power, 2.0 - power)
    return exponents


def _power(power: Any, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    exponent, log_size = _exponents(power, z >= 0.0), np.log1p(np.abs(z))
    safe = np.where(exponent == 0.0, 1.0, exponent)
    size = np.where(exponent == 0.0, log_size, np.expm1(safe * log_size) / safe)
    return np.sign(z) * size, (exponent - 1.0) * log_size


def _asinh(tail: Any, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.arcsinh(tail * z) / tail, -np.log(np.hypot(1.0, tail * z))


def _log(warp: Warp, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    u, least = warp.side * z - warp.edge + warp.offset, 0.5 * warp.offset
    inside = np.maximum(u, least)
    w = np.log(inside) + np.minimum(u - least, 0.0) / least
    return warp.side * w, -np.log(inside)


def images(maps: Sequence[Warp | None], X: FloatArray) -> FloatArray:
    """Return rows (N, D) mapped column by column; None for no map."""
    pairs = zip(maps, X.T, strict=True)
    return np.column_stack([x if warp is None else warp.apply(x)[0] for warp, x in pairs])


def log_slopes(maps: Sequence[Warp | None], X: FloatArray) -> FloatArray:
    """Return the log slopes of the maps at rows (N, D); 0 for missing values."""
    pairs = zip(maps, X.T, strict=True)
    found = [np.zeros(len(X)) if warp is None else warp.apply(x)[1] for warp, x in pairs]
    return np.nan_to_num(np.column_stack(found))


def find_warp(x: FloatArray, step: float = 0.0) -> Warp | None:
    """Return the map that most raises the likelihood of values (N,) under one Gaussian.

    None if no map gains 5 nats, and for repeated values not rounded to steps of ``step``. A rounded
    value stands for any in its cell, so it is replaced by one of a sequence that fills the cell
    evenly. Far values in runs too long for chance are left out: they are a regime, not a tail.
    """
    x = x[np.isfinite(x)]
    if step > 0.0:
        x = x + step * (np.arange(len(x)) * GOLDEN % 1.0 - 0.5)
    if len(x) < FEWEST_ROWS or len(np.unique(x)) <= UNTIED * len(x):
        return None
    low, center, high = (float(q) for q in np.quantile(x, [0.25, 0.5, 0.75]))
    scale = (high - low) / 1.35  # a Gaussian's standard deviation
    if not scale > 0.0:
        return None
    z = (x - center) / scale
    near = ~far_runs(z)
    z = z[near]
    edges = np.min(_SIDES * z, axis=1, keepdims=True)
    logs = Warp._make((0.0, 1.0, 1.0, _SIDES, edges, _OFFSETS, 0.0, -LARGEST, LARGEST))
    with np.errstate(over="ignore", invalid="ignore"):  # powers of far outliers
        pairs = (_power(_POWERS, z), _log(logs, z), _asinh(_TAILS, z))
        gains = np.concatenate([_gains(w, log_slope, z) for w, log_slope in pairs])
    best = int(np.argmax(gains))
    if not gains[best] > GAIN:
        return None
    ends = {} if near.all() else {"low": z.min().item(), "high": z.max().item()}
    if best < len(_POWERS):
        return Warp(center, scale, power=_POWERS[best].item(), **ends)
    best -= len(_POWERS)
    if best < len(_SIDES):
        of = (_SIDES[best].item(), edges[best].item(), _OFFSETS[best].item())
        return Warp(center, scale, 1.0, *of, **ends)
    return Warp(center, scale, tail=_TAILS[best - len(_SIDES)].item(), **ends)


def far_runs(z: FloatArray) -> NDArray[np.bool_]:
    """Return which deviations (N,) are in runs of far ones on a side too long for chance."""
    side = np.where(np.abs(z) > FAR, np.sign(z), 0.0)
    begins = np.flatnonzero(np.diff(side, prepend=np.nan))
    lengths = np.diff(begins, append=len(z))
    share = {s: np.mean(side == s) for s in (-1.0, 1.0)}
    chance = np.array([share.get(s, 1.0) for s in side[begins].tolist()])
    return np.repeat(len(z) * chance**lengths < BY_CHANCE, lengths)


def _gains(w: FloatArray, log_slope: FloatArray, z: FloatArray) -> FloatArray:
    """Return the log likelihood gains of maps, given as rows of ``w`` and ``log_slope``."""
    gains = log_slope.sum(axis=1) - 0.5 * len(z) * np.log(w.var(axis=1) / z.var())
    return np.where(np.isfinite(gains), gains, -np.inf)
