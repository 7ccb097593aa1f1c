"""Damaged LightGBM files are refused before LightGBM, which would end the process, sees them."""

import re

import numpy as np
import pandas as pd
import pytest

from recalibrate.bases.protocol import as_base
from recalibrate.support.checks import ModelFileError

lightgbm = pytest.importorskip("lightgbm")
pytestmark = pytest.mark.adapter


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    letters = pd.Categorical(rng.choice(list("xyz"), 300))
    return pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "c": letters})


def train(rows, **settings):
    y = (rows["a"] + (rows["c"] == "x") > 0.3).astype(int)
    settings = {"n_estimators": 3, "num_leaves": 5, "verbose": -1, **settings}
    return lightgbm.LGBMClassifier(min_data_per_group=1, cat_smooth=1, **settings).fit(rows, y)


@pytest.fixture(scope="module")
def text(rows):
    found = train(rows).booster_.model_to_string()
    assert "num_cat=1" in found
    return found


def open_text(text, folder):
    path = folder / "base.txt"
    path.write_bytes(text.encode())
    return as_base(path)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"linear_tree": True}, {"num_leaves": 2}], ids=str)
def test_sound_files_are_read_as_they_are(rows, settings, tmp_path):
    numbers = rows if "linear_tree" not in settings else rows[["a", "b"]].assign(c=1.0)
    model = train(rows) if numbers is rows else None
    if model is None:
        y = (rows["a"] > 0).astype(int)
        model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, **settings).fit(numbers, y)
    base = open_text(model.booster_.model_to_string(), tmp_path)
    np.testing.assert_array_equal(base.scores(numbers), as_base(model).scores(numbers))


def test_line_ends_of_windows(rows, text, tmp_path):
    base = open_text(text.replace("\n", "\r\n"), tmp_path)
    np.testing.assert_array_equal(base.scores(rows), open_text(text, tmp_path).scores(rows))


FAULTS = {
    "a child beyond the end": (r"left_child=\S+", "left_child=77", "left_child: 77"),
    "a circle": (r"left_child=\S+", "left_child=0", "a node is met twice"),
    "a leaf twice": (r"right_child=(\S+) \S+", r"right_child=\1 -1", "met twice|no parent"),
    "a column beyond the last": (r"split_feature=\S+", "split_feature=3", "split_feature: 3"),
    "a number too few": (r"threshold=\S+ ", "threshold=", "threshold should have"),
    "no number": (r"leaf_value=\S+", "leaf_value=abc", "something else than numbers"),
    "a leaf of NaN": (r"leaf_value=\S+", "leaf_value=nan", "no finite value"),
    "too many leaves": (r"num_leaves=5", "num_leaves=2147483647", "num_leaves: 2147483647"),
    "more leaves than there are": (r"num_leaves=5", "num_leaves=6", "should have 6 numbers"),
    "no sets": (r"num_cat=1", "num_cat=0", "set of categories is missing"),
    "more sets": (r"num_cat=1", "num_cat=9", "cat_boundaries should have 10"),
    "sets beyond the words": (r"cat_boundaries=0 1", "cat_boundaries=0 9", "do not cut"),
    "a kind that is none": (r"decision_type=\S+", "decision_type=99", "decision_type: 99"),
    "columns": (r"max_feature_idx=2", "max_feature_idx=1000000", "1000001 columns"),
    "classes": (r"num_class=1", "num_class=7", "7 classes, but 1 trees"),
    "trees of a round": (r"num_tree_per_iteration=1", "num_tree_per_iteration=0", "not from 1"),
    "an objective": (r"sigmoid:1", "sigmoid:0", "objective 'binary sigmoid:0' is none"),
    "a line twice": (r"(num_leaves=5)", r"\1\n\1", "the line 'num_leaves=5' in it"),
    "categories": (r"pandas_categorical:.*", "pandas_categorical:[1]", "not a list of lists"),
    "nested categories": (
        r"pandas_categorical:.*", "pandas_categorical:" + "[" * 9999, "nested deeper"
    ),
    "no end": (r"end of trees", "", "cut short"),
    "zero bytes": (r"version=v4", "version=\0", "zero byte"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name, text, tmp_path):
    pattern, replacement, message = FAULTS[name]
    damaged = re.sub(pattern, replacement, text, count=1 if "num_cat" not in pattern else 0)
    assert damaged != text
    with pytest.raises(ModelFileError, match=message):
        open_text(damaged, tmp_path)


def test_other_files_and_cut_ones(text, tmp_path):
    for content in (b"hello", b"\xff\xfe\x00", text.encode()[: len(text) // 3]):
        path = tmp_path / "base.txt"
        path.write_bytes(content)
        with pytest.raises(
            ModelFileError, match=r"LightGBM cannot read the model file .*base\.txt"
        ):
            as_base(path)
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="has 0 bytes"):
        as_base(path)


def test_sizes_of_trees_are_not_believed(rows, text, tmp_path):
    """LightGBM reads trees from wrong places, on several threads, and the process ends."""
    damaged = re.sub(r"tree_sizes=\d+", "tree_sizes=1", text)
    assert damaged != text
    expected = open_text(text, tmp_path).scores(rows)
    np.testing.assert_array_equal(open_text(damaged, tmp_path).scores(rows), expected)
