"""`calibrate`: exact p-values, places in forecasts, planted slips, refusals."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, gamma, norm, t

from streamddcrp import GraphCRP, NestedCRPTopics, SeqDDCRP, calibrate, sample_ddcrp
from streamddcrp.errors import ConfigError
from streamddcrp.monitor.calibration import DRAWS, Calibration, _place, _place_of_count

PRIOR = {"likelihood": ("normal_gamma", 0.0, 0.1, 4.0, 3.0), "alpha": 0.8}
LINKS = partial(sample_ddcrp, decay=("exponential", 3.0), **PRIOR)


def test_p_values_are_exact():
    """Of all pairs of ranks, a share of p has a p-value of at most p."""
    pairs = np.stack(np.meshgrid(*[np.arange(DRAWS + 1)] * 2), axis=-1).reshape(-1, 2)
    p = Calibration(tuple(map(str, range(len(pairs)))), pairs.T).p_values
    for value in np.unique(p.round(12)):
        assert np.mean(p <= value + 1e-9) == pytest.approx(value, abs=1e-9)


def test_false_alarms_and_the_band():
    """Uniform ranks of 1,000 sets: alarms at their rate, and lines leave the band at that rate."""
    rng = np.random.default_rng(0)
    sets = Calibration(("x",) * 1000, rng.integers(0, DRAWS + 1, (200, 1000)))
    assert abs((sets.p_values <= 0.05).mean() - 0.05) < 4.0 * np.sqrt(0.05 * 0.95 / 1000)
    one = Calibration(("x",), sets.ranks[:, :1])
    band = one.plot().collections[0].get_paths()[0].vertices[1 : 2 * DRAWS + 3, 1]
    low, high = band[:DRAWS], band[DRAWS + 1 :][:DRAWS][::-1]
    share = np.cumsum(sets.counts, axis=0)[:-1] / 200 - np.arange(1, DRAWS + 1)[:, None] / 40
    edge = 1e-9
    out = ((share < low[:, None] - edge) | (share > high[:, None] + edge)).any(axis=0)
    np.testing.assert_array_equal(out, sets.p_values < 0.01)


def test_coverage():
    found = Calibration(("x",), np.arange(DRAWS + 1)[:, None])
    for level in (0.05, 0.5, 0.95):
        assert found.coverage(level)[0] == pytest.approx(level)
    assert found.summary().column_names == ["quantity", "p_value", "coverage_50", "coverage_95"]
    assert "40 simulations: right" in str(found)
    with pytest.raises(ConfigError, match="level"):
        found.coverage(0.97)


@pytest.mark.parametrize(
    "law",
    [norm(3.0, 1e-4), t(2.5, 3.0, 0.1), t(1.1), gamma(2.0, scale=50.0)],
    ids=["normal", "t", "heavy", "gamma"],
)
def test_places_are_integrals(law):
    rng = np.random.default_rng(1)
    rows = law.rvs(10, random_state=rng)
    for x in law.rvs(20, random_state=rng):
        assert _place(law.pdf, rows, x) == pytest.approx(law.cdf(x), abs=2e-3)


def test_places_of_counts():
    rng = np.random.default_rng(1)
    law = binom(9, 0.4)
    below = [_place_of_count(law.pmf, 3.0, rng) for _ in range(50)]
    assert law.cdf(2) < min(below) < max(below) < law.cdf(3)


def test_a_right_prior_passes_and_a_wrong_one_fails():
    assert calibrate(LINKS, n_simulations=100).p_value > 0.01
    assert calibrate(partial(LINKS, alpha=1.6), LINKS, n_simulations=100).p_value < 0.001
    again = [calibrate(LINKS, n_rows=5, n_simulations=20, seed=3).ranks for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_refusals():
    for model, what in (
        (GraphCRP(), "likelihood"),
        (GraphCRP(discount=0.2, **PRIOR), "discount=0.2"),
        (GraphCRP(**PRIOR | {"likelihood": ("autoregression", 3)}), "likelihood"),
        (SeqDDCRP(**PRIOR), "learn_prior=False"),
        (NestedCRPTopics(), "no rows can be drawn for 'NestedCRPTopics'"),
        (3, "no rows can be drawn for 'int'"),
        (partial(LINKS, n_sweeps=10), "39 draws"),
    ):
        with pytest.raises(ConfigError, match=what):
            calibrate(model)
    with pytest.raises(ConfigError, match="drawn for 'int'"):
        calibrate(3, GraphCRP(**PRIOR))
    with pytest.raises(ConfigError, match="n_simulations"):
        calibrate(LINKS, n_simulations=3)
