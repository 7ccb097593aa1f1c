"""fit: from a base model and labelled rows to a Recalibrated model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from recalibrate.boost import Boosted, Settings
from recalibrate.certificate import Certificate
from recalibrate.engines.memory import resolve_threads
from recalibrate.levels import Link
from recalibrate.model import Recalibrated
from recalibrate.options import LevelKind, loop_settings, paper_settings, read_class
from recalibrate.paper import certify
from recalibrate.problem import Problem, read_problem
from recalibrate.scores import Base, as_base
from recalibrate.validation import judge, run_folds
from recalibrate.workbench import Workbench, make_workbench

DEFAULT_FOLDS = 5


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
    link: Link | None = None,
    categorical: Sequence[str] | None = None,
    levels: int | None = None,
    level_kind: LevelKind | None = None,
    rounded: bool = False,
    step: float | None = None,
    tables_per_round: int | None = None,
    l2: float | None = None,
    min_gain: float = 0.0,
    min_level_rows: int | None = None,
    tolerance: float | Literal["authors"] | None = None,
    patience: int = 20,
    accept: float | None = None,
    max_rounds: int | None = None,
    keep_unrounded: bool = False,
    threads: int | None = None,
    blocks: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Recalibrated:
    """Recalibrate a trained model so that it is right on average inside every group.

    The rows must be rows that the base model was **not** trained on: on its training rows a
    model looks better calibrated than it is. With ``alpha`` (and ``B``) the run is Algorithm 1
    of [1]_ to the letter; otherwise updates are small, not rounded, and validated: the number
    of rounds is chosen on held-out rows, and where the data supports no correction the base's
    predictions are returned unchanged.

    Parameters
    ----------
    base_model
        A trained model of a framework with an adapter, a callable ``X -> scores``, or an array
        with one score per row (then ``predict`` needs the new rows' scores as ``base=``).
    X
        Calibration rows: a DataFrame (it may have columns that the base model does not use,
        such as sensitive attributes) or an array.
    y
        Labels: 0/1 or bool, soft labels in [0, 1], or bounded numbers.
    H
        The class to be multicalibrated for: ``Trees(...)``, ``Linear(...)``, ``Groups(...)``,
        ``Estimator(...)``, or "trees", "linear".
    Z
        H's own table, where X is not a table.
    sample_weight
        Weights of the rows; a row of weight 2 counts as the row twice.
    alpha, B
        Run Algorithm 1: the output is alpha-approximately multicalibrated for the h in H with
        h(x)^2 <= B (default 1) on the fitted rows, see ``certificate_``.
    cv
        Number of folds or any scikit-learn splitter for choosing the number of rounds; the
        model is then refitted on all rows. Default 5.
    validation
        Instead of folds: a pair (X, y) or dict of held-out rows, a share of the rows such as
        0.2, or False for no validation.
    bounds
        Smallest and largest possible label of a regression; default: as observed.
    base_link
        "logit" when an array's or callable's scores are log-odds.
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
        paper's own code, .1 / levels.
    patience
        Steps without a lower held-out error before stopping.
    accept
        With held-out rows: keep a level set's update only if its held-out error falls by more
        than this share (validated updates).
    max_rounds
        Most rounds.
    keep_unrounded
        Keep the last update un-rounded as the output of a rounded run.
    threads, blocks
        How the work is cut; the model is the same for all values.
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
    base = as_base(base_model, link=base_link)
    function_class = read_class("trees" if H is None else H)
    paper = alpha is not None or B is not None
    problem = read_problem(
        base,
        X,
        y,
        Z=Z,
        sample_weight=sample_weight,
        bounds=bounds,
        link="identity" if paper else link,
        categorical=categorical,
        clip=paper or rounded,
    )
    if paper:
        settings = paper_settings(
            alpha, B, min_level_rows=min_level_rows, keep_unrounded=keep_unrounded, seed=seed
        )
    else:
        settings = loop_settings(
            problem,
            levels=levels,
            level_kind=level_kind,
            rounded=rounded,
            step=step,
            tables_per_round=tables_per_round,
            l2=l2,
            min_gain=min_gain,
            min_level_rows=min_level_rows,
            tolerance=tolerance,
            patience=patience,
            accept=accept,
            max_rounds=max_rounds,
            keep_unrounded=keep_unrounded,
            seed=seed,
        )
    bench = make_workbench(
        problem, function_class, settings, threads=resolve_threads(threads), blocks=blocks
    )
    run = _Fit(base, problem, function_class, settings, bench, progress)
    if paper:
        return run.paper(alpha, B, validation)
    return run.validated(cv, validation)


class _Fit:
    """One call of ``fit``, after everything was read."""

    def __init__(
        self,
        base: Base,
        problem: Problem,
        H: Any,
        settings: Settings,
        bench: Workbench,
        progress: bool | None,
    ) -> None:
        self.base = base
        self.problem = problem
        self.H = H
        self.settings = settings
        self.bench = bench
        self.progress = progress

    def paper(self, alpha: float | None, B: float | None, validation: Any) -> Recalibrated:
        """Algorithm 1 on all rows; validation rows only estimate."""
        limit = 1.0 if B is None else float(B)
        held_out = None
        if validation is not None and validation is not False:
            held_out = self.bench.read_held_out(self.base, validation, clip=True)
        boosted = self.bench.run(self.settings, held_out=held_out, progress=self.progress)
        certificate = certify(
            self.bench, self.settings, boosted, float(alpha or 0), limit, held_out
        )
        return self._model(boosted, certificate)

    def validated(self, cv: Any, validation: Any) -> Recalibrated:
        """The loop with its number of steps chosen on held-out rows, if there are any."""
        bench, settings = self.bench, self.settings
        if validation is False:
            return self._model(bench.run(replace(settings, patience=None), progress=self.progress))
        if validation is not None and not isinstance(validation, (int, float)):
            if cv is not None:
                raise ValueError("give either cv= or validation=, not both")
            held_out = bench.read_held_out(self.base, validation, clip=settings.grid is not None)
            return self._model(bench.run(settings, held_out=held_out, progress=self.progress))
        folds = bench.folds(DEFAULT_FOLDS if cv is None else cv, settings.seed)
        if validation is not None:
            folds = bench.folds(round(1 / _share(validation)), settings.seed)[:1]
        start = bench.start(settings)
        runs = run_folds(
            bench.rows, bench.scale, bench.learner, settings, start, folds, threads=bench.threads
        )
        verdict = judge(runs, bench.rows, self.problem.labels.weight, start, se_rule=1.0)
        final = replace(
            settings, patience=None, accept=None, max_rounds=verdict.steps, tolerance=None
        )
        boosted = bench.run(final, progress=self.progress)
        boosted = replace(boosted, history=replace(boosted.history, held_out=verdict.curve))
        note = (
            f"{len(folds)}-fold held-out loss falls by {verdict.gain:.3g} "
            f"(standard error {verdict.error:.2g})"
        )
        if verdict.steps == 0:
            note += ": no more than noise, so the base's predictions are returned unchanged"
        return self._model(boosted, notes=(note,))

    def _model(
        self,
        boosted: Boosted,
        certificate: Certificate | None = None,
        notes: tuple[str, ...] = (),
    ) -> Recalibrated:
        labels = replace(self.problem.labels, values=np.empty(0), weight=None)
        return Recalibrated(
            base=self.base,
            rounds=boosted.log,
            H=self.H,
            schema=self.problem.table.schema,
            labels=labels,
            settings=self.settings,
            history_=boosted.history,
            certificate_=certificate,
            clip=self.settings.grid is not None,
            notes=notes,
        )


def _share(validation: float) -> float:
    if isinstance(validation, bool) or not 0 < validation < 1:
        raise ValueError(
            f"validation as a share must lie between 0 and 1, got {validation!r}; "
            "False turns validation off"
        )
    return float(validation)
