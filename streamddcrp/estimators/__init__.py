"""Estimators: thin classes with river's interface over the methods' kernels.

A batch is one compiled call whatever its length; a row handed over alone costs that call's overhead
(about 20 microseconds) on top of the method's own cost.
"""

from streamddcrp.estimators.alarm import Alarm
from streamddcrp.estimators.changes import change_points, label_changes
from streamddcrp.estimators.detector import RegimeAnomalyDetector
from streamddcrp.estimators.events import Event
from streamddcrp.estimators.keyed import Keyed
from streamddcrp.estimators.reference import Reference
from streamddcrp.estimators.seqddcrp import SeqDDCRP
from streamddcrp.estimators.window_features import WindowFeatures

__all__ = [
    "Alarm",
    "Event",
    "Keyed",
    "Reference",
    "RegimeAnomalyDetector",
    "SeqDDCRP",
    "WindowFeatures",
    "change_points",
    "label_changes",
]
