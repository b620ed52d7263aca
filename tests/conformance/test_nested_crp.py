"""Trees of topics and of components: paths, words, completion, reconstruction."""

import numpy as np
import pytest

from streamddcrp import (
    NestedCRPComponents,
    NestedCRPTopics,
    fit_nested_components,
    fit_nested_topics,
)
from streamddcrp.errors import SchemaError
from tests.conformance.kinds import state_of_topics
from tests.conformance.streams import corpus, points


def topics_model(**options):
    return NestedCRPTopics(**{"window": 60, "max_nodes": 64, **options})


def components_model(**options):
    return NestedCRPComponents(**{"depth": 2, "warmup": 40, "window": 200, **options})


CASES = [(topics_model, lambda n: corpus(n)[0]), (components_model, points)]


both = pytest.mark.parametrize(("make", "data"), CASES, ids=["topics", "components"])


@both
def test_ids_are_never_used_again_and_events_tell_of_them(make, data):
    model, born, gone = make(max_nodes=14), {0}, set()
    for part in np.split(data(600), 12):
        model.learn_many(part)
        for event in model.events():
            if event.kind == "birth":
                assert event.label not in born or event.label < 2
                born.add(event.label)
            else:
                assert event.label in born - gone
                gone.add(event.label)
        assert set(model.summary()["id"].to_pylist()) <= born - gone
        assert model.n_nodes <= 14


@both
def test_predicts_before_it_has_learned(make, data):
    model, x = make(), dict(enumerate(data(1)[0].tolist()))
    assert model.predict_one(x) == 0
    assert model.events() == []
    assert model.growth().num_rows == 0


def test_topics_find_the_paths_and_tell_their_words():
    X, paths = corpus(400)
    model = NestedCRPTopics(eta=0.1)
    model.learn_many(X)
    found = model.paths_many(X)
    assert found.shape == (400, 3)
    pairs = {(a, tuple(b)) for a, b in zip(paths.tolist(), found.tolist(), strict=True)}
    assert len({tuple(row) for row in found.tolist()}) <= 8
    assert len(pairs) <= 12
    root = model.tree(n_words=5)
    assert {word for word, _ in root["words"]} == set(range(5))
    assert root["weight"] == pytest.approx(400.0)
    below = sum(child["weight"] for child in root["children"])
    assert 399.0 < below < 400.0 + 1e-6  # the rest expects to open a branch
    place = model.transform_one({3: 2, 8: 1, 22: 4})
    assert sum(place["levels"]) == pytest.approx(1.0)
    assert place["path"][0] == 0


@both
def test_the_graph_is_the_tree(make, data):
    networkx = pytest.importorskip("networkx")
    model = make()
    assert make().graph().number_of_nodes() <= 1
    model.learn_many(data(300))
    graph, rows = model.graph(), model.summary()
    assert networkx.is_arborescence(graph)
    pairs = zip(rows["parent"].to_pylist(), rows["id"].to_pylist(), strict=True)
    assert set(graph.edges) == {pair for pair in pairs if pair[0] is not None}
    assert nodes_of(model.tree()) == {i: size for i, size in graph.nodes(data="weight")}


def nodes_of(tree):
    out = {tree["id"]: tree["weight"]}
    for child in tree["children"]:
        out |= nodes_of(child)
    return out


def test_completion_agrees_with_score_and_leaves_out_unknown_words():
    X = corpus(300)[0]
    model = topics_model()
    model.learn_many(X)
    given, held = {0: 2, 6: 2, 21: 1}, {1: 1, 7: 2}
    total = model.complete_many([given], [held])[0]
    assert model.score_one(held, given=given) == pytest.approx(-total / 3.0)
    assert model.score_one(held | {"new": 5}, given=given) == pytest.approx(-total / 3.0)
    assert np.isnan(model.score_one({"new": 5}))
    assert model.complete_many(X[:3], np.zeros_like(X[:3])) == pytest.approx([0, 0, 0], abs=1e-9)


def test_completion_is_a_distribution_over_the_next_word():
    model = topics_model()
    model.learn_many(corpus(200)[0])
    seen = [v for v in range(40) if not 15 <= v < 20]  # the words of a node that no path has
    given = [{0: 3, 5: 2, 20: 1}] * len(seen)
    logs = model.complete_many(given, [{v: 1} for v in seen])
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-9)


def test_documents_without_words_and_with_one():
    model = topics_model()
    out = model.step_many(["", "word", "", "word word"])
    assert out["score"].null_count == 2
    assert out["label"].to_pylist()[0] == 0
    assert model.n_nodes >= 3
    assert np.isfinite(model.objective)
    fit = fit_nested_topics(["only one document here"])
    assert fit.paths.shape == (1, 3)


def test_the_vocabulary_is_open_and_capped():
    model = topics_model(max_words=300, window=20)
    for i in range(1000):
        model.learn_one([f"w{i}", f"w{i + 1}", "often", "again", "often"])
    assert len(model._vocabulary) <= 300 + 64 * 2
    assert "often" in model._vocabulary.words
    assert np.isfinite(model.objective)
    assert model.score_one(["often", "again", "never-seen"]) > 0.0


def test_forgotten_words_leave_no_room_and_the_model_can_be_loaded():
    model = topics_model(max_words=100, window=16)
    model.learn_many([[f"w{i}" for i in range(64 * k, 64 * k + 64)] for k in range(64)])
    model.learn_many([["often", f"w{i % 50}"] for i in range(128)])
    words = len(model._vocabulary)
    assert words < 300
    assert len(model._tree.counts) <= max(64, 2 * words)
    assert type(model).from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_old_documents_can_be_forgotten():
    early, late = corpus(300, 1)[0], np.roll(corpus(300, 2)[0], 20, axis=1)
    model = topics_model(forgetting=0.7)
    model.learn_many(np.concatenate([early, late]))
    again = type(model).from_bytes(model.to_bytes())
    model.learn_many(late)
    again.learn_many(late)
    assert model.to_bytes() == again.to_bytes()
    assert model.tree()["weight"] == pytest.approx(900.0, rel=1e-6)


def test_a_fit_of_topics_never_falls():
    fit = fit_nested_topics(corpus(150)[0], eta=0.1)
    assert (np.diff(fit.bound_trace) >= -1e-6 * abs(fit.bound_trace[0])).all()
    assert fit.paths.shape == (150, 3)
    with pytest.raises(SchemaError, match="at least one"):
        fit_nested_topics([])


def test_a_fit_of_components_goes_on_from_the_stream():
    """From the stream's own tree, whose window held some of the points, upwards."""
    X, options = points(320), {"depth": 2, "max_nodes": 5, "warmup": 64, "window": 128}
    stream = NestedCRPComponents(**options)
    stream.learn_many(X)
    stream.recall(X)
    fit = fit_nested_components(X, max_sweeps=10, **options)
    assert fit.bound_trace[0] == pytest.approx(stream.bound, rel=1e-12)
    assert (np.diff(fit.bound_trace) >= -1e-9 * abs(stream.bound)).all()
    assert fit.model._tree.past.n == 0.0


def test_components_reconstruct_and_transform():
    X = points(640)
    model = NestedCRPComponents(depth=2, max_nodes=6)
    model.learn_many(X)
    model.refine()
    back = model.reconstruct_many(X)
    assert ((X - back) ** 2).sum(axis=1).mean() < 0.1  # noise off the path: 4 of 6 directions, 0.04
    x = dict(enumerate(X[3].tolist()))
    assert list(model.reconstruct_one(x).values()) == pytest.approx(back[3])
    place = model.transform_one(x)
    assert place["path"][0] == 0
    assert set(place["path"]) <= set(place["loadings"])
    assert model.predict_one(x) == place["path"][-1] == model.paths_many(X[3:4])[0, -1]
    root = model.tree()
    assert root["mean"] == pytest.approx(X.mean(axis=0), abs=0.5)
    assert len(root["children"]) >= 3


def test_components_of_any_unit_and_place():
    X = points(400)
    model, scaled = (components_model() for _ in range(2))
    model.learn_many(X)
    scaled.learn_many(1e-4 * (X + 1e4))
    assert model.paths_many(X).tolist() == scaled.paths_many(1e-4 * (X + 1e4)).tolist()


def test_a_fit_of_components_never_falls_within_sweeps():
    X = points(300)
    fit = fit_nested_components(X, depth=2, max_nodes=5)
    assert (np.diff(fit.bound_trace) > -1e-6).all()
    assert fit.paths.shape == (300, 2)
    assert fit_nested_components(X[:2]).model.n_nodes == 3
    with pytest.raises(SchemaError, match="two points"):
        fit_nested_components(X[:1])


def test_a_tree_of_components_at_its_limit_says_so_once(caplog):
    X = points(640)  # a root and three leaves
    small, large = (NestedCRPComponents(depth=2, max_nodes=n) for n in (3, 8))
    with caplog.at_level("WARNING"):
        large.learn_many(X)
        large.refine()
        assert (large.n_nodes, large.n_refused, caplog.text) == (4, 0, "")
        small.learn_many(X)
    assert small.n_nodes == 3
    assert small.n_refused > 1
    assert caplog.text.count("all 3 nodes are in use") == 1


def test_bad_points_are_refused_and_change_nothing():
    model = components_model()
    model.learn_many(points(100))
    before = model.to_bytes()
    with pytest.raises(SchemaError, match="must be there"):
        model.learn_one({**dict.fromkeys(range(6), 1.0), 3: None})
    assert model.to_bytes() == before
    constant = components_model()
    constant.learn_many(np.ones((300, 3)))
    assert np.isfinite(constant.objective)


def test_components_are_stored_right_after_a_step():
    """When no point waits for the next one."""
    model = NestedCRPComponents(depth=2, warmup=10)
    model.learn_many(np.random.default_rng(0).normal(size=(10, 3)))
    again = NestedCRPComponents.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert again.n_seen == 10


def test_the_stored_window_does_not_depend_on_the_cutting():
    """More documents than the window may be in memory; how many depends on the batches."""
    rng, states = np.random.default_rng(0), []
    short = np.eye(40, dtype=int)[rng.integers(0, 40, 100)]
    X = np.concatenate([short, rng.poisson(1.0, (18, 40))])  # for which room has to be made
    for size in (len(X), 1, 8):
        model = NestedCRPTopics(window=30, max_nodes=64)
        for start in range(0, len(X), size):
            model.learn_many(X[start : start + size])
        states.append(state_of_topics(model))
    for state in states[1:]:
        assert [name for name in state if state[name] != states[0][name]] == []
