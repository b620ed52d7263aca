"""Themes of stories: looked for after fixed numbers of texts, and what users see of them."""

from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.compilation import entry_point
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import Config
from streamddcrp.models.text.engine import State
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.themes import BETWEEN, find_themes
from streamddcrp.models.text.views import words_of

THEMES = 32, BETWEEN  # texts after which they are looked for: at 32, 64, 128, 256, 512, 768, …


def look_for_themes(config: Config, state: State) -> None:
    """Visit all stories, the oldest first, and put each into the theme that is best for it."""
    live = state.tables.live[: state.counts[layout.N_LIVE]].astype(np.int64)
    entry_point(find_themes)(
        config, state.words, state.postings, state.tables, state.counts, state.sums, state.scratch,
        live[np.argsort(state.tables.id[live])],
    )  # fmt: skip


def themes(state: State, table: WordTable) -> pa.Table:
    """Return one row per theme of live tables, the one with most documents first."""
    tables, live = state.tables, state.tables.live[: state.counts[layout.N_LIVE]]
    rows = tables.size + tables.copies
    group = np.full(len(tables.id), -1)
    group[live] = tables.theme[live]
    live = live[np.lexsort((tables.id[live], -rows[live]))]
    members: dict[int, list[Any]] = {}
    for k in live.tolist():
        members.setdefault(int(group[k]), []).append(k)
    members.pop(-1, None)
    found = sorted(members, key=lambda g: (-rows[members[g]].sum(), tables.theme_id[g]))
    return pa.table(
        {
            "id": tables.theme_id[found],
            "rows": pa.array([rows[members[g]].sum() for g in found], pa.int64()),
            "weight": pa.array(
                [tables.mass[members[g]].sum() / state.sums[layout.GROWTH] for g in found],
                pa.float64(),
            ),
            "stories": pa.array([tables.id[members[g]] for g in found], pa.list_(pa.int64())),
            "words": pa.array(words_of(state, table, group, found), pa.string()),
        }
    )
