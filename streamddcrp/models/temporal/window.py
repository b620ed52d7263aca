"""The window of a temporal mixture: its components, their assignments, and its objective.

The objective (docs/math/temporal.md (8)) is E log p(c), the expected log likelihood less the
divergence of the components from their prior, and the entropy of the assignments. Right after
smoothing the second part is exactly the sum of the components' log evidences. The first is a sum of
E log Gamma(a0 + X' + m) - E log Gamma(a0 + X'), X' the decayed past and m the count of an epoch.
"""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from streamddcrp.contract import Event
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.models.temporal.emissions import Emission, each, widened
from streamddcrp.models.temporal.kernels import counts as kernels
from streamddcrp.records import FINITE, MOST, Within
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import positive, whole

_FORGOTTEN = 1e-12  # a weight below which an epoch is forgotten
_LEAST_ALPHA = 1e-100  # kernels divide by its square
ACTIVE = 0.5  # expected rows for a component to count as seen in an epoch
_STALE = 0.01  # relative change of a count before its message is recomputed
_DEAD = 0.1  # expected rows in the last epochs below which a component dies


class Settings(NamedTuple):
    """Fixed settings."""

    alpha: float  # concentration
    past_weights: tuple[float, ...]  # weights of the 1, 2, .. epochs before
    slots: int = 1000  # components of the finite model
    lag: int = 2  # earlier epochs that may still change
    n_sweeps: int = 4
    split_margin: float = 2.0  # nats that a split must gain
    # Whether alpha is learned from births, and the weights of the past from counts; given values
    # are then initial, with alpha's prior worth one birth.
    learn_alpha: bool = False
    learn_decay: bool = False

    @property
    def a0(self) -> float:
        """Pseudo-count of a slot."""
        return self.alpha / self.slots

    @property
    def width(self) -> int:
        """Number of epochs that count as past."""
        return int(np.count_nonzero(self.past_weights))


def past_weights(decay: object, window: int) -> tuple[float, ...]:
    """Return the weights of the 1, 2, .. ``window`` epochs before; the decay is in epochs."""
    weights = make_decay(decay).weight(np.arange(1.0, whole("window", window, 1, 1 << 16) + 1.0))
    last = np.flatnonzero(weights > _FORGOTTEN)
    if not len(last):
        message = f"decay {decay!r} forgets an epoch within the next: no component could go on; "
        raise ConfigError(message + "choose a longer scale")
    return tuple(weights[: last[-1] + 1].tolist())


def count_settings(alpha: Any, decay: object, window: int | None) -> dict[str, Any]:
    """Return settings for the dependence of an epoch's counts on earlier ones.

    ``alpha`` None, and ``decay`` and ``window`` both None: learned. One of the latter alone: three
    epochs, or weights exp(-1), exp(-2), ..
    """
    decay_or_first = ("exponential", 1.0) if decay is None else decay
    first_alpha = 1.0 if alpha is None else positive("alpha", alpha, "None")
    if first_alpha < _LEAST_ALPHA:
        raise ConfigError(f"alpha must be at least {_LEAST_ALPHA:g}, got {alpha!r}")
    return {
        "alpha": first_alpha,
        "past_weights": past_weights(decay_or_first, 3 if window is None else window),
        "learn_alpha": alpha is None,
        "learn_decay": decay is None and window is None,
    }


class Terms(NamedTuple):
    """Components' contributions to the objective, (K,) each."""

    counts: FloatArray
    entropy: FloatArray
    log_zero: FloatArray  # log probability that it has no row of the window


class Objective(NamedTuple):
    """Parts of the objective of a window, in nats."""

    counts: float  # E log p(c), given the epochs before the window; second-order expectations
    evidence: float  # sum of the components' log evidences over the window
    entropy: float  # of the assignments
    # log of the number of ways to name the components expected to be occupied, which makes
    # different numbers of components comparable
    names: float

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return self.counts + self.evidence + self.entropy + self.names


_Epochs = Annotated[IntArray, "K", Within(-1, MOST)]


def _none() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Window:
    """The last epochs, which may still change, and the knowledge from before them."""

    settings: Settings
    emission: Emission
    epoch: int = -1  # number of the last epoch
    rows: list[Any] = field(default_factory=list)
    resp: list[FloatArray] = field(default_factory=list)  # assignments (N, K) of each epoch
    before: Annotated[FloatArray, "W K 3", FINITE] = field(  # moments
        default_factory=lambda: np.zeros((0, 0, 3))
    )
    starts: Any = None  # of the emission
    ids: Annotated[IntArray, "K"] = field(default_factory=_none)
    born: _Epochs = field(default_factory=_none)
    last_active: _Epochs = field(default_factory=_none)
    next_id: int = 0
    changes: list[Event] = field(default_factory=list)  # indexed by epoch, as is t for now

    @property
    def n_components(self) -> int:
        return len(self.ids)

    @property
    def first(self) -> int:
        return self.epoch - len(self.rows) + 1

    @property
    def begins(self) -> IntArray:
        """Epoch of the window in which each component was born, -1 if earlier."""
        return np.where(self.born >= self.first, self.born - self.first, -1)

    def moments(self, resp: list[FloatArray]) -> FloatArray:
        """Moments of the counts of the window, shape (E, K, 3)."""
        out = np.zeros((len(resp), resp[0].shape[1] if resp else 0, 3))
        for e, q in enumerate(resp):
            kernels.moments_of_rows(q, out[e])
        return out

    def decayed(self, moments: FloatArray, before: FloatArray) -> FloatArray:
        """Moments of the decayed past of the window's epochs and the next one, (E + 1, K, 3)."""
        out = np.empty((len(moments) + 1, *moments.shape[1:]))
        kernels.decay_moments(before, moments, np.array(self.settings.past_weights), out)
        return out

    # -- components ------------------------------------------------------------------------------

    def open(
        self, n: int, kind: str = "birth", epoch: int | None = None, other: int | None = None
    ) -> None:
        """Append columns for new components."""
        if not n:
            return
        born = self.epoch if epoch is None else epoch
        new = np.arange(self.next_id, self.next_id + n)
        self.next_id += n
        self.ids = np.concatenate([self.ids, new])
        self.born = np.concatenate([self.born, np.full(n, born)])
        self.last_active = np.concatenate([self.last_active, np.full(n, born)])
        none = self.emission.no_starts(n)
        self.starts = each(lambda *pair: np.concatenate(pair), self.starts, none)
        self.before = widened(self.before, n)
        self.resp = [widened(q, n) for q in self.resp]
        for i in new.tolist():
            self.record(kind, i, other, born)

    def drop(self, k: int | list[int]) -> None:
        """Remove a column, or several."""
        self._keep(np.delete(np.arange(self.n_components), k))

    def record(
        self, kind: str, label: int, other: int | None = None, epoch: int | None = None
    ) -> None:
        """Record a component's event, by default in the last epoch."""
        at, into = self.epoch if epoch is None else epoch, None if other is None else int(other)
        self.changes.append(Event(kind, int(label), at, float(at), into))

    def _keep(self, kept: IntArray) -> None:
        self.ids, self.born = self.ids[kept], self.born[kept]
        self.last_active = self.last_active[kept]
        self.starts = each(lambda part: part[kept], self.starts)
        self.before = self.before[:, kept]
        self.resp = [np.ascontiguousarray(q[:, kept]) for q in self.resp]

    def retire(self) -> None:
        """Remove components silent, in epochs with rows, for as long as the past counts."""
        if not self.n_components or not len(self.resp[-1]):
            return
        some = [q for q in self.resp if len(q)]
        width = max(self.settings.width, self.settings.lag + 1, len(some))
        now = np.concatenate([self.before, self.moments(some)])[-width:, :, kernels.MEAN]
        here = now[-1] >= ACTIVE
        for k in np.flatnonzero(here & (self.last_active < self.epoch - width)):
            self.record("return", self.ids[k])
        self.last_active[here] = self.epoch
        silent = now.sum(axis=0) < _DEAD
        for q in self.resp:
            silent[q.argmax(axis=1)] = False  # a row shared by many keeps the best of them
        if silent.any():
            for i, last in zip(self.ids[silent], self.last_active[silent], strict=True):
                self.record("death", i, epoch=int(last))
            self._keep(np.flatnonzero(~silent))
            self.resp = [q / q.sum(axis=1, keepdims=True) for q in self.resp]

    # -- emissions and assignments ---------------------------------------------------------------

    def stats(self, resp: list[FloatArray]) -> Any:
        """Statistics of the window under given assignments."""
        return self.emission.stats_of_epochs(self.rows, resp)

    def smooth(self) -> Any:
        """Smooth the emissions of all components over the window."""
        if not self.rows:
            return None
        return self.emission.smooth(self.stats(self.resp), self.starts, self.begins)

    def sweep(self, n: int, *, exact: bool = False) -> None:
        """Pass over the window ``n`` times, oldest epoch first, and fit the emission's scales.

        The counts' message to a row is exact on request.
        """
        a0, weights = self.settings.a0, np.array(self.settings.past_weights)
        stale = 0.0 if exact else _STALE
        alone = self.n_components == 1 and all((q == 1.0).all() for q in self.resp)
        for _ in range(n):
            if not self.n_components:
                return
            stats, begins = self.stats(self.resp), self.begins
            smoothed = self.emission.smooth(stats, self.starts, begins)
            if alone:  # it keeps all rows
                self.emission = self.emission.learned(stats, smoothed, begins)
                continue
            now, before = self.moments(self.resp), self.before
            score = np.empty(self.n_components)
            for e, (X, q) in enumerate(zip(self.rows, self.resp, strict=True)):
                ell = self.emission.expected(X, smoothed, e, begins, q)
                kernels.sweep_epoch(
                    q, ell, e, now, before, weights, a0, stale, self.emission.least, score
                )
            self.emission = self.emission.learned(stats, smoothed, begins)

    # -- the objective ---------------------------------------------------------------------------

    def terms(self, resp: list[FloatArray], before: FloatArray) -> Terms:
        """Return components' contributions to the window's objective, without emissions."""
        return self.terms_of(self.moments(resp), before, self.entropy(resp))

    def entropy(self, resp: list[FloatArray]) -> FloatArray:
        """Return the entropy of the assignments to each component, (K,)."""
        out = np.zeros(resp[0].shape[1] if resp else 0)
        for q in resp:
            kernels.add_entropies(q, out)
        return out

    def merged_terms(self, a: IntArray, b: IntArray) -> Terms:
        """Return the contributions of pairs of components as one, with the past of the first."""
        now = np.empty((len(self.resp), len(a), 3))
        entropy = np.zeros(len(a))
        for e, q in enumerate(self.resp):
            kernels.moments_of_pairs(np.ascontiguousarray(q.T), a, b, now[e], entropy)
        return self.terms_of(now, self.before[:, a], entropy)

    def terms_of(self, now: FloatArray, before: FloatArray, entropy: FloatArray) -> Terms:
        """Return the terms of components with moments (E, K, 3), earlier ones, and an entropy."""
        counts = np.empty(now.shape[:2])
        weights = np.array(self.settings.past_weights)
        kernels.count_terms(before, now, weights, self.settings.a0, counts)
        return Terms(counts.sum(axis=0), entropy, now[:, :, kernels.LOG_ZERO].sum(axis=0))

    def objective(self, smoothed: Any = None) -> Objective:
        """Return the objective: a monitor, not a bound; exact for hard assignments."""
        if not self.rows or not self.n_components:
            return Objective(0.0, 0.0, 0.0, 0.0)
        settings = self.settings
        terms = self.terms(self.resp, self.before)
        past = self.decayed(self.moments(self.resp), self.before)[:-1, :, kernels.MEAN]
        mass = settings.alpha + past.sum(axis=1)  # total prior mass of an epoch
        rows = np.array([len(q) for q in self.resp])
        silent = terms.log_zero + self.before[:, :, kernels.LOG_ZERO].sum(axis=0)
        occupied = -float(np.expm1(silent).sum())
        slots = max(settings.slots, self.n_components)
        epochs = float((gammaln(mass) - gammaln(mass + rows)).sum())
        return Objective(
            counts=epochs + float(terms.counts.sum()),
            evidence=float((smoothed or self.smooth()).log_z.sum()),
            entropy=float(terms.entropy.sum()),
            names=math.lgamma(slots + 1.0) - math.lgamma(slots - occupied + 1.0),
        )
