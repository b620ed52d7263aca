"""What every estimator promises, for streams of texts: same bits, flat memory, clear errors."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import checks
from river.checks import common
from scipy import sparse

from streamddcrp import Keyed
from streamddcrp.errors import CheckpointError, ConfigError, OrderError, SchemaError
from streamddcrp.models.text.text_stream import TextStream
from tests.conformance.test_river import DATA_CHECKS
from tests.conformance.test_river import rows as river_rows

OPTIONS = {
    "documents": {"lag": 30, "decay": 40.0},
    "time": {"lag": 20, "decay": ("time", 15.0), "stop_words": None},
    "learned": {"lag": 30, "decay": "auto"},
    "short": {"lag": 2, "decay": 5.0, "alpha": 1.0, "stop_words": ("oil", "the")},
}
WORDS = [
    ["oil", "price", "barrel", "opec", "crude", "output"],
    ["cup", "final", "goal", "team", "match", "coach"],
    ["vote", "poll", "senate", "party", "seat", "läuft"],
]


def texts(seed, n=150):
    """Texts of topics that come and go, empty ones among them, and their times."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.exponential(0.8, n))
    out = []
    for i in range(n):
        words = WORDS[(rng.integers(0, 2) + i // 60) % 3]
        more = [f"word{rng.integers(0, 40)}", "the", "news" + str(i // 7)]
        out.append(" ".join(rng.choice([*words, *more], size=rng.integers(0, 7))))
    return out, t


def same(a, b):
    """Two models are in the same state to the last bit."""
    return a.to_bytes() == b.to_bytes()


def joined(parts):
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


@pytest.mark.parametrize("options", [{}, OPTIONS["short"]])
def test_river(options):
    checks.check_estimator(TextStream(**options))


@pytest.mark.parametrize("check", DATA_CHECKS)
def test_data_checks_of_river(check):
    rows = [({k: abs(v) for k, v in x.items()}, y) for x, y in river_rows(150)]
    getattr(common, check)(TextStream(lag=20), rows)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_any_cutting_and_any_restart_give_the_same_bits(options, data, seed):
    rows, t = texts(seed)
    clocked = isinstance(options["decay"], tuple) or data.draw(st.booleans())
    whole = TextStream(**options)
    expected = whole.step_many(rows, t if clocked else None)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    model, parts, events = TextStream(**options), [], []
    for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        model.predict_one("oil a word that nobody knows " + str(a), t[a] if clocked else None) if (
            a < len(rows)
        ) else None
        parts.append(model.step_many(rows[a:b], t[a:b] if clocked else None))
        events += model.events()
        if data.draw(st.booleans()):
            model = TextStream.from_bytes(model.to_bytes())
    assert joined(parts).equals(expected)
    assert events == whole.events()
    assert same(model, whole)
    one_by_one = TextStream(**options)
    for i, x in enumerate(rows):
        one_by_one.learn_one(x, t[i] if clocked else None)
    one_by_one.events()
    assert same(one_by_one, whole)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_step_many_is_predict_then_learn(options):
    rows, t = texts(1)
    model, twin = TextStream(**options), TextStream(**options)
    out = model.step_many(rows, t).to_pydict()
    for i, x in enumerate(rows):
        assert twin.predict_one(x, t[i] if i else None) == out["label"][i]
        assert twin.score_one(x, t[i] if i else None) == out["score"][i]
        probs = twin.predict_proba_one(x, t[i] if i else None)
        assert probs[-1] == out["p_new"][i]
        assert sum(probs.values()) == pytest.approx(1.0, rel=1e-12)
        if out["label"][i] in probs and out["label"][i] >= 0:
            assert probs[out["label"][i]] == pytest.approx(out["label_prob"][i], rel=1e-9)
        assert twin.n_tables == out["n_tables"][i]
        twin.learn_one(x, t[i])
    assert same(model, twin)
    assert model.objective == pytest.approx(-sum(out["score"]), rel=1e-12)


def test_final_labels_come_after_the_lag_and_map_to_survivors():
    rows, t = texts(2, 300)
    model = TextStream(lag=30, decay=40.0)
    out = model.step_many(rows, t)
    assert out["final_row"].to_pylist() == [None] * 30 + list(range(270))
    told = model.final_labels(window=True)
    assert told["row"].to_pylist() == list(range(300))
    assert told["label"].to_pylist()[:270] == out["final_label"].to_pylist()[30:]
    assert model.final_labels().num_rows == 0
    assert model.final_labels(window=True)["row"].to_pylist() == list(range(270, 300))
    merged = model.merged()
    events = [e for e in model.events() if e.kind == "merge"]
    assert set(merged) == {e.label for e in events}
    assert all(new not in merged and new < old for old, new in merged.items())
    live = set(model.summary()["id"].to_pylist())
    window = {merged.get(label, label) for label in told["label"].to_pylist()[270:]}
    assert window - {-1} <= live


def test_events_tell_births_and_deaths_once():
    rows, t = texts(3, 600)
    model = TextStream(lag=20, decay=15.0, alpha=1.0)
    model.learn_many(rows, t)
    events = model.events()
    births = [e.label for e in events if e.kind == "birth"]
    deaths = [e for e in events if e.kind == "death"]
    assert len(births) == len(set(births))
    assert deaths
    assert {e.label for e in deaths} <= set(births)
    assert all(e.t == t[e.index] for e in deaths)
    assert model.events() == []


def test_a_story_that_comes_back_is_recognised():
    rng = np.random.default_rng(9)
    model = TextStream(lag=20, decay=15.0, stop_words=None)
    stories = [[f"{name}{i}" for i in range(8)] for name in ("oil", "cup", "vote")]
    rows = [" ".join(rng.choice(stories[i // 200 % 3], 5)) for i in range(800)]
    model.learn_many(rows)
    final = model.final_labels(window=True)["label"].to_pylist()
    first, again = final[100], final[750]
    assert first != again
    returns = [e for e in model.events() if e.kind == "return"]
    assert [(e.label, e.into) for e in returns] == [(again, first)]


def mixture(seed, n=160, bridge=24):
    """Two stories that a word in the first texts of both makes one table, and which is which."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    rows = [
        " ".join(
            [*rng.permutation([f"{'ab'[z]}{j}" for j in range(10)])[:4], f"x{rng.integers(60)}"]
        )
        for z in y
    ]
    return [f"{x} both" if i < bridge else x for i, x in enumerate(rows)], y


@pytest.mark.parametrize("seed", range(4))
def test_a_table_of_two_stories_is_split(seed):
    rows, y = mixture(seed)
    model = TextStream(alpha=0.02, stop_words=None)
    at_once = model.step_many(rows)["label"].to_numpy()
    assert (at_once[:24] == 0).all()
    final = model.final_labels(window=True)["label"].to_numpy()
    events = model.events()
    assert [(e.kind, e.label, e.into) for e in events] == [("split", 1, 0)]
    when = events[0].index
    kept = int(np.bincount(y[: when + 1]).argmax())  # the larger half keeps the id
    assert final.tolist() == np.where(y == kept, 0, 1).tolist()
    assert at_once[when + 1 :].tolist() == final[when + 1 :].tolist()
    told = {row["id"]: row for row in model.summary().to_pylist()}
    for z in (0, 1):
        rows_of_z = np.flatnonzero(final == z)
        assert told[z]["size"] == len(rows_of_z)
        assert told[z]["last_seen"] == rows_of_z[-1]
        assert told[z]["words"].startswith("ab"[kept if z == 0 else 1 - kept])


def stream_with_returns(seed, n=9_000):
    """Twelve stories at a time over common words; three of ten that begin are old ones."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(1.0, 4001.0)
    own = [rng.choice(4000, 25, p=often**0.3 / (often**0.3).sum()) for _ in range(150)]
    active, ended, rows, y = list(range(12)), [], [], []
    for i in range(n):
        if rng.random() < 0.01:
            j = rng.integers(12)
            ended.append((i, active[j]))
            old = [end for end in ended if i - end[0] > 4500]
            again = bool(old) and rng.random() < 0.3
            active[j] = old[rng.integers(len(old))][1] if again else max(*y, *active) + 1
            ended = [end for end in ended if end[1] != active[j]]
        y.append(active[rng.integers(12)])
        common = rng.choice(4000, 4, p=often / often.sum())
        rows.append(" ".join(f"w{w}" for w in {*rng.choice(own[y[-1]], 4), *common}))
    return rows, np.array(y)


def test_most_returns_are_told_and_those_told_are_true():
    told = true = missed = 0
    for seed in (1, 2):
        rows, y = stream_with_returns(seed)
        model = TextStream()
        model.learn_many(rows)
        final, events = model.final_labels()["label"].to_numpy(), model.events()

        def story(label, final=final, y=y):
            """The story that most documents with a label are of, if they are three or more."""
            of = y[: len(final)][final == label]
            return int(np.bincount(of).argmax()) if len(of) >= 3 else -1

        dead, known = set(), {e.label for e in events if e.kind == "return"}
        for e in events:
            if e.kind == "death":
                dead.add(story(e.label))
            elif e.kind == "return":
                told, true = told + 1, true + (story(e.label) == story(e.into))
            elif e.kind == "birth" and e.label not in known:
                missed += story(e.label) in dead - {-1}
    assert true >= 0.8 * told
    assert true >= 0.5 * (true + missed)


def test_forms_of_a_batch_agree():
    rows, _ = texts(4)
    expected = TextStream(lag=20)
    expected.learn_many(rows)
    forms = [
        pa.array(rows), pa.chunked_array([rows[:70], rows[70:]]), pa.table({"text": rows}),
        np.array(rows), pa.array(rows, pa.large_string()), [{"text": x} for x in rows],
    ]  # fmt: skip
    for form in forms:
        model = TextStream(lag=20)
        model.learn_many(form)
        assert same(model, expected)
    lists, counts = TextStream(lag=20), TextStream(lag=20)
    lists.learn_many([x.split() for x in rows])
    for x in rows:
        counts.learn_one({w: x.split().count(w) for w in x.split()})
    assert lists.final_labels().equals(expected.final_labels())
    assert counts.n_tables > 0
    matrix = TextStream(lag=20)
    matrix.learn_many(sparse.csr_array(np.eye(5, dtype=int)[[0, 1, 0, 1]]))
    assert matrix.n_seen == 4


def test_memory_is_flat_while_the_vocabulary_turns_over():
    rng = np.random.default_rng(5)
    model, sizes, words = TextStream(lag=100, decay=100.0), [], []
    for part in range(40):
        own = [f"t{part}w{i}" for i in range(300)]
        model.learn_many([" ".join(rng.choice(own[:: 1 + i % 7], 7)) for i in range(500)])
        model.final_labels()
        model.events()
        sizes.append((len(model.to_bytes()), model.nbytes))
        archived = int(model._memory.archive.n.sum())  # words of at most 512 old stories
        words.append(model.n_words - archived)
    early, late = np.array(sizes[5:20]).max(axis=0), np.array(sizes[20:]).max(axis=0)
    assert (late <= 2.0 * early).all()  # powers of two, and the archive of 1,024 fills
    assert max(words) < 3000


def test_two_stories_and_what_is_told_of_them():
    model = TextStream(lag=50)
    about = ["Oil prices rise as OPEC meets", "Home team wins the cup final"]
    rows = [f"{about[i % 2]} no {i % 9}" for i in range(120)]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    out = model.step_many(rows, [start + timedelta(hours=i) for i in range(120)])
    assert out["final_label"].to_pylist()[-2:] == [0, 1]
    told = model.summary().to_pylist()
    assert [row["id"] for row in told] == [1, 0]
    assert told[1]["words"].split()[:2] == ["oil", "prices"]
    assert all(x.startswith("Oil prices rise") for x in told[1]["examples"])
    assert len(told[1]["examples"]) == 3
    assert told[1]["size"] == 60.0
    assert told[1]["born_t"] == start.timestamp()
    assert told[1]["rate"] == pytest.approx(0.5 / 3600.0, rel=0.05)


NASTY = [
    "", " ", "the", "a b c", "\x00\x01\x02", "é" * 500, "x" * 10_000, "日本語のテキスト",
    "\ud800bad",
    "🙂🙂", "a\x00b", " ".join(f"w{i}" for i in range(5_000)), "'" * 50, "\r\n\t",
]  # fmt: skip


def test_examples_are_the_texts_nearest_to_the_mean_of_their_story():
    """One story, against its texts counted by hand when their labels get final; rare words lose."""
    rng, lag, n = np.random.default_rng(0), 20, 200
    rare = [f"rare{i}" for i in range(3 * n)]
    documents = [
        [*rng.choice(WORDS[0], rng.integers(2, 6), replace=False), *rare[3 * i : 3 * i + i % 4]]
        for i in range(n)
    ]
    model = TextStream(alpha=1e-6, lag=lag, decay=1e4)
    model.learn_many([" ".join(x) for x in documents])
    kept = {}
    for i in range(n - lag):
        counts = Counter(w for x in documents[: i + lag + 1] for w in x)
        words = documents[i]
        fit = sum(counts[w] - 1 for w in words) / ((i + lag + 2) * math.sqrt(len(words)))
        text = " ".join(words)
        if text in kept:
            continue
        worst = min(kept, key=kept.get) if len(kept) == 3 else None
        if worst is None or fit > kept[worst]:
            kept.pop(worst, None)
            kept[text] = fit
    assert model.n_tables == 1
    told = model.summary()["examples"].to_pylist()[0]
    assert told == sorted(kept, key=kept.get, reverse=True)
    assert not any("rare" in text for text in told)


def test_texts_of_any_kind_are_taken():
    model = TextStream(lag=5)
    for _ in range(3):
        for x in NASTY:
            model.learn_one(x)
            assert math.isfinite(model.score_one(x))
    out = model.step_many(NASTY)
    assert out["label"].to_pylist()[:3] == [-1, -1, -1]
    assert out["score"].to_pylist()[0] == pytest.approx(0.0, abs=1e-9)
    assert np.isfinite(out["score"].to_numpy()).all()
    assert same(TextStream.from_bytes(model.to_bytes()), model)
    assert model.summary().num_rows == model.n_tables


def test_bytes_that_are_not_text_are_taken():
    model = TextStream(lag=5)
    model.learn_many(pa.array([b"oil \xff\xfe price", b"\x80\x80", b""], pa.binary()))
    assert model.n_seen == 3


def test_a_very_long_text_is_taken():
    model = TextStream(lag=5)
    model.learn_one(" ".join(f"w{i % 90_000}" for i in range(100_000)))
    for _ in range(8):
        model.learn_one("w1 w2 w3")
    assert model.n_words < 70_000
    assert math.isfinite(model.objective)


def test_a_refused_batch_changes_nothing():
    rows, t = texts(6)
    model = TextStream(lag=20)
    model.learn_many(rows[:40], t[:40])
    before = model.to_bytes()
    with pytest.raises(SchemaError, match="row 1") as refused:
        model.learn_many(["oil", None, "cup"], t[40:43])
    assert refused.value.row == 1
    with pytest.raises(SchemaError, match="row 1"):
        model.learn_many(pa.array(["oil", None]), t[40:42])
    with pytest.raises(OrderError, match="row 2"):
        model.learn_many(rows[40:43], t[[41, 42, 40]])
    with pytest.raises(OrderError):
        model.learn_one("oil", 0.0)
    with pytest.raises(OrderError):
        model.predict_one("oil", 0.0)
    with pytest.raises(SchemaError, match="with times"):
        model.learn_many(rows[40:43])
    with pytest.raises(SchemaError, match="several documents"):
        model.learn_many("oil")
    with pytest.raises(SchemaError):
        model.learn_one(3.0)
    with pytest.raises(SchemaError):
        model.learn_one({"oil": -1.0, "cup": 2.0})
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("bad", "match"),
    [({"alpha": -1.0}, "alpha"), ({"decay": 0.0}, "decay"), ({"decay": "fast"}, "decay"),
     ({"decay": "100 rows"}, "decay"), ({"decay": ("time", -1.0)}, "decay"), ({"lag": 0}, "lag"),
     ({"decay": ("exponential", 3.0)}, "decay"),
     ({"stop_words": "german"}, "stop_words"), ({"stop_words": ("two words",)}, "stop_words")],
)  # fmt: skip
def test_options_out_of_range_are_named(bad, match):
    with pytest.raises(ConfigError, match=match):
        TextStream(**bad)


def test_a_decay_in_time_needs_times():
    model = TextStream(decay="1d")
    with pytest.raises(SchemaError, match="decay"):
        model.learn_one("oil")
    model.learn_one("oil", datetime(2026, 1, 1, tzinfo=UTC))
    assert model.n_seen == 1


def test_damaged_blobs_are_refused(tmp_path):
    model = TextStream(lag=20)
    model.learn_many(texts(7)[0])
    blob = model.to_bytes()
    for bad in (blob[:-1], blob[:40], b"", blob[:100] + b"x" + blob[101:]):
        with pytest.raises(CheckpointError):
            TextStream.from_bytes(bad)
    model.save(tmp_path / "model")
    assert same(TextStream.load(tmp_path / "model"), model)


def test_keyed_is_separate():
    rows, _ = texts(8, 120)
    keys = ["a", "b", "c"] * 40
    fleet = Keyed(TextStream(lag=10), by="who", memory_limit="1MB")
    batch = pa.table({"who": keys, "text": rows})
    out = fleet.step_many(batch)
    for key in "abc":
        alone = TextStream(lag=10)
        expected = alone.step_many([x for k, x in zip(keys, rows, strict=True) if k == key])
        got = [r for k, r in zip(keys, out["label"].to_pylist(), strict=True) if k == key]
        assert got == expected["label"].to_pylist()
        assert same(fleet.model_of(key), alone)
    fleet.learn_one({"who": "a", "text": "oil price"})
    assert fleet.predict_one({"who": "z", "text": "oil price"}) == 0
    assert "key" in fleet.summary().column_names
