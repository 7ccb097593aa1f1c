"""Quality of the default fit on halves of calibration rows, beside LightGBM tuned by hand.

One draw of test rows says little about calibration inside small cells. Here every case of
``quality.py`` is cut in half, at random: one half calibrates, the other tests, in both directions,
with several draws where rows are few. Only calibration rows are used, so settings can be chosen
by it. Beside the default fit: the same fit without its level-set stage, and ``lgbmcv`` of
``lgbmcv.py``. Needs lightgbm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from lgbmcv import fit_lgbmcv, predict_lgbmcv
from quality import fit_ours
from quality_cases import Case, Codes, case_parser, find_pairs, find_segments
from quality_figures import figures

OURS, NO_LEVELS, GROUPS, LGBM = "recalibrate", "without level sets", "H=Groups", "lgbmcv"
FIGURES = ("loss", "cell_excess", "worst_group_ece", "mce_sigma")
MANY_ROWS = 20_000
"""From here on one draw is enough."""


def halves(case: Case, draws: int) -> Iterator[Case]:
    """The calibration rows of a case as calibration and test rows."""
    n = len(case.y[0])
    for draw in range(1 if n >= MANY_ROWS else draws):
        order = np.random.default_rng(100 + draw).permutation(n)
        first, second = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
        yield cut(case, first, second)
        yield cut(case, second, first)


def cut(case: Case, cal: Codes, test: Codes) -> Case:
    """Some of the calibration rows, and others to test on."""
    X, y = case.X[0], case.y[0]
    return replace(
        case,
        X=(X.iloc[cal].reset_index(drop=True), X.iloc[test].reset_index(drop=True)),
        y=(y[cal], y[test]),
        bases={name: (scores[cal], scores[test]) for name, (scores, _) in case.bases.items()},
        stored={},
    )


def measure(case: Case, base: str, threads: int) -> dict[str, list[float]]:
    """Figures by method."""
    segments = find_segments(case.X[1], case.groups)
    as_it_is = patch(
        "recalibrate.fitting.default.boosting.add_level_sets",
        lambda model, *_: (model, "no level sets"),
    )
    predictions = {
        OURS: fit_ours(case, base, threads)(),
        GROUPS: fit_ours(case, base, threads, groups=True)(),
        LGBM: predict_lgbmcv(case, base, fit_lgbmcv(case, base, threads)[0]),
    }
    with as_it_is:
        predictions[NO_LEVELS] = fit_ours(case, base, threads)()
    found = {method: figures(case, p, segments) for method, p in predictions.items()}
    return {method: [each[name] for name in FIGURES] for method, each in found.items()}


def show(method: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """A line: the loss as a relative difference, the rest as it is."""
    change = 100 * (ours[0] / theirs[0] - 1)
    return f"{method:>20}{change:>+9.3f} %{ours[1]:>13.3f}{ours[2]:>17.4f}{ours[3]:>11.2f}"


def main(argv: Sequence[str] | None = None) -> dict[str, dict[str, list[float]]]:
    """Measure and print; returns the mean figures by pair and method."""
    made = case_parser(__doc__, rows=30_000)
    made.add_argument("--draws", type=int, default=3, help="random halves of smaller cases")
    arguments = made.parse_args(argv)
    result = {}
    for case, base in find_pairs(arguments):
        runs = [measure(h, base, arguments.threads) for h in halves(case, arguments.draws)]
        mean = {m: np.mean([run[m] for run in runs], axis=0).tolist() for m in runs[0]}
        result[f"{case.name} / {base}"] = mean
        print(f"{case.name} / {base}: {len(runs)} runs")
        print(f"{'':>20}{'loss':>11}" + "".join(f"{f:>{w}}" for f, w in COLUMNS))
        print(*(show(m, mean[m], mean[LGBM]) for m in mean), "", sep="\n", flush=True)
    print(f"means over {len(result)} pairs, and how many are lower than lgbmcv")
    for method in (OURS, NO_LEVELS, LGBM):
        ours, theirs = (np.array([r[m] for r in result.values()]) for m in (method, LGBM))
        wins = np.sum(ours < theirs, axis=0)
        relative = 100 * np.mean(ours[:, 0] / theirs[:, 0] - 1)
        means = ", ".join(
            f"{name} {value:.4g} ({won})"
            for name, value, won in zip(FIGURES[1:], ours.mean(axis=0)[1:], wins[1:], strict=True)
        )
        print(f"{method:>20}: loss {relative:+.3f} % ({wins[0]}), {means}")
    return result


COLUMNS = (("cell_excess", 13), ("worst_group_ece", 17), ("mce_sigma", 11))

if __name__ == "__main__":
    main()
