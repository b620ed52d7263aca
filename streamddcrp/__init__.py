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
    from streamddcrp.estimators.ddcrp import (
        DDCRPSampler,
    )
    from streamddcrp.estimators.embedding_stream import (
        EmbeddingStream,
    )
    from streamddcrp.estimators.graph_crp import (
        GraphCRP,
    )
    from streamddcrp.estimators.group_dp import (
        GroupDP,
    )
    from streamddcrp.estimators.link_language import (
        LinkLanguageModel,
    )
    from streamddcrp.estimators.nested_batch import (
        NestedComponentsFit,
        NestedTopicsFit,
        fit_nested_components,
        fit_nested_topics,
    )
    from streamddcrp.estimators.nested_components import (
        NestedCRPComponents,
    )
    from streamddcrp.estimators.nested_topics import (
        NestedCRPTopics,
    )
    from streamddcrp.estimators.temporal_dpm import (
        TemporalDPM,
    )
    from streamddcrp.estimators.text_stream import (
        TextStream,
    )
    from streamddcrp.estimators.tv_ibp import (
        TimeVaryingIBP,
    )
    from streamddcrp.inference.ddcrp_gibbs import (
        DDCRPSamples,
        Distances,
        alpha_for,
        held_out_log_likelihood,
        prior_summary,
        sample_ddcrp,
    )
    from streamddcrp.inference.graph_crp.sampler import (
        GraphCRPSamples,
        fit_graph_crp,
    )
    from streamddcrp.inference.graph_ibp import (
        GraphIBPSamples,
        fit_graph_ibp,
    )
    from streamddcrp.inference.link_language.base_measure import (
        BaseMeasure,
    )
    from streamddcrp.inference.link_language.corpus import (
        Corpus,
    )
    from streamddcrp.inference.link_language.evidence import (
        evidence_surface,
    )
    from streamddcrp.inference.link_language.fit import (
        fit_language,
    )
    from streamddcrp.inference.ncrp_gibbs import (
        NestedTopicSamples,
        sample_nested_topics,
    )
    from streamddcrp.inference.seqddcrp_vb.batch import (
        SeqDDCRPFit,
        fit_seqddcrp,
    )
    from streamddcrp.inference.tdpm_cvb.batch import (
        TemporalDPMFit,
        fit_temporal_dpm,
    )
    from streamddcrp.partitions import (
        labels_of_links,
        point_estimate,
        similarity_matrix,
    )

_HOMES = {
    "Alarm": "streamddcrp.estimators",
    "BaseMeasure": "streamddcrp.inference.link_language.base_measure",
    "Corpus": "streamddcrp.inference.link_language.corpus",
    "DDCRPSampler": "streamddcrp.estimators.ddcrp",
    "DDCRPSamples": "streamddcrp.inference.ddcrp_gibbs",
    "Distances": "streamddcrp.inference.ddcrp_gibbs",
    "EmbeddingStream": "streamddcrp.estimators.embedding_stream",
    "Event": "streamddcrp.estimators",
    "GraphCRP": "streamddcrp.estimators.graph_crp",
    "GraphCRPSamples": "streamddcrp.inference.graph_crp.sampler",
    "GraphIBPSamples": "streamddcrp.inference.graph_ibp",
    "GroupDP": "streamddcrp.estimators.group_dp",
    "Keyed": "streamddcrp.estimators",
    "LinkLanguageModel": "streamddcrp.estimators.link_language",
    "NestedCRPComponents": "streamddcrp.estimators.nested_components",
    "NestedCRPTopics": "streamddcrp.estimators.nested_topics",
    "NestedComponentsFit": "streamddcrp.estimators.nested_batch",
    "NestedTopicSamples": "streamddcrp.inference.ncrp_gibbs",
    "NestedTopicsFit": "streamddcrp.estimators.nested_batch",
    "Reference": "streamddcrp.estimators",
    "RegimeAnomalyDetector": "streamddcrp.estimators",
    "SeqDDCRP": "streamddcrp.estimators",
    "SeqDDCRPFit": "streamddcrp.inference.seqddcrp_vb.batch",
    "TemporalDPM": "streamddcrp.estimators.temporal_dpm",
    "TemporalDPMFit": "streamddcrp.inference.tdpm_cvb.batch",
    "TextStream": "streamddcrp.estimators.text_stream",
    "TimeVaryingIBP": "streamddcrp.estimators.tv_ibp",
    "WindowFeatures": "streamddcrp.estimators",
    "alpha_for": "streamddcrp.inference.ddcrp_gibbs",
    "change_points": "streamddcrp.estimators",
    "evidence_surface": "streamddcrp.inference.link_language.evidence",
    "fit_graph_crp": "streamddcrp.inference.graph_crp.sampler",
    "fit_graph_ibp": "streamddcrp.inference.graph_ibp",
    "fit_language": "streamddcrp.inference.link_language.fit",
    "fit_nested_components": "streamddcrp.estimators.nested_batch",
    "fit_nested_topics": "streamddcrp.estimators.nested_batch",
    "fit_seqddcrp": "streamddcrp.inference.seqddcrp_vb.batch",
    "fit_temporal_dpm": "streamddcrp.inference.tdpm_cvb.batch",
    "held_out_log_likelihood": "streamddcrp.inference.ddcrp_gibbs",
    "label_changes": "streamddcrp.estimators",
    "labels_of_links": "streamddcrp.partitions",
    "point_estimate": "streamddcrp.partitions",
    "prior_summary": "streamddcrp.inference.ddcrp_gibbs",
    "sample_ddcrp": "streamddcrp.inference.ddcrp_gibbs",
    "sample_nested_topics": "streamddcrp.inference.ncrp_gibbs",
    "similarity_matrix": "streamddcrp.partitions",
}

__all__ = [
    "Alarm",
    "BaseMeasure",
    "Corpus",
    "DDCRPSampler",
    "DDCRPSamples",
    "Distances",
    "EmbeddingStream",
    "Event",
    "GraphCRP",
    "GraphCRPSamples",
    "GraphIBPSamples",
    "GroupDP",
    "Keyed",
    "LinkLanguageModel",
    "NestedCRPComponents",
    "NestedCRPTopics",
    "NestedComponentsFit",
    "NestedTopicSamples",
    "NestedTopicsFit",
    "Reference",
    "RegimeAnomalyDetector",
    "SeqDDCRP",
    "SeqDDCRPFit",
    "TemporalDPM",
    "TemporalDPMFit",
    "TextStream",
    "TimeVaryingIBP",
    "WindowFeatures",
    "__version__",
    "alpha_for",
    "change_points",
    "evidence_surface",
    "fit_graph_crp",
    "fit_graph_ibp",
    "fit_language",
    "fit_nested_components",
    "fit_nested_topics",
    "fit_seqddcrp",
    "fit_temporal_dpm",
    "held_out_log_likelihood",
    "label_changes",
    "labels_of_links",
    "point_estimate",
    "prior_summary",
    "sample_ddcrp",
    "sample_nested_topics",
    "similarity_matrix",
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
