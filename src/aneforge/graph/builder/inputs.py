"""Where values come from: inputs, image inputs, states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.methods.base import BUILDER_MAX_RANK, build_checked
from aneforge.graph.node import users_location
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["image_input", "input", "state"]

INPUT_DTYPES = ("fp16", "uint8")


def input(  # noqa: A001 - the documented name
    shape: Sequence[int], dtype: str = "fp16", max_abs: float | None = None, *, name: str | None = None
) -> Tensor:
    """Return a placeholder for a value that the caller feeds; inputs are fed in the order of their making.

    `max_abs` promises that no magnitude will be larger.

    >>> input((1, 3, 32, 32)).shape
    (1, 3, 32, 32)

    Raises:
        GraphError: The element type is neither fp16 nor uint8, the rank is above 5, an axis is empty, or the promise is
            no magnitude.
    """
    if dtype not in INPUT_DTYPES:
        raise GraphError(
            "an input cannot have this element type",
            operation="input",
            location=users_location(),
            seen=repr(dtype),
            limit=" or ".join(INPUT_DTYPES),
            remedy="cast on the host",
        )
    if max_abs is not None and (math.isnan(max_abs) or max_abs < 0):
        raise GraphError(
            "max_abs is no magnitude", operation="input", location=users_location(), seen=max_abs, limit="0 or more"
        )
    checked_shape(shape, "input")
    return Tensor(build_checked("input", {}, shape=list(shape), dtype=dtype, max_abs=max_abs, name=name))


def image_input(
    shape: Sequence[int], scale: float | Sequence[float] = 1 / 255, bias: float | Sequence[float] = 0.0
) -> Tensor:
    """Return a uint8 image [N, C, H, W] as scale · pixel + bias, with one scale and bias or one per channel.

    A scale of 1 and a bias of 0 add no operation.

    Raises:
        GraphError: A list does not have one number per channel.
    """
    image = input(shape, dtype="uint8")
    value = Tensor(build_checked("cast", {"x": image}, dtype="fp16"))
    scaled = value if is_all(scale, 1.0) else value * per_channel(value, scale, "scale")
    return scaled if is_all(bias, 0.0) else scaled + per_channel(value, bias, "bias")


def state(name: str, shape: Sequence[int]) -> Tensor:
    """Return the value of a state at the start of a run; a graph says what is written to it at the end.

    >>> import aneforge as af
    >>> total = af.state("total", (1, 4))
    >>> graph = af.Graph({"y": total}, states={"total": total + 1.0})
    """
    checked_shape(shape, "state")
    return Tensor(build_checked("state", {}, name=name, shape=list(shape), dtype="fp16"))


def checked_shape(shape: Sequence[int], op: str) -> None:
    """Check that a placeholder can have a shape: at most five axes, none empty.

    Raises:
        GraphError: It cannot.
    """
    if len(shape) > BUILDER_MAX_RANK:
        raise GraphError(
            f"shape {list(shape)} has too many axes",
            operation=op,
            location=users_location(),
            seen=len(shape),
            limit=BUILDER_MAX_RANK,
        )
    if any(int(extent) < 1 for extent in shape):
        raise GraphError(
            f"shape {list(shape)} has an empty axis", operation=op, location=users_location(), limit="1 or more"
        )


def is_all(value: float | Sequence[float], number: float) -> bool:
    """Tell whether a number, or every one of a list, is a given one."""
    return bool(np.all(np.asarray(value) == number))


def per_channel(
    image: Tensor, value: float | Sequence[float], what: str
) -> float | np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return a number as it is, and a list shaped to the channels of an image.

    Raises:
        GraphError: The list does not have one number per channel.
    """
    if isinstance(value, int | float):
        return float(value)
    values = np.asarray(value, np.float64)
    if len(image.shape) != 4 or values.shape != (image.shape[1],):
        raise GraphError(
            f"{what} does not have one number per channel",
            operation="image_input",
            location=users_location(),
            seen=list(values.shape),
            limit=[image.shape[1]] if len(image.shape) > 1 else "an image [N, C, H, W]",
        )
    return values.reshape(1, -1, 1, 1)
