"""Graphs made better; each takes a graph and gives one back.

- `forms` are other forms of a graph, more exact or faster, and the choice among them.
- `rescaling` moves numbers by powers of two to where fp16 keeps them.
- `compress` encodes weights.
"""
