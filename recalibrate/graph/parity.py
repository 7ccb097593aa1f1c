"""Parity check: a graph must give what its model gives before it is written.

Compared are the user's rows and rows made for the purpose, in one
batch, one by one and in between, on one thread and on two. A tree base with learners of our own
has to agree to the last bit; where a runtime itself is not that stable (linear bases, networks,
foreign regressors), rows that differ visibly are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from recalibrate.bases.protocol import count_rows
from recalibrate.bases.wrappers import is_exact
from recalibrate.core.learning import is_score
from recalibrate.core.levels import softmax, to_margin
from recalibrate.core.rounds import Rounds
from recalibrate.data.table import Column, split_columns
from recalibrate.graph.decisions import ACTION, is_best
from recalibrate.graph.forms import form_of
from recalibrate.graph.inputs import BASE_SCORE, Input, ParityError
from recalibrate.graph.served import ServedModel, load_served
from recalibrate.support.onnxgraph import ML_DOMAIN
from recalibrate.support.threads import ignoring_failures, reraise_interruption

if TYPE_CHECKING:
    from recalibrate.deciding import ClassDecision, Decision
    from recalibrate.model import Recalibrated


# --- Thresholds of a model: the values at which a graph could disagree with it ------------------


Found = dict[str, set[float]]


def learner_thresholds(rounds: Rounds) -> Found:
    """Numbers that H's learners compare a column with, by column."""
    found: Found = defaultdict(set)
    for k, encoder in enumerate(rounds.encoders):
        tables = [step.table for step in rounds.steps if step.encoder == k]
        for column, value in form_of(encoder.kind).thresholds(encoder, tables):
            found[column].add(value)
    return found


def graph_thresholds(model: onnx.ModelProto, columns: tuple[str, ...]) -> Found:
    """Numbers that the trees of a graph compare its columns with.

    Right for graphs whose trees look at the columns as they come in; for others the numbers are
    just numbers, and do no harm.
    """
    found: Found = defaultdict(set)
    for node in model.graph.node:
        if node.domain == ML_DOMAIN and node.op_type.startswith("TreeEnsemble"):
            given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            splits = _splits(given)
            for column, value in zip(given.get("nodes_featureids", []), splits, strict=False):
                if column < len(columns) and np.isfinite(value):
                    found[columns[column]].add(float(value))
    return found


def _graph_texts(model: onnx.ModelProto, most: int) -> list[str]:
    """Texts that a graph looks up, whatever the column: some of them are its categories."""
    found: dict[str, None] = {}
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "keys_tensor" and attribute.t.data_type == TensorProto.STRING:
                texts = numpy_helper.to_array(attribute.t).reshape(-1)[:most]
                found.update(dict.fromkeys(map(str, texts.tolist())))
    return list(found)[:most]


def _splits(given: dict[str, Any]) -> NDArray[Any]:
    for name in ("nodes_splits", "nodes_values_as_tensor"):
        if name in given:
            return numpy_helper.to_array(given[name])
    return np.asarray(given.get("nodes_values", []))


def around(
    values: set[float], most: int, kind: type[np.float32 | np.float64]
) -> NDArray[np.float64]:
    """The numbers and their neighbours in a type; an even choice where there are too many."""
    with np.errstate(over="ignore"):
        at = np.unique(np.array(sorted(values), dtype=np.float64).astype(kind))
        if len(at) > most:
            at = at[np.linspace(0, len(at) - 1, most).astype(int)]
        sides = np.nextafter(at, kind(-np.inf)), np.nextafter(at, kind(np.inf))
    return np.unique(np.concatenate([at, *sides])).astype(np.float64)


# --- Rows made to find differences: on every threshold, beside it, missing, infinite, unknown ---
#
# A base model may refuse some of that. What it takes is found out from its examples: rows that it
# has scored before, with one value exchanged.


MOST_PER_COLUMN = 2000
"""Thresholds of a column that get rows of their own."""
MIXED_ROWS = 2000
MOST_CELLS = 4_000_000
"""Numbers in all made rows: of a wide table fewer rows are made, at least `MIXED_ROWS`."""
MOST_TEXTS = 200
"""Categories that are looked for in the graph of a base model, for columns of its own."""
MOST_ASKED = 64
"""Columns whose values are shown to the base model one by one, if it refuses rows."""
REPEATS = 20
"""Rows for every kind of missing or infinite value of a column."""
EXTREMES = (0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e6, -1e6)
"""Sums of numbers much larger than these would overflow in bases that are no trees."""
UNKNOWN_TEXT = "a text that no category is called"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the form that a model takes, and what is special about each.

    ``about`` names the column that a row was made for, or where the row comes from.
    """

    X: Any
    about: list[str]
    base: NDArray[np.float64] | None = None
    Z: Any = None

    def __len__(self) -> int:
        return len(self.about)

    def take(self, chosen: NDArray[np.intp] | slice) -> Rows:
        """Some of the rows."""
        picked = np.arange(len(self))[chosen]
        return Rows(
            _take(self.X, picked),
            [self.about[k] for k in picked],
            None if self.base is None else self.base[picked],
            _take(self.Z, picked),
        )


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    if X is None:
        return None
    if hasattr(X, "iloc"):
        return X.iloc[rows].reset_index(drop=True)
    return [X[k] for k in rows] if isinstance(X, list | tuple) else X[rows]


@dataclass(frozen=True)
class Kinds:
    """Which special values rows may have: not every base model takes all of them.

    Attributes
    ----------
    unknown
        Texts that are no category.
    far
        Numbers far from those of ordinary data: exponentials of them are infinite.
    missing, infinite
        NaN and None; infinite numbers.
    """

    unknown: bool = True
    far: bool = True
    missing: bool = True
    infinite: bool = True


ALL_KINDS = Kinds()


@dataclass(frozen=True, eq=False)
class RowMaker:
    """Makes rows from what is known about the columns.

    Attributes
    ----------
    model
        The model that will predict them.
    ports
        Inputs of the graph; columns that are not among them do not matter.
    thresholds
        Numbers that the base model and the learners compare columns with.
    examples
        By column values that the base model has taken before.
    texts
        Texts that the base model may know, for its own columns.
    most_rows
        Most rows to make.
    seed
        Draws the rest of every row.
    """

    model: Recalibrated
    ports: Sequence[Input]
    thresholds: Found
    examples: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    texts: Sequence[str] = ()
    most_rows: int = MOST_CELLS
    seed: int = 0

    @property
    def possible(self) -> bool:
        """Whether every input is a column, so that rows can be made at all."""
        tensors = [port for port in self.ports if not port.columns and port.name != BASE_SCORE]
        return not tensors and not self.model.own_table

    def make(self, kinds: Kinds = ALL_KINDS) -> Rows:
        """Rows with special values everywhere, every value of a column at least once."""
        return self._rows(
            {
                name: self._specials(name, column, port, kinds)
                for name, (column, port) in self._columns().items()
            }
        )

    def make_accepted(self, asked: Callable[[Rows], Any]) -> Rows | None:
        """Rows of values that the model takes; None if there are no examples to try them on.

        ``asked`` raises whatever the model raises for rows that it refuses.
        """
        columns = self._columns()
        background = {name: self.examples.get(name) for name in columns}
        if any(values is None for name, values in background.items() if self._is_base(name)):
            return None
        specials: dict[str, NDArray[Any]] = {}
        left = MOST_ASKED
        for name, (column, port) in columns.items():
            found = self._specials(name, column, port, ALL_KINDS)
            if not self._is_base(name):
                specials[name] = found
                continue
            known = _distinct(self.examples[name])
            fresh = _distinct(found) if left > 0 else known[:0]
            left -= 1
            specials[name] = np.concatenate([known, self._taken(asked, name, fresh)])
        return self._rows(specials)

    def _taken(self, asked: Callable[[Rows], Any], name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Of some values of a column those that the model takes, in an example's row."""
        if not len(values):
            return values
        rows = {
            other: np.resize(self.examples.get(other, np.zeros(1)), len(values))
            for other in self._columns()
        }
        rows[name] = values
        try:
            asked(
                Rows(
                    self._table(rows, len(values)),
                    [name] * len(values),
                    self._no_scores(len(values)),
                )
            )
        except Exception as error:  # any framework may raise anything
            reraise_interruption(error)
            if len(values) == 1:
                return values[:0]
            half = len(values) // 2
            halves = [self._taken(asked, name, part) for part in (values[:half], values[half:])]
            return np.concatenate(halves)
        return values

    def _no_scores(self, n_rows: int) -> NDArray[np.float64] | None:
        return self._base_scores(np.random.default_rng(self.seed), n_rows)

    def _is_base(self, name: str) -> bool:
        return any(name in port.columns and "base" in port.used_by for port in self.ports)

    def _rows(self, specials: dict[str, NDArray[Any]]) -> Rows:
        rng = np.random.default_rng(self.seed)
        most = max(MIXED_ROWS, MOST_CELLS // max(len(specials), 1))
        n_rows = min(sum(map(len, specials.values())) + MIXED_ROWS, most, self.most_rows)
        about = ["several columns"] * n_rows
        values: dict[str, NDArray[Any]] = {}
        at = 0
        for name, own in specials.items():
            # All of them, again and again, each time in another order.
            turns = -(-n_rows // len(own))
            values[name] = rng.permuted(np.tile(own, (turns, 1)), axis=1).reshape(-1)[:n_rows]
            if at + len(own) <= n_rows:
                values[name][at : at + len(own)] = own
                about[at : at + len(own)] = [name] * len(own)
                at += len(own)
        return Rows(self._table(values, n_rows), about, self._base_scores(rng, n_rows))

    def _columns(self) -> dict[str, tuple[Column | None, Input]]:
        """Columns of the graph by name, with what H knows of them."""
        schema = self.model.schema
        known = set(schema.names)
        return {
            name: (schema.columns[schema.index(name)] if name in known else None, port)
            for port in self.ports
            for name in port.columns
        }

    def _specials(
        self, name: str, column: Column | None, port: Input, kinds: Kinds
    ) -> NDArray[Any]:
        known = port.known.get(name)
        if known is not None:
            return np.array(known, dtype=object if port.kind == "string" else np.float64)
        categories = column.categories if column is not None else ()
        seen = _distinct(self.examples.get(name, np.zeros(0)))
        if port.kind == "string":
            texts = [*categories[:MOST_PER_COLUMN]] or [*seen] or [*self.texts]
            unknown = [UNKNOWN_TEXT] if kinds.unknown or not texts else []
            nothing = [None] * (REPEATS * kinds.missing)
            return np.array([*texts, *unknown, *nothing], dtype=object)
        if any(isinstance(value, bool) for value in categories):
            return np.array([True, False, None] if kinds.missing else [True, False], dtype=object)
        thresholds = self.thresholds.get(name, set())
        if port.kind == "int64":
            whole = {int(v) for v in thresholds | {0.0} if abs(v) < 2**53}
            beside = {k + d for k in whole for d in (-1, 0, 1)}
            return np.array(sorted(beside | {int(v) for v in categories[:MOST_PER_COLUMN]}))
        own = np.array([float(v) for v in categories[:MOST_PER_COLUMN]], dtype=np.float64)
        near = around(thresholds, MOST_PER_COLUMN, np.float32)
        if port.kind == "float64":
            near = np.append(near, around(thresholds, MOST_PER_COLUMN, np.float64))
        near = np.append(near, np.array(EXTREMES if kinds.far else EXTREMES[:-2], np.float32))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is left out
            near = np.append(near, _outward(seen).astype(port.kind))
            known_already = np.isin(near.astype(np.float32), own.astype(np.float32))
        near = near[np.isfinite(near) & ~known_already]
        more = [np.nan] * kinds.missing + [np.inf, -np.inf] * kinds.infinite
        return np.concatenate([own, near, more * REPEATS])

    def _table(self, values: dict[str, NDArray[Any]], n_rows: int) -> Any:
        """A table of columns, of which there may be none."""
        import pandas as pd

        schema = self.model.schema
        if schema.named:
            return pd.DataFrame(values, index=range(n_rows))
        names = [name for name in schema.names if not is_score(name)]
        columns = [values.get(name, np.zeros(n_rows)) for name in names]
        plain = all(column.dtype != object for column in columns)
        return np.stack([c if plain else c.astype(object) for c in columns], axis=1)

    def _class_scores(self, rng: np.random.Generator, n_rows: int) -> NDArray[np.float64]:
        """Scores of classes, from even ones to certain ones."""
        spread = rng.choice([0.1, 1.0, 4.0, 40.0], (n_rows, 1))
        logits = spread * rng.normal(size=(n_rows, self.model.rounds.outputs))
        return logits if self.model.base.link == "logit" else softmax(logits)

    def _base_scores(self, rng: np.random.Generator, n_rows: int) -> NDArray[np.float64] | None:
        """Scores at the thresholds of the level sets and beside them, for score-only models."""
        if not any(port.name == BASE_SCORE and not port.columns for port in self.ports):
            return None
        model = self.model
        if model.rounds.outputs > 1:
            return self._class_scores(rng, n_rows)
        levels = [s.partition for s in model.rounds.steps if s.partition is not None]
        levels += [model.rounds.start] if model.rounds.start is not None else []
        at = np.unique(np.concatenate([np.zeros(1), *(lv.thresholds for lv in levels)]))
        own, labels = model.rounds.family, model.labels
        if model.base.link != own.link or labels.kind == "regression":
            at = own.from_margin(at)
        if labels.kind == "regression":
            at = labels.unscale(at)
        if model.base.link == "log":
            at = to_margin(at, "log")
        near = np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)])
        low, high = float(near.min()) - 0.1, float(near.max()) + 0.1
        if model.base.link == "identity" and model.labels.kind != "regression":
            near, low, high = near[(near >= 0) & (near <= 1)], 0.0, 1.0
            near = np.append(near, [0.0, 1.0])
        drawn = rng.uniform(low, high, n_rows)
        some = rng.random(n_rows) < 0.5
        drawn[some] = near[rng.integers(0, len(near), int(some.sum()))]
        return drawn


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Different values, None and NaN once each, a few of them where there are many."""
    import pandas as pd

    found: NDArray[Any] = np.asarray(pd.factorize(values, use_na_sentinel=False)[1])
    chosen = np.linspace(0, len(found) - 1, min(len(found), MOST_TEXTS)).astype(int)
    if values.dtype == object:
        return np.asarray(found[chosen])
    return np.asarray(np.sort(found)[chosen], dtype=np.float64)


def _outward(seen: NDArray[Any]) -> NDArray[np.float64]:
    """The ends of what was seen, and numbers further and further beyond them."""
    numbers = seen[np.isfinite(seen)] if seen.dtype.kind == "f" else np.zeros(0)
    if not len(numbers):
        return numbers
    low, high = float(numbers.min()), float(numbers.max())
    steps = np.array([0.0, 0.1, 1.0, 10.0]) * ((high - low) or max(abs(low), 1.0))
    return np.concatenate([low - steps, high + steps])


# --- Parity check: a graph must give what its model gives before it is written ------------------


TOLERANCE = 1e-6
"""A difference of predictions (in label ranges) that counts, where bits are not promised."""
LAST_BITS = 2.0**-50
"""What the last bits of an exponential can do to a prediction, hence to an action."""
ALLOWED_SHARE = 5e-6
ALLOWED_LUCK = 2
"""Of a thousand rows or more, this many may differ: made rows are the worst that can happen."""
BATCHES = (7, 64, 1000)
MOST_BATCHES, FEWEST_BATCHES = 100, 10
"""Batches of every size; fewer of a graph with very many nodes or inputs."""
MOST_WORK = 6_000_000_000
"""Bytes of a graph times rows made for it: of a very large graph fewer are made."""
SHOWN_ROWS = 5
EXAMPLES = 200
"""Rows of the user's, or of a base model's first, that made rows are made from."""
SAMPLE = "sample row"


@dataclass(frozen=True)
class ParityReport:
    """What was compared, and what was found.

    Attributes
    ----------
    rows
        Number of rows.
    exact
        Whether equality to the last bit was demanded.
    differing
        Rows whose prediction differs at all in float32.
    beyond
        Rows whose prediction differs by more than 1e-6 label ranges.
    largest
        Largest difference of predictions.
    """

    rows: int
    exact: bool
    differing: int
    beyond: int
    largest: float


def check_parity(
    model: Recalibrated,
    graph: onnx.ModelProto,
    X_sample: Any = None,
    *,
    base: Any = None,
    Z: Any = None,
    decision: Decision | ClassDecision | None = None,
) -> ParityReport:
    """Compare a graph with its model; a `ParityError` shows the worst rows.

    Parameters
    ----------
    model
        The model.
    graph
        What `export_model` made of it.
    X_sample
        Rows of the user; made rows are compared in any case where they can be made.
    base, Z
        Base scores and H's own table of these rows, as for ``predict``.
    decision
        What the graph's actions are compared with, if it has any.
    """
    data = graph.SerializeToString()
    served = {threads: load_served(data, threads) for threads in (1, 2)}
    # Trees are few nodes of many bytes, and every input costs time of its own in every call.
    work = max(len(graph.graph.node), len(data) // 150, 30 * len(graph.graph.input))
    batches = int(np.clip(100_000 // work, FEWEST_BATCHES, MOST_BATCHES))
    most = max(MIXED_ROWS, MOST_WORK // len(data))
    comparisons = [
        _compare(model, served, rows, expected, batches, decision)
        for rows, expected in _all_rows(model, served[1], X_sample, base, Z, most)
    ]
    found = _Comparison.joined(comparisons)
    exact = is_exact(model)
    report = found.report(exact)
    allowed = int(np.ceil(ALLOWED_SHARE * report.rows))
    if report.rows >= 1000:
        allowed = max(allowed, ALLOWED_LUCK)
    wrong = found.unequal if exact else found.beyond
    if int(wrong.sum()) > (0 if exact else allowed):
        raise ParityError(_describe(model, found, wrong, report))
    return report


def _all_rows(
    model: Recalibrated, served: ServedModel, X: Any, base: Any, Z: Any, most: int
) -> Iterator[tuple[Rows, _Expected]]:
    maker = RowMaker(model, served.inputs, *_hints(model, X), most_rows=most)
    if X is not None:
        n_rows = count_rows(X)
        sample = Rows(
            X,
            [f"{SAMPLE} {k}" for k in range(len(X) if n_rows is None else n_rows)],
            None if base is None else np.asarray(base, dtype=np.float64),
            Z,
        )
        yield sample, _Expected.of(model, sample)
    made = _acceptable(model, maker) if maker.possible else None
    if made is not None:
        yield made
    elif X is None:
        why = (
            "its base model refuses the rows that were made for it"
            if maker.possible
            else "its base model takes no table, or H has a table of its own (Z=)"
        )
        raise ParityError(
            f"the graph cannot be compared with the model: {why}. Pass rows of your own as "
            "X_sample= (and Z=)"
        )


def _hints(
    model: Recalibrated, X: Any
) -> tuple[dict[str, set[float]], dict[str, NDArray[Any]], list[str]]:
    """Thresholds, example rows and texts, to make rows of."""
    graph = model.base.graph()
    texts = _graph_texts(graph, MOST_TEXTS) if isinstance(graph, onnx.ModelProto) else []
    return model_thresholds(model), _examples(model, X), texts


def _examples(model: Recalibrated, X: Any) -> dict[str, NDArray[Any]]:
    """Columns of rows that the base model takes: the user's, else the first that it scored."""
    rows = getattr(model.base, "examples", None) if X is None else X
    try:
        names, columns = split_columns(rows)
    except (TypeError, ValueError):  # no rows, or no table of them
        return {}
    if names is None:
        names = [f"x{j}" for j in range(len(columns))]
    few = [np.asarray(column[:EXAMPLES]) for column in columns]
    plain = [c.astype(np.float64) if c.dtype.kind in "biuf" else c.astype(object) for c in few]
    return dict(zip(names, plain, strict=True))


def _acceptable(model: Recalibrated, maker: RowMaker) -> tuple[Rows, _Expected] | None:
    """Made rows that the base model takes; None if it takes none.

    First with as many kinds of special values as it takes, then with those single values that it
    takes in the place of an example's.
    """
    for kinds in product((True, False), repeat=4):
        rows = maker.make(Kinds(*kinds))
        with ignoring_failures():  # any framework may raise anything
            return rows, _Expected.of(model, rows)
    accepted = maker.make_accepted(lambda rows: _Expected.of(model, rows))
    if accepted is not None:
        with ignoring_failures():
            return accepted, _Expected.of(model, accepted)
    return None


def model_thresholds(model: Recalibrated) -> dict[str, set[float]]:
    """Numbers that the base model and the learners compare columns with, by column."""
    found = learner_thresholds(model.rounds)
    found = {name: values for name, values in found.items() if not is_score(name)}
    graph = model.base.graph()
    if isinstance(graph, onnx.ModelProto):
        names = tuple(n for n in model.schema.names if not is_score(n))
        for name, values in graph_thresholds(graph, model.base.columns() or names).items():
            found.setdefault(name, set()).update(values)
    return found


@dataclass(frozen=True, eq=False)
class _Expected:
    """What the model says about some rows."""

    margins: NDArray[np.float64]
    mean: NDArray[np.float64]

    @classmethod
    def of(cls, model: Recalibrated, rows: Rows) -> _Expected:
        # Infinite values are made on purpose; a regressor that warns of them need not.
        with np.errstate(all="ignore"):
            return cls(*model.answers(rows.X, rows.base, rows.Z))


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Rows, what the model says, and the graph's answer that is furthest from it.

    ``unequal`` marks rows with any other margin, label or prediction (up to a float32 ulp, which
    is what the last bit of an exponential may do), ``beyond`` those that differ visibly.
    """

    rows: list[Rows]
    expected: NDArray[np.float64]
    given: NDArray[np.float64]
    unequal: NDArray[np.bool_]
    beyond: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: list[_Comparison]) -> _Comparison:
        return cls(
            [rows for part in parts for rows in part.rows],
            np.concatenate([part.expected for part in parts]),
            np.concatenate([part.given for part in parts]),
            np.concatenate([part.unequal for part in parts]),
            np.concatenate([part.beyond for part in parts]),
        )

    @property
    def distance(self) -> NDArray[np.float64]:
        """How far the graph is off, infinitely where its answer is not a number."""
        distance = np.abs(self.given - self.expected.astype(np.float32))
        distance = np.where(np.isnan(distance), np.inf, distance)
        return distance if distance.ndim == 1 else distance.max(axis=1)

    def report(self, exact: bool) -> ParityReport:
        distance = self.distance
        return ParityReport(
            len(distance),
            exact,
            int((distance != 0).sum()),
            int(self.beyond.sum()),
            float(distance.max()),
        )


def _compare(
    model: Recalibrated,
    served: dict[int, ServedModel],
    rows: Rows,
    expected: _Expected,
    batches: int,
    decision: Decision | ClassDecision | None,
) -> _Comparison:
    """Run all ways of cutting the rows, and keep the worst answer for every row."""
    feed = served[1].feed(rows.X, rows.base, rows.Z)
    want = expected.mean.astype(np.float32)
    ulp = np.spacing(np.abs(want))
    scale = model.labels.high - model.labels.low if model.labels.kind == "regression" else 1.0
    worst = want.astype(np.float64)
    unequal, beyond = np.zeros((2, len(rows)), dtype=bool)
    label, sure = _labels(model, expected.mean)
    for threads, part in _runs(len(rows), batches):
        answer = served[threads].answer({name: values[part] for name, values in feed.items()})
        score = answer["score" if "score" in answer else "probabilities"].astype(np.float64)
        off = np.abs(score - want[part])
        off[np.isnan(off)] = np.inf
        worst[part] = np.where(off > np.abs(worst[part] - want[part]), score, worst[part])
        apart = answer["score_margin"] != expected.margins[part]
        unequal[part] |= _any(apart | (off > ulp[part]))
        beyond[part] |= _any(off > TOLERANCE * scale + ulp[part])
        if "label" in answer:
            other = answer["label"] != label[part]
            unequal[part] |= other
            beyond[part] |= other & sure[part]
        if decision is not None:
            action, mean = answer[ACTION], expected.mean[part]
            unequal[part] |= ~is_best(decision.rule, action, mean, LAST_BITS * scale)
            beyond[part] |= ~is_best(decision.rule, action, mean, TOLERANCE * scale)
    return _Comparison([rows], expected.mean, worst, unequal, beyond)


def _any(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows of which any class is flagged."""
    return flags if flags.ndim == 1 else np.asarray(flags.any(axis=1))


def _labels(
    model: Recalibrated, mean: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels of the predictions, and whether they are clear."""
    if mean.ndim == 2:
        first, second = np.sort(mean, axis=1)[:, -1:-3:-1].T
        return model.classes_[mean.argmax(axis=1)], first - second > TOLERANCE
    above = (mean > 0.5).astype(int)
    named = model.labels.classes if model.labels.chosen is None else ()
    classes = np.array(named or (0, 1))
    if classes.dtype.kind == "b":
        classes = classes.astype(int)
    return classes[above], np.abs(mean - 0.5) > TOLERANCE


def _runs(n_rows: int, most: int) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
    """Number of threads and rows of every call: all at once, then ``most`` batches a size."""
    yield 1, slice(None)
    yield 2, slice(None)
    spread = np.random.default_rng(0).permutation(n_rows)
    for size in (1, *BATCHES):
        for k in range(min(most, n_rows // size)):
            yield 1 + k % 2, spread[k * size : (k + 1) * size]


def _describe(
    model: Recalibrated,
    found: _Comparison,
    wrong: NDArray[np.bool_],
    report: ParityReport,
) -> str:
    about = [text for rows in found.rows for text in rows.about]
    order = np.flatnonzero(wrong)
    order = order[np.argsort(-found.distance[order], kind="stable")]
    counts = Counter(
        "the sample" if about[k].startswith(SAMPLE) else repr(about[k]) for k in order.tolist()
    )
    shown = ", ".join(f"{name} ({count})" for name, count in counts.most_common(5))
    lines = [
        f"the graph disagrees with the model on {len(order)} of {report.rows} rows and must not "
        f"be used (base model: {model.base.name}).",
        f"These rows were made for columns, or are the sample's: {shown}.",
        "The worst ones:",
    ]
    for k in order[:SHOWN_ROWS].tolist():
        numbers = f"model {_number(found.expected[k])}, graph {_number(found.given[k])}"
        lines.append(f"  {numbers}: {_row(found.rows, k)}")
    lines.append(
        "Probably the base model's own graph is wrong for such rows. Fit on its scores instead "
        "(an array as the base model): the graph then takes scores as an input."
    )
    return "\n".join(lines)


def _number(value: Any) -> str:
    """A prediction, or those of all classes."""
    return f"{value:.9g}" if np.ndim(value) == 0 else np.array2string(value, precision=9)


def _row(parts: list[Rows], k: int) -> str:
    """One row in words, by its number over all parts."""
    sizes = np.cumsum([len(rows) for rows in parts])
    part = int(np.searchsorted(sizes, k, side="right"))
    rows = parts[part]
    at = k - (int(sizes[part - 1]) if part else 0)
    one = rows.take(np.array([at]))
    if hasattr(one.X, "iloc"):
        values = {name: one.X[name].to_numpy()[0] for name in one.X}
        shown = ", ".join(f"{name}={value}" for name, value in values.items())
    else:
        shown = np.array2string(np.asarray(one.X[0]), threshold=20, precision=9)
    if one.base is not None:
        shown += f", base score {one.base[0].tolist()!r}"
    return f"({rows.about[at]}) {shown}"
