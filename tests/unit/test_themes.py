"""Themes: stories as customers, against an enumeration; what users see of them."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

from streamddcrp import TextStream
from streamddcrp.models.text.kernels import layout, themes
from streamddcrp.models.text.kernels.evidence import smoothing, word_scale
from tests.oracles.plain import plain

FIELDS = ("sea wind wave storm boat", "vote seat party poll law")


def told(n, seed, fields=4):
    """Texts of stories that come and go, each with 25 of the 250 words of its field."""
    rng = np.random.default_rng(seed)
    own = [rng.choice(250, 25, replace=False) for _ in range(150)]
    story = rng.integers(0, 50, n) + np.arange(n) * 100 // n
    rows = [
        " ".join([*(f"f{k % fields}w{w}" for w in rng.choice(own[k], 6)), f"c{rng.integers(200)}"])
        for k in story.tolist()
    ]
    return rows, story % fields


def five(seed):
    """Return the state after texts of five stories, their slots, and their words."""
    rng = np.random.default_rng(seed)
    fields, rows = [field.split() for field in FIELDS], []
    for k in rng.integers(0, 5, 60).tolist():
        own = rng.choice([f"s{k}w{j}" for j in range(6)], 5, replace=False)
        rows.append(" ".join([*own, rng.choice(fields[k % 2])]))
    model = TextStream(lag=10, scale="story")
    model.learn_many(rows)
    state = model._memory
    live = state.tables.live[: state.counts[layout.N_LIVE]].astype(np.int64)
    live = live[np.argsort(state.tables.id[live])]
    listed = np.zeros(len(state.words.df), np.int64)
    sets = []
    for k in live:
        n = plain(themes.list_words)(state.postings, state.tables, k, listed)
        sets.append(listed[:n].copy())
    return model._config, state, live, sets


def by_links(n):
    """Return in how many ways links to earlier stories or themselves make each partition."""
    ways = {}
    for links in itertools.product(*(range(i + 1) for i in range(n))):
        theme = []
        for i, j in enumerate(links):
            theme.append(i if i == j else theme[j])
        ways[tuple(theme)] = ways.get(tuple(theme), 0) + 1
    return ways


def log_joint(theme, ways, sets, gamma, p):
    """Log probability of a partition and of the words, by Dirichlet-multinomials."""
    total = math.log(ways)
    for g in set(theme):
        words = np.concatenate([sets[i] for i in range(len(theme)) if theme[i] == g])
        which, count = np.unique(words, return_counts=True)
        total += (gammaln(gamma * p[which] + count) - gammaln(gamma * p[which])).sum()
        total += gammaln(gamma) - gammaln(gamma + len(words))
    return total


@pytest.mark.parametrize("seed", range(3))
def test_themes_of_five_stories_are_the_best_of_all_partitions(seed):
    config, state, live, sets = five(seed)
    assert len(live) == 5
    tables, counts, sums = state.tables, state.counts, state.sums
    sums[layout.THEME_WEIGHT] = 0.3
    gamma = plain(themes.theme_weight)(counts, sums)
    scale = plain(word_scale)(config, counts, sums)
    p = (state.words.df + plain(smoothing)(config, sums)) * scale
    joints = {theme: log_joint(theme, n, sets, gamma, p) for theme, n in by_links(5).items()}
    assert len(joints) == 52
    args = config, state.words, state.postings, tables, counts, sums, state.scratch
    tables.theme[:] = -1
    for _ in range(3):
        sums[layout.THEME_WEIGHT] = 0.3
        plain(themes.find_themes)(*args, live)
    found = tables.theme[live].tolist()
    found = tuple(found.index(g) for g in found)
    assert found == max(joints, key=joints.get)
    assert len(set(found)) == 2
    # the odds of the last story for the theme of another one, against a new one
    sums[layout.THEME_WEIGHT] = 0.3
    plain(themes.enlist_story)(tables, live[4], tables.theme[live[4]], -1, len(sets[4]))
    plain(themes.weigh_themes)(*args, live[4], sets[4], len(sets[4]))
    for i in range(4):
        odds = state.scratch.theme_odds[tables.theme[live[i]]]
        expected = joints[*found[:4], found[i]] - joints[*found[:4], 4]
        assert odds == pytest.approx(expected, rel=1e-9)
    # and what the themes of the first four gain by being one
    plain(themes.gather_gains)(*args)
    if len(set(found[:4])) == 2:
        a, b = sorted(set(tables.theme[live[:4]].tolist()))
        ways = by_links(4)
        one, two = (log_joint(z, ways[z], sets[:4], gamma, p) for z in ((0, 0, 0, 0), found[:4]))
        assert state.scratch.theme_gain[b, a] == pytest.approx(one - two, rel=1e-9)


@pytest.mark.parametrize("seed", [1, 2])
def test_themes_are_the_fields_of_short_texts(seed):
    rows, field = told(3_000, seed)
    model = TextStream(scale="story")
    out = model.step_many(rows)
    theme = out["final_theme"].to_numpy(zero_copy_only=False)[model.lag :]
    label = out["final_label"].to_numpy(zero_copy_only=False)[model.lag :]
    field = field[: len(theme)]
    late = slice(1_000, None)
    assert not np.isnan(theme).any()
    assert adjusted_rand_score(field[late], theme[late]) > 0.9
    assert adjusted_rand_score(field[late], label[late]) < 0.5
    found, stories = model.themes(), model.summary()
    assert found["rows"].to_pylist() == sorted(found["rows"].to_pylist(), reverse=True)
    members = {i for ids in found["stories"].to_pylist() for i in ids}
    known = {s["id"]: s["theme"] for s in stories.to_pylist() if s["theme"] is not None}
    assert set(known) == members
    rows_of = dict(zip(stories["id"].to_pylist(), stories["rows"].to_pylist(), strict=True))
    for one in found.to_pylist():
        assert {known[i] for i in one["stories"]} == {one["id"]}
        assert one["rows"] == sum(rows_of[i] for i in one["stories"])
        assert len({word[:2] for word in one["words"].split()[:4]}) == 1  # of one field


def test_themes_do_not_depend_on_how_a_stream_is_cut_or_stored():
    rows, _ = told(900, 3)
    whole = TextStream(lag=60, scale="story")
    expected = whole.step_many(rows)
    parts, model = [], TextStream(lag=60, scale="story")
    for a, z in ((0, 1), (1, 255), (255, 256), (256, 700), (700, 900)):
        parts.append(model.step_many(rows[a:z]))
        model = TextStream.from_bytes(model.to_bytes())
    for name in ("theme", "final_theme"):
        assert [x for part in parts for x in part[name].to_pylist()] == expected[name].to_pylist()
    assert model.themes().equals(whole.themes())
    shorter = TextStream(lag=60, scale="story").step_many(rows[:600])
    assert shorter["theme"].equals(expected["theme"].slice(0, 600))  # what follows changes nothing
