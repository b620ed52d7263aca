"""Kernels that choose, name or note something, each by itself."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from streamddcrp.models.seqddcrp.kernels.groups import ties_gain
from streamddcrp.models.seqddcrp.kernels.layout import N_COUNTS, N_ROWS
from streamddcrp.models.temporal.kernels.counts import seat_row
from streamddcrp.models.text.kernels.layout import N_RIVALS
from streamddcrp.models.text.kernels.moves import remember_rival
from streamddcrp.particles.kernels.names import N_NAMES, name_of
from tests.oracles.plain import plain


@pytest.mark.parametrize("new", [-9.0, -1.2, -0.1])
def test_a_row_is_shared_and_scored(new):
    """Probabilities in proportion to the weights; young: half a row of the past, or less."""
    log_weight = np.array([-0.5, -3.0, -1.0, -50.0])
    past, size = np.array([0.2, 9.0, 4.0, 0.0, 7.0]), np.array([1.0, 0.0, 2.0, 0.0, 8.0])
    q, before = np.append(log_weight, 0.0), size.copy()
    scores, chances = np.empty(1), np.empty(2)
    K = plain(seat_row)(q, new, True, 4, -40.0, 1e-6, past, size, scores, chances)
    weight = np.exp(log_weight)
    total = weight.sum() + math.exp(new)
    assert scores[0] == pytest.approx(-math.log(total), rel=1e-12)
    assert chances[0] == pytest.approx(math.exp(new) / total, rel=1e-12)
    assert chances[1] == pytest.approx((weight[[0, 3]].sum() + math.exp(new)) / total, rel=1e-12)
    if new > log_weight.max():
        assert (K, q.tolist(), past[4]) == (5, [0.0] * 4 + [1.0], 0.0)
    else:
        share = np.where(weight > 1e-6 * weight.max(), weight, 0.0)
        assert K == 4
        np.testing.assert_allclose(q[:4], share / share.sum(), rtol=1e-12)
        np.testing.assert_allclose(size[:4], before[:4] + q[:4], rtol=1e-12)


def test_a_row_that_says_nothing_opens_the_first_component_only():
    """Its chances are those of any row; it goes where the counts are."""
    for K in (0, 3):
        log_weight, new = np.log([2.0, 1.0, 0.5, 1.0])[:K], math.log(9.0)
        past, size, q = np.ones(K + 1), np.ones(K + 1), np.append(log_weight, 0.0)
        scores, chances = np.empty(1), np.empty(2)
        n = plain(seat_row)(q, new, False, K, -np.inf, 0.4, past, size, scores, chances)
        total = 9.0 + np.exp(log_weight).sum()
        assert scores[0] == pytest.approx(-math.log(total), rel=1e-12)
        assert chances[0] == pytest.approx(9.0 / total, rel=1e-12)
        # what is below .4 of the likeliest one there is, is nothing
        assert n == max(K, 1)
        assert q == pytest.approx([2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0] if K else [1.0], rel=1e-12)


def test_a_name_that_is_used_again_was_not_reported():
    names = SimpleNamespace(
        opener=np.array([7, -1, 9]), last_seen=np.array([8, 3, 9]), reported=np.ones(3, bool)
    )
    recent, counts = np.array([-1, 2, -1, 0]), np.zeros(N_NAMES + 1, np.int64)
    assert plain(name_of)(13, recent, names, counts) == 2  # of customer 9, here of 13 as well
    assert names.reported.all()
    assert plain(name_of)(14, recent, names, counts) == 1
    assert names.opener.tolist() == [7, 14, 9]
    assert names.last_seen.tolist() == [8, -1, 9]
    assert names.reported.tolist() == [True, False, True]
    assert (recent.tolist(), counts[N_NAMES]) == ([-1, 2, 1, 0], 1)


def test_rivals_are_good_second_choices_and_never_the_table_itself():
    weight = np.array([1.0, 0.5, 1e-4, 0.9])
    tables = SimpleNamespace(
        size=np.full(4, N_RIVALS + 1), id=np.arange(4) + 10,
        rival=np.full((4, N_RIVALS), 3), rival_id=np.full((4, N_RIVALS), 13),
    )  # fmt: skip
    for rival, noted in [(1, 1), (2, -1), (-1, -1), (0, -1)]:
        plain(remember_rival)(tables, weight, 0, rival)
        assert tables.rival[0].tolist() == [3, noted, *([3] * (N_RIVALS - 2))]
        if noted >= 0:
            assert tables.rival_id[0, 1] == noted + 10


def test_what_rows_gain_when_two_groups_become_one():
    """Ties without a share, out of reach, and of rows beyond the last, which do not count."""
    rng = np.random.default_rng(0)
    links, log_p = rng.uniform(0.0, 0.5, (24, 3)), rng.normal(-3.0, 2.0, (24, 3))
    links[2, 0] = links[5, 1] = 0.0
    links[7] = 0.0
    links[9, 1], log_p[9, 1] = 0.0, -np.inf
    links[11], log_p[11] = 0.0, -np.inf
    links[20:], log_p[20:] = np.nan, np.nan
    rows = SimpleNamespace(group_links=links, group_log_weight=log_p)
    counts = np.zeros(N_COUNTS, np.int64)
    counts[N_ROWS] = 20

    def term(q, log_p):
        return q * (log_p - math.log(q)) if q > 0.0 else 0.0

    expected = 0.0
    for q, p in zip(links[:20, :2], log_p[:20, :2], strict=True):
        expected += term(q.sum(), np.logaddexp(*p)) - term(q[0], p[0]) - term(q[1], p[1])
    assert expected > 0.1
    assert plain(ties_gain)(rows, counts, 0, 1) == pytest.approx(expected, rel=1e-13)
