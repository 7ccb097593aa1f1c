"""Arguments of ``fit`` to settings of the loop, checked."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

import numpy as np

from recalibrate.boost import Settings
from recalibrate.classes.base import FunctionClass, Penalty
from recalibrate.levels import Levels, to_margin
from recalibrate.problem import Problem
from recalibrate.quantiles import quantile_edges

LevelKind = Literal["uniform", "quantile"]
MOST_LEVELS = 100_000
DEFAULT_ROUNDS = 500
AUTHORS_GAMMA = 0.1
"""The authors' own code stops when the error falls by less than .1 / levels."""


def read_class(H: Any) -> FunctionClass:
    """H as given, or by its short name."""
    from recalibrate.classes import Estimator, Groups, Linear, Trees

    short: dict[str, FunctionClass] = {"trees": Trees(), "linear": Linear()}
    if isinstance(H, str):
        if H not in short:
            raise ValueError(
                f"H={H!r} is not a short name of a class; use 'trees' or 'linear', or an object "
                "such as Trees(depth=2), Linear(), Groups('sex', 'age < 25'), Estimator(...)"
            )
        return short[H]
    if isinstance(H, (Trees, Linear, Groups, Estimator)) or hasattr(H, "bind"):
        return H  # type: ignore[no-any-return]
    if hasattr(H, "fit") and hasattr(H, "predict"):
        raise TypeError(f"H={H!r} is a model; wrap it as H=Estimator({type(H).__name__}(...))")
    raise TypeError(
        f"H={H!r} is not a class of functions; use Trees(...), Linear(...), Groups(...) or "
        "Estimator(...)"
    )


def paper_settings(
    alpha: float | None,
    B: float | None,
    *,
    min_level_rows: int | None,
    keep_unrounded: bool,
    seed: int,
) -> Settings:
    """Algorithm 1: grid of m = ceil(2B / alpha) steps, replace, stop below alpha / (2B)."""
    if alpha is None:
        raise ValueError(f"B = {B!r} was given without alpha; Algorithm 1 needs alpha")
    B = 1.0 if B is None else B
    _check_number("alpha", alpha, above=0.0)
    _check_number("B", B, above=0.0)
    if alpha > 2 * B:
        raise ValueError(
            f"alpha = {alpha:g} is above 2B = {2 * B:g}, so every predictor fulfils it; "
            "ask for a smaller alpha"
        )
    m = ceil(2 * B / alpha)
    if m > MOST_LEVELS:
        raise ValueError(
            f"alpha = {alpha:g} with B = {B:g} asks for m = {m} levels, more than {MOST_LEVELS}; "
            "no table has the rows to fill them: take a larger alpha"
        )
    return Settings(
        grid=Levels.uniform(m),
        penalty=Penalty(min_level_rows=1 if min_level_rows is None else min_level_rows),
        tolerance=alpha / (2 * B),
        max_rounds=ceil(2 * B / alpha) + 1,
        keep_unrounded=keep_unrounded,
        seed=seed,
    )


def loop_settings(
    problem: Problem,
    *,
    levels: int | None,
    level_kind: LevelKind | None,
    rounded: bool,
    step: float | None,
    tables_per_round: int | None,
    l2: float | None,
    min_gain: float,
    min_level_rows: int | None,
    tolerance: float | Literal["authors"] | None,
    patience: int | None,
    accept: float | None,
    max_rounds: int | None,
    keep_unrounded: bool,
    seed: int,
) -> Settings:
    """The loop with every knob as given, or at its plain default."""
    levels = 10 if levels is None else levels
    kind = level_kind or ("uniform" if rounded else "quantile")
    link = problem.link
    step = (1.0 if rounded else 0.1) if step is None else step
    l2 = (10.0 if link == "logit" else 0.0) if l2 is None else l2
    tables_per_round = 1 if tables_per_round is None else tables_per_round
    min_level_rows = 1 if min_level_rows is None else min_level_rows
    max_rounds = DEFAULT_ROUNDS if max_rounds is None else max_rounds
    _check_whole("levels", levels, least=1, most=MOST_LEVELS)
    _check_whole("tables_per_round", tables_per_round, least=1)
    _check_whole("min_level_rows", min_level_rows, least=1)
    _check_whole("max_rounds", max_rounds, least=0)
    _check_number("step", step, above=0.0, most=1.0)
    _check_number("l2", l2, least=0.0)
    _check_number("min_gain", min_gain, least=0.0)
    if accept is not None:
        _check_number("accept", accept, least=0.0, most=1.0)
    if patience is not None:
        _check_whole("patience", patience, least=1)
    if kind not in ("uniform", "quantile"):
        raise ValueError(f"level_kind must be 'uniform' or 'quantile', got {level_kind!r}")
    return Settings(
        link=link,
        grid=_grid(problem, levels, kind) if rounded else None,
        levels=levels,
        level_kind=kind,
        step=float(step),
        tables_per_round=tables_per_round,
        penalty=Penalty(float(l2), float(min_gain), min_level_rows),
        tolerance=_tolerance(tolerance, levels),
        patience=patience,
        accept=accept,
        max_rounds=max_rounds,
        keep_unrounded=keep_unrounded,
        seed=seed,
    )


def _tolerance(tolerance: float | str | None, levels: int) -> float | None:
    if isinstance(tolerance, str):
        if tolerance != "authors":
            raise ValueError(f"tolerance must be a number, None or 'authors', got {tolerance!r}")
        return AUTHORS_GAMMA / levels
    if tolerance is not None:
        _check_number("tolerance", tolerance, least=0.0)
        return float(tolerance)
    return None


def _grid(problem: Problem, levels: int, kind: LevelKind) -> Levels:
    """The grid of a rounded run.

    By quantile, its values are the middles of cells with equally many labels, as in the
    authors' code; 0/1 labels have no quantiles to speak of, so there base scores take over.
    """
    if kind == "uniform":
        return Levels.uniform(levels, problem.link)
    labels = problem.labels
    values = problem.base if labels.kind == "binary" else to_margin(labels.values, problem.link)
    inner = quantile_edges(values, levels, labels.weight)
    borders = np.concatenate([[values.min()], inner, [values.max()]])
    return Levels.around((borders[:-1] + borders[1:]) / 2)


def _check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, bool
    )
    if not number or not np.isfinite(value):  # type: ignore[call-overload]
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if above is not None and not value > above:  # type: ignore[operator]
        raise ValueError(f"{name} must be above {above:g}, got {value!r}")
    if least is not None and not value >= least:  # type: ignore[operator]
        raise ValueError(f"{name} must be at least {least:g}, got {value!r}")
    if most is not None and not value <= most:  # type: ignore[operator]
        raise ValueError(f"{name} must be at most {most:g}, got {value!r}")


def _check_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value!r}")
