"""Graphs made better: other forms, powers of two, encoded weights. Each takes a graph and gives one back."""
