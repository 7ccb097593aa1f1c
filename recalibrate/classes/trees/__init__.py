"""The class of regression trees: growing them, and everything that is special about them."""
