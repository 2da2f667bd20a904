"""`conv2d`: a convolution whose kernel is trained, as a product with patches of the image.

The native convolution takes a kernel that is computed at run time for a batch of 1 alone, and the MIL path rejects one
(measured on chips of two families). The patch index lies on axis 2, so that no slice of the backward pass begins inside
the width, which some families copy times 16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphTypeError, NotSupportedError
from aneforge.graph.builder.arguments import expect_image
from aneforge.graph.builder.combination import concat
from aneforge.graph.methods.method_arguments import describe_argument, misuse, whole
from aneforge.train.parameter import KernelTensor

if TYPE_CHECKING:
    from aneforge.graph.tensor import Tensor

__all__ = ["conv2d"]

OP = "conv2d"


def conv2d(x: Tensor, weight: Tensor, stride: int = 1, pad: int = 0) -> Tensor:
    """Convolve images [N, Cin, H, W] with a kernel that is trained; `pad` zeros are added on each side.

    >>> import numpy as np
    >>> import aneforge as af
    >>> w = af.conv_param(np.ones((8, 3, 3, 3)))
    >>> af.conv2d(af.input((2, 3, 16, 16)), w, pad=1).shape
    (2, 8, 16, 16)

    Raises:
        NotSupportedError: The stride is not 1.
        GraphError: `pad` is negative, the channels differ, or the kernel is larger than the padded image.
        GraphTypeError: The kernel does not come from `conv_param`, or an argument is of another type.
    """
    image = expect_image(x, OP)
    count, channels, height, width = kernel_shape(weight)
    if whole(stride, OP, "stride", least=1) != 1:
        raise misuse(
            OP,
            "the stride of a trained kernel must be 1",
            seen=stride,
            limit=1,
            remedy="use stride 1 and a pooling after it",
            error=NotSupportedError,
        )
    border = whole(pad, OP, "pad", least=0)
    if image.shape[1] != channels:
        raise misuse(OP, "the image must have the kernel's input channels", seen=image.shape[1], limit=channels)
    if border:
        image = image.apply("pad", pad=[0, 0, 0, 0, *[border] * 4], mode="constant", constant_val=0.0)
    rows, columns = image.shape[2] - height + 1, image.shape[3] - width + 1
    if min(rows, columns) < 1:
        raise misuse(
            OP,
            "the kernel must fit into the padded image",
            seen=f"[{height}, {width}]",
            limit=f"[{image.shape[2]}, {image.shape[3]}]",
        )
    batch = image.shape[0]
    product = patches(image, height, width) @ weight.reshape(1, channels * height * width, count)
    return product.transpose(0, 2, 1).reshape(batch, count, rows, columns)


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


def patches(image: Tensor, height: int, width: int) -> Tensor:
    """Return the patches of an image: [N, places, Cin·kH·kW]."""
    batch, channels, rows, columns = image.shape
    rows, columns = rows - height + 1, columns - width + 1
    shifted = [
        image.slice_by_size([0, 0, u, v], [batch, channels, rows, columns]).reshape(batch, channels, 1, rows * columns)
        for u in range(height)
        for v in range(width)
    ]
    joined = concat(shifted, axis=2) if len(shifted) > 1 else shifted[0]
    return joined.transpose(0, 3, 1, 2).reshape(batch, rows * columns, channels * height * width)
