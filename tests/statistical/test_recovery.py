"""Known partitions are recovered, in one causal pass with default settings."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from streamddcrp import SeqDDCRP, fit_seqddcrp
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels.layout import LOG_ALPHA

MEANS = np.array([0.0, 12.0, -9.0, 25.0])


def regimes(seed, n_visits=40):
    """Visits of 20 to 80 rows to four regimes with unit variance."""
    rng = np.random.default_rng(seed)
    visits = rng.integers(1, 4, n_visits).cumsum() % 4  # never the same one twice in a row
    label = np.repeat(visits, rng.integers(20, 81, n_visits))
    return (MEANS[label] + rng.normal(size=len(label)))[:, None], label


@pytest.mark.parametrize("seed", range(4))
def test_returning_regimes_keep_their_labels(seed):
    X, label = regimes(seed)
    model = SeqDDCRP()
    found = model.step_many(X)["label"].to_numpy()
    # One row in each of 40 visits cannot be named before it is seen; warm-up rows share a label.
    assert adjusted_rand_score(label[50:], found[50:]) > 0.9
    assert 4 <= model.n_tables <= 8


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_the_true_density_plus_what_the_prior_costs(seed):
    X, label = regimes(seed)
    model = SeqDDCRP()
    scores = model.step_many(X)["score"].to_numpy(zero_copy_only=False)
    reach, alpha = model._stream.decay.scale, np.exp(model._stream.state.sums[LOG_ALPHA])
    switch = np.r_[True, label[1:] != label[:-1]]
    start = np.maximum.accumulate(np.where(switch, np.arange(len(X)), 0))
    into_visit = np.arange(len(X)) - start
    late = (np.arange(len(X)) > len(X) // 2) & (into_visit > 0)
    truth = -stats.norm.logpdf(X[:, 0], MEANS[label], 1.0)
    # A row links into its visit with the share of the decay weight that the visit has so far.
    weight = np.r_[0.0, np.cumsum(np.exp(-np.arange(1.0, len(X)) / reach))]
    prior = np.log((alpha + weight[late.nonzero()[0]]) / weight[into_visit[late]])
    excess = (scores - truth)[late] - prior
    # Left over: four means and variances known from some hundred rows each, 1/n a row in all, and
    # older visits' weight, which makes the prior cheaper where a regime is soon back.
    assert abs(excess.mean()) < 0.03


def test_batch_tables_hold_one_regime_each():
    X, label = regimes(5, n_visits=12)
    fit = fit_seqddcrp(X, NormalGamma(7.0, 0.01, 1.5, 1.0), alpha=0.1, decay=("exponential", 10.0))
    assert homogeneity_score(label, fit.labels) > 0.99
    assert 4 <= len(fit.openers) <= 12  # without recall a late return is a new table
