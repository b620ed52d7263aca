"""Words of texts, their indexes and the memory they take."""

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamddcrp.checkpoint import decode_state, encode_state
from streamddcrp.data import tokenize, tokenize_all
from streamddcrp.data.kernels.characters import LONGEST
from streamddcrp.data.texts import read_text, read_texts
from streamddcrp.data.words import ENGLISH, RAW, WordTable
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from tests.oracles.pieces import Pieces
from tests.oracles.words import words_of

LETTERS = st.one_of(
    st.characters(exclude_categories=()),
    st.sampled_from("aZ09+#' ./:@_$<>RTw\u00e9\u0307\u3099\u304b\U0001f44d"),
    st.sampled_from(["http://", "www.", "t.co/", "RT @a: ", "<GM.", "$IB", "U.S", "'s"]),
    st.sampled_from("aZ09+#' .\u2019\u00e9\u0130\u00df\u03a3\u03c2\u0436\u0e20\u0e31\u5b66\u8a9e"
                    "\u30ab\uff76\u0301\u200b\u200d\xad\x00\U00020001\U0001f600\U0001d400"),
)  # fmt: skip


TICKERS = "$", "$$"
TEXT = st.lists(LETTERS, max_size=40).map("".join)


def words_in(table, text, **options):
    return table.decode(table.encode([text], **options)[0])


def once(words):
    """Cut words at 64 bytes, where a character begins, and drop repeated ones."""
    cut = [w.encode(errors="surrogatepass")[:LONGEST].decode(errors="ignore") for w in words]
    return list(dict.fromkeys(cut))


@settings(max_examples=100, deadline=None)
@given(TEXT, st.sets(st.sampled_from(sorted(RAW))))
def test_words_are_those_of_the_slow_way(text, keep):
    assert words_in(WordTable((), keep=keep), text) == once(
        words_of(text, keep, Pieces().cut, TICKERS)
    )


@given(TEXT)
def test_all_words_of_a_text_come_in_order(text):
    """The rule of the models that count words."""
    found = [once([word])[0] for word in words_of(text)]
    assert tokenize(text) == found
    assert tokenize_all([text, "", text]) == [found, [], found]


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_ascii_words_are_those_of_the_expression(text):
    text = re.sub(r"[./:@$<>]", " ", text)  # no links, initials, tickers
    found = re.findall(r"[a-z0-9][a-z0-9+#']*", text.lower())
    assert words_in(WordTable(), text) == once(w for w in found if w not in ENGLISH)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\u00c9COLE  \u041c\u043e\u0441\u043a", ["\u00e9cole", "\u043c\u043e\u0441\u043a"]),
        ("\u5b66\u4e60\u8a9e iPod\u624b", ["\u5b66\u4e60\u8a9e", "ipod", "\u624b"]),
        ("\u5b66, \u5b66", ["\u5b66"]),
        ("\uff26\uff35\uff2c\uff2c don\u2019t co\xadoperate", ["full", "don't", "cooperate"]),
        ("a\x00b\x07c\ufffdd", ["a", "b", "c", "d"]),
        ("\U0001f600 \u2014 ...", ["\U0001f600"]),
        ("\U0001f44d\U0001f3fd\u2764\ufe0f", ["\U0001f44d", "\u2764"]),
        ("U.S. and U.S.A's E.U, e.g.", ["u.s.", "and", "u.s.a.", "e.u.", "e.g."]),
        ("J.P.Morgan a. b", ["j.p.", "morgan", "a", "b"]),
        ("Caf\u00e9 cafe\u0301 \u0130zmir i\u0307 izmir", ["caf\u00e9", "izmir", "i"]),
        ("\u304b\u3099\u304f \u304c\u304f", ["\u304c\u304f"]),
        ("RT @some_one: rain http://t.co/aB1, see", ["rain", "see"]),
        ("www.x.de/a?b and bit.ly/2x yahoo.com", ["and", "yahoo", "com"]),
        ("$AAPL up, CUMMINS <CUM> and<GM.TO>; $5", ["$", "up", "cummins", "$$", "and", "5"]),
        ("<GM> buys $A, $B", ["$", "buys", "$$"]),
        ("<b>bold</b> A/B and/or 1.5/2", ["b", "bold", "a", "and", "or", "1", "5", "2"]),
        ("#brexit Brexit", ["brexit"]),
        ("t.co/x\u5b66\u4e60t.co/y $A\u5b66", ["\u5b66\u4e60", "a", "\u5b66"]),
    ],
)  # fmt: skip
def test_examples(text, words):
    assert words_in(WordTable(()), text) == words


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_read(parts):
    texts = read_texts(pa.array(parts, pa.binary()))
    table = WordTable(())
    words, ends = table.read(texts.data, texts.offsets, listed=texts.listed)
    read, pieces = [table.decode(words[a:b]) for a, b in pairwise(ends)], Pieces()
    for part, found in zip(parts, read, strict=True):
        assert found == once(
            words_of(part.decode(errors="replace"), cut=pieces.cut, tickers=TICKERS)
        )
        pieces.learn()


def test_long_words_and_long_documents():
    table = WordTable()
    assert words_in(table, "x" * 1000) == ["x" * 64]
    assert words_in(table, "\u0436" * 100 + " y") == ["\u0436" * 32, "y"]
    assert words_in(table, "a\u0301" + "\u0301" * 100) == ["\u00e1" + "\u0301" * 31]
    text = " ".join(f"w{i}" for i in range(100_000))
    assert len(table.encode([text])[0]) == 100_000
    assert words_in(WordTable(), text, most=3) == ["w0", "w1", "w2"]


def test_words_of_a_list_are_taken_as_they_are():
    table = WordTable()
    words, ends = table.encode(
        [["New York", "the", "C", "", "c", "C"], [], ["\u5b66\u4e60\u8a9e" * 9]]
    )
    assert table.decode(words) == ["New York", "C", "c", "\u5b66\u4e60\u8a9e" * 7]
    assert ends.tolist() == [0, 3, 3, 4]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 3000), max_size=400), st.randoms())))
def test_indexes_are_those_of_a_dictionary_with_a_stack(steps):
    table, at, free, n = WordTable(()), {}, [], 0
    for numbers, random in steps:
        found, _ = table.encode([[str(i) for i in numbers]])
        for word in dict.fromkeys(map(str, numbers)):
            if word not in at:
                at[word] = free.pop() if free else n
                n += at[word] == n
        assert table.decode(found) == list(dict.fromkeys(map(str, numbers)))
        assert found.tolist() == [at[word] for word in table.decode(found)]
        gone = random.sample(sorted(at.values()), len(at) // 2)
        table.release(np.array(gone, np.int64))
        for w in gone:
            if w == n - 1:
                n -= 1
            else:
                free.append(w)
        at = {word: w for word, w in at.items() if w not in gone}
        assert len(table) == len(at)


def test_new_words_taken_back_leave_no_trace():
    table = WordTable()
    table.encode(["one two three four five six"])
    table.release(table.encode(["two five"])[0])
    before = [np.copy(a) for a in (table.arrays.slots, table.arrays.counts[:3], table.arrays.free)]
    words = table.encode([f"w{i}" for i in range(300)])[0]
    table.release(words[::-1])
    after = table.arrays.slots, table.arrays.counts[:3], table.arrays.free
    for a, b, used in zip(before, after, (None, None, before[1][1]), strict=True):
        np.testing.assert_array_equal(a[:used], b[:used])


def test_memory_of_words_that_come_and_go_is_flat():
    table = WordTable()
    for i in range(300):
        table.release(table.encode([f"w{i}x{j}" for j in range(500)])[0])
    assert (len(table), table.capacity) == (0, 1024)


def test_a_restored_table_goes_on_as_if_never_stopped():
    table = WordTable(["of", "\u0414\u0430"])
    words, _ = table.encode([f"w{i % 700} of w{i * i}" for i in range(2000)])
    table.release(np.unique(words)[::3])
    state, _ = decode_state(encode_state("words", 1, table.state(), {}), "words")
    twin = WordTable.restore(state)
    assert twin.stop_words == ["of", "\u0434\u0430"]
    for some in table, twin:
        some.release(some.encode(["w1 w2 \u0434\u0430 w3"])[0])
    texts = [f"v{i} w{i}" for i in range(3000)]
    np.testing.assert_array_equal(table.encode(texts)[0], twin.encode(texts)[0])
    for name, array in table.state().items():
        np.testing.assert_array_equal(array, twin.state()[name])


@pytest.mark.parametrize("name", ["word_letters", "word_length", "word_free", "word_stops"])
def test_a_damaged_table_is_refused(name):
    table = WordTable()
    table.release(table.encode(["one two three"])[0][:1])
    state = table.state()
    state[name] = state[name][:-1] if name != "word_stops" else np.array([10_000])
    with pytest.raises(CheckpointError, match=f"words of the checkpoint|{name}"):
        WordTable.restore(state)


@pytest.mark.parametrize("stop", ["of course", "", "--", 3])
def test_a_stop_word_is_one_word(stop):
    with pytest.raises(ConfigError, match="not one word"):
        WordTable([stop])


TEXTS = ["Rain in Spain", "", "\u00c9t\u00e9 na\u00efve"]


@pytest.mark.parametrize(
    "batch",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        pa.array(TEXTS),
        pa.array(["first", *TEXTS])[1:],
        pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array([text.encode() for text in TEXTS]),
        pa.table({"title": TEXTS}),
        [{"title": text} for text in TEXTS],
        [["rain", "in", "spain"], [], ["\u00e9t\u00e9", "na\u00efve"]],
        pa.array([["rain", "in", "spain"], [], ["\u00e9t\u00e9", "na\u00efve"]]),
        [{"rain": 1, "in": 2.0, "spain": 1}, {}, {"na\u00efve": 1, "other": 0, "\u00e9t\u00e9": 3}],
    ],
)  # fmt: skip
def test_batches(batch):
    texts, table = read_texts(batch), WordTable()
    words, ends = table.read(texts.data, texts.offsets, listed=texts.listed)
    assert table.stop_words == list(ENGLISH)
    read = [sorted(table.decode(words[a:b])) for a, b in pairwise(ends)]
    assert read == [["rain", "spain"], [], sorted(["\u00e9t\u00e9", "na\u00efve"])]


def test_counts_by_column():
    texts, table = read_texts(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])), WordTable()
    words, ends = table.read(texts.data, texts.offsets, listed=True)
    assert (table.decode(words), ends.tolist()) == (["0", "2", "1"], [0, 2, 3])


def test_no_documents():
    for batch in [], pa.array([], pa.string()), pa.table({"a": pa.array([], pa.string())}):
        assert read_texts(batch).offsets.tolist() == [0]


def test_one_document():
    for x in "a lone \ud800 word", {"title": "a lone \ud800 word"}:
        texts = read_text(x)
        assert texts.offsets.tolist() == [0, len(texts.data)]
        table = WordTable()
        assert table.decode(table.read(*texts[:2], listed=False)[0]) == ["lone", "word"]
    assert read_text(["b", "a"]).data.tobytes() == b"b\xffa"
    assert read_text({"b": 1, "a": 2}).data.tobytes() == b"a\xffb"


@pytest.mark.parametrize(
    ("batch", "row", "words"),
    [
        (["a", None], 1, "missing; give ''"),
        (pa.array(["a", None]), 1, "missing; give ''"),
        (pa.table({"t": pa.array(["a", None])}), 1, "column 't': missing"),
        (["a", ["b"]], 1, "expected a text like the first"),
        ([["b"], "a"], 1, "expected words or counts like the first"),
        ([["b"], ["a", 3]], 1, "expected a word, got 3"),
        ([["b"], None], 1, "expected a text, a list"),
        ([{"b": 1, "c": -1}], 0, "not a count"),
        (3, None, "expected a list of documents"),
        ("abc", None, "put it into a list"),
        (pa.array([1, 2]), None, "expected texts"),
        (pa.table({"a": ["x"], "b": ["y"]}), None, "expected one column of texts"),
    ],
)
def test_bad_batches(batch, row, words):
    with pytest.raises(SchemaError, match=words) as error:
        read_texts(batch)
    assert error.value.row == row


def test_the_short_list_is_as_if_it_were_read():
    listed, read = WordTable().arrays, WordTable(ENGLISH).arrays
    for name in "slots", "letters", "length", "seen", "free":
        np.testing.assert_array_equal(getattr(listed, name), getattr(read, name))
    assert listed.counts[:3].tolist() == read.counts[:3].tolist() == [len(ENGLISH), 0, len(ENGLISH)]
