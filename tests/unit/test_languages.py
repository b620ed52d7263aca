"""Languages recognised by their stop words, which are then left out."""

import logging
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamddcrp import TextStream, errors
from streamddcrp.data import languages
from streamddcrp.data.languages import is_due, recognise, stop_words_of, until_look
from streamddcrp.data.words import ENGLISH, WordTable
from streamddcrp.errors import CheckpointError, ConfigError, MissingExtraError

TEXTS = {
    "german": [
        "Die Regierung will den Haushalt noch vor dem Sommer beschließen",
        "Nach dem Sturm sind viele Straßen in der Region gesperrt",
        "Wie die Stadt mit dem neuen Museum wachsen soll",
        "Der Zug nach Hamburg fährt heute nicht",
        "Er hat das Spiel kurz vor der Pause entschieden",
        "Eine Reise durch die Alpen und was sie kostet",
        "Warum die Preise für Strom wieder steigen",
        "Das Gericht hat über die Klage der Nachbarn entschieden",
    ],
    "french": [
        "Le gouvernement veut voter le budget avant la fin de l'été",
        "Après la tempête, des routes sont fermées dans la région",
        "La ville va construire un musée pour les enfants",
        "Il n'y a pas de train pour Lyon aujourd'hui",
        "Les joueurs ont gagné le match avec deux buts",
        "Un voyage dans les Alpes et ce que cela coûte",
        "Pourquoi le prix du pain ne baisse pas",
        "Le tribunal a rendu son jugement sur la plainte des voisins",
    ],
    "spanish": [
        "El gobierno quiere aprobar el presupuesto antes del verano",
        "Después de la tormenta hay carreteras cortadas en la región",
        "La ciudad va a construir un museo para los niños",
        "Hoy no sale el tren que va a Sevilla",
        "Los jugadores ganaron el partido con dos goles",
        "Un viaje por los Alpes y lo que cuesta",
        "Por qué el precio de la luz no baja",
        "El tribunal dictó sentencia sobre la demanda de los vecinos",
    ],
}
TEXT = [
    "The government wants to pass the budget before the summer",
    "After the storm many roads in the region are closed",
    "The city is going to build a museum for children",
    "There is no train to Leeds today",
    "He decided the game just before the break",
    "A journey over the Alps and what it costs",
    "Why the price of power does not come down",
    "The court has ruled on the case of the neighbours",
]


@pytest.fixture(autouse=True)
def _lists():
    pytest.importorskip("stop_words")


def mixed(n, seed, *kinds):
    """Texts of several languages in no order, of half their words: no copies of each other."""
    rng = np.random.default_rng(seed)
    texts = [text.split() for kind in kinds for text in (TEXTS[kind] if kind else TEXT)]
    return [" ".join([*(w for w in texts[i] if rng.random() < 0.5), f"x{j}"])
            for j, i in enumerate(rng.integers(0, len(texts), n).tolist())]  # fmt: skip


def test_stop_words_of_a_language():
    assert "aber" in WordTable(stop_words_of("german")).stop_words
    with pytest.raises(ConfigError, match="stop_words must be one of"):
        stop_words_of("klingon")


def test_looks_are_at_powers_of_two_and_then_evenly_spaced():
    due = [n for n in range(40_000) if is_due(n)]
    assert due == [*(1 << np.arange(3, 13)), 8192, 16384, 24576, 32768]
    assert all(is_due(n + until_look(n)) for n in range(20_000))
    assert all(until_look(n) == min(d for d in due if d > n) - n for n in range(0, 20_000, 7))


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_recognised(language, caplog):
    model = TextStream(stop_words="auto", scale="story")
    with caplog.at_level(logging.INFO, logger="streamddcrp"):
        model.learn_many(mixed(40, 1, language))
    assert model.languages == [language]
    (said,) = [r.getMessage() for r in caplog.records if "found" in r.getMessage()]
    assert said.startswith(f"{language.capitalize()} texts were found: the stop words of")
    left_out = set(WordTable((*stop_words_of(language), *ENGLISH)).stop_words)
    assert set(model._table.stop_words) == left_out
    assert not left_out & set(" ".join(model.summary()["words"].to_pylist()).split())


def test_english_is_not_taken_for_another_language():
    model = TextStream(stop_words="auto")
    model.learn_many(mixed(2_500, 2, None))
    other = TextStream()
    other.learn_many(mixed(2_500, 2, None))
    assert model.languages == other.languages == []
    assert model.log_score == other.log_score
    assert model.final_labels() == other.final_labels()


def test_several_languages_are_found():
    model = TextStream(stop_words="auto", scale="story")
    model.learn_many(
        [*mixed(60, 3, None), *mixed(500, 3, None, "french"), *mixed(800, 3, "german")]
    )
    assert model.languages == ["french", "german"]


def test_quotations_are_no_language():
    """One text in thirty is in French."""
    rows = mixed(2_100, 4, None)
    rows[::30] = mixed(len(rows[::30]), 4, "french")
    model = TextStream(stop_words="auto")
    model.learn_many(rows)
    assert model.languages == []


def test_after_recognition_texts_are_read_as_by_the_name_of_the_language():
    rows = mixed(300, 5, "german")
    model = TextStream(stop_words="auto", lag=50)
    model.learn_many(rows)
    named = TextStream(stop_words=(*ENGLISH, *stop_words_of("german")), lag=50)
    named.learn_many(rows)
    assert model.n_words == named.n_words
    assert sorted(model._table.stop_words) == sorted(named._table.stop_words)
    scores = [m.score_one("Der Zug nach Hamburg fährt nicht") for m in (model, named)]
    assert scores[0] == pytest.approx(scores[1], rel=0.2)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 99), lag=st.sampled_from([2, 30, 500]), cuts=st.lists(st.integers(0, 600)),
    decay=st.sampled_from([20.0, 500.0, None]),
)  # fmt: skip
def test_cuts_and_restarts_change_nothing(seed, lag, cuts, decay):
    rows = [*mixed(50, seed, None), *mixed(250, seed, "german", None), *mixed(300, seed, "spanish")]
    options = {"lag": lag, "decay": decay, "stop_words": "auto"}
    whole, model = TextStream(**options), TextStream(**options)
    expected = whole.step_many(rows)
    ends = sorted({0, *cuts, len(rows)})
    parts = []
    for a, b in pairwise(ends):
        parts += model.step_many(rows[a:b]).to_pylist()
        model = TextStream.from_bytes(model.to_bytes())
    assert str(parts) == str(expected.to_pylist())
    assert model.languages == whole.languages
    assert model.to_bytes() == TextStream.from_bytes(whole.to_bytes()).to_bytes()


def test_words_that_are_left_out_leave_no_trace():
    """Of texts, tables, archived tables and boilerplate; `from_bytes` checks what is left."""
    rng = np.random.default_rng(6)
    stories = [[f"{i}w{j}" for j in range(10)] for i in range(50)]
    rows = [" ".join(rng.permutation(stories[i // 100 + rng.integers(5)])[:6]) for i in range(1000)]
    rows += mixed(3_200, 6, "german")
    rows = [f"{row} die" for row in rows]  # boilerplate, and later a stop word
    model = TextStream(stop_words="auto", lag=40, decay=30.0, births=1)
    model.learn_many(rows[:1_000])
    assert "die" in model.boilerplate
    assert model._memory.archive.n.any()
    model.learn_many(rows[1_000:])
    assert model.languages == ["german"]
    assert "die" not in model.boilerplate
    left_out, words = set(stop_words_of("german")), model._memory.words
    names = model._table.decode(np.arange(len(words.df)))
    gone = np.flatnonzero([name in left_out for name in names])
    assert len(gone) > 200
    for part in (words.df, words.held, words.aside):
        assert not part[gone].any()
    again = TextStream.from_bytes(model.to_bytes())
    assert again.step_many(rows[:50]) == model.step_many(rows[:50])


def test_evidence_is_bounded_by_quotations():
    listed = np.zeros((400, 2), np.int64)
    listed[:36, 0] = 60  # all words of fewer than one text in ten
    assert recognise(listed, np.full(400, 60), []) == -1
    listed[:100, 0] = 60
    assert recognise(listed, np.full(400, 60), []) == 0
    assert recognise(listed, np.full(400, 60), [0]) == -1
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        assert recognise(listed * 90, np.full(400, 5_400), []) == 0


def test_languages_that_look_alike_wait_for_a_margin():
    listed = np.full((200, 3), 2)
    assert recognise(listed, np.full(200, 7), []) == -1
    assert recognise(np.full((300, 3), 2), np.full(300, 7), []) == 0


def test_without_the_package_it_says_what_is_missing(monkeypatch):
    def absent(name):
        raise ImportError(name)

    languages.known_lists.cache_clear()
    monkeypatch.setattr(errors, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"streamddcrp\[words\]"):
        TextStream(stop_words="auto")
    with pytest.raises(MissingExtraError, match="german"):
        TextStream(stop_words="german")


@pytest.mark.parametrize("names", ["german", [3], ["german", "german"], [], None])
def test_states_with_other_languages_are_refused(names):
    model = TextStream(stop_words="auto")
    model.learn_many(mixed(40, 1, "german"))
    arrays, meta = model._state()
    with pytest.raises((CheckpointError, ConfigError), match="languages"):
        TextStream._from_state(arrays, meta | {"languages": names})
    english = TextStream(stop_words="auto")._state()
    with pytest.raises(CheckpointError, match="languages"):
        TextStream._from_state(english[0], english[1] | {"languages": ["german"]})


@pytest.mark.parametrize("indexes", [[5], [3, 9000], [200, 100], [-1], ["a word of a story"]])
def test_states_with_other_stop_words_are_refused(indexes):
    model = TextStream(stop_words="auto")
    model.learn_many(mixed(40, 1, "german"))
    arrays, meta = model._state()
    if indexes == ["a word of a story"]:
        indexes = [int(np.flatnonzero(model._memory.words.held)[-1])]
    with pytest.raises(CheckpointError, match=r"words|stop"):
        TextStream._from_state(arrays | {"word_more_stops": np.array(indexes)}, meta)
