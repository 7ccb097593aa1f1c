"""The class of polynomials: products of columns, and everything that is special about them."""
