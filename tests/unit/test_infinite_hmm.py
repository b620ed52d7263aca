"""The infinite hidden Markov model: enumeration, transitions, a chain that is known."""

import math
from functools import cache

import numpy as np
import pytest

from streamddcrp import GroupDP
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import concentration
from streamddcrp.models.graph.group_state import Config, dense, empty_state
from streamddcrp.models.graph.groups import GroupEngine, step
from tests.oracles import infinite_hmm as oracle
from tests.oracles.graph_crp import partitions

X = np.array([0.3, -1.2, 0.4, 2.4, 2.1])[:, None]
PRIOR = NormalGamma(0.0, 0.5, 2.0, 1.0)
GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
GAMMA = ("gamma", 2.0, 1.5)


def learn(rows, seed=0, n_aux=2, n_particles=3, moves=0, alpha=0.8):
    value, nodes, log_prior = concentration(alpha)
    config = Config(
        PRIOR.family, PRIOR.hyper(1), value, n_aux, 0, n_particles, True, moves, seed, nodes,
        np.log(nodes), log_prior,
    )  # fmt: skip
    n, none = len(rows), np.zeros(1, np.int64)
    state = step(config, empty_state(config), rows, np.arange(float(n)), np.zeros(n, int), none)[0]
    return config, state


@cache
def enumerated(n_aux, alpha):
    """Partitions, their probabilities, the log evidence, and the posterior mean of alpha.

    Where alpha is learned, it is summed out over its values.
    """
    if alpha != GAMMA:
        return *oracle.posterior(X, n_aux, alpha, PRIOR), alpha
    _, nodes, log_prior = concentration(alpha)
    parts = [oracle.posterior(X, n_aux, node, PRIOR) for node in nodes.tolist()]
    weight = np.exp(log_prior + [log_z for *_, log_z in parts])
    joint = sum(w * p for w, (_, p, _) in zip(weight, parts, strict=True)) / weight.sum()
    return parts[0][0], joint, math.log(weight.sum()), float(nodes @ weight / weight.sum())


@pytest.mark.parametrize(("n_aux", "n"), [(1, 5), (2, 4), (3, 4)])
def test_probabilities_sum_to_one(n_aux, n):
    for alpha in (0.3, 2.0):
        p = [math.exp(oracle.log_prior(z, n_aux, alpha)) for z in partitions(n_aux + n)]
        assert sum(p) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.8, GAMMA])
@pytest.mark.parametrize("moves", [0, 2])
@pytest.mark.parametrize("n_aux", [1, 2])
def test_evidence_and_means_have_no_bias(n_aux, moves, alpha):
    """Over seeds: evidence; it times clusters with rows, auxiliary items in the last one, alpha."""
    found, probs, log_z, mean_alpha = enumerated(n_aux, alpha)
    expected = np.zeros(3)
    for z, p in zip(found, probs, strict=True):
        expected += p * np.array([1.0, len(set(z[n_aux:])), z[:n_aux].count(z[-1])])
    expected = np.append(expected, mean_alpha)
    values = []
    for seed in range(1500):
        config, state = learn(X, seed, n_aux, moves=moves, alpha=alpha)
        particles = state.particles
        n_clusters = (particles.entry >= 0).sum(axis=1)
        aux = [dense(state.aux, p, 1, particles.entry.shape[1])[0] for p in range(3)]
        in_last = np.array(aux)[np.arange(3), particles.last]
        means = np.array([np.ones(3), n_clusters, in_last]) @ particles.weight
        at, weight = GroupEngine(PRIOR, config, state, 1).alpha_weights()
        means = np.append(means, at @ weight)
        values.append(math.exp(state.log_evidence - log_z) * means)
    error = np.std(values, axis=0) / math.sqrt(len(values))
    assert (error > 0).all()
    assert (np.abs(np.mean(values, axis=0) - expected) < 3 * error).all()


def chain(n, seed, apart):
    """Rows of three states that stay with probability .9, and then go on in one direction."""
    rng = np.random.default_rng(seed)
    z = np.zeros(n, int)
    for t in range(1, n):
        z[t] = z[t - 1] if rng.random() < 0.9 else (z[t - 1] + 1) % 3
    return (np.array([-apart, 0.0, apart])[z] + rng.normal(size=n))[:, None], z


def test_a_chain_is_found():
    rows, z = chain(900, 1, apart=6.0)
    model = GroupDP(likelihood=GIVEN, n_particles=20, markov=True)
    out = model.step_many(rows)
    summary = model.summary().to_pydict()
    heavy = np.argsort(summary["weight"])[-3:]
    heavy = heavy[np.argsort(np.array(summary["mean_0"])[heavy])]
    wrong = np.array(summary["id"])[heavy][z] != out["label"].to_numpy()
    assert wrong.mean() < 0.05
    found = model.transitions()
    assert (found.sum(axis=1) < 1.0).all()
    counts = np.zeros((3, 3))
    np.add.at(counts, (z[:-1], z[1:]), 1)
    n = counts.sum(axis=1, keepdims=True)
    # auxiliary items and alpha have a share of 21 / (21 + n); a wrong row is in two transitions
    bound = 21 / (21 + n) + 2 * wrong.sum() / n
    assert (np.abs(found[np.ix_(heavy, heavy)] - counts / n) < bound).all()


def test_what_came_before_helps_where_states_overlap():
    rows, _ = chain(600, 2, apart=2.0)
    score = [
        GroupDP(likelihood=GIVEN, n_particles=20, markov=markov).step_many(rows)["score"].to_numpy()
        for markov in (False, True)
    ]
    gain = (score[0] - score[1])[100:]
    assert gain.mean() > 3 * gain.std() / math.sqrt(len(gain))


def test_alpha_of_each_particle_is_given_its_own_rows():
    """From the tables of the rows, where the groups and what they see are counted anew."""
    rows, _ = chain(300, 3, apart=6.0)
    config, state = learn(rows, n_aux=5, n_particles=10, moves=3, alpha=GAMMA)
    particles, base = state.particles, state.grid.base
    for p in np.flatnonzero(particles.weight > 0):
        seen = [*range(5)]
        K = particles.entry.shape[1]
        for size in dense(state.own, p, K + 1, K).sum(axis=1):
            seen += range(5, 5 + int(size))
        expected = config.log_prior - np.log(config.nodes[:, None] + seen).sum(axis=1)
        np.testing.assert_allclose(base[p], expected, rtol=1e-12)
    assert len({tuple(row) for row in base[particles.weight > 0]}) > 1


def test_every_row_but_the_last_is_followed_by_one():
    """In each particle: rows at a table are rows after it, and the last row."""
    rows, _ = chain(200, 4, apart=3.0)
    for moves in (0, 3):
        _, state = learn(rows, n_aux=5, n_particles=10, moves=moves)
        particles, K = state.particles, state.particles.entry.shape[1]
        for p in np.flatnonzero(particles.weight > 0):
            own = dense(state.own, p, K + 1, K)
            last = np.arange(K) == particles.last[p]
            np.testing.assert_array_equal(own.sum(axis=0), own[1:].sum(axis=1) + last)


def test_cutting_and_restart_change_no_bit_where_alpha_is_learned():
    rows, _ = chain(150, 1, apart=3.0)
    model = GroupDP(likelihood=GIVEN, n_particles=20, n_shared=5, markov=True, alpha=GAMMA)
    whole = model.clone()
    whole.learn_many(rows)
    for start in range(0, 150, 37):
        model.learn_many(rows[start : start + 37])
        model = GroupDP.from_bytes(model.to_bytes())
    assert model.to_bytes() == whole.to_bytes()
    assert model.alpha_mean == whole.alpha_mean
    after = whole.transitions()
    assert ((after >= 0.0) & (after <= 1.0)).all()
    assert (after.sum(axis=1) < 1.0).all()


def test_what_is_refused():
    with pytest.raises(ConfigError, match="one number in a Markov chain"):
        GroupDP(n_shared=(3, 2), markov=True)
    with pytest.raises(ConfigError, match="markov must be True"):
        GroupDP().transitions()
    model = GroupDP(likelihood=GIVEN, markov=True)
    assert model.transitions().shape == (0, 0)
    with pytest.raises(SchemaError, match="expected none in a Markov chain"):
        model.learn_one({0: 1.0}, group="a")
