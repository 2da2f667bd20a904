"""Rescaling by powers of two: products lifted off the grid of the accumulator, and its edge kept away from.

The accumulator is a grid of 2^-16 up to 2^15. Products of small operands lose their bits on it; weights that are scaled
by 2^k, with 2^-k in the gain behind the sum, do not, and the mathematics stays the same to the last bit. `products` and
`norms` find what can be scaled, `encoded` scales weights in their encoding, `observing` tells how large operands get,
`choosing` the exponents, `trials` tries each alone, `rewriting` makes the new graph, `measuring` gives the engine's
error before and after, `judging` says whether that is better, `searching` decides what stays, `scaling` puts them
together, `report` says what was done.
"""

from aneforge.runtime.rescaling.scaling import rescaled

__all__ = ["rescaled"]
