"""Arguments of ``fit`` to settings of the loop, checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
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
AUTHORS_ROUNDS, AUTHORS_LEAST_ROUNDS, AUTHORS_LEVEL_ROWS = 100, 2, 2
"""The authors' own code stops when the error falls by at most .1 / levels."""


@dataclass(frozen=True)
class Loop:
    """How the loop runs, for those who do not leave it to the default fit; None is a default.

    Parameters
    ----------
    levels, level_kind
        Number of level sets, of equal width ("uniform") or equal weight ("quantile").
    rounded
        Round the scores to the grid of levels after every update, as the paper does.
    step
        Share of every fitted correction that is taken; 1 replaces the score.
    tables_per_round
        Learners per level set before new level sets are drawn.
    l2, min_gain
        Complexity penalty: ridge on every fitted number, least fall of the summed loss a split.
    min_level_rows
        Level sets with fewer rows are left alone.
    tolerance
        Stop when a round lowers the training error by less, and leave that round out. With folds
        (or a share) it stops the runs on the folds; the refit on all rows takes as many rounds as
        they say. "authors", with ``rounded``, is the rule of the paper's own code: .1 / levels, but
        at least two rounds (after the weak learner on all rows, if the base is a constant), the
        last of them stays, another update that is not rounded ends the run (see
        ``keep_unrounded``), ``max_rounds`` counts it and is 100, and ``min_level_rows`` is 2.
    patience
        Steps without a lower held-out error before stopping.
    accept
        Keep a level set's update only if its held-out error falls by more than this share
        (validated updates). Needs ``validation=`` with held-out rows, a pair or dict: a refit on
        all rows has none.
    max_rounds
        Most rounds.
    keep_unrounded
        End a rounded run that changed anything with one more update that is not rounded (of a
        run stopped by the tolerance: the rejected one).

    Examples
    --------
    >>> import recalibrate as rc
    >>> rc.Loop(levels=20, step=0.3)
    Loop(levels=20, step=0.3)
    """

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

    def __repr__(self) -> str:
        return f"Loop({', '.join(f'{name}={value!r}' for name, value in self.turned.items())})"

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


PAPER_LOOP = Loop(levels=50, rounded=True, tolerance="authors", max_rounds=100)
"""The loop of the paper's own experiments."""


@dataclass(frozen=True)
class Engine:
    """Where rows live and how the work on them is cut; the model is the same for all values.

    Parameters
    ----------
    threads, blocks
        Number of threads (default: one a core), and of the parts that the rows are cut into.
    cache, block_rows
        For rows that do not fit in memory: the folder for temporary files (default: the
        system's), and how many rows of them are in memory at a time, per thread.
    memory
        Bytes of encoded rows of Parquet files or an iterable that stay in memory between rounds;
        those of further rows are read from the temporary folder in every round. Default: 1 GiB
        (some nine million rows of ten columns), but at most an eighth of the memory there is.
    client
        For a Dask DataFrame: the ``distributed.Client``; default: the current one.

    Examples
    --------
    >>> import recalibrate as rc
    >>> rc.Engine(threads=1).block_rows
    500000
    """

    threads: int | None = None
    blocks: int | None = None
    cache: str | os.PathLike[str] | None = None
    block_rows: int = 500_000
    memory: int | None = None
    client: Any = None

    def check(self) -> None:
        """Refuse values that mean nothing."""
        check_whole("threads", self.threads, least=1)
        check_whole("blocks", self.blocks, least=1)
        if self.block_rows is None:
            raise ValueError("block_rows must be a whole number of at least 1, got None")
        check_whole("block_rows", self.block_rows, least=1)
        check_whole("memory", self.memory, least=0)


@dataclass(frozen=True)
class Plan:
    """What the arguments of ``fit`` ask for, checked.

    ``cross_fitted``: base scores are of copies that did not see the row.
    """

    loop: Loop
    alpha: float | None = None
    B: float | None = None
    cv: Any = None
    validation: Any = None
    fit_params: Mapping[str, Any] | None = None
    cross_fitted: bool = False

    @property
    def paper(self) -> bool:
        """Whether to run Algorithm 1 to the letter."""
        return self.alpha is not None or self.B is not None

    @property
    def default(self) -> bool:
        """Whether the recipe decides everything."""
        free = self.validation is None or is_share(self.validation)
        return not self.paper and not self.loop.turned and free


def check_seed(seed: int) -> None:
    """Refuse seeds that mean nothing."""
    if seed is None:
        raise ValueError("seed must be a whole number of at least 0, got None")
    check_whole("seed", seed, least=0)


def read_gamma(
    gamma: float | None, alpha: float | None, B: float | None
) -> tuple[float | None, float | None]:
    """The alpha and B given, or those of boosting with gamma-weak learners."""
    if gamma is None:
        return alpha, B
    if alpha is not None or B is not None:
        raise ValueError(
            f"gamma={gamma!r} stands for alpha = gamma and B = 1 / gamma; leave out alpha and B"
        )
    check_number("gamma", gamma, above=0.0, most=1.0)
    return float(gamma), 1.0 / gamma


def read_option(name: str, value: Any, kind: type[T]) -> T:
    """An object that holds several arguments; None is one with all of them at their defaults."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        known = ", ".join(f"{field.name}=" for field in fields(kind))  # type: ignore[arg-type]
        raise TypeError(f"{name} must be a recalibrate.{kind.__name__}({known}), got {value!r}")
    return value


def refuse_unknown(unknown: dict[str, Any]) -> None:
    """Say where an argument that ``fit`` does not take belongs."""
    for name, value in unknown.items():
        if name in ("groups", "group"):
            terms = value if isinstance(value, list) else ["sex", "race*sex"]
            raise TypeError(
                f"fit() has no argument {name!r}: the groups to be right for are H, as in H={terms}"
            )
        for option, kind in (("loop", Loop), ("engine", Engine)):
            if name in {field.name for field in fields(kind)}:
                raise TypeError(
                    f"fit() takes {name}= inside {option}=: "
                    f"{option}=recalibrate.{kind.__name__}({name}={value!r})"
                )
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}")


def check_paper(loop: Loop, cv: Any, link: str | None) -> None:
    """Refuse what does not go with Algorithm 1 to the letter."""
    turned = {**loop.turned, "cv": cv, "link": None if link == "identity" else link}
    for fitting in ("min_level_rows", "keep_unrounded"):
        turned.pop(fitting, None)
    named = ", ".join(f"{name}={value!r}" for name, value in turned.items() if value is not None)
    if named:
        raise ValueError(
            f"alpha= runs Algorithm 1 exactly as published, so {named} cannot be set; only "
            "min_level_rows and keep_unrounded can be combined with it"
        )


def is_share(validation: Any) -> bool:
    """Whether validation= is a share of the rows; its range is checked where it is used."""
    number = isinstance(validation, int | float | np.integer | np.floating)
    return number and validation is not False


def gives_rows(validation: Any) -> bool:
    """Whether validation= is held-out rows of the user's own."""
    return validation is not None and validation is not False and not is_share(validation)


def paper_settings(alpha: float | None, B: float | None, loop: Loop, seed: int) -> Settings:
    """Algorithm 1: grid of m = ceil(2B / alpha) steps, replace, stop below alpha / (2B)."""
    if alpha is None:
        raise ValueError(f"B = {B!r} was given without alpha; Algorithm 1 needs alpha")
    B = 1.0 if B is None else B
    check_number("alpha", alpha, above=0.0)
    check_number("B", B, above=0.0)
    if alpha > 2 * B:
        raise ValueError(
            f"alpha = {alpha:g} is above 2B = {2 * B:g}, so every predictor satisfies it; "
            "choose a smaller alpha"
        )
    m = ceil(2 * B / alpha)
    if m > MOST_LEVELS:
        raise ValueError(
            f"alpha = {alpha:g} with B = {B:g} asks for m = {m} levels, more than {MOST_LEVELS}; "
            "choose a larger alpha"
        )
    return Settings(
        grid=Levels.uniform(m),
        penalty=Penalty(min_level_rows=_or(loop.min_level_rows, 1)),
        tolerance=alpha / (2 * B),
        max_rounds=ceil(2 * B / alpha) + 1,
        keep_unrounded=bool(loop.keep_unrounded),
        seed=seed,
    )


def loop_settings(
    problem: Problem,
    loop: Loop,
    seed: int,
    borders: Callable[[int], NDArray[np.float64]],
    from_constant: Callable[[], bool] = lambda: False,
) -> Settings:
    """The loop with every parameter as given, or at its default.

    ``borders`` finds the borders of cells with equally many labels, see ``fitting.run``;
    ``from_constant`` whether the base says the same of all rows.
    """
    rounded = bool(loop.rounded)
    theirs = rounded and loop.tolerance == "authors"
    rounds, least, rows = DEFAULT_ROUNDS, 0, 1
    keep_unrounded = bool(_or(loop.keep_unrounded, theirs))
    if theirs:
        # Their first model is the weak learner on all rows: our first round from a constant.
        first = int(from_constant())
        rounds = _or(loop.max_rounds, AUTHORS_ROUNDS) + first - keep_unrounded
        least, rows = AUTHORS_LEAST_ROUNDS + first, AUTHORS_LEVEL_ROWS
        loop = replace(loop, max_rounds=None)
    levels = _or(loop.levels, 10)
    kind = loop.level_kind or ("uniform" if rounded else "quantile")
    l2 = _or(loop.l2, 10.0 if problem.family.newton else 0.0) * problem.curvature_unit
    return Settings(
        link=problem.link,
        grid=_grid(problem, levels, kind, borders) if rounded else None,
        levels=levels,
        level_kind=kind,
        step=float(_or(loop.step, 1.0 if rounded else 0.1)),
        tables_per_round=_or(loop.tables_per_round, 1),
        penalty=Penalty(float(l2), float(_or(loop.min_gain, 0.0)), _or(loop.min_level_rows, rows)),
        tolerance=_tolerance(loop.tolerance, levels),
        least_rounds=least,
        patience=_or(loop.patience, DEFAULT_PATIENCE),
        accept=loop.accept,
        max_rounds=_or(loop.max_rounds, rounds),
        keep_unrounded=keep_unrounded,
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
