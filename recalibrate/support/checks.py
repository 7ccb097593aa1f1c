"""Single numbers and flags that a user gives, checked; None passes where it means a default."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from recalibrate.support.notices import printable

# --- The one error that a bad file gives --------------------------------------------------------


class ModelFileError(ValueError):
    """A file that is not a whole, valid model of this library; says what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from recalibrate import load
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.rcal"
    >>> _ = path.write_bytes(b"something else")
    >>> try:
    ...     load(path)
    ... except ValueError as error:
    ...     print(type(error).__name__)
    ModelFileError
    """

    def __init__(self, message: str) -> None:
        # What a file says must not steer the terminal that shows it.
        super().__init__(printable(message))


# --- Lazy imports of optional dependencies, with an error that says how to install them ---------


DISTRIBUTION = "recalibrate-lsboost"


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say how to get it.

    Parameters
    ----------
    module : str
        Dotted name of the module, for example ``"matplotlib.figure"``.
    extra : str
        The extra of this distribution that installs it, for example ``"report"``.

    Returns
    -------
    module
        The imported module itself (for a dotted name the last part, not the root package).

    Raises
    ------
    ImportError
        If the module is not installed. A module that is installed but fails while importing
        raises its own error unchanged: installing it again would not help.

    Examples
    --------
    >>> from recalibrate.support.checks import require
    >>> require("json", "report").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A module found but broken (one of ITS imports is missing) has another name here.
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise ImportError(
            f"{module} is not installed, but this feature needs it. "
            f'Install it with: pip install "{DISTRIBUTION}[{extra}]"',
            name=module,
        ) from error


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse what is not a finite number inside the limits.

    Examples
    --------
    >>> check_number("step", 0, above=0.0)
    Traceback (most recent call last):
    ...
    ValueError: step must be above 0, got 0
    """
    if value is None:
        return
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not np.isfinite(value):  # type: ignore[call-overload]
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if above is not None and not value > above:  # type: ignore[operator]
        raise ValueError(f"{name} must be above {above:g}, got {value!r}")
    if least is not None and not value >= least:  # type: ignore[operator]
        raise ValueError(f"{name} must be at least {least:g}, got {value!r}")
    if most is not None and not value <= most:  # type: ignore[operator]
        raise ValueError(f"{name} must be at most {most:g}, got {value!r}")


def check_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number inside the limits.

    Examples
    --------
    >>> check_whole("levels", 2.5, least=1)
    Traceback (most recent call last):
    ...
    ValueError: levels must be a whole number of at least 1, got 2.5
    """
    if value is None:
        return
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value!r}")


def check_range(name: str, value: Any) -> tuple[float, float]:
    """Two finite numbers, the lower one first; all else is refused.

    Examples
    --------
    >>> check_range("bounds", [0, 10])
    (0.0, 10.0)
    """
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be two numbers (low, high), got {value!r}") from error
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"{name} must be finite with low < high, got ({low:g}, {high:g})")
    return low, high


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Examples
    --------
    >>> check_flag("rounded", "yes")
    Traceback (most recent call last):
    ...
    ValueError: rounded must be True or False, got 'yes'
    """
    if value is not None and not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
