"""Online Bayesian nonparametric inference on streams.

``from streamddcrp import SeqDDCRP``: points arrive one by one or in batches, with no number of
clusters given; the model says at once and in bounded memory which table each belongs to, whether a
new one began, an old one returned or died, how surprising the point is, and how sure it is.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamddcrp._version import __version__

if TYPE_CHECKING:
    from streamddcrp.estimators import (
        Alarm,
        Event,
        Keyed,
        Reference,
        RegimeAnomalyDetector,
        SeqDDCRP,
        WindowFeatures,
        change_points,
        label_changes,
    )
    from streamddcrp.inference.seqddcrp_vb.batch import SeqDDCRPFit, fit_seqddcrp

_HOMES = {
    "Alarm": "streamddcrp.estimators",
    "Event": "streamddcrp.estimators",
    "Reference": "streamddcrp.estimators",
    "RegimeAnomalyDetector": "streamddcrp.estimators",
    "Keyed": "streamddcrp.estimators",
    "SeqDDCRP": "streamddcrp.estimators",
    "SeqDDCRPFit": "streamddcrp.inference.seqddcrp_vb.batch",
    "WindowFeatures": "streamddcrp.estimators",
    "change_points": "streamddcrp.estimators",
    "fit_seqddcrp": "streamddcrp.inference.seqddcrp_vb.batch",
    "label_changes": "streamddcrp.estimators",
}

__all__ = [
    "Alarm",
    "Event",
    "Keyed",
    "Reference",
    "RegimeAnomalyDetector",
    "SeqDDCRP",
    "SeqDDCRPFit",
    "WindowFeatures",
    "__version__",
    "change_points",
    "fit_seqddcrp",
    "label_changes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module 'streamddcrp' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
