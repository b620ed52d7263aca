"""Forged states: what a model wrote, with one or several fields changed, under a valid checksum.

A forged state must be refused with a `StreamDDCRPError`, or be read and used without harm: no
crash, no hang, no read out of bounds. What it then says of its rows is the forger's own.
"""

import copy
import hashlib
import json
import re
import resource
import zlib
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from streamddcrp import SeqDDCRP
from streamddcrp.checkpoint import SqliteStore, decode_state, encode_state
from streamddcrp.checkpoint.codec import _DIGEST as DIGEST
from streamddcrp.checkpoint.codec import _TAIL as TAIL
from streamddcrp.checkpoint.codec import DTYPES
from streamddcrp.errors import StreamDDCRPError
from streamddcrp.estimator.keyed import _HEADER as HEADER
from streamddcrp.estimator.keyed import CURSOR, OP
from tests.conformance import streams
from tests.conformance.cases import CASES

ROWS = 399  # of streams whose length can be chosen
MEMORY = 6 << 30  # bytes that a process may take
_LONGER = {
    make: partial(make, n=ROWS)
    for make in (streams.levels, streams.mixed, streams.with_groups)
}  # fmt: skip
WHOLE = (-1, -2, 0, 1, 2, 7, 63, 64, 255, 256, 4096, 1 << 20, 1 << 31, 1 << 40, (1 << 62) - 1,
         1 << 62, (1 << 63) - 1, -(1 << 31), -(1 << 63))  # fmt: skip
REAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 1e-320, 1e-300, 1e300, -1e300, 1e18, 0.5)
PLAIN = (None, True, "", "x", [], {}, -1, 0, 1, 3, 10**6, 10**9, 2**40, 10**30, 0.5, -1e300, 1e300,
         float("nan"), float("inf"), [1, 2], {"a": 1})  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A model of the conformance suite, the state it is left in, and the rows that come next."""

    case: object

    @property
    def name(self):
        return self.case.name

    @cached_property
    def _stream(self):
        stream = _LONGER.get(self.case.stream, self.case.stream)(1)
        return stream.untimed if self.case.times == "none" else stream

    @property
    def _cut(self):
        return 3 * len(self._stream) // 4

    @cached_property
    def model(self):
        return self.case.learned(self._stream[: self._cut])

    @cached_property
    def blob(self):
        return self.model.to_bytes()

    @cached_property
    def parts(self):
        arrays, meta = decode_state(self.blob, type(self.model).__name__)
        return arrays, meta

    @cached_property
    def others(self):
        """Arrays of another valid state: of the same model, a third of the rows before."""
        earlier = self.case.learned(self._stream[: self._cut - self._cut // 3])
        return decode_state(earlier.to_bytes(), type(earlier).__name__)[0]

    def use(self, model):
        """Do everything with a model that a user may: predict, learn, look, store, load."""
        case, rest = self.case, self._stream[self._cut :]
        x, more = rest.one(0)
        case.look(model, x, more)
        for name in ("nbytes", "objective", "n_tables", "n_seen"):
            getattr(model, name, None)
        for name in ("summary", "events"):
            getattr(model, name, list)()
        case.step(model, rest[: len(rest) // 2])
        for name in ("summary", "events", "recent_labels", "final_labels", "trajectories"):
            if callable(getattr(model, name, None)):
                getattr(model, name)()
        type(model).from_bytes(model.to_bytes())
        case.step(model, rest[len(rest) // 2 :])
        case.look(model, x, more | rest.one(len(rest) - 1)[1])

    def load(self, arrays, meta):
        """Load a state; return the outcome, its message, and the model or the error."""
        try:
            blob = encode_state(type(self.model).__name__, 1, arrays, meta)
        except (StreamDDCRPError, pa.ArrowException) as error:
            return "refused", "not a state", error
        return self.read(blob)

    def read(self, blob):
        """Read bytes; return the outcome, its message, and the model or the error."""
        try:
            return "accepted", "", type(self.model).from_bytes(blob)
        except StreamDDCRPError as error:
            return "refused", str(error), error
        except Exception as error:
            return "traceback on load", f"{type(error).__name__}: {error}", error

    def forged(self, seed):
        """Return a forged state, and what was changed; other ones for other models."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        if rng.random() < 0.15:
            return chimera(self.parts, self.others, rng)
        return forged(self.parts, rng)

    def attempt(self, seed):
        """Forge one state and use it; return the outcome, its message and what was changed."""
        arrays, meta, said = self.forged(seed)
        return *self.try_forged(arrays, meta), said

    def try_forged(self, arrays, meta):
        """Load a state and use it; return what came of it."""
        return self.try_read(*self.load(arrays, meta))

    def try_read(self, outcome, message, model):
        """Use what was read, if it was; return what came of it."""
        if outcome != "accepted":
            return outcome, message
        try:
            self.use(model)
        except StreamDDCRPError as error:
            return "refused in use", str(error)
        except MemoryError as error:
            return "out of memory", str(error)
        except IndexError as error:  # of a kernel: only with NUMBA_BOUNDSCHECK=1
            return "read out of bounds", str(error)
        except Exception as error:
            return "error in use", f"{type(error).__name__}: {error}"
        return "accepted", ""


@dataclass(frozen=True)
class Early(Subject):
    """The subject during its warm-up."""

    @property
    def name(self):
        return f"{self.case.name} (warm-up)"

    @property
    def _cut(self):
        return 6


@dataclass(frozen=True)
class Packed(Subject):
    """The subject's bytes: what holds its arrays is forged, not they."""

    @property
    def name(self):
        return f"{self.case.name} (bytes)"

    def attempt(self, seed):
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        body, said = forged_bytes(self.blob[:-TAIL], rng)
        body += self.blob[-TAIL:-DIGEST]
        return *self.try_read(*self.read(body + hashlib.sha256(body).digest())), said


@dataclass(frozen=True)
class Fleet(Subject):
    """A model for each key: states, their names, what they share, or the cursor is forged."""

    @cached_property
    def kept(self):
        """Return the states by key, what they share, and one of another model."""
        with TemporaryDirectory() as folder:
            self.model.save(Path(folder, "fleet"))
            with SqliteStore(Path(folder, "fleet")) as store:
                found = dict(store.states(OP)), store.get(HEADER, "")
        return *found, SeqDDCRP(season=7).to_bytes()

    def attempt(self, seed):
        rng, said = np.random.default_rng([seed, zlib.crc32(self.name.encode())]), []
        with TemporaryDirectory() as folder:
            try:
                self.forge(Path(folder, "fleet"), rng, said)
            except (StreamDDCRPError, pa.ArrowException):
                return "refused", "not a state", said
            return *self.try_read(*self.read(Path(folder, "fleet").read_bytes())), said

    def forge(self, path, rng, said):
        """Write a forged store, and what was changed."""
        states, header, alien = self.kept
        states, cursor, kind = dict(states), None, type(self.model.model).__name__
        for _ in range(rng.choice([1, 1, 2])):
            key = _pick(rng, sorted(states))
            how = rng.integers(6)
            said.append(f"{('state', 'header', 'alien', 'swapped', 'name', 'cursor')[how]} {key!r}")
            if how == 0:
                arrays, meta, what = forged(decode_state(states[key], kind), rng)
                states[key] = encode_state(kind, 1, arrays, meta)
                said += what
            elif how == 1:
                arrays, meta, what = forged(decode_state(header, HEADER), rng)
                header = encode_state(HEADER, 1, arrays, meta)
                said += what
            elif how == 2:
                states[key] = alien
            elif how == 3:
                states[key] = states[_pick(rng, sorted(states))]
            elif how == 4:
                states[_pick(rng, ("", "7", "\0", "é" * 999, "nan"))] = states.pop(key)
            else:
                cursor = _pick(rng, PLAIN)
        with SqliteStore(path) as store:
            store.put_aside(HEADER, [("", header)])
            store.commit(OP, states, CURSOR, cursor)

    def use(self, model):
        assert model.cursor is not ...
        for key in model.keys:
            model.model_of(key)
        super().use(model)


def subjects(only=""):
    """Return every public class that can be stored, in the states of the conformance suite."""
    every = [Subject(case) for case in CASES] + [Early(case) for case in CASES if case.wait]
    chosen = [s for s in every if re.search(only, s.name) and s.case.can("checksum")]
    return [s for s in chosen if hasattr(s.case.make(), "to_bytes")]


def containers(only=""):
    """Return what holds states: the bytes of one model of each class, and models of keys."""
    one_each = {type(case.make()): case for case in CASES[::-1] if case.can("checksum")}
    every = [*map(Packed, one_each.values())]
    every += [Fleet(case) for case in CASES if case.name.startswith("Keyed")]
    return [s for s in every if re.search(only, s.name)]


def forged_bytes(body, rng):
    """Return what is before the digest of a state, changed, and what was changed."""
    length = 4 + int.from_bytes(body[:4], "little")
    head, packed = json.loads(body[4:length]), body[length:]
    how = rng.integers(6)
    if how == 0:  # any bytes
        at = rng.integers(len(body), size=rng.integers(1, 4))
        return b"".join(
            bytes([rng.integers(256)]) if i in at else body[i : i + 1] for i in range(len(body))
        ), [f"bytes at {at.tolist()}"]
    if how == 1:  # of the arrays' only
        at, value = int(rng.integers(len(packed))), int(rng.integers(256))
        return body[: length + at] + bytes([value]) + packed[at + 1 :], [f"packed byte {at}"]
    if how == 2:
        n = int(rng.integers(len(body)))
        return _pick(rng, (body[:n], body + body[:n], body[n:])), [f"cut or longer by {n}"]
    if how == 3:  # a length that is wrong
        size = _pick(rng, (0, 1, length, len(body), 2**31, 2**32 - 1))
        return int(size).to_bytes(4, "little") + body[4:], [f"length {size}"]
    if how == 4:
        deep = _pick(rng, ("[", '{"a":')) * 100_000
        return len(deep).to_bytes(4, "little") + deep.encode() + packed, ["deep"]
    said = [_change_setting(head, rng)]
    text = json.dumps(head).encode()
    return len(text).to_bytes(4, "little") + text + packed, said


def chimera(parts, others, rng):
    """Return a state some of whose arrays are those of another valid one, and which."""
    arrays, meta = dict(parts[0]), parts[1]
    both = sorted(arrays.keys() & others.keys())
    taken = rng.choice(both, rng.integers(1, len(both) + 1), replace=False).tolist() if both else []
    return arrays | {name: others[name] for name in taken}, meta, [f"of another state: {taken}"]


def forged(parts, rng):
    """Return arrays and settings with one to three fields changed, and what was changed."""
    arrays, meta = dict(parts[0]), parts[1]
    said = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if rng.random() < 0.15:
            meta = copy.deepcopy(meta)
            said.append(_change_setting(meta, rng))
        elif arrays:
            said.append(_change_array(arrays, rng))
    return arrays, meta, said


def _pick(rng, values):
    return values[rng.integers(len(values))]


def _change_setting(meta, rng):
    holder, key, way = meta, None, []
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return "nothing"
        key = _pick(rng, keys)
        way.append(key)
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.1:
            break
        holder = holder[key]
    old = holder[key]
    how = rng.integers(4)
    if how == 0:
        del holder[key]
        return f"{way} deleted"
    if how == 1 and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = _pick(rng, (old + 1, old - 1, -old, old * 2, old * 1000))
    elif how == 2 and isinstance(old, list) and old:
        holder[key] = _pick(rng, (old[:-1], old + old[-1:], old[::-1]))
    else:
        holder[key] = _pick(rng, PLAIN)
    return f"{way}: {old!r} to {holder[key]!r}"[:200]


def _change_array(arrays, rng):
    name = _pick(rng, sorted(arrays))
    old = arrays[name]
    how = _pick(rng, ("one",) * 3 + ("some", "all", "shape", "type", "order", "other", "gone"))
    new = old.copy()
    if how in {"one", "some", "all"} and new.size:
        flat = new.reshape(-1)
        n = {"one": 1, "some": min(3, flat.size), "all": flat.size}[how]
        at = rng.choice(flat.size, n, replace=False) if how != "all" else slice(None)
        limits = [len(a) if a.ndim else 1 for a in arrays.values()]
        with np.errstate(all="ignore"):
            if new.dtype.kind == "f":
                flat[at] = _pick(rng, (*REAL, *(flat[at] * f for f in (-1, 2, 1e9, 1e-9))))
            elif new.dtype.kind == "b":
                flat[at] = ~flat[at]
            else:
                limit = _pick(rng, limits)
                choice = _pick(rng, (*WHOLE, limit, limit - 1, limit + 1))
                kept = int(np.ravel(flat[at])[0])
                choice = _pick(rng, (choice, kept + 1, kept - 1))
                flat[at] = np.array([choice & ((1 << 64) - 1)], np.uint64).astype(new.dtype)
        arrays[name] = new
        return f"{name}: {how} to {np.ravel(flat[at])[:1].tolist()}"
    if how == "shape":
        ways = [new.reshape(-1)[:0], new[None], new.reshape(-1), new.T]
        for axis in range(new.ndim):
            cut = np.take(new, range(max(new.shape[axis] - 1, 0)), axis)
            ways += [cut, np.concatenate([new, new[-1:]] if axis == 0 else [new, new], axis)]
        arrays[name] = np.ascontiguousarray(_pick_array(rng, ways)).copy()
    elif how == "type":
        with np.errstate(all="ignore"):
            arrays[name] = new.astype(_pick(rng, DTYPES))
    elif how == "order":
        arrays[name] = rng.permutation(new) if new.ndim else new
    elif how == "other":
        like = [k for k, a in arrays.items() if a.shape == old.shape and a.dtype == old.dtype]
        other = _pick(rng, like)
        arrays[name] = arrays[other]
        return f"{name}: that of {other}"
    else:
        del arrays[name]
    return f"{name}: {how} {arrays[name].dtype if name in arrays else ''} {old.shape} to " + str(
        arrays[name].shape if name in arrays else None
    )


def _pick_array(rng, arrays):
    return arrays[int(rng.integers(len(arrays)))]


def limit_memory():
    """Let a process fail rather than the machine where an array is too large."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
