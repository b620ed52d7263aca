"""What a `Case` is: a model, the streams it takes, and what it can do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from streamddcrp.checkpoint import decode_state
from tests.conformance.streams import Stream, levels

ABILITIES = {
    "events": "events() reports what happened",
    "summary": "summary() has one row per table",
    "river": "it is an estimator of river's: clone()",
    "estimator": "river's check_estimator can be run: all options have defaults",
    "checksum": "a stored state with a damaged byte is refused, whatever the byte",
    "keyed": "Keyed can keep one for each key of a table",
    "foretell": "predicting a row says what step_many says of it",
    "gaps": "a feature may be missing",
    "dated": "predicting a row refuses the times that learning it would",
    "arrivals": "the index of an event is the number of a row",
    "order": "events are in the order of their arrivals, not in that in which they were noticed",
    "change": "a new table is a change of regime: p_new is at most p_change",
}


class Refusal(NamedTuple):
    """Rows that are refused: ``spoil`` makes them of the rows that come next."""

    name: str
    spoil: Callable[[Stream], Stream]
    match: str
    row: int | None = None
    begun: bool = False  # only after rows have been learned


class Flat(NamedTuple):
    """A long stream, cut into ``n`` parts; the state does not grow after ``early`` of them."""

    stream: Callable[[], Stream]
    n: int = 20
    early: int = 10
    growth: float = 2.0  # capacities are powers of two
    most: Callable[[Any], float] = lambda _: 200_000.0  # bytes of the stored state
    times: Sequence[bool] = (False,)
    check: Callable[[Any], bool] = lambda _: True


def step_many(model, stream):
    return model.step_many(stream.rows, **stream.more)


def learn_one(model, x, more):
    model.learn_one(x, **more)


def look_at_tables(model, x, more):
    """Predict a row: what `step_many` says of it, and the probabilities of the tables."""
    probs, label = model.predict_proba_one(x, **more), model.predict_one(x, **more)
    found = {"label": label, "score": model.score_one(x, **more), "probs": probs}
    if found["score"] == 0.0:  # during warm-up
        return found
    best = max(probs.values())
    return found | {"label_prob": best, "p_new": probs[-1], "n_tables": model.n_tables}


def state_of(model):
    """Return the arrays of a stored state by name, as bytes, and its settings."""
    arrays, meta = decode_state(model.to_bytes(), type(model).__name__)
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()} | meta


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, the streams it takes, and what it can do.

    Attributes
    ----------
    make : callable
        Returns a fresh model.
    stream : callable
        Seed to stream, with times if the model takes them.
    times : {"optional", "needed", "none"}
    ordered : bool
        Whether times that fall are refused.
    lacks : set of str
        Of `ABILITIES`.
    step : callable
        (model, stream) to a record batch: predicts and learns rows.
    look : callable
        (model, x, more) to what predicting says, by the names of the columns of ``step``; under
        "probs" probabilities that sum to one.
    inexact : tuple of str
        Columns that predicting gives up to rounding.
    wait : int, optional
        Rows of ``stream(1)`` without a score.
    dropped : tuple of str
        Columns that may depend on the cutting.
    state : callable
        Model to everything that must be equal in equal models, by name.
    forms : callable, optional
        Stream to groups of batches by name; those of a group lead to the same state. None stands
        for the rows of the first, one by one.
    refused : tuple of Refusal
    odd : tuple of (x, pattern)
        Rows that `learn_one` refuses after others.
    methods : tuple of str
        That take a batch.
    flat : Flat, optional
    river : callable, optional
        Number to so many rows of numbers for river's checks, as dicts.
    examples : int, optional
        Of hypothesis, for slow models. Default: those of the profile.
    fails : dict of str to str
        Law to the reason why it does not hold yet.
    """

    name: str
    make: Callable[[], Any]
    stream: Callable[[int], Stream] = levels
    times: str = "optional"
    ordered: bool = True
    lacks: frozenset[str] = frozenset()
    step: Callable[[Any, Stream], Any] = step_many
    learn_one: Callable[[Any, Any, dict], None] = learn_one
    look: Callable[[Any, Any, dict], dict] = look_at_tables
    inexact: tuple[str, ...] = ("label_prob",)
    wait: int | None = 0
    dropped: tuple[str, ...] = ()
    state: Callable[[Any], Mapping[str, Any]] = state_of
    forms: Callable[[Stream], list[dict[str, Any]]] | None = None
    refused: tuple[Refusal, ...] = ()
    odd: tuple[tuple[Any, str], ...] = ()
    methods: tuple[str, ...] = ("learn_many", "step_many")
    flat: Flat | None = None
    river: Callable[[int], Any] | None = None
    examples: int | None = None
    fails: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def kind(self):
        made = getattr(self.make, "func", self.make)
        return made if isinstance(made, type) else type(self.make())

    def can(self, *abilities):
        return not self.lacks & set(abilities)

    def some(self, seed, *, timed=None):
        """Return a stream, without times if they are not needed and not wanted."""
        stream = self.stream(seed)
        wanted = self.times == "needed" if timed is None else timed
        return stream if wanted else stream.untimed

    def learned(self, stream):
        """Return a model that has learned a stream."""
        model = self.make()
        self.step(model, stream)
        return model

    def differences(self, a, b):
        """Return the names of what differs in the states of two models."""
        if self.state is state_of and a.to_bytes() == b.to_bytes():
            return []
        one, other = self.state(a), self.state(b)
        return [k for k in one.keys() | other.keys() if one.get(k, ...) != other.get(k, ...)]
