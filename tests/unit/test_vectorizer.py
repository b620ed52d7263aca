"""Vectorizer and the checks of whole batches."""

import importlib
import json
import logging
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from streamddcrp.data import Vectorizer, as_matrix, check_matrix
from streamddcrp.data.batches import read_batch
from streamddcrp.errors import SchemaError

NAN = np.nan


def fitted(**options):
    vectorizer = Vectorizer(**options)
    vectorizer.transform({"b": 1, "a": 2})
    return vectorizer


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected, strict=False)
    assert actual.dtype == np.float64
    assert actual.flags.c_contiguous


def test_schema_is_sorted_so_order_does_not_matter():
    vectorizer = Vectorizer()
    assert (vectorizer.columns, vectorizer.n_features) == (None, 0)
    assert repr(vectorizer) == "<Vectorizer of no schema yet>"
    same(vectorizer.transform({"b": 2, "c": 3, "a": 1}), [1, 2, 3])
    same(vectorizer.transform({"c": 30, "a": 10, "b": 20}), [10, 20, 30])
    assert (vectorizer.columns, vectorizer.n_features) == (("a", "b", "c"), 3)
    assert repr(vectorizer) == "<Vectorizer of 3 columns>"


@pytest.mark.parametrize("one", [1, 1.0, True, np.int8(1), np.float32(1), np.True_, Fraction(1)])
def test_numbers_of_many_kinds(one):
    same(fitted().transform({"a": one, "b": 0.5}), [1.0, 0.5])


def test_numpy_floats_that_overflow_in_a_sum():
    big = np.float64(1.7e308)
    same(fitted().transform({"a": big, "b": big}), [big, big])


def test_one_feature():
    vectorizer = Vectorizer()
    same(vectorizer.transform({"a": 1}), [1])
    same(vectorizer.transform({"a": 2}), [2])
    same(vectorizer.transform({"a": None}), [NAN])
    same(vectorizer.transform({}), [NAN])


def test_missing_and_unknown(caplog):
    vectorizer = fitted()
    with caplog.at_level(logging.WARNING):
        same(vectorizer.transform({"a": 1, "z": 5}), [1, NAN])
        same(vectorizer.transform({"a": 1, "b": 2, "y": 5, "z": 5}), [1, 2])
        same(vectorizer.transform({}), [NAN, NAN])
    assert vectorizer.n_unknown == 3
    assert [record.message for record in caplog.records] == [
        "ignoring feature 'z', which is not in the schema ('a', 'b'); other unknown features are "
        "ignored, too, and not reported"
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.inf, "column 'a': inf is not finite"),
        (np.float64(-np.inf), "column 'a': np.float64(-inf) is not finite"),
        (10**400, "is too large for a float"),
        ("1.5", "column 'a': '1.5' is text where a number belongs; convert it"),
        ("x" * 100, "xxx... is text"),
        (Decimal(1), "is a Decimal where a number belongs"),
        ([1.0], "is a list where a number belongs"),
        (1j, "is a complex where a number belongs"),
        (np.timedelta64(1, "s"), "is a timedelta64 where a number belongs"),
    ],
)
def test_bad_values_are_refused_and_change_nothing(value, message):
    for vectorizer in Vectorizer(), fitted(), fitted(open=True):
        before = vectorizer.to_config()
        for x in {"a": value, "b": 1.0}, {"a": value}, {"a": value, "c": 1.0}:
            for learn in True, False:
                with pytest.raises(SchemaError) as caught:
                    vectorizer.transform(x, learn=learn)
                assert message in str(caught.value)
                assert caught.value.row is None
        assert vectorizer.to_config() == before


def test_infinities_that_cancel_are_refused():
    with pytest.raises(SchemaError, match="inf is not finite"):
        fitted().transform({"a": np.inf, "b": -np.inf})


def test_open_vocabulary_adds_columns_behind():
    vectorizer = Vectorizer(open=True)
    same(vectorizer.transform({}), [])
    same(vectorizer.transform({"m": 1}), [1])
    same(vectorizer.transform({"z": 2, "b": 3}), [NAN, 3, 2])
    same(vectorizer.transform({"a": 4, "m": 5}), [5, NAN, NAN, 4])
    assert vectorizer.columns == ("m", "b", "z", "a")
    assert vectorizer.n_unknown == 0


def test_without_learning_nothing_changes():
    vectorizer = Vectorizer()
    same(vectorizer.transform({"b": 1, "a": 2}, learn=False), [2, 1])
    same(vectorizer.transform({}, learn=False), [])
    np.testing.assert_array_equal(vectorizer.align(["b", "a"], learn=False), [1, 0])
    assert vectorizer.columns is None
    for vectorizer in fitted(), fitted(open=True):
        before = vectorizer.to_config()
        same(vectorizer.transform({"a": 1, "c": 3}, learn=False), [1, NAN])
        np.testing.assert_array_equal(vectorizer.align(["c", "b"], learn=False), [-1, 1])
        assert vectorizer.to_config() == before


def test_rollback():
    vectorizer = Vectorizer(open=True)
    mark = vectorizer.mark()
    vectorizer.transform({"a": 1})
    fixed = vectorizer.mark()
    vectorizer.transform({"b": 1, "c": 2})
    vectorizer.rollback(fixed)
    assert vectorizer.columns == ("a",)
    same(vectorizer.transform({"a": 5}), [5])
    vectorizer.rollback(mark)
    assert vectorizer.columns is None
    same(vectorizer.transform({"x": 5, "w": 4}), [4, 5])
    vectorizer = fitted()
    mark = vectorizer.mark()
    vectorizer.transform({"a": 1, "z": 5})
    vectorizer.rollback(mark)
    assert vectorizer.n_unknown == 0
    same(vectorizer.transform({"a": 1, "b": 5}), [1, 5])


@pytest.mark.parametrize("open_", [False, True])
def test_align_does_what_rows_do(open_):
    rows = [{"b": 1.0, "a": 2.0, "c": 3.0}, {"b": 4.0, "a": 5.0, "c": 6.0}]
    one_by_one, batch = fitted(open=open_), fitted(open=open_)
    expected = np.array([one_by_one.transform(x).copy() for x in rows])
    order = batch.align(["b", "a", "c"], len(rows))
    assert order.dtype == np.int64
    names = ["b", "a", "c"]
    same(np.array([[x[names[j]] for j in order] for x in rows]), expected)
    assert batch.to_config() == one_by_one.to_config()


def test_align_fixes_the_schema_unless_the_batch_is_empty():
    vectorizer = Vectorizer()
    np.testing.assert_array_equal(vectorizer.align(["b", "a"], 0), [1, 0])
    assert vectorizer.columns is None
    np.testing.assert_array_equal(vectorizer.align(["b", "a"], 3), [1, 0])
    assert vectorizer.columns == ("a", "b")
    np.testing.assert_array_equal(vectorizer.align(["z", "b"], 3), [-1, 1])
    assert vectorizer.n_unknown == 3


def test_fix():
    vectorizer = Vectorizer()
    vectorizer.fix(["b", "a"])
    assert vectorizer.columns == ("a", "b")
    with pytest.raises(SchemaError, match=r"fixed already: \('a', 'b'\)"):
        vectorizer.fix(["a"])
    with pytest.raises(SchemaError, match="no features"):
        Vectorizer().fix([])
    with pytest.raises(SchemaError, match="no features"):
        Vectorizer().transform({})
    with pytest.raises(SchemaError, match="column 'a': comes twice"):
        Vectorizer().fix(["a", "b", "a"])
    with pytest.raises(SchemaError, match="must be text or integers"):
        Vectorizer().fix([("a", "b")])


def test_long_schemas_are_shortened_in_messages():
    vectorizer = Vectorizer()
    vectorizer.fix([f"f{i:02}" for i in range(30)])
    with pytest.raises(SchemaError, match=r"\('f00', .*'f06', ... 30 in all\)"):
        vectorizer.fix(["x"])


def test_integer_names():
    vectorizer = Vectorizer()
    same(vectorizer.transform({10: 1, 9: 2, "a": 3}), [2, 1, 3])
    copy = Vectorizer.from_config(json.loads(json.dumps(vectorizer.to_config())))
    assert copy.columns == (9, 10, "a")
    same(copy.transform({"a": 6, 9: 4, 10: 5}), [4, 5, 6])


@pytest.mark.parametrize("options", [{}, {"open": True}])
def test_state_survives_json(options):
    for vectorizer in Vectorizer(**options), fitted(**options):
        if vectorizer.columns:
            vectorizer.transform({"a": 1, "z": 1})
            vectorizer.transform({"a": 1, "m": 1})
        config = vectorizer.to_config()
        copy = Vectorizer.from_config(json.loads(json.dumps(config)))
        assert copy.to_config() == config
        same(copy.transform({"a": 1, "b": 2}), vectorizer.transform({"a": 1, "b": 2}))


@pytest.mark.parametrize(
    "values", [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]], "f4"), np.array([[1, 3], [2, 4]]).T]
)
def test_as_matrix(values):
    same(as_matrix(values), [[1, 2], [3, 4]])


def test_as_matrix_does_not_copy():
    X = np.ones((3, 2))
    assert as_matrix(X) is X


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([1.0, 2.0], r"two dimensions \(rows, features\), got shape \(2,\); a single row"),
        (3.0, r"got shape \(\)"),
        ([[1.0], [1.0, 2.0]], "rows of equal length"),
        ([["1"]], "expected numbers, got an array of type <U1"),
        ([[None, 1.0]], "expected numbers, got an array of type object"),
        ([[1j]], "type complex128"),
    ],
)
def test_as_matrix_refuses(values, match):
    with pytest.raises(SchemaError, match=match):
        as_matrix(values)


def test_check_matrix_names_the_first_bad_value():
    X = np.arange(12.0).reshape(4, 3)
    X[2, 1] = NAN
    check_matrix(X)
    check_matrix(X[:0])
    X[3, 0] = np.inf
    with pytest.raises(SchemaError, match=r"^row 3, column 'a': inf is not") as caught:
        check_matrix(X, ("a", "b", "c"))
    assert caught.value.row == 3
    with pytest.raises(SchemaError, match=r"^row 2, column 1: nan is not finite; leave the row"):
        check_matrix(X, complete=True)


def forms(X):
    """The rows of X, NaN where a value is missing, in every form that users have."""
    columns = {"a": X[:, 0], "b": X[:, 1]}
    table = pa.table(columns)
    yield "Arrow, NaN", table
    yield (
        "Arrow, null",
        pa.table({name: pa.array(x, from_pandas=True) for name, x in columns.items()}),
    )
    yield "columns", columns
    rows = [dict(zip("ab", row, strict=True)) for row in X.tolist()]
    yield "dicts, NaN", rows
    yield "dicts, None", [{k: None if v != v else v for k, v in row.items()} for row in rows]
    yield "dicts, absent", [rows[0], *({k: v for k, v in r.items() if v == v} for r in rows[1:])]
    for library in "polars", "pandas":
        try:
            frame = importlib.import_module(library).DataFrame(columns)
        except ImportError:
            continue
        yield library, frame
        if library == "polars":
            yield "polars, lazy", frame.lazy()


def test_forms_of_a_batch():
    X = np.array([[1.0, 2.0], [NAN, 4.0], [5.0, NAN]])
    for name, batch in forms(X):
        vectorizer = Vectorizer()
        found = read_batch(batch, vectorizer)
        np.testing.assert_array_equal(found.X, X, err_msg=name)
        assert found.types == ["float", "float"], name
        assert vectorizer.columns == ("a", "b"), name
        np.testing.assert_array_equal(
            read_batch(batch, Vectorizer(), learn=False).X, X, err_msg=name
        )
    for batch in X, np.ma.masked_invalid(X), sparse.csr_array(X), X.tolist():
        np.testing.assert_array_equal(read_batch(batch, Vectorizer()).X, X)


def test_dicts_are_read_as_single_rows_are():
    rows = [{"b": 1, "a": True}, {"a": 2, "z": 5}, {"b": 0.5}]
    one, many = Vectorizer(), Vectorizer()
    expected = [one.transform(row).copy() for row in rows]
    found = read_batch(rows, many)
    np.testing.assert_array_equal(found.X, expected)
    assert found.types == ["int", "float"]
    assert many.to_config() == one.to_config()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([{"a": 1.0}, {"a": "x"}], "row 1, column 'a': 'x' is text"),
        ([{"a": 1.0}, 2.0], "row 1: expected a dict of features, got a float"),
        ({"a": 1.0, "b": 2.0}, "a dict has to hold columns.*learn_one"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "columns of equal length"),
        ((x for x in [[1.0]]), "expected a table, or an array"),
    ],
)
def test_forms_that_are_refused(batch, message):
    with pytest.raises(SchemaError, match=message):
        read_batch(batch, Vectorizer())


def test_a_mask_marks_missing_values():
    values = np.array([[1.0, 2.0], [99.0, 4.0], [5.0, np.inf]])
    mask = np.array([[False, False], [True, False], [False, True]])
    batch = read_batch(np.ma.masked_array(values, mask), Vectorizer())
    np.testing.assert_array_equal(batch.X, [[1.0, 2.0], [np.nan, 4.0], [5.0, np.nan]])
    whole = np.ma.masked_array([[1, 2], [3, 4]], False)
    assert read_batch(whole, Vectorizer()).types == ["int", "int"]
    with pytest.raises(SchemaError, match="row 2, column 1"):
        read_batch(np.ma.masked_array(values, mask & (values == 99.0)), Vectorizer())
