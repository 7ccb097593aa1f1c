"""recalibrate monitor: a state that goes from command to command, and alarms as exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from commands.conftest import make_rows
from recalibrate.commands.data import read_frame
from recalibrate.support.atomic import locked


@pytest.fixture
def weeks(tmp_path):
    """A reference and four weeks; from the third on scores are wrong for women."""
    rng = np.random.default_rng(0)
    for k, name in enumerate(["reference", "week1", "week2", "week3", "week4"]):
        rows = make_rows(800, seed=k)
        truth = np.where((rows["sex"] == "F") & (k >= 3), rows["p"] + 0.3, rows["p"])
        rows["y"] = (rng.random(800) < truth).astype(int)
        rows["day"] = f"2024-05-{7 * k + 1:02d}"
        rows.drop(columns="y" if k == 0 else []).to_csv(tmp_path / f"{name}.csv", index=False)


SCORES = ["--score-column", "p", "--state", "m.json"]


def init(*more):
    return [
        "monitor",
        "init",
        "reference.csv",
        "--groups",
        "sex, zip",
        "--text",
        "zip",
        *SCORES,
        *more,
    ]


def update(week, *more):
    return ["monitor", "update", f"{week}.csv", "--label", "y", "--time", "day", *SCORES, *more]


def test_from_the_reference_to_an_alarm(run, weeks):
    code, out, err = run(*init())
    assert (code, err) == (0, "")
    assert "6 groups, no alarm" in out
    for week in ("week1", "week2"):
        assert run(*update(week))[0] == 0
    code, out, err = run(*update("week3"))
    assert code == 1
    assert "new alarm: sex = F" in err
    code, _, err = run(*update("week4", "--quiet"))  # the alarm stays, but is not new
    assert (code, "sex = F" in err) == (1, False)
    code, out, _ = run(
        "monitor", "report", "--state", "m.json", "--html", "m.html", "--json", "r.json",
        "--table", "t.csv",
    )  # fmt: skip
    assert code == 1
    assert "sex = F under-predicted" in " ".join(out.split())
    monitor = rc.Monitor.load("m.json")
    assert out.startswith(str(monitor.report()))
    assert json.loads(Path("r.json").read_text()) == json.loads(monitor.to_json())
    assert Path("m.html").read_text() == monitor.to_html()
    assert pd.read_csv("t.csv")["group"].tolist() == monitor.table["group"].tolist()
    # Postcodes are text in the reference and stay text, although they look like numbers.
    assert "zip = 01234" in monitor.table["group"].tolist()
    assert monitor.table["rows"][0] == 3200


def test_late_labels_rows_without_labels_and_batches_twice(run, refused, weeks):
    assert run(*init())[0] == 0
    assert run(*update("week2"))[0] == 0
    before = Path("m.json").read_bytes()
    assert "added before" in refused(*update("week2"))
    assert "time goes backwards" in refused(*update("week1"))
    assert Path("m.json").read_bytes() == before
    assert run(*update("week1", "--late"))[0] == 0
    assert "pass --force if these are other rows" in refused(*update("week2"))
    assert run(*update("week2", "--force"))[0] == 0
    unlabelled = [word for word in update("week3") if word not in ("--label", "y")]
    assert run(*unlabelled, "--drop", "y")[0] == 0
    report = rc.Monitor.load("m.json").report()
    assert (report.n_rows, report.n_batches) == (2400, 4)


def test_a_model_that_needs_base_scores(run, refused, folder, weeks):
    model = ["--model", folder / "model.rcal"]
    assert run(*init(*model))[0] == 0
    assert run(*update("week1", *model))[0] in (0, 1)
    without = [word for word in update("week2", *model) if word not in ("--score-column", "p")]
    assert "needs base scores" in refused(*without)
    monitor = rc.Monitor.load("m.json", rc.load(folder / "model.rcal"))
    assert monitor.report().n_rows == 800


def test_what_is_wrong_is_said(run, refused, weeks):
    assert "no file 'm.json'" in refused(*update("week1"))
    assert run(*init("--tolerance", "0.05"))[0] == 0
    assert "--force" in refused(*init())
    assert run(*init("--force", "--tolerance", "0.02"))[0] == 0
    assert "not both" in refused(*update("week1", "--at", "3"))
    assert "no column 'q'" in refused(*update("week1", "--weight", "q"))
    assert "say what to watch" in refused("monitor", "update", "week1.csv", "--state", "m.json")
    Path("m.json").write_text("{}")
    assert "not the state of a monitor" in refused(*update("week1"))
    assert "must end in .json" in refused(*init()[:-1], "m.txt")


def test_a_recoded_column_is_an_error_unless_it_is_allowed(run, refused, weeks):
    assert run(*init())[0] == 0
    before = Path("m.json").read_bytes()
    rows = pd.read_csv("week1.csv", dtype={"zip": str})
    rows.assign(sex=rows["sex"].map({"F": "2", "M": "1"})).to_csv("week1.csv", index=False)
    said = refused(*update("week1"))
    assert "Column 'sex' has values that no group is for" in said
    assert "pass --allow-unknown" in said
    assert Path("m.json").read_bytes() == before
    code, _, err = run(*update("week1", "--allow-unknown"))
    assert (code, "warning: Column 'sex' has values" in err) == (0, True)


def test_codes_are_the_same_in_every_kind_of_file(run, weeks):
    """Numbers of a Parquet file stand for the text that a CSV file of them would have."""
    for name in ("reference", "week1", "week2"):
        rows = pd.read_csv(f"{name}.csv", dtype={"zip": str})
        rows["zip"] = rows["zip"].map({"01234": 1, "02345": 2, "10000": 30})
        if name == "week2":  # missing values make floats of integers
            rows.loc[:2, "zip"] = np.nan
        rows.astype({"zip": "Int64"}).to_csv(f"{name}.csv", index=False)
        rows.astype({"zip": float}).to_csv(f"{name}.tsv", index=False, sep="\t")  # 1.0 and 2.0
        rows.to_parquet(f"{name}.parquet", index=False)
    tables = []
    for suffix in (".csv", ".tsv", ".parquet"):
        command = [word.replace(".csv", suffix) for word in init("--force")]
        assert run(*command)[0] == 0
        for week in ("week1", "week2"):
            assert run(*[word.replace(".csv", suffix) for word in update(week)])[0] == 0
        tables.append(rc.Monitor.load("m.json").table)
    for other in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], other)
    assert "zip = 30" in tables[0]["group"].tolist()
    assert rc.Monitor.load("m.json").groups.schema.columns[1].categories == ("1", "2", "30")


def test_rows_without_a_label_are_skipped_on_request(run, refused, weeks):
    assert run(*init())[0] == 0
    rows = pd.read_csv("week1.csv", dtype={"zip": str})
    rows.loc[:99, "y"] = np.nan
    rows.to_csv("week1.csv", index=False)
    assert "has 100 missing values; remove these rows, or leave" in refused(*update("week1"))
    code, _, err = run(*update("week1", "--skip-unlabelled"))
    assert (code, err) == (
        0,
        "recalibrate monitor: warning: skipped 100 of 800 rows, whose label 'y' is missing\n",
    )
    monitor = rc.Monitor.load("m.json")
    own = rc.Monitor(groups=["sex", "zip"])
    reference = pd.read_csv("reference.csv", dtype={"zip": str})
    kept = rows[100:]
    own.start(reference, scores=reference["p"])
    own.update(kept, kept["y"], scores=kept["p"], time=kept["day"])
    pd.testing.assert_frame_equal(monitor.table, own.table)
    rows.assign(y=np.nan).to_csv("week1.csv", index=False)
    assert "no row has a label" in refused(*update("week1", "--skip-unlabelled"))


@pytest.mark.slow
def test_eight_updates_at_once(run, weeks):
    """Each waits for the others: what a command says it has added is in the state."""
    assert run(*init())[0] == 0
    for k in range(8):
        make_rows(50, seed=k).to_csv(f"batch{k}.csv", index=False)
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "recalibrate", "monitor", "update", f"batch{k}.csv"),
                *("--label", "y", "--wait", "500", *SCORES),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(8)
    ]
    said = [(*process.communicate(timeout=500), process.returncode) for process in running]
    assert all(code in (0, 1) for _, _, code in said), said
    report = rc.Monitor.load("m.json").report()
    assert (report.n_batches, report.n_rows) == (8, 400)
    assert sorted(out.partition(":")[2].split(" in ")[0] for out, _, _ in said) == sorted(
        f" {50 * k} rows" for k in range(1, 9)
    )
    assert [file for file in Path().iterdir() if file.name.startswith(".")] == []


def test_a_state_that_is_in_use_is_an_error_after_a_while(run, refused, weeks):
    assert run(*init())[0] == 0
    before = Path("m.json").read_bytes()
    with locked("m.json", timeout=0):
        for command in (update("week1"), init("--force")):
            assert "another process has been working on 'm.json'" in refused(
                *command, "--wait", "0"
            )
    assert Path("m.json").read_bytes() == before
    assert "--wait must be" in refused(*update("week1", "--wait", "-1"))
    assert "--wait must be" in refused(*init("--wait", "nan"))


def test_one_time_for_all_rows(run, weeks):
    assert run(*init())[0] == 0
    args = ["monitor", "update", "week1.csv", "--label", "y", *SCORES]
    assert run(*args, "--at", "2024-06-01")[0] == 0
    assert "2024-06-01" in str(rc.Monitor.load("m.json").report())


def test_actions_have_help(capsys):
    from recalibrate.commands import main

    for action in ("init", "update", "report"):
        assert main(["monitor", action, "--help"]) == 0
        assert "--state" in capsys.readouterr().out


def test_the_report_says_whether_a_refit_would_help(run, refused, weeks):
    assert run(*init())[0] == 0
    assert run(*update("week3"))[0] == 1
    report = ["monitor", "report", "--state", "m.json", "--data", "week4.csv"]
    code, out, _ = run(*report, "--label", "y", "--score-column", "p", "--drop", "id,day")
    assert code == 1
    assert "A refit on 480 recent rows would help" in " ".join(out.split())
    assert "name their --label" in refused(*report)
    assert "say what to watch" in refused(*report, "--label", "y")


def test_positive_says_what_scores_are_about_and_models_know(run, weeks):
    rows = pd.read_csv("week1.csv", dtype={"zip": str})
    rows.assign(y=np.where(rows["y"] == 1, "late", "on time")).to_csv("words.csv", index=False)
    fit = ["fit", "week2.csv", "--label", "y", "--score-column", "p", "--drop", "id,day,age,zip"]
    assert run(*fit, "--H", "groups(sex)", "-o", "m.rcal")[0] == 0
    gaps = {}
    for name, batch, more in (
        ("numbers", "week1", []),
        ("words", "words", ["--positive", "late"]),
        ("model", "week1", ["--model", "m.rcal"]),
        ("model of 1", "week1", ["--model", "m.rcal", "--positive", "0"]),
    ):
        own = ["--model", "m.rcal"] if "--model" in more else []
        assert run(*init("--force", *own))[0] == 0
        assert run(*update(batch, *more))[::2] == (0, "")
        shown = ["monitor", "report", "--state", "m.json", "--table", "t.csv", "--force"]
        assert run(*shown)[0] == 0
        gaps[name] = pd.read_csv("t.csv")["gap"][0]
    assert gaps["words"] == gaps["numbers"]
    assert gaps["model of 1"] == gaps["model"]
    assert max(map(abs, gaps.values())) < 0.05


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_under_the_output_does_not_leave_open_what_happened(run, weeks):
    assert run(*init())[0] == 0
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "recalibrate", *update("week1")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "output is incomplete; the batch was added to 'm.json' all the same" in done.stderr
    assert rc.Monitor.load("m.json").report().n_batches == 1


def test_codes_that_the_model_knows_with_a_point_keep_it(tmp_path):
    rows = pd.DataFrame({"zip": [1.0, 2.0, None], "grade": [1.5, 2.0, 3.0]})
    path = str(tmp_path / "rows.csv")
    rows.to_csv(path, index=False)
    for known, expected in [({}, "1"), ({"zip": ("1.0",)}, "1.0"), ({"zip": None}, "1.0")]:
        read = read_frame(path, text=["zip", "grade"], known_text=known)
        assert read["zip"].tolist()[0] == expected
        assert read["grade"].tolist() == ["1.5", "2.0", "3.0"]
