"""Base models: the protocol, the adapters' registry, and wrappers for arrays and functions.

Comes in: whatever the user calls a model. Leaves: a `Base` that gives scores, and a checked
`Problem`. Adapters live outside and are found by entry points.
"""
