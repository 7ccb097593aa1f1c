"""scikit-learn's transformers of numbers, and what puts transformers together, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.onnxgraph import ML_DOMAIN
from recalibrate_adapters.sklearn_curves import interpolate, named_function, normal_quantile
from recalibrate_adapters.sklearn_writer import Block, NotWrittenError, Part, Writer, computed

# --- scikit-learn's encoders of categories as ONNX nodes ----------------------------------------
#
# A category that is missing (None, NaN) is NaN in a column of numbers and the empty text in a
# column of text, which is what a graph is fed with.


_UNKNOWN = -1


def encoder_writers() -> dict[type, Any]:
    """The transformers that are written here."""
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

    return {
        OneHotEncoder: _one_hot,
        OrdinalEncoder: _ordinal,
        TargetEncoder: _target,
    }


def _one_hot(w: Writer, encoder: Any, block: Block) -> Block:
    found: list[str] = []
    width = 0
    refuses = encoder.handle_unknown == "error"
    for j, part in enumerate(w.single(block)):
        grouped, count, rare = _grouped(encoder, j)
        unknown = rare if rare is not None and not refuses else _UNKNOWN
        codes = _codes(w, part, encoder.categories_[j], grouped, unknown)
        if refuses:
            _remember(w, part, encoder.categories_[j])
        # Codes that are no column are refused, or give a row of zeros.
        columns = w.op(
            "OneHotEncoder",
            codes,
            domain=ML_DOMAIN,
            cats_int64s=list(range(count)),
            zeros=int(not refuses),
        )
        columns = w.op("Reshape", columns, w.constant(np.array([-1, count], dtype=np.int64)))
        dropped = encoder._drop_idx_after_grouping
        if dropped is not None and dropped[j] is not None:
            kept = np.delete(np.arange(count), int(dropped[j]))
            if not len(kept):
                continue
            columns, count = w.columns(columns, kept), len(kept)
        found.append(w.cast(columns, "float64"))
        width += count
    return computed(w.concat(found), width)


def _grouped(encoder: Any, j: int) -> tuple[NDArray[np.float64], int, int | None]:
    """Column of every category, their number, and the column of infrequent ones, if any."""
    count = len(encoder.categories_[j])
    mapping = None
    if getattr(encoder, "_infrequent_enabled", False):
        mapping = encoder._default_to_infrequent_mappings[j]
    if mapping is None:
        return np.arange(count, dtype=np.float64), count, None
    columns = np.asarray(mapping, dtype=np.float64)
    return columns, int(columns.max()) + 1, int(columns.max())


def _ordinal(w: Writer, encoder: Any, block: Block) -> Block:
    refuses = encoder.handle_unknown == "error"
    found = []
    for j, part in enumerate(w.single(block)):
        categories = encoder.categories_[j]
        values, _, _ = _grouped(encoder, j)
        missing = encoder._missing_indices.get(j)
        if missing is not None:
            values[missing] = encoder.encoded_missing_value
        if refuses:
            _remember(w, part, categories)
            found.append(_refusing(w, part, categories, values))
            continue
        unknown = encoder.unknown_value
        found.append(_looked_up(w, part, categories, values, float(unknown)))
    return computed(w.concat(found), len(found))


def _target(w: Writer, encoder: Any, block: Block) -> Block:
    parts = w.single(block)
    means = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    per_column = len(encoder.encodings_) // len(parts)
    found = [
        _looked_up(
            w,
            parts[k // per_column],
            encoder.categories_[k // per_column],
            np.asarray(encoding, dtype=np.float64),
            float(means[k % per_column]),
        )
        for k, encoding in enumerate(encoder.encodings_)
    ]
    return computed(w.concat(found), len(found))


def _refusing(w: Writer, part: Part, categories: Sequence[Any], values: NDArray[np.float64]) -> str:
    """Values of categories; onnxruntime refuses a row with any other."""
    count = len(categories)
    codes = _codes(w, part, categories, np.arange(count, dtype=np.float64), _UNKNOWN)
    columns = w.op(
        "OneHotEncoder", codes, domain=ML_DOMAIN, cats_int64s=list(range(count)), zeros=0
    )
    columns = w.op("Reshape", columns, w.constant(np.array([-1, count], dtype=np.int64)))
    best = w.op("ArgMax", columns, axis=1, keepdims=1)
    return w.op("Gather", w.constant(values), best, axis=0)


def _codes(
    w: Writer, part: Part, categories: Sequence[Any], codes: NDArray[np.float64], unknown: int
) -> str:
    return w.cast(_looked_up(w, part, categories, codes, float(unknown)), "int64")


def _looked_up(
    w: Writer,
    part: Part,
    categories: Sequence[Any],
    values: NDArray[np.float64],
    unknown: float,
) -> str:
    """The value of every row's category, a float64 column [N, 1]."""
    plain = [None if _is_missing(value) else value for value in categories]
    gaps = [k for k, value in enumerate(plain) if value is None]
    if len(gaps) > 1:
        raise NotWrittenError(
            f"an encoder tells None from NaN in column {part.sources[0]!r}, which a graph cannot"
        )
    if part.text:
        if gaps and "" in plain:
            raise NotWrittenError(
                f"an encoder tells missing from empty text in column {part.sources[0]!r}, which a "
                "graph cannot"
            )
        texts = np.array(["" if v is None else str(v) for v in plain], dtype=object)
        return w.lookup(part.tensor, texts, values, unknown)
    if any(isinstance(value, str) for value in plain):
        raise NotWrittenError(
            f"an encoder was fitted to text in column {part.sources[0]!r}, which holds numbers now"
        )
    present = [k for k, value in enumerate(plain) if value is not None]
    numbers = np.array([plain[k] for k in present], dtype=np.float64)
    found = w.lookup(part.tensor, numbers, values[present], unknown)
    if gaps:
        missing = w.op("IsNaN", part.tensor)
        found = w.op("Where", missing, w.number(float(values[gaps[0]])), found)
    return found


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _remember(w: Writer, part: Part, categories: Sequence[Any]) -> None:
    """The graph refuses rows with other categories than these."""
    if part.sources[0] is not None:
        plain = [None if _is_missing(v) else v for v in categories]
        w.known[part.sources[0]] = [v.item() if isinstance(v, np.generic) else v for v in plain]


def writers() -> dict[type, Any]:
    """The transformers that are written here."""
    from sklearn import preprocessing
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import FeatureUnion, Pipeline

    return {
        Pipeline: _pipeline,
        ColumnTransformer: _by_columns,
        FeatureUnion: _union,
        SimpleImputer: _imputed,
        preprocessing.StandardScaler: _standardised,
        preprocessing.RobustScaler: _standardised,
        preprocessing.MaxAbsScaler: _standardised,
        preprocessing.MinMaxScaler: _in_range,
        preprocessing.PolynomialFeatures: _products,
        preprocessing.KBinsDiscretizer: _binned,
        preprocessing.FunctionTransformer: _function,
        preprocessing.SplineTransformer: _splines,
        preprocessing.QuantileTransformer: _quantiles,
    }


def _pipeline(w: Writer, model: Any, block: Block) -> Block:
    for _, step in model.steps:
        block = w.transform(step, block)
    return block


def _by_columns(w: Writer, model: Any, block: Block) -> Block:
    found: list[Part] = []
    for name, step, _ in model.transformers_:
        places = model._transformer_to_input_indices[name]
        if (isinstance(step, str) and step == "drop") or not len(places):
            continue
        part = w.transform(step, w.pick(block, places))
        found += _weighted(w, part, (model.transformer_weights or {}).get(name))
    return tuple(found)


def _union(w: Writer, model: Any, block: Block) -> Block:
    found: list[Part] = []
    for name, step in model.transformer_list:
        if step != "drop":
            part = w.transform(step, block)
            found += _weighted(w, part, (model.transformer_weights or {}).get(name))
    return tuple(found)


def _weighted(w: Writer, block: Block, weight: float | None) -> Block:
    if weight is None:
        return block
    width = sum(part.width for part in block)
    return computed(w.op("Mul", w.matrix(block), w.number(float(weight))), width)


def _imputed(w: Writer, model: Any, block: Block) -> Block:
    """Missing values replaced: NaN in numbers, the empty text in text."""
    by_nan = model.missing_values is None or (
        isinstance(model.missing_values, float) and np.isnan(model.missing_values)
    )
    if not by_nan:
        raise NotWrittenError(
            f"a SimpleImputer replaces {model.missing_values!r}, not missing values"
        )
    found: list[Part] = []
    gaps: list[str] = []
    for j, part in enumerate(w.single(block)):
        value = model.statistics_[j]
        if part.text:
            # onnxruntime does not compare texts, but looks them up.
            empty = w.lookup(part.tensor, np.array([""], dtype=object), np.ones(1), 0.0)
            missing = w.op("Greater", empty, w.number(0.0))
            filler = w.constant(np.array([[str(value)]], dtype=object))
        else:
            missing = w.op("IsNaN", part.tensor)
            filler = w.number(float(value))
        gaps.append(missing)
        if not isinstance(value, float) or not np.isnan(value):
            tensor = w.op("Where", missing, filler, part.tensor)
            found.append(Part(tensor, (None,), part.text))
        elif model.keep_empty_features:
            raise NotWrittenError("a SimpleImputer keeps columns without any value")
    if model.add_indicator:
        flags = [gaps[int(j)] for j in model.indicator_.features_]
        found += [Part(w.cast(flag, "float64"), (None,)) for flag in flags]
    return tuple(found)


def _standardised(w: Writer, model: Any, block: Block) -> Block:
    """Minus a centre, divided by a scale, in this order: to the last bit."""
    found = w.matrix(block)
    for names, operator in ((("mean_", "center_"), "Sub"), (("scale_",), "Div")):
        values = next((v for n in names if (v := getattr(model, n, None)) is not None), None)
        if values is not None:
            row = np.asarray(values, dtype=np.float64).reshape(1, -1)
            found = w.op(operator, found, w.constant(row))
    return computed(found, sum(part.width for part in block))


def _in_range(w: Writer, model: Any, block: Block) -> Block:
    scale, shift = (
        np.asarray(v, dtype=np.float64).reshape(1, -1) for v in (model.scale_, model.min_)
    )
    found = w.op("Add", w.op("Mul", w.matrix(block), w.constant(scale)), w.constant(shift))
    if model.clip:
        found = w.clip(found, *map(float, model.feature_range))
    return computed(found, sum(part.width for part in block))


def _products(w: Writer, model: Any, block: Block) -> Block:
    """Each product is that of its later factors times the first, as scikit-learn multiplies."""
    columns = [w.matrix((part,)) for part in w.single(block)]
    made: dict[tuple[int, ...], str] = {(): w.op("Add", w.rows(block), w.number(1.0))}
    made |= {(j,): column for j, column in enumerate(columns)}
    terms = [tuple(np.repeat(np.arange(len(row)), row).tolist()) for row in model.powers_]
    for term in sorted(terms, key=len):
        for start in range(len(term) - 2, -1, -1):
            if term[start:] not in made:
                made[term[start:]] = w.op(
                    "Mul", made[term[start + 1 :]], made[term[start : start + 1]]
                )
    return computed(w.concat([made[term] for term in terms]), len(terms))


def _binned(w: Writer, model: Any, block: Block) -> Block:
    found, width = [], 0
    for edges, part in zip(model.bin_edges_, w.single(block), strict=True):
        _refuse_text(part, model)
        count = max(len(edges) - 1, 1)
        place = w.place(part.tensor, np.asarray(edges)[1:-1])
        if model.encode == "ordinal":
            found.append(w.cast(w.column(place), "float64"))
            width += 1
        else:
            found.append(w.op("Gather", w.constant(np.eye(count)), place, axis=0))
            width += count
    return computed(w.concat(found), width)


def _function(w: Writer, model: Any, block: Block) -> Block:
    if model.kw_args:
        raise NotWrittenError("a FunctionTransformer passes arguments to its function")
    if model.func is None:
        return block
    width = sum(part.width for part in block)
    return computed(named_function(model.func)(w, w.matrix(block)), width)


def _splines(w: Writer, model: Any, block: Block) -> Block:
    """Each B-spline is a polynomial between neighbouring knots, found by its place among them."""
    from scipy.interpolate import BSpline, PPoly

    if model.extrapolation not in ("constant", "linear", "continue"):
        raise NotWrittenError(f"a SplineTransformer extrapolates by {model.extrapolation!r}")
    found, width = [], 0
    for spline, part in zip(model.bsplines_, w.single(block), strict=True):
        _refuse_text(part, model)
        count = spline.c.shape[1] - (0 if model.include_bias else 1)
        low, high = float(spline.t[spline.k]), float(spline.t[-spline.k - 1])
        inner = spline.t[spline.k : len(spline.t) - spline.k]
        starts, cuts = inner[:-1], inner[1:-1]
        pieces = [PPoly.from_spline(BSpline(spline.t, c, spline.k)) for c in spline.c.T[:count]]
        first = int(np.searchsorted(pieces[0].x, low, side="right")) - 1
        # power, piece, spline
        table = np.stack([piece.c[:, first : first + len(starts)] for piece in pieces], axis=2)
        x = part.tensor if model.extrapolation == "continue" else w.clip(part.tensor, low, high)
        place = w.place(x, cuts)
        beyond = w.op("Sub", x, w.op("Gather", w.constant(starts.reshape(-1, 1)), place, axis=0))
        value = w.op("Gather", w.constant(table[0]), place, axis=0)
        for coefficients in table[1:]:
            here = w.op("Gather", w.constant(coefficients), place, axis=0)
            value = w.op("Add", w.op("Mul", value, beyond), here)
        if model.extrapolation == "linear":
            value = _continued(w, spline, part.tensor, value, count, (low, high))
        if getattr(model, "handle_missing", "error") == "zeros":  # a setting since scikit-learn 1.8
            value = w.op("Where", w.op("IsNaN", part.tensor), w.number(0.0), value)
        found.append(value)
        width += count
    return computed(w.concat(found), width)


def _continued(
    w: Writer, spline: Any, column: str, value: str, count: int, ends: tuple[float, float]
) -> str:
    """Beyond the ends along the slopes there."""
    below = w.op("Min", w.op("Sub", column, w.number(ends[0])), w.number(0.0))
    above = w.op("Max", w.op("Sub", column, w.number(ends[1])), w.number(0.0))
    for far, end in ((below, ends[0]), (above, ends[1])):
        slopes = np.asarray(spline(end, nu=1))[:count].reshape(1, -1)
        value = w.op("Add", value, w.op("Mul", far, w.constant(slopes)))
    return value


def _quantiles(w: Writer, model: Any, block: Block) -> Block:
    """Ranks among the quantiles; the mean of both directions, as these may repeat."""
    found = []
    for j, part in enumerate(w.single(block)):
        _refuse_text(part, model)
        points, ranks = np.asarray(model.quantiles_[:, j]), np.asarray(model.references_)
        up = interpolate(w, part.tensor, points, ranks)
        down = interpolate(w, w.op("Neg", part.tensor), -points[::-1], -ranks[::-1])
        rank = w.op("Mul", w.op("Sub", up, down), w.number(0.5))
        found.append(_bounded_rank(w, model, part.tensor, rank, points))
    return computed(w.concat(found), len(found))


def _bounded_rank(w: Writer, model: Any, column: str, rank: str, points: Any) -> str:
    from scipy.stats import norm
    from sklearn.preprocessing._data import BOUNDS_THRESHOLD as MARGIN

    low, high = w.number(float(points[0])), w.number(float(points[-1]))
    normal = model.output_distribution == "normal"
    if normal:
        above = w.op("Greater", w.op("Add", column, w.number(MARGIN)), high)
        below = w.op("Less", w.op("Sub", column, w.number(MARGIN)), low)
    else:
        above, below = w.op("Equal", column, high), w.op("Equal", column, low)
    rank = w.op("Where", above, w.number(1.0), rank)
    rank = w.op("Where", below, w.number(0.0), rank)
    if not normal:
        return rank
    limit = float(norm.ppf(1 - (MARGIN - np.spacing(1))))
    least = float(norm.ppf(MARGIN - np.spacing(1)))
    # The quantile of 0 and 1 is infinite, and is cut.
    inside = w.clip(rank, float(np.finfo(np.float64).tiny), 1.0 - 2.0**-53)
    return w.clip(normal_quantile(w, inside), least, limit)


def _refuse_text(part: Part, model: Any) -> None:
    if part.text:
        raise NotWrittenError(
            f"the text of column {part.sources[0]!r} reaches a {type(model).__name__}"
        )
