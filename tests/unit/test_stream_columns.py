"""Columns of the state of SeqDDCRP that come, go and are joined, against twins in NumPy."""

import copy
from typing import get_args, get_type_hints

import numpy as np
import pytest

from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import DirichletMultinomial, NormalGamma
from streamddcrp.models.seqddcrp.kernels.arrival import _forget
from streamddcrp.models.seqddcrp.kernels.layout import (
    DEAD_BIRTHS,
    N_ACTIVE,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    REGIME,
)
from streamddcrp.models.seqddcrp.kernels.moves import _join, try_move
from streamddcrp.models.seqddcrp.kernels.split import _try
from streamddcrp.models.seqddcrp.kernels.state import forward, refresh_active, refresh_terms, settle
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.models.seqddcrp.kernels.window import close_column
from streamddcrp.models.seqddcrp.state import (
    Atoms,
    ComponentTable,
    Groups,
    Rows,
    arrays_of,
    widened,
)
from tests.oracles.plain import plain
from tests.properties.test_stream_bound import engine, learned

GROUPS = {"rows": Rows, "groups": Groups, "atoms": Atoms, "table": ComponentTable}
WORDS = {
    "rows.x",
    "rows.past",
    "table.stats",
    "table.frozen",
    "table.shadow",
    "table.other",
    "table.undivided",
    "table.left",
    "table.right",
}  # have an axis of words
BY_COLUMN = {  # axis of the columns, of every array that has one; ``atoms.active`` lists columns
    f"{part}.{name}": axes.index("K")
    for part, group in GROUPS.items()
    for name, hint in get_type_hints(group, include_extras=True).items()
    if "K" in (axes := get_args(hint)[1].split())
}


def after_a_stream(seed=0, last=10, **options):
    """Return config and state of a stream, its window partly evicted into groups.

    The last ``last`` rows are of one table.
    """
    config, state = engine(NormalGamma(0.0, 0.05, 1.5, 0.5), Exponential(6.0), **options)
    rng = np.random.default_rng(seed)
    means = np.repeat([0.0, 9.0, -9.0, 18.0, 0.0, 9.0, 18.0], [10, 10, 10, 10, 10, 10, last])
    X = rng.normal(means, 0.5)[:, None]
    state = learned(config, state, X, np.arange(60.0 + last))
    assert state.n_tables >= 4
    assert min(state.counts[[N_ROWS, N_GROUPS]]) > 1
    return config, state


def scrambled(state, rng):
    """Fill what is in use of every array of columns with numbers of its own."""
    K, G = int(state.counts[N_TABLES]), int(state.counts[N_GROUPS])
    for name in BY_COLUMN:
        part, field = name.split(".")
        array = getattr(getattr(state, part), field)
        array[...] = rng.permutation(array.size).reshape(array.shape)
    state.groups.atom[:G] = rng.integers(0, K, G)
    columns = np.flatnonzero(rng.random(K) < 0.7)
    state.counts[N_ACTIVE] = len(columns)
    state.atoms.active[: len(columns)] = columns


def test_all_arrays_of_columns_are_known():
    assert set(BY_COLUMN.values()) == {0, 1}
    assert {"rows.births", "groups.shadow", "atoms.failed_at", "table.frozen"} <= set(BY_COLUMN)


@pytest.mark.parametrize("m", range(4))
def test_a_closed_column_is_deleted_from_every_array(m):
    _, state = after_a_stream()
    scrambled(state, np.random.default_rng(m))
    before, K = arrays_of(state), state.n_tables
    close = plain(close_column)
    close(state.rows, state.groups, state.atoms, state.table, state.counts, m)
    after = arrays_of(state)
    assert state.n_tables == K - 1
    for name, values in before.items():
        if name in {"counts", "atoms.beta", "atoms.log_beta"}:  # the caller refreshes the sticks
            continue
        if name == "atoms.active":
            values = values[values != m]  # noqa: PLW2901
            values = values - (values > m)  # noqa: PLW2901
        elif name == "groups.atom":
            # what was at the column itself is the caller's to move
            kept = values != m
            np.testing.assert_array_equal((values - (values > m))[kept], after[name][kept])
            continue
        elif name in BY_COLUMN:
            values = np.delete(values, m, BY_COLUMN[name])  # noqa: PLW2901
        np.testing.assert_array_equal(after[name], values, err_msg=name)


@pytest.mark.parametrize("regime", ["joins", "is joined", "elsewhere"])
@pytest.mark.parametrize("larger", [0, 1])
def test_joined_columns_are_summed_and_keep_the_id_of_the_larger(regime, larger):
    config, state = after_a_stream()
    m, l, K = 1, 3, state.n_tables
    state.table.stats[[m, l][larger]] *= 50.0
    ids = state.table.ids[:K].copy()
    small, large = ids[[l, m]] if larger == 0 else ids[[m, l]]
    state.counts[REGIME] = {"joins": small, "is joined": large, "elsewhere": ids[0]}[regime]
    before = arrays_of(state)
    plain(_join)(
        config, state.rows, state.groups, state.atoms, state.table, state.events, state.counts,
        state.sums, m, l, 70.0,
    )  # fmt: skip
    after = arrays_of(state)
    assert state.counts[REGIME] == (ids[0] if regime == "elsewhere" else large)
    assert after["table.ids"].tolist() == [large if k == m else ids[k] for k in range(K) if k != l]
    born = before["table.born"][[m, l][larger]]
    assert after["table.born"][m] == born
    assert after["table.last_seen"][m] == max(before["table.last_seen"][[m, l]])
    # sums of statistics are the caller's to refresh, with the posterior
    for name in ("table.frozen", "rows.births", "rows.probs", "atoms.frozen_births"):
        expected = np.delete(before[name], l, 0)
        expected[m] += before[name][l]
        np.testing.assert_allclose(after[name], expected, rtol=1e-14, err_msg=name)
    for name in (
        "table.shadow", "atoms.shadow_births", "atoms.side_terms", "atoms.side_sticks",
        "atoms.failed_at",
    ):  # fmt: skip
        assert (after[name][m] == 0.0).all(), name
    assert after["atoms.rest_births"][m] == after["atoms.frozen_births"][m]


def test_groups_of_joined_columns_are_one():
    """Decay masses added at the later time, mean rows weighted by them, links and shares summed."""
    config, state = after_a_stream()
    groups, K, G = state.groups, state.n_tables, int(state.counts[N_GROUPS])
    g, h = 0, 1
    m, l = sorted(groups.atom[:2].tolist())
    if groups.atom[0] != m:
        g, h = 1, 0
    groups.t[g], groups.t[h] = 50.0, 53.0
    groups.arrival[g], groups.arrival[h] = 53, 50
    groups.shadow[:G, :K] = np.random.default_rng(1).random((G, K))
    before = arrays_of(state)
    plain(_join)(
        config, state.rows, groups, state.atoms, state.table, state.events, state.counts,
        state.sums, m, l, 70.0,
    )  # fmt: skip
    after, kept = arrays_of(state), g - (g > h)
    mass = np.exp(before["groups.log_mass"][[g, h]]) * [np.exp(-3.0 / 6.0), 1.0]
    share = mass / mass.sum()
    assert after["groups.t"][kept] == 53.0
    assert after["groups.arrival"][kept] == 53
    assert after["groups.log_mass"][kept] == pytest.approx(np.log(mass.sum()), rel=1e-12)
    probs = before["groups.probs"].copy()
    probs[:, m] += probs[:, l]
    expected = share @ np.delete(probs, l, 1)[[g, h]]
    np.testing.assert_allclose(after["groups.probs"][kept], expected, rtol=1e-12)
    links, weight = before["rows.group_links"], before["rows.group_log_weight"]
    np.testing.assert_allclose(
        after["rows.group_links"][:, kept], links[:, [g, h]].sum(axis=1), rtol=1e-12
    )
    np.testing.assert_allclose(
        after["rows.group_log_weight"][:, kept], np.logaddexp(*weight[:, [g, h]].T), rtol=1e-12
    )


def unchanged(before, state):
    """What was settled before, and is settled again, is the same but for rounding."""
    for name, values in arrays_of(state).items():
        np.testing.assert_allclose(values, before[name], rtol=1e-9, atol=1e-12, err_msg=name)


def settled(config, state):
    """Bring what follows from the links up to date, as blocks do before moves."""
    parts = state.rows, state.groups, state.atoms, state.table, state.counts
    plain(settle)(config, *parts, state.sums, state.scratch, 0)
    refresh_terms(state.rows, state.counts)
    return parts


def test_a_split_that_does_not_pay_is_undone():
    config, state = after_a_stream(window=12)
    m = int(state.table.frozen[: state.n_tables, 0].argmax())
    # half of what is frozen, in proportion: a split into equal halves loses
    state.table.shadow[m] = 0.5 * state.table.frozen[m]
    state.atoms.frozen_births[m] += 2.0
    state.atoms.shadow_births[m] = 0.5 * state.atoms.frozen_births[m]
    state.atoms.rest_births[m] = 0.5 * state.atoms.frozen_births[m]
    state.atoms.side_terms[m], state.atoms.side_sticks[m] = 1.0, 0.5
    G = state.counts[N_GROUPS]
    state.groups.shadow[:G, m] = 0.5 * state.groups.probs[:G, m]
    rows, groups, atoms, table, counts = settled(config, state)
    before, swept = arrays_of(state), []

    def counted(*arguments):
        swept.append(atoms.frozen_births[m])
        sweep(*arguments)

    assert not plain(_try, sweep=counted)(
        config, rows, groups, atoms, table, state.events, counts, state.sums, state.scratch, m, 70.0
    )
    assert swept[0] == pytest.approx(0.5 * before["atoms.frozen_births"][m])  # it was tried
    unchanged(before, state)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_run_that_does_not_pay_is_put_back(is_new):
    config, state = after_a_stream(last=90, look_back=0)
    away = sent_away(state)
    rows, groups, atoms, table, counts = settled(config, state)
    plain(refresh_active)(rows, groups, atoms, counts)
    assert away not in atoms.active[: counts[N_ACTIVE]]
    before = arrays_of(state)
    state.scratch.moved[: counts[N_ROWS]] = np.arange(counts[N_ROWS]) % 2
    bounds = iter([0.0, -1.0])
    assert not plain(try_move, settled_objective=lambda *_: next(bounds))(
        config, rows, groups, atoms, table, state.events, counts, state.sums, state.scratch,
        int(atoms.active[0]), int(counts[N_TABLES]) if is_new else away,
    )  # fmt: skip
    unchanged(before, state)


def sent_away(state):
    """Return a column without groups, at which no row in memory sits any more."""
    K, G = state.n_tables, int(state.counts[N_GROUPS])
    m = min(set(range(K)) - set(state.groups.atom[:G].tolist()))
    state.rows.births[m], state.groups.probs[:G, m] = 0.0, 0.0
    return m


def test_new_words_are_absent_from_everything_so_far():
    """Every array keeps what it held; the statistics of two more words are zero."""
    family = DirichletMultinomial(0.5)
    config, state = engine(family, Exponential(6.0), d=3)
    rng = np.random.default_rng(1)
    X = rng.multinomial(6, [0.8, 0.1, 0.1], 60).astype(float)
    X[20:40] = X[20:40, ::-1]
    state = learned(config, state, X, np.arange(60.0))
    K, w = state.n_tables, int(state.counts[N_ROWS])
    assert K > 1
    state.table.shadow[:K] = rng.random(state.table.shadow[:K].shape)
    before = arrays_of(state)
    after = arrays_of(widened(state, config._replace(hyper=family.hyper(5))))
    for name, values in before.items():
        if name == "table.post":
            continue
        more = [(0, b - a) for a, b in zip(values.shape, after[name].shape, strict=True)]
        assert max((b for _, b in more), default=0) == 2 * (name in WORDS)
        np.testing.assert_array_equal(after[name], np.pad(values, more), err_msg=name)
    assert after["rows.x"].shape == (w, 5)
    assert int(state.counts[N_SEEN]) == 60


def test_what_is_remembered_is_capped():
    """Evicted rows of a present table at ``memory``; all openings together at four times that."""
    config, state = after_a_stream()
    K, table, atoms = state.n_tables, state.table, state.atoms
    rng = np.random.default_rng(2)
    config = config._replace(memory=4.0)
    state.counts[N_ACTIVE] = 2
    atoms.active[:2] = 0, 2
    for name in ("births", "frozen_births", "shadow_births", "rest_births", "side_sticks"):
        getattr(atoms, name)[:K] = rng.uniform(10.0, 20.0, K)
    state.sums[DEAD_BIRTHS] = 7.0
    table.frozen[:K, 0] = 3.0, 50.0, 9.0, *([1.0] * (K - 3))
    table.shadow[:K] = 0.25 * table.frozen[:K]
    atoms.side_terms[:K] = -1.0
    before, sums = arrays_of(state), state.sums.copy()
    plain(_forget)(config, atoms, table, state.counts, state.sums)
    after = arrays_of(state)
    keep = 16.0 / (7.0 + before["atoms.frozen_births"].sum())
    for name in ("births", "frozen_births", "shadow_births", "rest_births", "side_sticks"):
        expected = keep * before[f"atoms.{name}"]
        np.testing.assert_allclose(after[f"atoms.{name}"], expected, rtol=1e-12, err_msg=name)
    assert state.sums[DEAD_BIRTHS] == pytest.approx(keep * sums[DEAD_BIRTHS])
    rows = np.array([1.0, 1.0, 4.0 / 9.0, *([1.0] * (K - 3))])  # an absent one forgets nothing
    for name in ("table.frozen", "table.shadow"):
        np.testing.assert_allclose(after[name], rows[:, None] * before[name], rtol=1e-12)
    np.testing.assert_allclose(after["atoms.side_terms"], -rows, rtol=1e-12)


def test_the_way_for_many_tables_does_the_same():
    """Where rows link to few others and sit at few tables, sums leave out what is zero."""
    config, one = after_a_stream(window=30)
    other = copy.deepcopy(one)
    for state, many in ((one, 16), (other, 0)):
        plain(sweep, MANY=many)(
            config, state.rows, state.groups, state.atoms, state.table, state.counts,
            state.scratch, 5,
        )  # fmt: skip
        plain(forward, MANY=many)(
            state.rows, state.groups, state.atoms, state.counts, state.scratch, 5
        )
    w = one.counts[N_ROWS]
    sole, probs = other.scratch.sole[:w], one.rows.probs[:, :w]
    assert ((sole >= 0) == ((probs > 0.0).sum(axis=0) == 1))[:5].all()
    assert 2 * (sole >= 0).sum() > w > (sole >= 0).sum()
    for name in ("links", "group_links", "births", "probs", "term"):
        found, expected = getattr(other.rows, name), getattr(one.rows, name)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
