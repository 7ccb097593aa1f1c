"""Tables of other libraries give what the same rows give as a pandas DataFrame."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.data.table import open_frames, settle

RNG = np.random.default_rng(0)
N = 1200
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N).astype(float),
        "hours": RNG.normal(40, 10, N),
        "sex": RNG.choice(["F", "M"], N),
    }
)
FRAME.loc[5:9, "hours"] = np.nan
SEEN = ["age"]
Y = (RNG.random(N) < np.where(FRAME["sex"] == "F", 0.3, 0.6)).astype(int)
BASE = LogisticRegression().fit(FRAME[SEEN], Y)
H = rc.Groups("sex", "age < 30")


def duck(frame):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_df(frame)


KINDS = {
    "polars": pl.from_pandas,
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "arrow stream": duck,
    "narwhals": lambda frame: pytest.importorskip("narwhals").from_native(pl.from_pandas(frame)),
}


@pytest.fixture(scope="module")
def expected():
    model = rc.fit(BASE, FRAME, Y, H)
    return model, model.predict(FRAME)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fit_predict_and_audit_of_other_tables(kind, expected):
    model, predicted = expected
    X = KINDS[kind](FRAME)
    fitted = rc.fit(BASE, X, Y, H)
    np.testing.assert_array_equal(fitted.predict(FRAME), predicted)
    np.testing.assert_array_equal(model.predict(X), predicted)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], predicted)
    table = rc.audit(model, X, Y, groups=H).table
    pd.testing.assert_frame_equal(table, rc.audit(model, FRAME, Y, groups=H).table)


@pytest.mark.slow
def test_labels_of_other_libraries(expected):
    for y in (pl.Series(Y), pa.chunked_array([Y]), pl.DataFrame({"y": Y})["y"]):
        np.testing.assert_array_equal(rc.fit(BASE, FRAME, y, H).predict(FRAME), expected[1])


@pytest.mark.slow
def test_a_table_of_its_own(expected):
    own = rc.fit(BASE, FRAME[SEEN], Y, H, Z=pl.from_pandas(FRAME).lazy())
    np.testing.assert_array_equal(own.predict(FRAME[SEEN], Z=pl.from_pandas(FRAME)), expected[1])


@pytest.mark.slow
def test_callables_get_the_table_that_was_given():
    seen = []

    def score(X):
        seen.append(type(X).__name__)
        return X["age"].to_numpy() / 100

    rc.fit(score, pl.from_pandas(FRAME).lazy(), Y, H).predict(pl.from_pandas(FRAME[:5]))
    assert set(seen) == {"DataFrame"}
    assert settle(FRAME) is FRAME


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    for k, piece in enumerate(np.array_split(np.arange(N), 3)):
        own = FRAME.iloc[piece].assign(y=Y[piece], score=0.4, w=1.0)
        own.to_parquet(path / f"{k}.parquet")
    return path


class TestPieces:
    def test_parquet_is_predicted(self, folder, expected):
        model, predicted = expected
        np.testing.assert_array_equal(model.predict(folder), predicted)
        np.testing.assert_array_equal(model.predict(str(folder / "*.parquet")), predicted)
        assert model.predict_proba(folder).shape == (N, 2)

    def test_iterables_are_predicted(self, expected):
        model, predicted = expected
        pieces = [pl.from_pandas(FRAME[:700]), FRAME[700:]]
        np.testing.assert_array_equal(model.predict(iter(pieces)), predicted)

    def test_scores_are_a_column(self, folder):
        model = rc.fit(np.full(N, 0.4), FRAME, Y, H)
        given = model.predict(FRAME, base=np.full(N, 0.4))
        np.testing.assert_array_equal(model.predict(folder, base="score"), given)
        with pytest.raises(TypeError, match="name of a column where rows come in pieces"):
            model.predict(folder, base=np.full(N, 0.4))

    @pytest.mark.slow
    @pytest.mark.parametrize("baseline", [None, True, "score"])
    def test_parquet_is_audited(self, folder, expected, baseline):
        model, _ = expected
        local = np.full(N, 0.4) if baseline == "score" else baseline
        given = {"groups": ["sex", "age"], "sample_weight": np.ones(N)}
        table = rc.audit(model, FRAME, Y, baseline=local, **given).table
        given["sample_weight"] = "w"
        found = rc.audit(model, folder, "y", baseline=baseline, **given).table
        pd.testing.assert_frame_equal(found, table)

    def test_what_is_wrong_is_said(self, folder, expected):
        model, predicted = expected
        with pytest.raises(TypeError, match="y must be the name of a column"):
            rc.audit(model, folder, Y)
        with pytest.raises(TypeError, match="make it a column and pass its name"):
            rc.audit(predicted, folder, "y")
        with pytest.raises(FileNotFoundError, match="no such Parquet file"):
            model.predict(folder / "none")
        with pytest.raises(ValueError, match="X has no rows"):
            model.predict(iter([]))


def test_scraps_in_a_folder_are_not_rows(tmp_path):
    """As in Spark, pyarrow and Dask: what begins with a dot or _ is left out, folders too."""
    frame = pd.DataFrame({"a": [1.0]})
    for name in ("b.parquet", "year=2024/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        frame.to_parquet(tmp_path / name)
    for name in ("_temporary/0.parquet", ".part.parquet", "_metadata.parquet", ".x/1.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"half of a file")
    (tmp_path / "folder.parquet").mkdir()
    assert sum(len(piece) for piece in open_frames(tmp_path)) == 2
