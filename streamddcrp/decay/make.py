"""Decays from the short forms of constructors, configuration files and checkpoints."""

from collections.abc import Mapping
from typing import Any

from streamddcrp.decay.base import FAMILIES, Decay, Product, Scaled, Sum
from streamddcrp.decay.families import NoDecay, UserDecay
from streamddcrp.errors import ConfigError


def make_decay(spec: object) -> Decay:
    """Return the decay that an option describes.

    Parameters
    ----------
    spec : None, str, tuple, list, dict, callable or Decay
        ``None`` or ``"none"``: no decay. ``("exponential", 8.0)``, ``("window", 5)``,
        ``("logistic", 3.0)`` or ``("logistic", 3.0, 0.5)``, ``("linear_window", 4)``. A dict as
        `Decay.to_config` returns it. A function of an array of distances. Or a decay.

    Returns
    -------
    Decay

    Raises
    ------
    ConfigError
        If `spec` is none of these.

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
    message = (
        f'decay: expected a pair such as ("exponential", 8.0), a decay, a function of distances, '
        f"or None; got {spec!r}"
    )
    raise ConfigError(message)


def decay_from_config(config: Mapping[str, Any]) -> Decay:
    """Rebuild a decay from what `Decay.to_config` returned.

    Parameters
    ----------
    config : mapping
        ``{"family": name, ...}`` with the parameters of the family.

    Returns
    -------
    Decay
        Equal to the one described.
    """
    options = {str(key): value for key, value in config.items()}
    name = options.pop("family", None)
    if name == "sum":
        return _pair(Sum, "sum", "terms", options)
    if name == "product":
        return _pair(Product, "product", "factors", options)
    if name == "scaled":
        if set(options) != {"factor", "decay"} or not isinstance(options["decay"], Mapping):
            message = f'decay: "scaled" takes "factor" and "decay", got {options!r}'
            raise ConfigError(message)
        return Scaled(options["factor"], decay_from_config(options["decay"]))
    return _family(name, (), options)


def _pair(
    kind: type[Sum] | type[Product], name: str, key: str, options: dict[str, Any]
) -> Sum | Product:
    parts = options.get(key)
    well_formed = (
        set(options) == {key}
        and isinstance(parts, list | tuple)
        and len(parts) == 2
        and all(isinstance(part, Mapping) for part in parts)
    )
    if not well_formed:
        message = f'decay: "{name}" takes a list of two decays under "{key}", got {options!r}'
        raise ConfigError(message)
    left, right = options[key]
    return kind(decay_from_config(left), decay_from_config(right))


def _family(
    name: object, parameters: tuple[Any, ...], options: Mapping[str, Any] | None = None
) -> Decay:
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        message = f"decay: expected one of {', '.join(map(repr, FAMILIES))}; got {name!r}"
        raise ConfigError(message)
    try:
        return family(*parameters, **(options or {}))
    except TypeError:
        fields = getattr(family, "__match_args__", ())
        takes = ", ".join(fields) if fields else "no parameter"
        given = repr(parameters or options) if parameters or options else "none"
        message = f"decay: {name!r} takes {takes}; got {given}"
        raise ConfigError(message) from None
