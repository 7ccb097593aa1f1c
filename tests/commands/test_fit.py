"""recalibrate fit: what comes out is what Python's fit gives; what is wrong is said in a line."""

import json

import numpy as np
import pandas as pd
import pytest
from settings import fit_with

import recalibrate as rc
from commands.conftest import fit_rows


def expected(frame, **options):
    return fit_with(
        frame["p"].to_numpy(), frame[["sex", "age", "zip"]], frame["y"], **options
    ).predict(frame, base=frame["p"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_model_is_that_of_python(run, folder, frame, suffix):
    code, out, err = run(
        "fit", folder / f"rows.{suffix}", "--label", "y", "--score-column", "p", "--drop", "id",
        "--text", "zip", "--H", "groups(sex, zip)", "-o", "model.rcal",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "Groups('sex', 'zip')" in out
    assert "wrote model.rcal" in out
    found = rc.load("model.rcal").predict(frame, base=frame["p"])
    np.testing.assert_array_equal(found, expected(frame, H=rc.Groups("sex", "zip")))


def test_text_stays_text(folder):
    column = rc.load(folder / "model.rcal").schema.columns[2]
    assert (column.name, column.categories) == ("zip", ("01234", "02345", "10000"))


def test_all_options_arrive(run, folder, frame, tmp_path):
    weighted = frame.assign(w=1.0 + (frame["age"] > 50))
    weighted.to_csv(tmp_path / "w.csv", index=False)
    code, _, err = run(
        "fit", "w.csv", "--label", "y", "--score-column", "p", "--drop", "id,zip", "--weight", "w",
        "--H", "trees(depth=1)", "--categorical", "age", "--cv", "3", "--levels", "2",
        "--seed", "7", "--threads", "1", "-o", "m.rcal",
    )  # fmt: skip
    assert code == 0
    assert "is worse than the constant base rate" in err  # its scores are drawn at random
    model = rc.load("m.rcal")
    assert model.schema.columns[1].kind == "categorical"
    python = rc.fit(
        frame["p"].to_numpy(), frame[["sex", "age"]], frame["y"], rc.Trees(depth=1),
        sample_weight=weighted["w"], categorical=["age"], cv=3, loop=rc.Loop(levels=2), seed=7,
    )  # fmt: skip
    np.testing.assert_array_equal(
        model.predict(frame, base=frame["p"]), python.predict(frame, base=frame["p"])
    )


def test_the_papers_run(run, folder):
    code, out, _ = run(*fit_rows(folder), "--alpha", "0.02", "-o", "m.rcal", "--force")
    assert code == 0
    assert rc.load("m.rcal").certificate_.alpha == 0.02
    assert "alpha" in out


def test_labels_in_words(run, refused, frame, tmp_path):
    words = frame.assign(y=np.where(frame["y"] == 1, "yes", "no"))
    words.to_csv(tmp_path / "words.csv", index=False)
    options = ["fit", "words.csv", "--label", "y", "--score-column", "p", "--drop", "id,zip,age"]
    options += ["--H", "groups(sex)", "-o", "m.rcal"]
    assert "--positive" in refused(*options)
    assert "no value of 'y'" in refused(*options, "--positive", "maybe")
    assert run(*options, "--positive", "yes")[0] == 0
    assert rc.load("m.rcal").labels.kind == "binary"


def test_regression_bounds(run, frame, tmp_path):
    frame.assign(y=frame["y"] * 10.0).to_csv(tmp_path / "r.csv", index=False)
    code, _, _ = run(
        "fit", "r.csv", "--label", "y", "--score-column", "p", "--drop", "id,zip",
        "--H", "linear", "--bounds", "-5", "15", "-o", "m.rcal",
    )  # fmt: skip
    assert code == 0
    labels = rc.load("m.rcal").labels
    assert (labels.kind, labels.low, labels.high) == ("regression", -5.0, 15.0)


@pytest.mark.parity
def test_the_graph_beside_the_model(run, folder, frame):
    code, _, err = run(*fit_rows(folder), "-o", "m.rcal", "--onnx", "m.onnx", "--quiet")
    assert (code, err) == (0, "")
    model, served = rc.load("m.rcal"), rc.load("m.onnx")
    found = served.predict(frame, base=frame["p"])
    np.testing.assert_array_equal(found, model.predict(frame, base=frame["p"]).astype(np.float32))


def test_more_rounds_on_a_saved_model(refused, folder):
    """A model that was fitted on scores cannot score rows itself: said, not crashed."""
    said = refused(
        "fit", folder / "rows.csv", "--label", "y", "--model", folder / "model.rcal",
        "-o", "m.rcal",
    )  # fmt: skip
    assert "array of scores" in said


def replaced(folder, option, value):
    args = [*fit_rows(folder), "-o", "m.rcal"]
    args[args.index(option) + 1] = value
    return args


def test_wrong_column_names_are_answered_with_the_right_ones(refused, folder):
    said = refused(*replaced(folder, "--label", "yy"))
    assert "no column 'yy'. Did you mean 'y'?" in said
    assert "'sex', 'age'" in said
    assert "no column 'q'" in refused(*replaced(folder, "--score-column", "q"))
    assert "no column 'none'" in refused(*replaced(folder, "--drop", "none"))
    assert "no column 'zap'" in refused(*replaced(folder, "--text", "zap"))


def test_wrong_groups_are_explained(refused, folder):
    said = refused(*replaced(folder, "--H", "groups(sex * gender)"))
    assert "unknown column 'gender'" in said
    assert "(in 'sex * gender', character 7)" in said


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--H", "forest", "no class 'forest'"),
        ("-o", "model.onnx", "must end in .rcal"),
        ("-o", "no/such/folder/m.rcal", "does not exist"),
    ],
)
def test_wrong_values(refused, folder, option, value, message):
    assert message in refused(*replaced(folder, option, value))


def test_unusable_tables(refused, folder, tmp_path):
    def table(name):
        args = [*fit_rows(folder), "-o", "m.rcal"]
        args[1] = name
        return refused(*args)

    assert "no file 'none.csv'" in table("none.csv")
    assert "must end in .csv" in table("rows.xlsx")
    (tmp_path / "folder.csv").mkdir()
    assert "no folder with files *.parquet in it" in table("folder.csv")
    (tmp_path / "empty.csv").write_bytes(b"")
    assert "cannot read 'empty.csv'" in table("empty.csv")
    (tmp_path / "head.csv").write_text("id,sex,age,zip,y,p\n")
    assert "has no rows" in table("head.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00a,b\n\x9d,1")
    assert "cannot read 'bytes.csv'" in table("bytes.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    assert "cannot read 'bad.parquet'" in table("bad.parquet")
    (tmp_path / "missing.csv").write_text("id,sex,age,zip,y,p\n1,F,20,1,,.5\n2,M,20,1,1,.5\n")
    assert "1 missing values" in table("missing.csv")


def test_unusable_models(refused, folder, tmp_path):
    def model(name):
        return refused(
            "fit", folder / "rows.csv", "--label", "y", "--model", name, "-o", "m.rcal"
        )  # fmt: skip

    assert "no file 'none.json'" in model("none.json")
    assert "is a folder" in model(".")
    (tmp_path / "model.xyz").write_text("?")
    assert "suffix '.xyz'" in model("model.xyz")
    (tmp_path / "model.rcal").write_text("?")
    model("model.rcal")


def test_neither_or_both_of_model_and_scores(refused, folder):
    start = ["fit", folder / "rows.csv", "--label", "y", "-o", "m.rcal"]
    assert "one of the arguments --model --score-column is required" in refused(*start)
    both = [*start, "--model", "a.json", "--score-column", "p"]
    assert "not allowed with argument" in refused(*both)
    assert "--by-reference needs" in refused(*start, "--score-column", "p", "--by-reference")


def test_nothing_is_overwritten(run, refused, folder, tmp_path):
    (tmp_path / "m.rcal").write_text("precious")
    said = refused(*fit_rows(folder), "-o", "m.rcal")
    assert "--force" in said
    (tmp_path / "m.onnx").write_text("precious")
    said = refused(*fit_rows(folder), "-o", "new.rcal", "--onnx", "m.onnx")
    assert "'m.onnx': the file exists" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.rcal"]
    assert (tmp_path / "m.rcal").read_text() == "precious"
    assert run(*fit_rows(folder), "-o", "m.rcal", "--force")[0] == 0
    assert rc.load("m.rcal").n_rows == 1200


def test_inputs_are_never_overwritten(refused, folder):
    said = refused(
        "fit", folder / "rows.csv", "--label", "y", "--model", folder / "model.rcal",
        "-o", folder / "model.rcal", "--force",
    )  # fmt: skip
    assert "is read by this command" in said


def test_warnings_are_lines(run, frame, tmp_path):
    """Scores that are the labels themselves were certainly made on training rows."""
    frame.assign(p=frame["y"]).to_csv(tmp_path / "rows.csv", index=False)
    code, _, err = run(*fit_rows(tmp_path), "-o", "m.rcal")
    assert code == 0
    assert err.startswith("recalibrate fit: warning: ")
    lines = err.splitlines()
    assert ["exactly 0 or 1" in lines[0], "almost perfectly" in lines[1]] == [True, True]
    assert len(lines) == 2


def test_exposure_link_and_bounds(run, folder, frame):
    rows = frame.assign(years=1.0 + frame["age"] % 3, claims=frame["y"] * (frame["age"] % 4))
    rows.to_csv("claims.csv", index=False)
    given = ["fit", "claims.csv", "--label", "claims", "--score-column", "p", "--drop", "id,y"]
    code, _, _ = run(
        *given, "--exposure", "years", "--bounds", "0", "none", "--H", "groups(sex)", "-o", "c.rcal"
    )
    assert code == 0
    model = rc.load("c.rcal")
    assert (model.rounds.link, model.bounds_) == ("log-poisson", (0.0, None))
    audit = [*given[1:4], "--model", "c.rcal", *given[4:]]
    code, _, err = run("audit", *audit)
    assert (code, "--exposure" in err) == (2, True)
    code, _, _ = run("audit", *audit, "--exposure", "years")
    assert code == 0
    watched = ["claims.csv", "--model", "c.rcal", "--score-column", "p", "--state", "s.json"]
    assert run("monitor", "init", *watched)[0] == 0
    code, _, err = run("monitor", "update", *watched, "--label", "claims")
    assert (code, "--exposure" in err) == (2, True)
    assert run("monitor", "update", *watched, "--label", "claims", "--exposure", "years")[0] == 0
    code, _, _ = run(*given, "--link", "log-tweedie-1.3", "--H", "groups(sex)", "-o", "t.rcal")
    assert code == 0
    assert rc.load("t.rcal").rounds.link == "log-tweedie-1.3"


@pytest.mark.adapter
class TestModelFiles:
    def test_advice_names_options_of_the_command_line(self, refused, folder, frame):
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=1, n_jobs=1)
        model.fit(frame[["age"]], frame["age"] // 30).save_model("m.json")
        rows = ["fit", folder / "rows.csv", "--label", "y", "--model", "m.json", "-o", "m.rcal"]
        said = refused(*rows, "--target-class", "7")
        assert "--target-class 7 is not a class" in said, said  # 7, a number

    def test_xgboost(self, run, folder, frame):
        from xgboost import XGBClassifier

        base = XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(frame[["age"]], frame["y"])
        base.save_model("xgb.json")
        rows = ["fit", folder / "rows.csv", "--label", "y", "--model", "xgb.json", "--drop", "id,p"]
        code, _, err = run(*rows, "--H", "groups(sex)", "-o", "inside.rcal")
        assert (code, err) == (0, "")
        code, out, _ = run(*rows, "--H", "groups(sex)", "-o", "beside.rcal", "--by-reference")
        assert code == 0
        assert "keep xgb.json beside beside.rcal" in out
        inside, beside = (rc.load(name).predict(frame) for name in ("inside.rcal", "beside.rcal"))
        np.testing.assert_array_equal(inside, beside)
        code, _, _ = run(
            "fit", folder / "rows.csv", "--label", "y", "--model", "inside.rcal",
            "--drop", "id,p", "--H", "groups(zip)", "-o", "twice.rcal",
        )  # fmt: skip
        assert code == 0
        assert "recalibrated" in rc.load("twice.rcal").base.name

    def test_onnx_without_names(self, run, refused, folder, frame):
        from skl2onnx import to_onnx
        from sklearn.linear_model import LogisticRegression

        X = frame[["age", "p"]].to_numpy(np.float32)
        base = LogisticRegression().fit(X, frame["y"])
        options = {LogisticRegression: {"zipmap": False}}
        with open("lr.onnx", "wb") as file:
            file.write(to_onnx(base, X[:1], options=options).SerializeToString())
        rows = ["fit", folder / "rows.csv", "--label", "y", "--model", "lr.onnx", "--drop", "id"]
        rows += ["--H", "groups(sex)", "-o", "m.rcal"]
        refused(*rows)  # five columns are not two
        code, _, err = run(*rows, "--model-columns", "age, p")
        assert (code, err) == (0, "")
        assert rc.load("m.rcal").base.columns() == ("age", "p")
        mixed = pd.DataFrame(frame[["p", "sex", "age"]])
        np.testing.assert_array_equal(
            rc.load("m.rcal").predict(mixed), rc.load("m.rcal").predict(frame)
        )


@pytest.mark.parametrize("positive", ["admitted", "home"])
def test_positive_chooses_the_class_of_a_model_that_names_its_classes(run, tmp_path, positive):
    """The base scores the alphabetically last class, 'home'; --positive may name the other."""
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900)})
    y = np.where(X["a"] + rng.logistic(size=900) > 0.5, "admitted", "home")
    base = LogisticRegression().fit(X.to_numpy(np.float32), y)
    graph = to_onnx(base, X.to_numpy(np.float32)[:1], options={"zipmap": False})
    (tmp_path / "base.onnx").write_bytes(graph.SerializeToString())
    X.assign(y=y).to_csv("rows.csv", index=False)
    shared = ["rows.csv", "--label", "y", "--positive", positive]
    code, out, err = run(
        "fit", *shared, "--model", "base.onnx", "--H", "groups(b < 0)", "-o", "m.rcal"
    )
    assert (code, err) == (0, "")
    assert f"probability of '{positive}'" in out
    model = rc.load("m.rcal")
    assert np.corrcoef(model.predict(X), y == positive)[0, 1] > 0.3
    assert model.classes_.tolist() == ["admitted", "home"]
    for audited in ("m.rcal", "base.onnx"):
        assert run("audit", *shared, "--model", audited, "--json", f"{audited}.json")[0] == 0
        found = json.loads((tmp_path / f"{audited}.json").read_text())["groups"][0]
        assert found["mean_outcome"] == pytest.approx(np.mean(y == positive))
        assert abs(found["after"]["gap"]) < 0.03


@pytest.fixture
def admissions(tmp_path):
    """Rows whose label is text, 0/1 and 1/2, with the probability of being admitted."""
    from xgboost import XGBClassifier

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900)})
    p = 1 / (1 + np.exp(0.8 - X["a"]))
    event = rng.random(900) < p
    base = XGBClassifier(n_estimators=8, max_depth=2, n_jobs=1).fit(X, event.astype(int))
    base.save_model(tmp_path / "x.json")
    X.assign(
        p=p, y=np.where(event, "admitted", "home"), y01=event.astype(int), y12=2 - event
    ).to_csv(tmp_path / "rows.csv", index=False)
    return event


@pytest.mark.parametrize(
    ("label", "positive", "other", "model"),
    [
        ("y", "admitted", "home", ["--score-column", "p"]),
        ("y12", 1, 2, ["--score-column", "p"]),
        ("y01", 1, 0, ["--score-column", "p"]),
        ("y", "admitted", "home", ["--model", "x.json"]),
        ("y01", 0, 1, ["--model", "x.json"]),
    ],
)
def test_positive_is_remembered(run, tmp_path, admissions, label, positive, other, model):
    drop = ["--drop", ",".join({"y", "y01", "y12"} - {label})]
    fit = ["fit", "rows.csv", "--label", label, "--positive", positive, *model, *drop]
    code, out, err = run(
        *fit, "--H", "groups(b < 0)", "-o", "m.rcal", "--onnx", "m.onnx", "--force"
    )
    assert (code, err) == (0, "")
    assert f"probability of {positive!r} (the other class is {other!r})" in out
    scores = model if model[0] == "--score-column" else []
    counted = ~admissions if positive == 0 else admissions
    for audited in ("m.rcal", "m.onnx"):
        shared = ["audit", "rows.csv", "--label", label, "--model", audited, *scores, *drop]
        for more, share in (([], counted.mean()), (["--positive", other], 1 - counted.mean())):
            assert run(*shared, *more, "--json", "found.json", "--force")[0] == 0
            found = json.loads((tmp_path / "found.json").read_text())["groups"][0]
            assert found["mean_outcome"] == pytest.approx(share)
            assert abs(found["after"]["gap"]) < 0.03


def test_positive_of_a_model_beside_its_calibration(run, admissions):
    fit = ["fit", "rows.csv", "--label", "y01", "--positive", "0", "--model", "x.json"]
    fit += ["--drop", "y,y12", "--H", "groups(b < 0)"]
    assert run(*fit, "-o", "inside.rcal")[0] == 0
    assert run(*fit, "-o", "beside.rcal", "--by-reference")[0] == 0
    rows = pd.read_csv("rows.csv")
    inside, beside = (rc.load(name).predict(rows) for name in ("inside.rcal", "beside.rcal"))
    np.testing.assert_allclose(inside, beside, atol=1e-6)  # one of them by a float32 graph
    assert np.corrcoef(inside, rows["y01"] == 0)[0, 1] > 0.3


def test_positive_is_not_for_several_classes(refused, admissions):
    from catboost import CatBoostClassifier

    rows = pd.read_csv("rows.csv")
    model = CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False)
    model.fit(rows[["a", "b"]], np.array(["x", "y", "z"])[np.arange(900) % 3])
    model.save_model("three.cbm")
    fit = ["fit", "rows.csv", "--label", "y", "--model", "three.cbm", "-o", "m.rcal"]
    assert "--target-class x" in refused(*fit, "--positive", "x")
