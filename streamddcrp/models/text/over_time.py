"""What became of stories over time: merges, sizes, a picture."""

from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.models.text.story_line import StoryLine
from streamddcrp.models.text.views import live_labels, merged_into, names
from streamddcrp.typing import IntArray


class StoriesOverTime:
    """Views of a model that keeps a line of stories."""

    _memory: Any
    _table: Any
    _line: StoryLine
    _clocked: bool | None
    _lag: Any
    n_seen: Any
    n_tables: Any

    def merged(self) -> dict[int, int]:
        """Return what became of stories that were merged: id to the id it has now.

        Of the last 8,192 merges.
        """
        return merged_into(self._memory)

    def trajectories(self) -> pa.Table:
        """Return the sizes of stories along the stream, the whole of it, in bounded memory.

        Returns
        -------
        pyarrow.Table
            One row per stretch of the stream and story: ``epoch`` (number of the stretch; there are
            at most 128, of as many documents each), ``begin`` and ``end`` (times), ``id``, ``mass``
            (number of documents) and ``words``. The 40 largest stories of a stretch have rows of
            their own, the others share one, of id -1. Labels are final but those of the last
            ``lag``.
        """
        labels, window = live_labels(self._memory, self._lag), self._memory.window
        rows = np.arange(self.n_seen - len(labels), self.n_seen)
        return self._line.extended(labels, window.t[rows % len(window.t)], self._names).table()

    def plot(self, ax: Any = None, *, stories: int = 30, dates: bool = False) -> Any:
        """Draw the largest stories over time as a stream; return the axes.

        Areas are numbers of documents. The twelve largest have colours and names; triangles mark
        where they were first seen, crosses where last, arrow heads where they became part of
        others.

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
        from streamddcrp.plots.stream import plot_stories  # noqa: PLC0415 -- only for pictures

        tables = self._memory.tables
        live = set(tables.id[tables.live[: self.n_tables]].tolist())
        merged = self.merged()
        scale = "dates" if dates else "time" if self._clocked else "rows"
        return plot_stories(
            self.trajectories(), live, ax, largest=stories, scale=scale, merged=merged
        )

    def _names(self, ids: IntArray) -> list[str]:
        return names(self._memory, self._table, ids)
