"""What the loop needs from a class H, and what it tells the class about a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from math import inf
from typing import ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.family import MARGIN_STEP_LIMIT
from recalibrate.core.fixedpoint import VALUE_STEP, Scale
from recalibrate.core.kinds import module_of, read_parameters
from recalibrate.core.part import Part, PendingStep, Statistic, Sums
from recalibrate.core.rounds import Block, Encoder, Learned, Rounds, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema

# --- What the loop sees of the rows, wherever they are: sums of statistics ----------------------


class StatsSource(Protocol):
    """Rows in parts, whose statistics are summed."""

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""

    @property
    def scale(self) -> Scale:
        """Fixed point of all sums."""

    @property
    def only_part(self) -> Part | None:
        """The part that has all rows, if there is one: then nothing needs summing."""

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        """Do some work on the driver's side in pieces, side by side where that is possible."""

    def sums(self, statistic: Statistic) -> Sums:
        """A statistic of all parts together."""

    def each(self, statistic: Statistic) -> Iterable[Sums]:
        """The statistic of every part, in the order of the rows."""

    def scores(self, model: Rounds) -> Scores:
        """Scores of the rows, in the order they were given."""


SCORE_COLUMN = "base score"
"""Name of the column that holds the base model's score when H may look at it."""


def is_score(name: str) -> bool:
    """Whether a column is the base model's score, or that of a class.

    Examples
    --------
    >>> [is_score(name) for name in ("base score", "base score of 'a'", "age")]
    [True, True, False]
    """
    return name == SCORE_COLUMN or name.startswith(f"{SCORE_COLUMN} of ")


def score_columns(classes: Sequence[object]) -> list[str]:
    """Names of the columns that hold the base model's scores: one, or one for every class."""
    # A backtick cannot be quoted in the language of groups.
    named = [f"{SCORE_COLUMN} of {label!r}".replace("`", "'") for label in classes]
    return named or [SCORE_COLUMN]


def everyone(schema: Schema) -> str:
    """The group of all rows, as an expression over the first of the base model's scores.

    Moving it on level sets is plain calibration.
    """
    return f"`{next(filter(is_score, schema.names), SCORE_COLUMN)}` is not missing"


@dataclass(frozen=True)
class Penalty:
    """What keeps learners small.

    Attributes
    ----------
    l2
        Added to the weight (or hessian) sum of every fitted number but Linear's intercept.
    min_gain
        Least fall of the summed loss that a split must bring. Fitting noise brings about the
        residual variance whatever the number of rows, so this is a sum, not a mean.
    min_level_rows
        Level sets with fewer rows are left as they are.
    step_limit
        Largest change of a log-odds or a logarithm in one step.
    """

    l2: float = 0.0
    min_gain: float = 0.0
    min_level_rows: int = 1
    step_limit: float = MARGIN_STEP_LIMIT


@dataclass(frozen=True)
class BoostingDefaults:
    """How the default fit boosts with a class; the numbers here suit one that it knows nothing of.

    Attributes
    ----------
    l2
        See :class:`Penalty`.
    levels
        Numbers of level sets of every round, to be tried on held-out rows; None: as many as the
        rows can fill.
    step
        Share of every fitted correction that is taken.
    patience
        Steps without a gain on held-out rows before a fold stops boosting. After 20 some tables
        were left too early; many more cost time and gain little (cross-validated).
    draws
        Whether every learner sees a share of the rows, drawn anew: for classes that draw anyway.
    """

    l2: float = 0.0
    levels: tuple[int | None, ...] = (1, 3)
    step: float = 0.1
    patience: int = 25
    draws: bool = False

    def levels_for(self, n_rows: int) -> tuple[int, ...]:
        """Numbers of level sets to try with so many rows."""
        numbers = (level_count(n_rows) if count is None else count for count in self.levels)
        return tuple(dict.fromkeys(numbers))


ROWS_PER_LEVEL = 1000
FEWEST_LEVELS, MOST_LEVELS = 3, 10


def level_count(n_rows: int) -> int:
    """Level sets that so many rows can fill."""
    return int(np.clip(n_rows // ROWS_PER_LEVEL, FEWEST_LEVELS, MOST_LEVELS))


@dataclass(frozen=True, eq=False)
class StepContext:
    """One step to be learned.

    Attributes
    ----------
    source
        The rows.
    draft
        The model so far, and the level sets drawn for this step.
    levels
        Number of level sets.
    step
        Share of the fitted correction that is taken.
    penalty
        See :class:`Penalty`.
    seed
        For classes that draw at random; with the number of steps so far it fixes the draw.
    """

    source: StatsSource
    draft: PendingStep
    levels: int
    step: float
    penalty: Penalty
    seed: int = 0

    @property
    def values(self) -> NDArray[np.float64]:
        """Score of every level set where scores are rounded (needed to replace them)."""
        steps = self.draft.model.steps
        grid = self.draft.partition or (steps[-1].grid if steps else None)
        return np.zeros(self.levels) if grid is None or grid.values is None else grid.values

    @property
    def limit(self) -> float:
        """Largest change of a row's score by this step; a multiple of the values' own step."""
        if self.draft.replace or not self.draft.model.family.newton:
            return inf
        return round(self.step * self.penalty.step_limit / VALUE_STEP) * VALUE_STEP


@dataclass(frozen=True, eq=False)
class FitResult:
    """What was learned, and the summed s of the rows that were left alone."""

    table: Learned
    skipped: int = 0


class Learner(Protocol):
    """A class H bound to a table's columns."""

    @property
    def encoder(self) -> Encoder:
        """Makes the block of numbers that the class works on."""

    @property
    def inexact(self) -> str:
        """Why a step is not exact least squares over H; empty when it is."""

    def learn(self, task: StepContext) -> FitResult:
        """Fit one small model per level set."""


@runtime_checkable
class NamesGroups(Protocol):
    """A learner whose class consists of groups that have names."""

    def group_shares(self, source: StatsSource) -> dict[str, float]:
        """Share of the rows' weight in every group; the class is the source's only one."""


@runtime_checkable
class Quantises(Protocol):
    """A learner that works on rounded columns."""

    def for_rows(self, source: StatsSource) -> Learner:
        """The same for other rows than it was bound to, which may lie far outside of those."""

    def lost(self, source: StatsSource, B: float) -> tuple[float, str]:
        """By how much h of the class with h^2 <= B may differ from one of rounded columns.

        On the rows of the source; infinite if these do not say, with the reason.
        """


class FunctionClass(ABC):
    """A class H as the user describes it."""

    kind: ClassVar[str]
    """Its name in :mod:`recalibrate.core.kinds`."""
    shorthand: ClassVar[tuple[str, ...]] = ()
    """Examples of it as a text; the bare name is one of them if the class needs no arguments."""
    has_rules: ClassVar[bool] = False
    """Whether it consists of rules that have names, which an audit can search."""
    in_pieces: ClassVar[bool] = True
    """Whether it learns from sums over pieces; otherwise it needs all rows at once."""
    features: Sequence[str] | None = None
    """Columns that it may look at; None: all."""
    terms: tuple[str, ...] = ()
    min_rows: int = 1
    """Expressions of the groups that it is made of, if it is, and least rows of crossed ones."""

    def __post_init__(self) -> None:
        """Column names become a tuple; a single string would be taken for its letters."""
        if isinstance(self.features, str):
            raise TypeError(
                f"features must be a list of column names, got the string {self.features!r}; "
                f"write features=[{self.features!r}]"
            )
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))

    def reads(self, schema: Schema) -> list[str]:
        """The columns among these that it looks at, without the base score."""
        return choose_columns(schema, self.features, base_score=False)

    @property
    def takes_all(self) -> bool:
        """Whether it looks at all columns that it can read: nobody named any."""
        return self.features is None and not self.terms

    def pace(self, link: str) -> BoostingDefaults:
        """How the default fit boosts with it."""
        return BoostingDefaults()

    def richer(self) -> FunctionClass | None:
        """A class that finds more, if there is one of the same kind."""
        return None

    @property
    def takes_missing(self) -> bool:
        """Whether values may be missing."""
        return True

    @property
    def described(self) -> str:
        """How the summary shows it."""
        return repr(self)

    @classmethod
    def read(cls, arguments: Sequence[str], text: str) -> Self:
        """The class from its arguments in a short text."""
        return cls(**read_parameters(list(signature(cls).parameters), arguments, text))

    @abstractmethod
    def bind(self, columns: Columns, *, index: int = 0) -> Learner:
        """The class on some columns; ``index`` is the encoder's number in the model."""


def choose_columns(schema: Schema, features: Sequence[str] | None, base_score: bool) -> list[str]:
    """Columns that H may look at: those named, or all; the base score only when asked for."""
    if features is None:
        names = [name for name in schema.names if not is_score(name)]
    else:
        own = schema.select([n for n in schema.names if not is_score(n)])
        for name in features:
            own.index(name)
        names = list(features)
    if base_score:
        scores = [name for name in schema.names if is_score(name)] or [SCORE_COLUMN]
        names += [name for name in scores if name not in names]
    return names


# --- Why a step moved a row: its rule in words, and what every feature added --------------------
#
# A class has its reasons in its module ``reasons``, as ``REASONS``; :func:`reasons_of` finds them.


Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
T = TypeVar("T", bound=Learned)
E = TypeVar("E", bound=Encoder)


class Reasons(ABC, Generic[T, E]):
    """One step on some rows, whose encoded features and level sets are given."""

    additive: ClassVar[bool] = False
    """Whether the rule is a sum, which is told by what its terms add."""

    def __init__(self, table: T, encoder: E, schema: Schema, block: Block, level: Ints) -> None:
        self.table, self.encoder, self.schema = table, encoder, schema
        self.block, self.level = block, level

    @property
    def kind(self) -> str:
        """What the step's learners are."""
        return self.table.kind

    @abstractmethod
    def words(self, row: int) -> str:
        """The rule that a row met."""

    @abstractmethod
    def parts(self) -> dict[str, Floats]:
        """What every feature (or group term) added to the rows; the rest is the level set's."""


def reasons_of(table: T, encoder: E, schema: Schema, block: Block, level: Ints) -> Reasons[T, E]:
    """Why a step moved some rows."""
    reasons: type[Reasons[T, E]] = module_of(table.kind).REASONS
    return reasons(table, encoder, schema, block, level)
