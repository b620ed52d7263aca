"""The line of stories: counts, names, bounded memory, cutting, state."""

import numpy as np
import pytest

from streamddcrp.models.text.story_line import _MOST, _STORIES, OTHERS, StoryLine


def names(ids):
    return [f"s{i}" for i in ids.tolist()]


def fed(labels, times, cut=10**9, line=None):
    line = line or StoryLine()
    while len(labels):
        n = min(line.room, cut, len(labels))
        line.add(labels[:n], times[0], times[n - 1])
        if not line.room:
            line.close(names)
        labels, times = labels[n:], times[n:]
    return line


def some(n, seed=0):
    rng = np.random.default_rng(seed)
    return (np.arange(n) / 300).astype(np.int64) + rng.geometric(0.05, n), np.arange(float(n))


@pytest.mark.parametrize("n", [0, 1, 64, 1000, 40_000])
def test_every_document_is_counted(n):
    line = fed(*some(n)).extended(*some(10, 1), names)
    table = line.table()
    assert sum(table["mass"].to_pylist()) == n + 10
    assert len(line.stretches) <= _MOST
    assert max(len(s.ids) for s in line.stretches) <= _STORIES + 1


def test_small_streams_are_counted_exactly():
    labels, times = some(500)
    labels %= 30
    table = fed(labels, times).extended(labels[:0], times[:0], names).table()
    for epoch, i, mass, end in zip(
        *(table[c].to_pylist() for c in ("epoch", "id", "mass", "end")), strict=True
    ):
        part = slice(128 * epoch, 128 * epoch + 128)
        assert mass == (labels[part] == i).sum()
        assert end == times[part][-1]


def test_the_largest_stories_keep_their_counts_when_stretches_are_joined():
    labels, times = some(30_000)
    labels[::3] = 7
    line = fed(labels, times)
    table = line.table()
    mass = table["mass"].to_numpy()[table["id"].to_numpy() == 7].sum()
    assert mass == (labels[: len(line.stretches) * line.width] == 7).sum()
    assert OTHERS in table["id"].to_pylist()
    assert set(np.unique(table["words"])) >= {"s7"}


def test_cutting_and_restoring_change_nothing():
    labels, times = some(20_000)
    whole, pieces = fed(labels, times), fed(labels, times, 37)
    half = fed(labels[:9_999], times[:9_999])
    again = fed(labels[9_999:], times[9_999:], line=StoryLine.restore(*half.state()))
    for other in pieces, again:
        assert other.table() == whole.table()
        assert other.state()[1]["width"] == whole.width
        np.testing.assert_array_equal(
            other.state()[0]["line_labels"], whole.state()[0]["line_labels"]
        )


def test_memory_is_flat():
    line, sizes = StoryLine(), []
    for i in range(8):
        labels = np.arange(50_000) + 50_000 * i
        fed(labels, labels.astype(float), line=line)
        arrays, meta = line.state()
        sizes.append(sum(a.nbytes for a in arrays.values()) + 20 * len(meta["names"]))
    assert max(sizes) < 250_000
