"""Rows corrected or forgotten afterwards: against the enumeration of the corrected rows."""

import math

import numpy as np
import pytest

from streamddcrp import GraphCRP
from streamddcrp.data.graphs import from_parents
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import NormalGamma
from tests.oracles import graph_crp as oracle

PRIOR, ALPHA = NormalGamma(0.0, 0.5, 2.0, 1.0), 0.8
X = np.array([0.3, -1.2, 2.4, 0.1, 1.9])[:, None]
PARENTS = oracle.window(len(X), 2)


def model(**options):
    return GraphCRP(window=2, alpha=ALPHA, likelihood=PRIOR, **options)


@pytest.mark.parametrize("new", [-2.0, None])
@pytest.mark.parametrize(("row", "after"), [(2, 4), (1, 3), (4, 5)])
def test_a_corrected_row(new, row, after):
    """Exact where all children fit, then rows come as usual: as if it had been right at once."""
    right = X.copy()
    right[row] = np.nan if new is None else new
    graph = from_parents(PARENTS)
    parts, prob, log_z = oracle.posterior(
        right, PARENTS, graph.cliques, graph.separators, ALPHA, PRIOR
    )
    amended = model(n_particles=500)
    amended.learn_many(X[:after])
    amended.amend(row, {0: X[row, 0]}, None if new is None else {0: new})
    amended.learn_many(X[after:])
    assert amended.log_evidence == pytest.approx(log_z, abs=1e-10)
    found = amended.partitions(4000, seed=0)  # of the last rows
    together = (found[:, -1] == found[:, -2]).mean()
    exact = sum(p for part, p in zip(parts, prob, strict=True) if part[-1] == part[-2])
    assert together == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4000))


def test_few_particles_have_no_bias():
    right = X.copy()
    right[2] = -2.0
    graph = from_parents(PARENTS)
    *_, log_z = oracle.posterior(right, PARENTS, graph.cliques, graph.separators, ALPHA, PRIOR)
    ratio = []
    for seed in range(1500):
        one = model(n_particles=2, seed=seed)
        one.learn_many(X[:4])
        one.amend(2, {0: 2.4}, {0: -2.0})
        one.learn_many(X[4:])
        ratio.append(math.exp(one.log_evidence - log_z))
    assert np.mean(ratio) == pytest.approx(1.0, abs=3.5 * np.std(ratio) / math.sqrt(len(ratio)))


def test_back_and_forth_and_a_restart_change_nothing():
    one = model(n_particles=7, rejuvenate=2, moves=1)
    one.learn_many(np.tile(X, (8, 1)))
    before = one.summary().to_pydict()
    evidence = one.log_evidence
    row = one.n_seen - 1
    one.amend(row, {0: 1.9}, {0: 7.0})
    assert one.log_evidence != pytest.approx(evidence)
    other = GraphCRP.from_bytes(one.to_bytes())
    for each in (one, other):
        each.amend(row, {0: 7.0}, {0: 1.9})
        assert each.log_evidence == pytest.approx(evidence)
        after = each.summary().to_pydict()
        assert after.keys() == before.keys()
        for name, column in before.items():
            assert after[name] == pytest.approx(column)
        each.learn_many(X)
    assert one.to_bytes() == other.to_bytes()


def test_a_picture_forgets_too():
    one = model()
    one.learn_many(X)
    one.amend(3, {0: 0.1}, None)
    *_, scores, values = one._recent.rows()
    assert np.isnan(values[3]).all()
    assert np.isnan(scores[3])


def test_what_is_refused():
    one = model()
    with pytest.raises(ConfigError, match="last 2 rows"):
        one.amend(0, {0: 0.0}, None)  # before the first row
    one.learn_many(X)
    state = one.to_bytes()
    for gone in (0, 2, 5):
        with pytest.raises(ConfigError, match="last 2 rows"):
            one.amend(gone, {0: 0.0}, None)
    for new in ({0: math.inf}, {1: 2.0}, {0: "much"}):
        with pytest.raises(SchemaError):
            one.amend(4, {0: 1.9}, new)
    assert one.to_bytes() == state
