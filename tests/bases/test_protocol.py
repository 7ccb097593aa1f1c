import functools
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recalibrate as rc
from recalibrate.scores import (
    Base,
    CallableBase,
    ScoreColumn,
    as_base,
    predicted_mean,
    sigmoid,
)

X = np.arange(6.0).reshape(3, 2)


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scores",
    [
        [0.1, 0.2, 0.3],
        (0.1, 0.2, 0.3),
        np.array([0.1, 0.2, 0.3]),
        np.array([[0.1], [0.2], [0.3]]),
        pd.Series([0.1, 0.2, 0.3], index=[7, 8, 9]),
        pd.Series([0.1, 0.2, 0.3], dtype="Float64"),
        pd.DataFrame({"score": [0.1, 0.2, 0.3]}),
    ],
    ids=["list", "tuple", "array", "column vector", "series", "nullable", "frame"],
)
def test_arrays_become_a_score_column(scores):
    base = as_base(scores)
    assert isinstance(base, ScoreColumn)
    assert isinstance(base, Base)
    assert base.values.dtype == np.float64
    assert base.values.tolist() == [0.1, 0.2, 0.3]
    assert base.link == "identity"
    assert base.columns() == ()


def test_score_column_keeps_the_link_and_takes_any_scale():
    base = as_base([-3.0, 8.0], link="logit")
    assert base.link == "logit"
    assert base.values.tolist() == [-3.0, 8.0]


def test_score_column_does_not_follow_changes_of_the_array():
    scores = np.array([0.1, 0.2])
    base = as_base(scores)
    scores[0] = 9.0
    assert base.values[0] == 0.1


def test_score_column_cannot_score_new_rows_and_has_no_graph():
    base = as_base([0.1, 0.2])
    with pytest.raises(ValueError, match="pass them as base="):
        base.scores(X)
    assert base.graph() is None
    assert "scores as an input" in base.why_no_graph


def test_bad_arrays():
    with pytest.raises(ValueError, match=r"\[:, 1\]"):
        as_base(np.ones((3, 2)))
    with pytest.raises(ValueError, match="missing or infinite"):
        as_base([0.1, np.nan])
    with pytest.raises(ValueError, match="no rows"):
        as_base([])


# --- callables ----------------------------------------------------------------------------------


def first_column(X):
    return X[:, 0]


@pytest.mark.parametrize(
    "function",
    [
        first_column,
        lambda X: X[:, :1],
        lambda X: list(X[:, 0]),
        lambda X: pd.Series(X[:, 0]),
        functools.partial(np.take, indices=0, axis=1),
    ],
    ids=["function", "column vector", "list", "series", "partial"],
)
def test_callables_are_wrapped(function):
    base = as_base(function)
    assert isinstance(base, CallableBase)
    assert isinstance(base, Base)
    assert base.scores(X).tolist() == [0.0, 2.0, 4.0]
    assert base.scores(X).dtype == np.float64
    assert base.columns() is None
    assert base.graph() is None
    assert "callable" in base.why_no_graph


def test_callable_object_and_bound_method():
    class Model:
        def __call__(self, X):
            return X[:, 0]

    assert as_base(Model()).scores(X).tolist() == [0.0, 2.0, 4.0]
    assert as_base(Model().__call__).scores(X).tolist() == [0.0, 2.0, 4.0]


def test_callables_have_readable_names():
    assert as_base(first_column).name == "callable first_column"
    assert as_base(functools.partial(first_column)).name == "callable first_column"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: np.ones((len(X), 2)), r"\[:, 1\]"),
        (lambda X: np.ones(len(X) + 1), "4 entries, but X has 3 rows"),
        (lambda X: np.full(len(X), np.inf), "missing or infinite"),
        (lambda X: ["yes"] * len(X), "text"),
        (lambda X: None, "1-d"),
        (lambda X: 0.5, "1-d"),
    ],
    ids=["two columns", "length", "infinite", "text", "none", "number"],
)
def test_what_a_callable_returns_is_checked(function, message):
    with pytest.raises(ValueError, match=f"The base model .*<lambda>.*{message}"):
        as_base(function).scores(X)


def test_errors_inside_a_callable_are_its_own():
    def fails(X):
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        as_base(fails).scores(X)


def test_rows_are_not_counted_where_x_is_not_a_table():
    both = as_base(lambda pair: pair[0] + pair[1])
    assert both.scores((np.ones(5), np.ones(5))).tolist() == [2.0] * 5
    assert as_base(lambda X: [0.5] * len(X)).scores([[1], [2]]).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="2 rows"):
        as_base(lambda X: [0.5]).scores([[1], [2]])


# --- links --------------------------------------------------------------------------------------


def test_predicted_mean_undoes_the_link():
    margins = np.array([-2.0, 0.0, 3.0])
    identity, logit = as_base(lambda X: margins), as_base(lambda X: margins, link="logit")
    np.testing.assert_array_equal(predicted_mean(identity, X), margins)
    # Two formulas of one number: the last bits may differ.
    np.testing.assert_allclose(predicted_mean(logit, X), 1 / (1 + np.exp(-margins)), rtol=1e-15)


@pytest.mark.slow
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_sigmoid_is_a_monotone_map_into_the_unit_interval(margins):
    ordered = np.sort(np.array(margins))
    values = sigmoid(ordered)
    assert ((values >= 0.0) & (values <= 1.0)).all()
    assert (np.diff(values) >= 0.0).all()
    # Rounding of 1 + small differs between the two signs, hence not exactly 1.
    np.testing.assert_allclose(values + sigmoid(-ordered), 1.0, rtol=1e-15)


@pytest.mark.parametrize("link", ["probit", "", 1])
def test_unknown_link(link):
    with pytest.raises(ValueError, match='link must be "identity", "logit", "log" or None'):
        as_base([0.1], link=link)


# --- what is not a model ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (None, "is None"),
        (0.5, "single number 0.5"),
        (np.float64(0.5), "single number"),
        (True, "single number True"),
        (dict, "class dict itself"),
    ],
)
def test_likely_mistakes_get_advice(thing, message):
    with pytest.raises(TypeError, match=message):
        as_base(thing)


def test_target_class_needs_a_model_with_classes():
    for model, what in [([0.1], "array of scores"), (first_column, "callable")]:
        with pytest.raises(ValueError, match=f"target_class='red'.*{what}"):
            as_base(model, target_class="red")
    with pytest.raises(ValueError, match="base that was made already"):
        as_base(as_base(first_column), target_class=1)


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["no_such_model.json", Path("no_such_model.json")])
def test_missing_file_lists_the_suffixes(site, path):
    with pytest.raises(FileNotFoundError, match=r"'no_such_model\.json'.*no such file.*\.fake"):
        as_base(path)


def test_folder_is_not_a_model_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        as_base(tmp_path)


def test_unknown_suffix_lists_the_known_ones(site, tmp_path):
    path = tmp_path / "model.pickle"
    path.touch()
    with pytest.raises(ValueError, match=r"model\.pickle.*'\.pickle'.*\.fake"):
        as_base(str(path))


@pytest.mark.parametrize("name", ["model.fake", "MODEL.FAKE", "my.model.fake"])
@pytest.mark.parametrize("kind", [str, Path])
def test_file_goes_to_the_reader_of_its_suffix(site, tmp_path, name, kind):
    path = tmp_path / name
    path.touch()
    base = as_base(kind(path), link="logit")
    assert base.model == path
    assert base.link == "logit"
    assert "fake_adapter_two" not in sys.modules


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_go_to_the_reader_of_onnx(monkeypatch, kind):
    seen = []

    class Entry:
        name, value, dist = "onnx", "a_test:read", None

        @staticmethod
        def load():
            return lambda content, **options: seen.append((content, options)) or as_base([0.5])

    monkeypatch.setattr(
        "recalibrate.bases.protocol.find_reader",
        lambda suffix: Entry if suffix == ".onnx" else None,
    )
    as_base(kind(b"model"), target_class=3)
    assert seen == [(b"model", {"target_class": 3})]


# --- unknown models -----------------------------------------------------------------------------


def test_unknown_model_lists_adapters_and_ways_out():
    class Model:
        def predict(self, X):
            return X[:, 0]

        def __call__(self, X):
            return X[:, 0]

    with pytest.raises(TypeError, match="Model") as caught:
        as_base(Model())
    assert "Adapters present:" in str(caught.value)
    assert "predict_proba(X)[:, 1]" in str(caught.value)


def test_a_base_is_taken_as_it_is():
    base = as_base(first_column, link="logit")
    assert as_base(base) is base
    assert as_base(base, link="logit") is base
    with pytest.raises(ValueError, match="link='identity' was given"):
        as_base(base, link="identity")


def test_an_object_may_say_how_it_is_a_base():
    class Model:
        def as_base(self):
            return as_base(first_column, link="logit")

    assert as_base(Model()).link == "logit"
    assert as_base(Model()).scores(X).tolist() == [0.0, 2.0, 4.0]


# --- adapters -----------------------------------------------------------------------------------

FRAMEWORK = """
class Model:
    def predict(self, X):
        return X

class CallableModel:
    def __call__(self, X):
        return X
"""

ADAPTER = """
import numpy as np

class Wrapped:
    name, why_no_graph, exact = "wrapped by {name}", "a test", False

    def __init__(self, model, link="identity", target_class=None):
        self.model, self.link, self.target_class = model, link, target_class

    def columns(self):
        return None

    def scores(self, X):
        return np.asarray(X, dtype=np.float64)

    def graph(self):
        return None

def incomplete(model):
    return object()
"""


def install(folder, dist, adapters, files):
    """Write a distribution that registers adapters into a folder."""
    info = folder / f"{dist}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in adapters.items()]
    readers = ["[recalibrate.model_files]", f"fake = {next(iter(adapters.values()))}"]
    text = "\n".join(["[recalibrate.adapters]", *lines, *readers])
    (info / "entry_points.txt").write_text(text + "\n")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on sys.path with two frameworks and adapters for them."""
    install(
        tmp_path,
        "fake_adapters",
        {
            "fakeframe": "fake_adapter_one:Wrapped",
            "otherframe": "fake_adapter_two:Wrapped",
            "brokenframe": "fake_adapter_missing:Wrapped",
            "poorframe": "fake_adapter_one:incomplete",
        },
        {
            "fakeframe": FRAMEWORK,
            "otherframe": "from fakeframe import Model\nclass Sub(Model):\n    pass\n",
            "brokenframe": FRAMEWORK,
            "poorframe": FRAMEWORK,
            "fake_adapter_one": ADAPTER.format(name="one"),
            "fake_adapter_two": ADAPTER.format(name="two"),
        },
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_adapter_is_found_by_the_root_module(site):
    import fakeframe

    model = fakeframe.Model()
    base = as_base(model)
    assert base.name == "wrapped by one"
    assert base.model is model
    assert base.link == "identity"
    assert base.scores([1, 2]).tolist() == [1.0, 2.0]


def test_link_and_class_are_passed_to_the_adapter(site):
    import fakeframe

    base = as_base(fakeframe.Model(), link="logit", target_class="red")
    assert base.link == "logit"
    assert base.target_class == "red"


def test_only_the_matching_adapter_is_loaded(site):
    import fakeframe

    as_base(fakeframe.Model())
    assert "fake_adapter_one" in sys.modules
    assert "fake_adapter_two" not in sys.modules


def test_the_most_specific_class_decides(site):
    import otherframe

    assert as_base(otherframe.Sub()).name == "wrapped by two"


def test_subclasses_of_users_find_the_framework(site):
    import fakeframe

    class Mine(fakeframe.Model):
        pass

    assert as_base(Mine()).name == "wrapped by one"


def test_adapters_come_before_callables(site):
    import fakeframe

    assert as_base(fakeframe.CallableModel()).name == "wrapped by one"


def test_adapter_that_cannot_be_loaded_is_named(site):
    import brokenframe

    with pytest.raises(ImportError, match=r"'brokenframe' .*fake_adapter_missing.*fake_adapters"):
        as_base(brokenframe.Model())


def test_adapter_without_the_interface_is_named(site):
    import poorframe

    with pytest.raises(TypeError, match=r"'poorframe' .*fault of the adapter"):
        as_base(poorframe.Model())


def test_installed_adapters_are_listed_for_unknown_models(site):
    class Model:
        def predict(self, X):
            return X

    with pytest.raises(TypeError, match=r"brokenframe.*fakeframe.*otherframe"):
        as_base(Model())


def test_two_distributions_for_one_framework_are_an_error(site, tmp_path, monkeypatch):
    second = tmp_path / "second"
    install(second, "rival", {"fakeframe": "rival_adapter:Wrapped"}, {"rival_adapter": ADAPTER})
    monkeypatch.syspath_prepend(second)
    import fakeframe

    with pytest.raises(TypeError, match=r"Several installed packages .*fake_adapters.*rival"):
        as_base(fakeframe.Model())


def test_looking_for_adapters_imports_none(site):
    code = (
        "import sys, recalibrate.bases.protocol as s; s.as_base(len); "
        "print([m for m in sys.modules if m.startswith(('fake', 'recalibrate_adapters'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


class Oracle:
    """A model of a framework that no adapter knows."""

    def __init__(self, values, **attributes):
        self.values = values
        vars(self).update(attributes)

    def predict(self, X):
        raise AssertionError("predict gives labels, which are no scores")

    def predict_proba(self, X):
        return self.values[: len(X)]


class TestObjectsWithProbabilities:
    """An object with predict_proba needs no adapter."""

    rows = np.zeros((4, 2))
    two = np.column_stack([[0.9, 0.6, 0.3, 0.2], [0.1, 0.4, 0.7, 0.8]])

    def test_arrays_and_frames(self):
        frame = pd.DataFrame(self.two, columns=["no", "yes"])
        for values in (self.two, frame, self.two[:, 1]):
            base = as_base(Oracle(values))
            np.testing.assert_array_equal(base.scores(self.rows), self.two[:, 1])
            assert isinstance(base, Base)
            assert base.graph() is None
        assert base.classes is None
        named = as_base(Oracle(frame), target_class="no")
        np.testing.assert_array_equal(named.scores(self.rows), self.two[:, 0])
        assert named.classes == ("no", "yes")

    @pytest.mark.parametrize("attribute", ["classes_", "class_labels"])
    def test_classes_that_the_model_tells(self, attribute):
        base = as_base(Oracle(self.two, **{attribute: ["b", "a"]}), target_class="b")
        assert base.classes == ("b", "a")
        np.testing.assert_array_equal(base.scores(self.rows), self.two[:, 0])
        with pytest.raises(ValueError, match=r"target_class='c' is not a class of .*Oracle"):
            as_base(Oracle(self.two, classes_=["b", "a"]), target_class="c").scores(self.rows)

    def test_several_classes(self):
        three = np.full((4, 3), 1 / 3)
        np.testing.assert_array_equal(as_base(Oracle(three)).scores(self.rows), three)

    @pytest.mark.parametrize("positive", [None, "no", "yes"])
    @pytest.mark.parametrize("told", ["classes_", "columns"])
    def test_scores_are_about_the_positive_label(self, positive, told):
        rng = np.random.default_rng(0)
        p = rng.uniform(0.1, 0.9, 2000)
        y = np.where(rng.random(2000) < p, "yes", "no")
        both = np.column_stack([1 - p, p])
        oracle = (
            Oracle(both, classes_=["no", "yes"])
            if told == "classes_"
            else Oracle(pd.DataFrame(both, columns=["no", "yes"]))
        )
        X = pd.DataFrame({"sex": rng.choice(["F", "M"], 2000)})
        model = rc.fit(oracle, X, y, ["sex"], positive=positive)
        expected = 1 - p if positive == "no" else p
        np.testing.assert_allclose(model.predict(X), expected, atol=0.1)

    def test_the_event_of_unnamed_columns_has_to_be_named(self):
        rng = np.random.default_rng(0)
        p = rng.uniform(0.1, 0.9, 1000)
        y = np.where(rng.random(1000) < p, "bad", "good")
        X = pd.DataFrame({"sex": rng.choice(["F", "M"], 1000)})
        oracle = Oracle(np.column_stack([1 - p, p]))
        with pytest.raises(ValueError, match="positive="):
            rc.fit(oracle, X, y, ["sex"])
        model = rc.fit(oracle, X, y, ["sex"], positive="bad")
        np.testing.assert_allclose(model.predict(X), p, atol=0.1)

    def test_what_is_wrong_is_said(self):
        with pytest.raises(ValueError, match=r"predict_proba of .*Oracle: .*probabilities"):
            as_base(Oracle(np.full(4, 2.0))).scores(self.rows)
        with pytest.raises(ValueError, match="Leave the link out"):
            as_base(Oracle(self.two), link="logit")
        with pytest.raises(TypeError, match=r"no predict_proba.*for a regression: model.predict"):
            as_base(type("Model", (), {"predict": lambda self, X: X})())
