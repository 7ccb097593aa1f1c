"""H: the classes of functions that a model is multicalibrated for.

A class says which statistics it needs from the rows, how to solve them into one small model per
level set, and what that model does to a score. One folder each; :mod:`recalibrate.core.kinds` lists
them, and says what a folder holds.
"""
