"""Find families by name, for options and checkpoints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods.base import Likelihood

FAMILIES: dict[str, type[Likelihood]] = {}
_Family = TypeVar("_Family", bound=type[Likelihood])


def family(name: str) -> Callable[[_Family], _Family]:
    """Register a class under a name, for options and checkpoints."""

    def register(cls: _Family) -> _Family:
        FAMILIES[name] = cls
        return cls

    return register


# Option ``likelihood``; `make_likelihood` explains each kind
LikelihoodSpec = Likelihood | Sequence[Any] | Mapping[str, Any]


def make_likelihood(spec: Any) -> Likelihood:
    """Return the likelihood that an option describes; raises ConfigError.

    ``spec`` is a likelihood, its name and parameters in order, or a description from `to_config`.

    Examples
    --------
    >>> make_likelihood(("gamma_poisson", 1.0, 0.5))
    GammaPoisson(shape=1.0, rate=0.5, share=1.0)
    """
    if isinstance(spec, Likelihood):
        return spec
    if isinstance(spec, Mapping):
        return likelihood_from_config(spec)
    parts = [spec] if isinstance(spec, str) else spec
    name = parts[0] if isinstance(parts, Sequence) and len(parts) > 0 else None
    cls = FAMILIES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ConfigError(
            "likelihood must be a likelihood object or a tuple of a name and its parameters, with "
            f"one of the names {sorted(FAMILIES)}; got {spec!r}"
        )
    try:
        return cls(*parts[1:])
    except TypeError as error:
        names = ", ".join(field.name for field in fields(cls))
        raise ConfigError(f"likelihood must be ({name!r}, {names}), got {spec!r}") from error


def likelihood_from_config(config: Mapping[str, Any]) -> Likelihood:
    """Rebuild a likelihood from its `to_config`; raises ConfigError if no family matches."""
    by_class = {cls.__name__: cls for cls in FAMILIES.values()}
    cls = by_class.get(config.get("family", ""))
    if cls is None:
        raise ConfigError(
            f"unknown likelihood family {config.get('family')!r}; known are {sorted(by_class)}"
        )
    return cls.from_config(config)
