"""What batch functions of the temporal mixture are given: epochs of rows, weights of the past."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from streamddcrp.data import as_observations
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.typing import FloatArray

_NOTHING = 1e-12  # a weight below which an epoch is forgotten


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number or too small."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        message = f"{name} must be a whole number >= {least}, got {value!r}"
        raise ConfigError(message)


def past_weights(decay: object, width: int) -> tuple[float, ...]:
    """Return the weights of the 1, 2, .. ``width`` epochs before; the decay is in epochs.

    Raises
    ------
    ConfigError
        The width is not a whole number >= 1, or all weights vanish.
    """
    check_whole("width", width, 1)
    weights = make_decay(decay).weight(np.arange(1.0, width + 1.0))
    last = np.flatnonzero(weights > _NOTHING)
    if not len(last):
        message = (
            f"decay {decay!r} forgets an epoch within the next: no component could go on; "
            f"choose a longer scale"
        )
        raise ConfigError(message)
    return tuple(weights[: last[-1] + 1].tolist())


def count_settings(alpha: Any, decay: object, width: int | None) -> dict[str, Any]:
    """Return the settings of an engine that say how counts follow from those before.

    ``alpha`` None, and ``decay`` and ``width`` both None: learned. One of the latter alone: three
    epochs, or weights exp(-1), exp(-2), ..

    Raises
    ------
    ConfigError
        An option is out of range.
    """
    if alpha is not None and (isinstance(alpha, bool) or not 0.0 < alpha < math.inf):
        message = f"alpha must be a positive number or None, got {alpha!r}"
        raise ConfigError(message)
    decay_or_first = ("exponential", 1.0) if decay is None else decay
    return {
        "alpha": 1.0 if alpha is None else float(alpha),
        "kappa": past_weights(decay_or_first, 3 if width is None else width),
        "learn_alpha": alpha is None,
        "learn_kappa": decay is None and width is None,
    }


def as_epochs(epochs: Iterable[Any]) -> list[FloatArray]:
    """Return epochs of rows as matrices (N_t, D), all as wide as the first that is not empty.

    Masked values become NaN.

    Raises
    ------
    SchemaError
        An epoch is not a matrix of finite numbers; the message names it.
    """
    given = list(epochs)
    out: list[FloatArray] = []
    width = next((np.shape(X)[1] for X in given if np.ndim(X) == 2 and len(X)), None)
    if all(len(X) == 0 for X in given):
        message = "epochs hold no rows; at least one row is needed"
        raise SchemaError(message)
    for t, X in enumerate(given):
        try:
            rows = as_observations(X) if len(X) else np.zeros((0, width or 0))
            if width is not None and rows.shape[1] != width:
                message = f"batch: expected {width} columns, got {rows.shape[1]}"
                raise SchemaError(message)
        except SchemaError as error:
            message = f"epoch {t}, {error}"
            raise SchemaError(message, row=error.row) from None
        out.append(rows)
    return out
