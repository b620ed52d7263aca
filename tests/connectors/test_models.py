"""Rows to models: judged one after the other, whatever the batch; one model a key."""

from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import GroupDP
from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp_connectors.run import models as models_module
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import read_options, recipe_for
from streamddcrp_connectors.run.models import Models, Recipe, Rows, screen

from .toy import Toy

GAUSSIAN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
RECIPE = Recipe(Toy, Toy.from_bytes)


def rows(times, values, keys=None, first=0):
    columns = Columns("t", None if keys is None else "k", ("a",))
    arrays = [pa.array(times, pa.float64())]
    arrays += [] if keys is None else [pa.array(keys, pa.string())]
    arrays.append(pa.array(values, pa.float64()))
    batch = pa.record_batch(arrays, names=list(columns.names))
    return Rows(np.arange(first, first + len(times)), batch, columns)


def states(models):
    """Return what a store has of the models once they are saved."""
    models.save(None)
    return dict(models._store.states("model"))


@pytest.fixture
def stores():
    """Make temporary stores, and close them."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(SqliteStore())


def one_at_a_time(given_rows, models):
    refused, results = {}, []
    for i in range(len(given_rows)):
        result = models.step(given_rows.slice(i, i + 1), refused)
        results += [] if result is None else result.to_pylist()
    return results, refused


some_rows = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([1.0, 2.0, -1.0]), st.sampled_from("xy")),
    min_size=1,
    max_size=25,
)


@given(some_rows, st.booleans(), st.integers(1, 6), st.data())
def test_batches_are_judged_like_single_rows(drawn, keyed, piece, data):
    times, values, keys = zip(*drawn, strict=True)
    everything = rows(times, values, keys if keyed else None, first=100)
    key = "k" if keyed else None
    single = Models(RECIPE, key, SqliteStore(), memory_limit=1)
    expected, expected_refused = one_at_a_time(everything, single)
    cut = data.draw(st.integers(0, len(drawn)))
    models, refused, found = Models(RECIPE, key, SqliteStore()), {}, []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(models_module, "_PIECE", piece)
        for start, stop in ((0, cut), (cut, len(drawn))):
            if stop > start:
                result = models.step(everything.slice(start, stop), refused)
                found += [] if result is None else result.to_pylist()
    assert found == expected
    assert refused == expected_refused
    assert states(models) == states(single)


def test_refused_rows_cost_a_linear_number_of_rows(monkeypatch):
    handed = 0
    step = Toy.step_many

    def counted(self, batch, t=None):
        nonlocal handed
        handed += batch.num_rows
        return step(self, batch, t)

    monkeypatch.setattr(Toy, "step_many", counted)
    n = 3000
    values = [-1.0 if i % 2 else 1.0 for i in range(n)]
    refused = {}
    Models(RECIPE).step(rows(range(n), values), refused)
    assert len(refused) == n // 2
    assert handed < n * models_module._PIECE * 1.1


def test_results_carry_number_time_and_key():
    result = Models(RECIPE, "k").step(rows([1, 2, 2], [1, 1, 1], ["x", "y", "x"], first=7), None)
    assert result.schema.names[:4] == ["row", "time", "key", "label"]
    assert result.column("row").to_pylist() == [7, 8, 9]
    assert result.column("key").to_pylist() == ["x", "y", "x"]
    assert result.column("time").to_pylist() == [1.0, 2.0, 2.0]


def test_keys_do_not_see_each_other(stores):
    together, apart = Models(RECIPE, "k", stores()), Models(RECIPE, "k", stores())
    together.step(rows([1, 2, 3, 4], [1, 2, 3, 4], ["x", "y", "x", "y"]), None)
    apart.step(rows([2, 4], [2, 4], ["y", "y"]), None)
    apart.step(rows([1, 3], [1, 3], ["x", "x"]), None)
    assert together.n_tables == 4
    assert states(together) == states(apart)
    assert sorted(states(together)) == ["x", "y"]


@pytest.mark.parametrize("key", ["k", None])
def test_what_was_saved_is_taken_up(stores, key):
    store, other = stores(), stores()
    models, whole = Models(RECIPE, key, store), Models(RECIPE, key, other)
    keys = None if key is None else ["x", "y"]
    for model in (models, whole):
        model.step(rows([1, 1], [1, 2], keys), None)
    models.save({"row": 2})
    assert store.offset("run") == {"row": 2}
    restored = Models(RECIPE, key, store)
    for model in (restored, whole):
        model.step(rows([2], [3], keys and keys[:1]), None)
    assert states(restored) == states(whole)


def test_the_first_refused_row_stops_with_its_number():
    with pytest.raises(SchemaError, match=r"^a value is negative$") as caught:
        Models(RECIPE).step(rows([1, 2, 3], [1, 1, -1], first=50), None)
    assert caught.value.row == 52
    with pytest.raises(OrderError) as caught:
        Models(RECIPE, "k").step(rows([5, 5, 4], [1, 1, 1], ["x", "y", "y"], first=50), None)
    assert caught.value.row == 52


def test_errors_that_are_not_about_a_row_end_the_run():
    class Broken(Toy):
        def step_many(self, batch, t=None):
            message = "broken"
            raise (ConfigError if self.warmup else SchemaError)(message)

    for warmup, error in ((1, ConfigError), (0, SchemaError)):
        models = Models(Recipe(lambda warmup=warmup: Broken(warmup=warmup), Toy.from_bytes))
        with pytest.raises(error, match="broken"):
            models.step(rows([1], [1]), {})


def test_screen_finds_what_is_not_finite():
    found = screen(rows([1, np.inf, 3, 4, np.nan], [np.nan, 1, None, -np.inf, 1]))
    assert sorted(found) == [1, 3, 4]
    assert found[4].reason == "column 't' is NaN; every row needs a time"
    assert found[1].reason == "column 't' is infinite"
    assert found[3].values == {"t": 4.0, "a": "-inf"}


def test_options_from_toml(tmp_path):
    path = tmp_path / "model.toml"
    path.write_text('alpha = 0.5\ndecay = ["exponential", 3]\nwarmup = 2\n')
    options = read_options(path)
    assert options == {"alpha": 0.5, "decay": ("exponential", 3), "warmup": 2}
    recipe = recipe_for(Toy, options, Toy.from_bytes)
    assert recipe.make().decay == ("exponential", 3)
    assert recipe.description == {
        "class": "Toy",
        "options": {"alpha": 0.5, "decay": ["exponential", 3], "warmup": 2},
    }


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("alhpa = 0.5", "unknown option 'alhpa'; valid are alpha, decay, warmup"),
        ("alpha = ", "is not valid TOML"),
        ("decay = 2024-01-01", "options must be numbers, text"),
        (None, "cannot read "),
    ],
)
def test_bad_toml(tmp_path, text, match):
    path = tmp_path / "model.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=match):
        recipe_for(Toy, read_options(path), Toy.from_bytes)


def test_keys_are_groups_of_a_model_that_takes_groups(stores):
    """As in Python, whatever the batches, and across a restart; a refused row is set aside."""
    rng = np.random.default_rng(3)
    values = np.where(np.arange(60) % 3 == 0, 9.0, 0.0) + rng.normal(size=60)
    recipe = recipe_for(GroupDP, {"n_particles": 5, "likelihood": GAUSSIAN}, GroupDP.from_bytes)
    given_rows = rows(np.arange(60.0), values, list("abc") * 20)
    store, results, refused = stores(), [], {}
    for start in range(0, 60, 20):
        models = Models(recipe, "k", store)
        batch = models.step(given_rows.slice(start, start + 20), refused)
        results += batch.column("label").to_pylist()
        models.save({"row": start})
    model = recipe.make()
    expected = model.step_many(values[:, None], np.arange(60.0), group=list("abc") * 20)
    assert results == expected["label"].to_pylist()
    assert model.groups == ["a", "b", "c"]
    late = rows([60.0, 61.0], [np.inf, 1.0], list("ab"), first=60)
    assert len(models.step(late, refused)) == 1
    assert [*refused] == [60]
