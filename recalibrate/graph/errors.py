"""Why a model cannot become a graph, or must not."""

from __future__ import annotations


class ExportError(ValueError):
    """The model, or a part of it, has no translation; the text says which and what to do."""


class ParityError(ValueError):
    """The graph does not give what the model gives; the text shows the rows that differ most."""
