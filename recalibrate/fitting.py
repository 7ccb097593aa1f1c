"""fit: from a base model and labelled rows to a Recalibrated model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from recalibrate.boost import Boosted, History, Settings
from recalibrate.certificate import Certificate
from recalibrate.engines.memory import Rows, resolve_threads
from recalibrate.folds import Fold, deal_folds, dealing_order, hold_out, split_folds
from recalibrate.levels import Link
from recalibrate.model import Recalibrated
from recalibrate.options import (
    Knobs,
    LevelKind,
    check_paper,
    check_run,
    loop_settings,
    paper_settings,
    read_class,
)
from recalibrate.paper import certify
from recalibrate.problem import Problem, read_problem
from recalibrate.recipe import DEFAULT_CLASS, follow_recipe
from recalibrate.rounds import Rounds
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
        Weights of the rows; a row of weight 2 counts as the row twice. Weights that are all the
        same are no weights.
    alpha, B
        Run Algorithm 1: the output is alpha-approximately multicalibrated for the h in H with
        h(x)^2 <= B (default 1) on the fitted rows, see ``certificate_``.
    cv
        Number of folds or any scikit-learn splitter for choosing the number of rounds; the
        model is then refitted on all rows. Default 5.
    validation
        Instead of folds: a pair (X, y) or dict of held-out rows, a share of the rows such as
        0.2, or False for no validation. With ``alpha`` held-out rows only estimate: a share is
        set aside and not fitted.
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
    H = DEFAULT_CLASS if H is None else read_class(H)
    paper = alpha is not None or B is not None
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
    knobs.check()
    check_run(threads, blocks, seed)
    seed = int(seed)  # numpy's integers overflow where Python's do not
    if paper:
        check_paper(knobs, cv, link)
    if cv is not None and validation is not None:
        raise ValueError("give either cv= or validation=, not both")
    if accept is not None and not _gives_rows(validation):
        raise ValueError(
            f"accept={accept!r} compares updates on held-out rows, but validation= gives none; "
            "pass a pair validation=(X, y) or a dict (folds end with a refit on all rows)"
        )
    problem = read_problem(
        base,
        X,
        y,
        Z=Z,
        sample_weight=sample_weight,
        bounds=bounds,
        link="identity" if paper else link,
        categorical=categorical,
        clip=paper or bool(rounded),
    )
    run = _Fit(base, problem, H, resolve_threads(threads), blocks, seed, progress)
    if paper:
        settings = paper_settings(alpha, B, knobs, seed)
        return run.paper(settings, float(alpha or 0.0), 1.0 if B is None else B, validation)
    if not knobs.turned and (validation is None or _is_share(validation)):
        return run.recipe(cv, validation)
    return run.loop(loop_settings(problem, knobs, seed), cv, validation)


def _is_share(validation: Any) -> bool:
    """Whether a share of the rows is to be held out; its range is checked where it is used."""
    number = isinstance(validation, int | float | np.integer | np.floating)
    return number and validation is not False


def _gives_rows(validation: Any) -> bool:
    return validation is not None and validation is not False and not _is_share(validation)


class _Fit:
    """One call of ``fit``, after everything was read."""

    def __init__(
        self,
        base: Base,
        problem: Problem,
        H: Any,
        threads: int,
        blocks: int | None,
        seed: int,
        progress: bool | None,
    ) -> None:
        self.base = base
        self.problem = problem
        self.H = H
        self.threads = threads
        self.blocks = blocks
        self.seed = seed
        self.progress = progress

    def paper(self, settings: Settings, alpha: float, B: float, validation: Any) -> Recalibrated:
        """Algorithm 1 on all rows but those that validate, which only estimate."""
        folds = self._folds(None, validation) if _is_share(validation) else []
        held_out: Rows | None = None
        if folds:
            train, aside = folds[0]
            bench = self._bench(settings, self.problem.take(train))
            held_out = bench.take_held_out(self.problem.take(aside))
        else:
            bench = self._bench(settings)
            if _gives_rows(validation):
                held_out = bench.read_held_out(self.base, validation, clip=True)
        boosted = bench.run(settings, held_out=held_out, progress=self.progress)
        certificate = certify(bench, settings, boosted, alpha, B, held_out)
        return self._model(boosted, settings, certificate)

    def recipe(self, cv: Any, validation: Any) -> Recalibrated:
        """The default: stages that held-out rows have to approve of."""
        problem = self.problem
        folds = self._folds(cv, validation)
        if not folds:
            return self._unchanged()
        boosted, settings, notes = follow_recipe(
            problem,
            self.H,
            folds,
            threads=self.threads,
            blocks=self.blocks,
            seed=self.seed,
            progress=self.progress,
        )
        return self._model(boosted, settings, notes=notes)

    def loop(self, settings: Settings, cv: Any, validation: Any) -> Recalibrated:
        """The loop as the knobs say, its steps chosen on held-out rows if there are any."""
        bench = self._bench(settings)
        if validation is False:
            plain = replace(settings, patience=None)
            return self._model(bench.run(plain, progress=self.progress), settings)
        if _gives_rows(validation):
            held_out = bench.read_held_out(self.base, validation, clip=settings.grid is not None)
            boosted = bench.run(settings, held_out=held_out, progress=self.progress)
            return self._model(boosted, settings)
        folds = self._folds(cv, validation)
        if not folds:
            return self._unchanged()
        start = bench.start(settings)
        runs = run_folds(
            bench.rows, bench.scale, bench.learner, settings, start, folds, threads=self.threads
        )
        verdict = judge(runs, bench.rows, self.problem.labels.weight, start)
        final = replace(settings, patience=None, max_rounds=verdict.rounds, tolerance=None)
        if verdict.rounds == 0:
            settings = final = replace(final, grid=None)  # not even rounded
        boosted = bench.run(final, progress=self.progress)
        boosted = replace(boosted, history=replace(boosted.history, held_out=verdict.curve))
        return self._model(boosted, settings, notes=(verdict.note,))

    def _unchanged(self) -> Recalibrated:
        """The base as it is: there are too few rows to hold any out."""
        note = f"{self.problem.n_rows} row(s) cannot be split: the base is returned unchanged"
        empty = Rounds(self.problem.link)
        return self._model(
            Boosted(empty, History(), None, empty), Settings(link=empty.link), notes=(note,)
        )

    def _bench(self, settings: Settings, problem: Problem | None = None) -> Workbench:
        return make_workbench(
            problem or self.problem, self.H, settings, threads=self.threads, blocks=self.blocks
        )

    def _folds(self, cv: Any, validation: float | None) -> list[Fold]:
        """Folds by content, or as the user splits; none when there are too few rows."""
        problem = self.problem
        if cv is not None and (isinstance(cv, bool) or not isinstance(cv, (int, np.integer))):
            return split_folds(cv, problem.given.labels, problem.given.rows)
        if cv is not None and cv < 2:
            raise ValueError(f"cv must be at least 2 folds or a splitter, got {cv!r}")
        if validation is not None and (isinstance(validation, bool) or not 0 < validation < 1):
            raise ValueError(
                f"validation as a share must lie between 0 and 1, got {validation!r}; "
                "False turns validation off"
            )
        labels = problem.labels
        order = dealing_order(problem.table, labels.values, problem.base, labels.weight, self.seed)
        if validation is not None:
            fold = hold_out(order, float(validation))
            return [fold] if min(map(len, fold)) > 0 else []
        count = min(DEFAULT_FOLDS if cv is None else int(cv), problem.n_rows)
        return deal_folds(order, count) if count > 1 else []

    def _model(
        self,
        boosted: Boosted,
        settings: Settings,
        certificate: Certificate | None = None,
        notes: tuple[str, ...] = (),
    ) -> Recalibrated:
        return Recalibrated(
            base=self.base,
            rounds=boosted.log,
            H=self.H,
            schema=self.problem.table.schema,
            labels=replace(self.problem.labels, values=np.empty(0), weight=None),
            settings=settings,
            history_=boosted.history,
            certificate_=certificate,
            clip=settings.grid is not None,
            notes=notes,
        )
