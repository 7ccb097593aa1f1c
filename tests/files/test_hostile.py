"""Forged files with a valid checksum: whatever a kernel would follow astray is refused."""

import numpy as np
import pandas as pd
import pytest
from forging import Forgery
from settings import fit_with

import recalibrate as rc
from recalibrate.files import ModelFileError, to_bytes
from recalibrate.files.document import is_plain_name

PLAIN = {"validation": False, "max_rounds": 2}
HUGE = 2**31 - 1


def people(n=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(list("ABCD"), n),
        }
    )
    return X, rng.uniform(0.2, 0.6, n), (rng.random(n) < np.where(X["sex"] == "F", 0.3, 0.6)) * 1.0


@pytest.fixture(scope="module")
def files():
    X, base, y = people()
    models = {
        "trees": fit_with(base, X, y, rc.Trees(depth=3), levels=3, level_kind="uniform", **PLAIN),
        "linear": fit_with(base, X, y, rc.Linear(), levels=3, **PLAIN),
        "polynomial": fit_with(base, X, y, rc.Polynomial(), levels=3, **PLAIN),
        "groups": fit_with(base, X, y, rc.Groups("sex*race", "age"), levels=3, **PLAIN),
        "rounded": fit_with(base, X, y, rc.Groups("sex"), rounded=True, link="identity", **PLAIN),
        "paper": rc.fit(base, X, y, rc.Groups("sex"), alpha=0.02, validation=0.3),
    }
    return {name: to_bytes(model)[0] for name, model in models.items()}


def load(data, tmp_path):
    path = tmp_path / "model.rcal"
    path.write_bytes(data)
    return rc.load(path)


def assert_refused(forged, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        load(forged.seal(), tmp_path)


def test_unchanged_files_load(files, tmp_path):
    X, base, _ = people()
    for data in files.values():
        model = load(Forgery(data).seal(), tmp_path)
        assert np.isfinite(model.predict(X, base=base)).all()


# --- trees --------------------------------------------------------------------------------------

TABLE = ("steps", 0, "table")


def inner_of(forged):
    return int(np.flatnonzero(forged.array(*TABLE, "child") >= 0)[0])


def numeric_of(forged):
    split = (forged.array(*TABLE, "child") >= 0) & (forged.array(*TABLE, "subset") < 0)
    return int(np.flatnonzero(split)[0])


def set_child(value):
    def change(forged):
        child = forged.array(*TABLE, "child")
        at = inner_of(forged)
        child[at] = value(at, child) if callable(value) else value

    return change


def set_at(name, value, place=inner_of):
    def change(forged):
        forged.array(*TABLE, name)[place(forged)] = value

    return change


def split_past_the_first_bin(forged):
    at = numeric_of(forged)
    forged.array(*TABLE, "missing_left")[at] = False
    forged.array(*TABLE, "last_bin")[at] = 0  # wraps around in a packed node


def swap_kinds(forged):
    subset = forged.array(*TABLE, "subset")
    subset[numeric_of(forged)] = 0


def shrink_subsets(forged):
    forged.set_array(forged.array(*TABLE, "subsets")[:, :1], *TABLE, "subsets")


def share_a_child(forged):
    child = forged.array(*TABLE, "child")
    inner = np.flatnonzero(child >= 0)
    child[inner[0]] = child[inner[1]]


def make_a_chain(forged):
    """A valid tree, but so deep that walking it would take as long as the file is large."""
    depth = 500
    count = 2 * depth + 1
    child = np.full(count, -1, np.int32)
    child[np.r_[0, 2 : count - 1 : 2]] = np.arange(1, count - 1, 2)
    roots = forged.array(*TABLE, "roots")
    roots[:] = -1
    roots[0] = 0
    forged.set_array(child, *TABLE, "child")
    forged.set_array(np.where(child >= 0, 0, -1).astype(np.int32), *TABLE, "feature")
    forged.set_array(np.ones(count, np.int32), *TABLE, "last_bin")
    forged.set_array(np.zeros(count, np.bool_), *TABLE, "missing_left")
    forged.set_array(np.full(count, -1, np.int32), *TABLE, "subset")
    for name, dtype in (("value", np.float64), ("rows", np.int64), ("gain", np.float64)):
        forged.set_array(np.zeros(count, dtype), *TABLE, name)


TREE_FAULTS = {
    "a node that is its own child": (set_child(lambda at, child: at), "after their parents"),
    "a circle": (set_child(0), "after their parents"),
    "a child beyond the end": (set_child(HUGE), "after their parents"),
    "a right child beyond the end": (
        set_child(lambda at, child: len(child) - 1),
        "after their parents",
    ),
    "a negative child": (set_child(-2), "after their parents"),
    "two parents": (share_a_child, "two parents"),
    "a chain": (make_a_chain, "deeper than"),
    "a root beyond the end": (set_at("roots", HUGE, lambda f: 0), "root is not a node"),
    "a negative root": (set_at("roots", -5, lambda f: 0), "root is not a node"),
    "a column beyond the last": (set_at("feature", 3), "column that does not exist"),
    "a negative column": (set_at("feature", -1), "column that does not exist"),
    "a set beyond the last": (set_at("subset", HUGE), "set of categories"),
    "a set for a number": (swap_kinds, "set of categories"),
    "sets that are too small": (shrink_subsets, "too small for its column"),
    "a bin beyond the last": (set_at("last_bin", HUGE, numeric_of), "beyond the bins"),
    "a bin before the first": (split_past_the_first_bin, "beyond the bins"),
    "a negative bin": (set_at("last_bin", -1, numeric_of), "beyond the bins"),
    "a NaN value": (set_at("value", np.nan), "finite numbers"),
    "an infinite value": (set_at("value", np.inf), "finite numbers"),
    "a value beyond all scores": (set_at("value", 1e200), "finite numbers"),
    "a NaN gain": (set_at("gain", np.nan), "finite numbers"),
}


@pytest.mark.parametrize("name", TREE_FAULTS)
def test_trees(name, files, tmp_path):
    forged = Forgery(files["trees"])
    change, message = TREE_FAULTS[name]
    change(forged)
    assert_refused(forged, message, tmp_path)


@pytest.mark.parametrize("name", ["feature", "value", "rows", "subset", "child"])
def test_nodes_are_described_alike(name, files, tmp_path):
    forged = Forgery(files["trees"])
    forged.set_array(forged.array(*TABLE, name)[:-1], *TABLE, name)
    assert_refused(forged, "described alike|after their parents|root is not", tmp_path)


def test_there_is_a_root_for_every_level_set(files, tmp_path):
    forged = Forgery(files["trees"])
    forged.set_array(forged.array(*TABLE, "roots")[:-1], *TABLE, "roots")
    assert_refused(forged, "roots for", tmp_path)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint8])
def test_arrays_have_the_type_that_kernels_expect(dtype, files, tmp_path):
    forged = Forgery(files["trees"])
    forged.set_array(forged.array(*TABLE, "child").astype(dtype), *TABLE, "child")
    assert_refused(forged, r"child must be 1-d array of int32", tmp_path)


# --- bins, terms, groups ------------------------------------------------------------------------


def feature(forged, k):
    return forged.model["encoders"][0]["features"][k]


@pytest.mark.parametrize("edges", [[np.nan, 1], [2, 1], [1, 1], [1, np.nan]], ids=str)
def test_edges_ascend(edges, files, tmp_path):
    forged = Forgery(files["trees"])
    forged.arrays[feature(forged, 0)["edges"]] = np.array(edges, np.float32)
    assert_refused(forged, "edges must be numbers that ascend", tmp_path)


@pytest.mark.parametrize(
    "lookup", [[0, 1], [0, 1, -1], [0, 1, HUGE], [1, 1, 2], [0, 1, 2, 3]], ids=str
)
def test_bins_fit_their_categories(lookup, files, tmp_path):
    forged = Forgery(files["trees"])
    forged.arrays[feature(forged, 1)["lookup"]] = np.array(lookup, np.int32)
    assert_refused(forged, "do not fit its categories", tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "income", "no column 'income'"),
        ("name", 5, "must be a text"),
        ("exact", 1, "true or false"),
        ("lookup", None, "is categorical, its bins are not|belong to nothing"),
        ("edges", 10**6, "number of an array"),
        ("edges", -1, "number of an array"),
        ("edges", 0.0, "number of an array"),
        ("edges", None, "number of an array"),
        ("edges", 1, "for a second time|must be 1-d array"),
    ],
)
def test_features(key, value, message, files, tmp_path):
    forged = Forgery(files["trees"])
    feature(forged, 1)[key] = value
    assert_refused(forged, message, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "value"}, "no values that can be scaled"),
        ({"kind": "text"}, "must be one of"),
        ({"category": 99}, "no category 99"),
        ({"category": 0}, "no category 0"),
        ({"category": -1}, "whole number"),
        ({"centre": "nan"}, "must be a number from"),
        ({"factor": "inf"}, "must be a number from"),
        ({"factor": True}, "must be a number"),
        ({"name": "income"}, "no column 'income'"),
    ],
    ids=str,
)
def test_terms(changes, message, files, tmp_path):
    forged = Forgery(files["linear"])
    terms = forged.model["encoders"][0]["terms"]
    next(term for term in terms if term["kind"] == "category").update(changes)
    assert_refused(forged, message, tmp_path)


def test_a_scale_of_zero(files, tmp_path):
    forged = Forgery(files["linear"])
    terms = forged.model["encoders"][0]["terms"]
    next(term for term in terms if term["kind"] == "value")["factor"] = 0.0
    assert_refused(forged, "no values that can be scaled", tmp_path)


PRODUCTS = "encoders", 0, "products"


def test_products(files, tmp_path):
    """Factors of a product come before it; the constant, column 0, is none."""
    terms = len(Forgery(files["polynomial"]).model["encoders"][0]["linear"]["terms"])
    for wrong in (-1, 0, terms, 100):
        forged = Forgery(files["polynomial"])
        forged.array(*PRODUCTS)[0, 1] = wrong
        assert_refused(forged, "does not come before it", tmp_path)
    for shape, message in (
        ((2, 3), "products are of two"),
        ((400, 2), "at most 300 columns"),
        ((0, 2), "one coefficient per term"),
    ):
        forged = Forgery(files["polynomial"])
        forged.set_array(np.ones(shape, np.int32), *PRODUCTS)
        assert_refused(forged, message, tmp_path)


@pytest.mark.parametrize("kind", ["linear", "polynomial", "groups"])
def test_coefficients(kind, files, tmp_path):
    for value in (np.nan, np.inf, 1e200):
        forged = Forgery(files[kind])
        forged.array(*TABLE, "coefficient")[0, 0] = value
        assert_refused(forged, "finite numbers", tmp_path)
    forged = Forgery(files[kind])
    forged.set_array(forged.array(*TABLE, "coefficient")[:, :-1], *TABLE, "coefficient")
    assert_refused(forged, "one coefficient per term|no coefficient", tmp_path)
    forged = Forgery(files[kind])
    forged.set_array(forged.array(*TABLE, "present")[:-1], *TABLE, "present")
    assert_refused(forged, "level sets", tmp_path)
    forged = Forgery(files[kind])
    forged.model["steps"][0]["table"]["limit"] = "nan"
    assert_refused(forged, "limit must be a number", tmp_path)


@pytest.mark.parametrize("name", ["columns", "offsets"])
@pytest.mark.parametrize("value", [-1, 2, 10**6, 2**62, -(2**63)])
def test_terms_of_groups(name, value, files, tmp_path):
    forged = Forgery(files["groups"])
    array = forged.array(*TABLE, name)
    array[-1 if name == "columns" else 0] = value
    if (name, value) == ("offsets", 2):
        assert load(forged.seal(), tmp_path)  # other numbers, but all of them are there
    else:
        assert_refused(forged, "term does not exist|no coefficient", tmp_path)


@pytest.mark.parametrize(
    "text", ["income", "sex *", "__import__('os')", "(" * 5000 + "sex" + ")" * 5000, "", 5, None]
)
def test_expressions_are_parsed_and_never_evaluated(text, files, tmp_path):
    forged = Forgery(files["groups"])
    forged.model["encoders"][0]["groups"]["terms"][0]["text"] = text
    assert_refused(forged, None, tmp_path)


@pytest.mark.parametrize(
    "cells", [[[99, 1]], [[0, 1]], [[1, 1], [1, 1]], [[1]], [], "x", [[1, 2.5]]]
)
def test_cells_of_groups(cells, files, tmp_path):
    forged = Forgery(files["groups"])
    forged.model["encoders"][0]["groups"]["terms"][0]["cells"] = cells
    assert_refused(forged, None, tmp_path)


def test_groups_take_columns_for_what_they_are(files, tmp_path):
    forged = Forgery(files["groups"])
    sex = next(c for c in forged.model["schema"]["columns"] if c["name"] == "sex")
    sex.update(kind="numeric", categories=[])
    assert_refused(forged, "take column 'sex' for categorical", tmp_path)


def test_numbers_have_no_categories(files, tmp_path):
    """They would be found in a prediction only."""
    forged = Forgery(files["trees"])
    number = next(c for c in forged.model["schema"]["columns"] if c["kind"] == "numeric")
    number["categories"] = [["str", "a"]]
    assert_refused(forged, "is numeric, with categories", tmp_path)


# --- levels and steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("thresholds", [[np.nan, 1], [1, np.nan], [1, 0.5], [0, np.inf]], ids=str)
def test_thresholds(thresholds, files, tmp_path):
    forged = Forgery(files["trees"])
    forged.array("levels", forged.model["steps"][0]["partition"], "thresholds")[:2] = thresholds
    assert_refused(forged, "finite and ascend", tmp_path)


def test_grids(files, tmp_path):
    forged = Forgery(files["rounded"])
    start = forged.model["start"]
    forged.array("levels", start, "values")[0] = np.nan
    assert_refused(forged, "finite value per level", tmp_path)
    forged = Forgery(files["rounded"])
    forged.set_array(forged.array("levels", start, "values")[:-1], "levels", start, "values")
    assert_refused(forged, "finite value per level", tmp_path)
    forged = Forgery(files["rounded"])
    assert forged.model["levels"][start]["steps"] > 0
    forged.array("levels", start, "thresholds")[:] = 0.5
    assert_refused(forged, "uniform grid only", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition": 99}, "whole number from"),
        ({"partition": -1}, "whole number from"),
        ({"partition": None}, "has to draw"),
        ({"encoder": 1}, "there is no encoder 1"),
        ({"encoder": True}, "whole number"),
        ({"replace": 1}, "true or false"),
        ({"more": 1}, "unknown fields"),
        ({"table": {"kind": "pickle"}}, "must be one of"),
        ({"table": {"kind": "linear"}}, "has no field"),
        ({"table": None}, "must be an object"),
        ({"grid": 0}, "without values"),
    ],
    ids=str,
)
def test_steps(changes, message, files, tmp_path):
    forged = Forgery(files["trees"])
    forged.model["steps"][0].update(changes)
    assert_refused(forged, message, tmp_path)


def test_a_table_for_another_encoder(files, tmp_path):
    forged = Forgery(files["trees"])
    linear = Forgery(files["linear"])
    table = forged.model["steps"][0]["table"] = dict(linear.model["steps"][0]["table"])
    for name in ("present", "coefficient"):
        forged.arrays.append(linear.arrays[table[name]])
        table[name] = len(forged.arrays) - 1
    assert_refused(forged, "linear cannot work on what a Bins makes", tmp_path)


def test_a_table_for_another_number_of_level_sets(files, tmp_path):
    forged = Forgery(files["rounded"])
    forged.model["levels"].append({"thresholds": len(forged.arrays), "values": None, "steps": 0})
    forged.arrays.append(np.array([0.1, 0.2]))
    forged.model["steps"][0]["partition"] = len(forged.model["levels"]) - 1
    assert_refused(forged, "not for 3 level sets", tmp_path)


def test_arrays_that_belong_to_nothing(files, tmp_path):
    forged = Forgery(files["trees"])
    forged.arrays.append(np.zeros(3))
    assert_refused(forged, "belong to nothing", tmp_path)


# --- records ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("labels", {"low": 1.0, "high": 0.0}, "no range"),
        ("labels", {"low": "nan"}, "no range"),
        ("labels", {"high": "inf"}, "no range"),
        ("labels", {"low": -1.0}, "lie between 0 and 1"),
        ("labels", {"kind": "other"}, "must be one of"),
        ("settings", {"levels": 0}, "whole number"),
        ("settings", {"seed": "0x10"}, "must be a whole number of at most 100 digits"),
        ("settings", {"seed": "9" * 5000}, "must be a whole number of at most 100 digits"),
        ("settings", {"step": [1]}, "must be a number"),
        ("history", {"errors": [None]}, "must be a number"),
        ("history", {"errors": "abc"}, "list of numbers"),
        ("history", {"stopped": "lunch"}, "must be one of"),
        ("certificate", {"rounds": 10**6}, "no errors of 1000000 rounds"),
        ("certificate", {"errors": []}, "no errors"),
        ("certificate", {"B": 0.0}, "must be positive"),
        ("certificate", {"groups": ["a"]}, "every group needs its share"),
        ("H", {"kind": "trees"}, "has no field"),
        ("H", {"terms": [1]}, "list of texts"),
        ("H", {"min_rows": 0}, "whole number"),
        ("base", {"kind": "pickle"}, "must be one of"),
        ("base", {"link": "probit"}, "must be one of"),
        ("base", {"name": "x" * (1 << 17)}, "must be a text"),
        ("schema", {"named": "yes"}, "Not a saved schema"),
        ("schema", {"columns": 5}, "Not a saved schema"),
    ],
    ids=str,
)
def test_records(part, changes, message, files, tmp_path):
    forged = Forgery(files["paper"])
    forged.model[part].update(changes)
    assert_refused(forged, message, tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("link", "probit"), ("clip", 0), ("notes", "abc"), ("notes", [1]), ("levels", {}),
     ("own_table", 1), ("n_rows", -1), ("start", 99), ("steps", None), ("encoders", 3),
     ("more", 1)],
)  # fmt: skip
def test_the_model_itself(key, value, files, tmp_path):
    forged = Forgery(files["paper"])
    forged.model[key] = value
    assert_refused(forged, None, tmp_path)
    if key != "more":
        del forged.model[key]
        assert_refused(forged, f"has no field '{key}'", tmp_path)


# --- references ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../model.json", "/etc/passwd", "a/b.json", "..", ".", "", " ", "C:x.json", "\\\\host\\x.json",
     "a\\b.json", "a\0.json", "a\n.json", "x" * 300, "file:///etc/passwd"],
)  # fmt: skip
def test_references_are_plain_names(name, files, tmp_path):
    assert not is_plain_name(name)
    forged = Forgery(files["trees"])
    forged.model["base"] = {
        "kind": "file", "file": name, "size": 1, "sha256": "0" * 64,
        "link": "identity", "name": "a", "columns": None,
    }  # fmt: skip
    assert_refused(forged, "must be the plain name of a file", tmp_path)


def test_models_inside_of_models_have_an_end(files, tmp_path):
    forged = Forgery(files["trees"])
    innermost = {"kind": "constant", "link": "identity", "value": 0.5}
    chain = {**forged.model, "base": innermost, "steps": [], "encoders": [], "levels": []}
    chain["settings"] = {**chain["settings"], "grid": None}
    for _ in range(40):
        chain = {**chain, "base": {"kind": "model", "model": chain}}
    forged.arrays = []
    forged.header["model"] = {**chain, "base": {"kind": "model", "model": chain}}
    with pytest.raises(ModelFileError, match="nested deeper"):
        load(forged.seal(), tmp_path)
