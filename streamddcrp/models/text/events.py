"""Events of stories, with what an editor wants to know of each."""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import KINDS, Event
from streamddcrp.estimator.views import Backlog
from streamddcrp.models.text.kernels.events import CANDIDATE, CLOSED
from streamddcrp.records import MOST, PREPARED, Within, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_Bytes = NDArray[np.uint8]
_KINDS = {CANDIDATE: "candidate", CLOSED: "closed"}


class Events(NamedTuple):
    """Rings of the last events, as `streamddcrp.contract.EventRing` and more, and of merges."""

    kind: Annotated[IntArray, "E", Within(0, CLOSED)]
    label: Annotated[IntArray, "E"]
    into: Annotated[IntArray, "E", Within(-1, MOST)]
    arrival: Annotated[IntArray, "E"]
    t: Annotated[FloatArray, "E"]
    size: Annotated[IntArray, "E"]  # documents of the story at that moment
    copies: Annotated[IntArray, "E"]  # of these, copies of others
    rate: Annotated[FloatArray, "E", PREPARED]  # of them, in a unit of time
    first: Annotated[IntArray, "E"]  # indices of the first and the last one
    last: Annotated[IntArray, "E"]
    n_words: Annotated[IntArray, "E", Within(0, 8)]
    word: Annotated[NDArray[np.int32], "E 8"]  # those that set it apart, until they are spelled
    said: Annotated[_Bytes, "E 96"]
    said_length: Annotated[IntArray, "E", Within(0, 96)]
    example: Annotated[_Bytes, "E 160"]  # the beginning of a typical text
    example_length: Annotated[IntArray, "E", Within(0, 160)]
    gain: Annotated[FloatArray, "8"]  # work space
    younger: Annotated[IntArray, "E"]  # of merges
    older: Annotated[IntArray, "E"]


@dataclass(frozen=True, slots=True)
class StoryEvent(Event):
    """Something that happened to a story.

    Attributes
    ----------
    kind : {"candidate", "birth", "return", "closed", "merge", "split"}
        "candidate": it has two texts, fewer than ``births``; it may dissolve in silence. "birth":
        it has ``births`` texts. "closed": after so long a silence it is over at odds of three
        to one, by the silences of stories so far, see `kernels.silence`; or its last
        text went to another one.
        "merge": it, the younger id, is one with the older ``into`` from now on. "split": it, the
        smaller half, was part of ``into``; final labels of before stay as they were. "return": it
        goes on though it was closed, ``into`` itself; or at odds of twenty to one it is ``into``,
        one of the last 512 that were forgotten. Of vectors there are no merges and splits.
    label, index, t, into, key
        As of `streamddcrp.contract.Event`; ``index`` and ``t`` are of the newest text, so that
        events come in the order of time.
    size, copies : int
        Number of its texts at that moment, and of these the copies of others.
    rate : float
        Texts per unit of time at that moment; without times its part of all texts. NaN: unknown.
    first, last : int
        Arrival indices of its first and last text.
    words : str
        Those that set it apart, "" for vectors.
    example : str, optional
        The beginning of a typical text. None for vectors, and where documents are words by number.
    """

    size: int = 0
    copies: int = 0
    rate: float = float("nan")
    first: int = -1
    last: int = -1
    words: str = ""
    example: str | None = None


def check_kinds(kind: IntArray) -> None:
    """Refuse stored kinds of events that no story has; raises CheckpointError."""
    refuse_if(not np.isin(kind, [*range(len(KINDS)), *_KINDS]).all(), "events.kind")


def events_since(log: Any, made: int, read: int, backlog: Backlog) -> list[StoryEvent]:
    """Return the events after the first ``read`` of the ``made`` ones."""
    return [_event(of, i) for of, i in backlog.since(log, made, read)]


def _event(log: Any, i: int) -> StoryEvent:
    kind, into = int(log.kind[i]), int(log.into[i])
    words, example, copies = "", None, 0
    if hasattr(log, "said"):
        copies = int(log.copies[i])
        words = bytes(log.said[i, : log.said_length[i]]).decode(errors="ignore")
        if log.example_length[i]:
            example = bytes(log.example[i, : log.example_length[i]]).decode(errors="ignore")
    return StoryEvent(
        _KINDS.get(kind) or KINDS[kind], int(log.label[i]), int(log.arrival[i]),
        float(log.t[i]), into if into >= 0 else None, size=int(log.size[i]), copies=copies,
        rate=float(log.rate[i]), first=int(log.first[i]), last=int(log.last[i]), words=words,
        example=example,
    )  # fmt: skip
