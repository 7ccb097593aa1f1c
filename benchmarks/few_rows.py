"""Few calibration rows: the default fit beside the simplest calibrators, from 100 rows on.

Rows are drawn from the calibration rows of every case of ``quality.py``, and the loss is measured
on the other calibration rows, so settings can be chosen by it. References: the base, Platt scaling
(regressions: a line), isotonic regression, beta calibration, and ``lgbmcv`` of ``lgbmcv.py``.
Needs lightgbm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from halves import cut
from lgbmcv import fit_lgbmcv, predict_lgbmcv
from quality import fit_isotonic, fit_line, fit_ours, log_odds
from quality_cases import Case, Floats, case_parser, find_pairs, find_segments
from quality_figures import cell_excess, log_losses, squared_errors
from sklearn.linear_model import LogisticRegression

BASE, PLATT, ISOTONIC, BETA, LGBM = "base", "Platt/line", "isotonic", "beta", "lgbmcv"
OURS, GROUPS = "recalibrate", "H=Groups"
SIZES = (100, 300, 1000, 3000, 10_000)
LEAST_TEST_ROWS, MOST_TEST_ROWS = 1000, 10_000
CLOSE, HARM = 0.5, 0.5  # per cent of the loss


def fit_beta(case: Case, base: str) -> Floats:
    """Beta calibration [1]: log-odds a + b log p - c log(1 - p), b and c not below 0.

    [1] M. Kull, T. Silva Filho, P. Flach, "Beta calibration", AISTATS 2017. A parameter that
    would be below 0 is left out, as the authors do.
    """

    def design(scores: Floats) -> Floats:
        s = log_odds(scores)
        return np.column_stack([-np.logaddexp(0.0, -s), np.logaddexp(0.0, s)])

    cal, test = (design(scores) for scores in case.bases[base])
    kept = [0, 1]
    fitted = LogisticRegression(C=np.inf).fit(cal, case.y[0])
    while kept and (fitted.coef_[0] < 0).any():
        kept = [k for k, value in zip(kept, fitted.coef_[0], strict=True) if value >= 0]
        if not kept:
            return np.full(len(test), case.y[0].mean())
        fitted = LogisticRegression(C=np.inf).fit(cal[:, kept], case.y[0])
    return np.asarray(fitted.predict_proba(test[:, kept])[:, 1])


def predictions(case: Case, base: str, threads: int, groups: bool) -> dict[str, Floats]:
    """Test predictions by method."""
    found = {BASE: case.bases[base][1]}
    one_label = len(np.unique(case.y[0])) == 1
    methods: dict[str, Callable[[], Floats]] = {
        PLATT: lambda: fit_line(case, base)(),
        ISOTONIC: lambda: fit_isotonic(case, base)(),
        BETA: lambda: fit_beta(case, base),
        LGBM: lambda: predict_lgbmcv(case, base, fit_lgbmcv(case, base, threads)[0]),
    }
    if case.task != "binary":
        del methods[BETA]
    for method, fit in methods.items():
        # A draw without an event has no line, and whoever fits one by hand keeps the base.
        found[method] = found[BASE] if one_label else fit()
    found[OURS] = fit_ours(case, base, threads)()
    if groups:
        found[GROUPS] = fit_ours(case, base, threads, groups=True)()
    return found


def measure(case: Case, base: str, threads: int, groups: bool) -> dict[str, tuple[float, float]]:
    """Loss and cell excess by method."""
    y, task = case.y[1], case.task
    losses = log_losses if task == "binary" else squared_errors
    segments = find_segments(case.X[1], case.groups)
    return {
        method: (float(np.mean(losses(y, p))), cell_excess(y, p, segments, task))
        for method, p in predictions(case, base, threads, groups).items()
    }


def draw(case: Case, n: int, number: int) -> Case:
    """``n`` calibration rows, and others to test on."""
    order = np.random.default_rng(number).permutation(len(case.y[0]))
    return cut(case, np.sort(order[:n]), np.sort(order[n : n + MOST_TEST_ROWS]))


def show(runs: Sequence[dict[str, tuple[float, float]]]) -> dict[str, list[float]]:
    """Print a line per method: its figures over all runs."""
    result = {}
    ours = [m for m in runs[0] if m in (OURS, GROUPS)]
    for method in dict.fromkeys([BASE, PLATT, ISOTONIC, BETA, LGBM, *ours]):
        own = [run for run in runs if method in run]
        if not own:
            continue
        change = np.array([100 * (run[method][0] / run[BASE][0] - 1) for run in own])
        lowest = [min(v[0] for m, v in run.items() if m not in (OURS, GROUPS)) for run in own]
        behind = [100 * (run[method][0] / low - 1) for run, low in zip(own, lowest, strict=True)]
        figures = [
            float(np.mean(change)),
            100 * float(np.mean(np.array(behind) <= CLOSE)),
            100 * float(np.mean(change > HARM)),
            float(np.mean([run[method][1] for run in own])),
        ]
        result[method] = figures
        print(f"{method:>14}{figures[0]:>+9.2f} %{figures[1]:>9.0f} %{figures[2]:>9.0f} %", end="")
        print(f"{figures[3]:>13.2f}", flush=True)
    return result


def main(argv: Sequence[str] | None = None) -> dict[int, dict[str, list[float]]]:
    """Measure and print; returns the figures by number of rows and method."""
    made = case_parser(__doc__, rows=12_000)
    made.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=SIZES)
    made.add_argument("--draws", type=int, default=3)
    made.add_argument("--groups", action="store_true", help="also H=Groups of the case's columns")
    arguments = made.parse_args(argv)
    result, found = {}, list(find_pairs(arguments))
    for n in arguments.sizes:
        # A case that has no rows left to test on has nothing to say about this size.
        least = n + min(LEAST_TEST_ROWS, n)
        pairs = [(case, base) for case, base in found if len(case.y[0]) >= least]
        if not pairs:
            print(f"\n{n} rows: no case has {least} calibration rows")
            continue
        runs = [
            measure(draw(case, n, k), base, arguments.threads, arguments.groups)
            for case, base in pairs
            for k in range(arguments.draws)
        ]
        print(f"\n{n} rows: {len(pairs)} pairs, {arguments.draws} draws each")
        print(f"{'':>14}{'loss':>11}{'close':>11}{'harmed':>11}{'cell excess':>13}")
        result[n] = show(runs)
    print(
        f"\nloss: mean change against the base; close: runs within {CLOSE} % of the lowest loss of "
        f"the references; harmed: runs with a loss more than {HARM} % above the base's"
    )
    return result


if __name__ == "__main__":
    main()
