"""The particle filter against enumeration, a plain twin, and its own invariants."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.contract import LABEL, LABEL_PROB, P_CHANGE, P_NEW, SCORE
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.ddcrp import state as layout
from streamddcrp.models.ddcrp.engine import given_weights, step, uniforms
from streamddcrp.models.ddcrp.kernels.filter import CORRECTABLE
from streamddcrp.models.ddcrp.state import arrays_of, empty_state, make_config, state_from_arrays
from streamddcrp.particles.kernels.names import FIRST, LOG_EVIDENCE, N_SEEN
from tests.oracles.enumeration import enumerate_links
from tests.oracles.links import prior_links
from tests.oracles.particle_filter import PlainFilter

X = np.array([[0.3], [-1.2], [0.5], [2.0], [-0.9]])
ALPHA = 0.7
NIG = NormalGamma(0.0, 0.5, 2.0, 1.0)
# Gaussians of variance 1 with means from N(0, 4), as nearly as floats allow
KNOWN_VARIANCE = NormalGamma(0.0, 0.25, 1e7, 1e7)
DECAYS = {
    "exponential": ("exponential", 2.0),
    "window": ("window", 3),
    "wide": ("window", 9),
    "logistic": ("logistic", 1.5),
    "linear": ("linear_window", 3),
    "none": "none",
    "user": lambda d: np.exp(-0.5 * d**2),
}
IRREGULAR = np.array([0.0, 0.4, 0.4, 3.0, 3.1])


def settings(decay, family=NIG, *, d=1, **options):
    options = {"alpha": ALPHA, "n_particles": 10, "seed": 0, "clocked": False} | options
    return make_config(
        family=family.family, hyper=family.hyper(d), decay=make_decay(decay), **options
    )


def learn(config, decay, X, t=None, state=None):
    state = empty_state(config) if state is None else state
    if t is None:
        seen = int(state.counts[N_SEEN])
        t = np.arange(seen, seen + len(X), dtype=float)
    return step(config, state, X, t, given_weights(make_decay(decay), config, state, t))


def log_marginal(family, X):
    @cache
    def of_table(members):
        return float(family.log_marginal(family.suffstats(X[list(members)]).sum(axis=0))[0])

    return of_table


def enumerated(decay, family=NIG, times=5):
    of_table = log_marginal(family, X)
    log_prior = prior_links(make_decay(decay), ALPHA, times)
    return enumerate_links(log_prior, lambda members: of_table(tuple(members)))


@pytest.mark.parametrize("n_particles", [1, 10])
@pytest.mark.parametrize(
    ("family", "first"),
    [(KNOWN_VARIANCE, [-1.7326574894, -1.8302903097]), (NIG, [-1.2207833383, -1.8958238983])],
)
def test_first_two_log_predictives_are_exact(family, first, n_particles):
    config = settings(DECAYS["exponential"], family, n_particles=n_particles)
    _, out = learn(config, DECAYS["exponential"], X)
    np.testing.assert_allclose(-out[:2, SCORE], first, rtol=0, atol=2e-6)


def test_oracle_of_the_evidence():
    assert enumerated(("exponential", 2.0)).log_evidence == pytest.approx(-8.9725801090, abs=1e-9)
    gkv = enumerated(("exponential", 1.5), KNOWN_VARIANCE, IRREGULAR).log_evidence
    assert gkv == pytest.approx(-9.3100520382, abs=2e-6)


@pytest.mark.parametrize("n_particles", [1, 10])
@pytest.mark.parametrize(
    ("name", "times"),
    [(name, None) for name in DECAYS if name != "user"]
    + [("exponential", IRREGULAR), ("window", IRREGULAR), ("user", IRREGULAR)],
)
def test_evidence_is_unbiased(name, times, n_particles):
    decay = DECAYS[name]
    exact = math.exp(enumerated(decay, times=5 if times is None else times).log_evidence)
    config = settings(decay, n_particles=n_particles, clocked=times is not None)
    t = np.arange(5.0) if times is None else times
    weights = given_weights(make_decay(decay), config, empty_state(config), t)
    found = np.empty(4000)
    for seed in range(len(found)):
        state, _ = step(config._replace(seed=seed), empty_state(config), X, t, weights)
        found[seed] = math.exp(state.sums[LOG_EVIDENCE])
    error = found.std(ddof=1) / math.sqrt(len(found))
    assert abs(found.mean() - exact) < 4.0 * error


@pytest.mark.parametrize("name", ["none", "wide"])
def test_many_particles_have_the_posterior(name):
    exact = enumerated(DECAYS[name])
    config = settings(DECAYS[name], n_particles=20_000, seed=3)
    state, _ = learn(config, DECAYS[name], X)
    weight = state.particles.weight
    # four standard errors of a share near one half, of half as many draws as particles: the least
    # effective sample size that does not resample
    tolerance = 4.0 * math.sqrt(0.25 / (0.5 * config.n_particles))
    n_tables = np.bincount(state.particles.n_tables, weight, 6)[1:]
    np.testing.assert_allclose(n_tables, exact.n_tables_probs, rtol=0, atol=tolerance)
    if name == "wide":
        labels = state.ring.label[:, np.arange(5) & (len(state.ring.t) - 1)]
        together = weight @ (labels[:, 4:] == labels)
        np.testing.assert_allclose(together, exact.together[4], rtol=0, atol=tolerance)


def sample(n, seed=0, d=1):
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(0.0, 4.0, n), rng.integers(1, 9, n))[:n]
    return level[:, None] + rng.normal(size=(n, d))


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("gamma", [None, 1.5])
@pytest.mark.parametrize("name", DECAYS)
def test_bounded_memory_changes_nothing(name, gamma, clocked):
    n, decay = 80, make_decay(DECAYS[name])
    rows = sample(n)
    t = np.arange(float(n))
    if clocked:  # with ties and with gaps that nothing reaches over
        gaps = np.random.default_rng(1).exponential(1.0, n) * (np.arange(n) % 3 > 0)
        gaps[40] = 200.0
        t = np.cumsum(gaps)
    config = settings(DECAYS[name], n_particles=4, clocked=clocked, seed=7, gamma=gamma)
    state, out = learn(config, DECAYS[name], rows, t)
    distances = np.maximum(t[:, None] - t, 0.0)
    weight = decay.weight(distances)
    twin = PlainFilter(lambda i, j: weight[i, j], ALPHA, log_marginal(NIG, rows), 4, config.gamma)
    reported = [twin.step(row) for row in uniforms(config, 0, n)]
    for at, key in (
        (LABEL, "label"), (LABEL_PROB, "label_prob"), (SCORE, "score"), (P_NEW, "p_new"),
        (P_CHANGE, "p_change"),
    ):  # fmt: skip
        # links below 1e-12 alpha are dropped, and sums are taken in another order
        np.testing.assert_allclose(out[:, at], [row[key] for row in reported], rtol=1e-8, atol=1e-9)
    assert state.sums[LOG_EVIDENCE] == pytest.approx(twin.log_evidence, rel=1e-9)
    mask = len(state.ring.t) - 1
    for p, q in enumerate(twin.particles):
        assert state.particles.weight[p] == pytest.approx(q.weight, rel=1e-7)
        for i in range(int(state.counts[FIRST]), n):
            opener = state.names.opener[state.tables.name[p, state.ring.label[p, i & mask]]]
            assert opener == q.tables[q.table_of(i)][0]
    if config.carried or not clocked:  # the ring is no longer than it must be
        reach = CORRECTABLE if config.carried else len(config.by_gap)
        assert n - state.counts[FIRST] == reach


@pytest.mark.parametrize("name", ["exponential", "window", "none"])
def test_capacity_changes_no_bit(monkeypatch, name):
    rows = sample(150, 2)
    config = settings(DECAYS[name], alpha=5.0)
    small, out = learn(config, DECAYS[name], rows)
    monkeypatch.setattr(layout, "room", lambda needed, least: 1024)
    large = state_from_arrays(config, arrays_of(empty_state(config)))
    large, expected = learn(config, DECAYS[name], rows, state=large)
    assert large.tables.name.shape[1] == 1024 > small.tables.name.shape[1]
    np.testing.assert_array_equal(out, expected)
    for key, values in arrays_of(large).items():
        np.testing.assert_array_equal(arrays_of(small)[key], values, err_msg=key)


@given(
    seed=st.integers(0, 2**31), n=st.integers(1, 25), n_particles=st.integers(1, 6),
    name=st.sampled_from(["exponential", "window", "logistic", "none"]),
)  # fmt: skip
def test_every_particle_is_a_seating(seed, n, n_particles, name):
    rows = sample(n, seed, d=2)
    config = settings(DECAYS[name], d=2, n_particles=n_particles, seed=seed)
    state, _ = learn(config, DECAYS[name], rows)
    assert state.particles.weight.sum() == pytest.approx(1.0, rel=1e-12)
    mask, first = len(state.ring.t) - 1, int(state.counts[FIRST])
    held = np.zeros(len(state.names.opener))
    for p in range(n_particles):
        K = int(state.particles.n_tables[p])
        openers = state.names.opener[state.tables.name[p, :K]]
        assert len(set(openers)) == K
        np.add.at(held, state.tables.name[p, :K], state.particles.weight[p])
        label = {i: int(state.ring.label[p, i & mask]) for i in range(first, n)}
        retained = np.bincount(list(label.values()), minlength=K)
        np.testing.assert_array_equal(retained, state.tables.retained[p, :K])
        if first == 0:
            for k in range(K):
                members = [i for i in label if label[i] == k]
                assert openers[k] == members[0]
                expected = NIG.suffstats(rows[members]).sum(axis=0)
                np.testing.assert_allclose(state.tables.stats[p, k], expected, atol=1e-9)
    np.testing.assert_allclose(held, state.names.weight, atol=1e-12)


def test_numbers_do_not_depend_on_the_cutting_of_the_stream():
    config = settings("none", n_particles=3, gamma=1.0)
    whole = uniforms(config, 0, 20)
    assert whole.shape[1] >= 1 + 3 * 2
    parts = [uniforms(config, a, b - a) for a, b in [(0, 1), (1, 7), (7, 20)]]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    other = uniforms(config._replace(seed=1), 0, 20)
    assert not np.isin(other, whole).any()


def test_extremes_give_no_nan():
    """Gaps over which nothing is left, densities that underflow, particles without weight."""
    rows = np.array([[0.0], [1e90], [0.0], [1e90], [-1e90], [0.0], [1e90]])
    t = np.array([0.0, 700.0, 1410.0, 1410.0, 1410.0, 2130.0, 1e6])
    config = settings(("exponential", 1.0), n_particles=2, clocked=True)
    state, out = learn(config, ("exponential", 1.0), rows, t)
    assert np.isfinite(out[1:]).all()
    assert math.isfinite(state.sums[LOG_EVIDENCE])
    assert state.particles.weight.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": math.inf}, "alpha"),
        ({"n_particles": 0}, "n_particles"),
        ({"n_particles": True}, "n_particles"),
        ({"gamma": 0.0}, "gamma"),
        ({"seed": 1 << 63}, "seed"),
        ({"decay": lambda d: np.maximum(0.5, np.exp(-d))}, "never falls"),
        ({"decay": ("window", 1e9)}, "arrivals back"),
    ],
)
def test_bad_settings_are_named(options, words):
    decay = options.pop("decay", "none")
    with pytest.raises(ConfigError, match=words):
        settings(decay, **options)
