"""What all packages use and that knows nothing of models: checks, warnings, threads, files.

Comes in: single values, pieces of work. Leaves: the same, checked or done. Anyone may call it.
"""
