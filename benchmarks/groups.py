"""Named groups: H=Groups beside ten lines anyone writes, and beside MCGrad on the same columns.

    python benchmarks/groups.py FOLDER --sizes 3000,all
    python benchmarks/groups.py FOLDER --crossed --mcgrad ~/mcgrad/bin/python

The calibration rows of every case of ``quality.py`` are cut in half, at random: one half
calibrates (all of it, or some of its rows), the other tests, so settings can be chosen by it. The
groups are those of the case's group columns, numeric ones in quartiles; with ``--crossed`` also of
all pairs of them. By hand: logistic regression on the log-odds of the score and indicators of the
groups (C = 1), for regressions ridge regression (1). MCGrad runs in an environment of its own, as
in ``lgbmcv.py``, once on the same groups as categories and once with numeric columns as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from few_rows import draw
from halves import halves
from lgbmcv import ask_mcgrad
from quality import log_odds
from quality_cases import Case, Floats, Mask, case_parser, find_pairs, find_segments, group_codes
from quality_figures import cell_excess, group_k2, log_losses, squared_errors
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import OneHotEncoder

import recalibrate as rc

BASE, OURS, DUMMIES = "base", "recalibrate", "dummies"
MCGRAD, WHOLE = "MCGrad", "MCGrad with whole numbers"
FIGURES = ("loss", "rms gap", "worst gap", "off", "newly off", "cell excess", "K2 in groups")
ERRORS = 3.0  # standard errors from which on a group is off


def terms(case: Case, crossed: bool) -> list[str]:
    """The case's groups as expressions."""
    columns = [f"`{column}`" for column in case.groups]
    pairs = [f"{a} * {b}" for a, b in combinations(columns, 2)]
    return columns + pairs if crossed else columns


def fit_ours(case: Case, base: str, crossed: bool, threads: int) -> Floats:
    """Test predictions of a default fit with named groups."""
    cal, test = case.bases[base]
    model = rc.fit(
        cal,
        case.X[0],
        case.y[0],
        rc.Groups(*terms(case, crossed)),
        categorical=case.categorical or None,
        engine=rc.Engine(threads=threads),
        progress=False,
    )
    return model.predict(case.X[1], base=test)


def coded(case: Case, crossed: bool) -> tuple[Floats, Floats]:
    """Group numbers of calibration and test rows, a column for each group column (and pair)."""
    cal, test = case.X
    parts = [(group_codes(cal[c])[0], group_codes(cal[c], test[c])[0]) for c in case.groups]
    if crossed:
        parts += [
            tuple(one[k] * 1000 + two[k] for k in (0, 1))  # type: ignore[misc]
            for one, two in combinations(parts, 2)
        ]
    first, second = (np.column_stack([part[k] for part in parts]) for k in (0, 1))
    return first, second


def banded(case: Case) -> Case:
    """The case with its group columns as categories, numeric ones in the bands of the groups."""
    codes = coded(case, crossed=False)
    X = tuple(
        pd.DataFrame({c: [f"group {k}" for k in part[:, j]] for j, c in enumerate(case.groups)})
        for part in codes
    )
    return replace(case, X=(X[0], X[1]), categorical=())


def fit_dummies(case: Case, base: str, crossed: bool) -> Floats:
    """Test predictions of a regression on the score and an indicator of every group."""
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    cal, test = coded(case, crossed)
    scores = [log_odds(s) if case.task == "binary" else s for s in case.bases[base]]
    own = np.column_stack([scores[0], encoder.fit_transform(cal)])
    new = np.column_stack([scores[1], encoder.transform(test)])
    if case.task == "binary":
        fitted = LogisticRegression(C=1.0, max_iter=5000).fit(own, case.y[0])
        return np.asarray(fitted.predict_proba(new)[:, 1])
    return np.asarray(Ridge(1.0).fit(own, case.y[0]).predict(new))


def deviation(case: Case, p: Floats, rows: Mask) -> float:
    """Standard error of a group's gap if the predictions are right."""
    if case.task == "binary":
        return float(np.sqrt(np.sum((p * (1 - p))[rows])) / rows.sum())
    return float(np.std((case.y[1] - p)[rows]) / np.sqrt(rows.sum()))


def measure(case: Case, base: str, crossed: bool, threads: int, mcgrad: str | None) -> Any:
    """Figures by method."""
    found = {
        BASE: case.bases[base][1],
        DUMMIES: fit_dummies(case, base, crossed),
        OURS: fit_ours(case, base, crossed, threads),
    }
    if mcgrad is not None:
        for method, given in ((MCGRAD, banded(case)), (WHOLE, case)):
            test = given.X[1], case.bases[base][1]
            found[method] = ask_mcgrad(mcgrad, given, base, case.groups, test)[2]
    y, segments = case.y[1], find_segments(case.X[1], case.groups)
    named = [s.rows for s in segments if s.columns == 1 or (crossed and s.columns == 2)]
    losses = log_losses if case.task == "binary" else squared_errors

    def distances(p: Floats) -> tuple[Floats, Floats]:
        gaps = np.array([np.mean((y - p)[rows]) for rows in named])
        return gaps, np.array([deviation(case, p, rows) for rows in named])

    gaps, errors = distances(found[BASE])
    fine = np.abs(gaps) < ERRORS * errors
    result = {}
    for method, p in found.items():
        gaps, errors = distances(p)
        off = np.abs(gaps) > ERRORS * errors
        result[method] = [
            float(np.mean(losses(y, p))),
            float(np.mean(gaps**2 - errors**2)),
            float(np.abs(gaps).max()),
            int(off.sum()),
            int((off & fine).sum()),
            cell_excess(y, p, segments, case.task),
            float(np.mean([group_k2(y, p, rows, unbiased=True) for rows in named])),
        ]
    return result


def show(result: dict[str, dict[str, Floats]], reference: str) -> dict[str, float]:
    """Share of pairs on which the fit is not above a reference, by figure, and totals."""
    pairs = [each for each in result.values() if reference in each]
    ours, theirs = (np.array([each[m] for each in pairs]) for m in (OURS, reference))
    shares = np.mean(ours <= theirs, axis=0)
    change = 100 * float(np.mean(ours[:, 0] / theirs[:, 0] - 1))
    print(
        f"against {reference} ({len(pairs)} pairs): loss {change:+.2f} % on average; not above on"
    )
    for k, name in enumerate(FIGURES):
        print(f"{name:>14}{100 * shares[k]:>6.0f} %", end="")
        print(f"   mean {ours[:, k].mean():.5g}, there {theirs[:, k].mean():.5g}")
    return dict(zip(FIGURES, shares.tolist(), strict=True))


def main(argv: Sequence[str] | None = None) -> dict[str, dict[str, dict[str, Floats]]]:
    """Measure and print; returns the mean figures by size, pair and method."""
    made = case_parser(__doc__, rows=20_000)
    made.add_argument("--sizes", type=lambda text: text.split(","), default=["all"])
    made.add_argument("--draws", type=int, default=1)
    made.add_argument("--crossed", action="store_true", help="all pairs of the columns, too")
    made.add_argument("--mcgrad", help="a Python that has mcgrad")
    arguments = made.parse_args(argv)
    crossed, threads, mcgrad = arguments.crossed, arguments.threads, arguments.mcgrad
    pairs, found = list(find_pairs(arguments)), {}
    for size in arguments.sizes:
        result: dict[str, dict[str, Floats]] = {}
        for case, base in pairs:
            if size == "all":
                cut = list(halves(case, arguments.draws))[: 2 * arguments.draws]
            else:
                cut = [draw(case, int(size), k) for k in range(arguments.draws)]
            runs = [measure(each, base, crossed, threads, mcgrad) for each in cut]
            mean = {m: np.mean([run[m] for run in runs], axis=0) for m in runs[0]}
            result[f"{case.name} / {base}"] = mean
            said = "; ".join(f"{m} {mean[m][0]:.5f} {mean[m][5]:.2f}" for m in mean)
            print(f"{size} {case.name} / {base} (loss, cell excess): {said}", flush=True)
        for reference in (DUMMIES, MCGRAD, WHOLE):
            if reference in next(iter(result.values())):
                show(result, reference)
        found[size] = result
    return found


if __name__ == "__main__":
    main()
