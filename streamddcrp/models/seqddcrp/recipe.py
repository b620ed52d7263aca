"""How an engine is created from a model's options and first rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from streamddcrp.data import typical_gap
from streamddcrp.decay import Decay, Exponential
from streamddcrp.estimator.stored import past_of, refuse_unless_plain
from streamddcrp.likelihoods import Likelihood, likelihood_from_config
from streamddcrp.likelihoods.restored import take_up
from streamddcrp.models.seqddcrp.config import Candidate, Config, Preset, halo_of, make_config
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.state import State, empty_state, state_from_arrays
from streamddcrp.numerics import NO_DECAY
from streamddcrp.records import refuse_if
from streamddcrp.typing import FloatArray

_GAPS = np.arange(1.0, 65.0)
_ENDLESS = 10.0  # assumed weight of earlier arrivals if it grows without bound


def _mass_of(decay: Decay) -> float:
    return _mass(decay) if isinstance(decay, Exponential) else float(np.sum(decay.weight(_GAPS)))


@lru_cache(64)
def _mass(decay: Exponential) -> float:
    return float(np.sum(decay.weight(_GAPS)))


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe for creating an engine from a model's options and first rows.

    ``reaches``: scales of the exponential decay to choose from; empty if it is given. ``alpha`` and
    ``time_unit``: None to learn them, or take them from the first rows. ``settings``: those of
    `make_config` fixed by options. ``correlate``: columns may depend on each other within tables.
    """

    decay: Decay
    reaches: tuple[float, ...]
    preset: Preset
    alpha: float | None
    time_unit: float | None
    settings: dict[str, Any]
    temper: bool
    warp: bool
    correlate: bool

    def config(
        self,
        hyper: FloatArray,
        family: int,
        decay: Decay,
        *,
        clocked: bool,
        opening: float,
        power: float = 1.0,
    ) -> Config:
        """Return checked settings, with the initial alpha set for the expected openings."""
        alpha, rate = self.alpha or 1.0, math.inf
        if self.alpha is None:
            alpha = opening * (_ENDLESS if decay.code == NO_DECAY else _mass_of(decay))
            rate = 1.0 / alpha
        tied, halo = halo_of(decay, alpha, self.settings["window"], clocked=clocked)
        return make_config(
            family=family, hyper=hyper, decay=(decay.code, decay.location, decay.scale),
            alpha=alpha, alpha_rate=rate, power=power, tied=tied, halo=halo,
            far=max(self.reaches, default=0.0), **self.settings,
        )  # fmt: skip

    def start(
        self, likelihood: Likelihood, n_features: int, opening: float, decay: Decay,
        first_time: float | None, unit: float = 1.0, arrays: Mapping[str, Any] | None = None,
        n_rows: int | None = None, old: State | None = None,
    ) -> Engine:  # fmt: skip
        """Return an engine before its first row, or from stored arrays, with or without times.

        ``n_rows``, ``old``: as for `empty_state`.
        """
        hyper, clocked = likelihood.hyper(n_features), first_time is not None
        config = self.config(
            hyper, likelihood.family, decay, clocked=clocked, opening=opening,
            power=likelihood.least_power,
        )  # fmt: skip
        if arrays is None:
            state = empty_state(config, n_rows=n_rows, old=old)
        else:
            take_up(likelihood.family, config.hyper, arrays)
            state = state_from_arrays(config, arrays)
        return Engine(
            likelihood, decay, clocked, first_time or 0.0, unit, config, state, n_features, opening
        )

    def resume(
        self, arrays: Mapping[str, Any], meta: Mapping[str, Any], first_time: float | None, D: int
    ) -> Engine:
        """Return the engine of D features that `Engine.kept` described."""
        likelihood, decay = likelihood_from_config(meta["likelihood"]), self.decay
        refuse_unless_plain(meta, counts=("n_features",), numbers=("opening", "time_unit"))
        refuse_if(meta["n_features"] != D or not meta["time_unit"] > 0, "stream")
        if self.reaches:
            refuse_if(meta["reach"] not in self.reaches, "reach")
            decay = Exponential(meta["reach"])
        engine = self.start(
            likelihood, meta["n_features"], meta["opening"], decay, first_time, meta["time_unit"],
            arrays,
        )  # fmt: skip
        engine.past = past_of(likelihood, arrays, D)
        return engine

    def candidates(self, family: Likelihood) -> tuple[Candidate, ...]:
        """Return the priors to compare, which differ in what the user left open."""
        found: dict[tuple[str, float], Candidate] = {}
        for candidate in self.preset.candidates:
            opening = candidate.opening if self.alpha is None else math.nan
            spread = candidate.spread if family.free_spread else 0.0
            found.setdefault((str(opening), spread), candidate)
        return tuple(found.values())

    def fitted(self, family: Likelihood, rows: FloatArray, names: Sequence[str]) -> Likelihood:
        """Return the family, completed from the first rows."""
        return (family.tempered(rows, names) if self.temper else family).scaled(rows, names)

    def unit(self, times: FloatArray, first_time: float | None) -> float:
        """Return the unit of time: the given one, or the usual gap between the first rows."""
        if self.time_unit is not None or first_time is None:
            return self.time_unit or 1.0
        return typical_gap(times)
