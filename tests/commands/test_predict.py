"""recalibrate predict: the model's predictions and actions, in the file that was asked for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from commands.conftest import make_rows
from recalibrate.commands import main
from recalibrate.commands.data import read_frame


@pytest.fixture
def new(tmp_path):
    rows = make_rows(50, seed=1)
    rows.to_csv(tmp_path / "new.csv", index=False)
    return rows


def options(folder, *more, out="p.csv"):
    return ["predict", "new.csv", "--model", folder / "model.rcal", "-o", out, *more]


def test_numbers_of_csv_files_are_read_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.random(2000) * 10.0 ** rng.integers(-20, 20, 2000)
    file = tmp_path / "numbers.csv"
    file.write_text("\n".join(["x", *map(repr, values.tolist())]))
    np.testing.assert_array_equal(read_frame(str(file))["x"], values)


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
def test_predictions_are_those_of_python(run, folder, new, out):
    code, said, err = run(*options(folder, "--score-column", "p", "--keep", "id,sex", out=out))
    assert (code, err) == (0, "")
    assert f"wrote {out}: 50 rows, id, sex, prediction" in said
    found = read_frame(out)
    assert found.columns.tolist() == ["id", "sex", "prediction"]
    assert found["id"].tolist() == new["id"].tolist()
    model = rc.load(folder / "model.rcal")
    np.testing.assert_array_equal(found["prediction"], model.predict(new, base=new["p"]))
    assert model.schema.names[2] == "zip"  # text for the model although the file holds numbers


@pytest.mark.parametrize("loss", ["asymmetric(5, 1)", "pinball(0.9)", "cost_matrix(0, 1, 5, 0)"])
def test_actions(run, folder, new, loss):
    code, _, _ = run(*options(folder, "--score-column", "p", "--decide", loss))
    assert code == 0
    found = read_frame("p.csv")
    decision = rc.load(folder / "model.rcal").decide(loss)
    expected = decision.actions(new, base=new["p"])
    np.testing.assert_array_equal(found["action"], expected)


@pytest.mark.parity
def test_exported_graphs_predict_and_decide(run, refused, folder, new):
    rcal = folder / "model.rcal"
    code, out, _ = run("export", rcal, "-o", "m.onnx", "--decide", "pinball(0.9)")
    assert code == 0
    assert "outputs  label, probabilities, score, score_margin, action" in out
    args = ["predict", "new.csv", "--model", "m.onnx", "-o", "p.csv"]
    assert "--score-column" in refused(*args)
    assert "needs the saved model" in refused(*args, "--decide", "hinge")
    assert run(*args, "--score-column", "p")[0] == 0
    found, model = read_frame("p.csv"), rc.load(rcal)
    mean = model.predict(new, base=new["p"])
    np.testing.assert_allclose(found["prediction"], mean, rtol=1e-7)  # float32 in the graph
    np.testing.assert_array_equal(found["action"], model.decide("pinball(0.9)").best(mean))


def test_what_is_missing_is_said(refused, folder, new):
    assert "--score-column" in refused(*options(folder))
    assert "no column 'q'" in refused(*options(folder, "--score-column", "q"))
    assert "no column 'name'" in refused(*options(folder, "--score-column", "p", "--keep", "name"))
    said = refused(*options(folder, "--score-column", "p", "--decide", "huber"))
    assert "no loss 'huber'" in said
    new.drop(columns="sex").to_csv("new.csv", index=False)
    assert "'sex'" in refused(*options(folder, "--score-column", "p"))


def test_wrong_files(refused, folder, new):
    start = ["predict", "new.csv", "-o", "p.csv", "--score-column", "p", "--model"]
    assert "no file 'none.rcal'" in refused(*start, "none.rcal")
    assert "not a recalibrated model" in refused(*start, folder / "rows.csv")
    assert "must end in .csv" in refused(*options(folder, out="p.txt"))
    new.assign(prediction=1).to_csv("new.csv", index=False)
    said = refused(*options(folder, "--score-column", "p", "--keep", "prediction"))
    assert "has a column of that name already" in said


def test_nothing_is_overwritten(run, refused, folder, new, tmp_path):
    (tmp_path / "p.csv").write_text("precious")
    assert "--force" in refused(*options(folder, "--score-column", "p"))
    assert (tmp_path / "p.csv").read_text() == "precious"
    assert run(*options(folder, "--score-column", "p", "--force"))[0] == 0
    said = refused(*options(folder, "--score-column", "p", "--force", out="new.csv"))
    assert "is read by this command" in said


@pytest.mark.adapter
def test_a_base_model_that_is_not_in_the_file(run, folder, new, frame):
    from xgboost import XGBClassifier

    base = XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(frame[["age"]], frame["y"])
    base.save_model("xgb.json")
    scored = rc.fit("xgb.json", frame[["age", "sex"]], frame["y"], rc.Groups("sex"))
    scored.save("m.rcal", base="xgb.json")
    import os

    os.rename("xgb.json", "moved.json")
    args = ["predict", "new.csv", "--model", "m.rcal", "-o", "p.csv"]
    code, _, err = run(*args)
    assert code == 2
    assert "'xgb.json', which is not in" in err
    assert run(*args, "--base", "moved.json")[0] == 0
    np.testing.assert_array_equal(read_frame("p.csv")["prediction"], scored.predict(new))


def test_a_folder_of_parquet_files_is_a_table(tmp_path, folder, frame):
    rows = tmp_path / "rows"
    rows.mkdir()
    for k, piece in enumerate((frame[:500], frame[500:])):
        piece.to_parquet(rows / f"{k}.parquet", index=False)
    found = []
    for k, data in enumerate((rows, rows / "*.parquet", folder / "rows.parquet")):
        out = tmp_path / f"{k}.parquet"
        args = ["--model", str(folder / "model.rcal"), "--score-column", "p", "--quiet"]
        assert main(["predict", str(data), *args, "-o", str(out)]) == 0
        found.append(out.read_bytes())
    assert found[0] == found[1] == found[2]


def test_a_column_for_every_class(run, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "y": rng.choice(["x", "y", "z"], 300)})
    base = LogisticRegression().fit(X[["a"]], X["y"])
    model = rc.fit(base, X[["a"]], X["y"], rc.Groups("a < 0"), loop=rc.Loop(levels=1, max_rounds=1))
    model.save(tmp_path / "model.rcal")
    X.to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "p.csv"
    code, _, err = run(
        "predict", tmp_path / "rows.csv", "--model", tmp_path / "model.rcal", "-o", out
    )
    assert code == 0, err
    found = read_frame(str(tmp_path / "p.csv"))
    assert list(found.columns) == ["prediction_x", "prediction_y", "prediction_z"]
    np.testing.assert_allclose(found.to_numpy(), model.predict(X[["a"]]), atol=1e-12)


@pytest.mark.slow
def test_scores_of_several_classes_are_a_column_for_each(run, refused, tmp_path, monkeypatch):
    """Fitted, predicted and audited by columns whose order --classes tells."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = make_rows(600)
    p = rng.dirichlet([2, 2, 2], 600).round(6)
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    labels = np.array(["low", "mid", "top"])
    rows["y"] = labels[(p.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)]
    scores = "p_low,p_mid,p_top"
    rows[scores.split(",")] = p
    rows.to_parquet("rows.parquet")
    told = ["--label", "y", "--score-column", scores, "--drop", "id,p"]
    assert "classes in the order of" in refused("fit", "rows.parquet", *told, "-o", "m.rcal")
    told += ["--classes", "low,mid,top"]
    assert "is no value" not in run("fit", "rows.parquet", *told, "-o", "m.rcal")[2]
    model = rc.load("m.rcal")
    assert model.classes_.tolist() == labels.tolist()
    named = ["--H", "groups(sex)"]
    code, _, err = run("fit", "rows.parquet", *told, *named, "--cv", "2", "-o", "g.rcal")
    assert (code, err) == (0, "")
    assert rc.load("g.rcal").classes_.tolist() == labels.tolist()
    predict = ["predict", "rows.parquet", "--model", "m.rcal", "--force", "-o", "p.csv"]
    assert run(*predict, "--score-column", scores)[0] == 0
    found = read_frame("p.csv")
    assert found.columns.tolist() == ["prediction_low", "prediction_mid", "prediction_top"]
    np.testing.assert_allclose(found, model.predict(rows, base=p), rtol=1e-12)  # digits of a CSV
    assert run("audit", "rows.parquet", *told, "--groups", "sex")[0] == 0
    assert run("audit", "rows.parquet", *told, "--groups", "sex", "--model", "m.rcal")[0] == 0
    assert "no column 'p_tip'" in refused(*predict, "--score-column", "p_low,p_mid,p_tip")
