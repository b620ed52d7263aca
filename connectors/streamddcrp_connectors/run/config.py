"""Find a model by name, and read its options from a TOML file."""

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamddcrp.errors import ConfigError, StreamDDCRPError
from streamddcrp_connectors.run.models import Model, Recipe
from streamddcrp_connectors.run.plugins import MODELS, find, installed, is_installed

DEFAULT = "seqddcrp"
_MOST = 1 << 16  # bytes of a file of options


def find_recipe(
    model: str | None, more: Mapping[str, Any] | None = None, default: str = DEFAULT
) -> Recipe:
    """Return the recipe of a model by its name, or of one that a TOML file describes.

    The file may name the model by the key ``model``, else it is ``default``; its other keys are
    options of the constructor. ``more`` are options of the command line, which go before them.
    """
    if model is None or is_installed(MODELS, model):
        name, options, where = model or default, {}, "the model's options"
    else:
        if not model.endswith(".toml") and not Path(model).exists():
            names = ", ".join(installed(MODELS))
            message = f"--model must be one of {names} or a TOML file with options, got {model!r}"
            raise ConfigError(message)
        options, where = read_options(model), model
        name = options.pop("model", default)
        if not is_installed(MODELS, name):
            names = ", ".join(installed(MODELS))
            raise ConfigError(f"{where}: model must be one of {names}, got {name!r}")
    model_class = find(MODELS, name)
    recipe_for(model_class, options, model_class.from_bytes, f"{where} (for {name})")
    where = f"the options for {name}"
    for option, other in (("epoch", "temporal-dpm"), ("season", DEFAULT)):
        if option in (more or {}) and option not in inspect.signature(model_class).parameters:
            message = f"--{option}: {name} has no {option}s; leave it out, or say --model {other}"
            raise ConfigError(message)
    return recipe_for(model_class, {**options, **(more or {})}, model_class.from_bytes, where)


def read_season(text: str) -> Any:
    """Read the option ``--season``: a period, several with commas between them, or "none".

    Examples
    --------
    >>> read_season("day, week"), read_season("24"), read_season("auto"), read_season("none")
    (('day', 'week'), 24.0, 'auto', None)
    """
    if text.strip() == "none":
        return None
    items = [number_or_text(item.strip()) for item in text.split(",")]
    return items[0] if len(items) == 1 else tuple(items)


def number_or_text(text: str) -> float | str:
    """Return the number that an option of two kinds is, or the option."""
    try:
        return float(text)
    except ValueError:
        return text


def read_options(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file; arrays become tuples, as in ``decay = ["exponential", 8.0]``."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST + 1)
        if len(text) > _MOST:
            raise ValueError(f"more than {_MOST} bytes")
        options = tomllib.loads(text.decode())
        return {key: _tuples(value) for key, value in options.items()}
    except OSError as error:
        raise ConfigError(f"cannot read {name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # of arrays in arrays in arrays
        raise ConfigError(f"{name} is not valid TOML for options: {error}") from error


def recipe_for(
    model_class: Callable[..., Model],
    options: Mapping[str, Any],
    restore: Callable[[bytes], Model],
    where: str = "the model's options",
) -> Recipe:
    """Check options, keyword arguments of the constructor, and say how the model is made.

    ``where`` is what messages call the origin of the options.
    """
    valid = [name for name in inspect.signature(model_class).parameters if name != "self"]
    for name in options:
        if name not in valid:
            raise ConfigError(f"{where}: unknown option {name!r}; valid are {', '.join(valid)}")
    try:
        shown = json.loads(json.dumps(options, sort_keys=True))
    except (TypeError, ValueError) as error:
        message = f"{where}: options must be numbers, text, truth values or arrays: {error}"
        raise ConfigError(message) from error
    description = {"class": getattr(model_class, "__name__", str(model_class)), "options": shown}

    def make() -> Model:
        try:
            return model_class(**options)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            if isinstance(error, StreamDDCRPError):
                raise
            raise ConfigError(f"{where}: an option is of a wrong type or value: {error}") from error

    return Recipe(make, restore, description)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
