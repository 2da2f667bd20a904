"""Operations of the MIL route that older families have not, rebuilt from operations that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.forms import Form, Made, SuppliedInput, tensor_operand
from aneforge.errors import NotSupportedError
from aneforge.graph import special
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.targets.queries import least_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument, Node

__all__ = ["DECOMPOSITIONS"]

HALF_PERIOD = "a polynomial on the half period, |x| at most 200, largest error {} before fp16 rounding"


def sine(node: Node, operands: Mapping[str, Argument], _: int) -> Made:
    """Rebuild a sine: Horner on the half period."""
    x = tensor_operand(node, operands, "x")
    return Made([special.sin(x)], HALF_PERIOD.format("6.0e-7"))


def cosine(node: Node, operands: Mapping[str, Argument], _: int) -> Made:
    """Rebuild a cosine: Horner on the half period."""
    x = tensor_operand(node, operands, "x")
    return Made([special.cos(x)], HALF_PERIOD.format("6.8e-6"))


def global_arg_reduction(node: Node, operands: Mapping[str, Argument], _: int) -> Made:
    """Rebuild an arg-reduction over a whole tensor: all elements in one row, and a reduction along it.

    Raises:
        NotSupportedError: The row is longer than the layer takes.
    """
    x = tensor_operand(node, operands, "x")
    longest = least_limit("arg_reduction_extent")
    if x.type.size > longest:
        raise NotSupportedError(
            "there are too many elements for one arg-reduction, whose index would not be exact in fp16 either",
            operation=node.op.name,
            location=node.location,
            seen=x.type.size,
            limit=longest,
            remedy="reduce one axis on the engine and the rest on the host",
        )
    row = Tensor(build("reshape", {"x": x}, {"shape": (x.type.size,)}, node.location))
    reduction = "reduce_argmax" if node.attributes["mode"] == "max" else "reduce_argmin"
    place = build(reduction, {"x": row}, {"axis": -1, "keep_dims": False}, node.location)
    return Made([Tensor(place)], "an arg-reduction along one row of all elements")


def unfused_square(node: Node, operands: Mapping[str, Argument], _: int) -> Made:
    """Rebuild a square that follows a sum as the two operations that it is."""
    total = build("reduce_sum", {"x": tensor_operand(node, operands, "x")}, node.attributes, node.location)
    square = build("square", {"x": Tensor(total)}, {}, node.location)
    return Made([Tensor(square)], "a sum and a square, with one more rounding between them")


def supplied_dropout(node: Node, operands: Mapping[str, Argument], count: int) -> Made:
    """Make the mask of a dropout an input."""
    x = tensor_operand(node, operands, "x")
    rate = float(str(node.attributes["rate"]))
    given = SuppliedInput(
        f"supplied_{node.op.name}{count}",
        node.op.name,
        f"{1 / (1 - rate):g} with probability {1 - rate:g}, else 0, per element",
    )
    mask = supplied_tensor(node, given, x.shape)
    return Made(
        [Tensor(build("mul", {"x": x, "y": mask}, {}, node.location))], "a product with a mask from the host", (given,)
    )


def supplied_random(node: Node, _: Mapping[str, Argument], count: int) -> Made:
    """Make random numbers an input."""
    low, high = node.attributes["low"], node.attributes["high"]
    given = SuppliedInput(f"supplied_{node.op.name}{count}", node.op.name, f"uniform numbers from {low} to {high}")
    return Made([supplied_tensor(node, given, node.types[0].shape)], "numbers from the host", (given,))


def supplied_tensor(node: Node, given: SuppliedInput, shape: tuple[int, ...]) -> Tensor:
    """Return the new input of a rebuilt operation."""
    attributes = {"shape": shape, "dtype": node.types[0].dtype, "name": given.name}
    return Tensor(build("input", {}, attributes, node.location))


DECOMPOSITIONS: dict[str, Form] = {
    "cos": cosine,
    "dropout": supplied_dropout,
    "global_arg_min_max": global_arg_reduction,
    "random": supplied_random,
    "random_uniform": supplied_random,
    "sin": sine,
    "sq_after_reduce": unfused_square,
}
