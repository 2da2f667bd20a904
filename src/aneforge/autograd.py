"""The documented import path `aneforge.autograd`: gradients. Names only; `aneforge.graph.gradients` holds the code."""

from aneforge.graph.gradients import backward, backward_from, vjp

__all__ = ["backward", "backward_from", "vjp"]
