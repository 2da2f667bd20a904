"""Decompositions by subject; the entries of the op table name them."""
