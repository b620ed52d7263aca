"""Words of scripts without spaces, learned from the texts before."""

from itertools import pairwise

import numpy as np
import pytest

from streamddcrp import TextStream
from streamddcrp.checkpoint import decode_state, encode_state
from streamddcrp.data import tokenize
from streamddcrp.data.kernels.pieces import LISTED, MOST_PIECES, UNIT
from streamddcrp.data.words import WordTable
from streamddcrp.errors import CheckpointError
from streamddcrp.models.text.kernels.layout import SHOWN
from tests.oracles.pieces import AT_A_TIME, Pieces

FIRST = 0x4E00


def written(n, seed, *, words=60, letters=80, size=6):
    """Return texts of words of one to four characters, as lists of words."""
    rng = np.random.default_rng(seed)
    names = [
        "".join(chr(FIRST + c) for c in rng.integers(0, letters, rng.integers(1, 5)))
        for _ in range(words)
    ]
    return [[names[w] for w in rng.integers(0, words, rng.integers(0, size))] for _ in range(n)]


def joined(texts):
    return ["".join(words) for words in texts]


def read(table, texts):
    words, ends = table.encode(texts)
    return [table.decode(words[a:b]) for a, b in pairwise(ends)]


def pieces_of(table):
    return {name: part for name, part in table.state().items() if name.startswith("pieces.")}


def test_pieces_are_those_of_the_slow_way():
    texts, table, slow = joined(written(300, 0)), WordTable(()), Pieces()
    for text, found in zip(texts, read(table, texts), strict=True):
        assert found == list(dict.fromkeys(slow.cut(list(text))))
        slow.learn()
    counts = [n for part in (slow.pieces, slow.letters) for n in part.values()]
    assert sorted(pieces_of(table)["pieces.counts"].tolist()) == sorted(counts)


def test_words_that_go_together_are_two():
    """If they come alone as often, and by chance would be so more often than a new piece."""
    a, b, c, d = (chr(FIRST + i) for i in range(4))
    together = [a + b + c + d] * 4
    table, slow = WordTable(()), Pieces()
    for text in [a + b, c + d] * 30 + together:
        found = read(table, [text])[0]
        assert found == list(dict.fromkeys(slow.cut(list(text))))
        slow.learn()
    assert found == [a + b, c + d]
    table = WordTable(())
    assert read(table, together * 30)[-1] == [a + b + c + d]


def words_of(model):
    """Return the words of each text of the window, the oldest first; none of those with copies."""
    window, table = model._memory.window, model._table
    out = []
    for i in range(max(0, model.n_seen + 1 - len(window.table)), model.n_seen):
        at = i % len(window.table)
        place = window.start[at] + np.arange(window.length[at] + window.aside[at])
        out.append(table.decode(window.text[place % len(window.text)]))
    return out


def test_texts_of_the_window_are_read_again():
    """When they are visited, by what came besides; texts that are not kept whole are not."""
    texts = joined(written(150, 8, words=20, letters=12))
    texts[::10] = ["".join(joined(written(40, 9 + i))) for i in range(0, 150, 10)]
    model, slow, expected, n_changed = TextStream(lag=20, stop_words=()), Pieces(), [], 0
    for i, text in enumerate(texts):
        model.learn_one(text)
        expected.append(list(dict.fromkeys(slow.cut(list(text)))))
        slow.learn()
        for age in model._config.ages.tolist():  # for the visits that are next
            j = i + 1 - age
            if j >= 0 and 0 < len(texts[j].encode()) <= SHOWN:
                found = list(dict.fromkeys(slow.cut_again(list(texts[j]))))
                n_changed += found != expected[j]
                expected[j] = found
        found = words_of(model)
        known = zip(found, expected[-len(found) :], strict=True)
        assert all(mine in ([], own) for mine, own in known)
        assert sum(not mine for mine in found) < 20
    assert n_changed > 10
    state, meta = model._state()
    again = TextStream._from_state(state, meta)
    more = joined(written(100, 9, words=20, letters=12))
    assert again.step_many(more).equals(model.step_many(more))


def test_words_that_nothing_holds_any_more_are_released():
    model = TextStream(lag=10, stop_words=())
    model.learn_many(joined(written(400, 10)))
    held = model._memory.words.held > 0
    used = np.flatnonzero(model._table.arrays.length > 0)
    live = held | (model._memory.words.df > 0)
    assert live[used].all()
    assert live.sum() == len(used)


def test_a_long_run_is_cut_in_parts():
    text = "".join(joined(written(60, 1)))
    assert len(text) > 2 * AT_A_TIME
    slow = Pieces()
    assert read(WordTable(()), [text]) == [list(dict.fromkeys(slow.cut(list(text))))]


def test_words_are_found():
    """In most of the last texts all of them; pairs find them in none."""
    texts, table = written(3000, 2), WordTable(())
    found = read(table, joined(texts))
    right = [set(a) == set(b) for a, b in zip(texts[-500:], found[-500:], strict=True)]
    assert np.mean(right) > 0.85


def test_counts_are_halved_when_there_are_too_many():
    """From a table that is nearly full of pieces and characters that never come again."""
    rng = np.random.default_rng(3)
    keys = np.unique(rng.integers(1 << 60, 1 << 62, MOST_PIECES - 200))
    counts = rng.integers(1, 3 * UNIT, len(keys))
    full = {"pieces.keys": keys, "pieces.counts": counts}
    table, slow = WordTable.restore(WordTable(()).state() | full), Pieces()
    for key, n in zip(keys.tolist(), counts.tolist(), strict=True):
        (slow.pieces if key & 1 else slow.letters)[key] = n
    texts = joined(written(300, 3))
    for text, found in zip(texts, read(table, texts), strict=True):
        assert found == list(dict.fromkeys(slow.cut(list(text))))
        slow.learn()
    counts = [n for part in (slow.pieces, slow.letters) for n in part.values()]
    assert len(counts) == table.arrays.piece_sums[LISTED] < MOST_PIECES - 200
    assert sorted(pieces_of(table)["pieces.counts"].tolist()) == sorted(counts)


def test_a_restored_table_cuts_as_if_never_stopped():
    texts = joined(written(600, 4))
    whole, part = WordTable(()), WordTable(())
    expected = read(whole, texts)
    found = [words for i in range(0, 300, 7) for words in read(part, texts[i : min(i + 7, 300)])]
    state, _ = decode_state(encode_state("words", 1, part.state(), {}), "words")
    assert found + read(WordTable.restore(state), texts[300:]) == expected


def test_pieces_are_part_of_the_state_only_where_there_are_some():
    table = WordTable()
    table.encode(["no such script"])
    assert not pieces_of(table)
    assert len(table.arrays.piece_keys) == 0


def alter(name, change):
    def damage(state):
        state[name] = change(state[name].copy())

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        alter("pieces.keys", lambda keys: keys[::-1].copy()),
        alter("pieces.keys", lambda keys: keys[:-1]),
        alter("pieces.keys", lambda keys: keys - keys[0]),
        alter("pieces.counts", lambda counts: counts * 0),
        alter("pieces.counts", lambda counts: counts.astype(float)),
        lambda state: state.pop("pieces.counts"),
    ],
)
def test_damaged_pieces_are_refused(damage):
    table = WordTable(())
    table.encode(joined(written(50, 5)))
    state = table.state()
    damage(state)
    with pytest.raises(CheckpointError):
        WordTable.restore(state)


def test_looking_teaches_nothing():
    """Nor do stop words."""
    texts = joined(written(400, 6))
    model, twin = TextStream(lag=20), TextStream(lag=20)
    model.learn_many(texts[:200])
    twin.learn_many(texts[:200])
    for text in texts[200:]:
        model.predict_one(text)
    assert model.step_many(texts[200:]).equals(twin.step_many(texts[200:]))
    stops = WordTable([chr(FIRST) + chr(FIRST + 1), chr(FIRST) + chr(FIRST + 2)])
    assert len(stops.stop_words) == 2
    assert not pieces_of(stops)


def test_models_that_count_words_take_pairs():
    a, b, c = (chr(FIRST + i) for i in range(3))
    assert tokenize(f"{a}{b}{c} {a}") == [a + b, b + c, a]
    text = "".join(chr(FIRST + i % 500) for i in range(3 * AT_A_TIME))
    assert tokenize(text) == [x + y for x, y in pairwise(text)]


def test_texts_of_any_length_teach():
    table = WordTable(())
    table.encode(["".join(joined(written(20_000, 7)))])
    assert 0 < table.arrays.piece_sums[LISTED] <= MOST_PIECES
    assert table.arrays.piece_counts.sum() >= UNIT
