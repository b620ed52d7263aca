"""Rows corrected or forgotten afterwards: against the enumeration of the corrected rows."""

import math

import numpy as np
import pytest

from streamddcrp import DDCRPSampler, GraphCRP, GroupDP, SeqDDCRP
from streamddcrp.data.graphs import from_parents
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import NormalGamma
from tests.oracles import graph_crp as oracle
from tests.oracles.enumeration import enumerate_links, enumerate_recall
from tests.oracles.links import prior_links

PRIOR, ALPHA, GAMMA = NormalGamma(0.0, 0.5, 2.0, 1.0), 0.8, 1.3
X = np.array([0.3, -1.2, 2.4, 0.1, 1.9])[:, None]
PARENTS = oracle.window(len(X), 2)
GROUPS = ["a", "b", "a", "b", "a"]
# two auxiliary items, then the rows of the groups, each with the earlier ones of its own
SHARED = [[], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2, 4]]


def window_graph(**options):
    return GraphCRP(window=2, alpha=ALPHA, likelihood=PRIOR, **options)


def by_parents(X, parents):
    """Partitions, their probabilities and the log evidence of rows, the first perhaps unseen."""
    graph = from_parents(parents)
    rows = np.concatenate([np.full((len(parents) - len(X), 1), np.nan), X])
    return oracle.posterior(rows, parents, graph.cliques, graph.separators, ALPHA, PRIOR)


def by_links(X, decay, gamma):
    """The log evidence of rows, by all their links and, with recall, all openings."""

    def log_marginal(members):
        return float(PRIOR.log_marginal(PRIOR.suffstats(X[list(members)]).sum(axis=0))[0])

    if gamma is None:
        log_prior = prior_links(make_decay(decay), ALPHA, len(X))
        return enumerate_links(log_prior, log_marginal).log_evidence
    gap = np.subtract.outer(np.arange(len(X)), np.arange(len(X)))
    weight = np.tril(make_decay(decay).weight(np.abs(gap)), -1)
    return enumerate_recall(weight, ALPHA, gamma, log_marginal)[0]


def links(decay, gamma=None):
    options = {"decay": decay, "gamma": gamma, "alpha": ALPHA, "likelihood": PRIOR}
    return (
        lambda **more: DDCRPSampler(**options, **more),
        {},
        lambda rows: by_links(rows, decay, gamma),
    )


CASES = {
    "graph": (window_graph, {}, lambda rows: by_parents(rows, PARENTS)[2]),
    "groups": (
        lambda **more: GroupDP(n_shared=2, alpha=ALPHA, likelihood=PRIOR, **more),
        {"group": GROUPS},
        lambda rows: by_parents(rows, SHARED)[2],
    ),
    "window": links(("window", 3)),
    "exponential": links(("exponential", 2.0)),
    "none": links("none"),
    "recall": links(("exponential", 2.0), GAMMA),
}


def learn(model, rows, a, z, side):
    """Learn rows a to z."""
    model.learn_many(rows[a:z], **{name: values[a:z] for name, values in side.items()})


@pytest.mark.parametrize("new", [-2.0, None])
@pytest.mark.parametrize(("row", "after"), [(2, 4), (1, 3), (4, 5)])
def test_a_corrected_row(new, row, after):
    """Exact where all children fit, then rows come as usual: as if it had been right at once."""
    right = X.copy()
    right[row] = np.nan if new is None else new
    parts, prob, log_z = by_parents(right, PARENTS)
    amended = window_graph(n_particles=500)
    amended.learn_many(X[:after])
    amended.amend(row, {0: X[row, 0]}, None if new is None else {0: new})
    amended.learn_many(X[after:])
    assert amended.log_evidence == pytest.approx(log_z, abs=1e-10)
    found = amended.partitions(4000, seed=0)  # of the last rows
    together = (found[:, -1] == found[:, -2]).mean()
    exact = sum(p for part, p in zip(parts, prob, strict=True) if part[-1] == part[-2])
    assert together == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4000))


@pytest.mark.parametrize("new", [-2.0, None])
@pytest.mark.parametrize("case", CASES)
def test_few_particles_have_no_bias(case, new):
    make, side, log_evidence = CASES[case]
    right = X.copy()
    right[2] = np.nan if new is None else new
    log_z = log_evidence(right)
    ratio = []
    for seed in range(1500):
        one = make(n_particles=2, seed=seed)
        learn(one, X, 0, 4, side)
        one.amend(2, {0: 2.4}, None if new is None else {0: new})
        learn(one, X, 4, 5, side)
        ratio.append(math.exp(one.log_evidence - log_z))
    assert np.mean(ratio) == pytest.approx(1.0, abs=3.5 * np.std(ratio) / math.sqrt(len(ratio)))


@pytest.mark.parametrize("case", CASES)
def test_back_and_forth_and_a_restart_change_nothing(case):
    make, side, _ = CASES[case]
    side = {name: values * 8 for name, values in side.items()}
    one, rows = make(n_particles=7), np.tile(X, (8, 1))
    learn(one, rows, 0, 40, side)
    before = one.summary().to_pydict()
    evidence = one.log_evidence
    row = one.n_seen - 1
    one.amend(row, {0: 1.9}, {0: 7.0})
    assert one.log_evidence != pytest.approx(evidence)
    other = type(one).from_bytes(one.to_bytes())
    for each in (one, other):
        each.amend(row, {0: 7.0}, {0: 1.9})
        assert each.log_evidence == pytest.approx(evidence)
        after = each.summary().to_pydict()
        assert after.keys() == before.keys()
        for name, column in before.items():
            assert after[name] == pytest.approx(column)
        learn(each, X, 0, 5, side)
    assert one.to_bytes() == other.to_bytes()


def test_a_picture_forgets_too():
    one = window_graph()
    one.learn_many(X)
    one.amend(3, {0: 0.1}, None)
    *_, scores, values = one._recent.rows()
    assert np.isnan(values[3]).all()
    assert np.isnan(scores[3])


def test_what_is_refused():
    one = window_graph()
    with pytest.raises(ConfigError, match="last 0 rows"):
        one.amend(0, {0: 0.0}, None)  # before the first row
    one.learn_many(X)
    state = one.to_bytes()
    for gone in (0, 2, 5):
        with pytest.raises(ConfigError, match="last 2 rows"):
            one.amend(gone, {0: 0.0}, None)
    for new in ({0: math.inf}, {1: 2.0}, {0: "much"}):
        with pytest.raises(SchemaError):
            one.amend(4, {0: 1.9}, new)
    assert one.to_bytes() == state


def test_rows_of_forgotten_clusters_cannot_be_corrected():
    tight = NormalGamma(0.0, 0.01, 20.0, 1.0)
    one = GroupDP(n_shared=1, alpha=ALPHA, likelihood=tight, max_tables=2, n_particles=3)
    one.learn_many([[0.0], [0.1], [90.0], [91.0], [90.5], [-90.0], [-90.2]])
    assert one.summary()["id"].to_pylist() == [2, 5]
    one.amend(2, {0: 90.0}, {0: 90.8})
    assert one.summary()["mean_0"].to_pylist() == pytest.approx([90.8, -90.1], abs=0.5)
    for gone in (0, 1):
        with pytest.raises(ConfigError, match="last 5 rows"):
            one.amend(gone, {0: 0.0}, None)


# -- by variational inference ----------------------------------------------------------------------


def stream(**options):
    fixed = {"learn_prior": False, "memory": math.inf, "season": None}
    return SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), **fixed | options)


@pytest.mark.parametrize("new", [8.3, None])
def test_a_stream_takes_its_row_to_another_table(new):
    """The bound ends where that of the corrected rows does, and later rows are as probable."""
    wrong = np.tile([0.1, -0.2, 0.3, 8.1, 7.9, 8.2, 0.2, 0.0, 8.0], 5)[:, None]
    right = wrong.copy()
    right[43] = np.nan if new is None else new  # the fifth 0.0
    one, other = stream(), stream()
    one.learn_many(wrong)
    other.learn_many(right)
    learned = one.bound
    one.amend(43, {0: wrong[43, 0]}, None if new is None else {0: new})
    assert abs(one.bound - learned) > 0.1
    for model in (one, other):
        model.learn_many(np.tile([8.0, 0.1], 12)[:, None])
    assert one.bound == pytest.approx(other.bound, abs=0.05)
    for y in (0.0, 4.0, 8.0):
        assert one.score_one({0: y}) == pytest.approx(other.score_one({0: y}), abs=0.01)


def test_a_stream_knows_what_it_learned():
    one = SeqDDCRP()
    rng = np.random.default_rng(3)
    rows = rng.normal(0.0, 1.0, (300, 2)) + 6.0 * (np.arange(300) // 40 % 2)[:, None]
    one.learn_many(rows)
    state = one.to_bytes()
    with pytest.raises(ConfigError, match="other values"):
        one.amend(290, {0: 1.0, 1: 2.0}, None)
    with pytest.raises(ConfigError, match="last 128 rows"):
        one.amend(100, {0: 1.0, 1: 2.0}, None)
    assert one.to_bytes() == state
    one.amend(290, dict(enumerate(rows[290])), {0: 1.0})
    assert one._early.rows(2)[290] == pytest.approx([1.0, math.nan], nan_ok=True)
    other = SeqDDCRP.from_bytes(one.to_bytes())
    for each in (one, other):
        each.learn_many(rows[:20])
    assert one.to_bytes() == other.to_bytes()


def test_a_contest_goes_on_without_the_old_values():
    rng = np.random.default_rng(4)
    rows = rng.normal(0.0, 1.0, (257, 40))
    one = SeqDDCRP()
    for row in rows:
        one.learn_one(dict(enumerate(row)))
    assert one._early.contest is not None
    one.amend(250, dict(enumerate(rows[250])), None)
    assert one._early.contest is None
    x, n = one._stream.state.rows.x, one._stream.state.counts[0]
    assert np.isnan(x[n - 7]).all()
    assert np.isfinite(x[n - 6]).all()


def test_seasons_cannot_be_taken_out():
    one = SeqDDCRP(season=24)
    hours = np.arange(400)
    one.learn_many(10.0 * np.sin(2.0 * np.pi * hours / 24.0)[:, None])
    with pytest.raises(ConfigError, match="seasons"):
        one.amend(399, {0: 0.0}, None)
