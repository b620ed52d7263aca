"""The contest of priors on the first rows: what gives up, and what a trial has learned."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.streams import CORNERS, five_gaussians
from streamddcrp import SeqDDCRP
from streamddcrp.contract import LABEL, SCORE
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.likelihoods.columns import column_powers
from streamddcrp.models.seqddcrp import contest
from streamddcrp.models.seqddcrp.contest import BLIND, BROAD_LEAD, FEW, LEAD, SMALL_LEAD, Contest

N = 256
MEANS = 4.0 * CORNERS


def rows(seed, skewed=False):
    rng = np.random.default_rng(seed)
    X = MEANS[np.repeat(rng.integers(0, 5, N // 8), 8)] + rng.normal(size=(N, 2))
    return np.exp(0.3 * X) if skewed else X


def run(X):
    times = np.arange(float(len(X)))
    held = Contest(SeqDDCRP()._recipe, NormalGamma(), X, times, ["a", "b"], None, 0, None)
    held.go(at_once=True)
    return held


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_what_gives_up_would_not_have_won(seed, skewed, monkeypatch):
    X = rows(seed, skewed)
    quick = run(X)
    monkeypatch.setattr(contest, "HOPELESS", np.inf)
    full = run(X)
    assert str(quick.best) == str(full.best)
    assert_array_equal(quick.labels, full.labels)
    assert {str(trial) for trial in quick.trials} < {str(trial) for trial in full.trials}


@pytest.mark.parametrize("skewed", [False, True])
def test_the_best_has_learned_the_rows_as_an_engine_does(skewed):
    """In pieces, with room for its rows only, it comes to the same as `Engine.step` at once."""
    X = rows(5, skewed)[:100]
    held = run(X)
    best = held.best.entry
    assert (best.prior.warp is not None) == skewed
    engine = held.recipe.start(best.prior, 2, best.candidate.opening, best.decay, None)
    out = engine.step(X, held.times)
    assert_array_equal(out[:, LABEL], held.labels)
    assert_allclose(out[:, SCORE], held.best.surprise, rtol=1e-12)
    kept, again = (one.kept()[0] for one in (held.engine, engine))
    assert kept.keys() == again.keys()
    for name in kept:
        assert_array_equal(kept[name], again[name], err_msg=name)
    more, t = rows(6, skewed), 100.0 + np.arange(float(N))
    assert_array_equal(held.engine.step(more, t), engine.step(more, t))


@pytest.mark.parametrize("n", [32, N])
def test_the_score_is_what_the_rows_cost_less_handicaps(n):
    held = run(rows(0)[:n])
    for trial in held.trials:
        (opening, spread), reach = trial.entry.candidate, trial.entry.decay.scale
        handicap = LEAD if opening >= BLIND else SMALL_LEAD if opening > 0.0133 else 0.0
        handicap += SMALL_LEAD if reach > held.recipe.decay.scale else 0.0
        handicap += BROAD_LEAD if n < FEW and spread < 1.0 else 0.0
        assert_allclose(trial.score, -trial.surprise.sum() - handicap, rtol=1e-12)


def test_levels_in_no_order_have_no_memory():
    """Differences alone would say that a row counts as .4 of one here."""
    X = five_gaussians(2000, 5.0, 843, shuffled=True)[0][:N]
    assert_array_equal(column_powers(X), 1.0)
    noise = np.random.default_rng(0).normal(size=N)
    for i in range(1, N):
        noise[i] += 0.8 * noise[i - 1]
    assert column_powers(noise[:, None])[0] < 0.3
