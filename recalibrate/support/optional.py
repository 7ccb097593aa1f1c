"""Lazy imports of optional dependencies, with an error that says how to install them."""

from importlib import import_module
from types import ModuleType

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
    >>> from recalibrate.support.optional import require
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
