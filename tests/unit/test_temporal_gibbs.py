"""The Gibbs sampler of the infinite temporal mixture against enumeration of its chains."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp, roots_genlaguerre

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import GammaPoisson
from streamddcrp.models.temporal.emissions.conjugate import RHOS, ConjugateDecay
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import KERNELS
from streamddcrp.models.temporal.gibbs import Sampler, sample_temporal_dpm
from streamddcrp.models.temporal.window import Settings
from tests.oracles import temporal

SIZES = (2, 1, 0, 2, 1)  # with an epoch that a chain may bridge
KAPPA = temporal.kernel(2.0, 2)
FIXED = {"alpha": 0.8, "decay": ("exponential", 2.0), "window": 2}
SCALES = (0.5, 2.0, 0.4, 0.5)  # birth mean, birth variance, drift, noise


def law(mean, birth, drift, noise):
    return GaussianDrift.known(*(np.array([value]) for value in (mean, birth, drift, noise)))


def gaussian_evidence(X, c, scales=SCALES):
    """By dense algebra; the chain begins with its first row."""
    mean, birth, drift, noise = scales
    out = 0.0
    for k in range(max(map(max, filter(None, c))) + 1):
        held = [np.array([float(label == k) for label in row]) for row in c]
        b = next(t for t, w in enumerate(held) if w.any())
        rows = [x[:, 0] for x in X[b:]]
        out += temporal.dense_chain(rows, held[b:], noise, drift, mean, birth)[2]
    return out


def chain_rows(X, c, k):
    return [x[np.array(row, int) == k] for x, row in zip(X, c, strict=True)]


def n_chains(c):
    return len({k for row in c for k in row})


def gaussian():
    rng = np.random.default_rng(0)
    X = [rng.normal(0.3, 1.2, (n, 1)) for n in SIZES]
    return X, law(*SCALES), lambda c: gaussian_evidence(X, c)


def counts():
    X = [np.array(x, float)[:, None] for x in ((0, 4), (3,), (), (1, 5), (2,))]

    def evidence(c):
        each = [[x[:, 0] for x in chain_rows(X, c, k)] for k in range(n_chains(c))]
        return sum(temporal.fading_poisson(rows, 1.5, 0.7, 0.8) for rows in each)

    return X, ConjugateDecay(GammaPoisson(1.5, 0.7), 1, forget=0.8), evidence


def words():
    rows = [[[1, 2, 0], [0, 0, 3]], [[0, 1, 1]], [], [[2, 0, 0], [0, 1, 2]], [[1, 1, 0]]]
    X = [np.array(x).reshape(-1, 3) for x in rows]

    def evidence(c):
        each = [chain_rows(X, c, k) for k in range(n_chains(c))]
        return sum(temporal.fading_words(rows, np.full(3, 0.6), 0.7) for rows in each)

    emission = TextDecay(beta=0.6, rho=0.7, n_words=3)
    return [sparse.csr_array(x) for x in X], emission, evidence


def canonical(flat):
    """Labels by first row."""
    names = {}
    return tuple(names.setdefault(k, len(names)) for k in flat)


def frequencies(draws, states):
    """Share of the draws in every state, and its standard error from a hundred batches."""
    at = {canonical(k for row in c for k in row): s for s, c in enumerate(states)}
    flat = np.concatenate(draws.labels, axis=1)
    some, which = np.unique(flat, axis=0, return_inverse=True)
    number = np.array([at[canonical(labels)] for labels in some.tolist()])[which.ravel()]
    hits = (number[:, None] == np.arange(len(states))).astype(float)
    batches = hits[: len(hits) // 100 * 100].reshape(100, -1, len(states)).mean(axis=1)
    return hits.mean(axis=0), batches.std(axis=0, ddof=1) / 10.0


def follows(share, error, p):
    """Five errors of a batch estimate with 99 degrees of freedom; one of N draws that is rare."""
    return (np.abs(share - p) <= 5.0 * np.maximum(error, np.sqrt(p * (1.0 - p) / 8_000))).all()


@pytest.mark.parametrize("case", [gaussian, counts, words])
def test_draws_follow_the_posterior(case):
    X, emission, evidence = case()
    states = list(temporal.chains(SIZES, 2))
    logs = np.array([temporal.log_joint_infinite(c, 0.8, KAPPA) + evidence(c) for c in states])
    p = np.exp(logs - logsumexp(logs))
    draws = sample_temporal_dpm(
        X,
        emission,
        **FIXED,
        learn_scales=False,
        n_chains=1,
        n_sweeps=8_000,
        burn_in=50,
        thin=1,
        seed=1,
    )
    share, error = frequencies(draws, states)
    assert follows(share, error, p)
    assert error.max() < 0.02
    at = {
        canonical(k for row in c for k in row): value for c, value in zip(states, logs, strict=True)
    }
    flat = np.concatenate(draws.labels, axis=1)[:200]
    expected = [at[canonical(labels)] for labels in flat.tolist()]
    assert draws.log_joint[:200] == pytest.approx(expected, abs=1e-9)


def middles(of, n):
    """Return the middles of n equally probable parts of a law."""
    return of.ppf((np.arange(n) + 0.5) / n)


def close(values, expected):
    """Mean of autocorrelated values, within five standard errors from a hundred batches."""
    batches = values[: len(values) // 100 * 100].reshape(100, -1).mean(axis=1)
    return abs(values.mean() - expected) <= 5.0 * batches.std(ddof=1) / 10.0


def test_concentration_decay_and_memory_follow_the_posterior():
    X, sizes = counts()[0][:4], SIZES[:4]
    emission = ConjugateDecay(GammaPoisson(1.5, 0.7), 1)
    states = list(temporal.chains(sizes, KERNELS.shape[1]))
    alphas, parts = roots_genlaguerre(20, 1.0)  # of the integral over Gamma(2, 1)
    logs = np.full((len(states), len(KERNELS), len(alphas), len(RHOS)), -np.inf)
    for s, c in enumerate(states):
        evidence = np.zeros(len(RHOS))
        for k in range(n_chains(c)):
            rows = [x[:, 0] for x in chain_rows(X, c, k)]
            evidence += [temporal.fading_poisson(rows, 1.5, 0.7, rho) for rho in RHOS]
        at = [[t for t, row in enumerate(c) if k in row] for k in range(n_chains(c))]
        silence = max((b - a for held in at for a, b in pairwise(held)), default=1)
        for g, weights in enumerate(KERNELS):
            kappa = weights[weights > 0.0].tolist()
            if silence > len(kappa):
                continue  # two chains, not one
            for a, alpha in enumerate(alphas):
                prior = temporal.log_joint_infinite(c, alpha, kappa) + math.log(parts[a])
                logs[s, g, a] = prior + evidence
    p = np.exp(logs - logsumexp(logs))
    draws = sample_temporal_dpm(X, emission, n_chains=1, n_sweeps=8_000, burn_in=50, thin=1, seed=2)
    share, error = frequencies(draws, states)
    assert follows(share, error, p.sum(axis=(1, 2, 3)))
    for g, weights in enumerate(KERNELS):
        assert close((draws.past_weights == weights).all(axis=1) * 1.0, p[:, g].sum())
    for r, rho in enumerate(RHOS):
        assert close((draws.scales["rho"] == rho) * 1.0, p[..., r].sum())
    assert close(draws.alpha, p.sum(axis=(0, 1, 3)) @ alphas)


def test_scales_follow_the_posterior():
    """Noise, drift and birth variance, integrated over a grid of prior quantiles."""
    x, when = np.array([0.2, 2.9, 0.7, 3.6, -0.4]), np.array([0, 0, 1, 2, 2])
    guess = {"birth": (5.0, 4.0), "drift": (10.0, 0.3), "noise": (20.0, 0.5)}
    nodes = [middles(stats.invgamma(n / 2.0, scale=n * v / 2.0), 24) for n, v in guess.values()]
    birth, drift, noise = (part.ravel() for part in np.meshgrid(*nodes))
    states = list(temporal.chains([2, 1, 2], 2))
    logs = []
    for c in states:
        value = temporal.log_joint_infinite(c, 0.8, KAPPA) * np.ones(len(birth))
        flat = np.concatenate([np.array(row) for row in c])
        for k in np.unique(flat):
            y, t = x[flat == k] - 1.0, when[flat == k]
            steps = np.minimum.outer(t - t[0], t - t[0])
            cov = birth[:, None, None] + drift[:, None, None] * steps
            cov = cov + noise[:, None, None] * np.eye(len(y))
            square = np.einsum("i,sij,j->s", y, np.linalg.inv(cov), y)
            value -= 0.5 * (square + np.linalg.slogdet(2.0 * math.pi * cov)[1])
        logs.append(value)
    p = np.exp(np.array(logs) - logsumexp(logs))
    X = np.split(x[:, None], [2, 3])
    draws = sample_temporal_dpm(
        X, law(1.0, 4.0, 0.3, 0.5), **FIXED, n_chains=1, n_sweeps=8_000, burn_in=50, thin=1, seed=3
    )
    share, error = frequencies(draws, states)
    assert follows(share, error, p.sum(axis=1))
    for name, grid in {"birth_var": birth, "drift": drift, "noise": noise}.items():
        assert close(draws.scales[name][:, 0], p.sum(axis=0) @ grid), name


def test_paths_follow_their_posterior():
    """Forward filtering, backward sampling: moments of the drawn means of one chain."""
    X = [np.array(x)[:, None] for x in ((1.0, 2.0), (), (-1.0, 4.0, 0.5))]
    mean, cov, _ = temporal.dense_chain(
        [x[:, 0] for x in X], [np.ones(len(x)) for x in X], 0.5, 0.3, 0.2, 2.0
    )
    sampler = Sampler(
        X, law(0.2, 2.0, 0.3, 0.5), Settings(1.0, tuple(KAPPA)), np.random.default_rng(3)
    )
    sampler.sweep()
    sampler.chains.c[:] = 0
    sampler.recount()
    sampler.law = sampler.law._replace(noise=np.array([0.5]), drift=np.array([0.3]))
    sampler.law = sampler.law._replace(birth_var=np.array([2.0]))
    paths = np.array([sampler.paths()[0][:, 0, 0] for _ in range(20_000)]) + 0.2
    sd = np.sqrt(np.diag(cov))
    assert (np.abs(paths.mean(axis=0) - mean) < 5.0 * sd / math.sqrt(len(paths))).all()
    # a sample covariance has variance (s_ii s_jj + s_ij^2) / n
    spread = np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / len(paths))
    assert (np.abs(np.cov(paths.T) - cov) < 5.0 * spread).all()


def test_missing_values_are_integrated_out():
    """A row of two columns, one of them missing, counts in the other alone."""
    both = GaussianDrift.known(*(np.full(2, value) for value in SCALES))
    x, y = [[[0.3], [1.1]], [[-0.4]]], [[[2.0], [np.nan]], [[0.7]]]
    options = {
        **FIXED,
        "learn_scales": False,
        "n_chains": 1,
        "n_sweeps": 20,
        "burn_in": 0,
        "thin": 1,
    }
    draws = sample_temporal_dpm(
        [np.hstack(pair) for pair in zip(x, y, strict=True)], both, **options
    )
    for s in range(20):
        c = [tuple(labels[s].tolist()) for labels in draws.labels]
        expected = temporal.log_joint_infinite(c, 0.8, KAPPA)
        for k in {k for row in c for k in row}:
            for column in (x, y):
                held = [
                    np.array(
                        [
                            float(j == k and not np.isnan(v[0]))
                            for j, v in zip(row, part, strict=True)
                        ]
                    )
                    for row, part in zip(c, column, strict=True)
                ]
                b = next(t for t, row in enumerate(c) if k in row)
                parts = [np.nan_to_num(np.array(part)[:, 0]) for part in column]
                expected += temporal.dense_chain(
                    parts[b:], held[b:], *np.array(SCALES)[[3, 2, 0, 1]]
                )[2]
        assert draws.log_joint[s] == pytest.approx(expected, abs=1e-9)


def test_seeds_shapes_and_room_for_chains():
    epochs = [[[0.0], [9.0]], [], [[0.2], [8.8], [9.1]]]
    options = {"n_chains": 2, "n_sweeps": 25, "burn_in": 20, "thin": 5}
    draws = sample_temporal_dpm(epochs, seed=7, **options)
    again = sample_temporal_dpm(epochs, seed=7, **options, progress=True)
    assert [labels.shape for labels in draws.labels] == [(10, 2), (10, 0), (10, 3)]
    assert (draws.log_joint == again.log_joint).all()
    assert draws.past_weights.shape == (10, KERNELS.shape[1])
    assert draws.scales["noise"].shape == (10, 1)
    apart = [100.0 * np.arange(40.0)[:, None]] * 3  # more chains than there are slots at first
    draws = sample_temporal_dpm(apart, law(0.0, 1e6, 0.1, 1.0), **options, seed=0)
    assert draws.n_components.min() >= 40


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"n_sweeps": 0}, "n_sweeps"),
        ({"thin": 3, "n_sweeps": 2}, "thin"),
        ({"burn_in": 1.5}, "burn_in"),
        ({"window": 0}, "window"),
    ],
)
def test_options_are_refused_by_name(options, word):
    with pytest.raises(ConfigError, match=word):
        sample_temporal_dpm([[[0.0]]], law(0.0, 1.0, 0.1, 1.0), **options)


def test_rows_must_fit_the_emission():
    with pytest.raises(ConfigError, match="1 columns, the rows have 2"):
        sample_temporal_dpm([[[0.0, 1.0]]], law(0.0, 1.0, 0.1, 1.0))
    with pytest.raises(SchemaError, match="epoch 0, row 0"):
        sample_temporal_dpm([[[np.inf]]], law(0.0, 1.0, 0.1, 1.0))
    with pytest.raises(SchemaError, match="not negative"):
        sample_temporal_dpm([sparse.csr_array([[-1.0, 2.0]])], TextDecay())
    with pytest.raises(SchemaError, match="no rows"):
        sample_temporal_dpm([sparse.csr_array((0, 2))], TextDecay())
