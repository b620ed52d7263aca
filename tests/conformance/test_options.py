"""Options: what is refused, seeds, decays of the user's own, families that choose themselves."""

import math
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import (
    Alarm,
    DDCRPSampler,
    EmbeddingStream,
    GraphCRP,
    GroupDP,
    Keyed,
    LinkLanguageModel,
    NestedCRPComponents,
    NestedCRPTopics,
    RegimeAnomalyDetector,
    Seasonal,
    SeqDDCRP,
    TemporalDPM,
    TextStream,
    TimeVaryingIBP,
    WindowFeatures,
)
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import DirichletMultinomial
from tests.conformance.streams import levels

nan, inf = math.nan, math.inf
BAD = {
    SeqDDCRP: {
        "alpha": (0.0, nan, 10**400), "gamma": (-1.0,), "window": (0,), "sweep_every": (0,),
        "max_tables": (0,), "birth_threshold": (1.5,), "decay": (("exponential", -1.0), "steep"),
        "likelihood": (("gauss", 1.0),), "warmup": (0,), "time_unit": (0.0,), "preset": ("none",),
        "season": (0.0, "fortnight", (), -1, ("day", "x"), "24 rows"),
    },
    DDCRPSampler: {
        "alpha": (0.0, nan), "gamma": (0.0,), "n_particles": (0,),
        "seed": (-1,), "warmup": (0,), "time_unit": (0.0,),
        "decay": (("exponential", -1.0), "steep"), "likelihood": (("gauss", 1.0),),
    },
    GraphCRP: {
        "window": (0,), "rejuvenate": (60,), "alpha": ("1",), "warmup": (0,),
        "moves": (-1,), "n_particles": (0,), "seed": (-1,), "discount": (1.0, -0.5, 0.5),
        "n_clusters": (0, 2.5, 3), "whole_graph": (True,),
    },
    GroupDP: {
        "n_shared": (0, (1, 2, 3)), "alpha": (0, "1", ("gamma", 0, 1)), "moves": (-1,),
        "warmup": (0,), "n_particles": (0,), "seed": (-1,), "likelihood": (("gauss", 1.0),),
        "max_tables": (0,), "max_groups": (0,),
    },
    TimeVaryingIBP: {
        "window": (0, 2.5), "alpha": (0.0,), "n_particles": (0,), "moves": (-1,),
        "warmup": (0,), "sigma_x": (1.0, 0.0), "baseline": (1,), "seed": (-1,),
    },
    EmbeddingStream: {
        "rho": (1.0,), "temper": (0.0,), "lag": (0,), "decay": (-1.0,), "alpha": (0.0,),
        "scale": ("genre",),
    },
    TextStream: {
        "alpha": (-1.0,), "lag": (0,), "stop_words": (("two words",),), "keep": (("hashtags",),),
        "scale": ("genre",),
        "decay": (0.0, "fast", "100 rows", ("time", -1.0), ("exponential", 3.0)),
    },
    TemporalDPM: {
        "alpha": (0.0, nan), "lag": (-1,), "window": (0,), "warmup": (0,), "n_sweeps": (0,),
        "decay": (("exponential", -1.0), "steep"), "likelihood": ("poisson", 3),
        "epoch": ("1 fortnight", 0, ("rows", 1.5), inf, True),
    },
    NestedCRPTopics: {
        "depth": (1, 2.0), "gamma": (0.0,), "eta": ((1.0, 0.5), -1.0), "alpha": ((1, 2, 0),),
        "forgetting": (0.4,), "window": (0,), "max_nodes": (3,), "revisits": (-1,),
        "max_words": (1,),
    },
    NestedCRPComponents: {
        "depth": (1,), "max_nodes": (1,), "gamma": (-1,), "window": (3,), "warmup": (1,),
        "seed": (-1,), "likelihood": ("poisson", None),
    },
    LinkLanguageModel: {
        "alpha": (0.0, "one"), "base_measure": ([0.5, 0.4], [1.5, -0.5], 0, True, [], None, "text"),
        "decay": (("exponential", -1.0), "steep"),
    },
    Seasonal: {"period": (0, nan, "fortnight", (), ("day", -2.0), None)},
    WindowFeatures: {"period": (2,), "warmup": (63,)},
    RegimeAnomalyDetector: {"rate": (1.0,), "reference_after": (5,), "average": (0,)},
    Alarm: {"rate": (0.0, -0.1, 0.5, nan), "average": (0,)},
    partial(Keyed, SeqDDCRP()): {"by": (0,)},
    partial(Keyed, SeqDDCRP(), by="key"): {"memory_limit": (0, "5TB", None)},
}  # fmt: skip
SAID = {
    "season": "period",
    "decay": "scale",
    "n_shared": "r ",
    "base_measure": "probab|words|measure",
}  # instead
LISTED = [
    (make, {name: value})
    for make, options in BAD.items()
    for name, values in options.items()
    for value in values
]


@pytest.mark.parametrize(("make", "options"), LISTED, ids=lambda x: str(x)[:60])
def test_bad_options_are_named(make, options):
    (name,) = options
    with pytest.raises(ConfigError, match=f"{name}|{SAID.get(name, name)}"):
        make(**options)


def test_options_that_depend_on_others():
    with pytest.raises(ConfigError, match="sigma_x"):
        TimeVaryingIBP(sigma_x=0.0, sigma_y=1.0)
    with pytest.raises(ConfigError, match="window must be a whole number from 1"):
        GraphCRP(window=0)


@pytest.mark.parametrize(
    "model", [DDCRPSampler(), GraphCRP(), GroupDP(), TimeVaryingIBP(n_particles=9)]
)
def test_seeds_matter(model):
    rows = levels(11, 200).rows
    models = [model.clone(new_params={"seed": seed}) for seed in (0, 0, 1)]
    for model in models:
        model.learn_many(rows)
    assert models[0].objective == models[1].objective != models[2].objective


# -- decays of the user's own ----------------------------------------------------------------------


def bell(d):
    return np.exp(-0.02 * d**2)


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("make", [partial(SeqDDCRP, warmup=10), partial(DDCRPSampler, warmup=10)])
def test_a_users_decay_does_not_mind_the_cutting(make, clocked):
    stream = levels(1) if clocked else levels(1).untimed
    whole, model = make(decay=bell), make(decay=bell)
    expected = whole.step_many(stream.rows, stream.t)
    parts = []
    for a, b in [(0, 3), (3, 20), (20, 21), (21, 90)]:
        parts.append(model.step_many(stream[a:b].rows, stream[a:b].t))
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert model.objective == whole.objective


@pytest.mark.parametrize("make", [SeqDDCRP, DDCRPSampler, TemporalDPM, LinkLanguageModel])
def test_functions_cannot_be_stored(make):
    with pytest.raises(ConfigError, match="function"):
        make(decay=bell).to_bytes()


@pytest.mark.parametrize("make", [SeqDDCRP, DDCRPSampler])
def test_a_decay_that_fails_changes_nothing(make):
    limit = [1e9]

    def decay(d):
        if np.any(d > limit[0]):
            message = "too far"
            raise ValueError(message)
        return np.exp(-d)

    X, t = levels(7).rows, np.arange(90.0)
    model, twin = make(decay=decay, warmup=10), make(decay=decay, warmup=10)
    model.learn_many(X[:5], t[:5])
    for a, b in [(5, 20), (20, 40)]:
        limit[0] = 0.5
        with pytest.raises(ConfigError, match="too far"):
            model.learn_many(X[a:b], t[a:b])
        limit[0] = 1e9
        model.learn_many(X[a:b], t[a:b])
    expected = twin.step_many(X, t)
    assert model.step_many(X[40:], t[40:]).equals(expected.slice(40))


@pytest.mark.parametrize("make", [SeqDDCRP, DDCRPSampler])
def test_time_stamps_default_to_typical_gaps(make):
    X, start = levels(5).rows, datetime(2026, 1, 1, tzinfo=UTC)
    by_hour, by_index = make(warmup=10), make(warmup=10)
    labels = by_hour.step_many(X, [start + timedelta(hours=i) for i in range(90)])["label"]
    assert labels.to_pylist() == by_index.step_many(X)["label"].to_pylist()
    assert by_hour.objective == pytest.approx(by_index.objective, rel=1e-9)
    event = by_hour.events()[-1]
    assert event.t == pytest.approx(start.timestamp() + 3600.0 * event.index, abs=1e-3)


# -- families --------------------------------------------------------------------------------------


def test_densities_integrate_to_one():
    """The tails beyond 400 of Student t tables with at least 3 degrees of freedom hold < 1e-5."""
    few = {"warmup": 20, "n_particles": 20}
    for model in (SeqDDCRP(warmup=20), DDCRPSampler(warmup=20), GraphCRP(**few), GroupDP(**few)):
        model.learn_many(levels(2, 100, d=1).rows)
        grid = np.linspace(-400.0, 400.0, 10_001)
        density = [math.exp(-model.score_one({0: v})) for v in grid.tolist()]
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)
    model, rng = TemporalDPM(warmup=20), np.random.default_rng(0)
    for _ in range(4):
        model.learn_many(rng.normal(size=(30, 1)))
    grid = np.linspace(-15.0, 15.0, 3001)
    density = [math.exp(-model.score_one({0: v})) for v in grid.tolist()]
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("cut", [10, 40, 63, 64, 68])
@pytest.mark.parametrize("make", [DDCRPSampler, GraphCRP, GroupDP])
def test_rows_after_the_choice_of_family_in_the_same_batch_are_checked(make, cut):
    counts = pa.table({"n": np.r_[np.arange(69) % 7, -5, 3, 4]})
    model = make()
    model.learn_many(counts[:cut])
    before = model.to_bytes()
    with pytest.raises(SchemaError, match=r"row .*, column 'n': GammaPoisson") as refused:
        model.learn_many(counts[cut:])
    assert refused.value.row == 69 - cut
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    "make",
    [
        partial(SeqDDCRP, window=10, sweep_every=4),
        partial(SeqDDCRP, warmup=5),
        partial(DDCRPSampler, warmup=1),
        partial(DDCRPSampler, warmup=15),
        partial(GraphCRP, n_particles=10, rejuvenate=2, window=5),
        partial(GroupDP, n_particles=10),
    ],
)
def test_open_vocabulary_does_not_depend_on_when_words_come(make):
    rng, texts = np.random.default_rng(8), []
    for i in range(60):
        words = rng.choice(6, size=5) + (0 if i % 20 < 10 else 6)
        texts.append({f"w{w}": int((words == w).sum()) for w in set(words.tolist())})
    vocabulary = sorted({w for text in texts for w in text})
    growing, fixed = (make(likelihood=DirichletMultinomial(4.0)) for _ in range(2))
    labels, fixed_labels = [], []
    for text in texts:
        row = {w: text.get(w, 0) for w in vocabulary}
        labels.append(growing.predict_one(text))
        fixed_labels.append(fixed.predict_one(row))
        growing.learn_one(text)
        fixed.learn_one(row)
        growing = type(growing).from_bytes(growing.to_bytes())
    assert labels == fixed_labels
    assert growing.objective == pytest.approx(fixed.objective, rel=1e-10)
    assert len(set(labels)) >= 2
    assert growing.summary()["weight"].to_pylist()[0] > 0
