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
    from streamddcrp.estimators.link_language import (
        LinkLanguageModel,
    )
    from streamddcrp.estimators.temporal_dpm import (
        TemporalDPM,
    )
    from streamddcrp.inference.ddcrp_gibbs import (
        DDCRPSamples,
        Distances,
        alpha_for,
        held_out_log_likelihood,
        prior_summary,
        sample_ddcrp,
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
    "Event": "streamddcrp.estimators",
    "Keyed": "streamddcrp.estimators",
    "LinkLanguageModel": "streamddcrp.estimators.link_language",
    "Reference": "streamddcrp.estimators",
    "RegimeAnomalyDetector": "streamddcrp.estimators",
    "SeqDDCRP": "streamddcrp.estimators",
    "SeqDDCRPFit": "streamddcrp.inference.seqddcrp_vb.batch",
    "TemporalDPM": "streamddcrp.estimators.temporal_dpm",
    "TemporalDPMFit": "streamddcrp.inference.tdpm_cvb.batch",
    "WindowFeatures": "streamddcrp.estimators",
    "alpha_for": "streamddcrp.inference.ddcrp_gibbs",
    "change_points": "streamddcrp.estimators",
    "evidence_surface": "streamddcrp.inference.link_language.evidence",
    "fit_language": "streamddcrp.inference.link_language.fit",
    "fit_seqddcrp": "streamddcrp.inference.seqddcrp_vb.batch",
    "fit_temporal_dpm": "streamddcrp.inference.tdpm_cvb.batch",
    "held_out_log_likelihood": "streamddcrp.inference.ddcrp_gibbs",
    "label_changes": "streamddcrp.estimators",
    "labels_of_links": "streamddcrp.partitions",
    "point_estimate": "streamddcrp.partitions",
    "prior_summary": "streamddcrp.inference.ddcrp_gibbs",
    "sample_ddcrp": "streamddcrp.inference.ddcrp_gibbs",
    "similarity_matrix": "streamddcrp.partitions",
}

__all__ = [
    "Alarm",
    "BaseMeasure",
    "Corpus",
    "DDCRPSampler",
    "DDCRPSamples",
    "Distances",
    "Event",
    "Keyed",
    "LinkLanguageModel",
    "Reference",
    "RegimeAnomalyDetector",
    "SeqDDCRP",
    "SeqDDCRPFit",
    "TemporalDPM",
    "TemporalDPMFit",
    "WindowFeatures",
    "__version__",
    "alpha_for",
    "change_points",
    "evidence_surface",
    "fit_language",
    "fit_seqddcrp",
    "fit_temporal_dpm",
    "held_out_log_likelihood",
    "label_changes",
    "labels_of_links",
    "point_estimate",
    "prior_summary",
    "sample_ddcrp",
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
