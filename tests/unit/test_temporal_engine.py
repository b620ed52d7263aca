"""The window engine: rows are never lost, ids never come back, memory does not grow."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma

from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.moves import move
from streamddcrp.models.temporal.window import Settings, past_weights

KAPPA = past_weights(("exponential", 1.0), 3)


def known(D=2):
    return GaussianDrift.known(*(np.full(D, value) for value in (0.0, 36.0, 0.0625, 1.0)))


def check(engine):
    """What holds after every epoch."""
    K = engine.n_components
    assert len(set(engine.ids.tolist())) == K
    assert engine.ids.max(initial=-1) < engine.next_id
    assert len(engine.rows) == len(engine.resp) <= engine.settings.lag + 1
    assert engine.before.shape == (len(engine.settings.past_weights), K, 3)
    for X, q in zip(engine.rows, engine.resp, strict=True):
        assert q.shape == (len(X), K)
        assert (q >= 0.0).all()
        assert (q <= 1.0).all()
        assert q.sum(axis=1) == pytest.approx(np.ones(len(X)), abs=1e-9)
    assert np.isfinite(engine.before).all()
    for part in engine.starts:
        assert np.isfinite(part).all()


def learn(engine, epochs):
    for X in epochs:
        scores = engine.learn(X)
        assert scores.shape == (len(X),)
        assert np.isfinite(scores).all()
        check(engine)
    return engine


@st.composite
def streams(draw):
    """Epochs of few or many rows at one of several places, with long silences."""
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    n = draw(st.integers(2, 15))
    most = draw(st.sampled_from([1, 3, 12]))
    places = rng.normal(0.0, 15.0, (5, 2))
    epochs = []
    for _ in range(n):
        size = rng.integers(0, most + 1)
        epochs.append(places[rng.integers(0, 5, size)] + rng.standard_normal((size, 2)))
        epochs += [np.zeros((0, 2))] * (int(rng.integers(0, 9)) if rng.random() < 0.2 else 0)
    settings = Settings(
        alpha=draw(st.sampled_from([0.01, 1.0, 10.0])),
        past_weights=KAPPA[: draw(st.integers(1, 3))],
        lag=draw(st.integers(0, 4)),
        n_sweeps=draw(st.sampled_from([0, 1, 4])),
    )
    return settings, epochs


@given(streams())
def test_ids_never_come_back(case):
    """O9 (h): an id begins once, ends at most once, and is seen only in between."""
    settings, epochs = case
    engine = Engine(settings, known())
    begun, ended, seen = set(), set(), 0
    for X in epochs:
        learn(engine, [X])
        for change in engine.changes[seen:]:
            if change.kind in ("birth", "split"):
                assert change.label not in begun
                begun.add(change.label)
            elif change.kind == "return":
                assert change.label in begun - ended
            else:
                assert change.label in begun - ended
                ended.add(change.label)
        seen = len(engine.changes)
        assert set(engine.ids.tolist()) == begun - ended


@given(streams())
def test_cuts_of_an_epoch_do_not_matter(case):
    """O9 (k): rows of an epoch in one call or in many, bit for bit."""
    settings, epochs = case
    one, many = Engine(settings, known()), Engine(settings, known())
    for X in epochs:
        scores = one.learn(X)
        parts = [many.seat(X[i : i + 1]).scores for i in range(len(X))]
        many.close()
        assert (np.concatenate([np.zeros(0), *parts]) == scores).all()
        assert (many.ids == one.ids).all()
        for a, b in zip(one.resp, many.resp, strict=True):
            assert (a == b).all()


@given(streams(), st.integers(1, 6))
def test_there_are_no_more_components_than_slots(case, slots):
    """Once all are taken none is opened, however an epoch is cut; and the state can be read."""
    settings, epochs = case
    settings = settings._replace(slots=slots)
    one, many = Engine(settings, known()), Engine(settings, known())
    for X in epochs:
        for i in range(len(X)):
            full = many.seating is not None and many.seating.n_components == slots
            seats = many.seat(X[i : i + 1])
            assert seats.q.shape[1] <= slots
            assert np.isfinite(seats.scores).all()
            assert not full or seats.chances[0, 0] == 0.0
        many.close()
        learn(one, [X])
        assert one.n_components <= slots
        for a, b in zip(one.resp, many.resp, strict=True):
            assert (a == b).all()
        Engine.from_state(one.emission, *one.to_state(), n_features=2)


def test_a_component_is_split_only_where_a_slot_is_free():
    X = np.random.default_rng(0).standard_normal((40, 2)) + np.repeat([[-9.0], [9.0]], 20, axis=0)
    for slots in (1, 2):
        engine = Engine(Settings(1.0, KAPPA, slots), known())
        engine.rows, engine.resp, engine.epoch = [X], [np.zeros((40, 0))], 0
        engine.open(1)
        engine.resp[0][:] = 1.0
        move(engine)
        assert engine.n_components == slots


def test_weights_sum_to_the_mass_of_the_prior():
    """O9 (a): weights of all seats and of a new one sum to alpha + decayed past + rows so far."""
    rng = np.random.default_rng(0)
    settings = Settings(alpha=0.7, past_weights=KAPPA, lag=1, slots=30)
    sizes, engine = [6, 0, 9, 4], Engine(settings, known())
    for n in sizes:
        engine.learn(rng.normal(0.0, 8.0, (n, 2)))
    engine.seat(rng.normal(0.0, 8.0, (3, 2)))
    sizes.remove(0)  # an epoch without rows that has left the window
    past = sum(KAPPA[d - 1] * sizes[-d] for d in range(1, 4))
    assert engine.weight == pytest.approx(0.7 + past, abs=1e-2)  # retired ones took some along


def test_silent_components_leave_and_return_as_new_ones():
    """O9 (h): silent for as long as the past counts, or as the window is long."""
    rng = np.random.default_rng(1)
    here, there = np.array([0.0, 0.0]), np.array([40.0, 0.0])
    for lag, patience in ((0, 3), (2, 3), (5, 6)):
        engine = Engine(Settings(alpha=1.0, past_weights=KAPPA, lag=lag), known())
        learn(
            engine, [np.concatenate([c + 0.3 * rng.standard_normal((9, 2)) for c in (here, there)])]
        )
        for silent in range(1, patience + 1):
            assert engine.n_components == 2
            learn(engine, [here + 0.3 * rng.standard_normal((9, 2))])
            assert (engine.n_components == 1) == (silent == patience)
        death = next(change for change in engine.changes if change.kind == "death")
        assert (death.index, death.label) == (0, 1)
        learn(engine, [there + 0.3 * rng.standard_normal((9, 2))])
        assert engine.ids.tolist() == [0, 2]


def test_nothing_comes_of_nothing():
    """Empty epochs are legal, before the first row and after the last."""
    engine = Engine(Settings(alpha=1.0, past_weights=KAPPA, lag=2), known())
    learn(engine, [np.zeros((0, 2))] * 6)
    assert engine.n_components == 0
    learn(engine, [np.ones((3, 2)), *[np.zeros((0, 2))] * 8, np.ones((3, 2))])
    assert engine.ids.tolist() == [0]
    of_it = [(c.kind, c.index) for c in engine.changes if c.label == 0]
    assert of_it == [("birth", 6), ("return", 15)]


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize(
    "epochs",
    [
        [np.full((7, 2), 3.0)] * 6,
        [np.zeros((7, 2))] * 6,
        [np.full((1, 2), float(t)) for t in range(8)],
        [np.full((5, 2), 1e12)] * 3 + [np.full((5, 2), -1e12)] * 3 + [np.full((5, 2), 1e-12)] * 3,
    ],
    ids=["identical", "zeros", "one row", "extremes"],
)
def test_degenerate_rows(epochs, lag):
    """Never NaN, never a lost row."""
    learn(Engine(Settings(alpha=1.0, past_weights=KAPPA, lag=lag), known()), epochs)
    learn(Engine(Settings(1.0, KAPPA, lag=lag), GaussianDrift.scaled(epochs[0], 0.1)), epochs)


@pytest.mark.parametrize("scale", [1e12, 1e-12])
def test_unit_of_measure(scale):
    """Learned scales follow the unit of the rows: the same components come out."""
    rng = np.random.default_rng(2)
    epochs = [
        np.concatenate([c + rng.standard_normal((12, 2)) for c in (-9.0, 9.0)]) for _ in range(8)
    ]
    settings = Settings(alpha=1.0, past_weights=KAPPA, lag=2)
    unit = learn(Engine(settings, GaussianDrift.scaled(epochs[0], 0.01)), epochs)
    moved = [scale * X for X in epochs]
    other = learn(Engine(settings, GaussianDrift.scaled(moved[0], 0.01)), moved)
    assert (unit.ids == other.ids).all()
    assert unit.resp[-1] == pytest.approx(other.resp[-1], abs=1e-6)
    assert other.emission.noise / scale**2 == pytest.approx(unit.emission.noise, rel=1e-6)


def size_of(engine):
    """Bytes of everything that is kept, but for what happened, which the caller takes away."""
    arrays = [*engine.rows, *engine.resp, engine.before, *engine.starts]
    arrays += [engine.ids, engine.born, engine.last_active]
    lists = [engine.rows, engine.resp, engine.arrived, engine.seated]
    return sum(a.nbytes for a in arrays) + sum(map(sys.getsizeof, lists))


def test_memory_does_not_grow():
    """O9 (i): over a thousand epochs of births and deaths, size follows live components only."""
    rng = np.random.default_rng(3)
    engine = Engine(Settings(alpha=1.0, past_weights=KAPPA, lag=2, n_sweeps=1), known())
    sizes: list[dict[int, int]] = [{}, {}]
    for t in range(1000):
        centre = np.array([20.0 * (t // 10 % 2), 20.0 * (t // 25 % 3)])
        engine.learn(centre + rng.standard_normal((6, 2)))
        engine.changes.clear()
        if t >= 20:
            sizes[t >= 500][engine.n_components] = size_of(engine)
    assert engine.next_id > 100
    assert max(sizes[1]) <= 8
    for K in sizes[0].keys() & sizes[1].keys():
        assert sizes[1][K] == sizes[0][K]
    check(engine)


def test_alpha_follows_the_births():
    """Far clusters have hard assignments: births are counted, and the fit of alpha is closed."""
    rng = np.random.default_rng(3)
    settings = Settings(1.0, (0.5,), lag=1, learn_alpha=True)
    law = GaussianDrift.known(np.zeros(1), np.full(1, 1e8), np.full(1, 0.01), np.ones(1))
    engine = Engine(settings, law)
    alive = [[0.0], [0.0, 4e3], [4e3, 9e3, 2e4], [2e4, 5e4]]
    births, weights, rows = [1, 1, 2, 1], [], []
    alpha = 1.0
    for centres in alive:
        X = (np.repeat(centres, 10) + rng.normal(size=10 * len(centres)))[:, None]
        past = 0.5 * rows[-1] if rows else 0.0
        rows.append(len(X))
        weights.append(past)
        engine.learn(X)
        # the same fixed-point step, on counts; what has left the window fades and keeps the alpha
        # at which it left
        alpha = engine.settings.alpha
    window = slice(len(alive) - 2, len(alive))
    left = engine.alpha_sums
    assert left[0] == pytest.approx(1.0 + 0.98 * 1.0, rel=1e-6)
    before = engine.settings._replace(alpha=alpha)
    engine.settings = before
    engine.learn_counts()
    mass = alpha + np.array(weights[window])
    chances = float(np.sum(digamma(mass + rows[window]) - digamma(mass))) + left[1]
    expected = (1.0 + sum(births[window]) + left[0]) / (1.0 + chances)
    assert engine.settings.alpha == pytest.approx(expected, rel=1e-6)
