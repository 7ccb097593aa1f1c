"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str) -> None:
    """Warn at the first caller outside of this package, however deep the call came from."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", ""), package):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
