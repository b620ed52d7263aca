"""What users see of an evolving mixture: live components, trajectories, final labels."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.models.temporal.evolving import Evolving, Final
from streamddcrp.models.temporal.traits import Trait, latest

_log = logging.getLogger(__name__)


def components(model: Evolving, features: Sequence[str]) -> pa.Table:
    """Return one row a live component, those that the open epoch has begun among them."""
    engine, K = model.engine, model.n_components
    ids, n = model.ids(K), engine.n_components
    size = np.array([model.sizes.get(i, 0.0) for i in ids.tolist()])
    for q in [*engine.resp, *engine.seated]:
        size[: q.shape[1]] += q.sum(axis=0)
    more = np.full(K - n, engine.epoch + 1)
    columns: dict[str, Any] = {
        "id": ids,
        "size": size,
        "born": np.concatenate([engine.born, more]),
        "last_seen": np.concatenate([engine.last_active, more]),
    }
    names = [] if model.vocabulary is None else model.vocabulary.words
    return pa.table(columns | _columns(latest(engine, K, names), features))


def trajectories(model: Evolving | None, features: Sequence[str]) -> pa.Table:
    """Return one row an epoch and component."""
    tracks = [] if model is None else [*model.tracks, *model.window_tracks()]
    if not tracks:
        kinds = {"epoch": pa.int64(), "t": pa.float64(), "id": pa.int64(), "mass": pa.float64()}
        return pa.schema(list(kinds.items())).empty_table()
    sizes = [len(track.ids) for track in tracks]
    trait = Trait(
        {
            name: np.concatenate([track.trait.values[name] for track in tracks])
            for name in tracks[0].trait.values
        },
        [words for track in tracks for words in track.trait.words],
    )
    columns = {
        "epoch": np.repeat([track.epoch for track in tracks], sizes),
        "t": np.repeat([track.time for track in tracks], sizes),
        "id": np.concatenate([track.ids for track in tracks]),
        "mass": np.concatenate([track.mass for track in tracks]),
    }
    return pa.table(columns | _columns(trait, features))


def _columns(trait: Trait, features: Sequence[str]) -> dict[str, Any]:
    if not trait.values:
        return {"words": pa.array(trait.words, pa.string())}
    return {
        f"{name}_{feature}": np.ascontiguousarray(values[:, d])
        for d, feature in enumerate(features)
        for name, values in trait.values.items()
        if not np.isnan(values[:, d]).all()  # else a column without this parameter
    }


def final_labels(model: Evolving | None, *, window: bool) -> pa.Table:
    """Return the labels not yet told, and forget them."""
    parts: list[Final] = []
    if model is not None:
        if model.n_lost:
            _log.warning(
                "final labels of %d rows were dropped; call final_labels() more often", model.n_lost
            )
        parts = list(model.final)
        model.final.clear()
        model.n_final = model.n_lost = 0
        if window:
            parts += model.window_labels()
    none = [np.zeros(0, np.int64)]
    sizes = [len(part.labels) for part in parts]
    rows = [part.row + np.arange(len(part.labels)) for part in parts]
    return pa.table(
        {
            "row": np.concatenate(none + rows),
            "epoch": np.repeat(np.array([part.epoch for part in parts], np.int64), sizes),
            "label": np.concatenate(none + [part.labels for part in parts]),
        }
    )
