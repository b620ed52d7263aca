"""What became of the stories of a stream of texts: events, merges, sizes over time, the picture."""

from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import Event
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import Config
from streamddcrp.models.text.kernels.layout import N_EVENTS, N_LIVE, N_SEEN
from streamddcrp.models.text.state import State
from streamddcrp.models.text.stories import events_since, live_labels, names, survivors
from streamddcrp.models.text.story_line import StoryLine
from streamddcrp.typing import IntArray


class StoryViews:
    """The part of `TextStream` that tells the history of stories."""

    _config: Config
    _memory: State
    _table: WordTable
    _line: StoryLine
    _events_read: int

    @property
    def _lag(self) -> int:
        return int(self._config.ages[-1])

    def events(self) -> list[Event]:
        """Return what happened to stories since the last call, at most the last 8,192 events.

        A story is born with the first label of it that is final; the event tells its first document
        as it stands. A death tells the last one. A merge tells the younger id and, in ``into``,
        the older one, which stays; it may be of stories that were provisional. A split tells the id
        of the smaller half, which is new, and in ``into`` the one that the larger half keeps; final
        labels of before stay as they were. A return tells that a story that was born (its new id)
        is, at odds of twenty to one, one of the last 512 that died, whose id is in ``into``.
        """
        read, self._events_read = self._events_read, int(self._memory.counts[N_EVENTS])
        return events_since(self._memory, read)

    def merged(self) -> dict[int, int]:
        """Return what became of stories that were merged: id to the id it has now.

        Of the last 8,192 merges.
        """
        return survivors(self._memory)

    def trajectories(self) -> pa.Table:
        """Return the sizes of stories along the stream, the whole of it, in bounded memory.

        Returns
        -------
        pyarrow.Table
            One row a stretch of the stream and story: ``epoch`` (number of the stretch; there are
            at most 128, of as many documents each), ``begin`` and ``end`` (times), ``id``, ``mass``
            (number of documents) and ``words``. Of a stretch the 40 largest stories are told, the
            others together with the id -1. Labels are final but those of the last ``lag``.
        """
        labels = live_labels(self._memory, self._lag)
        seen = int(self._memory.counts[N_SEEN])
        rows = np.arange(seen - len(labels), seen)
        times = self._memory.window.t[rows % len(self._memory.window.t)]
        return self._line.extended(labels, times, self._names).table()

    def plot(self, ax: Any = None, *, stories: int = 30, dates: bool = False) -> Any:
        """Draw the largest stories over time as a stream; return the axes.

        Areas are numbers of documents. Triangles mark births, crosses deaths, arrow heads merges
        into older stories.

        Parameters
        ----------
        ax : matplotlib axes, optional
        stories : int
            How many; the others are left out.
        dates : bool
            Whether times are time stamps (seconds since 1970).

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        from streamddcrp.plots.stream_graph import plot_stories  # noqa: PLC0415 -- only for pictures

        tables, n = self._memory.tables, int(self._memory.counts[N_LIVE])
        live = set(tables.id[tables.live[:n]].tolist())
        tracks, merged = self.trajectories(), self.merged()
        return plot_stories(tracks, live, ax, largest=stories, dates=dates, merged=merged)

    def _names(self, ids: IntArray) -> list[str]:
        return names(self._memory, self._table, ids)
