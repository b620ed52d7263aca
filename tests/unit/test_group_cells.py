"""Cells of rows and tables: always those of a matrix of counts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import GroupDP
from streamddcrp.models.graph.group_state import Cells, dense
from streamddcrp.models.graph.kernels.cells import (
    TABLES,
    add_to,
    copy_cells,
    drop_row,
    drop_table,
    join_first,
    row_total,
    spread,
    take_from,
)


def cells_of(counts, room):
    P = len(counts)
    cells = Cells(*(np.zeros((P, room), np.int64) for _ in range(2)), np.zeros(P, np.int64))
    for p, g, k in np.argwhere(counts):
        add_to(cells, p, g, k, counts[p, g, k])
    return cells


def assert_listed(counts, cells):
    for p, of_particle in enumerate(counts):
        g, k = np.nonzero(of_particle)
        np.testing.assert_array_equal(cells.cell[p, : cells.n[p]], TABLES * g + k)
        np.testing.assert_array_equal(cells.items[p, : cells.n[p]], of_particle[g, k])


def change(rng, counts, cells):
    """Change both at random in the same way."""
    P, _, K = counts.shape
    p, g, k = (int(rng.integers(n)) for n in counts.shape)
    kind = rng.integers(7)
    if kind == 0 and (to := int(rng.integers(P))) != p:
        copy_cells(cells, p, to)
        counts[to] = counts[p]
    elif kind == 1:
        drop_table(cells, p, k)
        counts[p, :, k] = 0
    elif kind == 2:
        drop_row(cells, p, g)
        counts[p] = np.concatenate([np.delete(counts[p], g, axis=0), np.zeros((1, K), np.int64)])
    elif kind == 3 and g > 0:
        join_first(cells, p, g)
        counts[p, 0] += counts[p, g]
        counts[p, g] = 0
    elif counts[p, g, k] > 0 and kind < 6:
        take_from(cells, p, g, k)
        counts[p, g, k] -= 1
    else:
        n = int(rng.integers(1, 3))
        add_to(cells, p, g, k, n)
        counts[p, g, k] += n


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.9]))
def test_cells_follow_the_counts(seed, full):
    rng = np.random.default_rng(seed)
    P, G, K = 3, int(rng.integers(1, 6)), int(rng.integers(1, 9))
    counts = rng.integers(1, 3, (P, G, K)) * (rng.random((P, G, K)) < full)
    cells = cells_of(counts, G * K)
    assert_listed(counts, cells)
    for _ in range(30):
        change(rng, counts, cells)
        assert_listed(counts, cells)
        out = np.full(K, 9)
        for g in range(-1, G):
            spread(cells, 0, g, K, out)
            want = counts[0, g] if g >= 0 else np.zeros(K)
            np.testing.assert_array_equal(out, want)
            assert row_total(cells, 0, g) == want.sum()
        np.testing.assert_array_equal(dense(cells, 0, G, K), counts[0])


def test_a_model_keeps_its_cells():
    """Over many rows, groups that come and grow, and particles that are copied."""
    rng = np.random.default_rng(0)
    for layers in (4, (4, 3)):
        model = GroupDP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), n_shared=layers)
        X = rng.choice([0.0, 30.0, 60.0], (300, 1)) + rng.normal(size=(300, 1))
        names = [f"g{i // 4 if i % 2 else i % 7}" for i in range(300)]
        group = names if layers == 4 else [(name[-1], name) for name in names]
        for a in range(0, 300, 50):
            model.learn_many(X[a : a + 50], group=group[a : a + 50])
        state, G = model._engine.state, len(set(group))
        for p in np.flatnonzero(state.particles.weight > 0.0):
            own = dense(state.own, p, G, state.particles.entry.shape[1])
            found = dict(zip(model.groups, own.sum(axis=1).tolist(), strict=True))
            assert found == {g: group.count(g) for g in group}
        assert model.groups == list(dict.fromkeys(group))
