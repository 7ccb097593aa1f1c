"""The gate: a graph must give what its model gives before anybody sees it.

Compared are the user's rows and rows made for the purpose (`recalibrate.graph.rows`), in one
batch, one by one and in between, on one thread and on two. A tree base with learners of our own
has to agree to the last bit; where a runtime itself is not that stable (linear bases, networks,
foreign regressors), rows that differ visibly are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from recalibrate.bases.protocol import count_rows
from recalibrate.bases.wrappers import is_exact
from recalibrate.core.learning import is_score
from recalibrate.data.splitting import split_columns
from recalibrate.graph.decisions import ACTION, is_best
from recalibrate.graph.errors import ParityError
from recalibrate.graph.rows import MIXED_ROWS, MOST_TEXTS, Kinds, RowMaker, Rows
from recalibrate.graph.served import ServedModel, load_served
from recalibrate.graph.thresholds import graph_texts, graph_thresholds, learner_thresholds
from recalibrate.support.interruptions import ignoring_failures

if TYPE_CHECKING:
    from recalibrate.deciding import ClassDecision, Decision
    from recalibrate.model import Recalibrated

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
    texts = graph_texts(graph, MOST_TEXTS) if isinstance(graph, onnx.ModelProto) else []
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
