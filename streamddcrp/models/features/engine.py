"""The engine of `TimeVaryingIBP`: scales, baseline and state, taken from the first rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamddcrp.likelihoods import LinearGaussian
from streamddcrp.models.features.kernels.slots import (
    LIVE,
    LOG_DENSITY,
    LOG_EVIDENCE,
    N_ACTIVE,
    N_SEEN,
    SHAPE,
)
from streamddcrp.models.features.state import (
    Config,
    State,
    arrays_of,
    empty_state,
    state_from_arrays,
)
from streamddcrp.models.features.step import (
    Reported,
    joined,
    nothing_reported,
    predict_rows,
    start,
    step,
)
from streamddcrp.typing import FloatArray, IntArray

PIECE = 4096  # rows that are learned or predicted at a time
ANNEALED = 10  # first rows from which on features are looked for by annealing
ALIKE = 5.0  # columns whose spreads differ by less than this factor share one scale
BASELINE_VARIANCE = 1000.0  # prior variance of the baseline about the median, in noise variances


@dataclass(frozen=True, slots=True)
class Scales:
    """Units of the engine: it sees (x - centre) / scale."""

    centre: FloatArray  # (D,)
    scale: FloatArray  # (D,)
    baseline: bool  # whether all rows share a loading, with ``centre`` as prior mean


def scales_of(X: FloatArray, baseline: bool | None, *, scaled: bool) -> Scales:
    """Find the units in which the first rows (N, D) are of order one.

    Columns of like spread are taken to have one unit and share a scale; others have their own.
    There is a baseline where a column stays on one side of zero, so that "nothing on" cannot mean
    zero.
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
        # a column that has not moved yet: small moves of it must not look enormous
        scale = np.where(varies, scale, np.maximum(0.1 * np.abs(middle), scale))
    return Scales(centre, scale, baseline)


@dataclass(slots=True)
class FeatureEngine:
    """Units, settings and state of an engine that has begun."""

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
        """Number of rows learned."""
        return int(self.state.counts[N_SEEN])

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence, in the units of the rows."""
        return float(self.state.sums[LOG_EVIDENCE]) - self.log_unit

    @property
    def noise(self) -> FloatArray:
        """Standard deviation of the noise of each column, shape (D,)."""
        active, shape = int(self.state.counts[N_ACTIVE]), float(self.state.sums[SHAPE])
        particles = self.state.particles
        variance = float(particles.weight[:active] @ particles.rate[:active])
        if shape > 0.0:
            variance /= max(shape - 1.0, 0.5)
        return np.asarray(np.sqrt(variance) * self.scales.scale)

    def to_units(self, X: FloatArray) -> FloatArray:
        """Convert rows to the engine's units."""
        return (X - self.scales.centre) / self.scales.scale

    def step(self, X: FloatArray, t: FloatArray) -> Reported:
        """Predict and learn checked rows (N, D) at times (N,)."""
        parts = [nothing_reported(0)]
        log_unit = self._log_units(X)
        for a in range(0, len(X), PIECE):
            rows = slice(a, a + PIECE)
            self.state, piece = step(self.config, self.state, self.to_units(X[rows]), t[rows])
            parts.append(_trimmed(piece))
        reported = joined(parts)
        reported.out[:, LOG_DENSITY] -= log_unit
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
        reported.out[:, LOG_DENSITY] -= self._log_units(X)
        return reported, np.concatenate(fits)

    def _log_units(self, X: FloatArray) -> FloatArray:
        """Log of the engine's unit of volume, over what each row has."""
        logs: FloatArray = np.where(np.isnan(X), 0.0, np.log(self.scales.scale)).sum(axis=1)
        return logs

    def live(self) -> IntArray:
        """Return the places of live features among the names, in the order of their ids."""
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
        for i in range(int(self.state.counts[N_ACTIVE])):
            bits = particles.owners[i, rows % particles.owners.shape[1]]
            for k in np.flatnonzero(particles.name[i] >= 0).tolist():
                f = place.get(int(names.label[particles.name[i, k]]))
                if f is not None:
                    out[:, f] += particles.weight[i] * ((bits >> np.uint64(k)) & np.uint64(1))
        return np.minimum(out, 1.0)

    def settled(self) -> tuple[IntArray, IntArray]:
        """Rows that have left the window, at most the last 1,024, and their ids (N, F)."""
        names, last = self.state.names, self.n_seen - self.config.order + 1
        rows = np.arange(max(0, last - len(names.history)), max(last, 0))
        return rows, names.history[rows % len(names.history)]

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and settings for a checkpoint."""
        arrays: dict[str, Any] = dict(arrays_of(self.state))
        arrays |= {"scales.centre": self.scales.centre, "scales.scale": self.scales.scale}
        return arrays, {"baseline": self.scales.baseline, "log_unit": self.log_unit}

    @classmethod
    def from_state(
        cls, config: Config, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> "FeatureEngine":
        """Rebuild an engine from `to_state`."""
        scales = Scales(arrays["scales.centre"], arrays["scales.scale"], meta["baseline"])
        return cls(scales, config, state_from_arrays(config, arrays), meta["log_unit"])


def _trimmed(reported: Reported) -> Reported:
    """Drop the columns behind the last id of any row."""
    out, ids, probs = reported
    width = int((ids >= 0).sum(axis=1).max(initial=0))
    return Reported(out, ids[:, :width].copy(), probs[:, :width].copy())
