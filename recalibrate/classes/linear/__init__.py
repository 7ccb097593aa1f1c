"""The class of linear functions, and everything that is special about it."""
