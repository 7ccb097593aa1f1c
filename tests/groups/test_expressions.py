import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalibrate.data.table import Column, read_table
from recalibrate.groups import expressions as ex

NAN = np.nan


@pytest.fixture(scope="module")
def table():
    frame = pd.DataFrame(
        {
            "age": [20.0, 25.0, 40.0, 65.0, NAN],
            "sex": ["F", "M", "F", None, "M"],
            "hours per week": [10, 20, 30, 40, 50],
            "rate": [0.1, 0.2, 0.3, -1.5, 0.1],
            "member": [True, False, True, False, True],
            "in": [1, 2, 3, 4, 5],
            "grade": pd.Categorical([1, 2, 3, None, 2]),
            "mixed": pd.Series([1, True, "1", 1, "1"], dtype=object),
        }
    )
    return read_table(frame, categorical=["grade"])


def condition(text, schema=None):
    (factor,) = ex.parse(text, schema).factors
    return factor.condition


def rows(text, table):
    return np.flatnonzero(ex.evaluate(condition(text, table.schema), table)).tolist()


# ---- structure


def test_a_column_and_a_crossing():
    assert ex.parse("sex").factors == (ex.Column("sex"),)
    term = ex.parse(" sex*race * (age < 25) ")
    assert term.factors == (
        ex.Column("sex"),
        ex.Column("race"),
        ex.Predicate(ex.Compare("age", "<", 25)),
    )
    assert term.text == "sex*race * (age < 25)"


def test_crossing_binds_loosest():
    assert ex.parse("a < 1 or b < 2 * c") == ex.parse("(a < 1 or b < 2) * c")


def test_constants_on_the_left_are_mirrored():
    for left, right in [
        ("<", ">"),
        ("<=", ">="),
        (">", "<"),
        (">=", "<="),
        ("==", "=="),
        ("!=", "!="),
    ]:
        assert condition(f"25 {left} age") == ex.Compare("age", right, 25)


def test_a_chain_is_two_comparisons_in_the_enclosing_and():
    bounds = ex.Compare("age", ">=", 25), ex.Compare("age", "<", 65)
    assert condition("25 <= age < 65") == ex.And(bounds)
    assert condition("25 <= age < 65 and a > 1") == ex.And((*bounds, ex.Compare("a", ">", 1)))


def test_not_binds_tighter_than_and_than_or():
    a, b, c = (ex.Compare(name, "<", 1) for name in "abc")
    assert condition("not a < 1 and b < 1 or c < 1") == ex.Or((ex.And((ex.Not(a), b)), c))
    assert condition("not (a < 1 and (b < 1 or c < 1))") == ex.Not(ex.And((a, ex.Or((b, c)))))


def test_membership_and_missing():
    assert condition("a in (1, 2)") == ex.In("a", (1, 2))
    assert condition("a not in ('x',)") == ex.In("a", ("x",), negated=True)
    assert condition("a is missing") == ex.IsMissing("a")
    assert condition("a is not missing") == ex.Not(ex.IsMissing("a"))
    assert condition("missing is missing") == ex.IsMissing("missing")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ("- 2.5e-3", -2.5e-3),
        (".5", 0.5),
        ("1.", 1.0),
        ("007", 7),
        ("True", True),
        ("'it\\'s'", "it's"),
        ('"it\'s"', "it's"),
        (r"'a\\b\n\x41\u00e9'", "a\\b\nAé"),
        ("'`quoted` * and'", "`quoted` * and"),
    ],
)
def test_constants(text, value):
    found = condition(f"a == {text}").value
    assert found == value
    assert type(found) is type(value)


def test_backticks_make_any_text_a_column():
    assert condition("`hours per week` < 40").column == "hours per week"
    assert ex.parse("`a``b` * `in` * `*`").factors == (
        ex.Column("a`b"),
        ex.Column("in"),
        ex.Column("*"),
    )
    assert condition("`-` == '*'") == ex.Compare("-", "==", "*")


def test_columns_of_lists_each_once_in_order():
    assert ex.columns_of(ex.parse("b * (a < 1 or not b > 2 or c is missing)")) == ("b", "a", "c")


# ---- errors


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "expected a column name"),
        ("sex *", 5, "the end of the expression"),
        ("sex race", 4, "alone is not a condition"),
        ("(sex) * race", 4, "alone is not a condition"),
        ("age in [25, 30]", 14, "cannot read ']'"),
        ("age in [25)", 10, "between the ends"),
        ("sex = F and age < 25", 6, "strings need quotes"),
        ("age < 25 & sex == 'F'", 9, "write `and`"),
        ("`age < 25", 0, "unmatched"),
        ("sex == 'F", 7, "unmatched"),
        ("sex == F", 7, "strings need quotes"),
        ("age < age", 6, "cannot be compared"),
        ("age < 25 < 3", 9, "middle"),
        ("age < -'a'", 7, "minus"),
        ("25 <= 30", 6, "expected a column name"),
        ("25", 2, "expected a comparison"),
        ("age in ()", 8, "expected a constant"),
        ("age in (1, 2", 12, "or a comma"),
        ("age not 5", 8, "expected 'in'"),
        ("age is None", 7, "expected 'missing'"),
        ("(age < 25", 9, "close the bracket"),
        ("age < 25)", 8, "or the end"),
        ("sex * race * sex", 13, "crossed with itself"),
        ("2nd < 3", 0, "backticks"),
        ("age < 1e999", 6, "too large"),
        (r"sex == 'C:\dir'", 10, "unknown escape"),
        ("__import__('os')", 10, "alone is not a condition"),
        ("a.b < 1", 1, "cannot read '.'"),
    ],
)
def test_errors_point_at_the_place(text, position, words):
    with pytest.raises(ex.GroupSyntaxError) as caught:
        ex.parse(text)
    assert words in caught.value.message
    assert caught.value.position == position
    message, shown, caret = str(caught.value).split("\n")
    assert message == caught.value.message
    assert shown == f"    {text}"
    assert caret == " " * (4 + position) + "^"


def test_caret_stays_in_place_after_a_newline_or_tab():
    with pytest.raises(ex.GroupSyntaxError) as caught:
        ex.parse("age\n\t< ?")
    assert str(caught.value).endswith("\n    age  < ?\n           ^")


def test_errors_can_be_rebuilt_from_their_arguments():
    with pytest.raises(ex.GroupSyntaxError) as caught:
        ex.parse("age <")
    # copy rebuilds an exception from its args, which is what crossing a process does too
    again = copy.copy(caught.value)
    assert isinstance(again, ValueError)
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("text", ["not " * 10_000 + "a < 1", "(" * 10_000 + "a < 1" + ")" * 10_000])
def test_deep_nesting_is_refused_before_python_gives_up(text):
    with pytest.raises(ex.GroupSyntaxError, match="50"):
        ex.parse(text)


def test_only_text_is_parsed():
    with pytest.raises(TypeError, match="string, got int"):
        ex.parse(3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agee < 25", "unknown column 'agee'; did you mean 'age'? columns: 'age', 'sex'"),
        ("sex * nothing", "unknown column 'nothing'; columns: 'age'"),
        ("age == 'old'", "'age' is numeric; compare it with a number, not 'old'"),
        ("sex == 'f'", "no category 'f'; categories: 'F', 'M'"),
        ("sex in ('F', 'X')", "no category 'X'"),
        ("sex = X", "no category 'X'; categories: 'F', 'M'"),
        ("sex = not known * age", "no category 'not known'; categories: 'F', 'M'"),
        ("age = old", "'age' is numeric; compare it with a number, not 'old'"),
        ("sex == F and age < 25", "strings need quotes"),
        ("sex == age", "cannot be compared"),
        ("sex == 1", "no category 1"),
        ("sex < 'M'", "no order"),
        ("'F' <= sex", "no order"),
        ("mixed < 1", "no order"),
        ("grade == '1'", "no category '1'"),
        ("age < 9 and in < 3", "reserved word; write the column as `in`"),
    ],
)
def test_schema_errors(table, text, words):
    with pytest.raises(ex.GroupSyntaxError) as caught:
        ex.parse(text, table.schema)
    assert words in caught.value.message


def test_at_most_ten_categories_are_named():
    schema = read_table(pd.DataFrame({"c": [f"k{i:02}" for i in range(13)]})).schema
    with pytest.raises(ex.GroupSyntaxError, match="'k09' and 3 more") as caught:
        ex.parse("c == 'k1'", schema)
    assert "'k10'" not in caught.value.message.split("categories:")[1]


# ---- meaning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age < 25", [0]),
        ("age <= 25", [0, 1]),
        ("age != 25", [0, 2, 3]),
        ("not (age == 25)", [0, 2, 3, 4]),
        ("age not in (20, 25)", [2, 3]),
        ("not (age in (20, 25))", [2, 3, 4]),
        ("age is missing", [4]),
        ("age is not missing", [0, 1, 2, 3]),
        ("25 <= age < 65", [1, 2]),
        ("sex == 'F'", [0, 2]),
        ("sex != 'F'", [1, 4]),
        ("sex not in ('F',)", [1, 4]),
        ("not (sex == 'F')", [1, 3, 4]),
        ("sex is missing", [3]),
        ("rate == 0.1", [0, 4]),
        ("rate in (0.1, -1.5)", [0, 3, 4]),
        ("member == True", [0, 2, 4]),
        ("`hours per week` > 20 and sex == 'F'", [2]),
        ("`in` == 5 or age < 25", [0, 4]),
        ("grade <= 2", [0, 1, 4]),
        ("grade == 2.0", [1, 4]),
        ("mixed == 1", [0, 3]),
        ("mixed == True", [1]),
        ("mixed == '1'", [2, 4]),
        ("age < 1e300", [0, 1, 2, 3]),
    ],
)
def test_evaluation(table, text, expected):
    assert rows(text, table) == expected


def test_codes_where_is_false_for_missing():
    column = Column("c", "categorical", (1, 2, 5))
    assert ex.codes_where(ex.Compare("c", "!=", 2), column).tolist() == [False, True, False, True]
    assert ex.codes_where(ex.Compare("c", ">", 1), column).tolist() == [False, False, True, True]


# ---- canonical text

names = st.text(min_size=0, max_size=5) | st.sampled_from(
    ["age", "in", "not", "missing", "a`b", "*"]
)
constants = (
    st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
leaves = (
    st.builds(ex.Compare, names, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), constants)
    | st.builds(ex.In, names, st.lists(constants, min_size=1, max_size=3).map(tuple), st.booleans())
    | st.builds(ex.IsMissing, names)
)


def joined(kind, children):
    """Operands of And and Or are flat, as the parser makes them."""
    parts = st.lists(
        children.filter(lambda node: not isinstance(node, kind)), min_size=2, max_size=3
    )
    return parts.map(lambda operands: kind(tuple(operands)))


conditions = st.recursive(
    leaves,
    lambda inner: joined(ex.And, inner) | joined(ex.Or, inner) | st.builds(ex.Not, inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(conditions)
def test_canonical_text_of_a_condition_parses_back(node):
    (factor,) = ex.parse(ex.to_text(node)).factors
    assert factor.condition == node
    # 1 == True and 1 == 1.0 in Python, but the texts tell them apart.
    assert ex.to_text(factor) == ex.to_text(node)


@pytest.mark.slow
@given(
    st.lists(
        st.builds(ex.Column, names) | st.builds(ex.Predicate, conditions), min_size=1, max_size=3
    )
)
def test_canonical_text_of_a_term_parses_back(factors):
    columns = [f for f in factors if isinstance(f, ex.Column)]
    distinct = tuple(f for i, f in enumerate(factors) if f not in columns or f not in factors[:i])
    term = ex.Term(distinct, "")
    assert ex.parse(ex.to_text(term)) == term


@pytest.mark.slow
@given(st.text(max_size=30) | st.text(alphabet="ab1.'\"`\\ ()<>=!*,-notinrmsg", max_size=30))
def test_any_text_gives_a_term_or_a_syntax_error(text):
    try:
        outcome = ex.parse(text)
    except ex.GroupSyntaxError as error:
        outcome = error
    if isinstance(outcome, ex.Term):
        assert ex.parse(ex.to_text(outcome)) == outcome
    else:
        assert 0 <= outcome.position <= len(text)


@pytest.mark.parametrize("text", ["1" * 200_000 + "x", "1." + "1" * 200_000 + "x", "1e" * 100_000])
def test_long_numbers_take_linear_time(text):
    with pytest.raises(ex.GroupSyntaxError):
        ex.parse(f"age < {text}")


@pytest.mark.slow
def test_many_operands_take_linear_time():
    term = ex.parse(" and ".join(["age > 1"] * 50_000))
    assert ex.to_text(term).count("age") == 50_000


WRAPS = ("not {}", "(a == 1 or b == 1 and {})", "(not {})", "a in (1,) and not ({} or b == 1)")


@pytest.mark.parametrize("wrap", WRAPS)
def test_canonical_text_of_deep_terms_can_be_read(wrap):
    """It has brackets that the term was written without."""
    text, read = "age < 1", 0
    for _ in range(60):
        text = wrap.format(text)
        try:
            term = ex.parse(text)
        except ex.GroupSyntaxError:
            break
        assert ex.parse(ex.to_text(term)) == term
        read += 1
    assert read > 10
    with pytest.raises(ex.GroupSyntaxError, match="nested"):
        ex.parse(text)
