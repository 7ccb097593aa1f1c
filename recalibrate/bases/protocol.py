"""Base models: how the core gets scores from whatever model the user has.

A base is anything that satisfies the small protocol `Base`. Arrays and callables are wrapped
here; models of frameworks and their files are wrapped by adapters, which are found by
``bases.registry`` and loaded only when a model of their framework arrives. The core therefore
imports no framework and no adapter.
"""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Link, from_margin
from recalibrate.data.classes import sort_classes
from recalibrate.data.labels import read_scores
from recalibrate.support.checks import ModelFileError
from recalibrate.support.notices import listed

# --- Installed adapters: which package knows how to read a model or a model file ----------------
#
# Adapters announce themselves by entry points: in the group ``recalibrate.adapters`` under the root
# module of the models they wrap, in the group ``recalibrate.model_files`` under the suffix of the
# files they read (without its dot). Only metadata is looked at here; an adapter is imported when a
# model or file of its own arrives.


ADAPTER_GROUP = "recalibrate.adapters"
FILE_GROUP = "recalibrate.model_files"
Factory = TypeVar("Factory", bound=Callable[..., Any])


def _adapter_names() -> list[str]:
    """Root modules of the models that installed adapters know."""
    return sorted(_by_name(ADAPTER_GROUP))


def _file_suffixes() -> list[str]:
    """Suffixes of the model files that installed adapters read, each with its dot."""
    return sorted(f".{name}" for name in _by_name(FILE_GROUP))


def find_adapter(model: object) -> EntryPoint | None:
    """The adapter of a model: that of the most specific of its classes which has one."""
    adapters = _by_name(ADAPTER_GROUP)
    for cls in type(model).__mro__:
        entries = adapters.get(cls.__module__.partition(".")[0], [])
        if entries:
            return _only(entries, "the adapter")
    return None


def find_reader(suffix: str) -> EntryPoint | None:
    """The adapter that reads files of a suffix (with its dot, in any case)."""
    entries = _by_name(FILE_GROUP).get(suffix.lower().removeprefix("."), [])
    return _only(entries, "the reader of files") if entries else None


def _load_factory(entry: EntryPoint) -> Callable[..., Any]:
    """Import an adapter; if that fails, say whose it is."""
    try:
        factory: Callable[..., Any] = entry.load()
    except ImportError as error:
        raise ImportError(
            f"The adapter {entry.name!r} ({entry.value}, from {_owner(entry)}) could not be "
            f"loaded: {error}"
        ) from error
    return factory


def runs_code(
    why: str, *, check: Callable[[Path], None] | None = None
) -> Callable[[Factory], Factory]:
    """Mark a reader of model files that can run code of the file; ``why`` completes "it ...".

    Such a reader is called only where the user said that the file is trusted. ``check`` refuses
    files that it could not read anyway, without running anything, before trust is asked for.

    Examples
    --------
    >>> @runs_code("is a pickle")
    ... def read_file(path): ...
    >>> _check_trust(read_file, Path("model.pkl"), trust=False)
    Traceback (most recent call last):
    ...
    recalibrate.support.checks.ModelFileError: the model file 'model.pkl' could run any code ...
    """

    def mark(factory: Factory) -> Factory:
        factory.runs_code = why  # type: ignore[attr-defined]
        factory.check_file = check  # type: ignore[attr-defined]
        return factory

    return mark


def _check_trust(factory: Callable[..., Any], path: Path, *, trust: bool) -> None:
    """Refuse a file whose reader can run its code, unless the user trusts it."""
    why = getattr(factory, "runs_code", "")
    check: Callable[[Path], None] | None = getattr(factory, "check_file", None)
    if check is not None:
        check(path)
    if why and not trust:
        raise ModelFileError(
            f"the model file {path.name!r} could run any code on this machine when it is opened: "
            f"it {why}. If you trust whoever made it, say so: trust=True (on the command line "
            "--trust). Or open it yourself, and pass the model."
        )


def _by_name(group: str) -> dict[str, list[EntryPoint]]:
    """Entry points of a group by name; reading their metadata loads none of them."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def _only(entries: list[EntryPoint], what: str) -> EntryPoint:
    if len({entry.value for entry in entries}) > 1:
        owners = ", ".join(sorted(f"{e.value} ({_owner(e)})" for e in entries))
        raise TypeError(
            f"Several installed packages provide {what} {entries[0].name!r}: {owners}. "
            "Uninstall all but one, so that results do not depend on the search order."
        )
    return entries[0]


def _owner(entry: EntryPoint) -> str:
    return "unknown distribution" if entry.dist is None else entry.dist.name


def _existing_file(path: Path) -> str:
    """What a model file is called in messages; refused if there is none."""
    if not path.is_file():
        raise FileNotFoundError(
            f"The base model is the text {str(path)!r}, but there is no such file. "
            f"Model files are known by their suffix: {_known_suffixes()}."
        )
    return f"file {str(path)!r}"


def _reader_of(suffix: str, what: str) -> EntryPoint:
    """Who reads files of a suffix; refused if nobody does."""
    entry = find_reader(suffix)
    if entry is None:
        raise ValueError(
            f"No installed adapter reads the {what} (suffix {suffix!r}). Model files are known by "
            f"their suffix: {_known_suffixes()}. Rename the file, or load the model with its own "
            "framework and pass the object."
        )
    return entry


def _known_suffixes() -> str:
    return ", ".join(_file_suffixes()) or "none, as no adapter is installed"


_HOW_TO_PASS = (
    "Pass an array of scores, one per row, or a function that takes X and returns such an array "
    "(for a classifier: lambda X: model.predict_proba(X)[:, 1]; for a regression: model.predict)."
)


@runtime_checkable
class Base(Protocol):
    """What the core needs to know about a base model.

    Attributes
    ----------
    link : {"identity", "logit", "log"}
        Scale of ``scores``: "identity" means that a score is a prediction of the label itself,
        "logit" that the prediction is ``1 / (1 + exp(-score))``, "log" that it is ``exp(score)``.
    name : str
        Short description for messages and summaries.
    why_no_graph : str
        Why ``graph()`` is None; empty if there is a graph.
    exact : bool
        Whether onnxruntime gives the very same bits as ``scores`` when it runs the graph,
        whatever its number of threads and the size of the batch.

    Notes
    -----
    A base that was told which class it scores keeps it as ``target_class``, so that a saved
    model finds it again. A classifier has ``classes``: their labels in the order of its outputs,
    or a range where it only numbers them; ``unnamed_outputs`` is True where it has two of these
    and scores one. A model of counts, amounts or rates that was trained
    with a deviance has its name as ``deviance``: "poisson", "gamma" or "tweedie-1.5". A model that
    was fitted with ``exposure=`` has ``predicts_rates``.
    """

    @property
    def link(self) -> Link: ...
    @property
    def name(self) -> str: ...
    @property
    def why_no_graph(self) -> str: ...
    @property
    def exact(self) -> bool: ...

    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns the model takes from X; None means X as it is."""

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One finite float64 score per row of X, or a column of them for every class."""

    def graph(self) -> object | None:
        """The model as an ONNX ``ModelProto``, or None (see ``why_no_graph``)."""


@dataclass(frozen=True, eq=False)
class ScoreColumn:
    """Scores that the user computed: score-only mode.

    The scores belong to the rows they were computed for, so ``scores(X)`` of new rows is an
    error that says to pass theirs. Build it with `as_base`, which validates.
    """

    values: NDArray[np.float64]
    link: Link = "identity"
    name: str = "array of scores"
    why_no_graph: str = "the base model is an array of scores; the graph takes scores as an input"
    exact: bool = True

    def columns(self) -> tuple[str, ...] | None:
        """Nothing is needed from X."""
        return ()

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Raise: an array cannot score new rows."""
        raise ValueError(
            "This model was fitted on an array of scores and cannot compute scores for new rows. "
            "Compute them with your base model and pass them as base=, one score per row of X."
        )

    def graph(self) -> object | None:
        """There is no graph of an array."""
        return None


@dataclass(frozen=True, eq=False)
class CallableBase:
    """A function from X to scores. Its result is checked at every call."""

    function: Callable[[Any], Any]
    link: Link = "identity"
    name: str = "callable"
    why_no_graph: str = "the base model is a Python callable, which has no ONNX graph"
    exact: bool = False

    def columns(self) -> tuple[str, ...] | None:
        """The function gets X as it is."""
        return None

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Call the function and validate what it returns."""
        result = self.function(X)
        n_rows = count_rows(X)
        try:
            return read_scores(
                result,
                n_rows=_length(result) if n_rows is None else n_rows,
                probability=False,
                outputs=None,
            )
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f"The base model ({self.name}) must return one finite score per row of X: {error}"
            ) from error

    def graph(self) -> object | None:
        """There is no graph of a Python function."""
        return None


class ProbabilityBase:
    """An object of an unknown framework that has ``predict_proba``.

    Its result is an array with a column for every class, in the order of ``classes_`` (or
    ``class_labels``), a DataFrame whose columns are the classes, or one probability per row.
    Columns that nothing names are numbered.
    """

    link: Link = "identity"
    exact = False

    def __init__(self, model: Any, link: Link | None = None, target_class: Any = None) -> None:
        if link not in (None, "identity"):
            raise ValueError(
                f"link={link!r} was given, but predict_proba of {_type_name(model)} gives "
                "probabilities. Leave the link out."
            )
        self.model = model
        self.name = _type_name(model)
        self.target_class = target_class
        self.why_no_graph = f"no adapter writes models of type {self.name} as an ONNX graph"
        known = getattr(model, "classes_", None)
        known = getattr(model, "class_labels", None) if known is None else known
        self.classes: Sequence[Any] | None = None
        if known is not None:
            self.classes = tuple(np.asarray(known).tolist())
        self.unnamed_outputs = False

    def columns(self) -> tuple[str, ...] | None:
        """The model gets X as it is."""
        return None

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The probability of the second of two classes, or of the chosen one; else of all."""
        result = self.model.predict_proba(X)
        if hasattr(result, "columns"):
            result = self._in_order(result)
        n_rows = count_rows(X)
        values = np.asarray(result, dtype=np.float64)
        if values.ndim == 2:
            if self.classes is None:
                self.classes = range(values.shape[1])
            self.unnamed_outputs = isinstance(self.classes, range) and len(self.classes) == 2
            values = self._chosen(values)
        try:
            return read_scores(
                values,
                n_rows=len(values) if n_rows is None else n_rows,
                probability=True,
                outputs=None,
            )
        except ValueError as error:
            raise ValueError(f"predict_proba of {self.name}: {error}") from error

    def _in_order(self, frame: Any) -> Any:
        """Columns in the order of the classes, which they name where nothing else does."""
        names = np.asarray(frame.columns).tolist()
        if self.classes is None:
            self.classes = sort_classes(names)
        return frame[list(self.classes)] if set(names) == set(self.classes) else frame

    def _chosen(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns of a matrix that are the scores."""
        count, classes = values.shape[1], self.classes or ()
        # Of two that are only numbered, the second is about whatever class was named.
        numbered = self.unnamed_outputs and self.target_class not in classes
        if count == 2 and (self.target_class is None or numbered):
            return values[:, 1]
        if self.target_class is None:
            return values
        if len(classes) != count:
            raise ValueError(
                f"predict_proba of {self.name} gives {count} numbers per row, but the model has "
                f"{len(classes)} classes: {listed(classes)}."
            )
        if self.target_class not in classes:
            raise ValueError(
                f"target_class={self.target_class!r} is not a class of {self.name}; these are: "
                f"{listed(classes)}."
            )
        return values[:, list(classes).index(self.target_class)]

    def graph(self) -> object | None:
        """There is no graph of an object that no adapter knows."""
        return None


def as_base(
    model: Any, *, link: Link | None = None, target_class: Any = None, trust: bool = False
) -> Base:
    """Wrap a model, a model file, a callable or an array of scores as a `Base`.

    Parameters
    ----------
    model : object
        An array-like of scores, a model of a framework that an installed adapter knows, the path
        of a model file (or the bytes of an ONNX file), a callable ``X -> scores``, any object
        with ``predict_proba``, an object whose method ``as_base()`` gives a `Base` (a
        `Recalibrated` model), or a `Base` already.
    link : {"identity", "logit", "log"} or None
        Scale of the scores. None leaves it to the adapter, and means "identity" for arrays and
        callables.
    target_class : object
        Of a multiclass model: the class whose probability is the score.
    trust : bool
        Whether a model file may be of a kind that can run code when it is opened.

    Returns
    -------
    Base

    Raises
    ------
    TypeError
        If nothing fits; the message lists the installed adapters.
    ValueError
        If scores, link or the suffix of a file are not valid; a `ModelFileError` if a file is
        damaged, or could run code and is not trusted.
    FileNotFoundError
        If there is no such model file.

    Notes
    -----
    Adapters are matched by the root modules of the classes in ``type(model).__mro__``, most
    specific first: an ``XGBClassifier`` goes to the adapter called ``xgboost`` although it is
    also a scikit-learn estimator. An object that only is callable is used as a function, after
    the adapters were asked (a torch module is callable too).

    Examples
    --------
    >>> from recalibrate.bases.protocol import as_base
    >>> as_base([0.2, 0.7]).values
    array([0.2, 0.7])
    >>> import numpy as np
    >>> as_base(lambda X: X[:, 0] / 10, link="logit").scores(np.array([[1.0], [2.0]]))
    array([0.1, 0.2])
    """
    _check_link(link)
    _refuse_non_models(model)
    options = {"link": link, "target_class": target_class}
    if hasattr(type(model), "as_base"):
        model = model.as_base()
    if _is_base(model):
        if target_class != class_of(model):
            _refuse_target_class(target_class, "a base that was made already")
        return _with_link_checked(model, link)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _adapt(_reader_of(".onnx", "bytes"), bytes(model), options)
    if isinstance(model, (str, os.PathLike)):
        path = Path(os.fsdecode(model))
        if path.suffix == ".rcal":
            raise ValueError(
                f"{str(path)!r} is a saved model of recalibrate: pass what recalibrate.load "
                "makes of it."
            )
        entry = _reader_of(path.suffix, _existing_file(path))
        _check_trust(_load_factory(entry), path, trust=trust)
        return _adapt(entry, path, options)
    if _is_array(model):
        _refuse_target_class(target_class, "an array of scores")
        # Scores of any scale are taken here; whether they are probabilities depends on the labels.
        values = read_scores(model, n_rows=_length(model), probability=False, outputs=None)
        return ScoreColumn(values, link=link or "identity")
    adapter = find_adapter(model)
    if adapter is not None:
        return _adapt(adapter, model, options)
    if callable(model) and not hasattr(model, "predict"):
        _refuse_target_class(target_class, "a callable")
        return CallableBase(model, link=link or "identity", name=_callable_name(model))
    if callable(getattr(model, "predict_proba", None)):
        return ProbabilityBase(model, link, target_class)
    raise TypeError(
        f"No installed adapter knows models of type {_type_name(model)}, and it has no "
        f"predict_proba. Adapters present: {', '.join(_adapter_names()) or 'none'}. {_HOW_TO_PASS}"
    )


def reopen_base(model: Any, link: Link, target_class: Any, *, trust: bool = False) -> Base:
    """A base like one that was used before: on its scale, of its class.

    The link is declared only where the model does not tell it by itself. If its scores are on the
    other scale nevertheless, that is for the caller to say.
    """
    if _is_base(model):
        return as_base(model)
    if callable(model) and find_adapter(model) is None:
        return as_base(model, link=link)
    try:
        base = as_base(model, target_class=target_class, trust=trust)
    except ModelFileError:
        raise
    except ValueError:
        return as_base(model, link=link, target_class=target_class, trust=trust)
    if base.link != link:
        with suppress(ValueError):
            return as_base(model, link=link, target_class=target_class, trust=trust)
    return base


def class_of(base: Base) -> Any:
    """The class that a base was told to score; None if it was told none."""
    return getattr(base, "target_class", None)


def classes_of(base: Base) -> Sequence[Any] | None:
    """Classes of a classifier; a range where it only numbers them, None for other models.

    Log-odds are about two classes, whatever they are called.
    """
    classes: Sequence[Any] | None = getattr(base, "classes", None)
    return range(2) if classes is None and base.link == "logit" else classes


def has_unnamed_outputs(base: Base) -> bool:
    """Whether a base scores one of two outputs that it does not name."""
    return bool(getattr(base, "unnamed_outputs", False))


def numbers_classes(base: Base) -> bool:
    """Whether a base itself numbers its classes from 0, one for every output."""
    return isinstance(getattr(base, "classes", None), range)


def may_number_classes(base: Base) -> bool:
    """Whether a base numbers its two classes, or may do so once it has scored some rows."""
    classes = getattr(base, "classes", None)
    return len(classes) == 2 if isinstance(classes, range) else hasattr(base, "unnamed_outputs")


def deviance_of(base: Base) -> str:
    """The deviance that a base was trained by: "poisson", "gamma", "tweedie-1.5"; "" for others."""
    return str(getattr(base, "deviance", ""))


def predicts_rates(model: Any) -> bool:
    """Whether a model or base was fitted with ``exposure=``: it predicts y per unit of it.

    Fitted estimators of ours keep the model that knows as ``model_``.
    """
    return getattr(getattr(model, "model_", model), "predicts_rates", False) is True


def base_outputs(base: Base) -> int | None:
    """Numbers that a base gives per row; None where that is not known before it has scored any."""
    if isinstance(base, ScoreColumn):
        return base.values.shape[1] if base.values.ndim == 2 else 1
    outputs: int | None = getattr(base, "outputs", None)
    return outputs


def predicted_mean(base: Base, X: Any) -> NDArray[np.float64]:
    """Scores of a base on the scale of the label, that is with its link undone.

    Parameters
    ----------
    base : Base
    X : table or whatever the base takes

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> from recalibrate.bases.protocol import as_base, predicted_mean
    >>> predicted_mean(as_base(lambda X: [0.0] * len(X), link="logit"), ["row", "row"])
    array([0.5, 0.5])
    """
    return from_margin(base.scores(X), base.link)


def takes_base(model: Any) -> bool:
    """Whether predict is ours. A scikit-learn classifier's predict gives classes, not means."""
    predict = getattr(model, "predict", None)
    if predict is None or isinstance(model, type):
        return False
    try:
        parameters = inspect.signature(predict).parameters
    except (TypeError, ValueError):  # compiled methods may have no signature
        return False
    return "base" in parameters and "Z" in parameters


def _check_link(link: object) -> None:
    if link is not None and link not in get_args(Link):
        raise ValueError(f'link must be "identity", "logit", "log" or None, got {link!r}.')


def _refuse_non_models(model: object) -> None:
    """Turn the likely mistakes into advice before anything else looks at the object."""
    if model is None:
        raise TypeError(f"The base model is None. {_HOW_TO_PASS}")
    if isinstance(model, (numbers.Number, np.generic)):
        raise TypeError(
            f"The base model is the single number {model!r}. For a constant start pass an array "
            f"with one score per row. {_HOW_TO_PASS}"
        )
    if isinstance(model, type):
        raise TypeError(
            f"The base model is the class {model.__name__} itself. Pass a fitted instance of it."
        )


def _is_base(model: Any) -> bool:
    """Whether the object is a base already; some objects claim to have any attribute."""
    return isinstance(model, Base) and hasattr(type(model), "scores")


def _is_array(model: Any) -> bool:
    """Whether the object holds numbers: ndarray, Series, one-column frame, tensor, list."""
    numbers = hasattr(model, "__array__") and not hasattr(model, "predict")
    return numbers or isinstance(model, list | tuple | range)


def count_rows(X: Any) -> int | None:
    """Rows of X, or None where its length may mean something else (a tuple of tensors, a dict)."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, Sequence) and shape:
        return int(shape[0])
    return len(X) if isinstance(X, list) else None


def _length(values: Any) -> int:
    """Length of an array-like of scores; 0 for what has none, which is refused later."""
    n_rows = len(values) if isinstance(values, Sequence) else count_rows(values)
    return n_rows or 0


def _adapt(entry: EntryPoint, model: object, options: dict[str, Any]) -> Base:
    given = {name: value for name, value in options.items() if value is not None}
    base = _load_factory(entry)(model, **given)
    if not isinstance(base, Base):
        raise TypeError(
            f"The adapter {entry.name!r} ({entry.value}) returned {_type_name(base)}, which lacks "
            "part of the interface recalibrate.bases.protocol.Base. This is a fault of the adapter."
        )
    return base


def _refuse_target_class(target_class: object, what: str) -> None:
    if target_class is not None:
        raise ValueError(
            f"target_class={target_class!r} chooses a class of a multiclass model, but the base "
            f"model is {what}. Leave it out, and give the scores of that class."
        )


def _with_link_checked(base: Base, link: Link | None) -> Base:
    if link is not None and link != base.link:
        raise ValueError(
            f"link={link!r} was given, but the base {base.name} has link={base.link!r}. "
            "Set the link where the base is created."
        )
    return base


def _type_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _callable_name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or getattr(
        getattr(function, "func", None), "__qualname__", type(function).__qualname__
    )
    return f"callable {name}"
