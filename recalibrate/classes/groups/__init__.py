"""The class of group indicators: shifts of named groups, and everything special about them."""
