"""Settings of the filter for the time-varying Indian buffet process."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.models.features.kernels.layout import MOST_FEATURES, MOST_NEW
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

CHILDREN = 16  # of a particle that compete with those of the others
LONGEST = 100_000  # rows of a window


class Config(NamedTuple):
    """Settings in the kernels' terms; made and checked by `make_config`."""

    order: int  # r: a row sees the r rows before it
    alpha: float
    n_particles: int
    n_children: int
    n_redrawn: int
    merge: bool
    seed: int
    most_new: int  # new features of a row
    most_slots: int  # features of a particle and the baseline
    log: FloatArray  # (r + 3,) log 0 .. log(r + 2)
    ratios: FloatArray  # (G,) noise variance over that of loadings, each as probable


def make_config(
    *,
    window: int,
    alpha: float,
    n_particles: int,
    n_redrawn: int,
    seed: int,
    ratios: Sequence[float],
    merge: bool = True,
    n_children: int = CHILDREN,
    most_new: int = MOST_NEW,
) -> Config:
    """Check the settings and put them into the kernels' order.

    Raises
    ------
    ConfigError
        If a setting is out of its range.
    """
    window = whole("window", window, 1, LONGEST)
    n_particles = whole("n_particles", n_particles, 1)
    n_redrawn = whole("n_redrawn", n_redrawn, 0)
    seed = whole("seed", seed, 0)
    if isinstance(alpha, bool) or not (alpha > 0 and math.isfinite(alpha)):
        message = f"alpha must be a positive number, got {alpha!r}"
        raise ConfigError(message)
    with np.errstate(divide="ignore"):
        log = np.log(np.arange(window + 3.0))
    return Config(
        window, float(alpha), n_particles, n_children, n_redrawn, merge, seed, most_new,
        MOST_FEATURES, log, np.array(ratios, dtype=np.float64),
    )  # fmt: skip
