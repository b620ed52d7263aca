"""Algorithm 3 of Neal (2000) against enumeration, and the experiment that sets it beside links."""

import numpy as np
import pytest
from click.testing import CliRunner

from research import mixing
from research.mixing import algorithm_3, effective, log_joint
from research.reproduce import reproduce
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.ddcrp.distances import Distances
from tests.oracles.enumeration import enumerate_links, tables
from tests.oracles.sampling import affordable, exact_links, total_variation, total_variation_bound

X = np.array([0.3, -1.2, 0.5, 2.0, -0.9])[:, None]
FAMILY = NormalGamma(0.0, 0.5, 2.0, 1.0)
ALPHA = 0.7


def first_of(z):
    return tuple(int(np.flatnonzero(z == k)[0]) for k in z)


def test_algorithm_3_draws_from_the_posterior_of_the_crp():
    stats = FAMILY.suffstats(X)
    log_prior = Distances.by_index(5).candidates("none", ALPHA).log_prior()
    place, probs = exact_links(
        log_prior, lambda m: float(FAMILY.log_marginal(stats[m].sum(0))[0])
    )  # fmt: skip
    exact = {}
    for links, k in place.items():
        z = tuple(tables(links))
        exact[z] = exact.get(z, 0.0) + probs[k]
    draws = algorithm_3(X, FAMILY, ALPHA, affordable(2_500), np.random.default_rng(0))
    counts = dict.fromkeys(exact, 0)
    for z in draws:
        counts[first_of(z)] += 1
    expected = np.array(list(exact.values()))
    found = np.array(list(counts.values()))
    n_eff = effective(np.array([[len(set(z)) for z in draws.tolist()]], dtype=float))
    assert total_variation(found, expected) < total_variation_bound(expected, n_eff)


def test_log_joint_is_that_of_all_links_to_a_partition():
    stats = FAMILY.suffstats(X)

    def log_marginal(members):
        return float(FAMILY.log_marginal(stats[members].sum(0))[0])

    log_prior = Distances.by_index(5).candidates("none", ALPHA).log_prior()
    place, probs = exact_links(log_prior, log_marginal)
    evidence = enumerate_links(log_prior, log_marginal).log_evidence
    total = {}
    for links, k in place.items():
        z = tuple(tables(links))
        total[z] = total.get(z, 0.0) + probs[k]
    ours = log_joint(np.array(list(total)), X, FAMILY, ALPHA)
    np.testing.assert_allclose(ours, np.log(list(total.values())) + evidence, rtol=1e-10)


def test_effective_draws_of_independent_and_of_sticky_chains():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(4, 2000))
    assert effective(noise) == pytest.approx(8000, rel=0.15)
    sticky = noise.copy()
    for t in range(1, 2000):
        sticky[:, t] = 0.9 * sticky[:, t - 1] + noise[:, t]
    assert effective(sticky) == pytest.approx(8000 / 19, rel=0.35)  # (1 - .9) / (1 + .9)


def test_command_sets_both_side_by_side(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(mixing, "RADII", (4,))
    options = ["ddcrp-mixing", "--out", str(tmp_path), "--sweeps", "20", "--chains", "1"]
    out = CliRunner().invoke(reproduce, options)
    assert out.exit_code == 0, out.output
    assert sum("Algorithm 3" in line for line in out.output.splitlines()) == 1
    assert (tmp_path / "mixing.png").exists()
