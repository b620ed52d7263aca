"""The cases by name; each is a function that fills a `Record` through public names only."""

from types import CodeType

CASES = {}

EXEMPT = {
    "Calibration": "what `calibrate` returns",
    "Evidence": "what `estimate_evidence` returns",
    "Explanation": "what `explain_one` returns; recorded by tests of reasons",
    "Explanations": "what `explain_many` returns",
    "Part": "of an `Explanation`",
    "Event": "what `events` of every model returns; recorded as columns in most cases",
    "DDCRPSamples": "what `sample_ddcrp` returns",
    "GraphCRPSamples": "what `sample_graph_crp` returns",
    "GroupDPSamples": "what `sample_group_dp` returns",
    "GraphIBPSamples": "what `sample_graph_ibp` returns",
    "NestedComponentsFit": "what `fit_nested_components` returns",
    "NestedTopicSamples": "what `sample_nested_topics` returns",
    "NestedTopicsFit": "what `fit_nested_topics` returns",
    "Race": "what `race` returns",
    "Reference": "what `SeqDDCRP.reference` returns; recorded in seqddcrp-reference",
    "SeqDDCRPFit": "what `fit_seqddcrp` returns",
    "TemporalDPMFit": "what `fit_temporal_dpm` returns",
    "TemporalDPMSamples": "what `sample_temporal_dpm` returns",
}


def case(function):
    """Enter a function as a case, under its name."""
    name = function.__name__.replace("_", "-")
    assert name not in CASES, f"{name} twice"
    CASES[name] = function
    return function


def names_in(code):
    """Names that a function's code uses, and the code within it."""
    found = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            found |= names_in(part)
    return found
