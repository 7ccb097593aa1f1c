"""recalibrate audit: views of the report, and a gate by its exit code."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from commands.conftest import make_rows

GROUPS = "sex, sex*zip"


@pytest.fixture
def new_rows(tmp_path):
    rows = make_rows(1500, seed=2)
    rows.to_csv(tmp_path / "test.csv", index=False)
    return rows


def base(*more):
    """An audit of the scores alone, which are wrong for both sexes."""
    start = ["audit", "test.csv", "--label", "y", "--score-column", "p", "--drop", "id"]
    return [*start, "--text", "zip", "--groups", GROUPS, *more]


def after(folder, *more):
    return base("--model", folder / "model.rcal", *more)


def test_the_report_is_that_of_python(run, folder, new_rows):
    files = ["--html", "a.html", "--json", "a.json", "--markdown", "a.md", "--table", "a.csv"]
    code, out, err = run(*after(folder, *files))
    assert (code, err) == (0, "")
    model = rc.load(folder / "model.rcal")
    X = new_rows[["sex", "age", "zip"]]
    report = rc.audit(
        model, X, new_rows["y"], groups=["sex", "sex*zip"], base=new_rows["p"], baseline=True
    )
    assert out.startswith(str(report))
    assert json.loads(Path("a.json").read_text()) == json.loads(report.to_json())
    assert Path("a.html").read_text() == report.to_html()
    assert Path("a.md").read_text() == report.to_markdown()
    assert pd.read_csv("a.csv")["group"].tolist() == report.table["group"].tolist()


@pytest.mark.slow
def test_the_gate(run, folder, new_rows):
    code, _, err = run(*base("--max-gap", "0.05", "--quiet"))
    assert code == 1
    assert "gate failed: sex = F (" in err
    assert "beyond noise" in err
    code, out, err = run(*after(folder, "--max-gap", "0.05"))
    assert (code, err) == (0, "")
    assert out.endswith("gate passed\n")
    assert run(*base("--alpha", "1e-6"))[0] == 1
    assert run(*after(folder, "--alpha", "1e-6"))[0] == 0  # calibrated up to few rows
    assert run(*base("--max-gap", "0.3"))[0] == 0
    assert run(*after(folder, "--max-gap", "0", "--rule", "estimate"))[0] == 1


def test_small_groups_are_not_judged(run, new_rows):
    assert run(*base("--max-gap", "0.05", "--min-rows", "1501"))[0] == 2
    assert run(*base("--max-gap", "0.05", "--min-rows", "100"))[0] == 1


def test_what_the_search_finds_is_judged_if_asked(run, new_rows):
    code, _, err = run(*base("--max-gap", "0.05", "--fail-on-search"))
    assert code == 2
    assert "give --search, too" in err
    assert run(*base("--search", "--fail-on-search"))[0] == 2
    asked = ("--max-gap", "0.05", "--search", "trees(depth=1)", "--fail-on-search", "--quiet")
    code, _, err = run(*base(*asked))
    assert code == 1
    assert "found by searching: " in err


def test_views_are_written_although_the_gate_fails(run, new_rows):
    assert run(*base("--max-gap", "0.05", "--json", "a.json"))[0] == 1
    assert json.loads(Path("a.json").read_text())["rows"] == 1500


def test_quiet_audits_say_nothing(run, new_rows):
    assert run(*base("--quiet")) == (0, "", "")


def test_every_column_is_a_group_by_default(run, new_rows):
    args = ["audit", "test.csv", "--label", "y", "--score-column", "p", "--drop", "id,zip"]
    code, _, _ = run(*args, "--json", "a.json")
    assert code == 0
    names = [group["name"] for group in json.loads(Path("a.json").read_text())["groups"]]
    assert {"all", "sex = F", "sex = M"} < set(names)
    assert any(name.startswith("age") for name in names)


def test_search_cluster_confidence_and_baseline_column(run, new_rows):
    rows = new_rows.assign(q=np.where(new_rows["sex"] == "F", 0.7, 0.3))
    rows["household"] = rows["id"] // 2
    rows.to_csv("test.csv", index=False)
    code, out, _ = run(
        "audit", "test.csv", "--label", "y", "--score-column", "q", "--drop", "id,zip",
        "--groups", "sex", "--baseline-column", "p", "--search", "trees(depth=1)",
        "--cluster", "household", "--confidence", "0.9", "--threshold", "0.5", "--json", "a.json",
    )  # fmt: skip
    assert code == 0
    assert "gap before" in out
    found = json.loads(Path("a.json").read_text())
    assert (found["alpha"], found["clusters"]) == (0.1, 750)
    assert found["discoveries"] is not None
    assert found["changes"] is not None


def test_slices_of_time(run, refused, new_rows):
    new_rows.assign(day=[f"2024-0{1 + k % 3}-15" for k in range(1500)]).to_csv(
        "test.csv", index=False
    )
    assert run(*base("--by", "month", "--time", "day", "--json", "a.json"))[0] == 0
    found = json.loads(Path("a.json").read_text())["slices"]
    assert sorted({line["slice"] for line in found}) == ["2024-01", "2024-02", "2024-03"]
    assert "pass time=" in refused(*base("--by", "month"))


def test_log_odds(run, new_rows):
    new_rows.assign(p=np.log(new_rows["p"] / (1 - new_rows["p"]))).to_csv("test.csv", index=False)
    code, _, err = run(*base())
    assert code == 2
    assert "probabilities" in err
    assert run(*base("--base-link", "logit", "--json", "a.json"))[0] == 0
    overall = json.loads(Path("a.json").read_text())["groups"][0]["after"]
    # Log-odds and back, and sums in another order.
    assert overall["mean_prediction"] == pytest.approx(new_rows["p"].mean())


@pytest.mark.adapter
def test_base_models_and_exported_graphs(run, folder, new_rows, frame):
    from xgboost import XGBClassifier

    XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(frame[["age"]], frame["y"]).save_model(
        "xgb.json"
    )
    start = ["audit", "test.csv", "--label", "y", "--drop", "id,p", "--groups", "sex"]
    assert run(*start, "--model", "xgb.json", "--max-gap", "0.05")[0] == 1
    model = rc.fit("xgb.json", frame[["age", "sex"]], frame["y"], rc.Groups("sex"))
    model.to_onnx("m.onnx")
    code, out, _ = run(*start, "--model", "m.onnx", "--baseline", "xgb.json", "--max-gap", "0.05")
    assert code == 0
    assert "gap before" in out


def test_what_is_wrong_is_said(refused, folder, new_rows):
    said = refused("audit", "test.csv", "--label", "y", "--groups", "sex")
    assert "--model FILE, or --score-column NAME" in said
    model = ["audit", "test.csv", "--label", "y", "--model", folder / "model.rcal"]
    assert "needs base scores" in refused(*model)
    assert "at least 0" in refused(*base("--max-gap", "-1"))
    assert "--confidence" in refused(*base("--confidence", "95"))
    both = ["--baseline", "m.rcal", "--baseline-column", "p"]
    assert "not both" in refused(*base(*both))
    assert "unknown column 'gender'" in refused(*base("--groups", "gender"))
    assert "no file 'm.json'" in refused(*base("--model", "m.json"))
    Path("m.onnx").write_bytes(b"not a graph")
    assert "'m.onnx' is not an ONNX graph" in refused(*base("--model", "m.onnx"))


def test_nothing_is_overwritten(refused, new_rows):
    Path("a.html").write_text("precious")
    assert "--force" in refused(*base("--html", "a.html"))
    assert Path("a.html").read_text() == "precious"


def test_no_file_is_written_twice(refused, new_rows):
    assert "is read by this command" in refused(*base("--table", "test.csv", "--force"))
    Path("link.json").symlink_to("a.csv")
    said = refused(*base("--json", "link.json", "--table", "a.csv"))
    assert "--table 'a.csv': this file is written by --json" in said


def test_wrong_suffixes(refused, new_rows):
    assert "must end in .html or .htm" in refused(*base("--html", "a.pdf"))
    assert "must end in .json" in refused(*base("--json", "a.txt"))


@pytest.mark.slow
def test_several_models_are_compared_with_the_first(run, folder, new_rows):
    rows = new_rows.assign(e=1.0)
    rows.to_csv("test.csv", index=False)
    two = ["--model", f"old={folder / 'model.rcal'}", "--model", folder / "model.rcal"]
    files = ["--html", "a.html", "--json", "a.json", "--markdown", "a.md", "--table", "a.csv"]
    code, out, err = run(*base(*two, *files, "--drop", "e", "--max-gap", "0.05"))
    assert (code, err) == (0, "")
    assert "All models are audited on the same rows and groups." in out
    found = json.loads(Path("a.json").read_text())["models"]
    assert list(found) == ["old", str(folder / "model.rcal")]
    assert [own for own in pd.read_csv("a.csv") if own.startswith("gap_")]
    code, _, err = run(*base(*two, "--drop", "e", "--max-gap", "0", "--rule", "estimate"))
    assert code == 1
    assert "gate failed: old: " in err


def test_what_is_for_one_model_is_refused_for_two(refused, folder, new_rows):
    two = ["--model", folder / "model.rcal"] * 2
    assert "twice: give names" in refused(*base(*two))
    two = ["--model", f"a={folder / 'model.rcal'}", "--model", f"b={folder / 'model.rcal'}"]
    assert "--model-card is for one model, got 2" in refused(*base(*two, "--model-card", "c.md"))
    assert "loss must be" in refused(*base("--loss", "huber"))


def test_exposure_makes_rates(run, new_rows):
    rows = new_rows.assign(e=2.0)
    rows.to_csv("test.csv", index=False)
    code, _, err = run(*base("--exposure", "e", "--json", "a.json"))
    assert (code, err) == (0, "")
    found = json.loads(Path("a.json").read_text())
    assert found["kind"] == "regression"
    assert found["groups"][0]["mean_outcome"] == pytest.approx(rows["y"].mean() / 2)
    assert found["overall"]["after"]["deviance"] > 0


def test_columns_that_no_group_is_about_may_hold_anything(run, refused, frame):
    frame.assign(when=pd.Timestamp("2024-05-01")).to_parquet("dated.parquet")
    audit = ["audit", "dated.parquet", "--label", "y", "--score-column", "p", "--drop", "id"]
    code, out, err = run(*audit, "--groups", "sex, age")
    assert (code, err) == (0, "")
    assert "sex = F" in out
    assert "Column 'when' holds datetime64" in refused(*audit, "--groups", "sex, when")
    assert "Column 'when' holds datetime64" in refused(*audit)


def test_names_of_groups_can_be_pasted_back(run, frame):
    frame.to_csv("rows.csv", index=False)
    audit = ["audit", "rows.csv", "--label", "y", "--score-column", "p", "--drop", "id"]
    assert run(*audit, "--groups", "sex, age, zip", "--text", "zip", "--table", "all.csv")[0] == 0
    printed = pd.read_csv("all.csv").set_index("group")
    names = [name for name in printed.index if name != "all"]
    pasted = ["--groups", ", ".join(names), "--text", "zip", "--table", "again.csv"]
    assert run(*audit, *pasted)[0] == 0
    again = pd.read_csv("again.csv")
    assert again["rows"].tolist() == printed["rows"].tolist()
    assert again["gap"].tolist() == printed["gap"].tolist()
