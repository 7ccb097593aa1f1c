"""Quality of the recalibrated predictions on test rows, against the base and other methods.

Cases are those of a folder (see ``quality_cases.py``), or a simulated one. Everything is fitted on
the calibration rows and measured on the test rows. Run with ``--help`` for options.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from measuring import timed
from quality_cases import (
    Case,
    Floats,
    Segment,
    calibration_rows,
    case_parser,
    find_pairs,
    find_segments,
    simulate_case,
)
from quality_figures import (
    LOSSES,
    SMALLEST,
    excess_error,
    figures,
    gap,
    gap_error,
    group_k2,
    squared_errors,
    standardised_gain,
)
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import recalibrate as rc

Predict = Callable[[], Floats]  # of the test rows, by something that was fitted

BASE, ISOTONIC, LINE = "base", "isotonic", "Platt/linear"
OURS, OURS_GROUPS = "recalibrate", "recalibrate H=Groups"
SIMPLE = (ISOTONIC, LINE)
NOISE = 2.0  # standard errors of a paired difference from which on it is more than noise


# --- methods --------------------------------------------------------------------------------------
def log_odds(p: Floats) -> Floats:
    """log p / (1 - p), p kept away from 0 and 1."""
    q = np.clip(p, SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(q) - np.log1p(-q))


def fit_isotonic(case: Case, base: str) -> Predict:
    """Best monotone function of the base score."""
    cal, test = case.bases[base]
    y, weight = rates(case)
    fitted = IsotonicRegression(out_of_bounds="clip").fit(cal, y, sample_weight=weight)
    return lambda: np.asarray(fitted.predict(test), dtype=np.float64)


def rates(case: Case) -> tuple[Floats, Floats | None]:
    """Labels of the calibration rows and their weights: counts by exposure."""
    e = case.exposure
    return (case.y[0], None) if e is None else (case.y[0] / e[0], e[0])


def fit_line(case: Case, base: str) -> Predict:
    """Best line through the base score, on the log-odds for 0/1 labels (Platt)."""
    cal, test = (scores[:, None] for scores in case.bases[base])
    if case.task == "counts":
        y, weight = rates(case)
        power = PoissonRegressor(alpha=0.0).fit(np.log(cal), y, sample_weight=weight)
        return lambda: np.asarray(power.predict(np.log(test)), dtype=np.float64)
    if case.task == "regression":
        fitted = LinearRegression().fit(cal, case.y[0])
        return lambda: np.asarray(fitted.predict(test), dtype=np.float64)
    platt = LogisticRegression(C=np.inf).fit(log_odds(cal), case.y[0])
    return lambda: np.asarray(platt.predict_proba(log_odds(test))[:, 1], dtype=np.float64)


def fit_model(case: Case, base: str, threads: int, *, groups: bool = False) -> rc.Recalibrated:
    """The default fit, for all features or for the case's groups."""
    cal, _ = case.bases[base]
    H = rc.Groups(*(f"`{column}`" for column in case.groups)) if groups else None
    kinds = case.categorical or None
    return rc.fit(
        cal,
        case.X[0],
        case.y[0],
        H,
        categorical=kinds,
        exposure=None if case.exposure is None else case.exposure[0],
        engine=rc.Engine(threads=threads),
        progress=False,
    )


def fit_ours(case: Case, base: str, threads: int, *, groups: bool = False) -> Predict:
    """The default fit as a method."""
    model = fit_model(case, base, threads, groups=groups)
    return lambda: model.predict(case.X[1], base=case.bases[base][1])


@dataclass(frozen=True, eq=False)
class Pair:
    """One base of one case: test predictions, seconds and figures by method."""

    case: Case
    base: str
    segments: list[Segment]
    predictions: dict[str, Floats]
    seconds: dict[str, float]
    figures: dict[str, dict[str, float]]

    def record(self) -> dict[str, Any]:
        """What is written of it."""
        methods = {m: known(f | {"fit_s": self.seconds[m]}) for m, f in self.figures.items()}
        return {"case": self.case.name, "base": self.base, "methods": methods}

    def losses(self, method: str, *, squared: bool = False) -> Floats:
        """Loss of every test row."""
        y, p = self.case.y[1], self.predictions[method]
        return squared_errors(y, p) if squared else LOSSES[self.case.task](y, p)

    def excess_gain(self, reference: str) -> float:
        """By how many standard errors the default's cell excess is lower than another's."""
        ours, theirs = self.predictions[OURS], self.predictions[reference]
        error = excess_error(self.case.y[1], ours, theirs, self.segments, self.case.task)
        found = self.figures[reference]["cell_excess"] - self.figures[OURS]["cell_excess"]
        return found / error if error > 0 else 0.0


def measure(case: Case, base: str, threads: int) -> Pair:
    """Fit and measure all methods."""
    segments = find_segments(case.X[1], case.groups)
    predictions, seconds = {BASE: case.bases[base][1]}, {BASE: np.nan}
    methods: dict[str, Callable[[], Predict]] = {
        ISOTONIC: lambda: fit_isotonic(case, base),
        LINE: lambda: fit_line(case, base),
        OURS: lambda: fit_ours(case, base, threads),
        OURS_GROUPS: lambda: fit_ours(case, base, threads, groups=True),
    }
    for method, fit in methods.items():
        predict, spent = timed(fit)
        seconds[method] = spent.wall
        predictions[method] = predict()
    for reference, (p, fit_seconds) in case.stored.get(base, {}).items():
        predictions[reference], seconds[reference] = p, fit_seconds
    if case.exposure is not None:  # counts are measured, not rates
        predictions = {name: p * case.exposure[1] for name, p in predictions.items()}
    measured = {method: figures(case, p, segments) for method, p in predictions.items()}
    return Pair(case, base, segments, predictions, seconds, measured)


# --- comparisons ----------------------------------------------------------------------------------
def count_wins(pairs: Sequence[Pair], reference: str) -> dict[str, Any]:
    """How often and by how much the default fit is better than a method, where there is one."""
    pairs = [pair for pair in pairs if reference in pair.figures]

    def both(figure: str) -> Floats:
        return np.array([[p.figures[m][figure] for p in pairs] for m in (OURS, reference)])

    def lower(figure: str) -> int:
        ours, theirs = both(figure)
        return int(np.sum(ours < theirs))

    gains = [standardised_gain(pair.losses(reference), pair.losses(OURS)) for pair in pairs]
    cell_gains = [pair.excess_gain(reference) for pair in pairs]
    loss, cells, pr = both("loss"), both("cell_excess"), both("pr_auc")
    # A ratio to a method that is calibrated up to noise would say nothing.
    ratios = np.divide(*cells[:, cells[1] > 0])
    return {
        "reference": reference,
        "pairs": len(pairs),
        "loss_lower": lower("loss"),
        "loss_beyond_noise": sum(gain > NOISE for gain in gains),
        "loss_worst_excess": float(np.max(loss[0] / loss[1] - 1)),
        "cell_excess_lower": lower("cell_excess"),
        "cell_excess_beyond_noise": sum(gain > NOISE for gain in cell_gains),
        "cell_excess_higher_beyond_noise": sum(gain < -NOISE for gain in cell_gains),
        "cell_excess_ratio": float(np.mean(ratios)) if len(ratios) else np.nan,
        "cell_excess_ratio_pairs": len(ratios),
        "cell_excess_means": cells.mean(axis=1).tolist(),
        "worst_group_ece_lower": lower("worst_group_ece"),
        "mce_sigma_means": both("mce_sigma").mean(axis=1).tolist(),
        "pr_auc_not_lower": int(np.sum(pr[0] >= pr[1])),
        "pr_auc_pairs": int(np.sum(np.isfinite(pr[1]))),
    }


def compare_with_base(pairs: Sequence[Pair], method: str, *, squared: bool) -> dict[str, Any]:
    """Gains over the base in standard errors: of the Brier score, or of another loss."""
    gains = {
        f"{pair.case.name}/{pair.base}": standardised_gain(
            pair.losses(BASE, squared=squared), pair.losses(method, squared=squared)
        )
        for pair in pairs
        if squared or pair.case.task != "regression"
    }
    worse = [name for name, gain in gains.items() if gain < -1.0]
    figure = "Brier" if squared else "log loss"  # of counts the deviance
    return {"method": method, "figure": figure, "gains": gains, "worse": worse}


def follow_worst_group(pair: Pair) -> dict[str, Any]:
    """The single column's group with the base's largest gap, before and after H=Groups."""
    y, everyone = pair.case.y[1], pair.segments[:1]
    groups = [segment for segment in pair.segments if segment.columns == 1] or everyone
    before, after = pair.predictions[BASE], pair.predictions[OURS_GROUPS]
    worst, then = (max(groups, key=lambda g: abs(gap(y, p, g.rows))) for p in (before, after))
    known_rows = calibration_rows(pair.case, worst.label)
    scored, e = pair.case.bases[pair.base][0], pair.case.exposure
    seen = (pair.case.y[0], scored if e is None else scored * e[0], known_rows)
    return {
        "case": pair.case.name,
        "base": pair.base,
        "group": worst.label,
        "rows": int(worst.rows.sum()),
        "gap": [gap(y, p, worst.rows) for p in (before, after)],
        "k2": [group_k2(y, p, worst.rows) for p in (before, after)],
        "k2_unbiased": [group_k2(y, p, worst.rows, unbiased=True) for p in (before, after)],
        "gap_error": gap_error(y, after, worst.rows),
        "calibration_gap": gap(*seen) if known_rows.any() else 0.0,
        "calibration_error": gap_error(*seen) if known_rows.any() else 0.0,
        "worst_after": {"group": then.label, "gap": gap(y, after, then.rows)},
    }


# --- printing -------------------------------------------------------------------------------------
COLUMNS = (
    "loss",
    "log_loss",
    "brier",
    "pr_auc",
    "ece",
    "worst_group_ece",
    "mce_sigma",
    "cell_excess",
)
DIGITS = {"mce_sigma": 2, "cell_excess": 3}


def show_number(value: float, digits: int) -> str:
    """The number, or a dash for one that does not apply."""
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def show_pair(pair: Pair) -> str:
    """The table of one base of one case."""
    case = pair.case
    cells = [["", *COLUMNS, "fit s"]]
    for method, values in pair.figures.items():
        numbers = [show_number(values[name], DIGITS.get(name, 5)) for name in COLUMNS]
        cells.append([method, *numbers, show_number(pair.seconds[method], 2)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = ["  ".join(map(str.rjust, row, widths)) for row in cells]
    rows = f"{len(case.y[0]):,} calibration rows, {len(case.y[1]):,} test rows"
    title = f"{case.name} / {pair.base}: {case.task}, {rows}, {len(pair.segments)} segments"
    return "\n".join([title, *shown])


def show_wins(wins: dict[str, Any]) -> str:
    """The counts against one method."""
    n, n_pr = wins["pairs"], wins["pr_auc_pairs"]
    cells, sigma = wins["cell_excess_means"], wins["mce_sigma_means"]
    ratio = show_number(wins["cell_excess_ratio"], 2)
    return (
        f"against {wins['reference']}: loss lower on {wins['loss_lower']} of {n} "
        f"({wins['loss_beyond_noise']} beyond {NOISE:g} standard errors; worst relative excess "
        f"{wins['loss_worst_excess']:+.2%}); cell_excess lower on {wins['cell_excess_lower']} of "
        f"{n} (beyond {NOISE:g} standard errors lower on {wins['cell_excess_beyond_noise']}, "
        f"higher on {wins['cell_excess_higher_beyond_noise']}), mean ratio {ratio} over "
        f"{wins['cell_excess_ratio_pairs']} (means {cells[0]:.3f} and {cells[1]:.3f}); "
        f"worst_group_ece lower on {wins['worst_group_ece_lower']} of {n}; mce_sigma means "
        f"{sigma[0]:.2f} and {sigma[1]:.2f}"
        + (f"; PR-AUC not lower on {wins['pr_auc_not_lower']} of {n_pr}" if n_pr else "")
    )


def show_comparison(found: dict[str, Any]) -> str:
    """A method against the base."""
    gains, worse = found["gains"], found["worse"]
    said = "; worse on " + ", ".join(f"{name} ({gains[name]:.1f})" for name in worse)
    return (
        f"{found['method']} against base: {found['figure']} not worse beyond one standard error "
        f"on {len(gains) - len(worse)} of {len(gains)}{said if worse else ''}"
    )


def show_worst_group(found: dict[str, Any]) -> str:
    """What became of the base's worst group."""

    def change(name: str, form: str) -> str:
        return " -> ".join(format(value, form) for value in found[name])

    return (
        f"{found['case']} / {found['base']}: {found['group']} ({found['rows']:,} rows): gap "
        f"{change('gap', '+.4f')} (standard error {found['gap_error']:.4f}; before, on calibration "
        f"rows, {found['calibration_gap']:+.4f}, {found['calibration_error']:.4f}), K2 "
        f"{change('k2', '.2e')} (bias removed {change('k2_unbiased', '.2e')}); afterwards the "
        f"worst is {found['worst_after']['group']}, gap {found['worst_after']['gap']:+.4f}"
    )


# --- command --------------------------------------------------------------------------------------
def known(values: dict[str, Any]) -> dict[str, Any]:
    """Without what does not apply: JSON has no NaN."""
    return {name: value for name, value in values.items() if value == value}


def warm_up(threads: int) -> None:
    """Compile before anything is timed."""
    case = simulate_case(6000)
    for y in (case.y, case.bases["tree"]):
        for groups in (False, True):
            fit_ours(replace(case, y=y), "lr", threads, groups=groups)()


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print; returns what ``--json`` writes."""
    made = case_parser(__doc__, rows=60_000)
    made.add_argument("--json", type=Path, help="file to write all figures to")
    arguments = made.parse_args(argv)
    warm_up(arguments.threads)
    pairs = []
    for case, base in find_pairs(arguments):
        pairs.append(measure(case, base, arguments.threads))
        print(show_pair(pairs[-1]) + "\n", flush=True)
    if not pairs:
        raise SystemExit(f"no case has a base {', '.join(arguments.bases)}")
    stored = dict.fromkeys(name for pair in pairs for name in pair.case.stored.get(pair.base, {}))
    wins = [count_wins(pairs, name) for name in (*SIMPLE, *stored)]
    methods = [(method, squared) for method in (OURS, OURS_GROUPS) for squared in (True, False)]
    bases = [compare_with_base(pairs, method, squared=squared) for method, squared in methods]
    groups = [follow_worst_group(pair) for pair in pairs]
    print(f"{OURS} (default)", *map(show_wins, wins), "", sep="\n")
    print(*(show_comparison(found) for found in bases if found["gains"]), "", sep="\n")
    title = f"{OURS_GROUPS}: the base's worst group, before and after"
    print(title, *map(show_worst_group, groups), sep="\n")
    result = {
        "pairs": [pair.record() for pair in pairs],
        "wins": [known(each) for each in wins],
        "against_base": bases,
        "worst_groups": groups,
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main()
