"""Rescaling by powers of two: products lifted off the grid of the accumulator, and kept away from its edge.

The accumulator is a grid of 2^-16 up to 2^15. Products of small operands lose their bits on it; weights that are scaled
by 2^k, with 2^-k in the gain after the sum, do not, and the mathematics stays the same to the last bit.

`trial_loop` is the one loop: propose a change, rewrite, judge, keep or refuse with a reason. What can be changed and by
how much is said by three strategies: `scale_weights` (products with constant weights), `scale_tensors` (products of two
tensors, and attention) and `scale_norms`. They propose by what `operand_sizes` knows of operands and by what
`power_exponents` allows. `graph_edits` rewrites, `engine_errors` measures, `error_changes` judges.
"""

from aneforge.optimise.rescaling.rescale_graph import rescale_graph

__all__ = ["rescale_graph"]
