"""Whether texts are lines of machines, whose stories are templates: judged from the first texts.

Two ways to write down the words of texts are compared. Stories cost the scores of the engine. Of
templates, text i costs -log((m or 1) / (i + 1)), where m texts before have its template, and its
words that not all of these have, or all words where m = 0, cost what they do by their number so
far. Copies say nothing: only texts without any count, and only those since the last look, for by
then both have learned what words there are. Texts are lines if templates say some words of a
quarter of these, and cost less by 3 nats a text; where nearly all texts are copies, also if they
cost more by that.
"""

import logging
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamddcrp.compilation import entry_point
from streamddcrp.data.kernels.templates import NONE
from streamddcrp.data.templates import Templates, spelled_out
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import SMOOTHING, Config
from streamddcrp.models.text.engine import State, first_sums, grow, room_for_events, with_words
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.languages import exchange_words
from streamddcrp.records import MOST, REAL, Within, check_one, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)
LOOKS = _FIRST, _LAST = 16, 1024  # texts after which they are looked at: at 16, 32, ..., 1,024
_MANY, _FEW = 3 / 4, 1 / 16  # new templates, and new texts, as a part of the texts
_LEAST = 4.0  # new templates that would be many
_MARGIN = 3.0  # nats a text by which templates must be better, or may be worse


class Lines:
    """What is known of the first texts, until it is clear whether they are lines of machines."""

    def __init__(self) -> None:
        self.found = False  # whether they are
        self.form = np.zeros(0, np.int64)  # templates of the texts
        self.score = np.zeros(0)  # and what stories cost
        self.known = 0  # templates at the last look

    def note(self, form: IntArray, score: FloatArray) -> None:
        """Take note of texts."""
        self.form, self.score = np.append(self.form, form[:, 0]), np.append(self.score, score)
        for number, *covered in form[form[:, 1] != NONE].tolist():
            self.form[np.isin(self.form, covered) & (self.form != NONE)] = number

    def look(self, config: Config, state: State, table: WordTable, templates: Templates) -> bool:
        """Judge by the texts since the last look; return whether to look again.

        Where they are found to be lines, the texts whose labels are not final wait to be assigned
        again; the next step does that.
        """
        seen = int(state.counts[layout.N_SEEN])
        n = seen // 2 if _FIRST < seen <= _LAST else min(seen, _LAST)
        new, self.known = templates.next_number - self.known, templates.next_number
        if self.found:
            self.found = new < _MANY * n
            if not self.found:
                _log.info("text %s: words count again, since templates are too many", f"{seen:,}")
            return self.found
        gain, texts, new = self._gain(state, n)
        clear = gain > _MARGIN * texts and new < _MANY * texts >= _LEAST
        window = state.window
        fresh = int((window.copies[np.arange(seen - n, seen) % len(window.table)] == 0).sum())
        self.found = clear or (gain >= -_MARGIN * texts and fresh + 1 < _FEW * (n + 2))
        if self.found:
            _log.info("text %s: texts are lines of machines, weighed by templates", f"{seen:,}")
            self._exchange(config, state, table)
            self.form, self.score = np.zeros(0, np.int64), np.zeros(0)
        return self.found or seen < _LAST

    def _gain(self, state: State, newest: int) -> tuple[float, int, int]:
        """Return what templates gain over stories, in how many texts, and in how many they fail."""
        window, seen = state.window, int(state.counts[layout.N_SEEN])
        size, n = len(window.table), min(len(self.form), len(window.table) - 1)
        at = np.arange(seen - n, seen) % size
        every = window.length[at] + window.aside[at]
        row = np.repeat(np.arange(n), every)
        place = np.repeat(window.start[at] - np.cumsum(every) + every, every) + np.arange(len(row))
        word = window.text[place & (len(window.text) - 1)].astype(np.int64)
        form, score = self.form[-n:], self.score[-n:]
        key = form.astype(np.uint64)
        np.add.at(key, row, (word.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15) >> 8)
        first = np.zeros(n, np.bool_)
        first[np.unique(key, return_index=True)[1]] = True
        first &= every > 0
        rest, word = (np.cumsum(first) - 1)[row[first[row]]], word[first[row]]
        told = (np.flatnonzero(first) >= n - newest) & (window.copies[at[first]] == 0)
        form, score = form[first], score[first]
        before = _rank(form)
        start = np.searchsorted(rest, rest)  # words of the texts before
        V = max(len(np.unique(word)), layout.LEAST_WORDS)
        cost = -np.log((_rank(word) + SMOOTHING) / (start + SMOOTHING * V))
        common = _rank(form[rest] * (word.max(initial=0) + 1) + word) == before[rest]
        common &= before[rest] > 0
        cost[common] = 0.0
        whole = np.bincount(rest, cost, len(form)).astype(np.float64)
        whole -= np.log(np.maximum(before, 1) / (np.arange(len(form)) + 1.0))
        new = np.bincount(rest, common, len(form)) == 0  # no word was known
        return float((score - whole)[told].sum()), int(told.sum()), int(new[told].sum())

    def _exchange(self, config: Config, state: State, table: WordTable) -> None:
        """Give texts whose labels are not final the words of their templates, and lift them."""
        seen = int(state.counts[layout.N_SEEN])
        texts = spelled_out(self.form[max(0, seen - int(config.ages[-1])) - seen :, None])
        words, ends = table.read(texts.data, texts.offsets, listed=True)
        with_words(state, table.capacity)
        room_for_events(state)
        used = state.counts[layout.TEXT_END] - state.counts[layout.TEXT_FIRST]
        while used + len(words) > len(state.window.text):
            state.scratch.short[:] = layout.SHORT_TEXT, 0
            grow(state, config)
        entry_point(exchange_words)(
            config, state.words, state.postings, state.tables, state.window, state.events,
            state.counts, state.sums, state.scratch, table.arrays, words, ends,
        )  # fmt: skip
        b = [layout.CONCENTRATION, layout.B_TABLES, layout.B_TOKENS, layout.ASIDE]
        state.sums[b] = first_sums(config)[b]  # of other words

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values for a checkpoint."""
        arrays = {"lines.form": self.form, "lines.score": self.score}
        return arrays, {"found": self.found, "known": self.known}

    @classmethod
    def restore(cls, arrays: Mapping[str, Any], meta: Mapping[str, Any], seen: int) -> Self:
        """Rebuild from `state`."""
        self = cls()
        n = 0 if meta["found"] else seen
        refuse_if(type(meta["found"]) is not bool or type(meta["known"]) is not int, "lines")
        refuse_if(not 0 <= meta["known"] <= MOST or n >= _LAST, "lines")
        check_one("lines.form", arrays["lines.form"], (n,), np.int64, Within(NONE, MOST))
        check_one("lines.score", arrays["lines.score"], (n,), np.float64, REAL)
        self.found, self.known = meta["found"], meta["known"]
        self.form, self.score = arrays["lines.form"].copy(), arrays["lines.score"].copy()
        return self


def _rank(key: IntArray) -> IntArray:
    """Return how many of the same key come before each."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    out = np.empty(len(key), np.int64)
    out[order] = np.arange(len(key)) - np.searchsorted(ordered, ordered)
    return out
