"""LaplacianInverse equals the dense inverse after any sequence of appends, revisions, evictions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamddcrp.reachability import LaplacianInverse

ATOL = 1e-12  # sums of at most 50 numbers in [0, 1], each off by a few roundings


@st.composite
def link_rows(draw, n):
    """Probabilities of links to n earlier customers, possibly none, possibly certain."""
    weights = np.array(
        draw(
            st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=n + 1, max_size=n + 1)
        )
    )
    if weights.sum() == 0.0:
        weights[n] = 1.0
    return (weights / weights.sum())[:n]


@st.composite
def link_matrices(draw, max_size=12):
    n = draw(st.integers(0, max_size))
    A = np.zeros((n, n))
    for i in range(n):
        A[i, :i] = draw(link_rows(i))
    return A


def assert_inverse(R, A):
    eye = np.eye(len(A))
    np.testing.assert_allclose(R, np.linalg.inv(eye - A), rtol=0, atol=ATOL)
    np.testing.assert_allclose((eye - A) @ R, eye, rtol=0, atol=ATOL)
    assert (R >= 0.0).all()
    assert (R <= 1.0).all()


@given(link_matrices())
def test_appended_rows_equal_the_dense_inverse(A):
    inverse = LaplacianInverse.from_links(A)
    assert_inverse(inverse.to_dense(), A)
    Z = inverse.table_probabilities()
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, rtol=0, atol=ATOL)
    np.testing.assert_allclose(inverse.expected_table_sizes(), Z.sum(axis=0), rtol=0, atol=ATOL)
    np.testing.assert_allclose(inverse.expected_table_sizes().sum(), len(A), rtol=1e-12)


@given(st.data(), link_matrices())
def test_revision_equals_rebuilding(data, A):
    if len(A) == 0:
        return
    i = data.draw(st.integers(0, len(A) - 1))
    inverse = LaplacianInverse.from_links(A)
    A[i, :i] = data.draw(link_rows(i))
    inverse.revise(i, A[i, :i])
    np.testing.assert_array_equal(inverse.links, A)
    assert_inverse(inverse.to_dense(), A)


class Restaurant(RuleBasedStateMachine):
    """The class beside a plain matrix of links."""

    @initialize()
    def start(self):
        self.inverse = LaplacianInverse()
        self.A = np.zeros((0, 0))
        self.evicted = False

    @rule(data=st.data())
    def append(self, data):
        n = len(self.A)
        row = data.draw(link_rows(n), label="row")
        self.inverse.append(row)
        self.A = np.pad(self.A, (0, 1))
        self.A[n, :n] = row

    @rule(data=st.data())
    def append_many(self, data):
        for _ in range(data.draw(st.integers(2, 8))):
            self.append(data)

    @precondition(lambda self: len(self.A))
    @rule(data=st.data())
    def revise(self, data):
        i = data.draw(st.integers(0, len(self.A) - 1), label="i")
        row = data.draw(link_rows(i), label="row")
        self.inverse.revise(i, row)
        self.A[i, :i] = row

    @precondition(lambda self: len(self.A))
    @rule(data=st.data())
    def evict(self, data):
        k = data.draw(st.integers(0, len(self.A)), label="k")
        self.inverse.evict(k)
        self.A = self.A[k:, k:]
        self.evicted = self.evicted or k > 0

    @invariant()
    def equals_the_dense_inverse(self):
        assert len(self.inverse) == len(self.A)
        np.testing.assert_array_equal(self.inverse.links, self.A)
        assert_inverse(self.inverse.to_dense(), self.A)

    @invariant()
    def moments(self):
        Z = self.inverse.table_probabilities()
        if self.evicted:
            assert (Z.sum(axis=1) <= 1.0 + ATOL).all()
        else:
            np.testing.assert_allclose(Z.sum(axis=1), 1.0, rtol=0, atol=ATOL)
        np.testing.assert_allclose(
            self.inverse.expected_table_sizes(), Z.sum(axis=0), rtol=0, atol=ATOL
        )
        n_tables = self.inverse.self_links.sum()
        np.testing.assert_allclose(self.inverse.expected_n_tables(), n_tables, rtol=1e-14)


TestRestaurant = Restaurant.TestCase
