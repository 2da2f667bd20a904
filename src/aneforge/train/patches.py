"""`conv2d`: a convolution whose kernel is trained, as a product with patches of the image.

The native convolution takes a kernel that is computed at run time only for a batch of 1, and the MIL path rejects one
(measured on chips of two families). The patch index is on axis 2, so that no slice of the backward pass begins inside
the width, which some families copy times 16.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from aneforge.errors import GraphTypeError
from aneforge.graph.builder.arguments import expect_image
from aneforge.graph.builder.combination import concat
from aneforge.graph.methods.method_arguments import describe_argument, misuse, whole
from aneforge.records import dataclass
from aneforge.train.parameter import KernelTensor

if TYPE_CHECKING:
    from aneforge.graph.tensor import Tensor

__all__ = ["conv2d"]

OP = "conv2d"


def conv2d(x: Tensor, weight: Tensor, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Tensor:
    """Convolve images [N, Cin, H, W] with a kernel that is trained; `pad` zeros are added on each side.

    The kernel of `conv_param` is [Cout, Cin / groups, kH, kW]; a depthwise one has as many groups as channels.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.conv_param(np.ones((8, 3, 3, 3)))
    >>> af.conv2d(af.input((2, 3, 16, 16)), w, pad=1).shape
    (2, 8, 16, 16)
    >>> af.conv2d(af.input((2, 6, 16, 16)), w, stride=2, groups=2).shape
    (2, 8, 7, 7)

    Raises:
        GraphError: `pad` is negative, another number is below 1, the channels do not fit, or the kernel is larger
            than the padded image.
        GraphTypeError: The kernel does not come from `conv_param`, or an argument has the wrong type.
    """
    image = expect_image(x, OP)
    count, channels, height, width = kernel_shape(weight)
    border = whole(pad, OP, "pad", least=0)
    window = Window(height, width, whole(stride, OP, "stride", least=1), whole(dilation, OP, "dilation", least=1))
    parts = whole(groups, OP, "groups", least=1)
    if image.shape[1] != channels * parts:
        raise misuse(
            OP,
            "the image must have the kernel's input channels" + (", times the groups" if parts > 1 else ""),
            seen=image.shape[1],
            limit=channels * parts,
        )
    if count % parts:
        raise misuse(OP, "the kernel's output channels must be a multiple of the groups", seen=count, limit=parts)
    if border:
        image = image.apply("pad", pad=[0, 0, 0, 0, *[border] * 4], mode="constant", constant_val=0.0)
    rows, columns = window.places(image)
    length = channels * height * width
    found = patches(image, window)
    if parts == 1:
        product = (found @ weight.reshape(1, length, count)).transpose(0, 2, 1)
    else:
        each = found.reshape(image.shape[0], rows * columns, parts, length).transpose(0, 2, 1, 3)
        kernels = weight.reshape(1, length, parts, count // parts).transpose(0, 2, 1, 3)
        product = (each @ kernels).transpose(0, 1, 3, 2)
    return product.reshape(image.shape[0], count, rows, columns)


@dataclass(frozen=True, slots=True)
class Window:
    """What a kernel covers of an image at a time."""

    height: int
    width: int
    stride: int
    dilation: int

    def places(self, image: Tensor) -> tuple[int, int]:
        """Return how many rows and columns of places the kernel has in an image.

        Raises:
            GraphError: It does not fit into the image.
        """
        spans = [self.dilation * (extent - 1) + 1 for extent in (self.height, self.width)]
        free = [extent - span for extent, span in zip(image.shape[2:], spans, strict=True)]
        if min(free) < 0:
            raise misuse(
                OP, "the kernel must fit into the padded image", seen=spans, limit=[image.shape[2], image.shape[3]]
            )
        return free[0] // self.stride + 1, free[1] // self.stride + 1


def kernel_shape(weight: object) -> tuple[int, int, int, int]:
    """Return the shape of the kernel that a parameter holds.

    Raises:
        GraphTypeError: It holds none.
    """
    if isinstance(weight, KernelTensor) and weight.kernel is not None:
        return weight.kernel
    raise misuse(
        OP,
        "the kernel must come from af.conv_param",
        seen=describe_argument(weight),
        remedy="write w = af.conv_param(array); af.conv takes constant kernels",
        error=GraphTypeError,
    )


def patches(image: Tensor, window: Window) -> Tensor:
    """Return the patches of an image: [N, places, Cin·kH·kW]."""
    batch, channels = image.shape[:2]
    places = prod(window.places(image))
    shifted = [
        shift_image(image, window, u, v).reshape(batch, channels, 1, places)
        for u in range(window.height)
        for v in range(window.width)
    ]
    joined = concat(shifted, axis=2) if len(shifted) > 1 else shifted[0]
    return joined.transpose(0, 3, 1, 2).reshape(batch, places, channels * window.height * window.width)


def shift_image(image: Tensor, window: Window, u: int, v: int) -> Tensor:
    """Return what the kernel's element u, v meets at every place."""
    rows, columns = window.places(image)
    first = [0, 0, u * window.dilation, v * window.dilation]
    size = [*image.shape[:2], rows, columns]
    if window.stride == 1:
        return image.slice_by_size(first, size)
    reach = [1, 1, window.stride, window.stride]
    ends = [begin + (extent - 1) * step + 1 for begin, extent, step in zip(first, size, reach, strict=True)]
    return image.apply("slice_by_index", begin=first, end=ends, stride=reach)
