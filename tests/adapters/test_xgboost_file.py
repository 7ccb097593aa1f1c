"""Damaged xgboost files are refused before xgboost, which may end the process, sees them."""

import copy
import json
import struct

import numpy as np
import pandas as pd
import pytest
from recalibrate_adapters.filechecks import read_base
from recalibrate_adapters.xgboost import check_model, parse

from recalibrate.bases.protocol import as_base
from recalibrate.support.checks import ModelFileError

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.adapter


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    letters = pd.Categorical(rng.choice(list("xyz"), 300))
    return pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "c": letters})


@pytest.fixture(scope="module")
def model(rows):
    y = (rows["a"] + (rows["c"] == "x") > 0.3).astype(int)
    settings = {"n_estimators": 3, "max_depth": 3, "enable_categorical": True}
    return xgboost.XGBClassifier(**settings, max_cat_to_onehot=1).fit(rows, y)


@pytest.fixture(scope="module")
def plain(model):
    return json.loads(bytes(model.get_booster().save_raw("json")))


def several(rows):
    X, y = rows[["a", "b"]], (rows["a"] > 0).astype(int)
    one = {"n_estimators": 3}
    return [
        xgboost.XGBClassifier(**one, tree_method="exact", gamma=2).fit(X, y),
        xgboost.XGBClassifier(**one).fit(X, (rows["a"] > 0) * 1 + (rows["b"] > 0)),
        xgboost.XGBRegressor(**one, multi_strategy="multi_output_tree").fit(X, X),
        xgboost.XGBRegressor(**one, booster="dart", rate_drop=0.5).fit(X, y),
        xgboost.XGBRegressor(**one, booster="gblinear").fit(X, y),
        xgboost.XGBRegressor(**one, objective="reg:quantileerror", quantile_alpha=[0.2, 0.5]).fit(
            X, y
        ),
        xgboost.XGBRFClassifier(**one).fit(X, y),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of xgboost, about its linear booster
def test_sound_files_are_read_as_they_are(rows, model):
    for own in [model, *several(rows)]:
        booster = own.get_booster()
        expected = bytes(booster.save_raw("json"))
        for kind in ("json", "ubj"):
            again = xgboost.Booster(model_file=check_model(bytes(booster.save_raw(kind))))
            assert bytes(again.save_raw("json")) == expected


def trees(model):
    return model["learner"]["gradient_booster"]["model"]


def tree(model):
    return trees(model)["trees"][0]


def test_files_of_older_versions_are_read(rows, model, plain):
    """NaN as threshold of a set of categories (before 3.0), no sums of vector leaves (3.2)."""
    older = copy.deepcopy(plain)
    for each in trees(older)["trees"]:
        for node in each["categories_nodes"]:
            each["split_conditions"][node] = float("nan")
    checked = check_model(json.dumps(older).encode())
    base, now = (as_base(xgboost.Booster(model_file=bytearray(c))) for c in (checked, raw(model)))
    np.testing.assert_array_equal(base.scores(rows), now.scores(rows))
    vector = xgboost.XGBRegressor(n_estimators=2, multi_strategy="multi_output_tree")
    older = json.loads(raw(vector.fit(rows[["a", "b"]], rows[["a", "b"]])))
    for each in trees(older)["trees"]:
        each.pop("loss_changes", None)
        each.pop("sum_hessian", None)
    check_model(json.dumps(older).encode())


def raw(model):
    return bytes(model.get_booster().save_raw("json"))


def set_split(node):
    """A number in the place of the children of the root."""

    def change(model):
        tree(model)["left_children"][0] = node

    return change


def put(place, key, value):
    def change(model):
        place(model)[key] = value

    return change


def facts(model):
    return model["learner"]["learner_model_param"]


FAULTS = {
    "a child beyond the end": (set_split(999), "a child: 999"),
    "a circle": (set_split(0), "met twice"),
    "a parent": (put(lambda m: tree(m)["parents"], 1, 5), "parents"),
    "a column": (put(lambda m: tree(m)["split_indices"], 0, 3), "split_indices: 3"),
    "too few numbers": (lambda m: tree(m)["split_conditions"].pop(), "has .* numbers"),
    "no number": (put(lambda m: tree(m)["split_conditions"], 0, "x"), "must hold numbers"),
    "NaN": (put(lambda m: tree(m)["split_conditions"], 0, float("nan")), "must be finite"),
    "beyond float32": (put(lambda m: tree(m)["split_conditions"], -1, 1e308), "must be finite"),
    "a huge number": (put(lambda m: tree(m)["loss_changes"], 0, 10**400), "too large"),
    "nodes": (put(lambda m: tree(m)["tree_param"], "num_nodes", "99"), "has .* numbers"),
    "no nodes": (put(lambda m: tree(m)["tree_param"], "num_nodes", "0"), "num_nodes: 0"),
    "leaves": (put(lambda m: tree(m)["tree_param"], "size_leaf_vector", "9"), "leaves of 9"),
    "two ids": (put(tree, "id", 1), "the same id"),
    "another owner": (put(lambda m: trees(m)["tree_info"], 0, 9), "tree_info: 9"),
    "rounds": (put(lambda m: trees(m)["iteration_indptr"], 1, 0) , None),
    "rounds beyond": (put(lambda m: trees(m)["iteration_indptr"], -1, 99), "iteration_indptr"),
    "trees": (lambda m: trees(m)["trees"].pop(), "2 trees, not 3"),
    "a set": (lambda m: tree(m)["categories_nodes"].clear(), "not described alike|a set"),
    "the end of a set": (put(lambda m: tree(m)["categories_sizes"], 0, 999), "end of a set"),
    "categories": (put(lambda m: trees(m)["cats"]["enc"][2], "offsets", [0, 99]), "99"),
    "columns": (put(facts, "num_feature", "16777217"), "num_feature"),
    "base score": (put(facts, "base_score", "x"), "base_score"),
    "a huge base score": (put(facts, "base_score", "[1E300]"), "base_score"),
    "classes": (put(facts, "num_class", "-1"), "num_class"),
    "names": (put(lambda m: m["learner"], "feature_names", [1, 2, 3]), "3 texts"),
    "attributes": (put(lambda m: m["learner"], "attributes", {"best_iteration": "x"}), "best"),
    "a booster": (put(lambda m: m["learner"]["gradient_booster"], "name", "x"), "none of"),
    "no learner": (lambda m: m.pop("learner"), "has no learner"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name, plain, rows, tmp_path):
    change, message = FAULTS[name]
    damaged = json.loads(json.dumps(plain))
    change(damaged)
    path = tmp_path / "base.json"
    path.write_text(json.dumps(damaged))
    if message is None:  # sound, though other than before
        assert np.isfinite(as_base(path).scores(rows)).all()
        return
    with pytest.raises(ModelFileError, match=f"xgboost cannot read the model file .*{message}"):
        as_base(path)


def test_what_xgboost_finds_only_when_it_is_asked(plain, tmp_path):
    """Its errors are ValueErrors, as those are that say what a sound model lacks."""
    plain = json.loads(json.dumps(plain))
    facts(plain)["base_score"] = "[2E0]"
    path = tmp_path / "base.json"
    path.write_text(json.dumps(plain))
    with pytest.raises(ModelFileError, match=r"the model file .*base\.json.* is damaged"):
        as_base(path)


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        json.JSONDecodeError("no value", "x", 0),
        type("FrameworkError", (ValueError,), {})("no tree"),
        KeyError("trees"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_others_say_that_a_file_is_damaged(error, tmp_path):
    def wrap(model):
        raise error

    path = tmp_path / "base.cbm"
    path.write_bytes(b"model")
    with pytest.raises(ModelFileError, match=r"the model file .*base\.cbm.* is damaged"):
        read_base("CatBoost", path, bytes, wrap)


def test_what_a_sound_model_lacks_is_said_as_it_is(tmp_path):
    def wrap(model):
        raise ValueError("say target_class=")

    path = tmp_path / "base.cbm"
    path.write_bytes(b"model")
    with pytest.raises(ValueError, match=r"^say target_class=$") as caught:
        read_base("CatBoost", path, bytes, wrap)
    assert caught.type is ValueError


def test_texts_that_are_no_model(tmp_path):
    path = tmp_path / "base.json"
    for content in (b"[]", b"{}", b"\xff", b'{"a": 1, "a": 2}', b"[" * 99_999, b'{"version": []}'):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="xgboost cannot read the model file"):
            as_base(path)


# --- UBJSON -------------------------------------------------------------------------------------


def test_values():
    content = b"{U\x01a[$l#U\x02" + struct.pack(">ii", 1, -2) + b"U\x01b[TFZU\x07]U\x01cSU\x02hi}"
    assert parse(content) == {"a": [1, -2], "b": [True, False, None, 7], "c": "hi"}
    assert parse(b"[#U\x02i\xffD" + struct.pack(">d", 0.5)) == [-1, 0.5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends before 1 bytes"),
        (b"{U\x01a", "ends before 1 bytes"),
        (b"[$d#L" + struct.pack(">q", 2**62), "ends before"),
        (b"[$d#L" + struct.pack(">q", -1), "ends before -4 bytes"),
        (b"[#L" + struct.pack(">q", 2**40), "too long"),
        (b"[$S#U\x01", "an array of 'S' is not supported"),
        (b"SL" + struct.pack(">q", 2**62), "ends before"),
        (b"Sd\x00\x00\x00\x00", "whole number"),
        (b"SU\x01\xff", "not UTF-8"),
        (b"[" * 1000, "too many in each other"),
        (b"{U\x01aTU\x01aT}", "repeats the key 'a'"),
        (b"TT", "1 bytes follow its end"),
        (b"q", "'q' is no number"),
    ],
    ids=str,
)
def test_bytes_that_are_no_ubjson(content, message):
    with pytest.raises(ModelFileError, match=message):
        parse(content)
