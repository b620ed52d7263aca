"""The engine of `TimeVaryingIBP`: scales, single rows, and annealing over the first rows.

Learned row by row, the first combinations of causes become features of their own, and resampling
single rows does not separate them. So a few particles learn the first rows under a prior with much
noise, hence few features, and are annealed to the given prior (annealed importance sampling). Both
ways estimate the evidence without bias, and so does their mean; all particles compete by it.

References
----------
Neal, "Annealed importance sampling", Statistics and Computing 2001.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import entry_point
from streamddcrp.contract import LIVE, N_OUTPUTS, SCORE
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.kernels import slots as at
from streamddcrp.models.features.kernels.arrival import anneal, predict, rename, step_rows
from streamddcrp.models.features.state import (
    Config,
    Particles,
    State,
    arrays_of,
    check_arrays,
    empty_state,
    state_from_arrays,
)
from streamddcrp.particles.kernels.random import uniform
from streamddcrp.particles.kernels.resample import optimal
from streamddcrp.particles.state import learn_rows
from streamddcrp.records import declared
from streamddcrp.typing import FloatArray, IntArray

JOIN = 1  # index of a random number
RUNS = 3  # annealed particles
LEVELS = 150  # annealing levels for each row that an arrival resamples
MANY = 50  # rows above which the number of levels decreases
HOT = 4.0  # weight in rows of the first noise prior, which has the variance of all rows
WAY = ((0.0, 0.8, 1.0), (0.0, 0.6, 1.0))  # share of the levels; of the way, on the log scale


class Reported(NamedTuple):
    """Predictions of N rows."""

    out: FloatArray  # (N, N_OUTPUTS): SCORE, P_NEW (of a new feature) and LIVE_TABLES
    ids: IntArray  # (N, F) live features (-1 behind the last)
    probs: FloatArray  # (N, F) probability that the row has each


def nothing_reported(n: int) -> Reported:
    """Return the output for rows in warm-up."""
    return Reported(np.full((n, N_OUTPUTS), np.nan), np.full((n, 0), -1), np.zeros((n, 0)))


def joined(parts: list[Reported]) -> Reported:
    """Concatenate predictions with different numbers of features."""
    width = max(part.ids.shape[1] for part in parts)

    def wide(values: NDArray[Any], fill: int) -> NDArray[Any]:
        return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)

    return Reported(
        np.concatenate([part.out for part in parts]),
        np.concatenate([wide(part.ids, -1) for part in parts]),
        np.concatenate([wide(part.probs, 0) for part in parts]),
    )


def _prepared(X: FloatArray) -> tuple[FloatArray, FloatArray, Reported]:
    """Return rows with 0 for missing values, 1 for present ones, and room for outputs."""
    n, seen = len(X), np.isfinite(X)
    ids = np.full((n, at.N_REPORTED), -1)
    reported = Reported(np.zeros((n, N_OUTPUTS)), ids, np.zeros((n, at.N_REPORTED)))
    return np.where(seen, X, 0.0), seen.astype(np.float64), reported


def _grown(state: State, config: Config) -> State:
    return state_from_arrays(config, arrays_of(state), more=2)


def step(config: Config, state: State, X: FloatArray, t: FloatArray) -> tuple[State, Reported]:
    """Learn rows (N, D), NaN missing; return the state, or a larger one, and the outputs."""
    rows, seen, reported = _prepared(X)
    inputs = rows, seen, np.ascontiguousarray(t)
    return learn_rows(step_rows, config, state, _grown, inputs, reported), reported


def predict_rows(config: Config, state: State, X: FloatArray) -> tuple[Reported, FloatArray]:
    """Predict rows (N, D), each as if it came next; also return them without noise (N, D)."""
    rows, seen, reported = _prepared(X)
    fit = np.empty(X.shape)
    entry_point(predict)(config, state, rows, seen, *reported, fit)
    return reported, fit


def start(
    config: Config,
    likelihood: LinearGaussian,
    X: FloatArray,
    t: FloatArray,
    baseline: float = 0.0,
    runs: int = RUNS,
    levels: int | None = None,
) -> State:
    """Return the state after the first rows (N, D), without gaps, N at most the window.

    ``likelihood``: of unknown noise; ``baseline``: as for `empty_state`. ``runs`` particles are
    annealed in ``levels`` steps, of N rows resampled each: by default `LEVELS` for each row that an
    arrival resamples.
    """
    state, _ = step(config, empty_state(config, likelihood, X.shape[1], baseline), X, t)
    if levels is None:
        levels = max(LEVELS * config.moves * MANY // max(len(X), MANY), 1)
    shapes, rates = cooling(likelihood, X, levels)
    hot = replace(likelihood, noise_shape=shapes[0], noise_rate=rates[0])
    few = config._replace(n_particles=runs)
    other, _ = step(few, empty_state(few, hot, X.shape[1], baseline), X, t)
    other = state_from_arrays(few, arrays_of(other), more=4)  # slots: nothing grows on the way
    log_weight = np.zeros(runs)
    entry_point(anneal)(few, other, shapes, rates, log_weight)
    return _joined(config, state, other, log_weight, float(t[-1]))


def cooling(likelihood: LinearGaussian, X: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Return the noise prior's shapes and rates, n steps from much noise to the given prior.

    The first one has ``HOT`` times the weight of the rows (N, D), and their variance. Most steps
    are where features appear: while the prior has at least a hundredth of the rows' weight.
    """
    shape = HOT * 0.5 * X.size
    way = np.interp(np.linspace(0.0, 1.0, n + 1), *WAY)
    rate = shape * max(float(X.var()), 1e-6)
    return shape ** (1.0 - way) * likelihood.shape**way, rate ** (1.0 - way) * likelihood.rate**way


def _joined(config: Config, state: State, other: State, log_gain: FloatArray, time: float) -> State:
    """Return a state of the particles of both, resampled, with the mean of both evidences."""
    parts = [arrays_of(state), arrays_of(other)]
    n = [int(part["counts"][at.N_ACTIVE]) for part in parts]
    logs = np.concatenate(
        [np.log(part["particles.weight"]) + part["sums"][at.LOG_EVIDENCE] for part in parts]
    )
    logs[n[0] :] += log_gain[: n[1]]
    top = logs.max()
    weight = np.exp(logs - top)
    total = weight.sum()
    chosen, kept = np.zeros(config.n_particles, np.int64), np.zeros(config.n_particles)
    u = uniform(config.seed, int(state.counts[at.N_SEEN]), 0, at.ALL, JOIN)
    size = optimal(weight / total, len(weight), config.n_particles, u, chosen, kept)
    K = max(part["particles.n_owners"].shape[1] for part in parts)
    merged = parts[0]
    for field in declared(Particles):
        name = f"particles.{field.name}"
        both = [_widened(part[name], K, field.room, field.fill) for part in parts]
        merged[name] = np.concatenate(both)[chosen[:size]]
    merged["particles.weight"] = kept[:size] / kept[:size].sum()
    n_slots = int(merged["n_slots"])
    while n_slots < K:
        n_slots *= 2
    merged["n_slots"] = np.array(n_slots)
    merged["counts"][[at.N_ACTIVE, at.N_NAMED, at.N_EVENTS]] = size, 0, 0
    merged["sums"][at.LOG_EVIDENCE] = top + math.log(0.5 * total)
    merged = {name: part for name, part in merged.items() if name[:5] not in ("names", "event")}
    joined = state_from_arrays(config, merged)
    entry_point(rename)(config, joined, time)
    return joined


def _widened(values: NDArray[Any], K: int, axes: tuple[str, ...], fill: int) -> NDArray[Any]:
    """Return values of particles with ``K`` slots."""
    pads = [(0, K - n if axis == "K" else 0) for axis, n in zip(axes, values.shape, strict=True)]
    return np.pad(values, pads, constant_values=fill)


PIECE = 4096  # rows predicted at a time
ANNEALED = 10  # least first rows for annealing
ALIKE = 5.0  # largest factor between the spreads of columns that share a scale
FARTHEST = 1e150  # units: squares are finite
BASELINE_VARIANCE = 1000.0  # prior variance of the baseline about the median, in noise variances


@dataclass(frozen=True, slots=True)
class Scales:
    """Units of the engine: it sees (x - centre) / scale."""

    centre: FloatArray  # (D,)
    scale: FloatArray  # (D,)
    baseline: bool  # whether all rows share a loading, with ``centre`` as prior mean


def scales_of(X: FloatArray, baseline: bool | None, *, scaled: bool) -> Scales:
    """Find units in which first rows (N, D) are of order one, and whether there is a baseline.

    Columns of similar spread share a scale. There is a baseline if a column stays on one side of
    zero, so that "nothing on" cannot mean zero.
    """
    D = X.shape[1]
    seen = ~np.isnan(X)
    have = seen.any(axis=0)
    low, high = np.zeros(D), np.zeros(D)
    low[have], high[have] = np.nanmin(X[:, have], axis=0), np.nanmax(X[:, have], axis=0)
    if baseline is None:
        baseline = bool(np.any(have & ((low > 0.0) | (high < 0.0))))
    centre = np.zeros(D)
    if baseline:
        centre[have] = np.nanmedian(X[:, have], axis=0)
    scale = np.ones(D)
    if scaled:
        spread = np.zeros(D)
        spread[have] = (high - low)[have]
        varies = spread > 1e-9 * np.maximum(np.abs(low), np.abs(high))
        unit = np.where(varies, spread, 1.0)  # before squares: spreads may be 1e200
        middle = np.where(have, 0.5 * low + 0.5 * high, 0.0)
        deviation = np.ones(D)
        if varies.any():
            about = ((X - middle) / unit)[:, varies]
            deviation[varies] = np.nanstd(about, axis=0) * unit[varies]
            widest, narrowest = deviation[varies].max(), deviation[varies].min()
            alike = widest <= ALIKE * narrowest
            common = float(np.sqrt(np.mean((deviation[varies] / widest) ** 2))) * widest
            scale = np.where(varies & ~alike, deviation, common)
        # a column constant so far: small changes of it must not look enormous
        scale = np.where(varies, scale, np.maximum(0.1 * np.abs(middle), scale))
    return Scales(centre, scale, baseline)


@dataclass(slots=True)
class FeatureEngine:
    """Units, settings and state of a running engine."""

    scales: Scales
    config: Config
    state: State
    log_unit: float = 0.0  # of the volume of all rows so far

    @classmethod
    def started(
        cls, scales: Scales, config: Config, likelihood: LinearGaussian, X: FloatArray,
        t: FloatArray,
    ) -> "FeatureEngine":  # fmt: skip
        """Return an engine that has learned the checked rows of the warm-up."""
        prior = BASELINE_VARIANCE if scales.baseline else 0.0
        new = cls(scales, config, empty_state(config, likelihood, len(scales.centre), prior))
        n = min(len(X), config.order)
        if n < ANNEALED or likelihood.known or config.moves == 0 or np.isnan(X[:n]).any():
            n = 0
        else:
            new.state = start(config, likelihood, new.to_units(X[:n]), t[:n], prior)
            new.log_unit = float(n * np.log(scales.scale).sum())
        new.step(X[n:], t[n:])
        return new

    @property
    def n_seen(self) -> int:
        return int(self.state.counts[at.N_SEEN])

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence, in the units of the rows."""
        return float(self.state.sums[at.LOG_EVIDENCE]) - self.log_unit

    @property
    def noise(self) -> FloatArray:
        """Standard deviation of the noise of each column, shape (D,)."""
        active, shape = int(self.state.counts[at.N_ACTIVE]), float(self.state.sums[at.SHAPE])
        particles = self.state.particles
        variance = float(particles.weight[:active] @ particles.rate[:active])
        if shape > 0.0:
            variance /= max(shape - 1.0, 0.5)
        return np.asarray(np.sqrt(variance) * self.scales.scale)

    def to_units(self, X: FloatArray) -> FloatArray:
        """Convert rows to the engine's units, clipped so that some particle allows them."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.scales.centre) / self.scales.scale, -FARTHEST, FARTHEST)

    def step(self, X: FloatArray, t: FloatArray) -> Reported:
        """Predict and learn checked rows (N, D) at times (N,)."""
        log_unit = self._log_units(X)
        self.state, reported = step(self.config, self.state, self.to_units(X), t)
        reported = _trimmed(reported)
        reported.out[:, SCORE] += log_unit
        for unit in log_unit.tolist():  # one by one: the same bits in any cutting
            self.log_unit += unit
        return reported

    def predict(self, X: FloatArray) -> tuple[Reported, FloatArray]:
        """Predict checked rows, each as if it came next; also return them without noise."""
        parts, fits = [nothing_reported(0)], [np.empty((0, X.shape[1]))]
        for a in range(0, len(X), PIECE):
            piece, fit = predict_rows(self.config, self.state, self.to_units(X[a : a + PIECE]))
            parts.append(_trimmed(piece))
            fits.append(fit * self.scales.scale + self.scales.centre)
        reported = joined(parts)
        reported.out[:, SCORE] += self._log_units(X)
        return reported, np.concatenate(fits)

    def _log_units(self, X: FloatArray) -> FloatArray:
        """Log of the engine's unit of volume, over what each row has."""
        logs: FloatArray = np.where(np.isnan(X), 0.0, np.log(self.scales.scale)).sum(axis=1)
        return logs

    def live(self) -> IntArray:
        """Return the indices of live features among the names, in id order."""
        names = self.state.names
        found = np.flatnonzero((names.label >= 0) & (names.weight >= LIVE))
        return found[np.argsort(names.label[found])]

    def window(self, ids: IntArray) -> FloatArray:
        """Return probabilities (R, F) that the last R <= window rows have features."""
        seen, r = self.n_seen, self.config.order
        particles, names = self.state.particles, self.state.names
        rows = np.arange(max(0, seen - r), seen)
        out = np.zeros((len(rows), len(ids)))
        place = {int(g): f for f, g in enumerate(ids)}
        for i in range(int(self.state.counts[at.N_ACTIVE])):
            bits = particles.owners[i, rows % particles.owners.shape[1]]
            for k in np.flatnonzero(particles.name[i] >= 0).tolist():
                f = place.get(int(names.label[particles.name[i, k]]))
                if f is not None:
                    out[:, f] += particles.weight[i] * ((bits >> np.uint64(k)) & np.uint64(1))
        return np.minimum(out, 1.0)

    def settled(self) -> tuple[IntArray, IntArray]:
        """Rows that left the window, at most the last 1,024, and their ids (N, F)."""
        names, last = self.state.names, self.n_seen - self.config.order + 1
        rows = np.arange(max(0, last - len(names.history)), max(last, 0))
        return rows, names.history[rows % len(names.history)]

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays: dict[str, Any] = dict(arrays_of(self.state))
        arrays |= {"scales.centre": self.scales.centre, "scales.scale": self.scales.scale}
        return arrays, {"baseline": self.scales.baseline, "log_unit": self.log_unit}

    @classmethod
    def from_state(
        cls, config: Config, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> "FeatureEngine":
        scales = Scales(arrays["scales.centre"], arrays["scales.scale"], meta["baseline"])
        check_arrays(config, arrays)
        return cls(scales, config, state_from_arrays(config, arrays), meta["log_unit"])


def _trimmed(reported: Reported) -> Reported:
    """Drop the columns after the last id of any row."""
    out, ids, probs = reported
    width = int((ids >= 0).sum(axis=1).max(initial=0))
    return Reported(out, ids[:, :width].copy(), probs[:, :width].copy())
