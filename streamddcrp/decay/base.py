"""What every decay can do, and the algebra of decays: sums, products, multiples."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamddcrp.decay.checks import checked_distances, log_eps, positive
from streamddcrp.errors import ConfigError
from streamddcrp.numerics import CALLER_GIVEN
from streamddcrp.typing import ArrayLike, FloatArray


class Decay(ABC):
    """Weight f(d) >= 0 of a link over distance d, not increasing in d.

    Decays add and multiply: ``0.9 * Window(5) + 0.1 * Exponential(50.0)`` is a decay. Only the
    ratio of f to the concentration matters: doubling both leaves the model as it is.

    A subclass defines `log_weight`; the other methods follow from it.

    Attributes
    ----------
    code : int
        Family code of the compiled `streamddcrp.numerics.log_decay`; ``CALLER_GIVEN`` where there
        is none and the log weights are computed by `log_weight` and handed to the kernels.
    location, scale : float
        Parameters of the compiled function.
    """

    __slots__ = ()

    code: ClassVar[int] = CALLER_GIVEN

    @property
    @abstractmethod
    def location(self) -> float:
        """First parameter of the compiled function: a width or a knee."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Second parameter of the compiled function: a length."""

    @abstractmethod
    def log_weight(self, distances: ArrayLike) -> FloatArray:
        """Return log f(d), -inf where f is 0.

        Parameters
        ----------
        distances : array_like of float
            Any shape, values in [0, inf].

        Returns
        -------
        ndarray of float64
            Of the shape of `distances`.
        """

    def weight(self, distances: ArrayLike) -> FloatArray:
        """Return f(d) = exp(log f(d)), of the shape of `distances`."""
        return np.exp(self.log_weight(distances))

    def horizon(self, eps: float = 1e-12) -> float:
        """Return the smallest distance beyond which f(d) < eps f(0).

        It bounds the window a method must keep, and so its memory.

        Parameters
        ----------
        eps : float
            0 < eps <= 1.

        Returns
        -------
        float
            ``inf`` where f never falls that low.
        """
        bar = log_eps(eps) + float(self.log_weight(0.0))
        return _last_distance(lambda d: float(self.log_weight(d)) >= bar)

    def to_config(self) -> dict[str, Any]:
        """Return a description that JSON can hold; `decay_from_config` reads it."""
        msg = (
            f"{type(self).__name__} holds a Python function, which a checkpoint or a configuration "
            f"file cannot; use sums and products of the named families, or hand the decay over "
            f"again when the model is restored"
        )
        raise ConfigError(msg)

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


class CallerGiven(Decay):
    """A decay without a compiled form: its parameters mean nothing to the kernels."""

    __slots__ = ()

    @property
    def location(self) -> float:
        """Not used."""
        return 0.0

    @property
    def scale(self) -> float:
        """Not used."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Sum(CallerGiven):
    """Sum of two decays, f(d) = f_1(d) + f_2(d).

    Examples
    --------
    >>> from streamddcrp.decay import Exponential, Window
    >>> (Window(3.0) + Exponential(2.0)).weight([0.0, 2.0, 4.0])
    array([2.    , 1.3679, 0.1353])
    """

    left: Decay
    right: Decay

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        """Return log(f_1 + f_2) without leaving log space."""
        d = checked_distances(distances)
        return np.logaddexp(self.left.log_weight(d), self.right.log_weight(d))

    def to_config(self) -> dict[str, Any]:
        """Return a description that JSON can hold."""
        terms = [self.left.to_config(), self.right.to_config()]
        return {"family": "sum", "terms": terms}


@dataclass(frozen=True, slots=True)
class Product(CallerGiven):
    """Product of two decays, f(d) = f_1(d) f_2(d).

    Examples
    --------
    A windowed exponential:

    >>> from streamddcrp.decay import Exponential, Window
    >>> (Window(3.0) * Exponential(2.0)).weight([0.0, 2.0, 4.0])
    array([1.    , 0.3679, 0.    ])
    """

    left: Decay
    right: Decay

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        """Return log f_1 + log f_2."""
        d = checked_distances(distances)
        return np.asarray(self.left.log_weight(d) + self.right.log_weight(d))

    def to_config(self) -> dict[str, Any]:
        """Return a description that JSON can hold."""
        factors = [self.left.to_config(), self.right.to_config()]
        return {"family": "product", "factors": factors}


@dataclass(frozen=True, slots=True)
class Scaled(CallerGiven):
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
        object.__setattr__(self, "factor", positive("Scaled", "factor", self.factor))

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        """Return log a + log f."""
        return np.asarray(math.log(self.factor) + self.decay.log_weight(distances))

    def to_config(self) -> dict[str, Any]:
        """Return a description that JSON can hold."""
        return {"family": "scaled", "factor": self.factor, "decay": self.decay.to_config()}


def _last_distance(heavy: Callable[[float], bool]) -> float:
    """Return the largest distance at which a falling condition holds, exact to one rounding.

    Doubles until the condition fails, then bisects over the floating point numbers.
    """
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
