"""States: their filters against all paths, mixed ones against their counts, and what is said."""

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.contract import LABEL, P_NEW
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictive, posterior
from streamddcrp.models.seqddcrp.kernels import states as kernels
from streamddcrp.models.seqddcrp.kernels.layout import (
    ASKED,
    AT,
    DEPENDENCE,
    ENOUGH,
    FOLLOWED,
    LIKELY,
    N_COLUMNS,
    N_COUNTS,
    N_FOUNDED,
    N_LEFT,
    N_MIXED,
    N_SEEN,
    N_SUMS,
    N_TABLES,
    NEW_BETA,
    NEXT_ID,
    OUTLIER,
    REDRAWN,
    RUNS_LAST,
    SETTLED,
    STATE,
)
from streamddcrp.models.seqddcrp.state import MIXED, Atoms, ComponentTable, Scratch, empty_state
from streamddcrp.records import empty
from tests.oracles.plain import plain

K = 3
SHOWN = ("birth", "split")  # events by which users know of a table
LENGTHS = {
    "K": 8,
    "A": 8,
    "P": 1,
    "Q": 1,
    "W": 1,
    "G": 1,
    "O": 1,
    "D": 1,
    "N": 1,
    "L": 1,
    "R": 1,
    "H": 1,
    "E": 1,
    **MIXED,
}


class Recall:
    recall = True
    hyper = np.array([1.0])


def parts(rng):
    """Return arrays of three tables that are known, ids 5 to 7, and of what follows them."""
    atoms, table, scratch = (empty(kind, LENGTHS) for kind in (Atoms, ComponentTable, Scratch))
    counts, sums = np.zeros(N_COUNTS, np.int64), np.zeros(N_SUMS)
    counts[[N_TABLES, NEXT_ID, ENOUGH, RUNS_LAST]] = K, 9, 1, 1
    counts[[STATE, LIKELY, AT, ASKED]] = -1
    weights = rng.dirichlet(np.ones(K + 1))
    atoms.beta[:K], sums[NEW_BETA] = weights[:K], weights[K]
    table.ids[:K], atoms.reported[:K] = (5, 6, 7), 1
    return atoms, table, counts, sums, scratch


@pytest.mark.parametrize("seed", range(4))
def test_the_filter_and_its_rate_sum_over_all_paths(seed):
    rng, n = np.random.default_rng(seed), 5
    atoms, table, counts, sums, scratch = parts(rng)
    first, logs = rng.dirichlet(np.ones(K)), rng.normal(0.0, 2.0, (n, K + 1))
    atoms.filtered[:K] = first
    sums[[REDRAWN, FOLLOWED]] = 1.0, 8.0
    out, rates = np.zeros(N_COLUMNS), []
    follow = plain(kernels.follow)
    for i, row in enumerate(logs):
        if i > 0:
            atoms.filtered[K] = 0.0  # no table was opened
        scratch.own[:K], scratch.log_new[0] = row[:K], row[K]
        before = sums.copy()
        rates.append(sums[REDRAWN] / sums[FOLLOWED])
        follow(Recall, atoms, table, counts, sums, scratch, out)
    beta = np.append(atoms.beta[:K], sums[NEW_BETA])
    total, drawn_again = np.zeros(K + 1), 0.0
    for start, *path in product(range(K), repeat=n):  # a new table, K, at the last row only
        for last in range(K + 1):
            p, here, again = first[start], start, 0.0
            for rho, row, k in zip(rates, logs, [*path, last], strict=True):
                again = p * rho * beta[k] * np.exp(row[k])
                p, here = again + p * (1.0 - rho) * (k == here) * np.exp(row[k]), k
            total[last] += p
            drawn_again += again
    found = atoms.filtered[: K + 1]
    np.testing.assert_allclose(found / found.sum(), total / total.sum(), rtol=1e-12)
    keep = 1.0 - 1.0 / kernels.MEMORY
    assert sums[REDRAWN] == pytest.approx(keep * before[REDRAWN] + drawn_again / total.sum())
    assert sums[FOLLOWED] == pytest.approx(keep * before[FOLLOWED] + 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_joint_filter_sums_over_all_stays_changes_and_states(seed):
    """Three tables and two mixed states, with the rates and densities that each row met."""
    rng, n, mixed = np.random.default_rng(seed), 5, 2
    atoms, table, counts, sums, scratch = parts(rng)
    counts[N_FOUNDED], counts[ENOUGH] = mixed, 2  # no new table
    atoms.n_rows[:K] = 99
    first = rng.dirichlet(np.ones(K + mixed))
    atoms.joint[:K], atoms.mix_weight[:mixed] = first[:K], first[K:]
    atoms.mix_at[:mixed], atoms.mix_id[:mixed] = 0, (11, 12)
    atoms.mix[:mixed, :K] = rng.gamma(3.0, 1.0, (mixed, K))
    atoms.mix_total[:mixed] = atoms.mix[:mixed].sum(axis=1)
    sums[[REDRAWN, FOLLOWED]] = 1.0, 20.0
    follow, leaving, densities, draws = plain(kernels.follow), [], [], []
    for _ in range(n):
        logs = rng.normal(0.0, 2.0, K)
        d = np.exp(logs - logs.max())
        e = [plain(kernels._predictive)(atoms, s, d, d.sum() / (K + 1), K) for s in range(mixed)]
        scratch.own[:K], scratch.log_new[0] = logs, -np.inf
        follow(Recall, atoms, table, counts, sums, scratch, np.zeros(N_COLUMNS))
        rho = min(plain(kernels.switch_rate)(sums), kernels.LARGEST_RATE)  # as it was used
        leaving.append([rho] * K + [1.0 / kernels.LONG] * mixed)
        densities.append([*d, *e])
        draws.append(np.r_[atoms.beta[:K], np.full(mixed, 1.0 / (K + 1))] / (1.0 + mixed / (K + 1)))
        sums[[REDRAWN, FOLLOWED]], counts[[N_MIXED, N_LEFT]] = (1.0, 20.0), 0
    total = np.zeros(K + mixed)
    for start, *path in product(range(K + mixed), repeat=n + 1):
        p, here = first[start], start
        for leaves, e, draw, k in zip(leaving, densities, draws, path, strict=True):
            p *= (leaves[here] * draw[k] + (1.0 - leaves[here]) * (k == here)) * e[k]
            here = k
        total[here] += p
    found = np.r_[atoms.joint[:K], atoms.mix_weight[:mixed]]
    np.testing.assert_allclose(found / found.sum(), total / total.sum(), rtol=1e-10)


def log_marginal(counts, n_options):
    """Log probability of labels with these counts, in one order, over the concentrations."""
    logs = []
    for a in kernels.CONCENTRATIONS:
        log_p = math.lgamma(a) - math.lgamma(a + sum(counts))
        log_p += sum(math.lgamma(c + a / n_options) - math.lgamma(a / n_options) for c in counts)
        logs.append(log_p)
    return np.logaddexp.reduce(logs) - math.log(len(logs))


@pytest.mark.parametrize("seed", range(3))
def test_a_run_of_certain_labels_has_the_marginal_of_its_counts(seed):
    rng, base = np.random.default_rng(seed), 1.0 / (K + 1)
    atoms = empty(Atoms, LENGTHS)
    labels, log_p = rng.integers(K, size=8), 0.0
    for k in labels:
        density = np.eye(K)[k]
        log_p += math.log(plain(kernels._learn)(atoms, 0, density, base, base, K, 1.0))
    counts = np.bincount(labels, minlength=K)
    np.testing.assert_allclose(atoms.mix[0, :K], counts, rtol=1e-12)
    assert log_p == pytest.approx(log_marginal([*counts, 0], K + 1), rel=1e-12)


def test_two_mixtures_merge_by_their_marginals():
    rng = np.random.default_rng(4)
    atoms = empty(Atoms, LENGTHS)
    atoms.mix[:2, :K] = rng.integers(1, 40, (2, K))
    a, b = atoms.mix[:2, :K]
    gain = log_marginal(a + b, K) - log_marginal(a, K) - log_marginal(b, K)
    assert plain(kernels._merge_gain)(atoms, 0, 1, K) == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("column", range(3))
def test_columns_together_are_compared_with_a_column_and_the_others(column):
    rng, D = np.random.default_rng(column), 3
    X, y = rng.normal(size=(60, D)), rng.integers(K, size=60)
    shares, x = rng.dirichlet(np.ones(K)), rng.normal(size=D)

    def mean(columns):
        """Density of some columns of the row in the mixture of tables of these columns alone."""
        family, total = NormalGamma(mean=0.0, rate=1.0), 0.0
        hyper = family.hyper(len(columns))
        for k in range(K):
            stats, post = (np.zeros(table.stats.shape[1]), np.zeros(table.post.shape[1]))
            for row in X[y == k]:
                add_stats(family.family, hyper, row[columns], 1.0, stats)
            posterior(family.family, hyper, stats, post)
            total += shares[k] * math.exp(log_predictive(family.family, hyper, post, x[columns]))
        return total

    family = NormalGamma(mean=0.0, rate=1.0)
    config = SeqDDCRP(likelihood=family)._recipe.config(
        family.hyper(D), family.family, SeqDDCRP()._decay, clocked=False, opening=0.1
    )
    state = empty_state(config)
    table, counts, sums = state.table, state.counts, state.sums
    counts[N_TABLES], counts[AT], counts[N_SEEN], sums[DEPENDENCE] = K, 0, column, 2.0
    state.atoms.mix[0, :K] = 1e6 * shares
    for row, k in zip(X, y, strict=True):
        add_stats(config.family, config.hyper, row, 1.0, table.stats[k])
    for k in range(K):
        posterior(config.family, config.hyper, table.stats[k], table.post[k])
    compare = plain(kernels.compare_columns)
    compare(config, state.atoms, counts, sums, state.scratch, table, x, np.empty(D))
    rest = [d for d in range(D) if d != column]
    gain = math.log(mean([*range(D)]) / mean([column]) / mean(rest))
    assert sums[DEPENDENCE] == pytest.approx(2.0 * (1.0 - 1.0 / kernels.CAP) + gain, rel=1e-9)


def test_what_lasted_as_one_table_is_a_mixed_state_of_its_parts():
    atoms, table, counts, *_ = parts(np.random.default_rng(0))
    atoms.alone[1], atoms.joint[:K] = 200, (0.0, 0.9, 0.1)
    plain(kernels.part)(atoms, table, counts, 1, 2, 0.25)
    assert atoms.mix_id[0] == table.ids[1]
    np.testing.assert_allclose(atoms.mix[0, :K], [0.0, 150.0, 50.0])
    assert atoms.mix_total[0] == 200.0
    assert counts[N_FOUNDED] == 1
    plain(kernels.part)(atoms, table, counts, 1, 2, 0.5)  # it has not lasted since
    assert counts[N_FOUNDED] == 1
    np.testing.assert_allclose(atoms.mix[0, :K], [0.0, 75.0, 75.0])


NOISE = {
    "clipped": lambda rng, shape: np.clip(rng.normal(size=shape), -1.0, 1.0),
    "uniform": lambda rng, shape: rng.uniform(size=shape),
    "rain": lambda rng, shape: np.where(rng.random(shape) < 0.7, 0.0, rng.gamma(0.7, 5.0, shape)),
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_of_several_columns_is_one_state(kind):
    out = SeqDDCRP().step_many(NOISE[kind](np.random.default_rng(1), (2000, 3)))
    label, state = (out[name].to_numpy()[300:] for name in ("label", "state"))
    assert np.mean(label[1:] != label[:-1]) > 0.3
    assert np.mean(state[1:] != state[:-1]) <= 0.002


@pytest.mark.parametrize("seed", range(2))
def test_noise_that_many_tables_make_up_is_one_state(seed):
    noise = np.random.default_rng(seed).beta(0.5, 0.5, (2500, 1))
    out = SeqDDCRP().step_many(noise)
    label, state = (out[name].to_numpy()[300:] for name in ("label", "state"))
    assert np.mean(label[1:] != label[:-1]) > 0.3
    assert np.mean(state[1:] != state[:-1]) <= 0.002


def two_mixtures(n):
    """Two mixtures of the same three Gaussians, which take turns of 400 rows."""
    rng = np.random.default_rng(3)
    y = np.arange(n) // 400 % 2
    shares = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    z = (rng.random(n)[:, None] > np.cumsum(shares[y], axis=1)).sum(axis=1)
    return rng.normal(5.0 * z, 1.0)[:, None], y


def test_two_mixtures_of_the_same_tables_are_two_states_that_return():
    X, y = two_mixtures(4000)
    model = SeqDDCRP()
    state = model.step_many(X)["state"].to_numpy()
    pairs = [np.bincount(state[1200:][y[1200:] == k]) for k in (0, 1)]
    assert pairs[0].argmax() != pairs[1].argmax()
    assert sum(p.max() for p in pairs) > 0.95 * 2800
    stays = model.transitions().to_pylist()
    assert {pairs[0].argmax(), pairs[1].argmax()} <= {row["state"] for row in stays}


def runs(labels):
    """Return the lengths of runs of equal labels."""
    return np.diff(np.flatnonzero(np.r_[True, np.diff(labels) != 0, True]))


@pytest.mark.parametrize("recall", [True, False])
def test_no_state_lasts_for_one_row_whatever_the_rows(recall):
    rng = np.random.default_rng(7)
    atoms, table, counts, sums, scratch = parts(rng)
    kind = type("Kind", (), {"recall": recall, "hyper": np.array([1.0])})
    follow, states, labels = plain(kernels.follow), [], []
    for _ in range(2000):
        out = np.zeros(N_COLUMNS)
        sums[[REDRAWN, FOLLOWED]] = 50.0, 1000.0
        scratch.own[:K], scratch.log_new[0] = rng.normal(0.0, 8.0, K), -30.0
        scratch.weight[:K] = rng.dirichlet(np.full(K, 0.3))
        out[LABEL], out[P_NEW] = rng.choice([5, 6, 7]), 0.0
        out[OUTLIER] = rng.random() < 0.1
        follow(kind, atoms, table, counts, sums, scratch, out)
        states.append(out[SETTLED])
        labels.append(table.ids[np.argmax(atoms.filtered[:K])])
    assert runs(labels).min() == 1  # the rule is put to the test
    assert runs(states)[:-1].min() >= 2
    assert len(runs(states)) > 50


def changes(*stays):
    """Follow stays of these lengths that alternate between two tables; return each lag."""
    rng = np.random.default_rng(0)
    atoms, table, counts, sums, scratch = parts(rng)
    follow, states = plain(kernels.follow), []
    for at in np.repeat(np.arange(len(stays)) % 2, stays).tolist():
        out = np.zeros(N_COLUMNS)
        out[LABEL], sums[[REDRAWN, FOLLOWED]] = 5 + at, (5.0, 1000.0)
        scratch.own[:K], scratch.log_new[0] = -30.0 * (np.arange(K) != at), -60.0
        follow(Recall, atoms, table, counts, sums, scratch, out)
        states.append(int(out[SETTLED]))
    starts = np.cumsum(stays)[:-1]
    return [
        next(i for i in range(start, len(states)) if states[i] == (6 if k % 2 == 0 else 5)) - start
        for k, start in enumerate(starts)
    ]


def test_a_first_row_changes_the_state_once_first_rows_have_been_right():
    """(1 + n) / (4 + n) is two thirds after five changes whose second rows agreed."""
    assert changes(*[9] * 9) == [1] * 5 + [0] * 3


def test_single_odd_rows_do_not_change_the_state():
    """Each odd row asks twice, there and back, and the row after it is of another state."""
    lags = changes(*[9, 1] * 6, 9, 9)
    assert lags[-1] == 1
    assert lags[1:-1:2] == [0] * 6  # it stayed what it was


def test_where_rows_come_in_no_order_the_state_is_the_label():
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    X = rng.normal(means[rng.integers(3, size=1500)], 1.0)
    out = SeqDDCRP().step_many(X)
    late = slice(600, None)
    assert out["state"].to_numpy()[late].tolist() == out["label"].to_numpy()[late].tolist()


def flickering(seed):
    """Four regimes of 60 rows each, three of them near each other."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.integers(0, 4, 40), 60)
    means = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.2], [5.0, 5.0]])
    return rng.normal(means[y], 1.0), y


@pytest.mark.parametrize("seed", range(2))
def test_the_state_changes_with_the_regime_and_not_with_single_rows(seed):
    X, y = flickering(seed)
    model = SeqDDCRP(decay=("exponential", 8.0))  # at a shorter reach labels flicker less
    out = model.step_many(X)
    assert out.schema.field("state").type == pa.int64()
    label, state = (out[name].to_numpy() for name in ("label", "state"))
    events = model.events()
    assert set(state.tolist()) <= {event.label for event in events if event.kind in SHOWN}
    for event in events:  # in the order of time: two ids of one table are no change
        if event.kind == "merge":
            state = np.where(state == event.label, event.into, state)
    assert runs(state)[:-1].min() >= 2
    assert len(runs(state)) < 0.5 * len(runs(label))
    assert len(runs(state)) >= 0.7 * len(runs(y))


@pytest.mark.parametrize("make", [lambda: flickering(5), lambda: two_mixtures(2400)])
def test_any_cutting_and_a_restart_give_the_same_states(make):
    X, _ = make()
    whole, cut = SeqDDCRP(), SeqDDCRP()
    wanted = whole.step_many(X)["state"].to_pylist()
    found = []
    for start, stop in ((0, 1), (1, 260), (260, 1111), (1111, len(X))):
        found += cut.step_many(X[start:stop])["state"].to_pylist()
        cut = SeqDDCRP.from_bytes(cut.to_bytes())
    assert found == wanted
    assert cut.transitions().equals(whole.transitions())


def test_a_state_is_founded_while_only_a_new_table_is_probable():
    rng = np.random.default_rng([5, 45])
    loadings = rng.normal(size=(3, 20))
    X = rng.normal(size=(501, 3)) @ loadings + 0.7 * rng.normal(size=(501, 20))
    model = SeqDDCRP(likelihood="normal_wishart")
    model.learn_many(X[:500])  # ended in a division by 0
    assert np.isfinite(model.bound)
