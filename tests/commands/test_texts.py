"""Short texts become classes, groups and names, and nothing is evaluated."""

import re

import pytest

from recalibrate import Groups, Linear, Polynomial, Trees
from recalibrate.commands.options import read_class, read_groups, read_names
from recalibrate.core.kinds import split_commas


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trees", Trees()),
        (" Trees() ", Trees()),
        ("trees(depth=3)", Trees(depth=3)),
        ("trees(depth=1, features=[age, 'the sex'])", Trees(depth=1, features=["age", "the sex"])),
        ("trees(features=[`a, b`])", Trees(features=["a, b"])),
        ("trees(bins=exact, base_score=True)", Trees(bins="exact", base_score=True)),
        ("trees(leaves=None)", Trees()),
        ("linear", Linear()),
        ("linear(ridge=.5)", Linear(ridge=0.5)),
        ("polynomial", Polynomial()),
        ("polynomial(age, `the hours`, degree=3)", Polynomial(["age", "the hours"], 3)),
        ("polynomial(features=[age], base_score=True)", Polynomial(["age"], base_score=True)),
        ("groups(sex)", Groups("sex")),
        (
            "groups(sex, race*sex, age < 25, min_rows=100)",
            Groups("sex", "race*sex", "age < 25", min_rows=100),
        ),
        (
            "groups(race in ('a, b', \"c)\") and not (age == 3), `x,y`)",
            Groups("race in ('a, b', \"c)\") and not (age == 3)", "`x,y`"),
        ),
    ],
)
def test_classes(text, expected):
    assert read_class(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forest", "no class 'forest'"),
        ("trees(depth)", "write name=value"),
        ("trees(dept=2)", "write name=value with one of 'depth'"),
        ("trees(depth=2", "not a class of functions"),
        ("trees(features=[age)", "closing ] is missing"),
        ("trees(depth=2,,leaves=3)", "nothing stands between two commas"),
        ("trees(depth={1: 2})", "cannot read the value"),
        ("trees(depth=2, depth=3)", "depth is given twice"),
        ("trees(depth=__import__('os').system('true'))", None),
        ("polynomial(age, features=[sex])", "features is given twice"),
        ("polynomial(grade=2)", "write name=value with one of 'features', 'degree'"),
        ("groups()", "names no group"),
        ("groups(min_rows=3)", "names no group"),
        ("groups('sex)", "closing ' is missing"),
        ("estimator(Ridge())", "needs Python"),
        ("", "not a class of functions"),
    ],
)
def test_what_cannot_be_read(text, message):
    if message is None:  # a text is a text, even if it looks like code
        assert isinstance(read_class(text).depth, str)
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        read_class(text)


@pytest.mark.parametrize("text", ["sex, age < 25", "groups(sex, age < 25)"])
def test_groups_with_and_without_their_name(text):
    assert read_groups(text) == Groups("sex", "age < 25")


def test_a_condition_in_brackets_is_no_call():
    assert read_groups("(sex == 'F' or age < 25)") == Groups("(sex == 'F' or age < 25)")


def test_escaped_quotes_do_not_end_a_text():
    assert split_commas(r"name == 'it\'s, here', sex") == [r"name == 'it\'s, here'", "sex"]


def test_names():
    assert read_names(["a,b", "c", " a "], ["a"]) == ["a", "b", "c"]
    assert read_names(["a,b"], ["a,b"]) == ["a,b"]
    assert read_names([], ["a"]) == []


def test_a_backslash_before_the_closing_quote_of_a_text():
    """Two backslashes are one that stands for itself: the text ends."""
    from recalibrate.core.kinds import split_commas

    assert split_commas(r"race == 'a\\', sex") == [r"race == 'a\\'", "sex"]
    assert split_commas(r"race == 'a\', sex'") == [r"race == 'a\', sex'"]


def test_intervals_of_reports_are_not_cut_at_their_comma():
    assert split_commas("AGEP in [44, 57), SEX = 1") == ["AGEP in [44, 57)", "SEX = 1"]
    with pytest.raises(ValueError, match="closing ]"):
        split_commas("features=[a, b")
