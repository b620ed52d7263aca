"""What the page keeps of a stream, against slow and obvious twins."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.checkpoint import encode_state
from streamddcrp_connectors.page.kept import decoded, encoded, load_history, save_history
from streamddcrp_connectors.page.pyramid import (
    ALARMS,
    BEGIN,
    END,
    HELD,
    LABEL,
    N_OWN,
    SCORE,
    THRESHOLD,
    Pyramid,
)
from streamddcrp_connectors.page.regimes import Regimes
from streamddcrp_connectors.page.streams import Feed, Job, Stream, Streams
from streamddcrp_connectors.page.volumes import CHUNK, Volumes


def rows(n, D=2, seed=0):
    """Rows as buckets of one each."""
    rng = np.random.default_rng(seed)
    out = np.zeros((n, N_OWN + 3 * D))
    out[:, BEGIN] = out[:, END] = np.cumsum(rng.integers(0, 3, n))
    out[:, LABEL], out[:, HELD] = rng.integers(-1, 3, n), 1
    out[:, SCORE], out[:, THRESHOLD] = rng.normal(size=(2, n))
    out[:, ALARMS] = rng.random(n) < 0.1
    values = rng.normal(size=(n, D))
    values[rng.random((n, D)) < 0.2] = np.nan
    out[:, N_OWN:] = np.tile(values, 3)
    return out


def joined(part, D=2):
    """Make one bucket of rows, slowly."""
    values = part[:, N_OWN : N_OWN + D]
    labels, counts = np.unique(part[:, LABEL], return_counts=True)
    head = [part[0, BEGIN], part[-1, END], labels, counts, part[:, SCORE].max(),
            part[-1, THRESHOLD], part[:, ALARMS].sum()]  # fmt: skip
    known = [v[~np.isnan(v)] for v in values.T]
    nan = np.nan
    return (
        head,
        [v.min() if len(v) else nan for v in known],
        [v.max() if len(v) else nan for v in known],
        [v.mean() if len(v) else nan for v in known],
    )


@given(st.lists(st.integers(1, 900), min_size=1, max_size=5), st.integers(4, 60), st.data())
def test_a_view_is_that_of_all_rows(cuts, most, data):
    """Whatever the cuts: buckets of 4**k rows on a grid, the last one of what is left over."""
    whole = rows(sum(cuts))
    pyramid = Pyramid(2)
    for start, n in zip(np.cumsum([0, *cuts]), cuts, strict=False):
        pyramid.append(whole[start : start + n])
    times = whole[:, BEGIN]
    begin, end = sorted(data.draw(st.tuples(*[st.floats(-1, times[-1] + 1)] * 2)))
    level, first, buckets = pyramid.view(begin, end, most)
    assert len(buckets) <= most + 1
    if not len(buckets):
        assert not ((times >= begin) & (times <= end)).any()
        return
    size = 4**level
    for i, bucket in enumerate(buckets):
        part = whole[(first + i) * size : (first + i + 1) * size]
        (t0, t1, labels, counts, score, threshold, alarms), low, high, _ = joined(part)
        assert bucket[[BEGIN, END, THRESHOLD, ALARMS]].tolist() == [t0, t1, threshold, alarms]
        assert bucket[SCORE] == score
        assert bucket[LABEL] in labels
        assert 1 <= bucket[HELD] <= counts.max()
        np.testing.assert_equal(bucket[N_OWN:][:4], [*low, *high])
    inside = (times >= begin) & (times <= end)
    covered = (times >= buckets[0, BEGIN]) & (times <= buckets[-1, END])
    assert not (inside & ~covered).any()


def test_the_mean_of_a_bucket_is_that_of_its_rows_where_none_is_missing():
    whole = np.nan_to_num(rows(1000))
    pyramid = Pyramid(2)
    pyramid.append(whole)
    level, first, buckets = pyramid.view(-1, np.inf, 20)
    for i, bucket in enumerate(buckets):
        part = whole[(first + i) * 4**level : (first + i + 1) * 4**level]
        np.testing.assert_allclose(bucket[-2:], part[:, -2:].mean(axis=0), rtol=0, atol=1e-12)


def test_memory_is_bounded_and_long_ago_is_coarse():
    pyramid = Pyramid(2)
    made = 0
    for seed in range(60):
        part = rows(5000, seed=seed)
        part[:, BEGIN] = part[:, END] = np.arange(made, made + 5000)
        pyramid.append(part)
        made += 5000
    stored = sum(ring.nbytes for ring in pyramid.rings)
    assert stored < 12 * (1 << 20)
    assert pyramid.n_rows == made
    recent = pyramid.view(made - 500, made, 600)
    assert (recent.level, len(recent.buckets)) == (0, 500)
    old = pyramid.view(0, 500, 600)
    assert old.level > 2
    assert old.buckets[0, BEGIN] == 0
    assert pyramid.span == (0.0, made - 1.0)


def test_a_pyramid_goes_on_from_its_state():
    whole = rows(7000)
    alone, first = Pyramid(2), Pyramid(2)
    alone.append(whole)
    first.append(whole[:4321])
    then = decoded(encoded(first), Pyramid)
    then.append(whole[4321:])
    for most in (10, 100, 1000):
        left, right = (p.view(0, np.inf, most) for p in (alone, then))
        assert left[:2] == right[:2]
        np.testing.assert_equal(left.buckets, right.buckets)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=300), st.integers(1, 40))
def test_facts_of_regimes_are_those_of_their_rows(labels, cut):
    label = np.array(labels)
    rng = np.random.default_rng(len(labels))
    t, values = np.arange(len(label)) * 1.0, rng.normal(size=(len(label), 2)) + 5 * label[:, None]
    regimes = Regimes(("a", "b"))
    for start in range(0, len(label), cut):
        part = slice(start, start + cut)
        regimes.learn(label[part], t[part], values[part])
    found = regimes.table(10)
    assert {regime["label"] for regime in found} == set(labels)
    for regime in found:
        mine = np.flatnonzero(label == regime["label"])
        assert [regime[name] for name in ("rows", "first", "last")] == [
            len(mine),
            *t[mine[[0, -1]]],
        ]


def test_what_sets_a_regime_apart_is_said_in_words():
    regimes = Regimes(("flow", "heat", "same"))
    rng = np.random.default_rng(0)
    for label, level in enumerate([[80.0, 20.0, 1.0], [5.0, 20.0, 1.0], [80.0, 60.0, 1.0]]):
        values = np.array(level) + 0.1 * rng.normal(size=(50, 3))
        regimes.learn(np.full(50, label), np.arange(50.0) + 50 * label, values)
    words = {regime["label"]: regime["words"] for regime in regimes.table(3)}
    assert words[1].startswith("flow low: ")
    assert words[2].startswith("heat high: ")
    assert all("same" not in said for said in words.values())
    assert regimes.telling(2) == [0, 1]


def test_columns_that_reasons_name_are_drawn_first():
    stream = Stream.of(Job("job", ["oil", "oil flow", "1", "gas"], "row"))
    assert stream.columns(0.0, 9.0, 2) == [0, 1]
    for t, why in enumerate(["gas 3, expected 2 ± 1", "small, now 1 7, expected 2 ± 1; gas 1", ""]):
        stream.feed.add("alarm", 0, float(t), why=why)
    stream.feed.add("acknowledged", -1, 3.0, why="oil man")
    stream.feed.add("birth", 0, 8.0, why="oil flow 1.0 ± 0.1 to 2.0 ± 0.1")
    assert stream.columns(0.0, 7.0, 3) == [2, 3, 0]
    assert stream.columns(0.0, 0.0, 3) == [3, 0, 1]
    assert stream.columns(8.0, 9.0, 2) == [1, 0]
    assert stream.columns(0.0, 9.0, 1) == [1]


def test_a_merged_regime_brings_its_rows():
    regimes = Regimes(("a",))
    regimes.learn(np.array([0, 0, 1]), np.arange(3.0), np.ones((3, 1)))
    regimes.joined(0, 1)
    (found,) = regimes.table(5)
    assert (found["label"], found["rows"], found["last"]) == (1, 3, 2.0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=2000), st.integers(1, 300))
def test_volumes_count_every_row_once(labels, cut):
    label, t = np.array(labels), np.arange(len(labels)) * 1.0
    volumes = Volumes()
    for start in range(0, len(label), cut):
        volumes.learn(label[start : start + cut], t[start : start + cut])
    for most in (3, 50):
        begin, end, counts = volumes.view(0.0, t[-1], most, {})
        assert {k: int(n.sum()) for k, n in counts.items()} == {
            k: labels.count(k) for k in set(labels)
        }
        assert len(begin) <= max(most, 4) + 1
        assert (end >= begin).all()
        sizes = sum(counts.values())
        assert (sizes[:-1] % CHUNK == 0).all()


def test_merged_stories_are_one_band():
    volumes = Volumes()
    volumes.learn(np.repeat([1, 2], 32), np.arange(64.0))
    assert {k: n.sum() for k, n in volumes.view(0, 63, 9, {1: 2})[2].items()} == {2: 64}


@pytest.mark.parametrize("n", [1, 3, 400])
def test_the_feed_is_bounded_and_counts_repeats(n):
    feed = Feed()
    for i in range(n):
        feed.add("return", 4, float(i))
        feed.add("birth", i + 10, float(i))
    entries = feed.since(0)
    assert len(entries) == min(n + 1, 300)
    assert [entry["n"] for entry in entries if entry["kind"] == "return"] == [n]
    assert feed.since(feed.last_id) == []


def test_labels_that_are_drawn_are_described_however_long_ago_they_were():
    regimes = Regimes(("a",))
    regimes.learn(np.arange(5), np.arange(5.0), np.zeros((5, 1)))
    assert [row["label"] for row in regimes.table(2)] == [4, 3]
    assert [row["label"] for row in regimes.table(2, [0, 4, 77])] == [4, 3, 0]


@pytest.mark.parametrize("job", [Job("j", ["a", "b"], "row"), Job("j", ["a"], "stamp", "k"),
                                 Job("j", ["words"], "number", text=True)])  # fmt: skip
def test_all_that_is_shown_goes_on_from_the_history(job, tmp_path):
    rng, times = np.random.default_rng(0), np.arange(400.0)
    streams = Streams(job)
    stamps = pa.array(times.astype("datetime64[s]").astype("datetime64[ns]"))
    cells = {"row": np.arange(400), "time": stamps if job.stamped else times}
    cells |= {"key": pa.array(["up", "down"] * 200)} if job.key else {}
    cells |= {"label": rng.integers(0, 4, 400), "score": rng.normal(size=400)}
    columns = {
        name: ["a text"] * 400 if job.text else rng.normal(size=400) for name in job.features
    }
    streams.learn(pa.record_batch(cells | columns), 1.0)
    for stream in streams.of.values():
        stream.happened("birth", 1, 3.0, None, "flow high", (1.0, 2.0))
        stream.happened("merge", 2, 3.0, 1)
        stream.happened("death", 3, 4.0, None)
        stream.describe([{"label": 1, "words": "pump", "theme": "", "examples": ["a text"]}])
    save_history(tmp_path, streams)
    again = load_history(tmp_path)
    assert encoded(again) == encoded(streams)
    (tmp_path / "page-history").write_bytes(encode_state("live-page", 1, {}, {"job": {}}))
    assert load_history(tmp_path) is None  # of an earlier version
