"""`GroupDP` with a hierarchical Dirichlet process: the enumeration of all tables and clusters."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp

from streamddcrp import GroupDP, sample_group_dp
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import concentration

PRIOR, GAMMA = NormalGamma(0.0, 0.5, 2.0, 1.0), 1.3
X = np.array([0.3, -1.2, 2.4, 0.1, 1.9])[:, None]
GROUPS = [0, 1, 0, 1, 0]
LEARNED = ("gamma", 2.0, 1.5)


@cache
def log_marginal(rows):
    return float(PRIOR.log_marginal(PRIOR.suffstats(X[list(rows)]).sum(axis=0))[0])


@cache
def enumerated(alpha, markov=False, n_rows=5):
    """Log joints of all tables and clusters, and the cluster of each row.

    A row of a group joins a table with n rows by weight n, or opens one by alpha, which gets a
    cluster with m tables by weight m, or a new one by gamma: Teh et al., JASA 2006, section 4. In a
    Markov chain the group is the cluster before, 0 at first.
    """
    found = []

    def go(i, labels, tables, dishes, log_p):
        if i == n_rows:
            members = [tuple(j for j in range(i) if labels[j] == k) for k in range(len(dishes))]
            found.append((log_p + sum(map(log_marginal, members)), labels))
            return
        g = ((labels[-1] + 1) if labels else 0) if markov else GROUPS[i]
        mine = tables.get(g, ())
        scale = math.log(alpha + sum(n for n, _ in mine))
        for at, (n, k) in enumerate(mine):
            more = (*mine[:at], (n + 1, k), *mine[at + 1 :])
            go(i + 1, (*labels, k), tables | {g: more}, dishes, log_p + math.log(n) - scale)
        for k, m in enumerate([*dishes, GAMMA]):
            share = math.log(alpha * m / (GAMMA + sum(dishes)))
            grown = [n + (j == k) for j, n in enumerate(dishes)] + [1] * (k == len(dishes))
            more = tables | {g: (*mine, (1, k))}
            go(i + 1, (*labels, k), more, grown, log_p + share - scale)

    go(0, (), {}, [], 0.0)
    return [log_p for log_p, _ in found], [labels for _, labels in found]


def evidence(alpha, markov):
    """The log evidence, the posterior mean of alpha, and that the last two rows are together."""
    if alpha == LEARNED:
        _, nodes, log_prior = concentration(alpha)
        each = [evidence(node, markov) for node in nodes.tolist()]
        log_w = log_prior + [log_z for log_z, *_ in each]
        w = np.exp(log_w - logsumexp(log_w))
        return logsumexp(log_w), w @ nodes, w @ [together for *_, together in each]
    log_p, labels = enumerated(alpha, markov)
    log_z = logsumexp(log_p)
    same = [own[-1] == own[-2] for own in labels]
    return log_z, alpha, float(np.exp(np.array(log_p) - log_z) @ same)


@pytest.mark.parametrize("markov", [False, True])
@pytest.mark.parametrize("alpha", [0.8, LEARNED])
def test_evidence_alpha_and_clusters_have_no_bias(alpha, markov):
    log_z, alpha_mean, together = evidence(alpha, markov)
    groups = {} if markov else {"group": GROUPS}
    ratio, values = [], []
    for seed in range(1500):
        model = GroupDP(
            gamma=GAMMA, alpha=alpha, markov=markov, likelihood=PRIOR, n_particles=3, seed=seed
        )
        model.learn_many(X, **groups)
        ratio.append(math.exp(model.log_evidence - log_z))
        particles = model._engine.state.particles
        same = particles.label[:, 4] == particles.label[:, 3]
        values.append([ratio[-1] * model.alpha_mean, ratio[-1] * (particles.weight @ same)])
    assert np.mean(ratio) == pytest.approx(1.0, abs=3.5 * np.std(ratio) / math.sqrt(len(ratio)))
    error = np.std(values, axis=0) / math.sqrt(len(values))
    gap = np.abs(np.mean(values, axis=0) - [alpha_mean, together])
    assert (gap <= 3.5 * error).all()


def test_predictions_are_those_of_the_evidence():
    """The score of each row is what it adds to the log evidence."""
    model = GroupDP(gamma=GAMMA, alpha=0.8, likelihood=PRIOR, n_particles=20)
    model.learn_one({0: X[0, 0]}, group=GROUPS[0])
    for i, x in enumerate(X[1:, 0], 1):
        before = model.log_evidence
        score = model.score_one({0: x}, group=GROUPS[i])
        probs = model.predict_proba_one({0: x}, group=GROUPS[i])
        model.learn_one({0: x}, group=GROUPS[i])
        assert model.log_evidence - before == pytest.approx(-score, abs=1e-12)
        assert sum(probs.values()) == pytest.approx(1.0)


def test_transitions_leave_room_for_new_clusters():
    model = GroupDP(gamma=GAMMA, alpha=0.8, likelihood=PRIOR, n_particles=1, markov=True)
    model.learn_many(np.tile(X, (6, 1)))
    found, state = model.transitions(), model._engine.state
    assert found.shape == (model.n_tables, model.n_tables)
    n_tables = state.particles.n_aux[0].sum()
    rows = np.bincount(state.particles.label[0, :29], minlength=len(state.particles.entry[0]))
    size = rows[state.particles.entry[0] >= 0]
    new = 0.8 / (0.8 + size) * GAMMA / (GAMMA + n_tables)
    assert found.sum(axis=1) == pytest.approx(1.0 - new)


def test_correlations_and_what_is_refused():
    model = GroupDP(gamma=GAMMA, alpha=0.8, likelihood=PRIOR)
    assert model.correlation("a", "b") == pytest.approx(1.8 / (1.8 + GAMMA))
    for options in ({"gamma": 0.0}, {"gamma": 1.0, "n_shared": (4, 3)}):
        with pytest.raises(ConfigError, match="gamma"):
            GroupDP(**options)


def sampled(n, **options):
    """20,000 sweeps over the first rows."""
    return sample_group_dp(
        X[:n], PRIOR, group=GROUPS[:n], gamma=GAMMA, n_chains=1, n_sweeps=20_000, seed=5, **options
    )


@pytest.mark.parametrize("alpha", [0.8, LEARNED])
def test_the_sampler_draws_clusters_and_alpha_from_the_posterior(alpha):
    draws, (_, mean, together) = sampled(5, alpha=alpha), evidence(alpha, False)
    same = (draws.labels[:, 4] == draws.labels[:, 3]).astype(float)
    for found, truth in ((same, together), (draws.alpha, mean)):
        error = found.reshape(100, -1).mean(axis=1).std() / 10.0
        assert found.mean() == pytest.approx(truth, abs=4.0 * error + 1e-12)


def test_the_sampler_draws_partitions_from_the_posterior():
    draws, (log_p, labels), exact = sampled(5, alpha=0.8), enumerated(0.8), {}
    for own, p in zip(labels, np.exp(np.array(log_p) - logsumexp(log_p)).tolist(), strict=True):
        name = tuple(own.index(k) for k in own)
        exact[name] = exact.get(name, 0.0) + p
    seen = Counter(map(tuple, draws.labels.tolist()))
    assert set(seen) <= set(exact)
    # of 20,000 independent draws .017 would be expected
    assert 0.5 * sum(abs(p - seen[own] / 20_000) for own, p in exact.items()) < 0.025
    for value in draws.log_joint[:200]:
        assert np.abs(value - np.array(log_p)).min() < 1e-9


@pytest.mark.parametrize("n", [1, 4])  # the next row is of a new group, and of an old one
def test_densities_of_the_sampler_are_ratios_of_evidences(n):
    found = sampled(n, alpha=0.8).log_predictive(X[n : n + 1], GROUPS[n : n + 1])
    before, after = (logsumexp(enumerated(0.8, False, rows)[0]) for rows in (n, n + 1))
    assert found[0] == pytest.approx(after - before, abs=0.01)


def test_what_the_sampler_refuses():
    for options in ({"markov": True}, {"n_shared": "auto"}, {"n_shared": (2, 2)}, {"gamma": 0.0}):
        with pytest.raises(ConfigError, match="gamma"):
            sample_group_dp(X, PRIOR, **{"gamma": 1.0} | options)
