"""Where values come from: inputs, image inputs, states, and weights that have none yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphTypeError
from aneforge.graph.methods.base import BUILDER_MAX_RANK, build_checked
from aneforge.graph.methods.method_arguments import (
    describe_argument,
    entries,
    is_number,
    misuse,
    number,
    part_of,
    text,
    whole_list,
)
from aneforge.graph.tensor import Tensor
from aneforge.ops.declared import declare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.declared import Declared
    from aneforge.ops.types import Array

__all__ = ["image_input", "input", "state", "weight"]

INPUT_DTYPES = ("fp16", "uint8")
WEIGHT_DTYPES = ("fp16", "fp32")
CHANNELS_MOST = 1 << 20
"""No list of numbers per channel is longer."""


def input(  # noqa: A001 - the documented name
    shape: Sequence[int], dtype: str = "fp16", max_abs: float | None = None, *, name: str | None = None
) -> Tensor:
    """Return a placeholder for a value that the caller provides; inputs are passed in the order of their creation.

    `max_abs` promises that no magnitude will be larger.

    >>> input((1, 3, 32, 32)).shape
    (1, 3, 32, 32)

    Raises:
        GraphError: The element type is neither fp16 nor uint8, the rank is above 5, an axis is empty, or `max_abs`
            is negative or not finite.
        GraphTypeError: The shape is not a list of integers, or the promise is not a number.
    """
    if not isinstance(dtype, str) or dtype not in INPUT_DTYPES:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise misuse(
            "input",
            "an input cannot have this element type",
            seen=describe_argument(dtype),
            limit=" or ".join(INPUT_DTYPES),
            remedy="cast on the host",
        )
    extents = checked_shape(shape, "input")
    called = None if name is None else check_name(name, "input")
    return Tensor(build_checked("input", {}, shape=extents, dtype=dtype, max_abs=magnitude(max_abs), name=called))


def image_input(
    shape: Sequence[int], scale: float | Sequence[float] = 1 / 255, bias: float | Sequence[float] = 0.0
) -> Tensor:
    """Return a uint8 image [N, C, H, W] as scale · pixel + bias, with one scale and bias or one per channel.

    A scale of 1 and a bias of 0 add no operation.

    >>> image_input((1, 3, 8, 8), scale=[0.5, 0.25, 0.5], bias=-1.0).shape
    (1, 3, 8, 8)

    Raises:
        GraphError: A list does not have one number per channel, or a number is not finite.
        GraphTypeError: The scale or the bias is neither a number nor a list of numbers.
    """
    with part_of("image_input"):
        image = input(shape, dtype="uint8")
    factor, offset = per_channel(image, scale, "scale"), per_channel(image, bias, "bias")
    value = image.cast("fp16")
    scaled = value if np.all(np.equal(factor, 1.0)) else value * factor
    return scaled if np.all(np.equal(offset, 0.0)) else scaled + offset


def state(name: str, shape: Sequence[int]) -> Tensor:
    """Return the value of a state at the start of a run; a graph says what is written to it at the end.

    >>> import aneforge as af
    >>> total = af.state("total", (1, 4))
    >>> graph = af.Graph({"y": total}, states={"total": total + 1.0})

    Raises:
        GraphError: The rank is above 5, an axis is empty, or the name is.
        GraphTypeError: The shape is not a list of integers, or the name is not a text.
    """
    called = check_name(name, "state")
    return Tensor(build_checked("state", {}, name=called, shape=checked_shape(shape, "state"), dtype="fp16"))


def weight(shape: Sequence[int], dtype: str = "fp16", encoding: str | None = None, *, name: str = "") -> Declared:
    """Return a constant without values, to be used wherever an array of weights is.

    Checks, costs, memory plans and the text of a graph need only its shape and encoding, and no memory of its size is
    used. Everything that needs values refuses it: compiling to run, running, and every writer.

    `encoding` is dense (the default), int8 with a scale for every row of the first axis, palette1 to
    palette8, or blockwise with scales for blocks of 32 along the second axis. In `x @ weight` the columns are the rows.

    >>> import aneforge as af
    >>> y = af.input((1, 4096)) @ af.weight((4096, 14336), encoding="palette4", name="up_proj")
    >>> af.Graph({"y": y}).work().bytes_weights, af.preflight(y, af.targets.Family.A16).ok
    (29360160, True)

    Raises:
        GraphError: The element type is not a floating-point one, the rank is above 5, an axis is empty, or the bytes of
            the encoding do not follow from the shape.
        GraphTypeError: The shape is not a list of integers, or the name is not a text.
    """
    if not isinstance(dtype, str) or dtype not in WEIGHT_DTYPES:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        limit = ", ".join(WEIGHT_DTYPES)
        raise misuse("weight", "a weight cannot have this element type", seen=describe_argument(dtype), limit=limit)
    stored = "dense" if encoding is None else text(encoding, "weight", "encoding")
    with part_of("weight"):
        return declare(checked_shape(shape, "weight"), dtype, stored, name=text(name, "weight", "name"))


def checked_shape(shape: object, op: str) -> list[int]:
    """Return the shape of a placeholder: at most five axes, none empty.

    Raises:
        GraphTypeError: It is not a list of integers.
        GraphError: It has too many axes, or an empty one.
    """
    extents = whole_list(shape, op, "shape")
    if len(extents) > BUILDER_MAX_RANK:
        raise misuse(op, f"shape {extents} has too many axes", seen=len(extents), limit=BUILDER_MAX_RANK)
    if any(extent < 1 for extent in extents):
        raise misuse(op, f"shape {extents} has an empty axis", limit="1 or more")
    return extents


def check_name(name: object, op: str) -> str:
    """Return the name of a placeholder.

    Raises:
        GraphTypeError: It is not a text.
        GraphError: It is empty.
    """
    found = text(name, op, "name")
    if not found:
        raise misuse(op, "name is empty", limit="one letter or more")
    return found


def magnitude(max_abs: object) -> float | None:
    """Return a promise about magnitudes, or none.

    Raises:
        GraphTypeError: It is not a number.
        GraphError: It is negative, or not finite and so no promise.
    """
    if max_abs is None:
        return None
    found = number(max_abs, "input", "max_abs", finite=False)
    if not 0 <= found < np.inf:
        raise misuse("input", "max_abs must be 0 or more, and finite", seen=found)
    return found


def per_channel(image: Tensor, value: object, what: str) -> float | Array:
    """Return a number as it is, and a list shaped to the channels of an image.

    Raises:
        GraphTypeError: It is neither a number nor a list of numbers.
        GraphError: The list does not have one number per channel, or one is not finite.
    """
    op = "image_input"
    if is_number(value):
        return number(value, op, what)
    found = entries(value, op, what, CHANNELS_MOST)
    if found is None:
        raise misuse(
            op, f"{what} is neither a number nor a list of numbers", seen=describe_argument(value), error=GraphTypeError
        )
    values = [number(one, op, f"{what}[{place}]") for place, one in enumerate(found)]
    if len(image.shape) != 4 or len(values) != image.shape[1]:
        raise misuse(
            op,
            f"{what} does not have one number per channel",
            seen=f"{len(values)} numbers",
            limit=f"{image.shape[1]} numbers" if len(image.shape) == 4 else "an image [N, C, H, W]",
        )
    return np.array(values).reshape(1, -1, 1, 1)
