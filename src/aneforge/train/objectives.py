"""What is minimised: a scalar of the graph, or the cross-entropy, whose logarithm stays on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphTypeError
from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.gradients import backward, backward_from
from aneforge.graph.graph import INPUT
from aneforge.graph.methods.method_arguments import misuse
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass
from aneforge.train.joint_graph import JointLoss
from aneforge.train.loss_seed import LossSeed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.train.parameter import Parameter

__all__ = ["CrossEntropy", "Objective", "ScalarLoss", "as_objective", "mse", "softmax_cross_entropy"]


@dataclass(frozen=True, slots=True)
class ScalarLoss(LossSeed):
    """A loss that the program itself computes."""

    result: Tensor
    name = "loss"

    def gradients(self, params: Sequence[Parameter], loss_scale: float) -> list[Tensor]:
        """Return the gradients of the loss times a scale, in the order of the parameters."""
        self.check_scale(loss_scale)
        found = backward(self.result, params, loss_scale)
        return [found[one] for one in params]

    def gradients_from(self, params: Sequence[Parameter], seed: Tensor) -> list[Tensor]:
        """Return the same from a tensor [1, 1], which is fed `seed_of` the scale."""
        if self.result.type.size != 1:
            self.gradients(params, 1.0)  # says what is wrong with the loss
        found = backward_from(seed.reshape(*self.result.shape), self.result, params)
        return [found[one] for one in params]

    def loss_of(self, result: Array, feeds: Mapping[Node, Array]) -> float:  # noqa: ARG002 - one form for all objectives
        """Return the loss of what a program gave."""
        return float(result.reshape(()))


@dataclass(frozen=True, slots=True)
class CrossEntropy(LossSeed):
    """The mean cross-entropy of softmax(logits) and one-hot targets: an objective, not a tensor."""

    result: Tensor
    """The logits [N, K]."""
    target: Tensor
    name = "logits"

    def gradients(self, params: Sequence[Parameter], loss_scale: float) -> list[Tensor]:
        """Return the gradients of the loss times a scale, in the order of the parameters.

        At the logits it is (softmax − target)·scale/N, so that no logarithm is in the program.
        """
        self.check_scale(loss_scale)
        return self.multiplied(params, self.seed_of(loss_scale))

    def gradients_from(self, params: Sequence[Parameter], seed: Tensor) -> list[Tensor]:
        """Return the same from a tensor [1, 1], which is fed `seed_of` the scale."""
        return self.multiplied(params, seed)

    def multiplied(self, params: Sequence[Parameter], factor: Tensor | float) -> list[Tensor]:
        """Return the gradients of the loss times a factor and the number of rows."""
        found = backward_from((self.result.softmax() - self.target) * factor, self.result, params)
        return [found[one] for one in params]

    def seed_of(self, loss_scale: float) -> float:
        """Return the factor by which a scale enters the backward pass."""
        return loss_scale / self.result.shape[0]

    def loss_of(self, result: Array, feeds: Mapping[Node, Array]) -> float:
        """Return the loss of the logits that a program gave, in float32 on the host."""
        logits = np.asarray(result, np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            shifted = logits - logits.max(axis=1, keepdims=True)
            logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            target = np.asarray(feeds[self.target.node], np.float32)
            return float(-(target * logarithms).sum(axis=1).mean())


Objective = ScalarLoss | CrossEntropy | JointLoss


def as_objective(given: object) -> Objective:
    """Return an objective: a scalar tensor as the loss that it is.

    Raises:
        GraphTypeError: It is neither a tensor nor the cross-entropy.
    """
    if isinstance(given, CrossEntropy | ScalarLoss | JointLoss):
        return given
    if isinstance(given, Tensor):
        return ScalarLoss(given)
    raise GraphTypeError(
        "the objective must be a scalar tensor or af.softmax_cross_entropy(logits, target)", seen=type(given).__name__
    )


def softmax_cross_entropy(logits: Tensor, target: Tensor) -> CrossEntropy:
    """Return the mean cross-entropy of logits [N, K] and one-hot targets [N, K], for `Trainer`.

    >>> import aneforge as af
    >>> x, t = af.input((4, 3)), af.input((4, 3))
    >>> type(af.softmax_cross_entropy(x, t)).__name__
    'CrossEntropy'

    Raises:
        GraphError: The shapes are not [N, K] and equal, or the target is not an input.
        GraphTypeError: One of them is not a tensor.
    """
    op = "softmax_cross_entropy"
    scores, wanted = expect_tensor(logits, op, "logits"), expect_tensor(target, op, "target")
    if len(scores.shape) != 2 or scores.shape != wanted.shape:
        raise misuse(
            op,
            "logits and target must have one shape [N, K]",
            seen=f"{list(scores.shape)} and {list(wanted.shape)}",
            remedy="give one-hot targets, and reshape both to two axes",
        )
    if wanted.op != INPUT:
        raise misuse(
            op,
            "the target must be an input: the host computes the loss from what is fed",
            seen=wanted.op,
            remedy="use t = af.input(logits.shape)",
        )
    return CrossEntropy(scores, wanted)


def mse(y: Tensor, target: Tensor) -> Tensor:
    """Return the mean over all axes of (y − target)², a scalar loss.

    >>> import aneforge as af
    >>> af.mse(af.input((4, 3)), af.input((4, 3))).type.size
    1

    Raises:
        GraphError: The shapes differ.
        GraphTypeError: One of them is not a tensor.
    """
    found, wanted = expect_tensor(y, "mse", "y"), expect_tensor(target, "mse", "target")
    if found.shape != wanted.shape:
        raise misuse(
            "mse",
            "y and target must have the same shape",
            seen=f"{list(found.shape)} and {list(wanted.shape)}",
            remedy="reshape one of them: broadcasting would compare other elements than is meant",
        )
    return (found - wanted).square().mean(tuple(range(len(found.shape))))
