"""Arguments of ``fit`` to settings of the loop, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.boost import Settings
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import Levels
from recalibrate.support.checks import check_flag, check_number, check_whole

LevelKind = Literal["uniform", "quantile"]
T = TypeVar("T")
MOST_LEVELS = 100_000
DEFAULT_ROUNDS = 500
DEFAULT_PATIENCE = 20
AUTHORS_GAMMA = 0.1
"""The authors' own code stops when the error falls by less than .1 / levels."""


@dataclass(frozen=True)
class Knobs:
    """Arguments of ``fit`` that shape the loop; None leaves one to its default."""

    levels: int | None = None
    level_kind: LevelKind | None = None
    rounded: bool | None = None
    step: float | None = None
    tables_per_round: int | None = None
    l2: float | None = None
    min_gain: float | None = None
    min_level_rows: int | None = None
    tolerance: float | Literal["authors"] | None = None
    patience: int | None = None
    accept: float | None = None
    max_rounds: int | None = None
    keep_unrounded: bool | None = None

    @property
    def turned(self) -> dict[str, Any]:
        """Those that are not left to their default."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self) -> None:
        """Refuse values that mean nothing."""
        for name, least, most in (
            ("levels", 1, MOST_LEVELS),
            ("tables_per_round", 1, None),
            ("min_level_rows", 1, None),
            ("patience", 1, None),
            ("max_rounds", 0, None),
        ):
            check_whole(name, getattr(self, name), least=least, most=most)
        check_number("step", self.step, above=0.0, most=1.0)
        check_number("l2", self.l2, least=0.0)
        check_number("min_gain", self.min_gain, least=0.0)
        check_number("accept", self.accept, least=0.0, most=1.0)
        check_flag("rounded", self.rounded)
        check_flag("keep_unrounded", self.keep_unrounded)
        if self.level_kind not in (None, "uniform", "quantile"):
            raise ValueError(f"level_kind must be 'uniform' or 'quantile', got {self.level_kind!r}")


@dataclass(frozen=True)
class Plan:
    """What the arguments of ``fit`` ask for, checked."""

    knobs: Knobs
    alpha: float | None = None
    B: float | None = None
    cv: Any = None
    validation: Any = None

    @property
    def paper(self) -> bool:
        """Whether to run Algorithm 1 to the letter."""
        return self.alpha is not None or self.B is not None

    @property
    def default(self) -> bool:
        """Whether the recipe decides everything."""
        free = self.validation is None or is_share(self.validation)
        return not self.paper and not self.knobs.turned and free


def refuse_unknown(unknown: Mapping[str, Any]) -> None:
    """Refuse arguments that ``fit`` does not have."""
    for name, value in unknown.items():
        if name in ("groups", "group"):
            raise TypeError(
                f"fit() has no argument {name!r}: the groups to be right for are H, as in "
                f"H={value if isinstance(value, list) else ['sex', 'race*sex']!r}"
            )
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}")


def check_run(threads: int | None, blocks: int | None, seed: int) -> None:
    """Refuse ways of cutting the work, and seeds, that mean nothing."""
    check_whole("threads", threads, least=1)
    check_whole("blocks", blocks, least=1)
    if seed is None:
        raise ValueError("seed must be a whole number of at least 0, got None")
    check_whole("seed", seed, least=0)


def check_paper(knobs: Knobs, cv: Any, link: str | None) -> None:
    """Refuse what does not go with Algorithm 1 to the letter."""
    turned = {**knobs.turned, "cv": cv, "link": None if link == "identity" else link}
    for fitting in ("min_level_rows", "keep_unrounded"):
        turned.pop(fitting, None)
    named = ", ".join(f"{name}={value!r}" for name, value in turned.items() if value is not None)
    if named:
        raise ValueError(
            f"alpha asks for Algorithm 1 to the letter, which leaves no room for {named}: only "
            "min_level_rows and keep_unrounded go with it"
        )


def is_share(validation: Any) -> bool:
    """Whether validation= is a share of the rows; its range is checked where it is used."""
    number = isinstance(validation, int | float | np.integer | np.floating)
    return number and validation is not False


def gives_rows(validation: Any) -> bool:
    """Whether validation= is held-out rows of the user's own."""
    return validation is not None and validation is not False and not is_share(validation)


def paper_settings(alpha: float | None, B: float | None, knobs: Knobs, seed: int) -> Settings:
    """Algorithm 1: grid of m = ceil(2B / alpha) steps, replace, stop below alpha / (2B)."""
    if alpha is None:
        raise ValueError(f"B = {B!r} was given without alpha; Algorithm 1 needs alpha")
    B = 1.0 if B is None else B
    check_number("alpha", alpha, above=0.0)
    check_number("B", B, above=0.0)
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
        penalty=Penalty(min_level_rows=_or(knobs.min_level_rows, 1)),
        tolerance=alpha / (2 * B),
        max_rounds=ceil(2 * B / alpha) + 1,
        keep_unrounded=bool(knobs.keep_unrounded),
        seed=seed,
    )


def loop_settings(
    problem: Problem,
    knobs: Knobs,
    seed: int,
    borders: Callable[[int], NDArray[np.float64]],
) -> Settings:
    """The loop with every knob as given, or at its plain default.

    ``borders`` finds the borders of cells with equally many labels, see ``fitting.run``.
    """
    rounded = bool(knobs.rounded)
    levels = _or(knobs.levels, 10)
    kind = knobs.level_kind or ("uniform" if rounded else "quantile")
    l2 = _or(knobs.l2, 10.0 if problem.link == "logit" else 0.0)
    return Settings(
        link=problem.link,
        grid=_grid(problem, levels, kind, borders) if rounded else None,
        levels=levels,
        level_kind=kind,
        step=float(_or(knobs.step, 1.0 if rounded else 0.1)),
        tables_per_round=_or(knobs.tables_per_round, 1),
        penalty=Penalty(float(l2), float(_or(knobs.min_gain, 0.0)), _or(knobs.min_level_rows, 1)),
        tolerance=_tolerance(knobs.tolerance, levels),
        patience=_or(knobs.patience, DEFAULT_PATIENCE),
        accept=knobs.accept,
        max_rounds=_or(knobs.max_rounds, DEFAULT_ROUNDS),
        keep_unrounded=bool(knobs.keep_unrounded),
        seed=seed,
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _tolerance(tolerance: float | str | None, levels: int) -> float | None:
    if isinstance(tolerance, str):
        if tolerance != "authors":
            raise ValueError(f"tolerance must be a number, None or 'authors', got {tolerance!r}")
        return AUTHORS_GAMMA / levels
    if tolerance is not None:
        check_number("tolerance", tolerance, least=0.0)
        return float(tolerance)
    return None


def _grid(
    problem: Problem,
    levels: int,
    kind: LevelKind,
    borders: Callable[[int], NDArray[np.float64]],
) -> Levels:
    """The grid of a rounded run; by quantile, its values are the middles of cells of labels."""
    if kind == "uniform":
        return Levels.uniform(levels, problem.link)
    found = borders(levels)
    return Levels.around((found[:-1] + found[1:]) / 2)
