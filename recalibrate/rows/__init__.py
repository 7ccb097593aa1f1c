"""Where rows are stored: in memory, in files, on Dask workers, behind one small protocol.

Comes in: tables, or pieces of them. Leaves: column statistics, encoded rows, sources of sums.
Called by ``fitting``; the loop sees only ``core.source``.
"""
