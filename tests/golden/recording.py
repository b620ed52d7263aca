"""What a run has given, under names: exact values, digests of bits, and how they are compared."""

import hashlib
import importlib
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from numba import config
from numpy._core._multiarray_umath import __cpu_features__
from scipy import sparse

import streamddcrp
from streamddcrp.checkpoint import decode_state
from streamddcrp.kernel_folders import target

SHOWN = 120  # floats of a column that the file shows; longer columns are thinned
LISTED = 2000  # whole numbers of a column that the file shows; longer ones are hashed
# What floors make of rounding: a share below STALE of SeqDDCRP's arrival.py waits for the next
# block, so that data changed in their last bit moved p_new by 2e-5 of itself.
RTOL, ATOL = 1e-4, 1e-9
CLASSES = ("family", "class", "emission", "law")  # settings that name classes
MAGIC, TAIL = b"SDDCRP03", 40  # a state ends with eight bytes and a checksum


def machine():
    """What the bits of a run depend on beside its code."""
    found = {lib: version(lib) for lib in ("numba", "llvmlite", "numpy", "scipy")}
    beyond = [name for name in ("X86_V4",) if __cpu_features__.get(name)]  # see tests.processor
    return {
        "target": " ".join(target()), "numpy uses": " ".join(beyond),
        "blas": os.environ.get("OPENBLAS_CORETYPE"), "compiled": not config.DISABLE_JIT,
        "svml": bool(config.USING_SVML), "libc": " ".join(platform.libc_ver()), **found,
    }  # fmt: skip


def find_class(name):
    """Return a class of the package that no public name leads to, wherever it is defined."""
    root = Path(next(iter(find_spec("streamddcrp").submodule_search_locations)))
    for path in sorted(root.rglob("*.py")):
        if f"\nclass {name}" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(root.parent).with_suffix("").parts
            return getattr(importlib.import_module(".".join(parts)), name)
    raise LookupError(name)


def sha(data):
    return hashlib.sha256(data).hexdigest()[:24]


def without_classes(value):
    """Leave out settings that name classes, which may be renamed."""
    if isinstance(value, Mapping):
        return {k: without_classes(v) for k, v in value.items() if k not in CLASSES}
    return [without_classes(v) for v in value] if isinstance(value, list | tuple) else value


def leaves(name, value):
    """Yield arrays, and lists of JSON values, with their names."""
    if isinstance(value, pa.Table | pa.RecordBatch):
        names = value.schema.names
        given = {"time"} if {"time", "score"} <= {*names} else set()  # no result
        for column in (name for name in names if name not in given):
            yield from _column(f"{name}.{column}", value[column])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield name, value
    elif sparse.issparse(value):
        rows = value.tocsr()
        for part in ("data", "indices", "indptr"):
            yield f"{name}.{part}", getattr(rows, part)
    elif isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            for key, part in value.items():
                yield from leaves(f"{name}.{key}", part)
        else:
            yield f"{name}.keys", [str(key) for key in value]
            yield from leaves(f"{name}.values", list(value.values()))
    elif hasattr(value, "to_config"):
        yield from leaves(name, without_classes(value.to_config()))
    elif hasattr(value, "_fields"):
        yield from leaves(name, value._asdict())
    elif is_dataclass(value):
        yield from leaves(name, {f.name: getattr(value, f.name) for f in fields(value)})
    elif isinstance(value, list | tuple | np.ndarray):
        yield from _listed(name, list(value))
    elif value is None or isinstance(value, str | bool):
        yield name, [value]
    else:
        yield name, np.asarray([value])


def _column(name, column):
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_list(column.type):
        yield (
            f"{name}.length",
            [len(row) if row is not None else None for row in column.to_pylist()],
        )
        yield from _column(f"{name}.flat", column.flatten())
    elif pa.types.is_floating(column.type) or not (
        column.null_count or pa.types.is_string(column.type) or pa.types.is_null(column.type)
    ):
        yield name, column.to_numpy(zero_copy_only=False)
    else:
        yield name, column.to_pylist()


def _listed(name, values):
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and is_dataclass(values[0]):  # events, as columns
        for field in fields(values[0]):
            yield from _listed(f"{name}.{field.name}", [getattr(v, field.name) for v in values])
    elif kinds and all(issubclass(kind, int | float | np.number) for kind in kinds):
        yield name, np.array(values)
    elif all(issubclass(kind, int | float | str | type(None)) for kind in kinds):
        yield name, values
    else:
        for i, value in enumerate(values):
            yield from leaves(f"{name}.{i}", value)


class Record:
    """What a case has given so far.

    Attributes
    ----------
    values : dict
        By name what must be the same everywhere, floats up to rounding.
    bits : dict
        By name type, shape and digest of float arrays and of the arrays of states.
    settings : dict
        By name digests of the plain settings in states.
    """

    def __init__(self):
        self.values, self.bits, self.settings = {}, {}, {}

    def add(self, name, value):
        """Record arrays, tables, results or plain values."""
        for leaf, found in leaves(name, value):
            assert leaf not in self.values, f"{leaf} twice"
            self.values[leaf] = _shown(found)
            if isinstance(found, np.ndarray) and found.dtype.kind == "f":
                self.bits[leaf] = _digest(found)

    def state(self, model, name="state"):
        """Record the arrays and settings of a model's checkpoint by name."""
        self.blob(name, model.to_bytes())

    def blob(self, name, blob):
        """Record a state; states within states, too."""
        head = json.loads(blob[4 : 4 + int.from_bytes(blob[:4], "little")])
        arrays, meta = decode_state(blob, head["model"])
        for key, array in arrays.items():
            if array.dtype == np.uint8 and array[-TAIL:].tobytes().startswith(MAGIC):
                self.blob(f"{name}/{key}", array.tobytes())
            else:
                self.bits[f"{name}/{key}"] = _digest(array)
        for key, value in without_classes(meta).items():
            parts = value if isinstance(value, dict) and value else {None: value}
            for part, setting in parts.items():
                text = json.dumps(setting, sort_keys=True, separators=(",", ":"))
                leaf = f"{name}/{key}" + ("" if part is None else f".{part}")
                self.settings[leaf] = sha(text.encode())

    def content(self):
        """What goes into the file of the case."""
        return {
            "made_on": machine(), "values": self.values, "bits": self.bits,
            "settings": self.settings,
        }  # fmt: skip


def _digest(array):
    array = np.ascontiguousarray(array)
    return f"{array.dtype.str} {list(array.shape)} {sha(array.tobytes())}"


def _shown(found):
    """What the file shows of a column: all of it, every so-many-th number, or a digest."""
    if isinstance(found, list):
        return {"exact": [_text(value) for value in found]}
    shape = list(found.shape)
    if found.dtype.kind == "f":
        flat = found.ravel()[:: max(1, math.ceil(found.size / SHOWN))]
        return {"shape": shape, "float": [_text(x) for x in flat.tolist()]}
    if found.size > LISTED:
        return {"shape": shape, "digest": sha(found.astype("<i8").tobytes())}
    return {"shape": shape, "exact": found.astype(np.int64).ravel().tolist()}


def _text(value):
    if not isinstance(value, float):
        return value
    return float(f"{value:.10g}") if math.isfinite(value) else str(value)


def differences(expected, found, tolerant):
    """Say in words where two mappings by name differ."""
    out = [f"{name}: is gone" for name in expected if name not in found]
    out += [f"{name}: is new" for name in found if name not in expected]
    for name, value in expected.items():
        if name in found and found[name] != value:
            said = _unlike(value, found[name]) if tolerant else f"{value} -> {found[name]}"
            out += [f"{name}: {said}"] if said else []
    return out


def _unlike(value, found):
    """Say how two shown columns differ; nothing where they differ by rounding only."""
    if value.keys() != found.keys() or value.get("shape") != found.get("shape"):
        said = [
            (entry.get("shape"), *(k for k in entry if k != "shape")) for entry in (value, found)
        ]
        return f"{said[0]} -> {said[1]}"
    kind = next(key for key in value if key != "shape")
    if kind == "digest":
        return f"{value['digest']} -> {found['digest']}"
    old, new = value[kind], found[kind]
    if kind == "float":
        wrong = ~np.isclose(
            np.array(new, float), np.array(old, float), rtol=RTOL, atol=ATOL, equal_nan=True
        )
    else:
        if len(old) != len(new):
            return f"{len(old)} -> {len(new)} values"
        wrong = np.array([a != b for a, b in zip(old, new, strict=True)], bool)
    if not wrong.any():
        return ""
    at = int(wrong.argmax())
    return f"{int(wrong.sum())} of {len(old)} shown, first at {at}: {old[at]!r} -> {new[at]!r}"


def layout(bits):
    """Types and shapes of the arrays of states, by name."""
    return {name: text.rsplit(" ", 1)[0] for name, text in bits.items() if "/" in name}


def renamed(expected, found):
    """Pairs of a name that is gone and a new one with the same digest."""
    gone = {text: name for name, text in expected.items() if name not in found}
    return [(gone[text], name) for name, text in found.items() if text in gone]


def joined(content):
    """JSON with a line for each name, so that changes can be read."""
    parts = []
    for section, entries in content.items():
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())
        parts.append(f" {json.dumps(section)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def package_names():
    """Public names of the package."""
    return {name for name in streamddcrp.__all__ if not name.startswith("_")}
