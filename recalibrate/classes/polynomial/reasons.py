"""Why a polynomial moved a row, in words: as linear functions, of columns and of products."""

from recalibrate.classes.linear.reasons import LinearReasons

REASONS = LinearReasons
