"""How a case of each class is made: what is common to its cases, and how its models are read."""

import math
from functools import partial

import numpy as np
import pyarrow as pa

from streamddcrp import (
    DDCRPSampler,
    EmbeddingStream,
    GraphCRP,
    GroupDP,
    Keyed,
    LinkLanguageModel,
    NestedCRPComponents,
    NestedCRPTopics,
    Seasonal,
    SeqDDCRP,
    TemporalDPM,
    TextStream,
    TimeVaryingIBP,
    WindowFeatures,
)
from tests.conformance import forms, streams
from tests.conformance.case import Case, Flat, Refusal, look_at_tables, state_of

BY_NAME = {"forms": None, "refused": (), "odd": (), "river": None}  # for streams of tables


def of_numbers(name, make, **more):
    usual = {"forms": forms.of_numbers, "refused": forms.BAD_NUMBERS, "odd": forms.ODD_NUMBERS}
    return Case(name=name, make=make, **(usual | more))


def most_of_seqddcrp(model):
    """Return a bound on the bytes of a state, from what the window and the tables take."""
    rows, tables = model.window + model.sweep_every, model.max_tables + model.sweep_every
    reach = 16 * model.window if model.decay == ("window", 7) else tables
    numbers = 2 * rows * (rows + reach) + (3 * rows + reach) * tables + 60 * tables
    return 8.0 * numbers + 100_000.0


def look_at_label(model, x, more):
    """Rows may have the label of a table that is not the likeliest, such as outliers; -1: none."""
    found = look_at_tables(model, x, more)
    if "label_prob" in found:
        label, probs = found["label"], found["probs"]
        found["label_prob"] = None if label == -1 else probs.get(label, probs[-1])
    return found


def seqddcrp(name, options, **more):
    flat = Flat(partial(streams.levels, 3, 4000), 8, 4, most=most_of_seqddcrp)
    usual = {
        "flat": flat, "lacks": {"change", "order"},
        "look": look_at_label,
    }  # fmt: skip
    return of_numbers(f"SeqDDCRP, {name}", partial(SeqDDCRP, **options), **(usual | more))


def ddcrp(name, options, **more):
    usual = {"wait": options.get("warmup", 0)}
    return of_numbers(f"DDCRPSampler, {name}", partial(DDCRPSampler, **options), **(usual | more))


def graph(name, options, **more):
    usual = {"wait": options.get("warmup", 0), "examples": 8}
    return of_numbers(f"GraphCRP, {name}", partial(GraphCRP, **options), **(usual | more))


def group_dp(name, options, **more):
    usual = {"wait": options.get("warmup", 0), "examples": 8}
    usual |= {"stream": streams.with_groups, "lacks": {"keyed"}}
    make = partial(GroupDP, n_particles=6, **options)
    return of_numbers(f"GroupDP, {name}", make, **(usual | more))


def look_at_group(model, x, more):
    """The node of a new group is resampled with its first row: what is predicted is the mean."""
    known = {group[0] for group in model.groups if isinstance(group, tuple)}
    found = look_at_tables(model, x, more)
    return found if more["group"][0] in known else {"probs": found["probs"]}


def look_at_features(model, x, more):
    found = {"label": model.predict_one(x, **more), "score": model.score_one(x, **more)}
    probs = model.transform_one(x)
    if not probs:
        return found
    on = [i for i in probs if i >= 0 and probs[i] > 0.5]
    return found | {"p_new": probs[-1], "features": on, "n_tables": model.n_tables}


def ibp(name, options, **more):
    small = {"window": 12, "n_particles": 8, "moves": 3, "warmup": 20}
    usual = {"stream": streams.causes, "wait": 20, "look": look_at_features, "examples": 8}
    missing = ({0: 1.0, 1: None, 2: 0.0, 3: 0.0}, "missing=True")
    usual |= {"lacks": {"gaps", "estimator"}, "odd": (*forms.ODD_NUMBERS, missing)}
    make = partial(TimeVaryingIBP, **(small | options))
    return of_numbers(f"TimeVaryingIBP, {name}", make, **(usual | more))


def embedding(name, options, **more):
    make = partial(EmbeddingStream, lag=30, decay=40.0, **options)
    usual = {
        "stream": streams.directions, "examples": 10, "lacks": {"gaps"},
        "refused": forms.BAD_NUMBERS, "odd": (*forms.ODD_NUMBERS, ({0: 1.0}, "missing")),
    }  # fmt: skip
    return of_numbers(f"EmbeddingStream, {name}", make, **(usual | more))


def look_at_epoch(model, x, more):
    """A row without values or words opens nothing, even where a new component is the likeliest."""
    found = look_at_label(model, x, more)
    found.pop("n_tables", None)  # of the epoch before, if the row begins one
    return found


def state_of_epochs(model):
    found = state_of(model)
    del found["waiting.t"]  # of the first rows of epochs; where others have one depends on the cuts
    return found


def temporal(name, options, wait, **more):
    usual = {
        "stream": streams.epochs, "times": "needed", "refused": forms.BAD_OF_EPOCHS,
        "look": look_at_epoch, "wait": wait, "forms": forms.of_rows,
        "lacks": {"arrivals", "order"},  # a death may be noticed after a later birth is final
    }  # fmt: skip
    return of_numbers(f"TemporalDPM, {name}", partial(TemporalDPM, **options), **(usual | more))


def look_at_path(model, x, more):
    found = {"label": model.predict_one(x, **more), "score": model.score_one(x, **more)}
    return found | {"place": model.transform_one(x), "back": model.reconstruct_one(x)}


def of_texts(name, make, **more):
    usual = {"forms": forms.of_texts, "refused": forms.BAD_TEXTS, "odd": forms.ODD_TEXTS}
    usual |= {"lacks": {"gaps"}}
    return Case(name=name, make=make, **(usual | more))


def temporal_texts(name, options, **more):
    usual = {
        "times": "needed", "look": look_at_epoch, "forms": forms.of_dated_texts,
        "lacks": {"arrivals", "gaps", "order"},
    }  # fmt: skip
    make = partial(TemporalDPM, **options)
    return of_texts(f"TemporalDPM, {name}", make, **(usual | more))


def text_stream(name, options, **more):
    make = partial(TextStream, **options)
    usual = {
        "stream": streams.texts, "look": look_at_label, "lacks": {"gaps", "order"}, "examples": 15
    }  # fmt: skip
    return of_texts(f"TextStream, {name}", make, **(usual | more))


def few_words(model):
    archived = int(model._memory.archive.n.sum())  # words of at most 512 old stories
    return model.n_words - archived < 3000


def look_at_topic(model, x, more):
    return {
        "leaf": model.predict_one(x), "completion": model.score_one(x),
        "paths": model.paths_many([x]), "place": model.transform_one(x),
    }  # fmt: skip


def state_of_topics(model):
    found = state_of(model)
    del found["room"]  # for which there is memory; grows with the batch
    return found


def topics(name, **more):
    usual = {
        "times": "none", "look": look_at_topic, "dropped": ("n_tables",), "state": state_of_topics,
        "odd": forms.ODD_TEXTS, "lacks": {"foretell", "gaps", "keyed"}, "examples": 5,
    }  # fmt: skip
    make = partial(NestedCRPTopics, window=60, max_nodes=64)
    return Case(name=f"NestedCRPTopics, {name}", make=make, **(usual | more))


def components(name, options, **more):
    usual = {
        "times": "none", "look": look_at_path, "inexact": ("score",), "wait": 40,
        "lacks": {"keyed", "gaps"}, "examples": 10,
        "odd": (*forms.ODD_NUMBERS, ({0: 1.0}, "must be there")),
    }  # fmt: skip
    make = partial(NestedCRPComponents, depth=2, warmup=40, window=200, **options)
    return of_numbers(f"NestedCRPComponents, {name}", make, **(usual | more))


def look_at_token(model, x, more):
    return {"score": model.score_one(x, **more), "probs": model.predict_proba_one(**more)}


LOOKING = "test_looking_changes_nothing_and_needs_nothing_learned"
ROOM = {LOOKING: "predicting makes room for unknown words, and the stored state has that room"}


def state_of_known_words(model):
    """Leave out the room that is made for words before they come."""
    found = state_of(model)
    dtype, _, data = found.get("memory.last", ("<i8", [0], b""))
    return found | {"memory.last": np.trim_zeros(np.frombuffer(data, dtype) + 1, "b").tolist()}


def language(name, **more):
    usual = {
        "look": look_at_token, "inexact": ("score",), "state": state_of_known_words,
        "lacks": {"events", "summary", "keyed", "gaps", "estimator"},
        "methods": ("learn_many", "step_many", "score_many"), "fails": ROOM,
    }  # fmt: skip
    make = partial(LinkLanguageModel, decay=("logistic", 6.0, 2.0), base_measure=7)
    return Case(name=f"LinkLanguageModel, {name}", make=make, **(usual | more))


def state_by_key(fleet):
    return {key: fleet._peek(key).to_bytes() for key in fleet.keys}


def look_at_key(fleet, x, more):
    if x["key"] not in fleet.keys:
        return {"probs": fleet.predict_proba_one(x, **more)}
    found = look_at_label(fleet, x, more)
    found.pop("n_tables", None)  # of all keys
    return found


def keyed(name, model, **more):
    usual = {
        "ordered": False, "state": state_by_key,
        "lacks": {
            "keyed", "summary", "gaps", "change", "checksum", "arrivals", "order", "estimator",
        },
        "examples": 5,
        "look": look_at_key, "wait": None, "forms": forms.with_keys, "refused": (forms.NO_KEY,),
        "odd": (({"a": 1.0}, "column 'key'"), ({"key": 1.5, "a": 1.0}, "column 'key'")),
    }  # fmt: skip
    make = partial(Keyed, model, by="key")
    return Case(name=f"Keyed, {name}", make=make, **(usual | more))


def look_at_alarm(detector, x, more):
    score, threshold = detector.score_one(x, **more), detector.threshold
    return {"score": score, "threshold": threshold, "alarm": score > threshold}


OF_DETECTOR = {"events", "summary", "keyed", "change"}
WITH_REFERENCE = {
    "lacks": OF_DETECTOR | {"dated"},  # a reference has no time
    "refused": tuple(bad._replace(match="column 1", row=...) for bad in forms.BAD_NUMBERS[:2]),
}


def detector(name, make, **more):
    usual = {
        "stream": streams.jumps, "look": look_at_alarm, "river": forms.river_alarms,
        "lacks": OF_DETECTOR,
        "refused": (*forms.BAD_NUMBERS, Refusal("far behind", forms.far_behind, "column 1", -10)),
    }  # fmt: skip
    return of_numbers(f"RegimeAnomalyDetector, {name}", make, **(usual | more))


def judge(alarm, stream):
    columns = alarm.step_many(stream.rows)._asdict().items()
    return pa.RecordBatch.from_pydict({k: pa.array(x, from_pandas=True) for k, x in columns})


def look_at_threshold(alarm, x, more):
    found = {"threshold": alarm.threshold}
    return found if math.isnan(x) else found | {"score": alarm.averaged(x)}


def reference(likelihood):
    model = SeqDDCRP(likelihood=likelihood)
    model.learn_many(streams.levels(7).rows)
    return model.reference()


def surprise(reference, stream):
    return pa.RecordBatch.from_pydict({"score": reference.score_many(stream.rows)})


def features_of(windows, stream):
    features, positions = windows.step_many(stream.rows)
    columns = [*features.columns, pa.array(positions)]
    return pa.record_batch(columns, names=[*features.schema.names, "position"])


def windows(name, options, **more):
    usual = {
        "stream": streams.some_waves, "times": "none", "step": features_of,
        "look": lambda model, x, more: {"latest": model.transform_one(x)}, "wait": None,
        "methods": ("step_many",), "lacks": {"events", "summary", "keyed", "foretell"},
    }  # fmt: skip
    make = partial(WindowFeatures, **options)
    return of_numbers(f"WindowFeatures, {name}", make, **(usual | more))


def look_at_levels(seasons, x, more):
    return {str(name): value for name, value in seasons.transform_one(x, **more).items()}


def seasonal(name, options, **more):
    usual = {
        "step": lambda seasons, stream: seasons.step_many(stream.rows, **stream.more),
        "look": look_at_levels, "wait": None,
        "lacks": {"events", "summary", "keyed", "estimator"},
    }  # fmt: skip
    return of_numbers(f"Seasonal, {name}", partial(Seasonal, **options), **(usual | more))
