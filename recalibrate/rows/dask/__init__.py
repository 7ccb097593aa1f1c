"""Everything about Dask: rows on workers, models on their way there, predictions there."""
