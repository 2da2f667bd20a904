"""Graphs: tensors, the builder's functions, the text form, the reference meaning."""
