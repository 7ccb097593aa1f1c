"""fit: from a base model and labelled rows to a Recalibrated model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

from recalibrate.bases.problem import Problem, Reading, read_problem
from recalibrate.bases.protocol import Base, as_base
from recalibrate.bases.wrappers import remember_columns
from recalibrate.core.kinds import read_class
from recalibrate.core.learning import FunctionClass
from recalibrate.core.levels import Link
from recalibrate.data.folds import is_splitter
from recalibrate.data.inputs import is_collection, is_streamed
from recalibrate.fitting.arguments import (
    Knobs,
    LevelKind,
    Plan,
    check_paper,
    check_run,
    gives_rows,
    refuse_unknown,
)
from recalibrate.fitting.crossfit import cross_fit, is_unfitted, refuse_unfitted
from recalibrate.fitting.default.settings import DEFAULT_CLASS
from recalibrate.fitting.run import Run
from recalibrate.model import Recalibrated
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.opening import check_memory, open_rows
from recalibrate.rows.store import Store
from recalibrate.support.checks import check_flag, check_whole
from recalibrate.support.threads import resolve_threads


def fit(
    base_model: Any,
    X: Any,
    y: Any,
    H: Any = None,
    *,
    Z: Any = None,
    sample_weight: Any = None,
    alpha: float | None = None,
    B: float | None = None,
    cv: Any = None,
    validation: Any = None,
    bounds: tuple[float, float] | None = None,
    base_link: Link | None = None,
    target_class: Any = None,
    link: Link | None = None,
    categorical: Sequence[str] | None = None,
    levels: int | None = None,
    level_kind: LevelKind | None = None,
    rounded: bool | None = None,
    step: float | None = None,
    tables_per_round: int | None = None,
    l2: float | None = None,
    min_gain: float | None = None,
    min_level_rows: int | None = None,
    tolerance: float | Literal["authors"] | None = None,
    patience: int | None = None,
    accept: float | None = None,
    max_rounds: int | None = None,
    keep_unrounded: bool | None = None,
    exportable: bool = False,
    threads: int | None = None,
    blocks: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    block_rows: int = 500_000,
    client: Any = None,
    seed: int = 0,
    progress: bool | None = None,
    **unknown: Any,
) -> Recalibrated:
    """Recalibrate a trained model so that it is right on average inside every group.

    The rows must be rows that the base model was **not** trained on: on its training rows a
    model looks better calibrated than it is. With ``alpha`` (and ``B``) the run is Algorithm 1
    of [1]_ to the letter; otherwise updates are small, not rounded, and validated: the number
    of rounds is chosen on held-out rows, and where the data supports no correction the base's
    predictions are returned unchanged. The default makes such choices on at most a million rows
    and fits all of them.

    Parameters
    ----------
    base_model
        A trained model of a framework with an adapter (or the path of its file), a callable
        ``X -> scores``, a `Recalibrated` model (rounds are appended), or an array with one score
        per row (then ``predict`` needs the new rows' scores as ``base=``). With ``cv=`` also an
        estimator of scikit-learn's kind that is not fitted: every row is scored by a copy that
        was trained on the other folds, and the base is trained on all rows in the end.
    X
        Calibration rows: a DataFrame (it may have columns that the base model does not use,
        such as sensitive attributes) or an array. Rows that do not fit in memory: Parquet files
        (path, folder, pattern or list), an iterable of DataFrames, or a Dask DataFrame; ``y``,
        ``sample_weight`` and, if scores are a column, ``base_model`` are then column names.
    y
        Labels: 0/1 or bool, soft labels in [0, 1], or bounded numbers.
    H
        The class to be multicalibrated for: ``Groups(...)``, ``Trees(...)``, ``Linear(...)``, ...;
        a list of group expressions such as ``["sex", "race*sex"]``; or a short text such as
        "trees" or "groups(sex, race*sex)". Every correction is then a function in H on level sets
        of the score, or a function of the score alone: no column counts that H does not name.
        Without H the default looks at all columns.
    Z
        H's own table, where X is not a table.
    sample_weight
        Weights of the rows; a row of weight 2 counts as the row twice. Weights that are all the
        same are no weights.
    alpha, B
        Run Algorithm 1: the output is alpha-approximately multicalibrated for the h in H with
        h(x)^2 <= B (default 1) on the fitted rows, see ``certificate_``.
    cv
        Number of folds, any scikit-learn splitter, or pairs of row numbers such as
        ``GroupKFold().split(X, y, groups)``, for choosing the number of rounds; the model is
        then refitted on all rows. Default 5. An unfitted base is cross-fitted on the same folds.
    validation
        Instead of folds: a pair (X, y) or dict of held-out rows, a share of the rows such as
        0.2, or False for no validation. With ``alpha`` held-out rows only estimate: a share is
        set aside and not fitted.
    bounds
        Smallest and largest possible label of a regression; default: as observed.
    base_link
        "logit" when an array's or callable's scores are log-odds; also where a model's adapter
        asks for it.
    target_class
        Of a multiclass base: the class whose probability is recalibrated; ``y`` then says
        whether a row is of that class.
    link
        Scale of the updates; default "logit" for 0/1 labels, otherwise "identity".
    categorical
        Numeric columns that are categories.
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
        Stop when a round lowers the training error by less; "authors" is the rule of the
        paper's own code, .1 / levels. With folds (or a share) it stops the runs on the folds;
        the refit on all rows takes as many rounds as they say.
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
    exportable
        Refuse at once, before anything is fitted, what ``to_onnx`` could not export.
    threads, blocks
        How the work is cut; the model is the same for all values.
    cache, block_rows
        For rows that do not fit in memory: the folder for temporary files (default: the
        system's), and how many rows of them are in memory at a time, per thread.
    client
        For a Dask DataFrame: the ``distributed.Client``; default: the current one.
    seed
        Deals the folds and draws features.
    progress
        Show a bar; default: on a terminal.

    Returns
    -------
    Recalibrated

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.

    Examples
    --------
    >>> import numpy as np, pandas as pd, recalibrate as rc
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 5000), "age": rng.integers(18, 80, 5000)})
    >>> truth = np.where(X["sex"] == "F", 0.3, 0.5)
    >>> y = rng.random(5000) < truth
    >>> model = rc.fit(np.full(5000, 0.4), X, y, H=rc.Groups("sex", "age < 25"))
    >>> bool(abs(model.predict(X, base=np.full(5000, 0.4)) - truth).max() < 0.05)
    True
    """
    refuse_unknown(unknown)
    unfitted = is_unfitted(base_model)
    if unfitted and cv is None:
        refuse_unfitted(base_model)
    H = DEFAULT_CLASS if H is None else read_class(H)
    knobs = Knobs(
        levels,
        level_kind,
        rounded,
        step,
        tables_per_round,
        l2,
        min_gain,
        min_level_rows,
        tolerance,
        patience,
        accept,
        max_rounds,
        keep_unrounded,
    )
    plan = Plan(knobs, alpha, B, cv, validation)
    _check(plan, unfitted, link)
    check_run(threads, blocks, seed)
    check_whole("block_rows", block_rows, least=1)
    check_flag("exportable", exportable)
    threads = resolve_threads(threads)
    seed = int(seed)  # numpy's integers overflow where Python's do not
    reading = Reading(
        sample_weight,
        bounds,
        base_link,
        target_class,
        "identity" if plan.paper else link,
        categorical,
        clip=plan.paper or bool(rounded),
    )
    store: Store
    with ExitStack() as opened:
        if is_collection(X) or (Z is None and is_streamed(X)):
            if Z is not None:
                raise ValueError("Z= is for rows in memory; put its columns into X")
            _check_pieces(base_model, plan, H, X)
            base, store = opened.enter_context(
                open_rows(
                    base_model,
                    X,
                    y,
                    reading,
                    threads=threads,
                    cache=cache,
                    block_rows=block_rows,
                    client=client,
                )
            )
            if not H.in_pieces:
                check_memory(store)
                store = store.in_memory()
        else:
            base, problem, plan = _read_table(base_model, X, y, Z, plan, reading, seed)
            store = MemoryStore(problem, threads, blocks)
        if exportable:
            from recalibrate.graph import check_exportable

            check_exportable(base, H, store.problem)
        return Run(base, store, H, threads, seed, progress).follow(plan)


def _check(plan: Plan, unfitted: bool, link: Link | None) -> None:
    """Refuse knobs that mean nothing, or nothing together."""
    knobs, cv, validation = plan.knobs, plan.cv, plan.validation
    knobs.check()
    if plan.paper:
        check_paper(knobs, None if unfitted else cv, link)
    if cv is not None and validation is not None and not unfitted:
        raise ValueError("give either cv= or validation=, not both")
    if knobs.accept is not None and not gives_rows(validation):
        raise ValueError(
            f"accept={knobs.accept!r} compares updates on held-out rows, but validation= gives "
            "none; pass a pair validation=(X, y) or a dict (folds end with a refit on all rows)"
        )


def _check_pieces(base_model: Any, plan: Plan, H: FunctionClass, X: Any) -> None:
    """Refuse what needs all rows at once, or their numbers."""
    if is_unfitted(base_model):
        raise ValueError(
            f"The base model {base_model!r} is not fitted, and cross-fitting needs all rows in "
            "memory. Fit it on other rows first."
        )
    if is_splitter(plan.cv):
        raise ValueError(
            f"cv={plan.cv!r} splits rows by their numbers, which rows in pieces do not have. "
            "Give a number of folds, or validation=."
        )
    if is_collection(X) and not H.in_pieces:
        raise ValueError(
            f"H={H!r} fits a regressor that needs all rows in one process. On a Dask DataFrame use "
            "Trees, Linear or Groups, or fit on X.compute()."
        )


def _read_table(
    base_model: Any, X: Any, y: Any, Z: Any, plan: Plan, reading: Reading, seed: int
) -> tuple[Base, Problem, Plan]:
    """The base model and the rows of a table in memory; a base that is not fitted is cross-fitted.

    Then the plan has the folds of cross-fitting for choosing rounds, too.
    """
    scores = None
    if is_unfitted(base_model):
        crossed = cross_fit(base_model, X, y, plan.cv, reading, Z=Z, seed=seed)
        base, scores = crossed.base, crossed.scores
        reading = replace(reading, sample_weight=crossed.weight(reading.sample_weight))
        free = not plan.paper and plan.validation is None
        plan = replace(plan, cv=crossed.folds or None if free else None)
    else:
        base = as_base(base_model, link=reading.base_link, target_class=reading.target_class)
    base = remember_columns(base, X)
    return base, read_problem(base, X, y, reading, scores=scores, Z=Z), plan
