"""The engine of the temporal mixture: a moving window of epochs (docs/math/temporal.md).

The state after an epoch is a window of the last ``lag + 1`` epochs with their assignments, the
moments of the counts of the ``width`` epochs before, and each component's knowledge from before the
window. Marginal predictives assign the rows of an arriving epoch one by one, and open components;
then the window is swept, and `moves` changes their number. A component dies when it has been
silent, in epochs with rows, for as long as the past counts.

alpha is the mode given expected births, with a Gamma prior worth one birth. The decay exp(-d /
scale) is the one of `KERNELS` under which the counts are most probable. Sums for epochs that left
the window fade.
"""

import math
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import digamma, gammaln

from streamddcrp.estimator.stored import read_events
from streamddcrp.models.temporal.emissions import Seating, Seats, each, widened
from streamddcrp.models.temporal.emissions.bags import get, get_rows, put
from streamddcrp.models.temporal.kernels import counts as kernels
from streamddcrp.models.temporal.moves import move
from streamddcrp.models.temporal.window import Settings, Window
from streamddcrp.records import CHANCE, FINITE, MOST, VALUE, check, check_one, declared, refuse_if
from streamddcrp.typing import FloatArray
from streamddcrp.validation import positive, whole

_FADE = 0.98  # per epoch, for learned quantities
_SCALES = np.array([0.2, 0.3, 0.45, 0.7, 1.0, 1.5, 2.2])
_LEAST = 0.04  # least weight of an epoch that counts; smaller ones hardly matter
_STORED = [part.name for part in declared(Window)]
_DELTA = np.arange(1.0, 8.0)
KERNELS = np.exp(-_DELTA / _SCALES[:, None])
KERNELS[(KERNELS < _LEAST) & (_DELTA > 1.0)] = 0.0


def _check(arrays: dict[str, Any], meta: dict[str, Any], settings: Settings) -> None:
    check(Window, arrays, {"W": len(settings.past_weights)})
    positive("alpha", settings.alpha)
    for name, least, most in (("slots", 1, 1 << 31), ("lag", 0, 1 << 20), ("n_sweeps", 0, 1000)):
        whole(name, getattr(settings, name), least, most)
    numbers = [*settings.past_weights, settings.split_margin, *meta["alpha"], *meta["decay_gains"]]
    refuse_if(not all(type(x) is float and math.isfinite(x) for x in numbers), "numbers")
    refuse_if(min(settings.past_weights, default=0.0) < 0.0 or meta["alpha"][0] <= 0.0, "weights")
    flags = settings.learn_alpha, settings.learn_decay
    refuse_if(not all(type(flag) is bool for flag in flags), "settings")
    refuse_if(len(meta["alpha"]) != 3 or len(meta["decay_gains"]) != len(KERNELS), "numbers")
    sizes = meta["epoch_sizes"]
    refuse_if(len(sizes) != len(settings.past_weights), "sizes of epochs")
    counts = [meta["epoch"] + 1, meta["next_id"], meta["n_rows"], *sizes]
    refuse_if(not all(type(n) is int and 0 <= n <= MOST for n in counts), "counts")
    most = min(settings.lag, meta["epoch"]) + 1
    none = not meta["n_rows"] and len(arrays["ids"]) > 0
    refuse_if(meta["n_rows"] > most or none, "epochs of the window")
    refuse_if(settings.learn_decay and len(settings.past_weights) != KERNELS.shape[1], "weights")
    for name in ("born", "last_active"):
        refuse_if(int(arrays[name].max(initial=-1)) > meta["epoch"], name)
    K = len(arrays["ids"])
    refuse_if(bool((np.diff(arrays["ids"]) <= 0).any()) or settings.slots < K, "components")


def _check_rows(name: str, X: Any, n_features: int) -> None:
    """Refuse stored numeric rows of another width; words may vary."""
    if isinstance(X, np.ndarray):
        check_one(name, X, (len(X), n_features), np.float64, VALUE)
    else:
        refuse_if(len(X.shape) != 2, name)


@dataclass(slots=True)
class Engine(Window):
    """A window that moves epoch by epoch, and the open epoch after it."""

    seating: Seating | None = None  # of the open epoch
    weight: float = 0.0  # of all components, without the open epoch's rows
    n_open: int = 0
    arrived: list[Any] = field(default_factory=list)  # rows of the open epoch
    seated: list[FloatArray] = field(default_factory=list)  # and their assignments
    alpha_sums: tuple[float, float] = (0.0, 0.0)  # births and their chances in past epochs
    decay_gains: FloatArray = field(default_factory=lambda: np.zeros(len(KERNELS)))
    first_alpha: float = 0.0
    sizes: list[int] = field(default_factory=list)  # rows of the epochs before the window

    def __post_init__(self) -> None:
        self.first_alpha = self.first_alpha or self.settings.alpha
        if self.settings.learn_decay:
            weights = np.zeros(KERNELS.shape[1])
            weights[: len(self.settings.past_weights)] = self.settings.past_weights
            self.settings = self.settings._replace(past_weights=tuple(weights.tolist()))
        if self.starts is None:
            self.starts = self.emission.no_starts(0)
            self.sizes = [0] * len(self.settings.past_weights)
            self.before = np.zeros((len(self.settings.past_weights), 0, 3))

    # -- an epoch --------------------------------------------------------------------------------

    def learn(self, X: Any) -> FloatArray:
        """Learn a whole epoch; return the surprise of its rows, each given earlier ones."""
        scores = self.seat(X).scores
        self.close()
        return scores

    def seat(self, X: Any) -> Seats:
        """Assign rows of the open epoch, beginning it if necessary; scores are surprises."""
        if self.seating is None:
            self.seating, self.weight = self._begin()
        settings = self.settings
        seats: Seats = self.seating.seat(X, settings.a0, self.log_new, settings.slots)
        weights = self.weight + (self.n_open + np.arange(len(seats.q)))  # independent of the cuts
        self.n_open += len(seats.q)
        self.arrived.append(X)
        self.seated.append(seats.q)
        return seats._replace(scores=seats.scores + np.log(weights))

    def reseat(self, parts: list[Any]) -> None:
        """Reassign the open epoch's rows, which have changed."""
        self.seating, self.arrived, self.seated, self.n_open = None, [], [], 0
        for X in parts:
            self.seat(X)

    @property
    def log_new(self) -> float:
        """Log weight of a new component, if one may be opened."""
        slots = self.settings.slots
        return math.log(self.settings.alpha * max(slots - self.n_components, 1) / slots)

    def peek(self, X: Any) -> tuple[Seats, FloatArray]:
        """Return the output of `seat` for one row, and its component probabilities."""
        seating, weight = self._begin() if self.seating is None else (self.seating, self.weight)
        a0, slots, K = self.settings.a0, self.settings.slots, seating.n_components
        # without a new one
        q = deepcopy(seating).seat(X, a0, -math.inf, slots).q if K else np.zeros((1, 0))
        seats = deepcopy(seating).seat(X, a0, self.log_new, slots)
        seats = seats._replace(scores=seats.scores + np.log(weight + self.n_open + np.zeros(1)))
        return seats, (1.0 - seats.chances[0, 0]) * q[0, :K]

    def _begin(self) -> tuple[Any, float]:
        """Begin an epoch after the window; return it and the weight of all components."""
        past = self.decayed(self.moments(self.resp), self.before)[-1, :, kernels.MEAN]
        smoothed = self.smooth()
        ahead = self.emission.no_starts(0) if smoothed is None else self.emission.ahead(smoothed)
        return self.emission.seating(past.copy(), ahead), self.settings.alpha + float(past.sum())

    def close(self) -> None:
        """Close the open epoch, which may be empty: sweep, move, retire."""
        K = self.n_components if self.seating is None else self.seating.n_components
        X = self.emission.joined(self.arrived)
        q = np.concatenate([np.zeros((0, K)), *(widened(q, K - q.shape[1]) for q in self.seated)])
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

    def freeze(self, smoothed: Any = None) -> None:
        """Move the oldest epoch out of a full window, which may have been smoothed."""
        if len(self.rows) <= self.settings.lag:
            return
        stats, begins = self.stats(self.resp), self.begins
        smoothed = smoothed or self.emission.smooth(stats, self.starts, begins)
        known = begins <= 0
        self.starts = each(
            lambda new, old: np.where(known.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            self.emission.frozen(smoothed),
            self.starts,
        )
        self.emission = self.emission.forgotten(stats, smoothed, begins)
        if len(self.resp[0]):  # sizes do not fade in empty epochs
            self._note_counts()
        self.rows.pop(0)
        self.resp.pop(0)

    def pause(self, number: int) -> None:
        """Skip many empty epochs; the last one represents the whole window."""
        self.epoch = number - 1
        self.rows, self.resp = self.rows[-1:], self.resp[-1:]

    # -- learned from the counts -----------------------------------------------------------------

    def _note_counts(self) -> None:
        if self.settings.learn_alpha:
            births, chances = _FADE * np.array(self.alpha_sums) + self.births()[0]
            self.alpha_sums = float(births), float(chances)
        if self.settings.learn_decay:
            self.decay_gains = _FADE * self.decay_gains + self.kernel_gains()[0]
        out = np.zeros((1, self.n_components, 3))
        kernels.moments_of_rows(self.resp[0], out[0])
        self.before = np.concatenate([self.before, out])[1:]
        self.sizes = [*self.sizes[1:], len(self.resp[0])]

    def learn_counts(self) -> None:
        """Fit alpha, or the weights of the past, to the counts of all epochs.

        alpha is (1 + B) / (1 / first alpha + sum of psi(A + N) - psi(A)), B expected births.
        """
        settings = self.settings
        if settings.learn_alpha:
            births, chances = self.births().sum(axis=0) + self.alpha_sums
            alpha = float((1.0 + births) / (1.0 / self.first_alpha + chances))
            settings = settings._replace(alpha=alpha)
        if settings.learn_decay:
            gains = self.decay_gains + self.kernel_gains().sum(axis=0)
            settings = settings._replace(past_weights=tuple(KERNELS[int(gains.argmax())].tolist()))
        self.settings = settings

    def _rows_and_past(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rows of the window's epochs, and their decayed past rows, (E,)."""
        sizes, W = np.array([*self.sizes, *map(len, self.resp)], dtype=np.float64), len(weights)
        return sizes[W:], np.convolve(sizes, weights)[W - 1 : len(sizes) - 1]

    def births(self) -> FloatArray:
        """Return expected births of the window's epochs, and their theoretical rate, (E, 2)."""
        now = self.moments(self.resp)
        past = self.decayed(now, self.before)[:-1]
        born = np.exp(past[:, :, kernels.LOG_ZERO]) * -np.expm1(now[:, :, kernels.LOG_ZERO])
        rows, before = self._rows_and_past(np.array(self.settings.past_weights))
        mass = self.settings.alpha + before
        return np.stack([born.sum(axis=1), digamma(mass + rows) - digamma(mass)], axis=1)

    def kernel_gains(self) -> FloatArray:
        """Return E log p(counts) of the window's epochs under every kernel, (E, G)."""
        now = self.moments(self.resp)
        terms = np.empty((len(KERNELS), *now.shape[:2]))
        kernels.terms_of_kernels(self.before, now, KERNELS, self.settings.a0, terms)
        rows, before = zip(*map(self._rows_and_past, KERNELS), strict=True)
        mass = self.settings.alpha + np.array(before)
        gains: FloatArray = terms.sum(axis=2) + gammaln(mass) - gammaln(mass + np.array(rows))
        return gains.T

    # -- checkpoints -----------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays, and JSON values without the emission."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in _STORED}
        for name, part in self.starts._asdict().items():
            put(arrays, f"starts.{name}", part)
        for e, (X, q) in enumerate(zip(self.rows, self.resp, strict=True)):
            put(arrays, f"rows.{e}", X)
            arrays[f"resp.{e}"] = q
        if self.n_open:
            put(arrays, "open", self.emission.joined(self.arrived))
        return arrays, {
            "settings": self.settings._asdict(),
            "epoch": self.epoch,
            "next_id": self.next_id,
            "alpha": [self.first_alpha, *self.alpha_sums],
            "decay_gains": self.decay_gains.tolist(),
            "epoch_sizes": self.sizes,
            "n_rows": len(self.rows),
            "changes": [asdict(change) for change in self.changes],
        }

    @classmethod
    def from_state(
        cls, emission: Any, arrays: dict[str, Any], meta: dict[str, Any], n_features: int
    ) -> Self:
        """Rebuild from `to_state`, reassigning the open epoch's rows."""
        settings = {**meta["settings"], "past_weights": tuple(meta["settings"]["past_weights"])}
        _check(arrays, meta, Settings(**settings))
        self = cls(Settings(**settings), emission, epoch=meta["epoch"], next_id=meta["next_id"])
        self.first_alpha, *sums = meta["alpha"]
        self.alpha_sums, self.decay_gains = tuple(sums), np.array(meta["decay_gains"])
        self.sizes = meta["epoch_sizes"]
        kind = type(self.starts)
        self.starts = kind(*(get(arrays, f"starts.{name}") for name in kind._fields))
        K = len(arrays["ids"])
        for name, known in emission.no_starts(K)._asdict().items():
            new = getattr(self.starts, name)
            refuse_if(type(new) is not type(known) or new.shape != known.shape, f"starts.{name}")
            if isinstance(new, np.ndarray):
                check_one(f"starts.{name}", new, known.shape, known.dtype, FINITE)
        for name in _STORED:
            setattr(self, name, arrays[name])
        self.rows = [get_rows(arrays, f"rows.{e}") for e in range(meta["n_rows"])]
        self.resp = [arrays[f"resp.{e}"] for e in range(meta["n_rows"])]
        for e, (X, q) in enumerate(zip(self.rows, self.resp, strict=True)):
            _check_rows(f"rows.{e}", X, n_features)
            check_one(f"resp.{e}", q, (X.shape[0], K), np.float64, CHANCE)
        self.changes = read_events(meta["changes"])
        if "open" in arrays or "open.shape" in arrays:
            coming = get_rows(arrays, "open")
            _check_rows("open", coming, n_features)
            self.seat(coming)
        return self
