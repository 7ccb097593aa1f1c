"""A fairness audit: which groups is a model wrong for, beyond noise? Before and after.

    python examples/fairness_audit.py

The census is simulated. The base model sees age, schooling and hours, but neither sex nor race.
It is audited on rows that nobody has seen, by sex, race and their crossings and by a search for
further subgroups; recalibrated; and audited again with a gate, as a pipeline would.
"""

import tempfile
from pathlib import Path

from sklearn.ensemble import HistGradientBoostingClassifier

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]
GROUPS = rc.Groups("SEX", "RAC1P", "SEX*RAC1P", "AGEP < 25", "SEX*MAR", min_rows=100)


def main() -> None:
    train, calibration, test = (census(20_000, seed=seed, categorical=True) for seed in (1, 2, 3))
    base = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    base.fit(train.X[SEEN], train.y)

    before = rc.audit(base, test.X, test.y, groups=GROUPS, H=rc.Trees(depth=2))
    print(f"Before: {before.verdict}\n")
    print(before.discoveries)

    model = rc.fit(base, calibration.X, calibration.y, H=GROUPS)
    report = rc.audit(model, test.X, test.y, groups=GROUPS, baseline=True, thresholds=[0.5])
    print(f"\nAfter: {report.verdict}")
    columns = ["group", "rows", "mean_outcome", "before_gap", "gap", "low", "high"]
    print(report.table[columns].round(3).to_string(index=False))

    # The gate of a pipeline: an exception (or exit code 1 of `recalibrate audit --max-gap .05`)
    # if any group is off by more than .05 beyond noise.
    failing = [violation.group for violation in before.violations(max_gap=0.05)]
    print(f"\nBefore, {len(failing)} groups fail the gate: {', '.join(failing)}")
    report.check(max_gap=0.05)
    print("After, all groups pass.")

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "audit.html"
        report.to_html(page)
        print(f"The report is one HTML page of {page.stat().st_size // 1024} KB.")


if __name__ == "__main__":
    main()
