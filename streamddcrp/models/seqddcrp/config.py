"""Settings of the streaming engine."""

import math
from typing import NamedTuple

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray


class Config(NamedTuple):
    """Settings of the engine in the kernels' terms; made and checked by `make_config`."""

    family: int
    hyper: FloatArray  # the base measure, moved in place where it is learned
    start: FloatArray  # the base measure at the start
    decay_code: int
    decay_location: float
    decay_scale: float
    alpha: float  # at the start
    alpha_rate: float  # of the Gamma(1, rate) prior of alpha; infinity: alpha is not learned
    learn_prior: bool  # whether the base measure is learned
    memory: float  # most evicted customers that a table remembers; the rest is scaled down
    gamma: float  # concentration of the atoms
    recall: bool  # False: every table has a parameter of its own (gamma to infinity)
    window: int
    sweep_every: int
    n_sweeps: int
    look_back: int  # most arrivals that a move gives to a new table
    birth_threshold: float
    max_tables: int
    tied: bool  # evicted customers join groups tied to the prior's proportions; else kept alone
    halo: int  # how many evicted customers are kept alone


def make_config(
    *,
    family: int,
    hyper: FloatArray,
    decay: tuple[int, float, float],
    alpha: float,
    alpha_rate: float = math.inf,
    learn_prior: bool = False,
    memory: float = math.inf,
    gamma: float,
    recall: bool,
    window: int,
    sweep_every: int,
    n_sweeps: int,
    look_back: int,
    birth_threshold: float,
    max_tables: int,
    tied: bool,
    halo: int,
) -> Config:
    """Check the settings and put them into the kernels' order."""
    for name, count, least in (
        ("window", window, 1), ("sweep_every", sweep_every, 1), ("max_tables", max_tables, 1),
        ("n_sweeps", n_sweeps, 0), ("look_back", look_back, 0),
    ):  # fmt: skip
        if not float(count).is_integer() or count < least:
            message = f"{name} must be a whole number of at least {least}, got {count!r}"
            raise ConfigError(message)
    for name, value in (("alpha", alpha), ("gamma", gamma)):
        if not (value > 0 and (math.isfinite(value) or name == "gamma")):
            message = f"{name} must be a positive number, got {value!r}"
            raise ConfigError(message)
    if not memory >= 1:
        message = f"memory must be at least 1 row, or infinity, got {memory!r}"
        raise ConfigError(message)
    if not 0 < birth_threshold < 1:
        message = f"birth_threshold must lie between 0 and 1, got {birth_threshold!r}"
        raise ConfigError(message)
    recall = recall and math.isfinite(gamma)
    return Config(
        family, hyper, hyper.copy(), *decay, float(alpha), float(alpha_rate),
        bool(learn_prior), float(memory), float(gamma) if recall else math.inf, bool(recall),
        int(window), int(sweep_every), int(n_sweeps), int(look_back), float(birth_threshold),
        int(max_tables), tied, halo,
    )  # fmt: skip
