"""The infinite hidden Markov model by Gibbs sampling, against the enumeration of all chains."""

import math

import numpy as np
import pytest

from streamddcrp import GroupDP, sample_group_dp
from streamddcrp.errors import ConfigError, SchemaError
from tests.oracles import infinite_hmm as oracle
from tests.unit.test_group_gibbs import S, block_error, check_posterior, seen_from_rows
from tests.unit.test_infinite_hmm import GAMMA, GIVEN, PRIOR, X, chain, enumerated

AS_PRIOR = ("normal_gamma", 0.0, 0.5, 2.0, 1.0)


def draws_of(n_aux, alpha, seed, n_sweeps=S):
    return sample_group_dp(
        X, AS_PRIOR, markov=True, n_shared=n_aux, alpha=alpha, n_chains=1, n_sweeps=n_sweeps,
        burn_in=100, seed=seed,
    )  # fmt: skip


@pytest.mark.parametrize("alpha", [0.8, GAMMA])
@pytest.mark.parametrize("n_aux", [1, 2])
def test_posterior_is_that_of_the_enumeration(n_aux, alpha):
    found, p, _, mean_alpha = enumerated(n_aux, alpha)
    draws = draws_of(n_aux, alpha, seed=5)
    check_posterior(draws, found, p, n_aux, n_aux)
    if alpha == GAMMA:
        assert draws.alpha.mean() == pytest.approx(mean_alpha, abs=4 * block_error(draws.alpha))


def test_log_joint_is_that_of_the_enumeration():
    found, p, log_z, _ = enumerated(2, 0.8)
    joint = {}
    for labels, value in zip(found, p.tolist(), strict=True):
        joint.setdefault(seen_from_rows(labels, 2, 2), set()).add(log_z + math.log(value))
    draws = draws_of(2, 0.8, seed=6, n_sweeps=300)
    for row, items, value in zip(draws.labels, draws.auxiliary, draws.log_joint, strict=True):
        known = joint[tuple(row.tolist()), tuple(items.tolist())]
        assert min(abs(value - one) for one in known) < 1e-9


def test_the_next_row_has_the_ratio_of_evidences():
    draws, new = draws_of(2, 0.8, seed=7, n_sweeps=8000), np.array([[1.7]])
    *_, both = oracle.posterior(np.vstack([X, new]), 2, 0.8, PRIOR)
    exact = math.exp(both - enumerated(2, 0.8)[2])
    one_by_one = [
        draws_of(2, 0.8, seed=seed, n_sweeps=400).log_predictive(new)[0] for seed in range(20)
    ]
    error = np.exp(one_by_one).std(ddof=1) / math.sqrt(20)
    assert math.exp(draws.log_predictive(new)[0]) == pytest.approx(exact, abs=4 * error)


def test_states_given_all_rows_are_better_than_those_on_arrival():
    rows, z = chain(600, 1, apart=2.0)
    draws = sample_group_dp(rows, GIVEN, markov=True, n_chains=1, n_sweeps=60, burn_in=60, seed=1)
    arrived = GroupDP(likelihood=GIVEN, markov=True).step_many(rows)["label"].to_numpy()
    together = np.mean([_pairs_right(labels, z) for labels in draws.labels])
    assert together > _pairs_right(arrived, z) + 0.01


def _pairs_right(labels, z):
    """Share of pairs of rows that are rightly together or apart."""
    labels = np.asarray(labels)
    return float(((labels[:, None] == labels) == (z[:, None] == z)).mean())


def test_what_does_not_fit_is_refused():
    with pytest.raises(SchemaError, match="none in a Markov chain"):
        sample_group_dp(X, AS_PRIOR, markov=True, group=list("ababa"))
    with pytest.raises(ConfigError, match="one number in a Markov chain"):
        sample_group_dp(X, AS_PRIOR, markov=True, n_shared=(3, 2))
