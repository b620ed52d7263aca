"""Frames, lazy frames and series of any library mean the same as Arrow tables and lists."""

import narwhals.stable.v1 as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from streamddcrp import (
    Keyed,
    NestedCRPTopics,
    RegimeAnomalyDetector,
    SeqDDCRP,
    TemporalDPM,
    TextStream,
    fit_nested_components,
)
from streamddcrp.data.batches import as_observations
from streamddcrp.errors import SchemaError
from streamddcrp.models.temporal.batch import as_epochs

pd = pytest.importorskip("pandas")

TEXTS = ["oil price rises", "oil price falls", "bank rate up", "bank rate cut"] * 3
SERIES = {
    "array": pa.array,
    "dictionary": lambda x: pa.array(x).dictionary_encode(),
    "pandas": pd.Series,
    "pandas, rows by other numbers": lambda x: pd.Series(x, index=range(5, 5 + len(x))),
    "pandas, categories": lambda x: pd.Series(x, dtype="category"),
    "polars": pl.Series,
    "polars, named": lambda x: pl.Series("title", x),
    "polars, categories": lambda x: pl.Series(x, dtype=pl.Categorical),
    "narwhals": lambda x: nw.from_native(pl.Series(x), series_only=True),
}
FRAMES = {
    "columns": lambda x: x,
    "columns that are series": lambda x: {name: pl.Series(cells) for name, cells in x.items()},
    "rows": lambda x: pa.table(x).to_pylist(),
    "batch": pa.record_batch,
    "reader": lambda x: pa.table(x).to_reader(),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "narwhals": lambda x: nw.from_native(pd.DataFrame(x)),
    "narwhals, lazy": lambda x: nw.from_native(pl.LazyFrame(x)),
}
MODELS = [TextStream, lambda: TemporalDPM(alpha=1.0), NestedCRPTopics]


def labels(model, batch):
    return model.step_many(batch)["label"].to_pylist()


@pytest.mark.parametrize("index", [range(9, 4, -1), pd.date_range("2026-01-01", periods=5)])
def test_the_index_of_a_frame_is_no_column(index):
    frame = pd.DataFrame({"a": [0.0, 1.0, 3.0, 2.0, 1.0]}, index=pd.Index(index, name="when"))
    assert SeqDDCRP().step_many(frame).equals(SeqDDCRP().step_many(frame.reset_index(drop=True)))
    few = frame[frame["a"] < 2.0]  # whose index has gaps
    assert as_observations(few).tolist() == [[0.0], [1.0], [1.0]]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_times_of_any_unit_come_back(unit):
    t = np.array([10, 10, 11, 20], dtype=f"datetime64[{unit}]")
    out = SeqDDCRP().step_many([[1.0], [2.0], [3.0], [4.0]], t)
    assert np.array_equal(out["time"].to_numpy(zero_copy_only=False), t)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("form", SERIES)
def test_series_of_texts(make, form):
    assert labels(make(), SERIES[form](TEXTS)) == labels(make(), TEXTS)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("form", FRAMES)
def test_frames_of_texts(make, form):
    assert labels(make(), FRAMES[form]({"title": TEXTS})) == labels(make(), TEXTS)


@pytest.mark.parametrize("form", SERIES)
def test_a_data_set_of_texts(form):
    given = TextStream().fit(SERIES[form](TEXTS)).labels_
    np.testing.assert_array_equal(given, TextStream().fit(TEXTS).labels_)


def numbers():
    X = np.random.default_rng(1).normal(size=(24, 2))
    X[12:] += 9.0
    return X


@pytest.mark.parametrize("form", FRAMES)
def test_frames_of_numbers(form):
    X = numbers()
    columns = {"b": X[:, 0].tolist(), "a": X[:, 1].tolist()}
    assert labels(SeqDDCRP(), FRAMES[form](columns)) == labels(SeqDDCRP(), pa.table(columns))
    np.testing.assert_array_equal(as_observations(FRAMES[form](columns)), X)
    (epoch,) = as_epochs([FRAMES[form](columns)])
    np.testing.assert_array_equal(epoch, X)
    one, other = (fit_nested_components(x, seed=1) for x in (FRAMES[form](columns), columns))
    np.testing.assert_array_equal(one.paths, other.paths)


@pytest.mark.parametrize("form", ["array", "pandas", "polars", "narwhals"])
def test_a_series_of_times(form):
    stamps = np.datetime64("2026-03-01", "us") + np.arange(24) * np.timedelta64(1, "h")
    model, other = SeqDDCRP(), SeqDDCRP()
    model.learn_many(numbers(), t=SERIES[form](stamps.tolist()))
    other.learn_many(numbers(), t=stamps)
    assert model.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("form", ["array", "pandas", "polars", "narwhals"])
def test_a_series_of_numbers_is_no_table(form):
    with pytest.raises(SchemaError, match="one column of double; make it a table"):
        SeqDDCRP().learn_many(SERIES[form]([1.0, 2.0]))
    with pytest.raises(SchemaError, match="expected texts or lists of words, got double"):
        TextStream().learn_many(SERIES[form]([1.0, 2.0]))


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        (pd.Series(["a", 1, {}]), "Arrow cannot hold it"),
        (pd.DataFrame({"a": ["a", 1, 2.0]}), "Arrow cannot hold it"),
        (pl.Series(["oil", None]), "row 1: missing; give '' for a text without words"),
        ({"oil": 1}, "a dict has to hold columns of equal length"),
        ({"oil": "price"}, "a dict has to hold columns of equal length"),
    ],
)
def test_what_is_no_batch_of_texts_is_refused(batch, match):
    with pytest.raises(SchemaError, match=match):
        TextStream().learn_many(batch)


def test_a_frame_with_two_columns_of_one_name_is_refused():
    frame = pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"])
    with pytest.raises(SchemaError, match="Duplicate column names"):
        SeqDDCRP().learn_many(frame)


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-01-01", periods=6, freq="h"),
        [*"uvwxyz"],
        pd.MultiIndex.from_product([[1, 2], [3, 4, 5]]),
        pd.Index([3, 1, 2, 9, 8, 7], name="flow"),
        [0, 0, 1, 1, 2, 2],
    ],
)
def test_frames_of_any_index(index):
    columns = {"pump": [*"ababab"], "flow": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    found = Keyed(SeqDDCRP(), by="pump").step_many(pd.DataFrame(columns, index=index))
    assert found.equals(Keyed(SeqDDCRP(), by="pump").step_many(columns))


def test_arrays_of_all_kinds_are_read_alike():
    rng = np.random.default_rng(3)
    X = rng.normal(np.repeat([0.0, 8.0], 40)[:, None], 1.0, (80, 2)).astype(np.float32)
    t = np.arange(80.0)
    expected = SeqDDCRP().step_many(X, t)
    xarray = pytest.importorskip("xarray")
    labelled = xarray.DataArray(X, dims=("time", "column"), coords={"time": t})
    fields = np.rec.fromarrays(X.T, names="a,b")
    named = labelled.assign_coords(column=["a", "b"])
    for rows, times in (
        (X.astype(">f4"), t.astype(">f8")), (X.astype(object), t), (labelled, labelled["time"]),
        (np.ma.masked_array(X, np.zeros(X.shape, bool)), t), (pa.array(list(X)), t),
    ):  # fmt: skip
        assert (
            SeqDDCRP()
            .step_many(rows, times)
            .drop_columns(["time"])
            .equals(expected.drop_columns(["time"]))
        )
    expected = SeqDDCRP().step_many({"a": X[:, 0], "b": X[:, 1]})
    for rows in (
        fields, named, named.to_dataset("column"), {"a": X[:, 0].astype(">f4"), "b": X[:, 1]},
        pa.array([{"a": a, "b": b} for a, b in X.tolist()]),
    ):  # fmt: skip
        assert SeqDDCRP().step_many(rows).equals(expected)
    with pytest.raises(SchemaError, match="expected numbers"):
        SeqDDCRP().step_many(np.array([[1, "2"]], dtype=object))


def test_halves_and_numbers_that_may_lack_are_numbers():
    half = np.array([1.5, 2.25, np.nan, 4.0] * 5, np.float16)
    expected = SeqDDCRP().step_many({"at": half.astype(float)})
    lacking = pa.array(half, from_pandas=True)
    frames = [pd.DataFrame({"at": pd.Series(half.astype("f8")).astype(kind)})
              for kind in ("Float64", "float16", pd.ArrowDtype(pa.float32()))]  # fmt: skip
    for batch in ({"at": half}, pa.table({"at": lacking}), {"at": half.astype(">f2")}, *frames):
        assert SeqDDCRP().step_many(batch).equals(expected)
    whole = pd.DataFrame({"at": pd.array([1, None, 3], "Int64")})
    assert (
        SeqDDCRP()
        .step_many(whole)
        .equals(SeqDDCRP().step_many([{"at": 1}, {"at": None}, {"at": 3}]))
    )
    plain = SeqDDCRP().step_many(half[:, None])
    assert plain.equals(SeqDDCRP().step_many(half.astype(float)[:, None]))


def test_texts_in_a_column_of_an_array():
    texts = ["door open", "pump down"] * 20
    expected = TextStream().step_many(texts)
    for kind in (str, object, np.dtypes.StringDType()):
        column = np.array(texts, dtype=kind).reshape(-1, 1)
        assert TextStream().step_many(column).equals(expected)


_INDICES = {
    "numbers": pd.RangeIndex(5, 5 + 60), "texts": pd.Index([f"r{i}" for i in range(60)], name="id"),
    "times": pd.date_range("2021-10-31", periods=60, freq="h", tz="Europe/Madrid", name="at"),
    "named like a result": pd.Index(range(60), name="label"),
    "several": pd.MultiIndex.from_product([range(30), list("xy")], names=["p", None]),
    "periods": pd.period_range("2021", periods=60, freq="h"),
    "intervals": pd.interval_range(0, 60), "categories": pd.CategoricalIndex(list("xyz") * 20),
    "twice": pd.Index([0] * 60),
}  # fmt: skip


@pytest.mark.parametrize("kind", _INDICES)
@pytest.mark.parametrize("make", [SeqDDCRP, RegimeAnomalyDetector, "keyed", "texts"])
def test_results_have_the_index_of_the_frame_on_request(kind, make):
    numbers = np.random.default_rng(3).normal(size=60)
    frame = pd.DataFrame({"a": numbers, "pump": list("uv") * 30}, index=_INDICES[kind])
    models = {"keyed": lambda: Keyed(SeqDDCRP(), by="pump"), "texts": TextStream}
    batch = frame if make == "keyed" else frame["pump" if make == "texts" else ["a"]]
    make = models.get(make, make)
    found = make().step_many(batch, index=True)
    plain = make().step_many(batch.reset_index(drop=True))
    assert found.select(plain.schema.names).equals(plain)
    restored = found.to_pandas()
    assert restored.index.equals(frame.index)
    assert [*restored.columns] == plain.schema.names


def test_without_an_index_nothing_is_learned():
    model = SeqDDCRP()
    with pytest.raises(SchemaError, match="index"):
        model.step_many(np.ones((3, 1)), index=True)
    assert model.n_seen == 0
    odd = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([("a", 1), 2], tupleize_cols=False))
    assert SeqDDCRP().step_many(odd).num_rows == 2
    with pytest.raises(SchemaError, match="index"):
        model.step_many(odd, index=True)
