"""The state of a stream as arrays and settings, and back."""

from collections import deque
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from streamddcrp.contract import Event
from streamddcrp.data.documents import Vocabulary
from streamddcrp.models.temporal.emissions import Summary
from streamddcrp.models.temporal.emissions.bags import Bags
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.likelihood import emission_from_json, emission_to_json
from streamddcrp.models.temporal.stream import FinalLabels, StreamState, Trajectory
from streamddcrp.models.temporal.window import Change, Settings
from streamddcrp.typing import IntArray

Arrays = dict[str, Any]
_ENGINE = ("before", "ids", "born", "last_active")
_NUMBERS = (
    "frozen", "open_score", "n_left", "kept_words", "n_events", "n_final", "n_lost",
)  # fmt: skip


def _put(arrays: Arrays, name: str, value: Any) -> None:
    """Store an array, bags or sparse rows."""
    if sparse.issparse(value):
        offsets, words = value.indptr.astype(np.int64), value.indices.astype(np.int64)
        value = Bags(value.shape[:1], offsets, words, value.data, value.shape[1])
    if isinstance(value, Bags):
        arrays[f"{name}.offsets"], arrays[f"{name}.words"] = value.offsets, value.words
        arrays[f"{name}.counts"] = value.counts
        arrays[f"{name}.shape"] = np.array([*value.shape, value.width])
    else:
        arrays[name] = value


def _get(arrays: Arrays, name: str) -> Any:
    """Return an array or bags."""
    if name in arrays:
        return arrays[name]
    *shape, width = arrays[f"{name}.shape"].tolist()
    offsets, words, counts = (arrays[f"{name}.{part}"] for part in ("offsets", "words", "counts"))
    return Bags(tuple(shape), offsets, words, counts, width)


def _rows(arrays: Arrays, name: str) -> Any:
    """Return rows of an epoch: an array, or sparse ones."""
    found = _get(arrays, name)
    if not isinstance(found, Bags):
        return found
    parts = (found.counts, found.words, found.offsets)
    return sparse.csr_array(parts, shape=(*found.shape, found.width))


def _ragged(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _split(array: Any, sizes: IntArray) -> list[Any]:
    return np.split(array, np.cumsum(sizes)[:-1]) if len(sizes) else []


def to_state(state: StreamState) -> tuple[Arrays, dict[str, Any]]:
    """Return the state as arrays and JSON values."""
    engine, tracks = state.engine, list(state.trajectories)
    arrays: Arrays = {name: getattr(engine, name) for name in _ENGINE} | {
        "sizes.id": np.array(list(state.sizes), np.int64),
        "sizes.value": np.array(list(state.sizes.values()), np.float64),
        "times.epoch": np.array(list(state.times), np.int64),
        "times.value": np.array(list(state.times.values()), np.float64),
        "final.head": np.array([f[:2] for f in state.final], np.int64).reshape(-1, 2),
        "final.size": np.array([len(f.labels) for f in state.final], np.int64),
        "final.labels": _ragged([f.labels for f in state.final]),
        "tracks.epoch": np.array([track.epoch for track in tracks], np.int64),
        "tracks.time": np.array([track.time for track in tracks], np.float64),
        "tracks.size": np.array([len(track.ids) for track in tracks], np.int64),
        "tracks.ids": _ragged([track.ids for track in tracks]),
        "tracks.mass": np.concatenate([np.zeros(0), *(track.mass for track in tracks)]),
    }
    values = tracks[0].summary.values if tracks else {}
    for name in values:
        parts = [track.summary.values[name] for track in tracks]
        arrays[f"tracks.values.{name}"] = np.concatenate(parts)
    for name, part in engine.starts._asdict().items():
        _put(arrays, f"starts.{name}", part)
    for e, (X, q) in enumerate(zip(engine.rows, engine.resp, strict=True)):
        _put(arrays, f"rows.{e}", X)
        arrays[f"resp.{e}"] = q
    if engine.n_open:
        _put(arrays, "open", engine.emission.joined(engine.arrived))
    meta = {
        "settings": engine.settings._asdict(),
        "emission": emission_to_json(engine.emission),
        "epoch": engine.epoch,
        "next_id": engine.next_id,
        "alpha": [engine.first_alpha, *engine.alpha_sums],
        "decay_gains": engine.decay_gains.tolist(),
        "epoch_sizes": engine.sizes,
        "n_rows": len(engine.rows),
        "changes": [list(change) for change in engine.changes],
        "words": None if state.vocabulary is None else state.vocabulary.words,
        "numbers": {name: getattr(state, name) for name in _NUMBERS},
        "events": [asdict(event) for event in state.events],
        "track_values": list(values),
        "track_words": [track.summary.words for track in tracks],
        "merges": list(state.merges),
    }
    return arrays, meta


def from_state(arrays: Arrays, meta: dict[str, Any]) -> StreamState:
    """Rebuild from `to_state`; rows of the open epoch are assigned again."""
    settings = {**meta["settings"], "past_weights": tuple(meta["settings"]["past_weights"])}
    emission = emission_from_json(meta["emission"])
    engine = Engine(Settings(**settings), emission, epoch=meta["epoch"], next_id=meta["next_id"])
    engine.first_alpha, *sums = meta["alpha"]
    engine.alpha_sums = tuple(sums)
    engine.decay_gains = np.array(meta["decay_gains"])
    engine.sizes = meta["epoch_sizes"]
    starts = {name: _get(arrays, f"starts.{name}") for name in engine.starts._fields}
    engine.starts = type(engine.starts)(**starts)
    for name in _ENGINE:
        setattr(engine, name, arrays[name])
    engine.rows = [_rows(arrays, f"rows.{e}") for e in range(meta["n_rows"])]
    engine.resp = [arrays[f"resp.{e}"] for e in range(meta["n_rows"])]
    engine.changes = [Change(*change) for change in meta["changes"]]
    if "open" in arrays or "open.shape" in arrays:
        engine.seat(_rows(arrays, "open"))
    state = StreamState(engine, None if meta["words"] is None else Vocabulary(meta["words"]))
    for name in _NUMBERS:
        setattr(state, name, meta["numbers"][name])
    for name, key in (("sizes", "id"), ("times", "epoch")):
        pairs = (arrays[f"{name}.{part}"].tolist() for part in (key, "value"))
        setattr(state, name, dict(zip(*pairs, strict=True)))
    state.events.extend(Event(**event) for event in meta["events"])
    state.merges.extend((epoch, gone, into) for epoch, gone, into in meta["merges"])
    labels = _split(arrays["final.labels"], arrays["final.size"])
    heads = arrays["final.head"].tolist()
    state.final = deque(
        FinalLabels(e, row, part) for (e, row), part in zip(heads, labels, strict=True)
    )
    names, sizes = meta["track_values"], arrays["tracks.size"]
    values = [_split(arrays[f"tracks.values.{name}"], sizes) for name in names]
    parts = (_split(arrays[f"tracks.{name}"], sizes) for name in ("ids", "mass"))
    heads = (arrays[f"tracks.{name}"].tolist() for name in ("epoch", "time"))
    tracks = zip(*heads, *parts, meta["track_words"], strict=True)
    for i, (e, time, ids, mass, words) in enumerate(tracks):
        summary = Summary({n: part[i] for n, part in zip(names, values, strict=True)}, words)
        state.trajectories.append(Trajectory(e, time, ids, mass, summary))
    return state
