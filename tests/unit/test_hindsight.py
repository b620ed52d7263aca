"""When a regime began: the shortest set of rows that holds it with probability .95."""

import numpy as np
import pytest
from scipy.special import softmax

from benchmarks.change_sets import measure
from streamddcrp import SeqDDCRP
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels import reasons

FAMILY = NormalGamma(0.0, 0.05, 1.5, 0.5)


def shortest(p, level):
    found = np.empty(2, np.int64)
    reasons.shortest(p, level, found)
    return tuple(found.tolist())


@pytest.mark.parametrize("seed", range(4))
def test_the_set_is_that_of_the_exact_posterior(seed):
    rng = np.random.default_rng(seed)
    true = int(rng.integers(30, 50))
    X = rng.normal(size=(true + 20, 1))
    X[true:] += 5.0
    model = SeqDDCRP(likelihood=FAMILY, learn_prior=False, alpha=0.01)
    model.step_many(X, 1000.0 + 7.0 * np.arange(len(X)))
    told = [event for event in model.events() if event.between is not None]
    event = min(told, key=lambda event: abs(event.index - true))
    rows = FAMILY.suffstats(X)
    sides = [np.array([rows[:c].sum(axis=0), rows[c:].sum(axis=0)]) for c in range(1, len(X))]
    p = softmax([FAMILY.log_marginal(both).sum() for both in sides])
    low, high = shortest(p, 0.95)
    # a row's table is not quite certain, so an end of the set may be the next row
    assert event.between == pytest.approx((1007.0 + 7.0 * low, 1007.0 + 7.0 * high), abs=7.0)


def test_the_shortest_interval():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.dirichlet(np.full(8, 0.3))
        pairs = [(i, j) for i in range(8) for j in range(i, 8) if p[i : j + 1].sum() >= 0.9]
        best = min(pairs, key=lambda pair: (pair[1] - pair[0], -p[pair[0] : pair[1] + 1].sum()))
        assert shortest(p, 0.9) == best


def test_nothing_is_said_of_the_first_regime_and_of_others_also_late():
    X = np.r_[np.zeros(40), np.full(200, 9.0)][:, None] + np.random.default_rng(0).normal(
        size=(240, 1)
    )
    late = SeqDDCRP(likelihood=FAMILY)
    for rows in np.split(X, 60):
        late.learn_many(rows)  # events are read only after all of them
    found = {event.label: event.between for event in late.events() if event.kind == "birth"}
    assert list(found.values()) == [None, (40.0, 40.0)]
    assert late._stream.began(0, 0) is None


@pytest.mark.parametrize("clocked", [False, True])
def test_sets_are_the_same_for_any_cutting_and_after_loading(clocked):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2)) + 3.0 * (np.arange(400) // 40 % 3)[:, None]
    t = 1e9 + 0.7 * np.arange(400)

    def told(*cuts, stored=()):
        model, found = SeqDDCRP(likelihood=FAMILY), []
        for a, b in zip((0, *cuts), (*cuts, 400), strict=True):
            model = SeqDDCRP.from_bytes(model.to_bytes()) if a in stored else model
            model.step_many(X[a:b], t[a:b] if clocked else None)
            if b in {200, 400}:
                found += [(e.kind, e.label, e.index, e.between) for e in model.events()]
        return found

    expected = told(200)
    assert len({between for *_, between in expected if between is not None}) > 5
    assert told(*range(1, 400)) == expected
    assert told(70, 200, 207, stored=(70, 207)) == expected


@pytest.mark.slow
def test_sets_hold_the_change_as_often_as_they_say():
    """At least .95, less three standard errors; sets of one row hold it more often."""
    found = [measure(kind, s) for kind in ("near Gaussians", "counts") for s in range(700, 730)]
    holds = np.concatenate([one.holds for one in found])
    longer = holds[np.concatenate([one.widths for one in found]) > 1]
    assert len(holds) > 80
    assert len(longer) > 40
    assert holds.mean() > 0.95 - 3.0 * np.sqrt(0.95 * 0.05 / len(holds))
    assert abs(longer.mean() - 0.95) < 3.0 * np.sqrt(0.95 * 0.05 / len(longer))
