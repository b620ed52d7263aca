"""Short texts as a stream: which story each belongs to."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.contract import LABEL, P_NEW, SCORE, Part
from streamddcrp.data import as_time, check_clocked, check_times
from streamddcrp.data.batches import batch_times
from streamddcrp.data.languages import check_languages, is_due, known_lists, until_look
from streamddcrp.data.templates import Templates, spelled_out
from streamddcrp.data.texts import Texts, read_text, read_texts
from streamddcrp.data.words import WordTable
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.as_if_next import AsIfNext
from streamddcrp.estimator.interrupts import pause
from streamddcrp.estimator.reasons import Explanation, explanation
from streamddcrp.estimator.stored import Stored, from_json, refuse_unless_plain, to_json
from streamddcrp.estimator.views import Backlog, FinalLabels
from streamddcrp.models.text import engine, views
from streamddcrp.models.text.config import engine_config, words_left_out
from streamddcrp.models.text.events import StoryEvent
from streamddcrp.models.text.kernels.layout import N_SEEN, SURPRISE
from streamddcrp.models.text.languages import look
from streamddcrp.models.text.lines import LOOKS, Lines
from streamddcrp.models.text.story_line import StoryLine
from streamddcrp.models.text.views import PIECE, StoryModel
from streamddcrp.records import nbytes_of, refuse_if
from streamddcrp.typing import FloatArray, IntArray


class TextStream(StoryModel, AsIfNext, Stored, base.Clusterer):
    """Stories in a stream of short texts: headlines, messages, tickets.

    A sequential distance-dependent CRP whose tables are stories with Pitman-Yor language models. A
    text is assigned on arrival, compiled code reading its words from the bytes; it is visited again
    three times while others come, and after ``lag`` of them its label is final. Stories that turn
    out to be one are merged, a story that turns out to be two is split; stories that get no more
    texts are forgotten, their words too, so that memory does not grow with the stream. No number of
    stories is given, nothing is trained.

    Parameters
    ----------
    scale : {"auto", "story", "event", "topic", "template"}, default "auto"
        How broad a story is. "story", "event" and "topic" set ``alpha`` to 0.06, 0.15 and 0.01 of
        the number of texts that come in the time ``decay``. "topic" is for the broad classes of a
        newspaper: a rare word that texts share counts less, the longer they are, and where they
        have 40 words or more on average, stories are merged and split by their distance from all
        texts. "template" is for messages of machines: lines that differ in variable parts only,
        such as "connection from <*> closed", form one story. "auto": "template" if the first 1,024
        texts are such lines, else "story".
    decay : float, str, tuple or None, default 500.0
        The number of texts in which the weight of a text falls to 1/e; or a time, such as "1d",
        "6h", "30min" or ``("time", 3600.0)``, in seconds for time stamps; or None: learned, see
        `decay_scale`.
    lag : int, default 500
        Number of texts after which a label is final.
    stop_words : str, tuple of str or None, default "english"
        Words that are left out: some seventy English ones, those of another language by its name
        ("german"; the extra ``words``), the ones given, or none. "auto": the English ones, and
        those of the languages that the texts turn out to be in, see `languages`.
    keep : tuple of str, optional
        Parts of raw texts to read as words instead of leaving them out: "links" (https://…,
        t.co/…), "retweets" ("RT @name:"), "tickers" ($IBM, <IBM.N>). Otherwise the first ticker of
        a text is the word "$", and any other "$$".
    births : int, default 3
        Number of texts from which the birth of a story is reported.

    Other Parameters
    ----------------
    alpha : float, optional
        Weight of a new story against texts that arrive now; larger, more stories. Default: by
        ``scale``.

    Notes
    -----
    Words that many texts have and that say nothing about the rest of them are set aside. About
    100,000 headlines or tweets a second on one core, in some MB of memory. A document is a text, a
    list of words, or a dict of counts of words; a word counts once a document. A text without words
    gets the label -1 and the score 0; so does pure boilerplate, but with a score of its own. The
    first 65,536 different words of a document count, and the first 64 bytes of a word. There are no
    random numbers. The algorithm is described in `streamddcrp.models.text`.

    Examples
    --------
    >>> from streamddcrp import TextStream
    >>> about = ["oil prices rise as OPEC meets", "home team wins the cup final"]
    >>> model = TextStream(lag=50, scale="story")
    >>> out = model.step_many([f"{about[i % 2]} no {i % 9}" for i in range(100)])
    >>> out["final_label"].to_pylist()[-4:]
    [0, 1, 0, 1]
    >>> model.predict_one("prices of oil"), model.score_one("oil") < model.score_one("zebra")
    (0, True)
    >>> model.summary().select(["id", "rows"]).to_pylist()
    [{'id': 0, 'rows': 50}, {'id': 1, 'rows': 50}]
    """

    def __init__(
        self,
        *,
        scale: str = "auto",
        decay: float | str | tuple[str, float] | None = 500.0,
        lag: int = 500,
        stop_words: str | Sequence[str] | None = "english",
        keep: Sequence[str] | None = None,
        births: int = 3,
        alpha: float | None = None,
    ) -> None:
        self.alpha = alpha
        self.decay = decay
        self.lag = lag
        self.stop_words = stop_words
        self.keep = keep
        self.scale = scale
        self.births = births
        self._config = engine_config(alpha, decay, lag, scale=scale, births=births)
        self._table = WordTable(words_left_out(stop_words), keep=() if keep is None else keep)
        self._memory = engine.empty_state(self._config)
        self._clocked: bool | None = None  # whether rows come with times
        self._finals = FinalLabels()
        self._line = StoryLine()
        self._events_read = 0
        self._templates = Templates() if scale in ("auto", "template") else None
        self._lines = Lines() if scale == "auto" else None  # while it is not clear what they are
        self._backlog = Backlog()
        self._languages: list[str] | None = None  # found, with stop_words="auto"
        if isinstance(stop_words, str) and stop_words == "auto":
            self._languages = []
            known_lists()  # raises now where they are not installed

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Any, t: Any = None) -> None:
        """Learn one document.

        Parameters
        ----------
        x : str, list of str or mapping
            A text, its words, counts of words, or a row with one column, a text.
        t : number or time stamp, optional
            Its time; without it the arrival index is the time.

        Raises
        ------
        SchemaError
            It is none of these. Nothing was learned.
        OrderError
            ``t`` is before the time of the document before. Nothing was learned.
        """
        self._advance(read_text(x), None if t is None else np.array([as_time(t)]))

    def learn_many(self, batch: object, t: object = None) -> None:
        """Learn a batch of documents; the same, bit for bit, as learning them one by one.

        Parameters
        ----------
        batch : sequence of documents, Arrow array of texts, or table with one column of texts
            Or columns of counts of words, or an array or scipy sparse matrix of them. All texts or
            all words or counts.
        t : array_like of shape (N,), optional

        Raises
        ------
        SchemaError, OrderError
            As for `learn_one`, with the row's number in ``row``. Nothing was learned.
        """
        self._learn_batch(batch, t)

    def _learn_batch(self, batch: object, t: object) -> FloatArray:
        texts = read_texts(batch)
        return self._advance(texts, None if t is None else batch_times(t, len(texts.offsets) - 1))

    def _advance(self, texts: Texts, t: FloatArray | None) -> FloatArray:
        """Check the times, then learn all documents; raises before anything has changed."""
        n = len(texts.offsets) - 1
        return self._steps(texts, self._times(t, n) if n else np.empty(0))

    def _steps(self, texts: Texts, t: FloatArray) -> FloatArray:
        """Learn the documents in pieces that end where stretches of the line of stories end."""
        parts: list[FloatArray] = []
        done = 0
        self._backlog.begin()
        while not parts or done < len(t):
            n = min(len(t) - done, self._line.room, PIECE, until_look(self.n_seen, *engine.THEMES))
            if self._languages is not None:
                n = min(n, until_look(self.n_seen))
            if self._lines is not None:
                n = min(n, until_look(self.n_seen, *LOOKS))
            offsets, times = texts.offsets[done : done + n + 1], t[done : done + n]
            piece, form = self._read(texts._replace(offsets=offsets))
            part = self._followed(times, partial(self._step, piece, times))
            parts.append(part)
            done += n
            known = self._languages if n and is_due(self.n_seen) else None
            if known is not None and look(self._config, self._memory, self._table, known):
                self._step(read_texts([]), np.empty(0))
            if self._lines is not None and n:
                self._look_for_lines(self._lines, form, part[:, SCORE])
            if n and is_due(self.n_seen, *engine.THEMES):
                engine.look_for_themes(self._config, self._memory)
            if done < len(t):
                self._keep_events()
                pause()
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _step(self, texts: Texts, times: FloatArray) -> FloatArray:
        return engine.step(
            self._config, self._memory, self._table, texts.data, texts.offsets, times,
            listed=texts.listed,
        )  # fmt: skip

    def _read(self, texts: Texts, *, learn: bool = True) -> tuple[Texts, IntArray]:
        """Return texts as they are weighed, and of lines the templates."""
        by_template = self._by_template
        if self._templates is None or texts.listed or not (by_template or self._lines):
            return texts, np.empty((0, 1), np.int64)
        form = self._templates.numbers(texts, learn=learn)
        return (spelled_out(form) if by_template else texts), form

    @property
    def _by_template(self) -> bool:
        return self.scale == "template" or (self._lines is not None and self._lines.found)

    def _look_for_lines(self, lines: Lines, form: IntArray, score: FloatArray) -> None:
        """Note what texts cost, and judge by them, if it is time to, whether they are lines."""
        templates, were = self._templates, lines.found
        if templates is None or (len(form) < len(score) and not were):  # words, not texts
            self._lines = self._templates = None
            return
        if not were:
            lines.note(form, score)
        if not is_due(self.n_seen, *LOOKS):
            return
        again = lines.look(self._config, self._memory, self._table, templates)
        self._config = self._config._replace(copies=not lines.found)
        if lines.found and not were:
            self._step(read_texts([]), np.empty(0))
        if not again:
            self._lines, self._templates = None, templates if were else None

    def _times(self, t: FloatArray | None, n: int) -> FloatArray:
        check_clocked(self._clocked, t is not None)
        if t is None:
            if self._config.clocked and self.decay is not None:
                raise SchemaError("t: the decay is a time, so every document needs one")
            times: FloatArray = np.arange(self.n_seen, self.n_seen + n, dtype=np.float64)
        else:
            check_times(t, self._last_time)
            times = np.ascontiguousarray(t)
        if self._clocked is None:
            self._set_clock(clocked=t is not None)
        return times

    def _set_clock(self, *, clocked: bool) -> None:
        """Let rows have times from now on, or not, as the first ones do."""
        self._clocked = clocked
        if clocked and self.decay is None:
            more = {"scale": self.scale, "births": self.births}
            self._config = engine_config(self.alpha, None, self.lag, clocked=True, **more)
            self._memory = engine.empty_state(self._config)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Any, t: Any = None) -> int:
        """Return the id of its most probable story: the next id for a new one, -1 for none."""
        return int(self._predict(x, t)[0][LABEL])

    def predict_proba_one(self, x: Any, t: Any = None) -> dict[int, float]:
        """Return the probability of each live story, and under -1 that of a new one."""
        out, probs = self._predict(x, t)
        return probs | {-1: float(out[P_NEW])}

    def score_one(self, x: Any, t: Any = None) -> float:
        """Return -log predictive density (nats): high is surprising."""
        return float(self._predict(x, t)[0][SCORE])

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        """Say what each word of a text adds to its surprise; changes nothing.

        A word adds score(text) - score(text without it): little where the story, or texts in
        general, would have it, and much where neither does.

        Returns
        -------
        Explanation
            A part a word, of value 1; with ``scale="template"`` the template is the only one. One
            prediction a word.
        """
        words = self._words_of(x)
        score, parts = self.score_one(words, t), []
        if self._by_template and words:
            name = self._said(words[0])
            name = "a new template" if name == words[0] else name
            parts.append(Part(name, 1.0, surprise=score, excess=score))
        for word in () if self._by_template else words:
            surprise = score - self.score_one([other for other in words if other != word], t)
            parts.append(Part(word, 1.0, surprise=surprise, excess=surprise))
        label = self.predict_one(words, t)
        return explanation(parts, score, score, label if label >= 0 else None)

    def _one_by_one(self, batch: object) -> list[Any]:
        texts = read_texts(batch)
        ends = zip(texts.offsets[:-1].tolist(), texts.offsets[1:].tolist(), strict=True)
        rows = [texts.data[a:z].tobytes() for a, z in ends]
        if texts.listed:
            lists = [row.split(b"\xff") for row in rows]
            return [[word.decode(errors="replace") for word in row] for row in lists]
        return [row.decode(errors="replace") for row in rows]

    def _words_of(self, x: Any) -> list[str]:
        """Return the words of a document that count, each once, in their order."""
        text, _ = self._read(read_text(x), learn=False)
        if len(self._table.arrays.piece_keys):  # words of scripts without spaces are learned
            table = deepcopy(self._table)
        else:
            table = WordTable(words_left_out(self.stop_words), keep=self.keep or ())
        words, _ = table.read(text.data, text.offsets, listed=text.listed)
        return list(dict.fromkeys(table.decode(words)))

    def _predict(self, x: Any, t: Any) -> tuple[FloatArray, dict[int, float]]:
        """Predict a document. Changes nothing."""
        (text, _), state = self._read(read_text(x), learn=False), self._memory
        time = float(self.n_seen)
        if t is not None:
            check_clocked(self._clocked, now=True)
            time = as_time(t)
            check_times(np.array([time]), self._last_time)
        elif self._clocked:
            time = self._last_time or 0.0
        out, probs = engine.predict(
            self._config, state, self._table, text.data, time, listed=text.listed
        )
        ids = state.tables.id[state.tables.live[: len(probs)]]
        return out, dict(zip(ids.tolist(), probs.tolist(), strict=True))

    # -- looking at the model --------------------------------------------------------------------

    @property
    def _last_time(self) -> float | None:
        seen = self.n_seen
        times = self._memory.window.t
        return float(times[(seen - 1) % len(times)]) if seen and self._clocked else None

    @property
    def n_seen(self) -> int:
        """Number of documents learned."""
        return int(self._memory.counts[N_SEEN])

    @property
    def decay_scale(self) -> float:
        """Scale of the decay, in texts; in time if it is a time, or learned from texts with times.

        Of one that is learned, that with the same median distance between a text and the one that
        it follows; NaN as long as times do not show how fast texts come.
        """
        return views.decay_scale(self._config, self._memory)

    @property
    def n_words(self) -> int:
        """Number of words in memory."""
        return len(self._table)

    @property
    def languages(self) -> list[str]:
        """Languages other than English that the texts were found to be in, the first one first.

        Only with ``stop_words="auto"``; their stop words are left out.
        """
        return list(self._languages or [])

    @property
    def boilerplate(self) -> dict[str, float]:
        """Words that are set aside now, and their part of all words.

        They are in at least one of twenty recent texts and say nothing about the rest of them.
        """
        aside = self._memory.words.aside
        return {self._table[w]: float(aside[w]) for w in np.flatnonzero(aside).tolist()}

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory, as `Keyed` counts them."""
        words = self._table.arrays
        own = sum(int(part.nbytes) for part in words) - words.characters.nbytes  # common to all
        more = 0 if self._templates is None else self._templates.nbytes
        return nbytes_of(self._memory) + own + self._finals.nbytes + more

    @property
    def log_score(self) -> float:
        """Sum of the log predictive densities of everything learned so far."""
        return -float(self._memory.sums[SURPRISE])

    objective = log_score

    def summary(self) -> pa.Table:
        """Return one row per live story, those with most weight now first.

        ``id``, ``weight`` (decayed weight of its documents, one that arrives now weighs 1),
        ``rows`` (their number), ``copies`` (of these, those with the words, or most, of one of the
        last four lags; a text and its copies count once as evidence), ``born`` and ``last_seen``
        (arrival indices of the first and the last one; with times ``born_t`` and ``last_t``, too),
        ``rate`` (its documents per unit of time now, null where the last documents came at one
        moment; without times its part of all), ``words`` that set it apart, and ``examples``: up to
        three texts among those with final labels whose words most other texts of the story have (by
        the cosine), at most 256 bytes of each. ``theme``: see `themes`, null where not known yet.
        """
        table = views.stories(self._memory, self._table, clocked=bool(self._clocked))
        words, shown = table["words"].to_pylist(), table["examples"].to_pylist()
        said = pa.array([self._said(word) for word in words], pa.string())
        table = table.set_column(table.schema.get_field_index("words"), "words", said)
        if self._templates is None:
            return table
        found = [self._templates.line(said) for said in words]
        lines = [[line] if line else own for line, own in zip(found, shown, strict=True)]
        return table.set_column(table.schema.get_field_index("examples"), "examples",
                                pa.array(lines, pa.list_(pa.string())))  # fmt: skip

    def themes(self) -> pa.Table:
        """Return one row per theme of live stories, the one with most texts first.

        A theme is a cluster of stories by the words that they have, each once a story. Stories are
        assigned again after 32, 64, 128, .. and then every 1,024 texts. When themes merge, the
        older id stays.

        Returns
        -------
        pyarrow.Table
            ``id``, as the column ``theme`` has it, ``rows`` (texts of its live stories), ``weight``
            (their decayed weight), ``stories`` (their ids, the largest first) and ``words``.
        """
        table = views.themes(self._memory, self._table)
        said = pa.array([self._said(words) for words in table["words"].to_pylist()], pa.string())
        return table.set_column(table.schema.get_field_index("words"), "words", said)

    def events(self) -> list[StoryEvent]:
        line = (lambda words: None) if self._templates is None else self._templates.line
        return [
            replace(e, words=self._said(e.words), example=line(e.words) or e.example)
            for e in super().events()
        ]

    def _names(self, ids: IntArray) -> list[str]:
        return [self._said(words) for words in views.names(self._memory, self._table, ids)]

    def _said(self, words: str) -> str:
        """Return words as they are shown: templates in place of their numbers."""
        return views.spelled(words if self._templates is None else self._templates.spelled(words))

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        words = self._table.state()
        arrays = engine.arrays_of(self._memory, len(words["word_length"])) | words
        arrays["finals"] = self._finals.last()
        line, story_line = self._line.state()
        meta: dict[str, Any] = {
            "line": story_line,
            "options": {name: to_json(value) for name, value in self._get_params().items()},
            "clocked": self._clocked,
            "events_read": self._events_read,
        }
        if self._languages is not None:
            meta["languages"] = self._languages
        if self._templates is not None:
            arrays |= self._templates.state()
        if self._lines is not None:
            lines, meta["lines"] = self._lines.state()
            arrays |= lines
        return arrays | line, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        refuse_unless_plain(meta, counts=("events_read",), flags=("clocked",), none=("clocked",))
        model = cls(**{name: from_json(value) for name, value in meta["options"].items()})
        if meta["clocked"] is not None:
            model._set_clock(clocked=meta["clocked"])
        model._events_read = meta["events_read"]
        if model._languages is not None:
            model._languages = check_languages(meta["languages"])
        refuse_if(bool(model._languages) != ("word_more_stops" in arrays), "languages")
        model._table = WordTable.restore(arrays, keep=model.keep or ())
        model._memory = engine.state_from_arrays(model._config, arrays)
        words, more = model._memory.words, arrays.get("word_more_stops", np.zeros(0, np.int64))
        refuse_if(bool((words.df[more] > 0).any() or (words.held[more] > 0).any()), "stop words")
        if "templates.counts" in arrays or model.scale == "template":
            model._templates = Templates.restore(arrays)
        else:
            model._templates = None
        model._lines = None
        if "lines" in meta and model.scale == "auto":
            model._lines = Lines.restore(arrays, meta["lines"], model.n_seen)
            model._config = model._config._replace(copies=not model._lines.found)
        model._finals.restore(arrays["finals"])
        model._line = StoryLine.restore(arrays, meta["line"])
        return model
