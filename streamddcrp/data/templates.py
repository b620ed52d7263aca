"""Find templates of machine messages while reading them."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import entry_point
from streamddcrp.data.kernels.templates import (
    N_TEMPLATES,
    NEXT_NUMBER,
    NONE,
    VARIABLE,
    find_templates,
)
from streamddcrp.data.texts import Texts
from streamddcrp.data.words import BETWEEN, joined
from streamddcrp.records import MOST, Within, check_one, empty, index, refuse_if
from streamddcrp.typing import IntArray

Bytes = NDArray[np.uint8]

_COVERED = 2  # newest templates that go with one
_FIRST, _MOST = 64, 1 << 14  # initial and maximal capacity
_TOKEN = re.compile(r"""[^\x00-\x20=,;()\[\]"']+""")
_WORDS = "abcdef"  # of a template: a single one would be weak evidence for a new story
_NUMBER = re.compile(r"#(\d+)[a-z]")


class Known(NamedTuple):
    """Templates T, chained by key, in a hash table of H places."""

    number: Annotated[IntArray, "T"]
    length: Annotated[IntArray, "T"]  # tokens
    token: Annotated[IntArray, "T 62"]  # their hashes, 0: variable
    hash: Annotated[IntArray, "T"]  # of the first token
    last: Annotated[IntArray, "T"]  # its newest line
    cover: Annotated[IntArray, "T"]  # number of the one that covers it, from 1 on
    shown: Annotated[Bytes, "T 256"]  # the beginning of its first line
    shown_length: Annotated[IntArray, "T", Within(0, 256)]
    follow: Annotated[IntArray, "T", -1, index("T", none=True)]  # the next one with the same key
    key: Annotated[IntArray, "H"]
    head: Annotated[IntArray, "H", -1, index("T", none=True)]
    read: Annotated[IntArray, "62"]  # work space
    differs: Annotated[IntArray, "T"]


_STORED = ("number", "length", "token", "hash", "last", "cover", "shown", "shown_length")


def spelled_out(numbers: IntArray) -> Texts:
    """Return for each line a document of the words of its templates."""
    known = {i: joined([f"#{i}{c}" for c in _WORDS]) for i in set(numbers.ravel().tolist())}
    known[NONE] = b""
    words = [known[i] for i in numbers[:, 0].tolist()]
    row, at = np.nonzero(numbers[:, 1:] != NONE)
    for i, number in zip(row.tolist(), numbers[row, at + 1].tolist(), strict=True):
        words[i] += BETWEEN + known[number]
    ends = np.cumsum([0, *map(len, words)])
    return Texts(np.frombuffer(b"".join(words), np.uint8), ends, listed=True)


class Templates:
    """The templates of a stream's lines, at most the 16,384 last used."""

    def __init__(self, room: int = _FIRST) -> None:
        self._known: Known = empty(Known, {"T": room, "H": 4 * room})
        self._counts = np.zeros(3, np.int64)

    @property
    def next_number(self) -> int:
        """Number of templates so far."""
        return int(self._counts[NEXT_NUMBER])

    def numbers(self, texts: Texts, *, learn: bool = True) -> IntArray:
        """Return each line's template number, and some that it covers, (N, 3); `NONE`: none."""
        n = len(texts.offsets) - 1
        out, done = np.empty((n, 1 + _COVERED), np.int64), 0
        while True:
            done = entry_point(find_templates)(
                self._known, self._counts, texts.data, texts.offsets, learn, done, out
            )
            if done == n:
                break
            self._make_room()
        return out

    def _make_room(self) -> None:
        """Double the capacity, or forget the least recently used half."""
        n = int(self._counts[N_TEMPLATES])
        kept = np.arange(n)
        if n >= _MOST:
            kept = np.sort(np.argsort(self._known.last[:n], kind="stable")[n // 2 :])
        self._fill({name: getattr(self._known, name)[kept] for name in _STORED})

    def _fill(self, stored: Mapping[str, Any]) -> None:
        n, room = len(stored["number"]), _FIRST
        while room <= n:
            room *= 2
        known = self._known = empty(Known, {"T": room, "H": 4 * room})
        mask = len(known.key) - 1
        for name in _STORED:
            getattr(known, name)[:n] = stored[name]
        for t, key in enumerate(known.hash[:n].tolist()):
            at = key >> 7 & mask
            while known.key[at] not in (0, key):
                at = at + 1 & mask
            known.follow[t] = known.head[at] if known.key[at] else -1
            known.key[at], known.head[at] = key, t
        self._counts[N_TEMPLATES] = n

    def spelled(self, words: str) -> str:
        """Return the templates for words, the widest ones; other words are returned unchanged."""
        numbers = dict.fromkeys(int(found) for found in _NUMBER.findall(words))
        narrow = self._known.number[np.isin(self._known.cover - 1, list(numbers))]
        return " ".join(self._spelled(i) for i in numbers if i not in narrow) or words

    def line(self, words: str) -> str:
        """Return the beginning of the first line of the words' template, or ""."""
        found = _NUMBER.search(words)
        t = self._place(int(found[1])) if found else -1
        return "" if t < 0 else self._shown(t)

    def _place(self, number: int) -> int:
        at = np.flatnonzero(self._known.number[: self._counts[N_TEMPLATES]] == number)
        return int(at[0]) if len(at) else -1

    def _shown(self, t: int) -> str:
        known = self._known
        return bytes(known.shown[t, : known.shown_length[t]]).decode(errors="ignore")

    def _spelled(self, number: int) -> str:
        t = self._place(number)
        if t < 0:
            return f"#{number}"
        fixed = iter((self._known.token[t] != VARIABLE).tolist())
        return _TOKEN.sub(lambda found: found[0] if next(fixed, True) else "<*>", self._shown(t))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(int(part.nbytes) for part in self._known)

    def state(self) -> dict[str, Any]:
        """Return arrays for a checkpoint."""
        n = self._counts[N_TEMPLATES]
        arrays = {f"templates.{name}": getattr(self._known, name)[:n].copy() for name in _STORED}
        return arrays | {"templates.counts": self._counts.copy()}

    @classmethod
    def restore(cls, arrays: Mapping[str, Any]) -> Self:
        """Rebuild from `state`."""
        self = cls()
        n = len(arrays["templates.number"])
        refuse_if(n > _MOST, "templates")
        for name in _STORED:
            own = getattr(self._known, name)
            least = Within(0, 256) if name.startswith("shown_") else Within(0, MOST)
            check_one(
                f"templates.{name}",
                arrays[f"templates.{name}"],
                (n, *own.shape[1:]),
                own.dtype,
                least,
            )
        counts = arrays["templates.counts"]
        check_one("templates.counts", counts, (3,), np.int64, Within(0, MOST))
        refuse_if(
            counts[N_TEMPLATES] != n or len(set(arrays["templates.number"].tolist())) != n, "n"
        )
        refuse_if(n > 0 and int(arrays["templates.number"].max()) >= counts[NEXT_NUMBER], "numbers")
        self._counts[:] = counts
        self._fill({name: arrays[f"templates.{name}"] for name in _STORED})
        return self
