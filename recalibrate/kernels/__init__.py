"""Numba loops over plain arrays: no objects, no checks, the GIL released.

Every sum in here is an int64 sum of numbers that were quantised row by row, so the order in
which rows (or parts of them, or threads) are visited cannot change a result.
"""
