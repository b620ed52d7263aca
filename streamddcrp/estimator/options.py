"""Options of an estimator as JSON, for checkpoints."""

from typing import Any

import numpy as np

from streamddcrp.decay import Decay, decay_from_config, make_decay
from streamddcrp.likelihoods import likelihood_from_config


def to_json(value: Any) -> Any:
    """Describe an option: objects by their configuration, tuples by lists."""
    if isinstance(value, Decay):
        return {"decay": value.to_config()}
    if hasattr(value, "to_config"):
        return {"likelihood": value.to_config()}
    if callable(value):
        return {"decay": make_decay(value).to_config()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def from_json(value: Any) -> Any:
    """Rebuild an option from `to_json`."""
    if isinstance(value, dict) and set(value) == {"decay"}:
        return decay_from_config(value["decay"])
    if isinstance(value, dict) and set(value) == {"likelihood"}:
        return likelihood_from_config(value["likelihood"])
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    return value
