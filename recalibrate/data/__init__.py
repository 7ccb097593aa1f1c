"""Input: tables, labels, weights and scores as users have them become plain checked arrays.

Comes in: DataFrames, arrays, Parquet, Dask. Leaves: float32 columns, codes, float64 vectors.
Called once per public call; nothing behind it validates again.
"""
