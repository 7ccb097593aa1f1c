"""Fits on rows that do not fit in memory: read in pieces, encoded where they are."""

from recalibrate.data.inputs import is_streamed
from recalibrate.fitting.streamed import fit_collection, fit_streamed
from recalibrate.rows.reading import Reading

__all__ = ["Reading", "fit_collection", "fit_streamed", "is_streamed"]
