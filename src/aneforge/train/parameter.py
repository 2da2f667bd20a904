"""Parameters: inputs of a graph that own a float32 master value, so that nothing that is trained is compiled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphTypeError
from aneforge.graph.builder.inputs import input as build_input
from aneforge.graph.methods.base import as_array
from aneforge.graph.methods.method_arguments import describe_argument, misuse
from aneforge.graph.tensor import Tensor
from aneforge.ops.numbers import FP16_MAX

if TYPE_CHECKING:
    from aneforge.graph.node import Node, Output
    from aneforge.ops.types import Array

__all__ = ["KernelTensor", "Parameter", "conv_param", "parameter", "size_of", "updated_from"]


class KernelTensor(Tensor):
    """A tensor that remembers the convolution kernel whose patch matrix it holds, as an updated parameter does.

    What is computed from it is a plain tensor.
    """

    __slots__ = ("kernel",)

    kernel: tuple[int, int, int, int] | None
    """The shape [Cout, Cin, kH, kW] of the kernel; None where it holds none."""

    def __new__(cls, node: Node, index: int = 0) -> Tensor:
        """Return a plain tensor: methods make their results with the type of what they are called on."""
        return Tensor(node, index)


class Parameter(KernelTensor):
    """An input that is trained: it owns a float32 value, which is rounded to fp16 and passed in at every run.

    Values computed from it are plain tensors. Write `p.value[...] = array` to set it; nothing is compiled again.

    >>> import numpy as np
    >>> import aneforge as af
    >>> p = af.parameter(np.zeros((1, 4)))
    >>> p.value[...] = 2.0
    >>> p.shape, type(p.relu()).__name__
    ((1, 4), 'Tensor')
    """

    __slots__ = ("value",)

    value: Array
    """The master value in float32; optimisers write into it."""

    def with_own_value(self) -> Parameter:
        """Return the same parameter of the graph with a copy of its value, for another run at the same time."""
        return own(self, self.value.copy(), self.kernel)


def updated_from(source: Tensor, result: Tensor) -> Tensor:
    """Return the result of an update with the kernel that its source remembers, so that `conv2d` takes it.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.conv_param(np.ones((8, 1, 3, 3)))
    >>> af.conv2d(af.input((2, 1, 8, 8)), updated_from(w, w * 0.5)).shape
    (2, 8, 6, 6)
    """
    if not isinstance(source, KernelTensor):
        return result
    made = object.__new__(KernelTensor)
    for name, one in (("node", result.node), ("index", result.index), ("kernel", source.kernel)):
        object.__setattr__(made, name, one)
    return made


def own(place: Output, value: Array, kernel: tuple[int, int, int, int] | None) -> Parameter:
    """Return an input as the parameter that owns a value."""
    made = object.__new__(Parameter)
    for name, one in (("node", place.node), ("index", place.index), ("value", value), ("kernel", kernel)):
        object.__setattr__(made, name, one)
    return made


def parameter(init: object, *, name: str | None = None) -> Parameter:
    """Return a trainable input with a first value; used like any other input.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.parameter(np.ones((3, 2)), name="w")
    >>> (af.input((4, 3)) @ w).shape, w.value.dtype
    ((4, 2), dtype('float32'))

    Raises:
        GraphTypeError: The value is not an array of floating-point numbers.
        GraphError: A number is not finite in fp16, the rank is above 5, or an axis is empty.
    """
    value = master(init, "parameter")
    return own(build_input(value.shape, name=name), value, None)


def conv_param(w: object, *, name: str | None = None) -> Parameter:
    """Return a convolution kernel [Cout, Cin, kH, kW] as a parameter for `conv2d`.

    It holds the patch matrix [Cin·kH·kW, Cout], whose row for ci, u, v is ci·kH·kW + u·kW + v.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.conv_param(np.ones((8, 1, 3, 3)))
    >>> w.shape, w.kernel
    ((9, 8), (8, 1, 3, 3))

    Raises:
        GraphTypeError: The kernel is not an array of floating-point numbers.
        GraphError: The kernel is not of rank 4, or a number is not finite in fp16.
    """
    kernel = master(w, "conv_param")
    if kernel.ndim != 4:
        raise misuse(
            "conv_param", "the kernel must have four axes", seen=list(kernel.shape), limit="[Cout, Cin, kH, kW]"
        )
    count, channels, height, width = kernel.shape
    matrix = np.ascontiguousarray(kernel.reshape(count, -1).T)
    return own(build_input(matrix.shape, name=name), matrix, (count, channels, height, width))


def master(init: object, op: str) -> Array:
    """Return a float32 copy of a first value.

    Raises:
        GraphTypeError: It is not an array of floating-point numbers.
        GraphError: A number is not finite in fp16.
    """
    array = as_array(init, op, "the first value")
    if not np.issubdtype(array.dtype, np.floating):
        raise misuse(
            op,
            "a parameter must be an array of floating-point numbers: integers have no gradient",
            seen=describe_argument(array),
            remedy="convert it with .astype(np.float32)",
            error=GraphTypeError,
        )
    if not np.all(np.abs(array) <= FP16_MAX):
        raise misuse(op, "a parameter must be finite in fp16", seen=worst_of(array), limit=FP16_MAX)
    return np.array(array, np.float32, order="C")


def worst_of(array: Array) -> str:
    """Return a number that is not finite in fp16 and its place: the first NaN, or the largest magnitude.

    >>> import numpy as np
    >>> worst_of(np.array([[1.0, -7e4], [0.0, 8e4]]))
    '80000.0 at [1, 1]'
    """
    magnitudes = np.abs(array)
    wrong = np.isnan(magnitudes)
    place = np.unravel_index(int(wrong.argmax() if wrong.any() else magnitudes.argmax()), array.shape)
    return f"{magnitudes[place]} at {[int(one) for one in place]}"


def size_of(params: tuple[Parameter, ...]) -> int:
    """Return how many numbers are trained."""
    return sum(one.value.size for one in params)
