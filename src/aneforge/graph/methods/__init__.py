"""The methods of `Tensor`, by what they do. Each is one operation of the op table, or a few."""
