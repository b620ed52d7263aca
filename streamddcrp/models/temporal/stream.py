"""The state of a stream: its engine, and data on epochs that have left the window."""

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from streamddcrp import contract
from streamddcrp import records as rec
from streamddcrp.data.boilerplate import Boilerplate
from streamddcrp.data.documents import Vocabulary
from streamddcrp.data.scaled import FEWEST_ROWS
from streamddcrp.estimator.stored import check_whole, read_events
from streamddcrp.models.temporal.copies import Copies
from streamddcrp.models.temporal.emissions import Summary, widened
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.window import ACTIVE
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)
_EVENTS = 256  # most unreported events kept from earlier calls
_FINAL = 100_000  # most unreported final labels
_EPOCHS = 1000  # epochs with stored trajectories; and merges, for pictures
_WORDS = 1000  # a vocabulary of this size is never too large
_CRUMB = 0.01  # expected count of a word that counts as zero
_PAIRS = {"sizes": "id", "times": "epoch"}
_NUMBERS = ("frozen", "open_score", "n_left", "kept_words", "n_events", "n_final", "n_lost")


class Trajectory(NamedTuple):
    """The components of an epoch: ids, expected rows, and how they looked."""

    epoch: int
    time: float
    ids: IntArray
    mass: FloatArray
    summary: Summary


def columns_of(tracks: Sequence[Trajectory]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return epochs, their times and numbers of components, ids and masses; and point estimates."""
    names = tracks[0].summary.values if tracks else {}
    return {
        "epoch": np.array([track.epoch for track in tracks], np.int64),
        "time": np.array([track.time for track in tracks], np.float64),
        "size": np.array([len(track.ids) for track in tracks], np.int64),
        "ids": np.concatenate([np.zeros(0, np.int64), *(track.ids for track in tracks)]),
        "mass": np.concatenate([np.zeros(0), *(track.mass for track in tracks)]),
    }, {name: np.concatenate([track.summary.values[name] for track in tracks]) for name in names}


class FinalLabels(NamedTuple):
    """Labels of the rows of an epoch, whose first row is ``row``."""

    epoch: int
    row: int
    labels: IntArray


@dataclass
class StreamState:
    """An engine with its stream's epoch numbers."""

    engine: Engine
    vocabulary: Vocabulary | None = None
    boilerplate: Boilerplate = field(default_factory=Boilerplate)  # of texts
    frozen: float = 0.0  # objective of past epochs
    open_score: float = 0.0  # of the rows of the open epoch
    n_left: int = 0  # rows of past epochs
    kept_words: int = 0  # after the last removal
    sizes: dict[int, float] = field(default_factory=dict)  # of live ids, in past epochs
    times: dict[int, float] = field(default_factory=dict)  # of late epochs
    events: deque[contract.Event] = field(default_factory=deque)
    n_events: int = 0  # made since the last report
    final: deque[FinalLabels] = field(default_factory=deque)
    n_final: int = 0  # rows in it
    n_lost: int = 0
    n_wordless: int = 0  # texts in which no word tells, until there are many; not stored
    copies: Copies = field(default_factory=Copies)  # of texts
    trajectories: deque[Trajectory] = field(default_factory=lambda: deque(maxlen=_EPOCHS))
    merges: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_EPOCHS))

    # -- learning --------------------------------------------------------------------------------

    def seat(self, rows: Any, time: float) -> FloatArray:
        """Assign rows of the open epoch; return the predictions on arrival, (N, N_OUTPUTS)."""
        engine, new = self.engine, np.ones(len(rows), dtype=bool)
        self.times.setdefault(engine.epoch + 1, time)
        X, more = (rows, np.zeros(len(rows))) if self.vocabulary is None else self._encode(rows)
        if self.has_copies:
            kept = self.boilerplate.strip(X)
            new, surprise = self.copies.note(kept, self.number)
            if not new.all():
                X, kept, more = X[new], kept[new], more[new]
            self._note(X, kept)
            X = kept
        K = self.n_components
        seats = engine.seat(X)
        scores = seats.scores + more
        top, p_new = seats.q.argmax(axis=1), seats.chances[:, 0]
        columns, first = np.unique(top, return_index=True)
        opened = np.zeros(len(top), dtype=bool)
        opened[first[columns >= K]] = True
        out = np.empty((len(top), contract.N_OUTPUTS))
        out[:, contract.LABEL] = self.ids(seats.q.shape[1])[top]
        share = seats.q[np.arange(len(top)), top]
        out[:, contract.LABEL_PROB] = np.where(opened, p_new, (1.0 - p_new) * share)
        out[:, contract.SCORE] = scores
        out[:, contract.P_NEW], out[:, contract.P_CHANGE] = p_new, seats.chances[:, 1]
        out[:, contract.LIVE_TABLES] = K + np.cumsum(opened) - opened
        if self.has_copies:
            self.copies.q.extend(seats.q)
        if not new.all():
            out = self._with_copies(out, new, surprise, K + np.append(0, np.cumsum(opened)))
        total = np.append(self.open_score, out[:, contract.SCORE])
        self.open_score = float(np.add.accumulate(total)[-1])
        return out

    @property
    def has_copies(self) -> bool:
        """Whether texts with the same words count once in an epoch."""
        return isinstance(self.engine.emission, TextDecay)

    def _with_copies(
        self, out: FloatArray, new: Any, surprise: FloatArray, live: IntArray
    ) -> FloatArray:
        """Add the predictions of copies to those (F, N_OUTPUTS) of new texts."""
        whole, done = np.zeros((len(new), contract.N_OUTPUTS)), np.cumsum(new)
        whole[new] = out
        for i in np.flatnonzero(~new).tolist():
            at = self.copies.of[self.number][i - len(new)]
            whole[i] = self._follow(at, surprise[i], live[done[i]])
        return whole

    def _follow(self, at: int, surprise: float, live: int) -> FloatArray:
        """Predict a copy of the text in row ``at``."""
        q, out = self.copies.q[at], np.zeros(contract.N_OUTPUTS)
        k = int(q.argmax())
        out[contract.LABEL], out[contract.LABEL_PROB] = self.ids(k + 1)[k], q[k]
        out[contract.SCORE], out[contract.LIVE_TABLES] = surprise, live
        out[contract.P_CHANGE] = k >= self.engine.n_components
        return out

    def _encode(self, rows: Any, *, learn: bool = True) -> tuple[Any, FloatArray]:
        """Return documents in the emission's form, and the surprise of what is left out."""
        X = self.vocabulary.encode(rows, learn=learn)  # type: ignore[union-attr]
        if not self.has_copies:
            return X, np.zeros(X.shape[0])
        X.data = np.minimum(X.data, 1.0)  # a repeated word is weaker evidence than a new one
        return X, self.boilerplate.surprise(X)

    def _note(self, X: Any, kept: Any) -> None:
        """Note the words of texts, and how many have none without boilerplate."""
        self.boilerplate.note(X)
        if self.n_wordless < FEWEST_ROWS:
            self.n_wordless += int((np.diff(kept.indptr) == 0).sum())
            if self.n_wordless >= FEWEST_ROWS:
                message = "%d texts so far have no words that tell: they open no cluster, and join "
                _log.warning(message + "the likeliest one", self.n_wordless)

    def ids(self, K: int) -> IntArray:
        """Return the ids of components, including those begun in the open epoch."""
        ids, new = self.engine.ids, self.engine.next_id
        return np.concatenate([ids, np.arange(new, new + K - len(ids))])

    @property
    def n_components(self) -> int:
        """Number of live components, including those begun in the open epoch."""
        seating = self.engine.seating
        return self.engine.n_components if seating is None else int(seating.n_components)

    @property
    def number(self) -> int:
        """Number of the open or next epoch."""
        return self.engine.epoch + 1

    def go_to(self, number: int) -> None:
        """Close the epochs before a given one; many empty ones are cheap."""
        if number == self.number:
            return
        while self.number < number and not self._is_idle():
            self._close()
        if self.number < number:
            self.engine.pause(number)
        self._confirm()

    def _is_idle(self) -> bool:
        """Whether further empty epochs would change nothing."""
        engine = self.engine
        if engine.seating is not None or any(len(q) for q in engine.resp):
            return False
        return not engine.n_components or self.number - max(self.times) > engine.settings.lag + 1

    def _close(self) -> None:
        engine = self.engine
        if len(engine.rows) > engine.settings.lag:
            self._leave()
        if self.has_copies and self.boilerplate.look():
            self._leave_out()
        engine.close()
        self.copies.close(engine.epoch)
        self.open_score = 0.0
        self._note_merges()
        self._clear_words()

    def _leave_out(self) -> None:
        """Remove newly found boilerplate from the components, and reassign the epoch."""
        engine, strip = self.engine, self.boilerplate.strip
        engine.rows = [strip(X) for X in engine.rows]
        words = engine.starts.words.without(self.boilerplate.words)
        engine.starts = engine.starts._replace(words=words)
        engine.reseat([strip(X) for X in engine.arrived])

    def _note_merges(self) -> None:
        """Record the merges of the last epoch, except of components born in it."""
        now = [change for change in self.engine.changes if change.index == self.engine.epoch]
        fresh = {change.label for change in now if change.kind != "merge"}
        for c in now:
            if c.kind == "merge" and c.label not in fresh and c.into is not None:
                self.merges.append((c.index, c.label, c.into))

    def _leave(self) -> None:
        """Move the oldest epoch out of the window, and record its results."""
        engine, smoothed = self.engine, self.engine.smooth()
        before, q = engine.objective(smoothed).total, engine.resp[0]
        mass = q.sum(axis=0)
        if len(q):
            self.trajectories.append(self._trajectory(0, smoothed))
            labels = self.copies.labels_of(engine.first, engine.ids[q.argmax(axis=1)])
            self.final.append(FinalLabels(engine.first, self.n_left, labels))
            self.copies.leave(engine.first, labels, engine.ids.tolist())
            self.n_left += len(labels)
            self.n_final += len(labels)
            while self.n_final > _FINAL and len(self.final) > 1:
                lost = len(self.final.popleft().labels)
                self.n_final -= lost
                self.n_lost += lost
        engine.freeze(smoothed)
        self.frozen += before - engine.objective().total
        pairs = zip(engine.ids.tolist(), mass.tolist(), strict=True)
        self.sizes = {i: self.sizes.get(i, 0.0) + more for i, more in pairs}

    def _trajectory(self, e: int, smoothed: Any) -> Trajectory:
        engine = self.engine
        number, mass = engine.first + e, engine.resp[e].sum(axis=0)
        there = np.flatnonzero(mass >= ACTIVE)
        stats = engine.emission.stats(engine.rows[e], engine.resp[e])
        summary = engine.emission.summary(stats, smoothed, e, there, self.words)
        return Trajectory(number, self._time(number), engine.ids[there], mass[there], summary)

    @property
    def words(self) -> list[Any]:
        """Words by number; none for numeric rows."""
        return [] if self.vocabulary is None else self.vocabulary.words

    def _time(self, epoch: int) -> float:
        return self.times.get(epoch, math.nan)

    def _confirm(self) -> None:
        """Queue the events of epochs that left the window, and forget old times."""
        engine = self.engine
        left = [change for change in engine.changes if change.index < engine.first]
        engine.changes = [change for change in engine.changes if change.index >= engine.first]
        for change in sorted(left, key=lambda change: change.index):
            self.events.append(replace(change, t=self._time(change.index)))
        self.n_events += len(left)
        # a death is noticed once as many epochs as the past counts have gone by
        oldest = engine.first - len(engine.settings.past_weights) - engine.settings.lag - 2
        active = int(engine.last_active.min(initial=oldest))  # before a pause
        oldest = min(oldest, active, max(self.times, default=0))
        self.times = {epoch: t for epoch, t in self.times.items() if epoch >= oldest}

    def last_events(self) -> list[contract.Event]:
        """Return the last unreported events, as many as outlive a call."""
        return list(self.events)[-_EVENTS:]

    def begin_call(self) -> None:
        """Forget events of earlier calls except the last ones; those of one call are all kept."""
        self.events = deque(self.last_events())

    def _clear_words(self) -> None:
        """Occasionally forget words used by neither the window nor a live component."""
        vocabulary, engine = self.vocabulary, self.engine
        if vocabulary is None or not isinstance(engine.emission, TextDecay):
            return
        if len(vocabulary) <= max(2 * self.kept_words, _WORDS):
            return
        used = np.zeros(len(vocabulary), dtype=bool)
        for X in engine.rows:
            used[X.indices] = True
        used[engine.starts.words.heavy(_CRUMB).words] = True
        used[self.boilerplate.words] = True
        number = np.cumsum(used) - 1
        V = int(used.sum())
        engine.rows = [
            sparse.csr_array((X.data, number[X.indices], X.indptr), shape=(X.shape[0], V))
            for X in engine.rows
        ]
        words = engine.starts.words.heavy(_CRUMB).renumbered(number, V)
        engine.starts = engine.starts._replace(words=words)
        engine.emission = engine.emission.keeping(used)
        vocabulary.keep(used)
        self.boilerplate.keep(used)
        self.kept_words = V

    # -- looking ---------------------------------------------------------------------------------

    def peek(self, row: Any) -> tuple[FloatArray, dict[int, float]]:
        """Return the output of `seat` for one row, and all component probabilities."""
        texts = self.vocabulary is not None
        X, more = self._encode([row], learn=False) if texts else (row[None], np.zeros(1))
        if self.has_copies:
            X = self.boilerplate.strip(X)
            at, surprise = self.copies.find(X, self.number)
            if at >= 0:
                q, ids = self.copies.q[at], self.ids(self.n_components)
                some = np.flatnonzero(q)
                found = dict(zip(ids[some].tolist(), q[some].tolist(), strict=True))
                return self._follow(at, surprise, len(ids)), found | {-1: 0.0}
        seats, chances = self.engine.peek(X)
        p_new, top = float(seats.chances[0, 0]), int(seats.q[0].argmax())
        ids, out = self.ids(len(chances) + 1), np.empty(contract.N_OUTPUTS)
        out[contract.LABEL], out[contract.SCORE] = ids[top], seats.scores[0] + more[0]
        out[contract.P_NEW], out[contract.P_CHANGE] = seats.chances[0]
        out[contract.LABEL_PROB] = p_new if top == len(chances) else chances[top]
        out[contract.LIVE_TABLES] = len(chances)
        some = np.flatnonzero(chances)
        return out, dict(zip(ids[some].tolist(), chances[some].tolist(), strict=True)) | {-1: p_new}

    def ahead(self, number: int) -> "StreamState":
        """Return a copy in which the epochs before one have been closed."""
        copy = deepcopy(self)
        copy.go_to(number)
        return copy

    @property
    def objective(self) -> float:
        return self.frozen + self.engine.objective().total - self.open_score

    @property
    def n_rows(self) -> int:
        """The number of rows learned."""
        of, engine = self.copies.of, self.engine
        closed = sum(len(of.get(e, q)) for e, q in enumerate(engine.resp, engine.first))
        return self.n_left + closed + (len(of.get(self.number, ())) or engine.n_open)

    def latest(self) -> tuple[IntArray, Summary]:
        """Return the ids and descriptions of all components, including the open epoch's."""
        engine, K = self.engine, self.n_components
        emission, n = engine.emission, engine.n_components
        seated = engine.seated if n < K else []  # rows of the open epoch, for those it has begun
        q = np.concatenate([np.zeros((0, K)), *(widened(q, K - q.shape[1]) for q in seated)])
        fresh = emission.stats(emission.joined(engine.arrived if n < K else []), q)
        smoothed = engine.smooth() if n else None
        return self.ids(K), emission.latest(smoothed, fresh, self.words)

    def window_trajectories(self) -> list[Trajectory]:
        """Describe the epochs of the window in their present state."""
        smoothed = self.engine.smooth()
        return [self._trajectory(e, smoothed) for e, q in enumerate(self.engine.resp) if len(q)]

    def window_labels(self) -> list[FinalLabels]:
        """Return the present labels of the rows of the window and of the open epoch."""
        engine, row, out = self.engine, self.n_left, []
        ids = self.ids(self.n_components)
        parts = [[q] for q in engine.resp] + [engine.seated]
        for epoch, part in enumerate(parts, engine.first):
            if any(map(len, part)):
                labels = np.concatenate([ids[q.argmax(axis=1)] for q in part])
                labels = self.copies.labels_of(epoch, labels)
                out.append(FinalLabels(epoch, row, labels))
                row += len(labels)
        return out

    def copies_of(self, ids: IntArray) -> IntArray:
        """Return the number of copies of live components."""
        counts = self.copies.count((part.epoch, part.labels) for part in self.window_labels())
        return np.array([counts.get(i, 0) for i in ids.tolist()], np.int64)

    # -- checkpoints -----------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays, and JSON values without the emission."""
        arrays, meta = self.engine.to_state()
        labels = [part.labels for part in self.final]
        for name, key in _PAIRS.items():
            pairs = getattr(self, name)
            arrays[f"{name}.{key}"] = np.array(list(pairs), np.int64)
            arrays[f"{name}.value"] = np.array(list(pairs.values()), np.float64)
        arrays["final.head"] = np.array([part[:2] for part in self.final], np.int64).reshape(-1, 2)
        arrays["final.size"] = np.array([len(part) for part in labels], np.int64)
        arrays["final.labels"] = np.concatenate([np.zeros(0, np.int64), *labels])
        columns, values = columns_of(self.trajectories)
        arrays |= {f"tracks.{name}": column for name, column in columns.items()}
        arrays |= {f"tracks.values.{name}": column for name, column in values.items()}
        if self.has_copies:
            arrays |= self.boilerplate.state() | self.copies.arrays()
        return arrays, meta | {
            "words": None if self.vocabulary is None else self.vocabulary.words,
            "numbers": {name: getattr(self, name) for name in _NUMBERS},
            "events": [asdict(event) for event in self.last_events()],
            "track_values": list(values),
            "track_words": [track.summary.words for track in self.trajectories],
            "merges": list(self.merges),
        }

    @classmethod
    def from_state(
        cls, emission: Any, arrays: dict[str, Any], meta: dict[str, Any], n_features: int
    ) -> Self:
        words = meta["words"]
        _check(arrays, meta, n_features)
        engine = Engine.from_state(emission, arrays, meta, n_features)
        if words is not None:
            met = max([-1, *(int(X.indices.max(initial=-1)) for X in engine.rows + engine.arrived)])
            rec.refuse_if(len(set(words)) != len(words) or met >= len(words), "words")
        self = cls(engine, None if words is None else Vocabulary(words), **meta["numbers"])
        if self.has_copies:
            self.boilerplate = Boilerplate.restore(arrays, len(words))
            sizes = {engine.first + e: len(q) for e, q in enumerate(engine.resp)}
            sizes |= {self.number: engine.n_open}
            self.copies = Copies.restored(arrays, sizes, self.number)
            self.copies.restore_words(engine.emission.joined(engine.arrived), self.number)
            self.copies.q.extend(q for part in engine.seated for q in part)
        for name, key in _PAIRS.items():
            pairs = (arrays[f"{name}.{part}"].tolist() for part in (key, "value"))
            setattr(self, name, dict(zip(*pairs, strict=True)))
        self.events.extend(read_events(meta["events"]))
        self.merges.extend((epoch, gone, into) for epoch, gone, into in meta["merges"])
        labels = _split(arrays["final.labels"], arrays["final.size"])
        rows = zip(arrays["final.head"].tolist(), labels, strict=True)
        self.final.extend(FinalLabels(head[0], head[1], part) for head, part in rows)
        names, sizes = meta["track_values"], arrays["tracks.size"]
        values = [_split(arrays[f"tracks.values.{name}"], sizes) for name in names]
        ids, mass = (_split(arrays[f"tracks.{name}"], sizes) for name in ("ids", "mass"))
        times = zip(arrays["tracks.epoch"].tolist(), arrays["tracks.time"].tolist(), strict=True)
        for i, (epoch, time) in enumerate(times):
            found = {name: part[i] for name, part in zip(names, values, strict=True)}
            summary = Summary(found, meta["track_words"][i])
            self.trajectories.append(Trajectory(epoch, time, ids[i], mass[i], summary))
        return self


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


def _check(arrays: Mapping[str, rec.Array], meta: Mapping[str, Any], n_features: int) -> None:
    """Check the output of `StreamState.to_state` without the engine: CheckpointError."""
    words = meta["words"]
    for part, group in {"sizes": _Sizes, "times": _Times}.items():
        rec.check(group, arrays, {}, f"{part}.")
    rec.check(_Final, arrays, {"L": arrays["final.labels"].size}, "final.")
    known = rec.check(_Tracks, arrays, {"T": arrays["tracks.ids"].size}, "tracks.")
    for name, total in (("final.size", len(arrays["final.labels"])), ("tracks.size", known["T"])):
        rec.refuse_if(int(arrays[name].sum()) != total, name)
    estimates, said = meta["track_values"], meta["track_words"]
    several = isinstance(estimates, list) and len({*estimates}) == len(estimates)
    rec.refuse_if(not several, "track_values")
    for name in estimates:
        at = f"tracks.values.{name}"
        shape = known["T"], n_features
        rec.check_one(at, rec.stored_array(at, arrays), shape, np.float64, rec.ANY)
    rec.refuse_if(known["N"] > 0 and bool(estimates) == (words is not None), "track_values")
    sizes = [0] * known["N"] if words is None else arrays["tracks.size"].tolist()
    plain = isinstance(said, list) and all(isinstance(part, list) for part in said)
    rec.refuse_if(not plain or [len(part) for part in said] != sizes, "track_words")
    rec.refuse_if(not all(isinstance(text, str) for part in said for text in part), "track_words")
    numbers = meta["numbers"]
    check_whole([numbers[name] for name in _NUMBERS[2:]], "numbers")
    rec.refuse_if(not all(type(numbers[name]) is float for name in _NUMBERS[:2]), "numbers")
    check_whole([n for merge in meta["merges"] for n in merge], "merges")
    if words is not None:
        rec.refuse_if(not isinstance(words, list), "words")
        rec.refuse_if(not {*map(type, words)} <= {str, int}, "words")


def _split(array: Any, sizes: IntArray) -> list[Any]:
    ends = np.cumsum(sizes).tolist()
    return [array[a:b] for a, b in zip([0, *ends], ends, strict=False)]
