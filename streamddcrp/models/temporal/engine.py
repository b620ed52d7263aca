"""Collapsed variational inference for the temporal DP mixture, an epoch at a time.

The state after an epoch is a window of the last ``lag + 1`` epochs with their assignments, the
moments of the counts of the ``width`` epochs before them, and for each component what its emission
knew before the window. An epoch that arrives is seated row by row with marginal predictives, which
is where components are born; then the window is swept, its emissions smoothed in between.
Components are merged, deleted and split where the objective rises, and leave when they have been
silent for as long as the past counts.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.models.temporal.emissions.base import Seats
from streamddcrp.models.temporal.kernels.counts import (
    LOG_ZERO,
    MEAN,
    add_entropies,
    count_terms,
    decay_moments,
    moments_of_pairs,
    moments_of_rows,
    sweep_epoch,
)
from streamddcrp.models.temporal.memory import (
    FADE,
    KERNELS,
    births_of,
    fitted_alpha,
    fitted_kappa,
    kernel_gains,
)
from streamddcrp.models.temporal.moves import move
from streamddcrp.typing import FloatArray, IntArray

_STALE = 0.01
_DEAD = 0.1  # expected rows in the last epochs below which a component leaves
_ACTIVE = 0.5  # expected rows from which it counts as seen in an epoch


class Settings(NamedTuple):
    """What is fixed.

    Attributes
    ----------
    alpha : float
        Concentration.
    kappa : tuple of float
        Weights of the 1, 2, .. epochs before.
    slots : int
        Components of the finite model.
    lag : int
        Epochs before the last one that may still change.
    n_sweeps : int
    split_margin : float
        Nats that a split must gain.
    learn_alpha : bool
        Whether alpha follows the births; what is given is then its prior, worth one birth.
    learn_kappa : bool
        Whether the weights of the past follow the counts; what is given then holds at first.
    """

    alpha: float
    kappa: tuple[float, ...]
    slots: int = 1000
    lag: int = 2
    n_sweeps: int = 4
    split_margin: float = 2.0
    learn_alpha: bool = False
    learn_kappa: bool = False

    @property
    def a0(self) -> float:
        """Pseudo-count of a slot."""
        return self.alpha / self.slots

    @property
    def width(self) -> int:
        """Number of epochs that count as past."""
        return int(np.count_nonzero(self.kappa))


class Change(NamedTuple):
    """Something that happened to a component in an epoch."""

    epoch: int
    kind: str
    id: int
    other: int | None = None


class Terms(NamedTuple):
    """What columns contribute to the objective: counts, entropy, log P(nobody there), (K,) each."""

    counts: FloatArray
    entropy: FloatArray
    log_zero: FloatArray


@dataclass(slots=True)
class Engine:
    """State of the model; see the module."""

    settings: Settings
    emission: Any
    epoch: int = -1
    rows: list[Any] = field(default_factory=list)
    resp: list[FloatArray] = field(default_factory=list)
    before: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 3)))
    starts: Any = None
    ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    born: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    last_active: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    next_id: int = 0
    changes: list[Change] = field(default_factory=list)
    seating: Any = None  # of the open epoch, with its rows and their seats so far
    weight: float = 0.0  # of all components, rows of the open epoch left out
    n_open: int = 0
    alpha_sums: tuple[float, float] = (0.0, 0.0)  # births and chances of them, of past epochs
    kappa_sums: FloatArray = field(default_factory=lambda: np.zeros(len(KERNELS)))
    first_alpha: float = 0.0
    sizes: list[int] = field(default_factory=list)  # rows of the epochs before the window
    arrived: list[Any] = field(default_factory=list)
    seated: list[FloatArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first_alpha = self.first_alpha or self.settings.alpha
        if self.settings.learn_kappa:
            kappa = np.zeros(KERNELS.shape[1])
            kappa[: len(self.settings.kappa)] = self.settings.kappa
            self.settings = self.settings._replace(kappa=tuple(kappa.tolist()))
        if self.starts is None:
            self.starts = self.emission.no_starts(0)
            self.sizes = [0] * len(self.settings.kappa)
            self.before = np.zeros((len(self.settings.kappa), 0, 3))

    # -- the shape of things ---------------------------------------------------------------------

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return len(self.ids)

    @property
    def first(self) -> int:
        """Number of the first epoch of the window."""
        return self.epoch - len(self.rows) + 1

    @property
    def begins(self) -> IntArray:
        """Epoch of the window in which each component was born, -1 if before it."""
        return np.where(self.born >= self.first, self.born - self.first, -1)

    def moments(self, resp: list[FloatArray]) -> FloatArray:
        """Moments of the counts of the window, shape (E, K, 3)."""
        out = np.zeros((len(resp), resp[0].shape[1] if resp else 0, 3))
        for e, q in enumerate(resp):
            moments_of_rows(q, out[e])
        return out

    def decayed(self, moments: FloatArray, before: FloatArray) -> FloatArray:
        """Moments of the decayed past of the window's epochs and the next one, (E + 1, K, 3)."""
        out = np.empty((len(moments) + 1, *moments.shape[1:]))
        decay_moments(before, moments, np.array(self.settings.kappa), out)
        return out

    # -- an epoch --------------------------------------------------------------------------------

    def learn(self, X: Any) -> FloatArray:
        """Learn a whole epoch; return the surprise of its rows, each given those before it."""
        scores = self.seat(X).scores
        self.close()
        return scores

    def seat(self, X: Any) -> Seats:
        """Seat rows of the open epoch, beginning it if need be; their scores are their surprise."""
        if self.seating is None:
            self.seating, self.weight = self._begin()
        seats: Seats = self.seating.seat(X, self.settings.a0, self.log_new)
        weights = self.weight + (self.n_open + np.arange(len(seats.q)))  # the same in any cutting
        self.n_open += len(seats.q)
        self.arrived.append(X)
        self.seated.append(seats.q)
        return seats._replace(scores=seats.scores + np.log(weights))

    @property
    def log_new(self) -> float:
        """Log weight of a new component."""
        settings = self.settings
        unused = max(settings.slots - self.n_components, 1)
        return math.log(settings.alpha * unused / settings.slots)

    def peek(self, X: Any) -> tuple[Seats, FloatArray]:
        """Return what `seat` would for one row, and its chances of the components there are."""
        seating, weight = self._begin() if self.seating is None else (self.seating, self.weight)
        K = seating.n_components
        q = np.zeros((1, 0))
        if K:  # without a new one
            q = deepcopy(seating).seat(X, self.settings.a0, -math.inf).q
        seats = deepcopy(seating).seat(X, self.settings.a0, self.log_new)
        seats = seats._replace(scores=seats.scores + np.log(weight + self.n_open + np.zeros(1)))
        return seats, (1.0 - seats.chances[0, 0]) * q[0, :K]

    def _begin(self) -> tuple[Any, float]:
        """Return seats for an epoch after the window, and the weight of all components."""
        past = self.decayed(self.moments(self.resp), self.before)[-1, :, MEAN]
        smoothed = self.smooth()
        ahead = self.emission.no_starts(0) if smoothed is None else self.emission.ahead(smoothed)
        return self.emission.seating(past.copy(), ahead), self.settings.alpha + float(past.sum())

    def close(self) -> None:
        """Close the open epoch, which may be empty: sweep, move, retire."""
        if self.seating is None:
            self.seating, self.weight = self._begin()
        K = self.seating.n_components
        X = self.emission.joined(self.arrived)
        q = np.concatenate(
            [np.zeros((0, K)), *(np.pad(q, ((0, 0), (0, K - q.shape[1]))) for q in self.seated)]
        )
        self.freeze()
        self.epoch += 1
        self.open(K - self.n_components)
        self.rows.append(X)
        self.resp.append(q)
        self.seating, self.arrived, self.seated, self.n_open = None, [], [], 0
        self.sweep(self.settings.n_sweeps)
        if move(self):
            self.sweep(2)
        self.retire()
        self.learn_counts()

    def learn_counts(self) -> None:
        """Fit alpha, or the weights of the past, to the counts of all epochs."""
        settings = self.settings
        if settings.learn_alpha:
            settings = settings._replace(alpha=fitted_alpha(self))
        if settings.learn_kappa:
            settings = settings._replace(kappa=fitted_kappa(self))
        self.settings = settings

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
        self.starts = type(none)(
            *(np.concatenate(pair) for pair in zip(self.starts, none, strict=True))
        )
        self.before = np.pad(self.before, ((0, 0), (0, n), (0, 0)))
        self.resp = [np.pad(q, ((0, 0), (0, n))) for q in self.resp]
        self.changes += [Change(born, kind, int(i), other) for i in new]

    def drop(self, k: int | list[int]) -> None:
        """Remove a column, or several."""
        self._keep(np.delete(np.arange(self.n_components), k))

    def tell(self, kind: str, label: int, other: int | None) -> None:
        """Note what happened to a component."""
        self.changes.append(
            Change(self.epoch, kind, int(label), None if other is None else int(other))
        )

    def _keep(self, kept: IntArray) -> None:
        """Keep some of the columns."""
        self.ids, self.born = self.ids[kept], self.born[kept]
        self.last_active = self.last_active[kept]
        self.starts = type(self.starts)(*(part[kept] for part in self.starts))
        self.before = self.before[:, kept]
        self.resp = [np.ascontiguousarray(q[:, kept]) for q in self.resp]

    def stats(self, resp: list[FloatArray], rows: list[Any] | None = None) -> Any:
        """Statistics of the window, or of other rows, under given assignments."""
        rows = self.rows if rows is None else rows
        parts = [self.emission.stats(X, q) for X, q in zip(rows, resp, strict=True)]
        return type(parts[0])(*(np.stack(column) for column in zip(*parts, strict=True)))

    def smooth(self) -> Any:
        """Smooth the emissions of all components over the window."""
        if not self.rows:
            return None
        return self.emission.smooth(self.stats(self.resp), self.starts, self.begins)

    def sweep(self, n: int) -> None:
        """Pass over the window ``n`` times, oldest epoch first, and fit the emission's scales."""
        settings = self.settings
        kappa = np.array(settings.kappa)
        for _ in range(n):
            if not self.n_components:
                return
            stats, begins = self.stats(self.resp), self.begins
            smoothed = self.emission.smooth(stats, self.starts, begins)
            now = self.moments(self.resp)
            score = np.empty(self.n_components)
            for e, (X, q) in enumerate(zip(self.rows, self.resp, strict=True)):
                ell = self.emission.expected(X, smoothed, e, begins, q)
                past = self.decayed(now, self.before)
                F = min(settings.width, len(self.rows) - 1 - e)
                ahead = np.ascontiguousarray(past[e + 1 : e + 1 + F])
                sweep_epoch(
                    q, ell, now[e], past[e], ahead, now[e + 1 : e + 1 + F], kappa, settings.a0,
                    _STALE, self.emission.least, score,
                )  # fmt: skip
            self.emission = self.emission.learned(stats, smoothed, begins)

    def freeze(self) -> None:
        """Let the oldest epoch leave a full window."""
        if len(self.rows) <= self.settings.lag:
            return
        stats, begins = self.stats(self.resp), self.begins
        smoothed = self.emission.smooth(stats, self.starts, begins)
        known = begins <= 0
        frozen = self.emission.frozen(smoothed)
        self.starts = type(frozen)(
            *(
                np.where(known.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(frozen, self.starts, strict=True)
            )
        )
        self.emission = self.emission.forgotten(stats, smoothed, begins)
        if self.settings.learn_alpha:
            births, chances = FADE * np.array(self.alpha_sums) + births_of(self)[0]
            self.alpha_sums = float(births), float(chances)
        if self.settings.learn_kappa:
            self.kappa_sums = FADE * self.kappa_sums + kernel_gains(self)[0]
        out = np.zeros((1, self.n_components, 3))
        moments_of_rows(self.resp[0], out[0])
        self.before = np.concatenate([self.before, out])[1:]
        self.sizes = [*self.sizes[1:], len(self.resp[0])]
        self.rows.pop(0)
        self.resp.pop(0)

    def retire(self) -> None:
        """Let components go that nobody joined for as long as the past counts, or may change."""
        if not self.n_components:
            return
        width = max(self.settings.width, len(self.rows))
        now = np.concatenate([self.before, self.moments(self.resp)])[-width:, :, MEAN]
        self.last_active[now[-1] >= _ACTIVE] = self.epoch
        silent = now.sum(axis=0) < _DEAD
        for q in self.resp:
            silent[q.argmax(axis=1)] = False  # a row that many share keeps the best of them
        if silent.any():
            self.changes += [
                Change(int(last), "death", int(i))
                for i, last in zip(self.ids[silent], self.last_active[silent], strict=True)
            ]
            self._keep(np.flatnonzero(~silent))
            self.resp = [q / q.sum(axis=1, keepdims=True) for q in self.resp]

    # -- the objective ---------------------------------------------------------------------------

    def terms(self, resp: list[FloatArray], before: FloatArray) -> Terms:
        """Return what columns contribute to the window's objective, but for their emissions."""
        now = self.moments(resp)
        past = self.decayed(now, before)[:-1]
        counts = np.empty(now.shape[:2])
        count_terms(now, past, self.settings.a0, counts)
        entropy = np.zeros(now.shape[1])
        for q in resp:
            add_entropies(q, entropy)
        return Terms(counts.sum(axis=0), entropy, now[:, :, LOG_ZERO].sum(axis=0))

    def united(self, a: IntArray, b: IntArray) -> Terms:
        """Return what pairs of columns would contribute as one, with the past of the first."""
        now = np.empty((len(self.resp), len(a), 3))
        entropy = np.zeros(len(a))
        for e, q in enumerate(self.resp):
            moments_of_pairs(np.ascontiguousarray(q.T), a, b, now[e], entropy)
        past = self.decayed(now, self.before[:, a])[:-1]
        counts = np.empty(now.shape[:2])
        count_terms(now, past, self.settings.a0, counts)
        return Terms(counts.sum(axis=0), entropy, now[:, :, LOG_ZERO].sum(axis=0))
