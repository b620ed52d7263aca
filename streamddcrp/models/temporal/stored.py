"""An evolving mixture as arrays and settings, and back."""

from collections import deque
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from scipy import sparse

from streamddcrp.contract import Event
from streamddcrp.data.documents import Vocabulary
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods.registry import likelihood_from_config
from streamddcrp.models.temporal.bags import Bags
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.logistic import LogisticNormalText
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import Change, Engine, Settings
from streamddcrp.models.temporal.evolving import Evolving, Final, Track
from streamddcrp.models.temporal.traits import Trait
from streamddcrp.typing import IntArray

EMISSIONS = {
    law.__name__: law for law in (GaussianDrift, ConjugateDecay, TextDecay, LogisticNormalText)
}
Arrays = dict[str, Any]


def emission_to_json(emission: Any) -> dict[str, Any]:
    """Describe an emission with all that it has learned."""
    values = {field.name: getattr(emission, field.name) for field in fields(emission)}
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    if isinstance(emission, ConjugateDecay):
        plain["likelihood"] = emission.likelihood.to_config()
    return {"emission": type(emission).__name__, **plain}


def emission_from_json(config: dict[str, Any]) -> Any:
    """Rebuild from `emission_to_json`."""
    values: dict[str, Any] = {
        k: np.array(v, np.float64) if isinstance(v, list) else v for k, v in config.items()
    }
    name = values.pop("emission")
    if name not in EMISSIONS:
        message = f"emission {name!r} is not one of {', '.join(EMISSIONS)}"
        raise ConfigError(message)
    if name == "GaussianDrift":
        for part in ("noise_sums", "drift_sums", "birth_sums"):
            values[part] = values[part].reshape(2, -1)
    if name == "ConjugateDecay":
        values["likelihood"] = likelihood_from_config(values["likelihood"])
    law: Any = EMISSIONS[name]
    return law(**values)


def _put(arrays: Arrays, name: str, value: Any) -> None:
    """Store an array, a bag or sparse rows."""
    if isinstance(value, Bags):
        arrays[f"{name}.offsets"], arrays[f"{name}.words"] = value.offsets, value.words
        arrays[f"{name}.counts"] = value.counts
        arrays[f"{name}.shape"] = np.array([*value.shape, value.width])
    elif sparse.issparse(value):
        arrays[f"{name}.offsets"] = value.indptr.astype(np.int64)
        arrays[f"{name}.words"] = value.indices.astype(np.int64)
        arrays[f"{name}.counts"] = value.data
        arrays[f"{name}.shape"] = np.array(value.shape)
    else:
        arrays[name] = value


def _bags(arrays: Arrays, name: str) -> Bags:
    *shape, width = arrays[f"{name}.shape"].tolist()
    offsets, words, counts = (arrays[f"{name}.{part}"] for part in ("offsets", "words", "counts"))
    return Bags(tuple(shape), offsets, words, counts, width)


def _rows(arrays: Arrays, name: str) -> Any:
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name}.{part}"] for part in ("counts", "words", "offsets"))
    return sparse.csr_array(parts, shape=tuple(arrays[f"{name}.shape"].tolist()))


def _ragged(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def to_state(model: Evolving) -> tuple[Arrays, dict[str, Any]]:
    """Return the state as arrays and JSON values."""
    engine, tracks = model.engine, list(model.tracks)
    arrays: Arrays = {
        "before": engine.before, "ids": engine.ids, "born": engine.born,
        "last_active": engine.last_active,
        "sizes.id": np.array(list(model.sizes), np.int64),
        "sizes.value": np.array(list(model.sizes.values()), np.float64),
        "times.epoch": np.array(list(model.times), np.int64),
        "times.value": np.array(list(model.times.values()), np.float64),
        "final.head": np.array([f[:2] for f in model.final], np.int64).reshape(-1, 2),
        "final.size": np.array([len(f.labels) for f in model.final], np.int64),
        "final.labels": _ragged([f.labels for f in model.final]),
        "tracks.epoch": np.array([track.epoch for track in tracks], np.int64),
        "tracks.time": np.array([track.time for track in tracks], np.float64),
        "tracks.size": np.array([len(track.ids) for track in tracks], np.int64),
        "tracks.ids": _ragged([track.ids for track in tracks]),
        "tracks.mass": np.concatenate([np.zeros(0), *(track.mass for track in tracks)]),
    }  # fmt: skip
    values = tracks[0].trait.values if tracks else {}
    for name in values:
        parts = [track.trait.values[name] for track in tracks]
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
        "kappa": engine.kappa_sums.tolist(),
        "epoch_sizes": engine.sizes,
        "n_rows": len(engine.rows),
        "changes": [list(change) for change in engine.changes],
        "words": None if model.vocabulary is None else model.vocabulary.words,
        "numbers": {name: getattr(model, name) for name in _NUMBERS},
        "events": [asdict(event) for event in model.events],
        "track_values": list(values),
        "track_words": [track.trait.words for track in tracks],
        "merges": list(model.merges),
    }
    return arrays, meta


_NUMBERS = (
    "frozen", "open_score", "n_left", "kept_words", "n_events", "n_final", "n_lost",
)  # fmt: skip


def from_state(arrays: Arrays, meta: dict[str, Any]) -> Evolving:
    """Rebuild from `to_state`; rows of the open epoch are seated anew."""
    settings = {**meta["settings"], "kappa": tuple(meta["settings"]["kappa"])}
    emission = emission_from_json(meta["emission"])
    engine = Engine(Settings(**settings), emission, epoch=meta["epoch"], next_id=meta["next_id"])
    engine.first_alpha, *sums = meta["alpha"]
    engine.alpha_sums = tuple(sums)
    engine.kappa_sums = np.array(meta["kappa"])
    engine.sizes = meta["epoch_sizes"]
    none = emission.no_starts(0)
    engine.starts = type(none)(
        *(
            _bags(arrays, f"starts.{name}") if isinstance(part, Bags) else arrays[f"starts.{name}"]
            for name, part in none._asdict().items()
        )
    )
    for name in ("before", "ids", "born", "last_active"):
        setattr(engine, name, arrays[name])
    engine.rows = [_rows(arrays, f"rows.{e}") for e in range(meta["n_rows"])]
    engine.resp = [arrays[f"resp.{e}"] for e in range(meta["n_rows"])]
    engine.changes = [Change(*change) for change in meta["changes"]]
    if "open" in arrays or "open.shape" in arrays:
        engine.seat(_rows(arrays, "open"))
    model = Evolving(engine, None if meta["words"] is None else Vocabulary(meta["words"]))
    for name in _NUMBERS:
        setattr(model, name, meta["numbers"][name])
    for name in ("sizes", "times"):
        keys = arrays["sizes.id" if name == "sizes" else "times.epoch"].tolist()
        setattr(model, name, dict(zip(keys, arrays[f"{name}.value"].tolist(), strict=True)))
    model.events.extend(Event(**event) for event in meta["events"])
    model.merges.extend((epoch, gone, into) for epoch, gone, into in meta["merges"])
    labels = _split(arrays["final.labels"], arrays["final.size"])
    heads = arrays["final.head"].tolist()
    model.final = deque(Final(e, row, part) for (e, row), part in zip(heads, labels, strict=True))
    _restore_tracks(model, arrays, meta["track_values"], meta["track_words"])
    return model


def _restore_tracks(
    model: Evolving, arrays: Arrays, names: list[str], words: list[list[str]]
) -> None:
    sizes = arrays["tracks.size"]
    if not len(sizes):
        return
    parts = (_split(arrays[f"tracks.{name}"], sizes) for name in ("ids", "mass"))
    values = [_split(arrays[f"tracks.values.{name}"], sizes) for name in names]
    heads = (arrays[f"tracks.{name}"].tolist() for name in ("epoch", "time"))
    for i, (e, time, ids, mass, said) in enumerate(zip(*heads, *parts, words, strict=True)):
        trait = Trait({name: part[i] for name, part in zip(names, values, strict=True)}, said)
        model.tracks.append(Track(e, time, ids, mass, trait))


def _split(array: Any, sizes: IntArray) -> list[Any]:
    return np.split(array, np.cumsum(sizes)[:-1]) if len(sizes) else []
