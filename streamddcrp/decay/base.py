"""The interface of decays, and their algebra: sums, products, multiples."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.numerics import CALLER_GIVEN
from streamddcrp.typing import ArrayLike, FloatArray
from streamddcrp.validation import positive

FAMILIES: dict[str, type["Decay"]] = {}
_Family = TypeVar("_Family", bound="type[Decay]")


def family(name: str) -> Callable[[_Family], _Family]:
    """Register a decay under a name, for options and checkpoints."""

    def register(cls: _Family) -> _Family:
        cls.name = name
        FAMILIES[name] = cls
        return cls

    return register


class Decay(ABC):
    """Weight f(d) >= 0 of a link over distance d, not increasing in d.

    Decays can be added and multiplied: ``0.9 * Window(5) + 0.1 * Exponential(50.0)`` is a decay.
    Only the ratio of f to the concentration matters: doubling both does not change the model.

    A subclass defines `log_weight`; the other methods follow from it.

    Attributes
    ----------
    name : str
        Registered by `family`; if empty, options and checkpoints cannot hold the class.
    code : int
        Family code of the compiled `streamddcrp.numerics.log_decay`, or ``CALLER_GIVEN`` if
        `log_weight` computes the log weights and the kernels receive them.
    location, scale : float
        Parameters of the compiled function: a width or a knee, and a length.
    """

    __slots__ = ()

    name: ClassVar[str] = ""
    code: ClassVar[int] = CALLER_GIVEN

    @property
    def location(self) -> float:
        """First parameter of the compiled function, 0 if unused."""
        return 0.0

    @property
    def scale(self) -> float:
        """Second parameter of the compiled function, 1 if unused."""
        return 1.0

    @abstractmethod
    def log_weight(self, distances: ArrayLike) -> FloatArray:
        """Return log f(d), -inf where f is 0, for distances in [0, inf] of any shape."""

    def weight(self, distances: ArrayLike) -> FloatArray:
        """Return f(d) = exp(log f(d)), of the shape of `distances`."""
        return np.exp(self.log_weight(distances))

    def horizon(self, eps: float = 1e-12) -> float:
        """Return the smallest distance beyond which f(d) < eps f(0), for 0 < eps <= 1, or ``inf``.

        It bounds a method's window, and so its memory.
        """
        bar = log_eps(eps) + float(self.log_weight(0.0))
        return _last_distance(lambda d: float(self.log_weight(d)) >= bar)

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-able description; `decay_from_config` reads it."""
        if not self.name:
            raise ConfigError(
                f"{type(self).__name__} holds a Python function, which a checkpoint or a "
                f"configuration file cannot; use sums and products of the named families, or pass "
                f"the decay again when the model is restored"
            )
        options = getattr(self, "__match_args__", ())
        return {"family": self.name} | {option: getattr(self, option) for option in options}

    def __add__(self, other: object) -> "Sum":
        """Add two decays: links of either kind."""
        if not isinstance(other, Decay):
            return NotImplemented
        return Sum(self, other)

    def __mul__(self, other: object) -> "Product | Scaled":
        """Multiply by a decay, or by a positive number."""
        if isinstance(other, Decay):
            return Product(self, other)
        if isinstance(other, int | float | np.number):
            return Scaled(float(other), self)
        return NotImplemented

    def __rmul__(self, other: object) -> "Product | Scaled":
        """Multiply by a positive number from the left."""
        return self.__mul__(other)


@dataclass(frozen=True, slots=True)
class Pair(Decay):
    """A decay made of two; ``kind`` and ``parts`` are their names in a configuration."""

    left: Decay
    right: Decay
    kind: ClassVar[str]
    parts: ClassVar[str]

    def to_config(self) -> dict[str, Any]:
        return {"family": self.kind, self.parts: [self.left.to_config(), self.right.to_config()]}


class Sum(Pair):
    """Sum of two decays, f(d) = f_1(d) + f_2(d).

    Examples
    --------
    >>> from streamddcrp.decay import Exponential, Window
    >>> (Window(3.0) + Exponential(2.0)).weight([0.0, 2.0, 4.0])
    array([2.    , 1.3679, 0.1353])
    """

    __slots__ = ()
    kind, parts = "sum", "terms"

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        return np.logaddexp(self.left.log_weight(d), self.right.log_weight(d))


class Product(Pair):
    """Product of two decays, f(d) = f_1(d) f_2(d).

    Examples
    --------
    A windowed exponential:

    >>> from streamddcrp.decay import Exponential, Window
    >>> (Window(3.0) * Exponential(2.0)).weight([0.0, 2.0, 4.0])
    array([1.    , 0.3679, 0.    ])
    """

    __slots__ = ()
    kind, parts = "product", "factors"

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        return np.asarray(self.left.log_weight(d) + self.right.log_weight(d))


@dataclass(frozen=True, slots=True)
class Scaled(Decay):
    """Multiple of a decay, a f(d): the weight of one kind of link against another.

    Examples
    --------
    >>> from streamddcrp.decay import Window
    >>> (0.5 * Window(3.0)).weight([0.0, 2.0, 4.0])
    array([0.5, 0.5, 0. ])
    """

    factor: float
    decay: Decay

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", positive("Scaled: factor", self.factor))

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        return np.asarray(math.log(self.factor) + self.decay.log_weight(distances))

    def to_config(self) -> dict[str, Any]:
        return {"family": "scaled", "factor": self.factor, "decay": self.decay.to_config()}


def _last_distance(heavy: Callable[[float], bool]) -> float:
    """Return the largest float for which a decreasing condition holds, by bisection."""
    low, high = 0.0, 1.0
    while heavy(high):
        low, high = high, 2.0 * high
        if math.isinf(high):
            return math.inf
    while True:
        middle = low + 0.5 * (high - low)
        if middle in {low, high}:
            return low
        if heavy(middle):
            low = middle
        else:
            high = middle


def checked_distances(distances: ArrayLike) -> FloatArray:
    """Return distances as floats, any shape; refuse negative and undefined ones."""
    d = np.asarray(distances, dtype=np.float64)
    if not np.all(d >= 0.0):
        wrong = d[~(d >= 0.0)].flat[0]
        raise SchemaError(f"distances: expected values >= 0 (infinity is allowed), got {wrong}")
    return d


def log_eps(eps: float) -> float:
    """Return the logarithm of a fraction of f(0)."""
    if not 0.0 < eps <= 1.0:
        raise ConfigError(f"eps: expected a fraction of f(0), 0 < eps <= 1, got {eps!r}")
    return math.log(eps)
