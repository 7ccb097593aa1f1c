"""Tables of any kind become float32 columns, and new data are read the way the old were."""

from __future__ import annotations

import datetime
import json
import tracemalloc
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from recalibrate.data.table import Column, Schema, Table, read_table

NAN = np.nan


def frame(values, dtype=None, name="c"):
    return pd.DataFrame({name: pd.Series(values, dtype=dtype)})


def only(values, dtype=None, **options):
    """Column and float32 values of a frame with one column."""
    table = read_table(frame(values, dtype), **options)
    return table.schema.columns[0], table.column(0)


# What is read as what


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1.5, NAN, -2.0], "float64", [1.5, NAN, -2.0]),
        ([1.5, NAN, -2.0], "float32", [1.5, NAN, -2.0]),
        ([1.5, NAN, -2.0], "float16", [1.5, NAN, -2.0]),
        ([1, 2, -3], "int64", [1, 2, -3]),
        ([1, 2, 3], "uint8", [1, 2, 3]),
        ([True, False, True], "bool", [1, 0, 1]),
        ([1, None, 3], "Int64", [1, NAN, 3]),
        ([1.5, None, 3], "Float64", [1.5, NAN, 3]),
        ([True, None, False], "boolean", [1, NAN, 0]),
        ([1, None, 3], "int64[pyarrow]", [1, NAN, 3]),
        ([1.5, None, 3], "double[pyarrow]", [1.5, NAN, 3]),
        ([True, None, False], "bool[pyarrow]", [1, NAN, 0]),
        ([0.0, 1.0, NAN], "Sparse[float64]", [0, 1, NAN]),
        ([1, None, 2.5], object, [1, NAN, 2.5]),
        ([True, None, False], object, [1, NAN, 0]),
        ([Decimal("1.5"), None, Decimal("NaN")], object, [1.5, NAN, NAN]),
        ([NAN, NAN, NAN], "float64", [NAN, NAN, NAN]),
        ([np.inf, -np.inf, 0], "float64", [np.inf, -np.inf, 0]),
    ],
)
def test_numbers_are_numeric_columns(values, dtype, expected):
    column, read = only(values, dtype)
    assert column == Column("c", "numeric")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize(
    ("values", "dtype", "categories", "codes"),
    [
        (["b", "a", "b"], None, ("a", "b"), [2, 1, 2]),
        (["b", None, "a"], object, ("a", "b"), [2, NAN, 1]),
        (["b", pd.NA, "a"], "string", ("a", "b"), [2, NAN, 1]),
        (["b", None, "a"], "string[pyarrow]", ("a", "b"), [2, NAN, 1]),
        (["b", "nan", NAN], object, ("b", "nan"), [1, 2, NAN]),
        ([1, "a", 0.5], object, (0.5, 1, "a"), [2, 3, 1]),
        (["a", True, 1], object, (True, 1, "a"), [3, 1, 2]),
        ([np.str_("a"), np.bool_(True), np.int64(1)], object, (True, 1, "a"), [3, 1, 2]),
        ([None, NAN, pd.NaT], object, (), [NAN, NAN, NAN]),
    ],
)
def test_text_and_mixed_objects_are_categories(values, dtype, categories, codes):
    column, read = only(values, dtype)
    assert column.kind == "categorical"
    assert [(type(v), v) for v in column.categories] == [(type(v), v) for v in categories]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, codes)


@pytest.mark.slow
@pytest.mark.parametrize("flag", [True, np.bool_(True)])
@pytest.mark.parametrize("one", [1, 1.0, np.int64(1), np.float32(1), Decimal(1)])
def test_a_bool_and_an_equal_number_stay_apart_whatever_their_hashes(flag, one):
    # Which values a hash table compares depends on its other entries, hence the many texts.
    for i in range(100):
        column, read = only([f"t{i}", flag, one, None], object)
        assert [(type(v), v) for v in column.categories] == [(bool, True), (int, 1), (str, f"t{i}")]
        np.testing.assert_array_equal(read, [3, 1, 2, NAN])


@pytest.mark.parametrize(
    ("categorical", "categories", "codes"),
    [
        (pd.Categorical(["u", "v", None], categories=["v", "z", "u"]), ("u", "v"), [1, 2, NAN]),
        (pd.Categorical([10, 9, 10]), (9, 10), [2, 1, 2]),
        (pd.Categorical([1.0, 0.5, 1.0]), (0.5, 1), [2, 1, 2]),
        (pd.Categorical([True, False, True]), (False, True), [2, 1, 2]),
        (pd.cut([1, 3, 1], [0, 2, 4]), ("(0, 2]", "(2, 4]"), [1, 2, 1]),
        (
            pd.Categorical(pd.to_datetime(["2021-01-01", "2020-01-01", None])),
            ("2020-01-01 00:00:00", "2021-01-01 00:00:00"),
            [2, 1, NAN],
        ),
    ],
)
def test_categoricals_keep_observed_categories_sorted_by_value(categorical, categories, codes):
    column, read = only(categorical)
    assert [(type(v), v) for v in column.categories] == [(type(v), v) for v in categories]
    np.testing.assert_array_equal(read, codes)


@pytest.mark.parametrize(
    ("values", "dtype", "categories", "codes"),
    [
        ([3, 1, 3], "int64", (1, 3), [2, 1, 2]),
        ([3.0, NAN, 0.5], "float64", (0.5, 3), [2, NAN, 1]),
        ([True, False, True], "bool", (False, True), [2, 1, 2]),
        ([3, None, 1], "Int64", (1, 3), [2, NAN, 1]),
        ([2**40 + 1, 2**40, 2**40 + 1], "int64", (2**40, 2**40 + 1), [2, 1, 2]),
        ([1, 1.0, None], object, (1,), [1, 1, NAN]),
        ([np.inf, 1.0, 1.0], "float64", (1, np.inf), [2, 1, 1]),
    ],
)
def test_categorical_argument_forces_categories(values, dtype, categories, codes):
    column, read = only(values, dtype, categorical=["c"])
    assert [(type(v), v) for v in column.categories] == [(type(v), v) for v in categories]
    np.testing.assert_array_equal(read, codes)


def test_categorical_argument_is_checked():
    with pytest.raises(ValueError, match=r"no column 'agee'\. Did you mean 'age'\?"):
        read_table(frame([1], name="age"), categorical=["agee"])
    with pytest.raises(TypeError, match=r"pass \['age'\]"):
        read_table(frame([1], name="age"), categorical="age")
    forced = read_table(np.array([[5, 6], [4, 6]]), categorical=["x0"]).schema
    assert forced.columns == (Column("x0", "categorical", (4, 5)), Column("x1", "numeric"))


def test_object_arrays_and_lists_are_read_column_by_column():
    rows = [[1.5, "b", True], [None, "a", False]]
    for X in (rows, tuple(rows), np.array(rows, dtype=object)):
        table = read_table(X)
        assert table.schema.columns[1] == Column("x1", "categorical", ("a", "b"))
        np.testing.assert_array_equal(table.matrix(), [[1.5, 2, 1], [NAN, 1, 0]])


def test_arrays_of_text_are_categories():
    table = read_table(np.array([["b", "1"], ["a", "2"]]))
    assert table.schema.columns[1] == Column("x1", "categorical", ("1", "2"))
    np.testing.assert_array_equal(table.matrix(), [[2, 1], [1, 2]])


class _Array:
    def __array__(self, dtype=None, copy=None):
        return np.array([[1.0, 2.0]])


class _Polars:
    def to_pandas(self):
        return pd.DataFrame({"a": [1.0], "b": ["u"]})


def test_things_that_turn_into_arrays_or_frames_are_read():
    np.testing.assert_array_equal(read_table(_Array()).matrix(), [[1, 2]])
    table = read_table(_Polars())
    assert table.schema.named
    assert table.schema.names == ("a", "b")


def test_plain_arrays_have_numbered_columns():
    schema = read_table(np.zeros((2, 3))).schema
    assert schema.names == ("x0", "x1", "x2")
    assert not schema.named


def test_float64_is_rounded_and_overflows_to_infinity():
    _, read = only([0.1, 1e39, -1e39])
    np.testing.assert_array_equal(read, [np.float32(0.1), np.inf, -np.inf])
    np.testing.assert_array_equal(read_table([[1e39]]).take([0]).matrix(), [[np.inf]])


# What is refused


@pytest.mark.parametrize("value", [2**24 + 1, -(2**24) - 1, 2**53 + 1, 2**62 + 2**30])
@pytest.mark.parametrize("dtype", ["int64", "Int64", object, "int64[pyarrow]"])
def test_integers_that_float32_cannot_hold_are_refused(value, dtype):
    with pytest.raises(ValueError, match=f"Column 'c' .* for example {value}.*categorical=.*scale"):
        only([1, value], dtype)


def test_python_integers_beyond_every_dtype_are_refused():
    for value in (2**70 + 1, 2**128):
        with pytest.raises(ValueError, match=f"float32 cannot hold, for example {value}"):
            only([1, value], object)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**24, -(2**24), 2**24 + 2, 2**40, -(2**63)], "int64"),
        ([2**31, 2**24], "uint32"),
        ([2**63, 2**64 - 2**40], "uint64"),
        ([-(2**31), 2**30], "int32"),
        ([2**70, 1], object),
    ],
)
def test_large_integers_that_float32_holds_are_read(values, dtype):
    _, read = only(values, dtype)
    assert [int(v) for v in read] == values


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2020-01-01", None]),
        pd.to_datetime(["2020-01-01", None], utc=True),
        pd.to_timedelta([1, None], unit="D"),
        pd.period_range("2020", periods=2, freq="D"),
        pd.Series([datetime.date(2020, 1, 1), None], dtype=object),
        pd.Series([np.timedelta64(1, "D"), None], dtype=object),
        pd.Series([pd.NaT, pd.NaT]),
        np.array([1j, 2.0]),
    ],
)
def test_dates_durations_and_complex_numbers_are_refused(values):
    for options in ({}, {"categorical": ["c"]}):
        with pytest.raises(ValueError, match=r"Column 'c' holds .*Derive numbers"):
            read_table(pd.DataFrame({"c": values}), **options)


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"a", np.zeros(2)])
def test_other_objects_are_refused_with_their_type(value):
    with pytest.raises(ValueError, match=f"Column 'c' holds {type(value).__name__} values"):
        only(pd.Series([value, None], dtype=object))


@pytest.mark.parametrize("X", [np.zeros(3), [1, 2], pd.Series([1, 2]), np.zeros((2, 2, 2)), 5])
def test_anything_but_two_dimensions_is_refused_with_advice(X):
    with pytest.raises(ValueError, match=r"rows and columns, but has shape .*X\.reshape\(-1, 1\)"):
        read_table(X)


def test_ragged_rows_are_refused():
    with pytest.raises(ValueError, match="equal lengths"):
        read_table([[1, 2], [3]])


@pytest.mark.parametrize("X", [np.zeros((0, 2)), np.zeros((2, 0)), pd.DataFrame({"a": []})])
def test_empty_tables_are_refused(X):
    with pytest.raises(ValueError, match=r"X is empty: \d rows and \d columns"):
        read_table(X)


def test_sparse_and_masked_arrays_are_refused_with_advice():
    with pytest.raises(TypeError, match=r"X\.toarray\(\)"):
        read_table(sparse.csr_matrix(np.eye(2)))
    with pytest.raises(TypeError, match="filled"):
        read_table(np.ma.masked_invalid([[1.0, NAN]]))


def test_repeated_names_are_refused_also_after_conversion_to_text():
    with pytest.raises(ValueError, match="repeat: 'a'"):
        read_table(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]))
    with pytest.raises(ValueError, match="repeat: '1'"):
        read_table(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    assert read_table(pd.DataFrame([[1, 2]], columns=[1, 2])).schema.names == ("1", "2")


# Reading new data


@pytest.fixture
def training():
    return pd.DataFrame(
        {
            "age": [31.0, 58.0, NAN],
            "sex": ["F", "M", None],
            "job": pd.Categorical(["x", "y", "x"]),
            "code": pd.Series([1, "a", True], dtype=object),
        }
    )


def test_columns_are_found_by_name_and_others_ignored(training):
    table = read_table(training)
    shuffled = training[["code", "sex", "age", "job"]].assign(extra=pd.Timestamp("2020-01-01"))
    again = table.schema.read(shuffled)
    assert again.schema is table.schema
    np.testing.assert_array_equal(again.matrix(), table.matrix())


def test_all_missing_columns_are_named_with_a_hint(training):
    schema = read_table(training).schema
    message = (
        r"no column 'age', 'sex'\. Did you mean 'agee'\? Existing columns: 'job', 'code', 'agee'"
    )
    with pytest.raises(ValueError, match=message):
        schema.read(training[["job", "code"]].assign(agee=1))


def test_a_wanted_column_that_repeats_is_refused_and_others_may_repeat(training):
    schema = read_table(training[["age"]]).schema
    doubled = pd.DataFrame([[1, 2, 3]], columns=["age", "b", "b"])
    np.testing.assert_array_equal(schema.read(doubled).matrix(), [[1]])
    with pytest.raises(ValueError, match="more than once in X: 'age'"):
        schema.read(pd.DataFrame([[1, 2]], columns=["age", "age"]))


def test_arrays_are_read_by_position_with_the_count_checked(training):
    table = read_table(training)
    again = table.schema.read(training.to_numpy(dtype=object))
    np.testing.assert_array_equal(again.matrix(), table.matrix())
    with pytest.raises(ValueError, match=r"X has 2 columns, but 4 are expected, .*'age', 'sex'"):
        table.schema.read(np.zeros((1, 2)))


def test_a_schema_of_an_array_reads_frames_by_position_unless_the_names_match():
    schema = read_table(np.zeros((1, 2))).schema
    np.testing.assert_array_equal(
        schema.read(pd.DataFrame({"b": [1], "a": [2]})).matrix(), [[1, 2]]
    )
    named = pd.DataFrame({"x1": [1], "x0": [2], "more": [3]})
    np.testing.assert_array_equal(schema.read(named).matrix(), [[2, 1]])


def test_unseen_categories_are_missing():
    schema = read_table(frame(["a", "b"])).schema
    np.testing.assert_array_equal(schema.read(frame(["b", "new", None])).column(0), [2, NAN, NAN])


@pytest.mark.parametrize(
    ("trained", "new", "expected"),
    [
        (["1", "2"], pd.Series([1, "2"], dtype=object), [NAN, 2]),
        (pd.Categorical([1, 2]), pd.Series(["1", 2], dtype=object), [NAN, 2]),
        (pd.Categorical([1, 2]), pd.Series([2.0, NAN]), [2, NAN]),
        (pd.Categorical([1.0, 2.5]), pd.Series([1, 2]), [1, NAN]),
        (pd.Categorical([1, 2]), pd.Series([True, 2], dtype=object), [NAN, 2]),
        (pd.Series([True, "a"], dtype=object), pd.Series([True, 1], dtype=object), [1, NAN]),
        (pd.Categorical([False, True]), pd.Series([True, False]), [2, 1]),
        (pd.Categorical(["a", "b"]), pd.Series(["b", "a"], dtype="string"), [2, 1]),
        (["a", "b"], pd.Series(pd.Categorical(["b", "c"])), [2, NAN]),
    ],
)
def test_categories_match_by_value_and_type(trained, new, expected):
    schema = read_table(frame(trained)).schema
    np.testing.assert_array_equal(schema.read(frame(new)).column(0), expected)


@pytest.mark.parametrize(
    ("trained", "new"),
    [
        (["1", "2"], pd.Series([1, 2])),
        (["F", "M"], pd.Series(pd.Categorical([0, 1]))),
        (pd.Categorical([1, 2]), pd.Series(["1", "2"])),
        (pd.Categorical([1, 2]), pd.Series([True, None], dtype=object)),
    ],
)
def test_values_none_of_which_can_be_a_category_are_refused(trained, new):
    schema = read_table(frame(trained)).schema
    with pytest.raises(
        ValueError, match=r"Column 'c' holds .* such as .* was fitted to categories"
    ):
        schema.read(frame(new))
    nothing = frame(pd.Series([None, None], dtype=object))
    np.testing.assert_array_equal(schema.read(nothing).column(0), [NAN, NAN])


def test_the_same_categorical_dtype_is_looked_up_once(monkeypatch):
    dtype = pd.CategoricalDtype(["c", "a", "b"])
    schema = read_table(frame(["a", "b"], dtype)).schema
    new = frame(["b", "c", None], dtype)
    np.testing.assert_array_equal(schema.read(new).column(0), [2, NAN, NAN])

    def no_lookup(value):
        raise AssertionError(f"looked up {value!r} again")

    with monkeypatch.context() as patch:
        patch.setattr("recalibrate.data.table.category_key", no_lookup)
        np.testing.assert_array_equal(schema.read(new.iloc[:1]).column(0), [2])
    other = frame(["b", "a"], pd.CategoricalDtype(["b", "a"]))
    np.testing.assert_array_equal(schema.read(other).column(0), [2, 1])


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
def test_a_few_rows_are_read_like_many(dtype):
    values = ["b", "new", None, "a", "c", "1", "b"] * 10
    mixed = ["b", 1, 1.0, True, None, "1", np.nan] * 10
    schema = read_table(pd.DataFrame({"text": ["a", "b", "c", "1"], "mixed": ["b", 1, True, "1"]}))
    schema = schema.schema
    new = pd.DataFrame({"text": pd.Series(values, dtype=dtype), "mixed": mixed})
    together = schema.read(new).matrix()
    for row in range(7):
        np.testing.assert_array_equal(schema.read(new[row : row + 1]).matrix(), together[[row]])
    np.testing.assert_array_equal(schema.read(new[:9]).matrix(), together[:9])


def test_columns_of_a_frame_are_found_whatever_their_labels():
    schema = read_table(pd.DataFrame({"1": [1.0], "True": [2.0], "nan": [3.0], "a": ["x"]})).schema
    new = pd.DataFrame([[4.0, 5.0, 6.0, "x", 0]], columns=[1, True, np.nan, "a", "b"], dtype=object)
    np.testing.assert_array_equal(schema.read(new).matrix(), [[4.0, 5.0, 6.0, 1.0]])
    twice = pd.DataFrame([["y", "y", 4.0, 5.0, 6.0, "x"]], columns=["b", "b", 1, True, "nan", "a"])
    np.testing.assert_array_equal(schema.read(twice).matrix(), [[4.0, 5.0, 6.0, 1.0]])


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_text_in_a_numeric_column_is_refused_with_value_and_row(dtype):
    schema = read_table(frame([1.0, 2.0])).schema
    with pytest.raises(ValueError, match=r"'c' is numeric.* '42 years' in row 1 .*to_numeric"):
        schema.read(frame([None, "42 years"], dtype))


def test_numeric_columns_accept_numbers_of_any_dtype():
    schema = read_table(frame([1.0, 2.0])).schema
    for values in (pd.Categorical([3, None]), pd.Series([3, None], dtype=object)):
        np.testing.assert_array_equal(schema.read(frame(values)).column(0), [3, NAN])
    mixed = frame(pd.Series([True, 2.5], dtype=object))
    np.testing.assert_array_equal(schema.read(mixed).column(0), [1, 2.5])


def test_new_data_are_checked_like_the_first():
    schema = read_table(frame([1, 2])).schema
    with pytest.raises(ValueError, match="16777217"):
        schema.read(frame([2**24 + 1]))
    with pytest.raises(ValueError, match="Derive numbers"):
        schema.read(frame(pd.to_datetime(["2020-01-01"])))
    with pytest.raises(ValueError, match="X is empty"):
        schema.read(frame([1]).iloc[:0])


# Schema and table


def test_index_lists_columns_and_suggests(training):
    schema = read_table(training).schema
    assert schema.index("job") == 2
    with pytest.raises(
        ValueError, match=r"'jobs'\. Did you mean 'job'\? Existing columns: 'age', 'sex'"
    ):
        schema.index("jobs")
    wide = read_table(np.zeros((1, 40))).schema
    with pytest.raises(ValueError, match="'x29' and 10 more"):
        wide.index("zzz")


def test_select_keeps_the_given_order(training):
    table = read_table(training)
    chosen = table.select(["job", "age"])
    assert chosen.schema == table.schema.select(["job", "age"])
    assert chosen.schema.names == ("job", "age")
    np.testing.assert_array_equal(chosen.matrix(), table.matrix()[:, [2, 0]])
    np.testing.assert_array_equal(chosen.schema.read(training).matrix(), chosen.matrix())
    with pytest.raises(ValueError, match="no column 'nope'"):
        table.select(["nope"])
    with pytest.raises(TypeError, match="list of column names"):
        table.select("age")


@pytest.mark.parametrize(
    "rows", [[2, 0], np.array([True, False, True]), slice(1, None), slice(None, None, -1), [], [-1]]
)
def test_take_gives_the_rows_of_the_matrix(training, rows):
    table = read_table(training)
    taken = table.take(rows)
    expected = table.matrix()[rows if len(np.shape(rows)) == 0 or len(rows) else slice(0)]
    assert taken.n_rows == len(expected)
    assert taken.schema is table.schema
    np.testing.assert_array_equal(taken.matrix(), expected)
    np.testing.assert_array_equal(taken.column("sex"), expected[:, 1])


def test_take_refuses_bad_rows(training):
    table = read_table(training)
    with pytest.raises(IndexError, match=r"Mask has shape \(2,\), the table 3 rows"):
        table.take([True, False])
    with pytest.raises(IndexError):
        table.take([3])
    with pytest.raises(TypeError):
        table.take([0.5])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool])
def test_columns_and_matrix_are_contiguous_copies(order, dtype):
    X = np.asarray(np.arange(12).reshape(4, 3) % 5, dtype=dtype, order=order)
    before = X.copy()
    table = read_table(X)
    for j in range(3):
        column = table.column(j)
        assert column.flags.c_contiguous
        np.testing.assert_array_equal(column, before[:, j].astype(np.float32))
        column[:] = -1
    matrix = table.matrix()
    assert matrix.flags.c_contiguous
    assert matrix.dtype == np.float32
    matrix[:] = -1
    np.testing.assert_array_equal(X, before)


def test_reading_a_float32_array_copies_no_column():
    X = np.zeros((100_000, 10), dtype=np.float32)
    tracemalloc.start()
    try:
        table = read_table(X)
        _, peak_read = tracemalloc.get_traced_memory()
        table.column(3)
        _, peak_column = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    one_column = X.nbytes // 10
    assert peak_read < one_column // 4
    assert peak_column < 2 * one_column


@pytest.mark.slow
def test_very_many_categories():
    ids = np.array([f"id{i:06d}" for i in range(300_000)], dtype=object)
    order = np.random.default_rng(0).permutation(len(ids))
    table = read_table(frame(ids[order]))
    assert table.schema.columns[0].categories[:2] == ("id000000", "id000001")
    np.testing.assert_array_equal(table.column(0), order + 1)


def test_a_schema_survives_json_with_the_types_of_its_categories():
    mixed = pd.Series([True, 1, 0.1, np.inf, -np.inf, "1", "é\n", 2**60 + 1], dtype=object)
    schema = read_table(pd.DataFrame({"m": mixed, "n": range(8)})).schema
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again == schema
    types = [type(v) for v in schema.columns[0].categories]
    assert [type(v) for v in again.columns[0].categories] == types
    array_schema = read_table(np.zeros((1, 1))).schema
    assert not Schema.from_dict(array_schema.to_dict()).named


def _saved(**changes):
    column = {"name": "a", "kind": "categorical", "categories": [["str", "u"]]} | changes
    return {"named": True, "columns": [column]}


@pytest.mark.parametrize(
    "state",
    [
        {},
        [],
        {"named": 1, "columns": []},
        {"named": True, "columns": [3]},
        {"named": True, "columns": _saved()["columns"] * 2},
        _saved(name=3),
        _saved(kind="text"),
        _saved(categories=[["str", 1]]),
        _saved(categories=[["int", True]]),
        _saved(categories=[["float", "x"]]),
        _saved(categories=[["list", []]]),
        _saved(categories=["u"]),
        _saved(categories=[["str", "u"], ["str", "u"]]),
    ],
)
def test_damaged_schemas_are_refused(state):
    assert Schema.from_dict(_saved()).columns[0].categories == ("u",)
    with pytest.raises(ValueError, match="Not a saved schema"):
        Schema.from_dict(state)


# Properties

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, NAN]),
    st.sampled_from(["a", "b", "1", "nan", ""]),
)
_MIXED = st.lists(_VALUES, min_size=1, max_size=12)


@pytest.mark.slow
@given(_MIXED, st.randoms(use_true_random=False))
def test_categories_do_not_depend_on_the_order_of_rows(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    first = read_table(frame(values, object), categorical=["c"])
    second = read_table(frame([values[i] for i in order], object), categorical=["c"])
    assert first.schema.to_dict() == second.schema.to_dict()
    np.testing.assert_array_equal(first.column(0)[order], second.column(0))


@pytest.mark.slow
@given(_MIXED)
def test_codes_name_the_values(values):
    table = read_table(frame(values, object), categorical=["c"])
    categories = table.schema.columns[0].categories
    for value, code in zip(values, table.column(0), strict=True):
        if value is None or value != value:
            assert np.isnan(code)
        else:
            category = categories[int(code) - 1]
            assert category == value
            assert isinstance(category, bool) == isinstance(value, bool)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.floats(width=32), st.sampled_from(["u", "v", None]), _VALUES, st.booleans()),
        min_size=1,
        max_size=10,
    ),
    st.permutations(["number", "text", "mixed", "flag"]),
)
def test_the_training_frame_reads_as_itself_in_any_column_order(rows, names):
    X = pd.DataFrame(
        {
            "number": pd.Series([row[0] for row in rows], dtype="float64"),
            "text": pd.Series([row[1] for row in rows], dtype="category"),
            "mixed": pd.Series([row[2] for row in rows], dtype=object),
            "flag": pd.Series([row[3] for row in rows], dtype=bool),
        }
    )
    table = read_table(X)
    np.testing.assert_array_equal(table.schema.read(X).matrix(), table.matrix())
    np.testing.assert_array_equal(table.schema.read(X[names]).matrix(), table.matrix())
    saved = Schema.from_dict(json.loads(json.dumps(table.schema.to_dict())))
    np.testing.assert_array_equal(saved.read(X[names]).matrix(), table.matrix())


def test_columns_are_shared_where_kernels_can_read_them():
    writable, frozen = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32)
    frozen.setflags(write=False)  # as pandas hands columns out: another type for numba
    table = read_table(pd.DataFrame({"a": [0, 1, 2]}))
    for source, shared in ((writable, True), (frozen, False), (writable[::-1], False)):
        own = Table(table.schema, [source], 3)
        for column in (own.column(0, copy=False), own.gathered().column(0, copy=False)):
            assert column.flags.writeable
            assert column.flags.c_contiguous
            assert (column is source) is shared
            assert (column == source).all()
        assert own.column(0) is not source
