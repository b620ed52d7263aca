"""The decay families with a compiled form, the wrapper of a user's own function, and options."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from streamddcrp.arguments import values_of
from streamddcrp.decay.base import (
    FAMILIES,
    Decay,
    Pair,
    Product,
    Scaled,
    Sum,
    checked_distances,
    family,
    log_eps,
)
from streamddcrp.errors import ConfigError
from streamddcrp.numerics import EXPONENTIAL, LINEAR_WINDOW, LOGISTIC, NO_DECAY, WINDOW
from streamddcrp.typing import ArrayLike, FloatArray
from streamddcrp.validation import finite, positive


@family("none")
@dataclass(frozen=True, slots=True)
class NoDecay(Decay):
    """No decay, f(d) = 1 for every finite d: the Chinese restaurant process.

    Examples
    --------
    >>> NoDecay().weight([0.0, 1e6])
    array([1., 1.])
    """

    code: ClassVar[int] = NO_DECAY

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        return np.where(d < np.inf, 0.0, -np.inf)

    def horizon(self, eps: float = 1e-12) -> float:
        log_eps(eps)
        return math.inf


@family("window")
@dataclass(frozen=True, slots=True)
class Window(Decay):
    """A hard window, f(d) = 1 for d < width, else 0.

    The inequality is strict: with integer distances a width of 3 reaches 2 customers back.

    Parameters
    ----------
    width : float

    Examples
    --------
    >>> Window(3.0).weight([1.0, 2.0, 3.0])
    array([1., 1., 0.])
    """

    width: float
    code: ClassVar[int] = WINDOW

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", positive(f"{type(self).__name__}: width", self.width))

    @property
    def location(self) -> float:
        """The width."""
        return self.width

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        return np.where(d < self.width, 0.0, -np.inf)

    def horizon(self, eps: float = 1e-12) -> float:
        log_eps(eps)
        return self.width


@family("exponential")
@dataclass(frozen=True, slots=True)
class Exponential(Decay):
    """Exponential decay, f(d) = exp(-d / scale).

    Parameters
    ----------
    scale : float

    Examples
    --------
    >>> Exponential(2.0).weight([0.0, 2.0, 4.0])
    array([1.    , 0.3679, 0.1353])
    >>> Exponential(2.0).horizon(1e-3)
    13.8155
    """

    scale: float = field()  # hides the property of Decay, which would become the default
    code: ClassVar[int] = EXPONENTIAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("Exponential: scale", self.scale))

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        with np.errstate(over="ignore"):  # a tiny scale: the weight is 0
            return np.asarray(-d / self.scale)

    def horizon(self, eps: float = 1e-12) -> float:
        return -self.scale * log_eps(eps)


@family("logistic")
@dataclass(frozen=True, slots=True)
class Logistic(Decay):
    """A soft window, f(d) = 1 / (1 + exp((d - location) / scale)).

    Parameters
    ----------
    location : float
        Distance of the knee, where f is one half.
    scale : float
        Softness of the edge.

    Examples
    --------
    >>> Logistic(3.0).weight([0.0, 3.0, 5.0])
    array([0.9526, 0.5   , 0.1192])
    """

    location: float = field()
    scale: float = 1.0
    code: ClassVar[int] = LOGISTIC

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", finite("Logistic: location", self.location))
        object.__setattr__(self, "scale", positive("Logistic: scale", self.scale))

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        with np.errstate(over="ignore"):
            return np.asarray(-np.logaddexp(0.0, (d - self.location) / self.scale))


@family("linear_window")
@dataclass(frozen=True, slots=True)
class LinearWindow(Window):
    """A window that closes linearly, f(d) = max(1 - d / width, 0).

    Parameters
    ----------
    width : float

    Examples
    --------
    >>> LinearWindow(4.0).weight([0.0, 1.0, 5.0])
    array([1.  , 0.75, 0.  ])
    """

    code: ClassVar[int] = LINEAR_WINDOW

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        inside = d < self.width
        return np.where(inside, np.log1p(-np.where(inside, d, 0.0) / self.width), -np.inf)

    def horizon(self, eps: float = 1e-12) -> float:
        return Window.horizon(self, eps) * (1.0 - eps)


@dataclass(frozen=True, slots=True)
class UserDecay(Decay):
    """A decay given as a function of an array of distances.

    The function must not increase with distance, or `horizon` is meaningless. Negative, infinite
    and undefined values are refused whenever they appear.

    Parameters
    ----------
    function : callable
        Takes an ndarray of float64 of any shape, returns the weights f(d) in the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> bell = UserDecay(lambda d: np.exp(-0.5 * d**2))
    >>> bell.weight([0.0, 1.0, 2.0])
    array([1.    , 0.6065, 0.1353])
    >>> bell.horizon(1e-3)
    3.7169
    """

    function: Callable[[FloatArray], ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"UserDecay: expected a function of distances, got {self.function!r}")
        if self.weight(np.array([[0.0, 1.0], [2.0, 4.0]]))[0, 0] == 0.0:
            raise ConfigError("UserDecay: the function is 0 at distance 0, so no link is possible")

    def weight(self, distances: ArrayLike) -> FloatArray:
        d = checked_distances(distances)
        f: FloatArray = values_of("UserDecay: the function", self.function, d)
        wrong = ~((f >= 0.0) & (f < np.inf))
        if wrong.any():
            raise ConfigError(
                f"UserDecay: the function returned {f[wrong].flat[0]} at distance "
                f"{d[wrong].flat[0]}; weights must be finite and not negative"
            )
        return f

    def log_weight(self, distances: ArrayLike) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight(distances)))


# Option ``decay``; `make_decay` explains each kind
DecaySpec = Decay | Sequence[Any] | Mapping[str, Any] | Callable[[FloatArray], ArrayLike] | None


def make_decay(spec: object) -> Decay:
    """Return the decay that an option describes.

    Parameters
    ----------
    spec : None, str, tuple, list, dict, callable or Decay
        ``None`` or ``"none"``: no decay. ``("exponential", 8.0)``, ``("window", 5)``,
        ``("logistic", 3.0)`` or ``("logistic", 3.0, 0.5)``, ``("linear_window", 4)``. A dict as
        `Decay.to_config` returns it. A function of an array of distances. Or a decay.

    Raises
    ------
    ConfigError
        `spec` is none of these.

    Examples
    --------
    >>> make_decay(("exponential", 8.0))
    Exponential(scale=8.0)
    >>> make_decay(None)
    NoDecay()
    """
    if spec is None:
        return NoDecay()
    if isinstance(spec, Decay):
        return spec
    if isinstance(spec, str):
        return _family(spec, ())
    if isinstance(spec, tuple | list):
        if spec and isinstance(spec[0], str):
            return _family(spec[0], tuple(spec[1:]))
    elif isinstance(spec, Mapping):
        return decay_from_config(spec)
    elif callable(spec) and not isinstance(spec, type):
        return UserDecay(spec)
    raise ConfigError(
        f'decay: expected a pair such as ("exponential", 8.0), a decay, a function of distances, '
        f"or None; got {spec!r}"
    )


def decay_from_config(config: Mapping[str, Any]) -> Decay:
    """Rebuild a decay from the family and parameters of `Decay.to_config`."""
    options = {str(key): value for key, value in config.items()}
    name = options.pop("family", None)
    for kind in (Sum, Product):
        if name == kind.kind:
            return _pair(kind, options)
    if name == "scaled":
        if set(options) != {"factor", "decay"} or not isinstance(options["decay"], Mapping):
            raise ConfigError(f'decay: "scaled" takes "factor" and "decay", got {options!r}')
        return Scaled(options["factor"], decay_from_config(options["decay"]))
    return _family(name, (), options)


def _pair(kind: type[Pair], options: dict[str, Any]) -> Pair:
    parts = options.get(kind.parts)
    well_formed = (
        set(options) == {kind.parts}
        and isinstance(parts, list | tuple)
        and len(parts) == 2
        and all(isinstance(part, Mapping) for part in parts)
    )
    if not well_formed:
        raise ConfigError(
            f'decay: "{kind.kind}" takes a list of two decays under "{kind.parts}", got {options!r}'
        )
    return kind(*map(decay_from_config, options[kind.parts]))


def _family(
    name: object, parameters: tuple[Any, ...], options: Mapping[str, Any] | None = None
) -> Decay:
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise ConfigError(f"decay: expected one of {', '.join(map(repr, FAMILIES))}; got {name!r}")
    try:
        return family(*parameters, **(options or {}))
    except TypeError:
        fields = getattr(family, "__match_args__", ())
        takes = ", ".join(fields) if fields else "no parameter"
        given = repr(parameters or options) if parameters or options else "none"
        raise ConfigError(f"decay: {name!r} takes {takes}; got {given}") from None
