"""What identifies a run, so that a checkpoint continues only the same one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import CheckpointError, StreamDDCRPError
from streamddcrp_connectors.run.models import CURSOR, Recipe
from streamddcrp_connectors.run.outputs import Outputs
from streamddcrp_connectors.run.sources import Source

_KINDS = {"job": dict, "rows": int, "refused": int, "source": object}  # in every cursor
_ABSENT = "not given"


def describe(source: Source, recipe: Recipe, outputs: Outputs) -> dict[str, Any]:
    """Describe what must stay the same for a checkpoint to be continued."""
    columns = source.columns
    text = {"text": True} if columns.text else {}
    job: dict[str, Any] = {
        "model": dict(recipe.description),
        "source": source.identity(),
        "columns": {"time": columns.time, "key": columns.key, "features": columns.features} | text,
    }
    job |= {name: sink.identity for name, sink in outputs.sinks.items()}
    described: dict[str, Any] = json.loads(json.dumps(job))  # as it comes back from the store
    return described


def find_cursor(
    store: SqliteStore | None, job: dict[str, Any], *, overwrite: bool = False
) -> dict[str, Any]:
    """Return where to go on, after checking that the checkpoint is of this job."""
    stored = store.offset(CURSOR) if store is not None else None
    if stored is None and store is not None and not overwrite:
        _refuse_leftovers(store.path.parent)
    if stored is None or store is None:
        start = dict.fromkeys(("source", "sink", "events", "dead"))
        return {"job": job, **start, "rows": 0, "refused": 0}
    cursor: dict[str, Any] = stored
    with fitting():
        for name, kind in _KINDS.items():
            value = cursor[name]
            least = type(value) is not int or value >= 0
            if not (isinstance(value, kind) and least) or value is True:
                raise TypeError(f"{name} is {value!r:.40}")
    for part in {**cursor["job"], **job}:
        before, now = cursor["job"].get(part), job.get(part)
        if before != now:
            other = "other" if part.endswith("s") else "another"
            raise CheckpointError(
                f"the checkpoint {store.path.parent} was made with {other} {part}: "
                f"{_difference(before, now)}; run as before, or use a new checkpoint folder"
            )
    return cursor


@contextmanager
def fitting() -> Iterator[None]:
    """Refuse a cursor in which something is missing, or is of another kind.

    Raises CheckpointError.
    """
    try:
        yield
    except StreamDDCRPError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        message = f"the checkpoint does not say where to go on ({error}); use another copy"
        raise CheckpointError(message) from error


def _difference(before: Any, now: Any, name: str = "it") -> str:
    """Say what differs between two parts of jobs, down to single settings."""
    if isinstance(before, dict) and isinstance(now, dict):
        pairs = ((before.get(one, _ABSENT), now.get(one, _ABSENT), one) for one in before | now)
        return ", ".join(_difference(*pair) for pair in pairs if pair[0] != pair[1])
    then, later = (
        value if value is _ABSENT else json.dumps(value, ensure_ascii=False)
        for value in (before, now)
    )
    return f"{name} was {then}, now {later}"


def _refuse_leftovers(folder: Path) -> None:
    """Refuse a folder of a checkpoint that has lost its states."""
    left = [path.name for path in folder.glob("*.rows") if path.stat().st_size]
    if left:
        raise CheckpointError(
            f"the checkpoint {folder} holds results ({', '.join(sorted(left))}) but no states: put "
            "its state.sqlite back, use a new folder, or give --overwrite if they may be deleted"
        )
