"""The table of public names: read by type checkers, and at run time by ``__init__.py``."""

from ._version import __version__
from .contract import Event, Part
from .estimator.keyed import Keyed
from .estimator.reasons import Explanation, Explanations
from .models.ddcrp.chain import DDCRPSamples
from .models.ddcrp.distances import Distances
from .models.ddcrp.estimator import DDCRPSampler
from .models.ddcrp.prior import alpha_for, prior_summary
from .models.ddcrp.sampler import sample_ddcrp
from .models.features.graph_ibp import GraphIBPSamples, sample_graph_ibp
from .models.features.tv_ibp import TimeVaryingIBP
from .models.graph.gibbs import GraphCRPSamples, sample_graph_crp
from .models.graph.graph_crp import GraphCRP
from .models.graph.group_dp import GroupDP
from .models.graph.group_gibbs import GroupDPSamples, sample_group_dp
from .models.language.base_measure import BaseMeasure
from .models.language.estimator import LinkLanguageModel
from .models.language.fit import Corpus, evidence_surface, fit_language
from .models.seqddcrp.batch import SeqDDCRPFit, fit_seqddcrp
from .models.seqddcrp.estimator import SeqDDCRP
from .models.seqddcrp.reference import Reference
from .models.temporal.batch import TemporalDPMFit, fit_temporal_dpm
from .models.temporal.estimator import TemporalDPM
from .models.temporal.gibbs import TemporalDPMSamples, sample_temporal_dpm
from .models.text.embedding_stream import EmbeddingStream
from .models.text.text_stream import TextStream
from .models.trees.batch import (
    NestedComponentsFit,
    NestedTopicsFit,
    fit_nested_components,
    fit_nested_topics,
)
from .models.trees.gibbs import NestedTopicSamples, sample_nested_topics
from .models.trees.nested_components import NestedCRPComponents
from .models.trees.nested_topics import NestedCRPTopics
from .monitor.alarm import Alarm
from .monitor.calibration import Calibration, calibrate
from .monitor.changes import change_points, label_changes, relocate_changes
from .monitor.detector import RegimeAnomalyDetector
from .monitor.evidence import Evidence, count_regimes, estimate_evidence
from .monitor.race import Race, race
from .monitor.seasonal import Seasonal
from .monitor.window_features import WindowFeatures
from .partitions import labels_of_links, point_estimate, similarity_matrix

__all__ = [
    "Alarm",
    "BaseMeasure",
    "Calibration",
    "Corpus",
    "DDCRPSampler",
    "DDCRPSamples",
    "Distances",
    "EmbeddingStream",
    "Event",
    "Evidence",
    "Explanation",
    "Explanations",
    "GraphCRP",
    "GraphCRPSamples",
    "GraphIBPSamples",
    "GroupDP",
    "GroupDPSamples",
    "Keyed",
    "LinkLanguageModel",
    "NestedCRPComponents",
    "NestedCRPTopics",
    "NestedComponentsFit",
    "NestedTopicSamples",
    "NestedTopicsFit",
    "Part",
    "Race",
    "Reference",
    "RegimeAnomalyDetector",
    "Seasonal",
    "SeqDDCRP",
    "SeqDDCRPFit",
    "TemporalDPM",
    "TemporalDPMFit",
    "TemporalDPMSamples",
    "TextStream",
    "TimeVaryingIBP",
    "WindowFeatures",
    "__version__",
    "alpha_for",
    "calibrate",
    "change_points",
    "count_regimes",
    "estimate_evidence",
    "evidence_surface",
    "fit_language",
    "fit_nested_components",
    "fit_nested_topics",
    "fit_seqddcrp",
    "fit_temporal_dpm",
    "label_changes",
    "labels_of_links",
    "point_estimate",
    "prior_summary",
    "race",
    "relocate_changes",
    "sample_ddcrp",
    "sample_graph_crp",
    "sample_graph_ibp",
    "sample_group_dp",
    "sample_nested_topics",
    "sample_temporal_dpm",
    "similarity_matrix",
]
