"""A race of models: against exact evidences, Ville's rate, and any cutting."""

import math

import numpy as np
import pytest

from streamddcrp import DDCRPSampler, race
from streamddcrp.errors import ConfigError, SchemaError
from tests.unit.test_ddcrp_filter import NIG, X, log_marginal


def test_evidences_and_probabilities_are_those_of_enumeration():
    """Two models without memory of tables: one table for all rows, or one for each."""
    of_table = log_marginal(NIG, X)
    together, apart = of_table(tuple(range(5))), sum(of_table((i,)) for i in range(5))
    scores = {}
    for name, alpha in {"together": 1e-9, "apart": 1e9}.items():
        model = DDCRPSampler(likelihood=NIG, alpha=alpha, n_particles=1, warmup=1)
        scores[name] = model.step_many(X)["score"]
    found = race(scores)
    assert found.log_evidence == pytest.approx([together, apart], abs=1e-6)
    assert found.probs[0] == pytest.approx(1.0 / (1.0 + math.exp(apart - together)), rel=1e-5)
    assert found.n_rows == 5


def test_ville():
    """Of streams that follow a forecast, one in twenty at most ever has others lead by log 20."""
    rng, n_streams = np.random.default_rng(1), 1000
    found = []
    for _ in range(n_streams):
        x = rng.normal(size=200)  # densities less what they have in common
        near, wide = 0.5 * (x - 0.2) ** 2, x**2 / 8.0 + math.log(2.0)
        found.append(race({"true": 0.5 * x**2, "near": near, "wide": wide}))
    below = sum(one.p_values[0] <= 0.05 for one in found)
    assert 0 < below <= 0.05 * n_streams + 3.0 * math.sqrt(n_streams * 0.05 * 0.95)
    assert all(one.p_values[2] < 1e-9 for one in found)


def test_batches_give_what_the_whole_gives():
    rng = np.random.default_rng(2)
    scores = {name: rng.normal(size=50) for name in "abc"}
    scores["b"][:7] = np.nan  # warm-up
    whole, after = race(scores), None
    for part in np.split(np.arange(50), [3, 3, 20, 41]):
        after = race({name: column[part] for name, column in scores.items()}, after)
    assert after.n_rows == whole.n_rows == 43
    assert after.log_evidence == pytest.approx(whole.log_evidence)
    assert after.largest == pytest.approx(whole.largest)
    best = int(whole.log_evidence.argmax())
    table = whole.summary()
    assert table["model"][0].as_py() == "abc"[best]
    assert table["behind"][0].as_py() == 0.0
    assert sum(table["prob"].to_pylist()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("scores", "error", "match"),
    [
        ({"a": [1.0]}, ConfigError, "two models"),
        ({"a": [1.0], "b": [1.0, 2.0]}, ConfigError, "differ in length: 1, 2"),
        ({"a": [1.0], "b": [math.inf]}, ConfigError, r"'b'\]: row 0 is infinite"),
        ({"a": [1.0], "b": ["x"]}, SchemaError, r"'b'\] must be numbers"),
    ],
)
def test_refusals(scores, error, match):
    with pytest.raises(error, match=match):
        race(scores)
    before = race({"a": [1.0], "c": [1.0]})
    with pytest.raises(ConfigError, match=r"\('a', 'c'\)"):
        race({"a": [1.0], "b": [1.0]}, before)
