"""A batch that makes more events than a ring holds: none of them is lost."""

import logging

import numpy as np
import pytest

from streamddcrp import (
    DDCRPSampler,
    EmbeddingStream,
    GraphCRP,
    GroupDP,
    SeqDDCRP,
    TemporalDPM,
    TextStream,
    TimeVaryingIBP,
    contract,
)
from streamddcrp.contract import empty_events
from streamddcrp.models.ddcrp import state as ddcrp
from streamddcrp.particles import state as particles

SMALL = 5  # events of a ring
LAW = ("normal_gamma", 0.0, 0.02, 3.0, 0.5)
BROAD = ("normal_gamma", 0.0, 0.001, 3.0, 0.5)


def places(n, each, D, scale):
    """Rows in blocks, each at a place of its own."""
    rng = np.random.default_rng(0)
    return np.repeat(rng.normal(0.0, scale, (n, D)), each, axis=0) + rng.normal(size=(n * each, D))


def stories(n, each):
    return [f"a{i // each} b{i // each} c{i // each}" for i in range(n * each)]


def directions(n, each, D):
    """Vectors in blocks, each of a direction of its own."""
    rng = np.random.default_rng(0)
    return np.repeat(rng.normal(size=(n, D)), each, axis=0) + rng.normal(0.0, 0.1, (n * each, D))


STORMS = {  # class: how it is made, rows, and events that its ring holds
    "SeqDDCRP": (lambda: SeqDDCRP(likelihood=LAW, window=6), places(300, 8, 1, 300.0), 256),
    "DDCRPSampler": (
        lambda: DDCRPSampler(likelihood=LAW, decay=("window", 6), n_particles=5),
        places(300, 8, 1, 300.0), SMALL,
    ),
    "GraphCRP": (
        lambda: GraphCRP(likelihood=LAW, window=6, n_particles=5), places(300, 8, 1, 300.0), 256
    ),
    "GroupDP": (
        lambda: GroupDP(likelihood=BROAD, n_shared=2, n_particles=5),
        places(800, 4, 1, 100.0), SMALL,
    ),
    "TimeVaryingIBP": (
        lambda: TimeVaryingIBP(
            n_particles=5, moves=2, window=20, sigma_x=1.0, sigma_y=9.0, baseline=False
        ),
        directions(150, 8, 4) * 9.0, 128,
    ),
    "TextStream": (lambda: TextStream(lag=5, births=2, scale="story"), stories(6_000, 3), 8192),
    "EmbeddingStream": (
        lambda: EmbeddingStream(lag=5, births=2, decay=10.0), directions(2_200, 3, 64), 4096
    ),
    "TemporalDPM": (
        lambda: TemporalDPM(likelihood="gaussian", epoch=("rows", 8), warmup=20, window=1, lag=1),
        places(200, 8, 1, 300.0), 256,
    ),
}  # fmt: skip


@pytest.fixture
def small_rings(monkeypatch):
    """Rings of particle models that a few events fill, and pieces to go with them."""
    for module in (particles, ddcrp):
        monkeypatch.setattr(module, "empty_events", lambda: empty_events(SMALL))
    monkeypatch.setattr(contract, "PIECE", 2)


@pytest.mark.parametrize("name", STORMS)
def test_no_event_of_a_batch_is_lost(name, caplog, request):
    make, rows, room = STORMS[name]
    if room == SMALL:
        request.getfixturevalue("small_rings")
    model, twin, asked = make(), make(), []
    first = 16  # rows of before, whose events are never given twice
    for a in range(0, len(rows), 40):
        twin.learn_many(rows[a : a + 40])
        asked += twin.events()
    model.learn_many(rows[:first])
    before = model.events()
    with caplog.at_level(logging.WARNING):
        model.learn_many(rows[first:])
        found = model.events()
    assert len(found) > room
    assert before + found == asked
    assert not [record for record in caplog.records if "overwritten" in record.getMessage()]
    assert model.events() == []
