"""State and steps of the engine over unit vectors."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.compilation import compiled, entry_point
from streamddcrp.errors import ConfigError
from streamddcrp.models.text.arrays import Events
from streamddcrp.models.text.config import make_config
from streamddcrp.models.text.kernels.layout import GROWTH, N_COUNTS, N_SLOTS, NEXT_ID
from streamddcrp.models.text.kernels.vectors import predict_vector, step_vectors
from streamddcrp.typing import FloatArray, IntArray

RHOS = (0.2, 0.3, 0.4, 0.5)
N_TEXT_OUTPUTS = 7
_K = 16
_EVENTS = 4096  # in the log


class VectorConfig(NamedTuple):
    """Settings in the kernels' terms; ``rho`` (G,) are all its values."""

    alpha: float
    decay: float
    rho: FloatArray
    temper: float
    ages: IntArray


class Tables(NamedTuple):
    """Stories by slot: sums of their vectors (K, D), squared lengths of these and more (K,).

    ``joint`` is log J of their vectors; with one more its parts are ``base`` + ``slope`` |S|^2, a
    column for each rho (K, G). ``told``: whether a final label has named it.
    """

    total: FloatArray
    square: FloatArray
    joint: FloatArray
    base: FloatArray
    slope: FloatArray
    mass: FloatArray
    born_t: FloatArray
    last_t: FloatArray
    size: IntArray
    in_window: IntArray
    id: IntArray
    born: IntArray
    last_seen: IntArray
    told: IntArray


class Window(NamedTuple):
    """The last vectors (L + 1, D), their slots, stored weights and times (L + 1,)."""

    x: FloatArray
    table: IntArray
    weight: FloatArray
    t: FloatArray


def make_vector_config(
    *, alpha: float | None, decay: float, lag: int, rho: float | None, temper: float
) -> VectorConfig:
    """Check the settings; those shared with texts mean the same."""
    base = make_config(alpha=alpha, decay=decay, lag=lag)
    if rho is not None and not 0.0 < rho < 1.0:
        message = f"rho must lie between 0 and 1 or be None, got {rho!r}"
        raise ConfigError(message)
    if not 0.0 < temper <= 1.0:
        message = f"temper must be above 0 and at most 1, got {temper!r}"
        raise ConfigError(message)
    values = np.array(RHOS if rho is None else (rho,))
    return VectorConfig(base.alpha, base.decay, values, float(temper), base.ages)


class VectorState:
    """The engine's memory for vectors of D numbers."""

    def __init__(self, config: VectorConfig, n_features: int) -> None:
        L = int(config.ages[-1]) + 1
        self.config = config
        self.tables: Any = _empty_tables(_K, n_features, len(config.rho))
        self.window: Any = Window(
            np.zeros((L, n_features)), np.full(L, -1), np.zeros(L), np.zeros(L)
        )
        self.events: Any = Events(*(np.zeros(_EVENTS, kind) for kind in "qqqqdqq"))
        self.counts = np.zeros(N_COUNTS, np.int64)
        self.sums = np.zeros(2 + 2 * len(config.rho))
        self.sums[GROWTH] = 1.0
        self.odds = np.zeros(_K)

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict and learn unit vectors (N, D) at times (N,); return the outputs (N, 7)."""
        with compiled(step_vectors) as needed:
            if needed and len(X):
                self.step(X[:0], t[:0])
        out, done = np.empty((len(X), N_TEXT_OUTPUTS)), 0
        while True:
            done = entry_point(step_vectors)(
                self.config, self.tables, self.window, self.events, self.counts, self.sums,
                self.odds, X, t, done, out,
            )  # fmt: skip
            if done == len(X):
                return out
            self._fit(2 * len(self.tables.id))

    def _fit(self, K: int) -> None:
        """Make room for so many slots."""
        D, G = self.tables.total.shape[1], len(self.config.rho)
        more = _empty_tables(K - len(self.tables.id), D, G)
        self.tables = Tables(*map(np.concatenate, zip(self.tables, more, strict=True)))
        self.odds = np.zeros(K)

    def predict(self, x: FloatArray) -> tuple[FloatArray, dict[int, float]]:
        """Predict a unit vector (D,); return outputs (7,) and the probabilities of the stories."""
        out = np.empty(N_TEXT_OUTPUTS)
        entry_point(predict_vector)(
            self.config, self.tables, self.counts, self.sums, self.odds, x, out
        )
        n = int(self.counts[N_SLOTS])
        live = np.flatnonzero(self.tables.size[:n] > 0)
        odds = self.odds[live]
        weights = np.exp(odds - max(0.0, float(odds.max(initial=0.0))))
        probs = weights * ((1.0 - out[3]) / max(float(weights.sum()), 1e-300))
        return out, dict(zip(self.tables.id[live].tolist(), probs.tolist(), strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return sum(int(array.nbytes) for array in (*self.tables, *self.window, *self.events))

    def arrays(self) -> dict[str, Any]:
        """Return the arrays without unused capacity, for a checkpoint."""
        n = int(self.counts[N_SLOTS])
        parts = {f"tables.{name}": a[:n].copy() for name, a in self.tables._asdict().items()}
        for group, named in (("window", self.window), ("events", self.events)):
            parts |= {f"{group}.{name}": a.copy() for name, a in named._asdict().items()}
        return parts | {"counts": self.counts.copy(), "sums": self.sums.copy()}

    @classmethod
    def restore(cls, config: VectorConfig, arrays: Mapping[str, Any]) -> "VectorState":
        """Rebuild what `arrays` described."""
        state = cls(config, arrays["window.x"].shape[1])
        n, K = int(arrays["counts"][N_SLOTS]), _K
        while n > K:
            K *= 2
        if K > _K:
            state._fit(K)
        for name, array in state.tables._asdict().items():
            array[:n] = arrays[f"tables.{name}"]
        state.window = Window(*(arrays[f"window.{name}"] for name in Window._fields))
        state.events = Events(*(arrays[f"events.{name}"] for name in Events._fields))
        state.counts, state.sums = arrays["counts"], arrays["sums"]
        return state

    @property
    def next_id(self) -> int:
        """The id that a new story would get."""
        return int(self.counts[NEXT_ID])


def _empty_tables(K: int, D: int, G: int) -> Any:
    numbers: list[Any] = [
        np.zeros(shape) for shape in ((K, D), (K,), (K,), (K, G), (K, G), (K,), (K,), (K,))
    ]
    return Tables(*numbers, *(np.zeros(K, np.int64) for _ in range(6)))
