"""Cells of groups and tables: the list is always that of the counts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import GroupDP
from streamddcrp.models.graph.groups import Cells
from streamddcrp.models.graph.kernels.cells import TABLES, add_to, copy_cells, list_cells, take_from


def cells_of(own, n):
    cells = Cells(np.zeros((len(own), n), np.int64), np.zeros(len(own), np.int64))
    list_cells(own, *cells)
    return cells


def assert_listed(own, cells):
    for p, counts in enumerate(own):
        g, k = np.nonzero(counts)
        np.testing.assert_array_equal(cells.cell[p, : cells.n[p]], TABLES * g + k)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.9]))
def test_cells_follow_the_counts(seed, full):
    rng = np.random.default_rng(seed)
    P, G, K = 3, int(rng.integers(1, 6)), int(rng.integers(1, 9))
    own = rng.integers(1, 3, (P, G, K)) * (rng.random((P, G, K)) < full)
    cells = cells_of(own, G * K)
    assert_listed(own, cells)
    for _ in range(30):
        p, g, k = (int(rng.integers(n)) for n in (P, G, K))
        if rng.random() < 0.2:
            to = int(rng.integers(P))
            want = own[p].copy()
            if to != p:
                copy_cells(own, cells, p, to, G)
            np.testing.assert_array_equal(own[to], want)
        elif own[p, g, k] > 0 and rng.random() < 0.5:
            take_from(own, cells, p, g, k)
        else:
            add_to(own, cells, p, g, k)
        assert_listed(own, cells)


def test_a_model_lists_its_cells():
    """Over many rows, groups that come and grow, and particles that are copied."""
    rng = np.random.default_rng(0)
    for layers in (4, (4, 3)):
        model = GroupDP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), n_shared=layers)
        X = rng.choice([0.0, 30.0, 60.0], (300, 1)) + rng.normal(size=(300, 1))
        names = [f"g{i // 4 if i % 2 else i % 7}" for i in range(300)]
        group = names if layers == 4 else [(name[-1], name) for name in names]
        out = [model.step_many(X[a : a + 50], group=group[a : a + 50]) for a in range(0, 300, 50)]
        state = model._engine.state
        alive = state.particles.weight > 0.0
        assert_listed(state.particles.own[alive], Cells(*(part[alive] for part in state.cells)))
        assert len(out) == 6
        assert model.groups == list(dict.fromkeys(group))
