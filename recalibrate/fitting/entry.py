"""fit: from a base model and labelled rows to a Recalibrated model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from recalibrate.bases.problem import InputOptions, Problem, open_base, read_problem
from recalibrate.bases.protocol import Base, ScoreColumn, count_rows
from recalibrate.bases.wrappers import column_names, remember_columns
from recalibrate.core.kinds import read_class
from recalibrate.core.learning import FunctionClass
from recalibrate.core.levels import Link
from recalibrate.data.folds import is_splitter
from recalibrate.data.labels import Bounds
from recalibrate.data.table import is_collection, is_streamed, settle_both
from recalibrate.files import from_bytes, read_bytes
from recalibrate.fitting.arguments import (
    Engine,
    Loop,
    Plan,
    check_paper,
    check_seed,
    gives_rows,
    read_gamma,
    read_option,
    refuse_unknown,
)
from recalibrate.fitting.crossfit import cross_fit, is_unfitted, refuse_unfitted
from recalibrate.fitting.default.settings import DEFAULT_CLASS
from recalibrate.fitting.run import Run
from recalibrate.model import Recalibrated
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.reading import check_memory, open_rows
from recalibrate.rows.store import Store
from recalibrate.support.checks import check_flag
from recalibrate.support.threads import resolve_threads

# --- ``exportable=True``: the fitted model has an ONNX graph with the same predictions ----------


ROWS = 200
"""Rows of the user's that the graph is tried on."""


def _keep_promise(model: Recalibrated, X: Any, Z: Any) -> Recalibrated:
    """The model, if it can be exported; an `ExportError` or `ParityError` says why not."""
    in_pieces = is_collection(X) or (Z is None and is_streamed(X))
    scores = model.base.values[:ROWS] if isinstance(model.base, ScoreColumn) else None
    sample = None if in_pieces else _first(X)
    model.to_onnx(None, sample, base=None if sample is None else scores, Z=_first(Z))
    return model


def _first(rows: Any) -> Any:
    """The first rows, of whatever kind; of rows that cannot be cut, all."""
    if rows is None or count_rows(rows) is None:
        return tuple(_first(part) for part in rows) if isinstance(rows, tuple) else rows
    return rows.iloc[:ROWS] if hasattr(rows, "iloc") else rows[:ROWS]


def fit(
    base_model: Any,
    X: Any,
    y: Any,
    H: Any = None,
    *,
    Z: Any = None,
    sample_weight: Any = None,
    exposure: Any = None,
    alpha: float | None = None,
    B: float | None = None,
    gamma: float | None = None,
    cv: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    validation: Any = None,
    bounds: Bounds | None = None,
    base_link: Link | None = None,
    target_class: Any = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    link: str | None = None,
    categorical: Sequence[str] | None = None,
    exportable: bool = False,
    loop: Loop | None = None,
    engine: Engine | None = None,
    trust: bool = False,
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
        Calibration rows: a DataFrame of pandas, polars (lazy, too), Arrow or another library (it
        may have columns that the base model does not use, such as sensitive attributes), or an
        array. Rows that do not fit in memory: Parquet files
        (path, folder, pattern or list), an iterable of DataFrames, or a Dask DataFrame; ``y``,
        ``sample_weight`` and, if scores are a column, ``base_model`` are then column names.
    y
        Labels: classes of any kind, soft labels in [0, 1], or numbers. Of two classes the
        second of the base model's (else the larger; of text the alphabetically last) counts as 1,
        unless ``positive`` says otherwise. Labels of a classifier always name classes.
    H
        The groups or function class (H) to be multicalibrated for, that is, to be right on average
        inside: ``Groups(...)``, ``Trees(...)``, ``Linear(...)``, ...; a list of group expressions
        such as ``["sex", "race*sex"]``; or a short text such as "trees" or "groups(sex,
        race*sex)". Every correction is then a function in H on level sets of the score, or a
        function of the score alone: no column counts that H does not name.
        Without H the default looks at all columns.
    Z
        A table for H alone, with a row for every row of X: for models of images, text or sparse
        matrices, and for columns that the base model must not see.
    sample_weight
        Weights of the rows; a row of weight 2 counts as the row twice. Weights that are all the
        same are no weights.
    exposure
        What the labels are totals over (years insured, visits, hours): y holds counts or amounts,
        and predictions are rates per unit of exposure. Row by row the same as labels y / exposure
        with weights ``sample_weight * exposure``: a row of exposure 2 counts as two rows.
    alpha, B
        Run Algorithm 1: the output is alpha-approximately multicalibrated for the h in H with
        h(x)^2 <= B (default 1) on the fitted rows, see ``certificate_``.
    gamma
        Algorithm 1 as a booster: alpha = gamma and B = 1 / gamma. If H is a gamma-weak learner,
        it ends within 2 / gamma^2 rounds within 2 gamma of the smallest squared error.
    cv
        Number of folds, any scikit-learn splitter, or pairs of row numbers such as
        ``GroupKFold().split(X, y, groups)``, for choosing the number of rounds; the model is
        then refitted on all rows. Default 5, of which fewer are fitted from 25,000 rows on.
        An unfitted base is cross-fitted on the same folds.
    fit_params
        Further arguments of ``fit`` of a base that is cross-fitted; those with an entry per row
        are cut to the rows of every fold.
    validation
        Instead of folds: a pair (X, y) or dict of held-out rows, a share of the rows such as
        0.2, or False for no validation. With ``alpha`` held-out rows only estimate: a share is
        set aside and not fitted.
    bounds
        Smallest and largest possible label of a regression, which predictions never leave; None
        for one that is not known, as in (0, None). Without any, labels are scaled by those seen,
        and predictions may leave them; what the paper proves is about labels in known bounds.
    base_link
        "logit" when an array's or callable's scores are log-odds, "log" when they are logarithms
        of means; also where a model's adapter asks for it.
    target_class
        Of a multiclass base: the one class whose probability is recalibrated against the rest;
        ``y`` holds classes, or booleans that say whether a row is of that class.
    positive
        Of two classes: the label that counts as 1, which ``predict``, audits and the summary speak
        of. It chooses the output of a base model that names its classes; of one that numbers them
        if ``classes`` names them, or labels are 0 and 1. All other scores, as those of an array
        or a callable, must be about it. ``classes_`` and the columns of ``predict_proba`` stay
        sorted.
    classes
        All classes, in the order of the base model's outputs, where it does not tell them and
        labels are text, or ``y`` does not hold all of them.
    link
        Scale of the updates, and with it the loss: "identity" (squared error), "logit" (log loss)
        or "log" (corrections are factors; Poisson deviance). "log-gamma" and "log-tweedie-1.5" name
        other deviances. Default: as the base model was trained (its objective), "log" with
        ``exposure``, "logit" for 0/1 labels and classes, otherwise "identity".
    categorical
        Numeric columns that are categories.
    exportable
        Promise that ``to_onnx`` works: what cannot be exported is refused, most of it before
        anything is fitted.
    trust
        Whether a base model's file may be of a kind that can run any code when it is opened:
        TorchScript (.pt) and .pt2 files.
    loop
        A `Loop` with settings of the loop, instead of the default fit: number of level sets, step,
        penalties, stop rules.
    engine
        An `Engine`: threads, temporary files, Dask client. The model is the same for all of them.
    seed
        Deals the folds and draws features. An estimator that is cross-fitted gets a seed from it
        wherever its own ``random_state`` is None.
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
    base_model = _saved(base_model)
    unfitted = is_unfitted(base_model)
    if unfitted and cv is None:
        refuse_unfitted(base_model)
    H = DEFAULT_CLASS if H is None else read_class(H)
    loop, engine = read_option("loop", loop, Loop), read_option("engine", engine, Engine)
    alpha, B = read_gamma(gamma, alpha, B)
    plan = Plan(loop, alpha, B, cv, validation, fit_params)
    _check(plan, unfitted, link)
    _check_classes(target_class, positive)
    engine.check()
    check_seed(seed)
    check_flag("exportable", exportable)
    check_flag("trust", trust)
    seed = int(seed)  # numpy's integers overflow where Python's do not
    X, Z = settle_both(X, Z)
    link = "identity" if plan.paper else link
    reading = InputOptions(
        sample_weight, exposure, bounds, base_link, target_class, positive, classes, link,
        categorical, clip=plan.paper or bool(loop.rounded), reads=H.reads, takes_all=H.takes_all,
        trust=trust,
    )  # fmt: skip
    with ExitStack() as opened:
        base, store, plan = _open(opened, base_model, X, y, Z, H, plan, reading, engine, seed)
        if exportable:
            from recalibrate.graph import check_exportable

            check_exportable(base, H, store.problem)
        threads = resolve_threads(engine.threads)
        model = Run(base, store, H, threads, seed, progress).follow(plan)
    return _keep_promise(model, X, Z) if exportable else model


def _open(
    opened: ExitStack,
    base_model: Any,
    X: Any,
    y: Any,
    Z: Any,
    H: FunctionClass,
    plan: Plan,
    reading: InputOptions,
    engine: Engine,
    seed: int,
) -> tuple[Base, Store, Plan]:
    """The base model, the rows wherever they are, and the plan as cross-fitting leaves it."""
    threads = resolve_threads(engine.threads)
    if not (is_collection(X) or (Z is None and is_streamed(X))):
        base, problem, plan = _read_table(base_model, X, y, Z, plan, reading, seed)
        return base, MemoryStore(problem, threads, engine.blocks), plan
    if Z is not None:
        raise ValueError("Z= is for rows in memory; put its columns into X")
    _check_pieces(base_model, plan, H, X)
    where = {
        "cache": engine.cache,
        "block_rows": engine.block_rows,
        "memory": engine.memory,
        "client": engine.client,
    }
    rows = open_rows(base_model, X, y, reading, threads=threads, **where)
    base, store = opened.enter_context(rows)
    if not H.in_pieces:
        check_memory(store)
        store = store.in_memory()
    return base, store, plan


def _saved(base_model: Any) -> Any:
    """The model in a file of ours; other models and files as they are."""
    if not isinstance(base_model, str | os.PathLike):
        return base_model
    path = Path(os.fsdecode(base_model))
    if path.suffix != ".rcal":
        return base_model
    return from_bytes(read_bytes(path), path.resolve().parent, Recalibrated)


def _check(plan: Plan, unfitted: bool, link: str | None) -> None:
    """Refuse parameters that have no meaning, alone or together."""
    loop, cv, validation = plan.loop, plan.cv, plan.validation
    loop.check()
    if plan.paper:
        check_paper(loop, None if unfitted else cv, link)
    if plan.fit_params and not unfitted:
        raise ValueError(
            f"fit_params={sorted(plan.fit_params)} are arguments of the base model's fit, but this "
            "base model is fitted already. Leave them out."
        )
    if cv is not None and validation is not None and not unfitted:
        raise ValueError("give either cv= or validation=, not both")
    if loop.accept is not None and not gives_rows(validation):
        raise ValueError(
            f"accept={loop.accept!r} compares updates on held-out rows, but validation= gives "
            "none; pass a pair validation=(X, y) or a dict (folds end with a refit on all rows)"
        )


def _check_classes(target_class: Any, positive: Any) -> None:
    """Refuse two ways of saying which label counts as 1."""
    if target_class is not None and positive is not None:
        raise ValueError(
            "give either target_class= (one of several classes) or positive= (one of two)"
        )


def _check_pieces(base_model: Any, plan: Plan, H: FunctionClass, X: Any) -> None:
    """Refuse what needs all rows at once, or their numbers."""
    if is_unfitted(base_model):
        raise ValueError(
            f"The base model {base_model!r} is not fitted, and cross-fitting needs all rows in "
            "memory. Fit it on other rows first. If X holds documents for it, give H a table of "
            "its own with Z=."
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
    base_model: Any,
    X: Any,
    y: Any,
    Z: Any,
    plan: Plan,
    reading: InputOptions,
    seed: int,
) -> tuple[Base, Problem, Plan]:
    """The base model and the rows of a table in memory; a base that is not fitted is cross-fitted.

    Then the plan has the folds of cross-fitting for choosing rounds, too.
    """
    scores = None
    unfitted = is_unfitted(base_model)
    base = None if unfitted else open_base(base_model, reading)
    names = column_names(X) if Z is None else None
    if names is not None:
        reading = reading.beside(names if base is None else base.columns() or ())
    if base is None:
        params = plan.fit_params or {}
        crossed = cross_fit(base_model, X, y, plan.cv, reading, Z=Z, seed=seed, fit_params=params)
        base, scores = crossed.base, crossed.scores
        reading = replace(reading, sample_weight=crossed.weight(reading.sample_weight))
        free = not plan.paper and plan.validation is None
        folds = crossed.folds or None if free else None
        plan = replace(plan, cv=folds, cross_fitted=True)
    base = remember_columns(base, X)
    problem = read_problem(base, X, y, reading, scores=scores, Z=Z)
    reading.warn_left_out(sorted(set(names or ()) - set(problem.table.schema.names)))
    return base, problem, plan
