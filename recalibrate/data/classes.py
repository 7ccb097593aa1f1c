"""Labels that name classes: which classes there are, and which of them a label is.

What a base model tells about its classes decides how labels are read: labels of a classifier never
become the numbers of a regression, whatever they look like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.values import plain_value
from recalibrate.support.notices import listed

MOST_CLASSES = 1000
"""More distinct labels than this are no classes."""
PAIRS = ({-1, 1}, {1, 2})
"""Two numbers that people give to classes; as numbers of a regression they would be odd."""


_AS_BOOLEANS = (
    "If the labels say whether a row is of the target class, pass them as booleans, y == the class."
)


@dataclass(frozen=True)
class Known:
    """What is known of the classes before labels are read.

    Attributes
    ----------
    classes
        The classes of the base model, in the order of its outputs; a range where it only numbers
        them, None where it does not speak of classes at all.
    outputs
        How many numbers it gives per row: 1, or one for every class.
    chosen
        The class that counts as 1: of two (``positive=``), or of more against the rest
        (``target_class=``).
    positive
        Whether labels are counts, amounts or rates: numbers from 0 on whose unit is their own
        (the log link), whatever they look like.
    above_zero
        Whether they may not even be 0.
    unnamed
        Whether the score is one of two outputs of a model that does not name its classes.
    numbered
        Whether the model itself numbers its classes from 0: labels 0 and 1 are these numbers.
    """

    classes: Sequence[Any] | None = None
    outputs: int = 1
    chosen: Any = None
    positive: bool = False
    above_zero: bool = False
    unnamed: bool = False
    numbered: bool = False

    @property
    def told(self) -> bool:
        """Whether the base model calls its classes by their labels."""
        return self.classes is not None and not isinstance(self.classes, range)

    @property
    def event(self) -> Any:
        """The class that one number per row is the probability of; None if that is not known."""
        if self.chosen is not None:
            return self.chosen
        named = self.told or self.numbered
        return self.classes[1] if named and self.classes and len(self.classes) == 2 else None


NOTHING_KNOWN = Known()


@dataclass(frozen=True)
class _Coding:
    """From labels to classes.

    Attributes
    ----------
    classes
        The classes by number. Of two, the second counts as 1.
    codes
        Number of the class of every label that occurs.
    chosen
        Of more than two classes: the one that counts as 1, the others as 0.
    """

    classes: tuple[Any, ...]
    codes: Mapping[Any, int]
    chosen: Any = None

    def of(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """Class of every label."""
        if values.dtype.kind == "O":
            return np.array([self.codes[value] for value in values.tolist()], dtype=np.intp)
        keys = np.array(sorted(self.codes))
        numbers = np.array([self.codes[key] for key in keys.tolist()], dtype=np.intp)
        return np.asarray(numbers[np.searchsorted(keys, values)])


def find_classes(
    distinct: Sequence[Any] | None, known: Known, *, shares: bool = False
) -> _Coding | None:
    """Which classes the labels name; None if they are numbers: 0/1, in [0, 1], or any.

    Parameters
    ----------
    distinct
        The different labels, in their order; None where they are too many.
    known
        What the base model tells.
    shares
        Whether all labels lie in [0, 1]: of too many different ones only that is known.

    Raises
    ------
    ValueError
        If labels are no classes of a classifier, or text that stands for no two classes.

    Examples
    --------
    >>> find_classes(["no", "yes"], NOTHING_KNOWN).classes
    ('no', 'yes')
    >>> find_classes([-1, 1], Known(classes=range(2))).codes
    {-1: 0, 1: 1}
    >>> find_classes([0, 1, 2], Known(classes=(0, 1, 2), chosen=1)).codes
    {0: 0, 1: 1, 2: 0}
    """
    numeric = distinct is None or all(isinstance(v, Number) for v in distinct)
    if distinct is None or not _could_be_classes(distinct, numeric, known):
        if known.classes is not None or known.chosen is not None:
            _refuse_numbers(distinct, known, shares)
        return None
    if known.outputs > 1:
        return _one_of_several(distinct, known)
    if known.told or len(known.classes or ()) > 2:
        return _against_rest(distinct, known)
    if known.chosen is not None:
        if known.numbered and numeric and known.chosen == 0:
            _refuse_other_numbers(distinct)
        return _of_two(distinct, known.chosen)
    if numeric and set(distinct) <= {0, 1}:
        return None
    if not numeric and known.unnamed:
        _refuse_unnamed(distinct, 2, "or say with positive= which class the second one is")
    if not numeric or known.classes is not None or set(distinct) in PAIRS:
        return _of_two(distinct, None)
    return None


def _could_be_classes(distinct: Sequence[Any], numeric: bool, known: Known) -> bool:
    """Shares between 0 and 1 are soft labels, whatever the base is."""
    if not numeric:
        return True
    soft = min(distinct) >= 0 and max(distinct) <= 1 and not set(distinct) <= {0, 1}
    if soft and known.outputs == 1 and known.chosen is None:
        return known.told and set(distinct) <= set(known.classes or ())
    if known.classes is None and known.chosen is None:
        return True
    return all(float(v).is_integer() for v in distinct) or set(distinct) <= set(known.classes or ())


def _refuse_numbers(distinct: Sequence[Any] | None, known: Known, shares: bool) -> None:
    """A classifier's labels are classes, or shares in [0, 1], however many different ones."""
    if distinct is not None:
        shares = min(distinct) >= 0 and max(distinct) <= 1
    if shares and known.chosen is None and known.outputs == 1:
        return
    shown = "more than a thousand different numbers" if distinct is None else listed(distinct, 5)
    whose = "" if not known.told else f" ({listed(known.classes or ())})"
    if shares and known.outputs == 1 and len(known.classes or ()) <= 2:
        raise ValueError(
            f"y holds shares in [0, 1] ({shown}), not classes, and positive= or target_class= "
            f"chooses a class: {known.chosen!r}. Leave positive=/target_class= out: shares are "
            "read as those of the event that the base model's scores predict (of two classes, the "
            "second)."
        )
    raise ValueError(
        f"The base model is a classifier{whose}, but the labels are not classes: y holds {shown}. "
        "Pass the class of every row. To recalibrate a mean, pass scores on the labels' own scale."
    )


def _one_of_several(distinct: Sequence[Any], known: Known) -> _Coding:
    """Labels of a base that has an output for every class."""
    classes, count = tuple(known.classes or range(known.outputs)), known.outputs
    if not known.told and any(isinstance(label, str) for label in distinct):
        _refuse_unnamed(
            distinct, count, "for scores of scikit-learn's predict_proba these are model.classes_"
        )
    if not known.told and not set(distinct) <= set(classes):
        if len(distinct) != count:
            raise ValueError(
                f"The base model has {count} outputs, but y holds {len(distinct)} different "
                f"labels: {listed(distinct, 5)}. Name the classes in the order of the outputs "
                "with classes=."
            )
        classes = tuple(distinct)
    _refuse_unknown(distinct, classes)
    return _Coding(classes, {label: classes.index(label) for label in distinct})


def _refuse_unnamed(distinct: Sequence[Any], count: int, more: str) -> None:
    """Any order would be a guess: corrections would repair a wrong one and seem to improve much."""
    raise ValueError(
        f"y holds text, {listed(distinct, 5)}, but nothing says which of the {count} columns of "
        f"scores is which class. Name the classes in the order of the columns with classes=[...]; "
        f"{more}."
    )


def _against_rest(distinct: Sequence[Any], known: Known) -> _Coding:
    """Labels of a base that names its classes and scores one of them."""
    classes = tuple(known.classes or ())
    several = len(classes) > 2
    chosen = classes[1] if known.chosen is None else known.chosen
    named = classes if several else (_other(classes, chosen), chosen)
    counts = chosen if several else None
    # Of the classes 0 and 1 False and True are these two, whichever counts.
    flags = set(classes) != {0, 1} and all(isinstance(v, bool) for v in distinct)
    plain = set(distinct) <= {0, 1} and not set(distinct) <= set(classes) and not several
    if flags or plain:  # they say whether a row is of the class
        return _Coding(named, {label: int(bool(label)) for label in distinct}, counts)
    indicators = several and set(distinct) <= {0, 1}
    _refuse_unknown(distinct, classes, f" {_AS_BOOLEANS}" if indicators else "")
    if several and chosen not in distinct:
        raise ValueError(
            f"No row has the label {chosen!r}, which target_class= asks for; the labels are "
            f"{listed(distinct, 5)}. {_AS_BOOLEANS}"
        )
    if several and set(distinct) == {0, 1} and chosen != 1:
        raise ValueError(
            f"y holds 0 and 1, and target_class={chosen!r} of a model with the classes "
            f"{listed(classes, 10)}: 1 can mean that a row is of class {chosen!r}, or that it is "
            "of class 1. Pass booleans, which always say whether a row is of the target class: "
            f"y == 1 in the first case, y == {chosen!r} in the second."
        )
    return _Coding(named, {label: int(label == chosen) for label in distinct}, counts)


def _other(classes: Sequence[Any], chosen: Any) -> Any:
    """The other one of two classes."""
    return classes[0] if classes[1] == chosen else classes[1]


def _of_two(distinct: Sequence[Any], chosen: Any) -> _Coding:
    """Labels of two classes; the larger, or the chosen one, counts as 1."""
    if chosen is not None and chosen not in distinct:
        raise ValueError(
            f"positive={chosen!r} is none of the labels, which are {listed(distinct, 5)}."
        )
    if len(distinct) != 2:
        many = "only one class" if len(distinct) == 1 else f"{len(distinct)} classes"
        raise ValueError(
            f"y holds {many}: {listed(distinct, 5)}. A base model with one score per row is about "
            "two. For several classes pass a score for each of them, shape (n, K), or labels that "
            "say whether a row is of the one class that the score is about."
        )
    chosen = distinct[1] if chosen is None else chosen
    classes = (_other(distinct, chosen), chosen)
    return _Coding(classes, {label: classes.index(label) for label in distinct})


def _refuse_other_numbers(distinct: Sequence[Any]) -> None:
    """Beside another number, 0 can be either of two numbered outputs."""
    if not set(distinct) <= {0, 1}:
        raise ValueError(
            f"The base model numbers its two classes 0 and 1, but y holds {listed(distinct, 5)}: "
            "that does not say which of its outputs 0 is. Name the classes in the order of the "
            "outputs with classes=[...]."
        )


def _refuse_unknown(distinct: Sequence[Any], classes: Sequence[Any], advice: str = "") -> None:
    unknown = [label for label in distinct if label not in classes]
    if unknown:
        raise ValueError(
            f"y holds labels that are not classes of the base model: {listed(unknown, 5)}. Its "
            f"classes are {listed(classes, 10)}.{advice}"
        )


def read_class_names(classes: Sequence[Any]) -> tuple[Any, ...]:
    """The classes that ``classes=`` names, checked."""
    if isinstance(classes, str):
        raise TypeError(f"classes= must be a list of classes, got the text {classes!r}")
    named = tuple(plain_value(label) for label in classes)
    if len(set(named)) < max(len(named), 2):
        raise ValueError(f"classes= must name at least two different classes, got {named}")
    return named


def sort_classes(classes: Sequence[Any]) -> tuple[Any, ...]:
    """Classes in the order of the columns of predictions: numbers by size, text by alphabet.

    Examples
    --------
    >>> sort_classes(["low", "high"]), sort_classes((True, False))
    (('high', 'low'), (False, True))
    """
    return tuple(sorted(classes, key=lambda label: (isinstance(label, str), label)))


def one_hot(codes: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    """A column of zeros and ones for every class."""
    return np.asfortranarray(codes[:, None] == np.arange(count), dtype=np.float64)
