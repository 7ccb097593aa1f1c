import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.data.table import read_table
from recalibrate.groups.expressions import GroupSyntaxError
from recalibrate.groups.groupset import GroupSet, bind

NAN = np.nan


def people():
    return pd.DataFrame(
        {
            "sex": ["F", "M", "F", "M", "F", None],
            "race": ["W", "W", "B", "W", "W", "B"],
            "kids": [0, 1, 2, 0, NAN, 1],
            "age": [20.0, 30.0, 40.0, 50.0, 60.0, NAN],
        }
    )


@pytest.fixture
def table():
    return read_table(people())


# ---- what is a group


def test_categories_and_missing(table):
    groups = bind(["sex", "race"], table)
    assert groups.labels == ("sex = F", "sex = M", "sex is missing", "race = B", "race = W")
    assert groups.offsets == (0, 3, 5)
    codes = groups.codes(table)
    assert codes.dtype == np.int32
    assert codes.flags.c_contiguous
    assert codes.tolist() == [[1, 2], [2, 2], [1, 1], [2, 2], [1, 2], [3, 1]]


def test_few_numeric_values_are_cells(table):
    groups = bind(["kids"], table)
    assert groups.labels == ("kids = 0", "kids = 1", "kids = 2", "kids is missing")
    assert groups.codes(table)[:, 0].tolist() == [1, 2, 3, 1, 4, 2]


def test_a_value_that_was_not_there_when_bound_is_in_no_group(table):
    groups = bind(["kids"], table)
    new = read_table(people().assign(kids=[0.5, -1.0, 9.0, 2.0, NAN, 0.0]))
    assert groups.codes(new)[:, 0].tolist() == [0, 0, 0, 3, 4, 1]


def test_twelve_values_are_cells_and_thirteen_are_bands():
    twelve = read_table(np.arange(12.0).reshape(-1, 1))
    thirteen = read_table(np.arange(13.0).reshape(-1, 1))
    assert len(bind(["x0"], twelve).labels) == 12
    assert len(bind(["x0"], thirteen).labels) == 4


def test_bands_have_readable_labels_and_half_open_edges():
    values = np.append(np.arange(100.0), NAN).reshape(-1, 1)
    table = read_table(values)
    groups = bind(["x0"], table)
    assert groups.labels == (
        "x0 < 25",
        "x0 in [25, 50)",
        "x0 in [50, 75)",
        "x0 >= 75",
        "x0 is missing",
    )
    probe = read_table(np.array([[-np.inf], [24.999], [25], [50], [75], [np.inf], [NAN]]))
    assert groups.codes(probe)[:, 0].tolist() == [1, 1, 2, 3, 4, 4, 5]


def test_band_labels_show_the_shortest_float32():
    table = read_table((np.arange(40) / 10).astype(np.float32).reshape(-1, 1))
    assert bind(["x0"], table, bands=2).labels == ("x0 < 2", "x0 >= 2")
    assert bind(["x0"], table, bands=3).labels[1] == "x0 in [1.3, 2.7)"


def test_one_edge_gives_two_bands_when_most_rows_are_tied():
    values = np.append(np.zeros(900), np.arange(1.0, 21.0))
    table = read_table(values.reshape(-1, 1))
    assert bind(["x0"], table).labels == ("x0 < 1", "x0 >= 1")


def test_predicates_are_one_group(table):
    groups = bind(["age < 35", "25 <= age < 65", "age is missing or sex == 'F'"], table)
    assert groups.labels == ("age < 35", "25 <= age < 65", "age is missing or sex == 'F'")
    assert groups.codes(table).T.tolist() == [
        [1, 1, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 0],
        [1, 0, 1, 0, 1, 1],
    ]


def test_crossing_gives_the_combinations_that_occur(table):
    groups = bind(["sex*race"], table)
    assert groups.labels == (
        "sex = F * race = B",
        "sex = F * race = W",
        "sex = M * race = W",
        "sex is missing * race = B",
    )
    assert groups.codes(table)[:, 0].tolist() == [2, 3, 1, 3, 2, 4]
    new = read_table(people().assign(sex=["M"] * 6))
    assert groups.codes(new)[:, 0].tolist() == [3, 3, 0, 3, 3, 0]


def test_crossing_with_a_predicate_brackets_what_would_read_wrongly(table):
    groups = bind(["race * (age < 35)", "race * (age < 25 or age > 55)"], table)
    assert groups.labels == (
        "race = W * age < 35",
        "race = W * (age < 25 or age > 55)",
    )


def test_min_rows(table):
    assert bind(["sex*race"], table, min_rows=2).labels == (
        "sex = F * race = W",
        "sex = M * race = W",
    )


def test_equal_texts_of_different_types_get_different_labels():
    table = read_table(pd.DataFrame({"c": pd.Series([1, "1"], dtype=object)}))
    assert set(bind(["c"], table).labels) == {"c = 1", "c = '1'"}


def test_masks_agree_with_codes_and_labels(table):
    groups = bind(["sex", "sex*race", "age < 35"], table)
    codes = groups.codes(table)
    found = list(groups.masks(table))
    assert tuple(label for label, _ in found) == groups.labels
    expected = [
        codes[:, t] == k + 1
        for t in range(len(groups.terms))
        for k in range(groups.offsets[t + 1] - groups.offsets[t])
    ]
    assert all(np.array_equal(mask, want) for (_, mask), want in zip(found, expected, strict=True))


# ---- tables other than the first


def test_categories_match_by_value_in_a_table_with_another_schema(table):
    groups = bind(["race", "race != 'W'"], table)
    new = read_table(pd.DataFrame({"race": ["W", "A", "B", None]}))
    # "A" was unknown when bound: as if missing, so no group, and != is False on it.
    assert groups.codes(new).tolist() == [[2, 0], [0, 0], [1, 1], [0, 0]]


def test_reading_with_the_schema_gives_the_same_codes(table):
    groups = bind(["sex*race", "race != 'W'"], table)
    new = people().iloc[::-1].assign(race=["W", "B", "X", "W", "B", "X"])
    assert np.array_equal(groups.codes(read_table(new)), groups.codes(table.schema.read(new)))


def test_a_column_of_another_kind_is_refused(table):
    groups = bind(["kids"], table)
    new = read_table(people().assign(kids=list("abcdef")))
    with pytest.raises(ValueError, match="'kids' is categorical in this table, but was numeric"):
        groups.codes(new)


# ---- the door


def test_a_term_without_rows_warns_and_is_dropped(table):
    with pytest.warns(UserWarning, match="'age > 99' has no rows; dropped"):
        groups = bind(["age > 99", "sex"], table)
    assert groups.labels == ("sex = F", "sex = M", "sex is missing")


def test_nothing_left_is_an_error(table):
    with (
        pytest.warns(UserWarning, match="'sex' has no group of at least 7 rows"),
        pytest.raises(ValueError, match="no group is left"),
    ):
        bind(["sex"], table, min_rows=7)


@pytest.mark.parametrize(
    ("terms", "error", "words"),
    [
        ("sex", TypeError, r"write \['sex'\]"),
        ([], ValueError, "empty"),
        (["sex", " sex "], ValueError, "given twice"),
        (["age<35", "35 > age"], ValueError, "given twice"),
        ([("mine", np.ones(6, bool))], TypeError, "masks are for audit only"),
        ([np.ones(6, bool)], TypeError, "masks are for audit only"),
        (["sexx"], GroupSyntaxError, "did you mean 'sex'"),
    ],
)
def test_bad_terms(table, terms, error, words):
    with pytest.raises(error, match=words):
        bind(terms, table)


@pytest.mark.parametrize(
    "options", [{"min_rows": 0}, {"min_rows": 1.5}, {"bands": 1}, {"bands": True}]
)
def test_bad_options(table, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a whole number"):
        bind(["sex"], table, **options)


# ---- weights and order


def test_rows_of_weight_zero_are_absent(table):
    weight = np.array([1, 1, 0, 1, 1, 0])
    assert bind(["sex*race", "kids"], table, weight=weight) == bind(
        ["sex*race", "kids"], table.take(weight > 0)
    )


@pytest.mark.slow
@given(st.data())
def test_binding_ignores_row_order_and_a_row_of_weight_two_is_two_rows(data):
    n = data.draw(st.integers(20, 60))
    values = data.draw(hnp.arrays(np.float32, n, elements=st.floats(-100, 100, width=16)))
    weight = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)))
    weight[0] = 1
    order = np.array(data.draw(st.permutations(range(n))))
    block = values.reshape(-1, 1)
    weighted = bind(["x0"], read_table(block), weight=weight)
    assert bind(["x0"], read_table(block[order]), weight=weight[order]) == weighted
    assert bind(["x0"], read_table(np.repeat(block, weight, axis=0))) == weighted


def test_negative_zero_and_zero_are_one_value():
    table = read_table(np.array([[-0.0], [0.0], [1.0]]))
    assert bind(["x0"], table).labels == ("x0 = 0", "x0 = 1")


# ---- slow definition, many categories


@pytest.mark.slow
@given(st.data())
def test_codes_equal_a_slow_definition(data):
    n = data.draw(st.integers(1, 30))
    cell = st.sampled_from([None, "a", "b", "c"])
    number = st.sampled_from([NAN, 0.0, 1.0, 2.5])
    frame = pd.DataFrame(
        {
            "c": pd.Series(data.draw(st.lists(cell, min_size=n, max_size=n)), dtype=object),
            "d": pd.Series(data.draw(st.lists(cell, min_size=n, max_size=n)), dtype="string"),
            "x": data.draw(st.lists(number, min_size=n, max_size=n)),
        }
    )
    table = read_table(frame, categorical=["c"])
    (column,) = bind(["c*x*d"], table).codes(table).T

    def key(row):
        return tuple("missing" if pd.isna(v) else v for v in row)

    keys = [key(row) for row in frame[["c", "x", "d"]].itertuples(index=False)]
    assert (column > 0).all()
    assert len(set(zip(keys, column.tolist(), strict=True))) == len(set(keys)) == column.max()


@pytest.mark.slow
def test_three_hundred_thousand_categories_and_keys_beyond_a_lookup_table():
    n = 300_000
    code = np.arange(n)
    names = pd.Categorical.from_codes(code, [f"z{i:06}" for i in range(n)])
    table = read_table(pd.DataFrame({"zip": names, "again": names[::-1]}))
    groups = bind(["zip", "zip * again"], table)
    assert groups.offsets == (0, n, 2 * n)
    assert groups.labels[n - 1] == "zip = z299999"
    assert np.array_equal(groups.codes(table), np.column_stack([code + 1, code + 1]))
    swapped = table.schema.read(pd.DataFrame({"zip": names, "again": names}))
    assert not groups.codes(swapped)[:, 1].any()


# ---- saving


def test_round_trip_through_json(table):
    terms = ["sex", "sex * race", "kids * (age < 55 or sex is missing)", "`age` > 20"]
    groups = bind(terms, table)
    again = GroupSet.from_dict(json.loads(json.dumps(groups.to_dict(), allow_nan=False)))
    assert again == groups
    assert again.labels == groups.labels
    assert np.array_equal(again.codes(table), groups.codes(table))


def test_infinite_values_and_bands_round_trip():
    few = np.array([[-np.inf], [0.0], [np.inf], [NAN]])
    many = np.append(np.arange(20.0), [np.inf] * 30).reshape(-1, 1)
    for block in (few, many):
        groups = bind(["x0"], read_table(block))
        text = json.dumps(groups.to_dict(), allow_nan=False)
        assert GroupSet.from_dict(json.loads(text)) == groups


def spoil(path, value):
    def change(state):
        *way, last = path
        for step in way:
            state = state[step]
        state[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (spoil(["terms"], []), "no terms"),
        (spoil(["terms", 0, "text"], "sex *"), "expected a column"),
        (spoil(["terms", 0, "text"], 5), "string"),
        (spoil(["terms", 0, "text"], "nothing"), "unknown column"),
        (spoil(["terms", 0, "factors"], []), "zip"),
        (spoil(["terms", 0, "factors", 0, "kind"], "bands"), "does not fit"),
        (spoil(["terms", 0, "factors", 0, "column"], "age"), "does not fit"),
        (spoil(["terms", 0, "cells"], []), "not a list of 1 integers"),
        (spoil(["terms", 0, "cells"], [[1.5]]), "not a list of 1 integers"),
        (spoil(["terms", 0, "cells"], [[1, 1]]), "not a list of 1 integers"),
        (spoil(["terms", 0, "cells"], [[0]]), "out of range"),
        (spoil(["terms", 0, "cells"], [[4]]), "out of range"),
        (spoil(["terms", 0, "cells"], [[2], [1]]), "ascending"),
        (spoil(["terms", 1, "cells"], [[2]]), "out of range"),
        (spoil(["terms", 2, "factors", 0, "values"], [1.0, 0.0]), "ascending float32"),
        (spoil(["terms", 2, "factors", 0, "values"], [0.1]), "ascending float32"),
        (spoil(["terms", 2, "factors", 0, "values"], [1e300]), "ascending float32"),
        (spoil(["terms", 2, "factors", 0, "values"], ["nan"]), "ascending float32"),
    ],
)
def test_a_spoiled_file_is_refused(table, change, words):
    state = json.loads(json.dumps(bind(["sex", "age < 35", "kids"], table).to_dict()))
    change(state)
    with pytest.raises(ValueError, match=f"Not a saved group set: .*{words}"):
        GroupSet.from_dict(state)


def test_a_missing_entry_is_refused():
    with pytest.raises(ValueError, match="Not a saved group set"):
        GroupSet.from_dict({})


def test_names_of_groups_are_expressions():
    """What a report prints can be given as a group, and is the same rows."""
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame(
        {
            "SEX": rng.choice([1, 2, np.nan], n),
            "hours-per-week": rng.integers(0, 80, n),
            "in": rng.normal(size=n),
            "rate": rng.choice(np.float32([0.1, -0.25, 1e-7, 1e20]), n),
            "zip code": rng.choice(["01234", "1", "1 * SEX = 2"], n),
            "zip": rng.choice(["code = 1", "a, b (c)", "never married", "or", "'", None], n),
            "mixed": pd.Series(rng.choice(["1", "x"], n), dtype=object).replace({"x": 1}),
        }
    )
    table = read_table(frame)
    terms = [f"`{name}`" for name in frame] + [
        "SEX * zip",
        "`zip code` * (SEX == 1 or zip == 'or')",
    ]
    names = []
    for label, mask in bind([*terms, "`hours-per-week` * `in` * rate"], table).masks(table):
        (again,) = (rows for _, rows in bind([label], table).masks(table))
        np.testing.assert_array_equal(again, mask, err_msg=label)
        names.append(label)
    assert "hours-per-week in [19, 39)" in names
    assert "zip code = 1 * SEX = 2" in names
    assert "SEX = 2 * zip = never married" in names


def test_the_name_of_a_group_is_stored_as_an_expression():
    table = read_table(pd.DataFrame({"MAR": ["never married", "married"], "AGEP": [20, 50]}))
    groups = bind(["MAR = never married", "AGEP = 20"], table)
    assert groups.labels == ("MAR == 'never married'", "AGEP == 20")
    assert GroupSet.from_dict(groups.to_dict()).labels == groups.labels
