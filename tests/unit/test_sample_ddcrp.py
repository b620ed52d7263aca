"""The sampler's interface: draws, traces, seeds, diagnostics, refusals."""

import logging
import sys

import numpy as np
import pytest

from streamddcrp.errors import ConfigError, MissingExtraError, OrderError, SchemaError
from streamddcrp.estimator.sweeps import r_hat
from streamddcrp.likelihoods import GammaPoisson, NormalGamma
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.sampler import HyperGrid, sample_ddcrp

FAMILY = NormalGamma(0.0, 0.1, 1.5, 1.0)
RNG = np.random.default_rng(5)
X = np.repeat([[0.0, 0.0], [5.0, 5.0]], 30, axis=0) + RNG.normal(size=(60, 2))
OPTIONS = {"alpha": 0.3, "decay": ("exponential", 6.0), "n_sweeps": 60, "burn_in": 20, "seed": 1}


def same(a, b):
    names = ("links", "labels", "chain", "n_tables", "log_joint", "alpha", "decay_parameter")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in names)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decay": "none"},
        {"t": np.arange(60) ** 1.1},
        {"sequential": False},
        {"hyper": "both"},
        {"hyper": HyperGrid(decay=(3.0, 6.0)), "sequential": False},
    ],
    ids=("index", "crp", "times", "general", "grid", "links"),
)
def test_equal_seeds_give_equal_bits(options):
    once, again = (sample_ddcrp(X, FAMILY, **(OPTIONS | options)) for _ in range(2))
    assert same(once, again)
    assert not same(once, sample_ddcrp(X, FAMILY, **(OPTIONS | options | {"seed": 2})))
    chains = once.links.reshape(4, 60, 60)
    assert all((chains[0] != chains[k]).any() for k in (1, 2, 3))
    assert all((chain != chain[0]).any() for chain in chains)


@pytest.mark.parametrize("sequential", [True, False])
def test_draws_agree_with_each_other(sequential):
    samples = sample_ddcrp(X, FAMILY, **(OPTIONS | {"sequential": sequential, "thin": 7}))
    assert len(samples) == 4 * 8
    assert samples.n_chains == 4
    stats = FAMILY.suffstats(X)
    log_prior = Distances.by_index(60, sequential=sequential).candidates(
        ("exponential", 6.0), 0.3
    ).log_prior()  # fmt: skip
    for s in range(len(samples)):
        links, labels = samples.links[s], samples.labels[s]
        if sequential:
            assert (links <= np.arange(60)).all()
        assert (labels == labels[links]).all()
        tables = np.unique(labels)
        assert samples.n_tables[s] == len(tables)
        assert (labels[tables] == tables).all()
        assert (labels <= np.arange(60)).all()
        sums = np.array([stats[labels == k].sum(0) for k in tables])
        log_joint = log_prior[np.arange(60), links].sum() + FAMILY.log_marginal(sums).sum()
        assert samples.log_joint[s] == pytest.approx(log_joint, rel=1e-11)


def test_two_groups_are_found_whatever_the_likelihood_must_learn():
    samples = sample_ddcrp(X, ("normal_gamma",), **OPTIONS)
    assert samples.likelihood.is_scaled
    together = (samples.labels[:, :, None] == samples.labels[:, None, :]).mean(0)
    assert together[:30, 30:].max() < 0.05
    assert together[:30, :30].mean() > 0.5


def test_missing_values_and_counts():
    counts = np.ma.masked_array(RNG.poisson(3.0, (40, 2)), RNG.random((40, 2)) < 0.2)
    samples = sample_ddcrp(counts, GammaPoisson(1.0, 0.3), **OPTIONS)
    assert np.isfinite(samples.log_joint).all()


def test_a_single_row_and_equal_times():
    assert sample_ddcrp([[1.0]], FAMILY, **OPTIONS).labels.tolist() == [[0]] * 240
    samples = sample_ddcrp(X[:2], FAMILY, **(OPTIONS | {"t": [3.0, 3.0]}))
    assert samples.n_tables.max() <= 2


def test_diagnostics_and_arviz():
    samples = sample_ddcrp(X, FAMILY, **(OPTIONS | {"hyper": "alpha"}))
    found = samples.diagnostics()
    assert set(found) == {"n_tables", "log_joint", "alpha"}
    assert found["n_tables"]["mean"] == samples.n_tables.mean()
    assert 0.9 < found["log_joint"]["r_hat"] < 1.5
    assert 0 < found["alpha"]["ess_bulk"] < 1000
    posterior = samples.to_arviz().posterior
    assert posterior["n_tables"].shape == (4, 60)
    np.testing.assert_array_equal(posterior["alpha"].values.ravel(), samples.alpha)
    alone = sample_ddcrp([[1.0]], FAMILY, **(OPTIONS | {"n_chains": 1})).diagnostics()
    assert alone["n_tables"]["mean"] == 1.0
    assert np.isnan(alone["n_tables"]["r_hat"])


def test_chains_that_disagree_are_warned_of(caplog, monkeypatch):
    mixed = np.random.default_rng(0).normal(size=(4, 400))
    assert 0.99 < r_hat(mixed) < 1.02
    apart = mixed + np.arange(4)[:, None]
    az = pytest.importorskip("arviz")
    spread = mixed * np.array([1.0, 1.0, 1.0, 5.0])[:, None]  # alike but for their scale
    for x in (mixed, apart, spread, mixed[:, :7], np.round(apart), mixed[:2] ** 3):
        assert r_hat(x) == pytest.approx(float(az.rhat(x)), rel=1e-10)
    assert np.isnan(r_hat(np.ones((2, 10))))
    assert np.isnan(r_hat(mixed[:, :3]))
    with caplog.at_level(logging.WARNING, logger="streamddcrp"):
        sample_ddcrp(X[:8], FAMILY, **(OPTIONS | {"n_sweeps": 400}))
        assert not caplog.records
        monkeypatch.setattr("streamddcrp.estimator.sweeps.MIXED", 0.5)
        sample_ddcrp(X[:8], FAMILY, **(OPTIONS | {"n_sweeps": 400}))
    assert "R-hat of the log joint density" in caplog.text


def test_only_what_varies_has_a_trace():
    """A decay without a parameter has none to follow, and so has one that stays."""
    for decay in ("none", ("exponential", 5.0)):
        samples = sample_ddcrp(X, FAMILY, **(OPTIONS | {"decay": decay}))
        assert set(samples.traces()) == {"n_tables", "log_joint"}


def test_diagnostics_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)  # an import of it fails
    with pytest.raises(MissingExtraError, match=r"pip install 'streamddcrp\[diagnostics\]'"):
        sample_ddcrp(X[:3], FAMILY, **OPTIONS).diagnostics()


def test_progress_bar_counts_sweeps(capsys):
    sample_ddcrp(X, FAMILY, progress=True, **OPTIONS)
    assert "320/320" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"alpha": 0.0}, ConfigError, "alpha"),
        ({"n_sweeps": 0}, ConfigError, "n_sweeps"),
        ({"burn_in": -1}, ConfigError, "burn_in"),
        ({"thin": 2.5}, ConfigError, "thin"),
        ({"thin": 61}, ConfigError, "thin must be a whole number from 1 to"),
        ({"n_chains": 0}, ConfigError, "n_chains"),
        ({"t": [0.0]}, SchemaError, "60 in all"),
        ({"t": -np.arange(60.0)}, OrderError, "row 1"),
        ({"distances": Distances.by_index(3)}, SchemaError, "60 rows"),
        ({"distances": np.ones((60, 60))}, ConfigError, "Distances"),
        ({"distances": Distances.by_index(60), "t": np.arange(60)}, ConfigError, "not both"),
        ({"decay": "slow"}, ConfigError, "decay"),
        ({"decay": lambda d: -d}, ConfigError, "negative|is 0"),
    ],
)
def test_bad_arguments_are_named(change, error, words):
    with pytest.raises(error, match=words):
        sample_ddcrp(X, FAMILY, **(OPTIONS | change))


@pytest.mark.parametrize(
    ("rows", "family", "words"),
    [
        ([[0.0], [np.inf]], FAMILY, "row 1, column 0"),
        (np.empty((0, 1)), FAMILY, "no rows"),
        ([[1.0], [-1.0]], GammaPoisson(1.0, 1.0), "row 1"),
    ],
)
def test_bad_rows_are_named(rows, family, words):
    with pytest.raises((ConfigError, SchemaError), match=words):
        sample_ddcrp(rows, family, **OPTIONS)
