"""Languages looked for in the newest texts of a stream; their stop words left out from then on."""

import logging

import numpy as np

from streamddcrp.compilation import entry_point
from streamddcrp.data.languages import known_lists, recognise
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import Config
from streamddcrp.models.text.engine import State, room_for_events, with_words
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.languages import count_listed, leave_words_out

_log = logging.getLogger(__name__)
_MOST_TEXTS = 512  # that are looked at


def look(config: Config, state: State, table: WordTable, known: list[str]) -> bool:
    """Look for new languages, added to ``known``, and leave their stop words out; return if any.

    Texts may wait to be reassigned; the next step does that.
    """
    lists = known_lists()
    L, n_known = len(lists.names), len(known)
    listed, sizes = np.zeros((_MOST_TEXTS, L), np.int64), np.zeros(_MOST_TEXTS, np.int64)
    while len(known) < L:
        n = entry_point(count_listed)(
            state.words, state.window, state.counts, table.arrays, lists.table.arrays, lists.holds,
            listed, sizes,
        )  # fmt: skip
        old = [lists.names.index(name) for name in known if name in lists.names]
        found = recognise(listed[:n], sizes[:n], old)
        if found < 0:
            break
        known.append(lists.names[found])
        _leave_out(config, state, table, lists.words[found])
        _log.info(
            "%s texts were found: the stop words of their language are left out from text %s on",
            known[-1].capitalize(),
            f"{int(state.counts[layout.N_SEEN]):,}",
        )
    return len(known) > n_known


def _leave_out(config: Config, state: State, table: WordTable, words: tuple[str, ...]) -> None:
    which = table.leave_out(words)
    with_words(state, table.capacity)
    room_for_events(state)
    entry_point(leave_words_out)(
        config, state.words, state.postings, state.tables, state.window, state.archive,
        state.events, state.counts, state.sums, state.scratch, table.arrays, which,
    )  # fmt: skip
