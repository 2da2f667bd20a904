"""One small layer for every validator, and one for every form that some targets refuse: the rows of the support table.

The generated reference page shows the verdict on each of them on every tier; tests go over them as well.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.lower.lower import lower
from aneforge.compiler.validators.catalogue import validator_of
from aneforge.compiler.validators.exported import validate
from aneforge.compiler.validators.subjects import op_of, subject_of_layer
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import names
from aneforge.ops.types import TensorType, numpy_dtype
from aneforge.records import dataclass
from aneforge.rules.nodes import operation_of
from aneforge.rules.subject import Operation
from aneforge.targets import MIN_FAMILY, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.validators.verdict import Validation
    from aneforge.graph.node import Node
    from aneforge.targets import TargetLike

__all__ = ["EXAMPLES", "PLAIN", "Example"]

PLAIN = "plain"
"""The form that a validator accepts wherever it accepts anything."""


def fp16(*shape: int) -> TensorType:
    """Return the type of an fp16 tensor."""
    return TensorType(shape)


@dataclass(frozen=True, eq=False)
class Example:
    """A layer that a validator checks."""

    validator: str
    form: str
    op: str
    live: Mapping[str, TensorType | tuple[TensorType, ...]]
    """Operands that are computed at run time."""
    held: Mapping[str, TensorType] = field(default_factory=dict[str, TensorType])
    """Operands that are constants, all of zeros."""
    attributes: Mapping[str, object] = field(default_factory=dict[str, object])
    authored: bool = False
    """Only a network description makes the layer: the conversion from a graph builds the operation otherwise."""

    @cached_property
    def subject(self) -> Operation:
        """The layer as rules see it: lowered from a graph, or written down where no operation of the table makes it."""
        if self.authored:
            return operation_of(self.node(), ())
        if self.op not in names() or self.op == "non_maximum_suppression":
            given = {name: one for name, one in self.live.items() if isinstance(one, TensorType)}
            return Operation(
                self.op,
                operands=tuple(given.values()),
                results=tuple(given.values())[:1],
                arguments={name: (one,) for name, one in given.items()},
            )
        program = lower(self.graph(), resolve(MIN_FAMILY))
        layer = next(
            layer
            for layer in program.layers
            if (found := validator_of(op_of(layer.kind))) and found.name == self.validator
        )
        return subject_of_layer(layer)

    def graph(self) -> Graph:
        """Return a graph of only the operation."""
        node = self.node()
        return Graph({f"y{place}": Tensor(node, place) for place in range(len(node.types))})

    def node(self) -> Node:
        """Return the operation."""

        def tensor(name: str, kind: TensorType) -> Tensor:
            return Tensor(build("input", {}, {"shape": kind.shape, "dtype": kind.dtype, "name": name}))

        operands = {
            name: tuple(tensor(f"{name}{place}", one) for place, one in enumerate(kind))
            if isinstance(kind, tuple)
            else tensor(name, kind)
            for name, kind in self.live.items()
        }
        constants = {name: Dense(np.zeros(one.shape, numpy_dtype(one.dtype))) for name, one in self.held.items()}
        return build(self.op, {**operands, **constants}, self.attributes)

    def on(self, target: TargetLike) -> Validation:
        """Return the verdict on a target."""
        return validate(self.subject, target)


IMAGE = fp16(1, 8, 16, 16)
VOLUME = fp16(1, 4, 6, 8, 8)
WINDOW = {"kernel_sizes": (2, 2), "strides": (2, 2)}
EXAMPLES = (
    Example(
        "AffineTransform",
        PLAIN,
        "affine",
        {"x": IMAGE},
        {"transform_matrix": fp16(1, 6)},
        {"output_height": 8, "output_width": 8, "align_corners": False},
    ),
    Example("ArgMinMax", PLAIN, "reduce_argmax", {"x": IMAGE}, attributes={"axis": 1}),
    Example("ArgMinMax", "over 2,049 elements", "reduce_argmax", {"x": fp16(1, 2049)}, attributes={"axis": 1}),
    Example("BatchToSpace", PLAIN, "batch_to_space", {"x": fp16(4, 8, 4, 4)}, attributes={"block_shape": (2, 2)}),
    Example(
        "BatchToSpace", "blocks of 5", "batch_to_space", {"x": fp16(25, 8, 4, 4)}, attributes={"block_shape": (5, 5)}
    ),
    Example("Broadcast", PLAIN, "broadcast", {"x": fp16(1, 8, 1, 4)}, attributes={"shape": (1, 8, 4, 4)}),
    Example(
        "Broadcast", "along the depth", "broadcast", {"x": fp16(1, 4, 1, 4, 4)}, attributes={"shape": (1, 4, 2, 4, 4)}
    ),
    Example("ChannelToSpace", PLAIN, "channel_to_space", {"x": fp16(1, 16, 4, 4)}, attributes={"block_size": 2}),
    Example("Concat", PLAIN, "concat", {"values": (IMAGE, IMAGE)}, attributes={"axis": 1}),
    Example("Concat", "one input", "concat", {"values": (IMAGE,)}, attributes={"axis": 1}, authored=True),
    Example("Conv", PLAIN, "conv", {"x": IMAGE}, {"weight": fp16(8, 8, 3, 3)}),
    Example("Conv", "13 columns wide", "conv", {"x": IMAGE}, {"weight": fp16(8, 8, 3, 13)}),
    Example("Conv", "14 columns wide", "conv", {"x": IMAGE}, {"weight": fp16(8, 8, 3, 14)}),
    Example("Conv", "16 columns wide", "conv", {"x": IMAGE}, {"weight": fp16(8, 8, 3, 16)}),
    Example("Conv", "three-dimensional", "conv", {"x": VOLUME}, {"weight": fp16(4, 4, 3, 3, 3)}),
    Example(
        "Conv",
        "kernel computed at run time, batch 2",
        "dynamic_conv",
        {"x": fp16(2, 8, 16, 16), "weight": fp16(8, 8, 3, 3)},
    ),
    Example(
        "CropResize",
        PLAIN,
        "crop_resize",
        {"x": IMAGE},
        {"boxes": fp16(2, 4)},
        {"target_height": 8, "target_width": 8},
    ),
    Example("CrossCorrelation", PLAIN, "cross_correlation", {"x": fp16(8, 8), "template": fp16(3, 3)}),
    Example("CrossProduct", PLAIN, "cross_product", {"a": fp16(3), "b": fp16(3)}),
    Example("Dropout", PLAIN, "dropout", {"x": IMAGE}, attributes={"rate": 0.5}),
    Example("DynamicGOC", PLAIN, "dynamic_goc", {"x": IMAGE, "gain": fp16(8), "offset": fp16(8)}),
    Example(
        "DynamicSlice", PLAIN, "dynamic_slice", {"x": fp16(1, 4)}, {"begin": TensorType((1,), "int32")}, {"size": 2}
    ),
    Example("ElementWise", PLAIN, "add", {"x": IMAGE, "y": IMAGE}),
    Example(
        "ElementWise",
        "fp8 (E4M3)",
        "add",
        {"x": IMAGE.with_dtype("fp8e4m3fn"), "y": IMAGE.with_dtype("fp8e4m3fn")},
    ),
    Example("Flatten", PLAIN, "flatten", {"x": fp16(3, 4, 5)}),
    Example("GOC", PLAIN, "pe_goc", {"x": IMAGE}, {"gain": fp16(8), "offset": fp16(8)}),
    Example("Gather", PLAIN, "gather", {"x": fp16(16, 8)}, {"indices": TensorType((4,), "int32")}, {"axis": 0}),
    Example(
        "Gather",
        "coordinates of three axes, batch 1",
        "gather_nd",
        {"x": fp16(1, 4, 4, 4)},
        {"indices": TensorType((1, 5, 3), "int32")},
        {"batch_dims": 1},
    ),
    Example(
        "Gather", "coordinates of two axes", "gather_nd", {"x": fp16(4, 4)}, {"indices": TensorType((5, 2), "int32")}
    ),
    Example("Gather", "rows and columns", "gather_hw", {"x": IMAGE}, {"indices": TensorType((5, 2), "int32")}),
    Example("GlobalArgMinMax", PLAIN, "global_arg_min_max", {"x": IMAGE}),
    Example(
        "InputView",
        PLAIN,
        "input_view",
        {"x": IMAGE},
        attributes={"axis": 3, "offset": 2, "size": 4, "step": 1},
    ),
    Example("InstanceNorm", PLAIN, "instance_norm", {"x": IMAGE}),
    Example("L2Norm", PLAIN, "l2_norm", {"x": IMAGE}),
    Example("LRN", PLAIN, "local_response_norm", {"x": IMAGE}),
    Example("LRN", "16 channels", "local_response_norm", {"x": fp16(1, 16, 4, 4)}),
    Example("LayerNorm", PLAIN, "layer_norm", {"x": fp16(1, 4, 16)}, attributes={"axes": (-1,)}),
    Example("Linear", PLAIN, "linear", {"x": fp16(1, 16)}, {"weight": fp16(8, 16)}),
    Example("Linear", "five axes", "linear", {"x": fp16(1, 1, 1, 4, 16)}, {"weight": fp16(8, 16)}),
    Example("MatrixMult", PLAIN, "matmul", {"x": fp16(8, 16), "y": fp16(16, 4)}),
    Example("MatrixMult", "five axes", "matmul", {"x": fp16(1, 1, 1, 8, 16), "y": fp16(1, 1, 1, 16, 4)}),
    Example("MatrixMult", "a depth of 2", "matmul", {"x": fp16(1, 1, 2, 8, 16), "y": fp16(1, 1, 2, 16, 4)}),
    Example("MatrixMult", "rows of 32,769 elements", "matmul", {"x": fp16(8, 32_769), "y": fp16(32_769, 4)}),
    Example("MinMaxNorm", PLAIN, "minmax_norm", {"x": fp16(3, 4, 5)}, attributes={"dimension": "width"}),
    Example("NMS", PLAIN, "non_maximum_suppression", {"boxes": fp16(1, 4, 10), "scores": fp16(1, 3, 10)}),
    Example("Neuron", PLAIN, "relu", {"x": IMAGE}),
    Example("Neuron", "sine", "sin", {"x": IMAGE}),
    Example("Neuron", "error function", "erf", {"x": IMAGE}),
    Example("Pad", PLAIN, "pad", {"x": IMAGE}, attributes={"pad": (1, 1, 2, 2)}),
    Example("Pad", "reflected", "pad", {"x": IMAGE}, attributes={"pad": (1, 1, 2, 2), "mode": "reflect"}),
    Example("Pad", "of the channels", "pad", {"x": IMAGE}, attributes={"pad": (0, 1, 0, 0, 0, 0)}, authored=True),
    Example("PixelShuffle", PLAIN, "pixel_shuffle", {"x": fp16(1, 16, 4, 4)}, attributes={"upscale_factor": 2}),
    Example("PixelShuffle", "by 5", "pixel_shuffle", {"x": fp16(1, 25, 4, 4)}, attributes={"upscale_factor": 5}),
    Example("PixelUnshuffle", PLAIN, "pixel_unshuffle", {"x": IMAGE}, attributes={"downscale_factor": 2}),
    Example("Pool", PLAIN, "max_pool", {"x": IMAGE}, attributes=WINDOW),
    Example("Pool", "average of 30 × 30", "avg_pool", {"x": fp16(1, 8, 64, 64)}, attributes={"kernel_sizes": (30, 30)}),
    Example("Random", PLAIN, "random_uniform", {}, attributes={"shape": (1, 8), "dtype": "fp16"}),
    Example("Reduction", PLAIN, "reduce_sum", {"x": IMAGE}, attributes={"axes": (1,), "keep_dims": True}),
    Example("Reduction", "squared", "sq_after_reduce", {"x": IMAGE}, attributes={"axes": (1,), "keep_dims": True}),
    Example(
        "Resample",
        PLAIN,
        "resample",
        {"x": IMAGE},
        {"coordinates": fp16(1, 4, 4, 2)},
        {
            "sampling_mode": "bilinear",
            "padding_mode": "constant",
            "coordinates_mode": "unnormalized",
            "align_corners": False,
        },
    ),
    Example("Reshape", PLAIN, "reshape", {"x": IMAGE}, attributes={"shape": (1, 64, 32)}),
    Example(
        "Resize",
        PLAIN,
        "resize_bilinear",
        {"x": IMAGE},
        attributes={"target_size_height": 32, "target_size_width": 32},
    ),
    Example(
        "Resize",
        "aligned corners and centred samples",
        "upsample_bilinear",
        {"x": IMAGE},
        attributes={
            "scale_factor_height": 2.0,
            "scale_factor_width": 2.0,
            "align_corners": True,
            "half_pixel_centers": True,
        },
    ),
    Example(
        "RingBufferWriter",
        PLAIN,
        "tensor_to_circular_buffer",
        {"buffer": fp16(1, 8, 4), "x": fp16(1, 2, 4)},
        attributes={"axis": 1},
    ),
    Example(
        "SDPA",
        PLAIN,
        "sdpa",
        {"query": fp16(1, 4, 16, 8), "key": fp16(1, 4, 16, 8), "value": fp16(1, 4, 16, 8)},
        {"attn_mask": fp16(16, 16)},
    ),
    Example(
        "SDPA",
        "mask of booleans",
        "sdpa",
        {"query": fp16(1, 4, 16, 8), "key": fp16(1, 4, 16, 8), "value": fp16(1, 4, 16, 8)},
        {"attn_mask": TensorType((16, 16), "bool")},
    ),
    Example("Softmax", PLAIN, "softmax", {"x": IMAGE}, attributes={"axis": 1}),
    Example("Sort", PLAIN, "sort", {"x": fp16(1, 64)}),
    Example("SpaceToBatch", PLAIN, "space_to_batch", {"x": IMAGE}, attributes={"block_shape": (2, 2)}),
    Example("SpaceToChannel", PLAIN, "space_to_channel", {"x": IMAGE}, attributes={"block_size": 2}),
    Example("Tile", PLAIN, "tile", {"x": IMAGE}, attributes={"reps": (1, 1, 2, 2)}),
    Example("TopK", PLAIN, "topk", {"x": fp16(1, 64)}, attributes={"k": 5}),
    Example("TopK", "k = 3", "topk", {"x": fp16(1, 64)}, attributes={"k": 3}),
    Example("Transpose", PLAIN, "transpose", {"x": IMAGE}, attributes={"perm": (0, 2, 3, 1)}),
    Example("Transpose", "of the batch of five axes", "transpose", {"x": VOLUME}, attributes={"perm": (1, 0, 2, 3, 4)}),
    Example("Unflatten", PLAIN, "unflatten", {"x": fp16(1, 64)}),
)
"""Every named validator has a plain one."""
