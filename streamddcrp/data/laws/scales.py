"""The scale of a column on which it moves as much at every level: as it is, its root, or its log.

A count varies as the root of its rate, and what can only be positive often as its level. Column d
of ``scales`` (2, D) is a power, 1, 1/2 or 0, and what is added before it is taken.
"""

import numpy as np

from streamddcrp.data.laws.filters import FEWEST, NOTHING, Filters, Law, scale_of
from streamddcrp.typing import FloatArray

POWERS = (1.0, 0.5, 0.0)
AS_IT_IS = POWERS[0]
OF_COUNTS = 0.5  # what is added to whole numbers, so that 0 has a log
CLEARLY = 5.0  # nats by which another scale must tell the values better
_TRIED = Law(0.95, 3.0, jumps=False), Law(1.0, 0.3, jumps=False), Law(1.0, 0.3, jumps=True)


def onto(X: FloatArray, scales: FloatArray | None) -> FloatArray:
    """Return rows (N, D) on their scales; NaN where a value has none there."""
    if scales is None:
        return X
    power, added = scales
    above = np.where(X + added > 0.0, X + added, np.nan)
    return np.where(
        power == AS_IT_IS, X, np.where(power > 0.0, 2.0 * np.sqrt(above), np.log(above))
    )


def back(Z: FloatArray, X: FloatArray, scales: FloatArray | None) -> FloatArray:
    """Undo `onto` of rows ``X`` after something was subtracted; a value without a scale stays."""
    if scales is None:
        return Z
    power, added = scales
    root, log = np.maximum(0.5 * Z, 0.0) ** 2, np.exp(np.minimum(Z, 700.0))
    found = np.where(power == AS_IT_IS, Z, np.where(power > 0.0, root, log) - added)
    return np.where(np.isnan(Z), X, found)


def log_slopes(X: FloatArray, scales: FloatArray | None) -> FloatArray:
    """Return the logs of the slopes of the scales at the values of rows (N, D)."""
    if scales is None:
        return np.zeros(X.shape)
    power, added = scales
    above = X + added
    known = (above > 0.0) & (power != AS_IT_IS)
    return np.where(known, (power - 1.0) * np.log(np.where(known, above, 1.0)), 0.0)


def scale_by_rows(x: FloatArray, *, whole: bool) -> tuple[float, float]:
    """Return the scale on which drifts tell the values (N,) of a column best."""
    x = x[np.isfinite(x)]
    added = OF_COUNTS if whole else 0.0
    best, most = AS_IT_IS, -np.inf
    if len(x) < FEWEST or not x.min() + added > 0.0:
        return AS_IT_IS, 0.0
    for power in POWERS:
        scales = np.array([[power], [added]])
        z = onto(x[:, None], scales)
        scale = scale_of(z[:, 0])
        if scale is None:
            continue
        filters, score = Filters.of(len(_TRIED)), np.zeros(len(_TRIED))
        for k, law in enumerate(_TRIED):
            filters.begin(k, law, scale, NOTHING)
        filters.step(np.repeat(z, len(_TRIED), axis=1), score)
        lead = score.max() + log_slopes(x[:, None], scales).sum() - CLEARLY * (power != AS_IT_IS)
        if lead > most:
            best, most = power, float(lead)
    return best, added if best != AS_IT_IS else 0.0


def is_whole(x: FloatArray) -> bool:
    """Whether the values (N,) known of a column are whole numbers."""
    x = x[np.isfinite(x)]
    return bool((x == np.floor(x)).all())
