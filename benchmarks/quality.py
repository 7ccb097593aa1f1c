"""Quality of the recalibrated predictions on test rows, against the base and other methods.

A folder holds cases: ``NAME.parquet`` with features, ``y``, ``split`` ("cal" or "test"), scores
``base_<base>`` and, if there are any, predictions of other methods ``<reference>_<base>``; and
``NAME.json`` with ``task`` ("binary" or "regression"), ``cat``, ``num`` (features) and ``groups``
(columns). Without a folder a case is simulated. Everything is fitted on the calibration rows and
measured on the test rows. Run with ``--help`` for options.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import recalibrate as rc
from recalibrate.simulate import census

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Predict = Callable[[], Floats]  # of the test rows, by something that was fitted

BASE, ISOTONIC, LINE = "base", "isotonic", "Platt/linear"
OURS, OURS_GROUPS = "recalibrate", "recalibrate H=Groups"
SIMPLE = (ISOTONIC, LINE)

LEAST_SHARE = 0.005  # of the test rows, for a segment to be looked at
MOST_VALUES = 12  # a numeric group column with more distinct values is cut into four bands
LEAST_CELL_ROWS, BINS = 25, 10
SMALLEST = 1e-6  # distance of probabilities from 0 and 1 where a logarithm is taken
NOISE = 2.0  # standard errors of a paired difference from which on it is more than noise


# --- cases ----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Segment:
    """Some of the test rows; ``columns`` is how many columns define them (0: everyone)."""

    label: str
    rows: Mask
    columns: int


@dataclass(frozen=True, eq=False)
class Case:
    """Calibration and test rows of one data set.

    ``bases`` holds the scores (calibration, test) by base; ``stored`` other methods' test
    predictions, and the seconds their fits took where they were made, by base and method.
    """

    name: str
    task: str
    X: tuple[pd.DataFrame, pd.DataFrame]
    y: tuple[Floats, Floats]
    groups: tuple[str, ...]
    categorical: tuple[str, ...]
    bases: dict[str, tuple[Floats, Floats]]
    stored: dict[str, dict[str, tuple[Floats, float]]] = field(default_factory=dict)


def read_case(folder: Path, name: str) -> Case:
    """One case of a folder."""
    frame = pd.read_parquet(folder / f"{name}.parquet")
    about = json.loads((folder / f"{name}.json").read_text())
    features = [*about["cat"], *about["num"]]
    if missing := sorted({*features, "y", "split"} - set(frame.columns)):
        raise SystemExit(f"case {name}: {name}.parquet has no column {', '.join(missing)}")
    if not about["groups"] or not set(about["groups"]) <= set(features):
        raise SystemExit(
            f"case {name}: groups must name columns of cat or num, got {about['groups']}"
        )
    if about["task"] not in ("binary", "regression"):
        raise SystemExit(f"case {name}: task must be binary or regression, got {about['task']!r}")
    cal, test = (frame[frame["split"] == part].reset_index(drop=True) for part in ("cal", "test"))

    def finite(rows: pd.DataFrame, column: str) -> Floats:
        values = rows[column].to_numpy(np.float64)
        if not (len(values) and np.isfinite(values).all()):
            raise SystemExit(f"case {name}: {column} needs cal and test rows, all of them finite")
        return values

    scores = [column for column in frame.columns if column not in {*features, "y", "split"}]
    bases = {
        column.removeprefix("base_"): (finite(cal, column), finite(test, column))
        for column in scores
        if column.startswith("base_")
    }
    if not bases:
        raise SystemExit(f"case {name}: {name}.parquet has no scores base_<base>")
    seconds = about.get("seconds", {})
    stored = {
        base: {
            column.removesuffix(f"_{base}"): (
                finite(test, column),
                float(seconds.get(column, {}).get("fit", np.nan)),
            )
            for column in scores
            if column.endswith(f"_{base}") and not column.startswith("base_")
        }
        for base in bases
    }
    return Case(
        name=name,
        task=about["task"],
        X=(cal[features], test[features]),
        y=(finite(cal, "y"), finite(test, "y")),
        groups=tuple(about["groups"]),
        categorical=tuple(c for c in about["cat"] if pd.api.types.is_numeric_dtype(frame[c])),
        bases=bases,
        stored=stored,
    )


def simulate_case(rows: int) -> Case:
    """A simulated census with two bases, one too simple and one over-fitted.

    A third of the rows trains the bases, a third calibrates, a third tests.
    """
    train, cal, test = (census(rows // 3, seed=seed) for seed in (1, 2, 3))
    few = ["AGEP", "SCHL", "WKHP"]
    simple = make_pipeline(StandardScaler(), LogisticRegression()).fit(train.X[few], train.y)
    tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0).fit(train.X, train.y)

    def scores(model: Any, columns: list[Any]) -> tuple[Floats, Floats]:
        first, second = (model.predict_proba(part.X[columns])[:, 1] for part in (cal, test))
        return first, second

    return Case(
        name="simulated census",
        task="binary",
        X=(cal.X, test.X),
        y=(cal.y, test.y),
        groups=("SEX", "RAC1P", "AGEP", "MAR", "SCHL"),
        categorical=("COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"),
        bases={"lr": scores(simple, few), "tree": scores(tree, train.X.columns.to_list())},
    )


def group_codes(values: pd.Series[Any]) -> tuple[Codes, list[str]]:
    """Group of every row, and the groups' names.

    Categories and few distinct numbers are taken as they are, other numbers in four quantile
    bands, where a missing number stands with the largest.
    """
    if values.dtype.kind in "iuf" and values.nunique() > MOST_VALUES:
        edges = np.unique(np.quantile(values.dropna(), [0.25, 0.5, 0.75]))
        ends = ["-inf", *(f"{edge:g}" for edge in edges), "inf"]
        bands = [f"{values.name} in [{low}, {high})" for low, high in pairwise(ends)]
        return np.searchsorted(edges, values.to_numpy(), side="right"), bands
    codes, names = pd.factorize(values, use_na_sentinel=False)
    return codes, [f"{values.name}={name}" for name in names]


def find_segments(X: pd.DataFrame, columns: Sequence[str]) -> list[Segment]:
    """Everyone, every group, and every crossing of two columns' groups that is large enough."""
    coded = {column: group_codes(X[column]) for column in columns}
    found = [Segment("everyone", np.ones(len(X), dtype=bool), 0)]
    for size in (1, 2):
        for chosen in combinations(columns, size):
            code = np.zeros(len(X), dtype=np.intp)
            labels = [""]
            for codes, names in (coded[column] for column in chosen):
                code = code * len(names) + codes
                labels = [f"{a} and {b}" if a else b for a in labels for b in names]
            for value in np.unique(code):
                rows = code == value
                if LEAST_SHARE <= rows.mean() < 1.0:
                    found.append(Segment(labels[value], rows, size))
    return found


# --- figures --------------------------------------------------------------------------------------
def squared_errors(y: Floats, p: Floats) -> Floats:
    """(p - y)^2 of every row; their mean is the Brier score."""
    return (p - y) ** 2


def log_losses(y: Floats, p: Floats) -> Floats:
    """-y log p - (1 - y) log(1 - p) of every row, p kept away from 0 and 1."""
    q = np.clip(p, SMALLEST, 1 - SMALLEST)
    return np.asarray(-(y * np.log(q) + (1 - y) * np.log(1 - q)))


def pr_auc(y: Floats, p: Floats) -> float:
    """Average precision: sum over thresholds t of precision(t) * (recall(t) - recall before t)."""
    _, where = np.unique(-p, return_inverse=True)
    hits, rows = np.cumsum(np.bincount(where, weights=y)), np.cumsum(np.bincount(where))
    return float(np.sum(np.diff(hits, prepend=0.0) * hits / rows) / hits[-1])


def ece(y: Floats, p: Floats) -> float:
    """sum_b P(b) |E[p - y | b]| over ten bins b of equal width in [0, 1]."""
    b = np.clip((p * BINS).astype(np.intp), 0, BINS - 1)
    return float(np.abs(np.bincount(b, weights=p - y)).sum() / len(y))


def worst_group_ece(y: Floats, p: Floats, segments: Sequence[Segment]) -> float:
    """Largest `ece` of everyone and of the groups of single columns."""
    return max(ece(y[s.rows], p[s.rows]) for s in segments if s.columns < 2)


def cumulative_sigma(y: Floats, p: Floats, task: str) -> float:
    """(max_k S_k - min_k S_k) / sigma, S_k = sum of y - p over the rows with the k lowest p.

    S_0 = 0, and rows of equal p enter together. sigma is the standard deviation of S_n if p is
    right: sigma^2 = sum p (1 - p), for other than 0/1 labels sum (r_{i+1} - r_i)^2 / 2 with
    r = y - p in the order of p.
    """
    order = np.argsort(p, kind="stable")
    sorted_p, residual = p[order], (y - p)[order]
    complete = np.flatnonzero(np.append(np.diff(sorted_p) != 0, True))
    walk = np.append(0.0, np.cumsum(residual)[complete])
    variance = np.sum(p * (1 - p)) if task == "binary" else np.sum(np.diff(residual) ** 2) / 2
    return float(np.ptp(walk) / np.sqrt(max(variance, 1e-12)))


def mce_sigma(y: Floats, p: Floats, segments: Sequence[Segment], task: str) -> float:
    """Largest `cumulative_sigma` of all segments."""
    return max(cumulative_sigma(y[s.rows], p[s.rows], task) for s in segments)


def deciles(p: Floats) -> Codes:
    """Tenth of the predictions that each row is in; ties may leave fewer than ten."""
    edges = np.unique(np.quantile(p, np.arange(1, 10) / 10))
    return np.searchsorted(edges, p, side="right")


def cell_excess(y: Floats, p: Floats, segments: Sequence[Segment], task: str) -> float:
    """Mean of (sum of y - p)^2 / variance over the cells segment x decile of p, minus 1.

    0 is calibrated up to noise. The variance of a cell's sum is sum p (1 - p), for other than
    0/1 labels that of the residuals in the decile, times the rows. Cells need 25 rows, and those
    of 0/1 labels a variance above 1.
    """
    decile, residual = deciles(p), y - p
    if task == "binary":
        q = np.clip(p, 1e-4, 1 - 1e-4)
        variance, least = q * (1 - q), 1.0
    else:
        rows = np.maximum(np.bincount(decile), 1)
        centred = residual - (np.bincount(decile, weights=residual) / rows)[decile]
        spread = np.bincount(decile, weights=centred**2) / np.maximum(rows - 1, 1)
        variance, least = spread[decile], 0.0
    squares = []
    for rows in (s.rows for s in segments):
        count, total, null = (
            np.bincount(decile[rows], weights=weights)
            for weights in (None, residual[rows], variance[rows])
        )
        keep = (count >= LEAST_CELL_ROWS) & (null > least)
        squares.append(total[keep] ** 2 / null[keep])
    return float(np.mean(np.concatenate(squares)) - 1.0)


def gap(y: Floats, p: Floats, rows: Mask) -> float:
    """E[y - p | g]: by how much a group's predictions are too low."""
    return float(np.mean((y - p)[rows]))


def group_k2(y: Floats, p: Floats, rows: Mask, *, unbiased: bool = False) -> float:
    """sum_b P(b | g) (E[y - p | b, g])^2 over the deciles b of p on all rows.

    ``unbiased`` takes the squared standard error of every mean off (not where one row is all).
    """
    decile, residual = deciles(p)[rows], (y - p)[rows]
    total = 0.0
    for b in np.unique(decile):
        inside = residual[decile == b]
        noise = np.var(inside, ddof=1) / len(inside) if unbiased and len(inside) > 1 else 0.0
        total += len(inside) * (np.mean(inside) ** 2 - noise)
    return float(total / len(residual))


def standardised_gain(theirs: Floats, ours: Floats) -> float:
    """Mean of theirs - ours over the rows, in standard errors of that mean; above 0: ours wins."""
    difference = theirs - ours
    error = np.std(difference, ddof=1) / np.sqrt(len(difference))
    return float(np.mean(difference) / error) if error > 0 else 0.0


def figures(case: Case, p: Floats, segments: Sequence[Segment]) -> dict[str, float]:
    """All figures of the table but the time; ``loss`` is the one that a fit minimises."""
    y = case.y[1]
    brier = float(np.mean(squared_errors(y, p)))
    binary = case.task == "binary"
    log_loss = float(np.mean(log_losses(y, p))) if binary else np.nan
    return {
        "loss": log_loss if binary else brier,
        "log_loss": log_loss,
        "brier": brier,
        "pr_auc": pr_auc(y, p) if binary else np.nan,
        "ece": ece(y, p),
        "worst_group_ece": worst_group_ece(y, p, segments),
        "mce_sigma": mce_sigma(y, p, segments, case.task),
        "cell_excess": cell_excess(y, p, segments, case.task),
    }


# --- methods --------------------------------------------------------------------------------------
def log_odds(p: Floats) -> Floats:
    """log p / (1 - p), p kept away from 0 and 1."""
    q = np.clip(p, SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(q) - np.log1p(-q))


def fit_isotonic(case: Case, base: str) -> Predict:
    """Best monotone function of the base score."""
    cal, test = case.bases[base]
    fitted = IsotonicRegression(out_of_bounds="clip").fit(cal, case.y[0])
    return lambda: np.asarray(fitted.predict(test), dtype=np.float64)


def fit_line(case: Case, base: str) -> Predict:
    """Best line through the base score, on the log-odds for 0/1 labels (Platt)."""
    cal, test = (scores[:, None] for scores in case.bases[base])
    if case.task == "regression":
        fitted = LinearRegression().fit(cal, case.y[0])
        return lambda: np.asarray(fitted.predict(test), dtype=np.float64)
    platt = LogisticRegression(C=np.inf).fit(log_odds(cal), case.y[0])
    return lambda: np.asarray(platt.predict_proba(log_odds(test))[:, 1], dtype=np.float64)


def fit_ours(case: Case, base: str, threads: int, *, groups: bool = False) -> Predict:
    """The default fit, for all features or for the case's groups."""
    cal, test = case.bases[base]
    H = rc.Groups(*(f"`{column}`" for column in case.groups)) if groups else None
    kinds = case.categorical or None
    model = rc.fit(cal, case.X[0], case.y[0], H, categorical=kinds, threads=threads, progress=False)
    return lambda: model.predict(case.X[1], base=test)


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
        squared = squared or self.case.task == "regression"
        return squared_errors(y, p) if squared else log_losses(y, p)


def measure(case: Case, base: str, segments: list[Segment], threads: int) -> Pair:
    """Fit and measure all methods."""
    predictions, seconds = {BASE: case.bases[base][1]}, {BASE: np.nan}
    methods: dict[str, Callable[[], Predict]] = {
        ISOTONIC: lambda: fit_isotonic(case, base),
        LINE: lambda: fit_line(case, base),
        OURS: lambda: fit_ours(case, base, threads),
        OURS_GROUPS: lambda: fit_ours(case, base, threads, groups=True),
    }
    for method, fit in methods.items():
        start = time.perf_counter()
        predict = fit()
        seconds[method] = time.perf_counter() - start
        predictions[method] = predict()
    for reference, (p, fit_seconds) in case.stored.get(base, {}).items():
        predictions[reference], seconds[reference] = p, fit_seconds
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
        "cell_excess_ratio": float(np.mean(ratios)) if len(ratios) else np.nan,
        "cell_excess_ratio_pairs": len(ratios),
        "cell_excess_means": cells.mean(axis=1).tolist(),
        "worst_group_ece_lower": lower("worst_group_ece"),
        "mce_sigma_means": both("mce_sigma").mean(axis=1).tolist(),
        "pr_auc_not_lower": int(np.sum(pr[0] >= pr[1])),
        "pr_auc_pairs": int(np.sum(np.isfinite(pr[1]))),
    }


def compare_with_base(pairs: Sequence[Pair], method: str, *, squared: bool) -> dict[str, Any]:
    """Gains over the base in standard errors: of the Brier score, or of 0/1 labels' log loss."""
    gains = {
        f"{pair.case.name}/{pair.base}": standardised_gain(
            pair.losses(BASE, squared=squared), pair.losses(method, squared=squared)
        )
        for pair in pairs
        if squared or pair.case.task == "binary"
    }
    worse = [name for name, gain in gains.items() if gain < -1.0]
    figure = "Brier" if squared else "log loss"
    return {"method": method, "figure": figure, "gains": gains, "worse": worse}


def follow_worst_group(pair: Pair) -> dict[str, Any]:
    """The single column's group with the base's largest gap, before and after H=Groups."""
    y, everyone = pair.case.y[1], pair.segments[:1]
    groups = [segment for segment in pair.segments if segment.columns == 1] or everyone
    before, after = pair.predictions[BASE], pair.predictions[OURS_GROUPS]
    worst, then = (max(groups, key=lambda g: abs(gap(y, p, g.rows))) for p in (before, after))
    return {
        "case": pair.case.name,
        "base": pair.base,
        "group": worst.label,
        "rows": int(worst.rows.sum()),
        "gap": [gap(y, p, worst.rows) for p in (before, after)],
        "k2": [group_k2(y, p, worst.rows) for p in (before, after)],
        "k2_unbiased": [group_k2(y, p, worst.rows, unbiased=True) for p in (before, after)],
        "gap_error": float(np.std((y - after)[worst.rows]) / np.sqrt(worst.rows.sum())),
        "worst_after": {"group": then.label, "gap": gap(y, after, then.rows)},
    }


# --- printing -------------------------------------------------------------------------------------
COLUMNS = ("log_loss", "brier", "pr_auc", "ece", "worst_group_ece", "mce_sigma", "cell_excess")
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
    return (
        f"against {wins['reference']}: loss lower on {wins['loss_lower']} of {n} "
        f"({wins['loss_beyond_noise']} beyond {NOISE:g} standard errors; worst relative excess "
        f"{wins['loss_worst_excess']:+.2%}); cell_excess lower on {wins['cell_excess_lower']} of "
        f"{n}, mean ratio {show_number(wins['cell_excess_ratio'], 2)} over "
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
        f"{change('gap', '+.4f')} (standard error {found['gap_error']:.4f}), K2 "
        f"{change('k2', '.2e')} (bias removed {change('k2_unbiased', '.2e')}); afterwards the "
        f"worst is {found['worst_after']['group']}, gap {found['worst_after']['gap']:+.4f}"
    )


# --- command --------------------------------------------------------------------------------------
def known(values: dict[str, Any]) -> dict[str, Any]:
    """Without what does not apply: JSON has no NaN."""
    return {name: value for name, value in values.items() if value == value}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("folder", nargs="?", type=Path, help="cases; default: a simulated one")
    made.add_argument("--cases", type=lambda text: text.split(","), help="as a,b; default all")
    made.add_argument("--bases", type=lambda text: text.split(","), help="as a,b; default all")
    made.add_argument("--rows", type=int, default=60_000, help="rows of the simulated case")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--json", type=Path, help="file to write all figures to")
    return made


def find_cases(folder: Path | None, chosen: list[str] | None, rows: int) -> Iterator[Case]:
    """The folder's cases, one at a time, or the simulated one."""
    if folder is None:
        yield simulate_case(rows)
        return
    found = sorted(path.stem for path in folder.glob("*.json"))
    if not found or (unknown := sorted(set(chosen or []) - set(found))):
        said = f"no case {', '.join(unknown)}" if found else "no cases (NAME.json, NAME.parquet)"
        raise SystemExit(f"{folder} has {said}; it has {', '.join(found) or 'nothing'}")
    for name in chosen or found:
        yield read_case(folder, name)


def warm_up(threads: int) -> None:
    """Compile before anything is timed."""
    case = simulate_case(6000)
    for y in (case.y, case.bases["tree"]):
        for groups in (False, True):
            fit_ours(replace(case, y=y), "lr", threads, groups=groups)()


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print; returns what ``--json`` writes."""
    arguments = parser().parse_args(argv)
    warm_up(arguments.threads)
    pairs = []
    for case in find_cases(arguments.folder, arguments.cases, arguments.rows):
        segments = find_segments(case.X[1], case.groups)
        for base in case.bases:
            if arguments.bases is None or base in arguments.bases:
                pairs.append(measure(case, base, segments, arguments.threads))
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
