"""What an audit needs of rows in pieces: they are scored where they are, the rest is gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from recalibrate.bases.protocol import ScoreColumn, as_base, predicted_mean, takes_base
from recalibrate.core.levels import Link, from_margin
from recalibrate.data.labels import Float64, check_score_names, take_scores
from recalibrate.data.table import find_columns, is_collection, open_frames
from recalibrate.groups.expressions import columns_named
from recalibrate.rows.dask import Packed, pack
from recalibrate.rows.reading import check_roles
from recalibrate.support.checks import require


@dataclass(frozen=True, eq=False)
class _Gathered:
    """Rows of an audit in this process."""

    predictions: Float64
    baseline: Float64 | None
    table: Any
    y: Any
    cluster: Any
    weight: Any
    exposure: Any = None


@dataclass(frozen=True)
class _Scorer:
    """Predicted means of a piece's rows: by a model, or from a column.

    Attributes
    ----------
    model
        The model, or base, packed if it travels; None where scores are a column.
    columns
        The column of scores, or of the base scores that the model needs; or one for every class.
    features
        Columns that the model may look at.
    link
        Scale of a column's scores.
    """

    model: Any
    columns: tuple[str, ...]
    features: tuple[str, ...]
    link: Link = "identity"

    def __call__(self, frame: Any) -> Float64:
        given = take_scores([frame[name].to_numpy(np.float64) for name in self.columns])
        if self.model is None:
            scores: Float64 = given
            return from_margin(scores, self.link)
        model = self.model.open() if isinstance(self.model, Packed) else self.model
        X = frame[list(self.features)]
        return model.predict(X, base=given) if takes_base(model) else predicted_mean(model, X)


def gather(
    model: Any,
    X: Any,
    y: Any,
    groups: Any,
    base: Any,
    Z: Any,
    baseline: Any,
    H: Any,
    cluster: Any,
    sample_weight: Any,
    exposure: Any = None,
) -> _Gathered:
    """Predictions, labels, and the columns that groups read (all of them where H searches)."""
    if Z is not None:
        raise ValueError("Z= is for rows in memory; put its columns into X")
    on_dask = is_collection(X)
    pieces: Iterator[Any] = iter(()) if on_dask else open_frames(X)
    first = X if on_dask else next(pieces, None)
    if first is None:
        raise ValueError("X has no rows")
    weights = {"sample_weight": sample_weight, "exposure": exposure}
    roles = {"y": y, "cluster": cluster, **weights}
    given = [each for each in (model, baseline) if isinstance(each, str | list | tuple)]
    scores = [name for each in (*given, base) for name in check_score_names(each)]
    features = _features(first, roles, scores)
    scorer = partial(_scorer, base=base, features=features, travels=on_dask)
    scorers = [scorer(model)]
    if baseline is not None and baseline is not False:
        scorers.append(scorer(model, own_base=True) if baseline is True else scorer(baseline))
    wanted = _columns(groups, H, features)
    kept = list(dict.fromkeys(name for name in (y, cluster, *weights.values()) if name))
    take = partial(_take_piece, scorers=scorers, columns=[*kept, *wanted])
    found = _on_workers(take, X) if on_dask else [take(piece) for piece in chain([first], pieces)]
    found = [each for each in found if len(each[0])]
    if not found:
        raise ValueError("X has no rows")
    import pandas as pd

    table = pd.concat([frame for frame, _ in found], ignore_index=True)
    means = [np.concatenate(each) for each in zip(*(own for _, own in found), strict=True)]
    return _Gathered(
        means[0],
        means[1] if len(means) > 1 else None,
        table[wanted] if wanted else None,
        table[y],
        None if cluster is None else table[cluster],
        None if sample_weight is None else table[sample_weight],
        None if exposure is None else table[exposure],
    )


def _on_workers(take: Callable[[Any], Any], X: Any) -> list[Any]:
    """What is taken of every partition of a Dask DataFrame, by its workers."""
    from recalibrate.rows.dask import collect, explained

    dask = require("dask", "dask")
    tasks = [dask.delayed(take)(part) for part in X.to_delayed()]
    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    if not hasattr(client, "scheduler_info"):  # in this process
        return list(dask.compute(*tasks))
    with explained(client):
        return collect(client, client.compute(tasks))


def _take_piece(
    frame: Any, scorers: list[_Scorer], columns: list[str]
) -> tuple[Any, list[Float64]]:
    """Some columns of a piece, and its predictions."""
    if not len(frame):
        return frame, []
    return frame[columns], [scorer(frame) for scorer in scorers]


def _features(X: Any, roles: dict[str, Any], scores: list[str]) -> tuple[str, ...]:
    """Columns that have no other role; roles must be columns."""
    names = [str(name) for name in X.columns]
    check_roles(roles, names, "rows come in pieces")
    find_columns(scores, names)
    taken = {*roles.values(), *scores}
    return tuple(name for name in names if name not in taken)


def _scorer(
    model: Any, base: Any, features: tuple[str, ...], travels: bool, own_base: bool = False
) -> _Scorer:
    """What scores the pieces: columns, a model (or its base), packed where it travels."""
    names = check_score_names(base)
    if own_base:
        if not takes_base(model):
            raise TypeError(
                "baseline=True compares a recalibrated model with its own base, but "
                f"model_or_scores is {type(model).__name__}. Pass the scores or the model to "
                "compare with."
            )
        if base is not None:
            return _Scorer(None, names, features, model.base.link)
        return _Scorer(pack(model.base) if travels else model.base, (), features)
    if isinstance(model, str | list | tuple):
        return _Scorer(None, check_score_names(model), features)
    if takes_base(model):
        return _Scorer(pack(model.base, model) if travels else model, names, features)
    source = as_base(model)
    if isinstance(source, ScoreColumn):
        raise TypeError(
            "an array of predictions cannot be matched to rows that come in pieces: make it a "
            "column and pass its name"
        )
    return _Scorer(pack(source) if travels else source, (), features)


def _columns(groups: Any, H: Any, features: tuple[str, ...]) -> list[str]:
    """Columns that the audit has to see."""
    if groups is True or (H is not None and H is not False):
        return list(features)
    if groups is None or groups is False:
        return []
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        raise TypeError("masks as groups are for rows in memory; use expressions over columns")
    terms = getattr(groups, "terms", groups)
    terms = (terms,) if isinstance(terms, str) else terms
    used = list(dict.fromkeys(name for term in terms for name in columns_named(term, features)))
    find_columns(used, features)
    return used
