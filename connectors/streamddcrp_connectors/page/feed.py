"""What happened to a stream lately: events of its tables, and alarms."""

from collections import deque
from typing import Any

MOST = 300
BACK = 12  # entries in which a repeated one is looked for


class Feed:
    """The last ``most`` events, repeated ones counted instead of repeated.

    Examples
    --------
    >>> feed = Feed()
    >>> for t in (1.0, 2.0):
    ...     feed.add("return", 4, t)
    >>> [(entry["id"], entry["kind"], entry["n"]) for entry in feed.since(0)]
    [(2, 'return', 2)]
    """

    def __init__(self, most: int = MOST) -> None:
        self.last_id = 0
        self._entries: deque[dict[str, Any]] = deque(maxlen=most)

    def add(
        self, kind: str, label: int, t: float, into: int | None = None, why: str | None = None,
        between: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        """Note an event at a time, with its reasons in words, and when it probably was."""
        self.last_id += 1
        n = 1
        for back in range(min(BACK, len(self._entries))):
            entry = self._entries[-1 - back]
            if (entry["kind"], entry["label"], entry["into"]) == (kind, label, into):
                n = entry["n"] + 1
                del self._entries[-1 - back]
                break
        entry = {"id": self.last_id, "kind": kind, "label": label, "t": t, "into": into, "n": n}
        self._entries.append(entry | {"why": why, "between": between})

    def since(self, last_id: int) -> list[dict[str, Any]]:
        return [entry for entry in self._entries if entry["id"] > last_id]

    def state(self) -> dict[str, Any]:
        return {"last_id": self.last_id, "entries": list(self._entries)}

    def restore(self, state: dict[str, Any]) -> None:
        self.last_id = state["last_id"]
        self._entries.extend(state["entries"])
