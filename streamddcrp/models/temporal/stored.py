"""The stored form of a stream of epochs besides its engine: shapes, ranges, indices."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp import records as rec
from streamddcrp.estimator.stored import check_whole
from streamddcrp.typing import FloatArray, IntArray

_WHOLE = ("n_left", "kept_words", "n_events", "n_final", "n_lost")


class _Sizes(NamedTuple):
    """Rows of live components, from past epochs."""

    id: Annotated[IntArray, "S"]
    value: Annotated[FloatArray, "S", rec.WEIGHT]


class _Times(NamedTuple):
    """Times of late epochs."""

    epoch: Annotated[IntArray, "H"]
    value: Annotated[FloatArray, "H"]


class _Final(NamedTuple):
    """Final labels L of F epochs."""

    head: Annotated[IntArray, "F 2"]  # the epoch and its first row
    size: Annotated[IntArray, "F", rec.up_to("L")]
    labels: Annotated[IntArray, "L"]


class _Tracks(NamedTuple):
    """Components T of N epochs."""

    epoch: Annotated[IntArray, "N"]
    time: Annotated[FloatArray, "N"]
    size: Annotated[IntArray, "N", rec.up_to("T")]
    ids: Annotated[IntArray, "T"]
    mass: Annotated[FloatArray, "T", rec.WEIGHT]


def check_stored(arrays: Mapping[str, rec.Array], meta: Mapping[str, Any], n_features: int) -> None:
    """Check the output of `StreamState.to_state` without the engine: CheckpointError."""
    words = meta["words"]
    for part, group in {"sizes": _Sizes, "times": _Times}.items():
        rec.check(group, arrays, {}, f"{part}.")
    rec.check(_Final, arrays, {"L": arrays["final.labels"].size}, "final.")
    known = rec.check(_Tracks, arrays, {"T": arrays["tracks.ids"].size}, "tracks.")
    for name, total in (("final.size", len(arrays["final.labels"])), ("tracks.size", known["T"])):
        rec.refuse_if(int(arrays[name].sum()) != total, name)
    estimates, said = meta["track_values"], meta["track_words"]
    rec.refuse_if(
        not isinstance(estimates, list) or len({*estimates}) < len(estimates), "track_values"
    )
    for name in estimates:
        at = f"tracks.values.{name}"
        rec.check_one(
            at, rec.stored_array(at, arrays), (known["T"], n_features), np.float64, rec.ANY
        )
    rec.refuse_if(known["N"] > 0 and bool(estimates) == (words is not None), "track_values")
    sizes = [0] * known["N"] if words is None else arrays["tracks.size"].tolist()
    plain = isinstance(said, list) and all(isinstance(part, list) for part in said)
    rec.refuse_if(not plain or [len(part) for part in said] != sizes, "track_words")
    rec.refuse_if(not all(isinstance(text, str) for part in said for text in part), "track_words")
    numbers = meta["numbers"]
    check_whole([numbers[name] for name in _WHOLE], "numbers")
    rec.refuse_if(not all(type(numbers[n]) is float for n in ("frozen", "open_score")), "numbers")
    check_whole([n for merge in meta["merges"] for n in merge], "merges")
    if words is not None:
        rec.refuse_if(not isinstance(words, list), "words")
        rec.refuse_if(not {*map(type, words)} <= {str, int}, "words")
