"""Hypothesis strategies for network descriptions: a valid unit of any layer type, with every parameter drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from aneforge.formats.netplist.parameters import bits_of
from aneforge.formats.netplist.rows import rows
from aneforge.formats.netplist.schema import DIMENSIONS, layer_table
from aneforge.formats.netplist.sketch import Plain, Sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.types import Array

    Drawer = Callable[["Maker"], None]

__all__ = ["DRAWN", "descriptions"]

X, U, Y = "x", "u", "y"
IMAGE = ("batch", "channel", "height", "width")


class Maker:
    """A sketch of one unit in the making."""

    def __init__(self, draw: st.DrawFn, kind: str) -> None:
        self.draw = draw
        self.kind = kind
        self.sketch = Sketch()
        self.generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def whole(self, least: int, most: int) -> int:
        """Draw an integer."""
        return self.draw(st.integers(least, most))

    def flag(self) -> bool:
        """Draw a boolean."""
        return self.draw(st.booleans())

    def choose(self, options: Sequence[str]) -> str:
        """Draw one of several names."""
        return self.draw(st.sampled_from(list(options)))

    def types(self) -> Sequence[str]:
        """Return what the parameter Type of the layer may be."""
        layer = layer_table().layers[self.kind]
        return layer.choices("Type", layer.params["Type"])

    def bits(self, least: float = -4, most: float = 4) -> int:
        """Draw a number as the bit pattern of its fp16."""
        return bits_of(self.draw(st.floats(least, most, width=16)))

    def extents(self, *, most: int = 4, depth: bool = False, **fixed: int) -> dict[str, int]:
        """Draw the extents of a tensor; those that are given are as they are."""
        names = [name.lower() for name in DIMENSIONS if name != "Depth" or depth]
        return {name: self.whole(1, most) for name in names} | fixed

    def numbers(self, *shape: int) -> Array:
        """Draw numbers of fp16."""
        return self.generator.uniform(-4, 4, shape).astype(np.float16)

    def tensor(self, symbol: str, extents: dict[str, int]) -> None:
        """Add a tensor: an input, or now and then a constant."""
        if self.whole(0, 4):
            self.sketch.input(symbol, extents)
        else:
            self.sketch.constant(symbol, self.numbers(*(extents.get(name.lower(), 1) for name in DIMENSIONS)))

    def finish(self, bottoms: Sequence[str] = (X,), params: dict[str, Plain] | None = None, **others: Plain) -> None:
        """Add the unit and the output."""
        kind = self.kind
        types: list[Plain] = [self.type_of(bottom) for bottom in bottoms]
        output_type = str(others.get("OutputType", "Float16"))
        self.sketch.unit(U, kind, bottoms, params or {}, **{"InputType": types, **others})
        self.sketch.output(Y, U, output_type)

    def type_of(self, symbol: str) -> str:
        """Return the element type of a tensor."""
        entry = self.sketch.network.get(symbol)
        return str(entry["ConstantType"]) if isinstance(entry, dict) else "Float16"


# One function per layer type


def neuron(maker: Maker) -> None:
    """Draw an activation."""
    row = maker.draw(st.sampled_from([row.entry for row in rows() if row.kind == maker.kind]))
    kind = row.params["Type"]
    maker.tensor(X, maker.extents(depth=True))
    params: dict[str, Plain] = {"Type": kind}
    if kind == "ClampedReLU":
        low = maker.draw(st.floats(-4, 4, width=16))
        params |= {"ReluMin": bits_of(low), "ReluMax": bits_of(low + maker.whole(0, 4))}
    else:
        params |= {name: maker.bits() for name in row.keys}
    params |= {name: 0 for name in row.params if name != "Type"}
    maker.finish(params=params)


def elementwise(maker: Maker) -> None:
    """Draw a function of one tensor or of two."""
    row = maker.draw(st.sampled_from([row for row in rows() if row.kind == maker.kind]))
    extents = maker.extents(depth=True)
    bottoms = [X, "z"][: len(row.operands)]
    for bottom in bottoms:
        maker.tensor(bottom, extents)
    maker.finish(bottoms, dict(row.entry.params))


def scaled(maker: Maker) -> None:
    """Draw a scaled function of two tensors."""
    extents = maker.extents(depth=True)
    for bottom in (X, "z"):
        maker.tensor(bottom, extents)
    maker.finish((X, "z"), {"Type": maker.choose(maker.types()), "Scale": maker.bits()})


def goc(maker: Maker) -> None:
    """Draw a gain and an offset."""
    maker.tensor(X, maker.extents(depth=True))
    maker.finish(params={"ScaleScalar": maker.bits(), "BiasScalar": maker.bits()})


def dynamic_goc(maker: Maker) -> None:
    """Draw a gain, an offset, or both, of which some may be constants."""
    extents = maker.extents(depth=maker.flag())
    maker.tensor(X, extents)
    vectors = ["g", "o"][: maker.whole(1, 2)]
    for vector in vectors:
        maker.tensor(vector, {"channel": extents["channel"]})
    maker.finish((X, *vectors), {"BiasOnly": maker.flag() if len(vectors) == 1 else False})


def windows(maker: Maker, *, deep: bool) -> tuple[dict[str, int], dict[str, Plain]]:
    """Draw a window that fits a tensor: extents, and parameters."""
    extents = maker.extents(most=5, depth=deep)
    params: dict[str, Plain] = {}
    steps: list[Plain] = []
    sides = {"width": ("Left", "Right"), "height": ("Top", "Bot"), "depth": ("Front", "Back")}
    for name, (before, after) in sides.items():
        if name == "depth" and not deep:
            continue
        length = maker.whole(1, 3)
        pads = maker.whole(0, length - 1), maker.whole(0, length - 1)
        extents[name] = max(extents[name], length - sum(pads))
        params |= {f"Kernel{name.capitalize()}": length, f"Pad{before}": pads[0], f"Pad{after}": pads[1]}
        steps.append(maker.whole(1, 3))
    return extents, {**params, "Step": steps}


def conv(maker: Maker) -> None:
    """Draw a convolution, dense or of ones, or an upsampling."""
    deep = maker.flag()
    extents, params = windows(maker, deep=deep)
    if maker.whole(0, 3) == 0:
        upsampling(maker, extents, params)
        return
    groups, inner, outer = maker.whole(1, 2), maker.whole(1, 2), maker.whole(1, 2)
    extents["channel"] = groups * inner
    maker.tensor(X, extents)
    params |= {"Type": "Conv", "KernelMode": maker.choose(["Dense", "Unity"]), "KernelType": "Float16"}
    params |= {"KernelMutable": False, "KernelGroupReuse": False, "PaddingMode": "Zero"}
    if params["KernelMode"] == "Dense":
        kernel = [int(str(params.get(f"Kernel{name}", 1))) for name in ("Depth", "Height", "Width")]
        values = maker.numbers(groups * outer, inner, *kernel)
        params |= {"KernelIndex": 1, "KernelOffset": maker.sketch.put(values)}
    maker.finish(params=params, OutputChannels=groups * outer, NumGroups=groups)


def upsampling(maker: Maker, extents: dict[str, int], params: dict[str, Plain]) -> None:
    """Draw an upsampling: the kernel's length, or more than its steps."""
    maker.tensor(X, extents)
    fixed: dict[str, Plain] = {"Type": "ChannelWiseDeConv", "KernelMode": "Unity", "KernelGroupReuse": True}
    steps: list[Plain] = []
    for name, (before, after) in {"Width": ("Left", "Right"), "Height": ("Top", "Bot")}.items():
        step = maker.whole(1, 3)
        length = step + maker.whole(0, 1)
        steps.append(step)
        fixed |= {f"Kernel{name}": length, f"Pad{before}": length - 1, f"Pad{after}": maker.whole(0, length - step)}
    fixed |= {"Step": [*steps, 1], "KernelDepth": 1, "PadFront": 0, "PadBack": 0}
    maker.finish(params={**params, **fixed}, OutputChannels=extents["channel"], NumGroups=1)


def pooling(maker: Maker) -> None:
    """Draw pooling."""
    extents, params = windows(maker, deep=maker.flag())
    maker.tensor(X, extents)
    kind = maker.choose(["Max", "Avg"])
    params |= {"Type": kind, "PaddingMode": maker.choose(["Negative", "Zero"]) if kind == "Max" else "Zero"}
    maker.finish(params={**params, "AverageCountExcludePadding": maker.flag()})


def cross_correlation(maker: Maker) -> None:
    """Draw a template and an image, with padding now and then."""
    height, width = maker.whole(1, 3), maker.whole(1, 3)
    maker.tensor(X, {"height": height + maker.whole(0, 3), "width": width + maker.whole(0, 3)})
    maker.tensor("t", {"width": height * width})
    pads: dict[str, Plain] = {f"Pad{side}": maker.whole(0, 1) for side in ("Top", "Bot", "Left", "Right")}
    maker.finish((X, "t"), {"TemplateHeight": height, "TemplateWidth": width, "NumGroups": 1, **pads})


def rasteriser(maker: Maker) -> None:
    """Draw the form that is the identity."""
    maker.tensor(X, maker.extents())
    fixed: dict[str, Plain] = {"RasterizerMode": "UnfoldedChannels", "KernelWidth": 1, "KernelHeight": 1}
    maker.finish(params={**fixed, "NumGroups": maker.whole(1, 2)})


def matrix_product(maker: Maker) -> None:
    """Draw two tensors that multiply."""
    first = maker.extents()
    second = {**first, "channel": first["width"], "width": maker.whole(1, 4)}
    maker.tensor(X, first)
    maker.tensor("z", second)
    maker.finish((X, "z"), OutputChannels=first["channel"])


def softmax(maker: Maker) -> None:
    """Draw a dimension."""
    maker.tensor(X, maker.extents(depth=maker.flag()))
    maker.finish(params={"Dimension": maker.choose(DIMENSIONS)})


def attention(maker: Maker) -> None:
    """Draw attention with a mask or without."""
    queries, keys, heads, width = (maker.whole(1, 3) for _ in range(4))
    for symbol, length in (("q", queries), ("k", keys), ("v", keys)):
        maker.tensor(symbol, {"channel": length, "height": heads, "width": width})
    maker.sketch.constant("s", maker.numbers(1, 1, 1, 1, 1))
    masks = ["m"] if maker.flag() else []
    for mask in masks:
        maker.tensor(mask, {"channel": queries, "width": keys})
    maker.finish(("q", "k", "v", "s", *masks), {"SubtractMax": True}, OutputChannels=queries)


def reduction(maker: Maker) -> None:
    """Draw dimensions to reduce."""
    maker.tensor(X, maker.extents(depth=maker.flag()))
    dims: list[Plain] = list(maker.draw(st.lists(st.sampled_from(DIMENSIONS), min_size=1, unique=True)))
    maker.finish(params={"Type": maker.choose(maker.types()), "Dimension": dims})


def minmax(maker: Maker) -> None:
    """Draw a range normalisation; the epsilon keeps constant rows from 0 over 0."""
    maker.tensor(X, maker.extents())
    kind = maker.choose(["Width", "Height", "Channel"])
    maker.finish(params={"Dimension": kind, "Epsilon": maker.bits(2.0**-10, 1)})


def response(maker: Maker) -> None:
    """Draw a normalisation over all of an odd number of channels."""
    channels = maker.draw(st.sampled_from([1, 3, 5]))
    maker.tensor(X, maker.extents(channel=channels))
    fixed: dict[str, Plain] = {"Type": "Channel", "KernelWidth": 1, "KernelHeight": 1, "KernelChannel": channels}
    numbers: dict[str, Plain] = {"Alpha": maker.bits(0, 1), "Beta": 0.75, "K": float(maker.whole(1, 3))}
    maker.finish(params={**fixed, **numbers})


def concat(maker: Maker) -> None:
    """Draw two tensors or three that agree on all dimensions but one."""
    along = maker.choose(DIMENSIONS)
    extents = maker.extents(depth=maker.flag())
    bottoms = [f"x{number}" for number in range(maker.whole(2, 3))]
    for bottom in bottoms:
        maker.tensor(bottom, {**extents, along.lower(): maker.whole(1, 3)})
    maker.finish(bottoms, {"Dimension": along})


def reshape(maker: Maker) -> None:
    """Draw another order of the same extents, two of them merged."""
    extents = maker.extents()
    maker.tensor(X, extents)
    shape = maker.draw(st.permutations([extents[name] for name in IMAGE]))
    shape = [shape[0] * shape[1], 1, *shape[2:]] if maker.flag() else shape
    names = ("ReshapedBatch", "ReshapedChannel", "ReshapedHeight", "ReshapedWidth")
    maker.finish(params=dict(zip(names, shape, strict=True)))


def transpose(maker: Maker) -> None:
    """Draw a permutation of some dimensions."""
    maker.tensor(X, maker.extents(depth=maker.flag()))
    moved = maker.draw(st.lists(st.sampled_from(DIMENSIONS), min_size=1, unique=True))
    places = maker.draw(st.permutations(moved))
    records: list[Plain] = [
        {"TransposeSourceDimension": here, "TransposeDestinationDimension": there}
        for here, there in zip(moved, places, strict=True)
    ]
    maker.finish(params={"TransposeDimensions": records})


def broadcast(maker: Maker) -> None:
    """Draw dimensions to repeat."""
    dims = maker.draw(st.lists(st.sampled_from(DIMENSIONS), min_size=1, unique=True))
    maker.tensor(X, {**maker.extents(), **{dim.lower(): 1 for dim in dims}})
    records: list[Plain] = [{"Dimension": dim, "Size": maker.whole(1, 4)} for dim in dims]
    maker.finish(params={"BroadcastInfo": records})


def input_view(maker: Maker) -> None:
    """Draw a view."""
    along, step = maker.choose(DIMENSIONS), maker.whole(1, 3)
    offset, size = maker.whole(0, 3), maker.whole(1, 3)
    length = offset + (size - 1) * step + 1 + maker.whole(0, 2)
    maker.tensor(X, {**maker.extents(most=3), along.lower(): length})
    maker.finish(params={"Dimension": along, "Offset": offset, "Size": size, "Step": step})


def gather(maker: Maker) -> None:
    """Draw a row of indices."""
    along, extents = maker.choose(DIMENSIONS), maker.extents(depth=maker.flag())
    maker.tensor(X, extents)
    most = extents.get(along.lower(), 1)
    indices = maker.generator.integers(0, most, (1, 1, 1, 1, maker.whole(1, 5))).astype(np.uint16)
    maker.sketch.constant("i", indices)
    maker.finish((X, "i"), {"GatherNDAxes": [along]})


def dynamic_slice(maker: Maker) -> None:
    """Draw a slice whose begin may be near or past the end."""
    extents = maker.extents(depth=maker.flag())
    maker.tensor(X, extents)
    if maker.flag():
        maker.sketch.constant("i", np.full((1,) * 5, maker.whole(0, extents["width"]), np.uint16))
    else:
        maker.tensor("i", {})
    width: Plain = {"Coordinate": "Width"}
    size = maker.whole(1, extents["width"])
    params: dict[str, Plain] = {
        "BackgroundValue": float(maker.whole(-2, 2)),
        "CoordinateInfo": [{**width, "CoordinateMode": "NonNormalized"}],
        "CoordinateMode": "NonNormalized",
        "DynamicSliceAxisOrder": ["Width"],
        "DynamicSliceInfo": [{**width, "SliceSize": size}],
        "PaddingInfo": [{**width, "PaddingMode": "Background"}],
    }
    maker.finish((X, "i"), params)


def flatten(maker: Maker) -> None:
    """Draw an image."""
    extents = maker.extents(batch=1)
    maker.tensor(X, extents)
    size = extents["channel"] * extents["height"] * extents["width"]
    maker.finish(params={"FlattenType": "NCHW", "Mode": "NCHW"}, OutputChannels=size if maker.flag() else 1)


def dropout(maker: Maker) -> None:
    """Draw a seed, which changes nothing."""
    maker.tensor(X, maker.extents(depth=True))
    maker.finish(params={"DropoutRate": 0, "Seed": maker.whole(0, 9)})


def rearrangement(maker: Maker) -> None:
    """Draw blocks, square or not."""
    x, y = maker.whole(1, 3), maker.whole(1, 3)
    extents = maker.extents(most=2)
    from_channels = maker.kind in ("PixelShuffle", "ChannelToSpace")
    if from_channels or maker.kind == "BatchToSpace":
        extents["channel" if from_channels else "batch"] *= x * y
    else:
        extents["height"] *= y
        extents["width"] *= x
    maker.tensor(X, extents)
    maker.finish(params={"FactorX": x, "FactorY": y, "FactorZ": 1})


def ranking(maker: Maker) -> None:
    """Draw an order of columns by one channel, as values or as places."""
    channels, width = maker.whole(1, 3), maker.whole(1, 5)
    maker.tensor(X, {"channel": channels, "width": width})
    common: dict[str, Plain] = {"SortDimension": "Width", "VectorDimension": "Channel"}
    common |= {"SortIndices": [maker.whole(0, channels - 1)], "Indices": maker.flag()}
    if maker.kind == "Sort":
        common["Direction"] = maker.choose(["Ascending", "Descending"])
    else:
        common |= {"Type": maker.choose(["Max", "Min"]), "K": maker.whole(1, width)}
    kinds = ["Float16", "UInt16"] if common["Indices"] else ["Float16"]
    maker.finish(params=common, OutputType=maker.choose(kinds))


def arg_extreme(maker: Maker) -> None:
    """Draw a search over a whole image, or over the channels."""
    extents = maker.extents()
    maker.tensor(X, extents)
    mode = maker.choose(["SpatialArgMax", "ChannelArgMax", "SpatialArgMin", "ChannelArgMin"])
    spatial = mode.startswith("Spatial")
    params: dict[str, Plain] = {
        "Mode": mode,
        "KernelHeight": extents["height"] if spatial else 1,
        "KernelWidth": extents["width"] if spatial else 1,
        **{f"Pad{side}": 0 for side in ("Top", "Bot", "Left", "Right", "Front", "Back")},
    }
    maker.finish(params=params, OutputType=maker.choose(["Float16", "UInt16"]))


def global_arg_extreme(maker: Maker) -> None:
    """Draw a search along one dimension."""
    maker.tensor(X, maker.extents(depth=maker.flag()))
    kind = maker.choose(["Max", "Min"])
    maker.finish(
        params={"Type": kind, "Dimension": maker.choose(["Width", "Height", "Channel"])},
        OutputType=maker.choose(["Float16", "UInt16"]),
    )


def cross_product(maker: Maker) -> None:
    """Draw vectors."""
    extents = maker.extents(depth=maker.flag(), batch=1, channel=3)
    for bottom in (X, "z"):
        maker.tensor(bottom, extents)
    maker.finish((X, "z"), {})


def cost_volume(maker: Maker) -> None:
    """Draw two rows."""
    width, reach = maker.whole(1, 4), maker.whole(0, 3)
    maker.tensor("aux", {"width": width})
    maker.tensor("ref", {"width": width + reach + maker.whole(0, 2)})
    fixed: dict[str, Plain] = {"DisparityDirection": 0, "ScaleFactorX": 1, "ScaleFactorY": 1}
    maker.finish(("aux", "ref"), {"DisparityRange": reach, **fixed})


def farthest(maker: Maker) -> None:
    """Draw points."""
    count = maker.whole(1, 6)
    maker.tensor(X, {"channel": 3, "width": count})
    params: dict[str, Plain] = {"CentroidCount": maker.whole(1, count), "DistanceMetric": "L2"}
    maker.finish(params=params, OutputChannels=3)


def radius(maker: Maker) -> None:
    """Draw points and centroids."""
    for bottom in ("c", "p"):
        maker.tensor(bottom, {"channel": 3, "width": maker.whole(1, 4)})
    maker.finish(("c", "p"), {"Radius": float(maker.whole(0, 6))}, OutputChannels=1)


def decomposition(maker: Maker) -> None:
    """Draw small matrices."""
    kind = maker.choose(["NonQRGivens", "CrossProductOrthoNormalization"])
    taken = 9 if kind == "NonQRGivens" else 6
    maker.tensor(X, maker.extents(depth=maker.flag(), batch=1, channel=taken))
    params: dict[str, Plain] = {"Type": kind}
    if maker.flag():
        params |= {"Epsilon": maker.bits(0, 1), "RotationAxis": [7]}
    maker.finish(params=params)


DRAWN: dict[str, Drawer] = {
    "ArgMinMax": arg_extreme,
    "Broadcast": broadcast,
    "Concat": concat,
    "Conv": conv,
    "CostVolume": cost_volume,
    "CrossCorrelation": cross_correlation,
    "CrossProduct": cross_product,
    "Dropout": dropout,
    "DynamicGOC": dynamic_goc,
    "DynamicSlice": dynamic_slice,
    "ElementWise": elementwise,
    "Flatten": flatten,
    "FurthestPointSampling": farthest,
    "GOC": goc,
    "Gather": gather,
    "GlobalArgMinMax": global_arg_extreme,
    "InputView": input_view,
    "KernelRasterizer": rasteriser,
    "LocalResponseNormalization": response,
    "MatrixDecomposition": decomposition,
    "MatrixMultiplication": matrix_product,
    "MinMaxNormalization": minmax,
    "Neuron": neuron,
    "Pooling": pooling,
    "RadiusSearch": radius,
    "Reduction": reduction,
    "Reshape": reshape,
    "SDPA": attention,
    "ScaledElementWise": scaled,
    "Softmax": softmax,
    "Transpose": transpose,
    **dict.fromkeys(("Sort", "TopK"), ranking),
    **dict.fromkeys(
        ("PixelShuffle", "PixelUnshuffle", "ChannelToSpace", "SpaceToChannel", "SpaceToBatch", "BatchToSpace"),
        rearrangement,
    ),
}
"""A function for every layer type that draws a unit of it."""


@st.composite
def descriptions(draw: st.DrawFn, layer: str | None = None) -> Sketch:
    """Draw a description of one unit, of a layer type or of any."""
    kind = draw(st.sampled_from(sorted(DRAWN))) if layer is None else layer
    maker = Maker(draw, kind)
    DRAWN[kind](maker)
    return maker.sketch
