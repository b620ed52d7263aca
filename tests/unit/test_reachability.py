"""LaplacianInverse against the printed oracles, hand-computed cases, growth and refusals."""

import numpy as np
import pytest

from streamddcrp import errors
from streamddcrp.decay import Exponential, NoDecay, Window
from streamddcrp.reachability import LaplacianInverse
from tests.oracles.links import prior_links


def prior_inverse(decay, alpha, n):
    return LaplacianInverse.from_links(np.exp(prior_links(decay, alpha, n)))


PRIORS = [
    (NoDecay(), [0.6666666667, 0.4, 0.2857142857, 0.2222222222, 0.1818181818, 1], 1.8782106782),
    (
        Exponential(2),
        [0.3363597732, 0.2913043429, 0.2861810138, 0.2969205162, 0.3167327191, 1],
        2.6194226372,
    ),
    (Window(3), [0.4053333333, 0.3776, 0.384, 0.56, 0.4, 1], 2.1333333333),
]


@pytest.mark.parametrize(("decay", "last_row", "n_tables"), PRIORS, ids=["crp", "exp", "window"])
def test_prior_reachability(decay, last_row, n_tables):
    inverse = prior_inverse(decay, 0.5, 6)
    np.testing.assert_allclose(inverse.to_dense()[-1], last_row, rtol=0, atol=1e-10)
    assert inverse.expected_n_tables() == pytest.approx(n_tables, abs=1e-10)


def test_prior_of_exponential_decay_oracle_o2():
    inverse = prior_inverse(Exponential(2), 0.7, 5)
    sizes = [2.4703108265, 1.0391766976, 0.6672090849, 0.4789635704, 0.3443398205]
    np.testing.assert_allclose(inverse.expected_table_sizes(), sizes, rtol=0, atol=1e-10)
    assert inverse.expected_n_tables() == pytest.approx(2.6670661802, abs=1e-10)
    Z = inverse.table_probabilities()
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, rtol=1e-14)
    with_first = [1, 0.4642299476, 0.387867427, 0.3315683536, 0.2866450984]
    np.testing.assert_allclose(Z[:, 0], with_first, rtol=0, atol=1e-10)


def test_self_links_and_links():
    inverse = LaplacianInverse()
    inverse.append([])
    inverse.append([0.75])
    inverse.append([0.5, 0.25])
    np.testing.assert_array_equal(inverse.self_links, [1.0, 0.25, 0.25])
    np.testing.assert_array_equal(inverse.links, [[0, 0, 0], [0.75, 0, 0], [0.5, 0.25, 0]])
    assert len(inverse) == 3
    assert repr(inverse) == "<LaplacianInverse of 3 customers>"


def test_evict_keeps_the_rest():
    inverse = prior_inverse(Exponential(2), 0.7, 8)
    R, Z = inverse.to_dense(), inverse.table_probabilities()
    inverse.evict()
    inverse.evict(2)
    assert len(inverse) == 5
    np.testing.assert_array_equal(inverse.to_dense(), R[3:, 3:])
    np.testing.assert_array_equal(inverse.table_probabilities(), Z[3:, 3:])
    np.testing.assert_allclose(inverse.expected_table_sizes(), Z[3:, 3:].sum(axis=0), rtol=1e-14)
    inverse.evict(0)
    inverse.evict(5)
    assert len(inverse) == 0
    assert inverse.expected_n_tables() == 0.0
    assert inverse.to_dense().shape == (0, 0)
    inverse.append([])
    np.testing.assert_array_equal(inverse.to_dense(), [[1.0]])


def test_self_link_beside_links_to_evicted_customers():
    inverse = LaplacianInverse()
    inverse.append([])
    inverse.append([0.5])
    inverse.evict()
    inverse.append([0.25], self_link=0.25)
    np.testing.assert_array_equal(inverse.self_links, [0.5, 0.25])
    inverse.revise(0, [], self_link=0.125)
    np.testing.assert_array_equal(inverse.self_links, [0.125, 0.25])


def test_memory_follows_the_customers_kept():
    """A sliding window of 10 customers over 1000 arrivals, equal to one built from scratch."""
    links = np.exp(prior_links(Window(4), 0.5, 1000))
    inverse = LaplacianInverse()
    for i in range(1000):
        inverse.append(links[i, max(0, i - 10) : i], self_link=links[i, i])
        inverse.evict(max(0, len(inverse) - 10))
    assert inverse._R.shape == (10, 10)
    fresh = LaplacianInverse.from_links(links[990:, 990:])
    np.testing.assert_array_equal(inverse.to_dense(), fresh.to_dense())
    np.testing.assert_array_equal(inverse.links, fresh.links)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ([0.5], r"length 2; got shape \(1,\)"),
        ([0.5, 0.2, 0.1], r"length 2; got shape \(3,\)"),
        ([[0.5, 0.2]], r"length 2; got shape \(1, 2\)"),
        (0.5, r"length 2; got shape \(\)"),
        ([0.5, -0.1], "entry 1 is -0.1"),
        ([np.nan, 0.1], "entry 0 is nan"),
        ([np.inf, 0.1], "entry 0 is inf"),
        ([0.5, 1.1], "entry 1 is 1.1"),
        ([0.5, 0.6], "sum to 1.1"),
    ],
)
def test_bad_rows_change_nothing(row, match):
    inverse = LaplacianInverse.from_links([[0, 0, 0], [0.5, 0, 0], [0.5, 0.25, 0]])
    before = inverse.to_dense()
    with pytest.raises(errors.SchemaError, match=match):
        inverse.revise(2, row)
    np.testing.assert_array_equal(inverse.to_dense(), before)
    np.testing.assert_array_equal(inverse.links[2], [0.5, 0.25, 0])
    inverse.revise(2, [0.5, 0.5])
    inverse.evict()
    with pytest.raises(errors.SchemaError, match=match):
        inverse.append(row)
    assert len(inverse) == 2


def test_rounding_of_a_sum_is_forgiven():
    inverse = LaplacianInverse()
    inverse.append([])
    inverse.append([1.0 + 1e-12])
    assert inverse.self_links[1] == 0.0
    assert inverse.to_dense()[1, 0] == 1.0


def test_other_refusals():
    inverse = LaplacianInverse()
    with pytest.raises(errors.ConfigError, match="no customer 0"):
        inverse.revise(0, [])
    for n in range(3):
        inverse.append([0.0] * n)
    with pytest.raises(errors.SchemaError, match=r"row and self_link: .* 1.25"):
        inverse.append([0.0, 0.0, 0.5], self_link=0.75)
    with pytest.raises(errors.SchemaError, match="self_link: expected a probability"):
        inverse.append([0.0, 0.0, 0.5], self_link=-0.75)
    for i in (-1, 3):
        with pytest.raises(errors.ConfigError, match=f"between 0 and 2, got {i}"):
            inverse.revise(i, [0.0])
    for k in (-1, 4):
        with pytest.raises(errors.ConfigError, match=f"between 0 and 3, got {k}"):
            inverse.evict(k)
    with pytest.raises(errors.SchemaError, match="square"):
        LaplacianInverse.from_links([[0.0, 1.0]])
