"""Forms of single layers: attention, products, windows, searches; what each refuses, and where axes lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import NotSupportedError, PrecisionWarning
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.writing import Netplist, netplist
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.reference import reference
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from aneforge.formats.netplist.document import Unit


def units(written: Netplist) -> list[Unit]:
    """Return the units of the only network."""
    (network,) = written.document.networks
    return list(network.units)


def types(written: Netplist) -> list[str]:
    """Return the layer types of the only network, activations by their own."""
    return [str(unit.params["Type"]) if unit.type == "Neuron" else unit.type for unit in units(written)]


def details(written: Netplist) -> list[str]:
    """Return what is told of changes."""
    return [change.detail for change in written.changes]


def op(name: str, *values: Tensor | Constant, **attributes: object) -> Tensor:
    """Return the first result of an operation."""
    operands = {operand.name: value for operand, value in zip(find_op(name).operands, values, strict=False)}
    return Tensor(build(name, operands, attributes))


# Attention


def heads(*shape: int) -> Tensor:
    """Return an input of attention."""
    return af.input(shape)


def sdpa_unit(written: Netplist) -> Unit:
    """Return the unit of attention."""
    (unit,) = (unit for unit in units(written) if unit.type == "SDPA")
    return unit


def test_attention_has_four_bottoms_and_subtracts() -> None:
    q, k, v = (heads(1, 2, 3, 4) for _ in range(3))
    written = netplist(af.sdpa(q, k, v, native=True))
    unit = sdpa_unit(written)
    assert len(unit.bottoms) == 4
    assert unit.params["SubtractMax"] is True
    assert unit.bottoms[3] in [constant.symbol for constant in written.document.networks[0].constants]
    assert np.frombuffer(written.weights["weights.1"], np.float16).tolist() == [0.5]


def test_attention_without_the_subtraction_warns() -> None:
    q, k, v = (heads(1, 2, 3, 4) for _ in range(3))
    with pytest.warns(PrecisionWarning, match="SubtractMax is off"):
        written = netplist(af.sdpa(q, k, v, native=True), subtract_max=False)
    assert sdpa_unit(written).params["SubtractMax"] is False


def test_attention_with_a_mask_has_five_bottoms() -> None:
    q, k, v, mask = heads(1, 2, 3, 4), heads(1, 2, 5, 4), heads(1, 2, 5, 4), heads(1, 1, 3, 5)
    written = netplist(af.sdpa(q, k, v, attn_mask=mask, native=True))
    assert len(sdpa_unit(written).bottoms) == 5
    read_back(af.sdpa(q, k, v, attn_mask=mask, native=True))


def read_back(tensor: Tensor) -> None:
    """Check that a tensor means the same once it is written and read."""
    graph = Graph({"y": tensor})
    written = netplist(graph)
    read = parse_netplist(written.data(), written.weights)
    generator = np.random.default_rng(3)
    feed = {name: generator.uniform(-2, 2, node.types[0].shape) for name, node in graph.inputs.items()}
    again = {name: feed[name].reshape(node.types[0].shape) for name, node in read.inputs.items()}
    found, expected = reference(read, again)["y"].ravel(), reference(graph, feed)["y"].ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_causal_attention_is_a_mask() -> None:
    q, k, v = (heads(1, 2, 5, 4) for _ in range(3))
    written = netplist(af.sdpa(q, k, v, is_causal=True, native=True))
    assert len(sdpa_unit(written).bottoms) == 5
    assert "the causal mask is a constant of 0 and -10000" in details(written)
    read_back(af.sdpa(q, k, v, is_causal=True, native=True))


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (5,), (1, 1, 3, 5)])
def test_masks_of_truth_values(shape: tuple[int, ...]) -> None:
    q, k, v = heads(1, 2, 3, 4), heads(1, 2, 5, 4), heads(1, 2, 5, 4)
    allowed = np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0
    known = op("sdpa", q, k, v, Dense(allowed), native=True)
    read_back(known)
    below = op("less", af.input(shape), Dense(np.full(shape, 5, np.float16)))
    written = netplist(op("sdpa", q, k, v, below, native=True))
    assert "the mask adds -10000 where it hides" in details(written)
    read_back(op("sdpa", q, k, v, below, native=True))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (((2, 2, 3, 4),) * 3, "an SDPA unit has one batch of heads"),
        (((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 6)), "an SDPA unit takes key and value of one shape"),
        (((1, 2, 3, 4),) * 3 + ((1, 2, 3, 3),), "an SDPA unit applies one plane of the mask to all heads"),
    ],
)
def test_attention_that_the_layer_does_not_have(tensors: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(NotSupportedError, match=message) as caught:
        netplist(op("sdpa", *(af.input(shape) for shape in tensors), native=True))
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("nearest form: ")


def test_shared_heads_are_repeated() -> None:
    q, k, v = heads(1, 4, 3, 8), heads(1, 1, 3, 8), heads(1, 1, 3, 8)
    assert types(netplist(op("sdpa", q, k, v, native=True))).count("Broadcast") == 2
    read_back(op("sdpa", q, k, v, native=True))


# Layers that samples do not reach


def test_the_equation_of_the_product() -> None:
    a = af.input((1, 3, 2, 4))
    b = np.random.default_rng(0).standard_normal((1, 4, 2, 5)).astype(np.float16)
    assert types(netplist(af.einsum_native("nchw,nwhu->nchu", a, b))) == ["MatrixMultiplication"]
    other = Tensor(build("einsum", {"values": (a, a)}, {"equation": "nchw,nchw->nc"}))
    assert netplist(other).changes[0].detail == "a matrix product between transposes"
    read_back(other)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "output"),
    [(2, 2, 0, None), (3, 2, 0, None), (3, 2, 1, None), (3, 1, 1, None), (4, 3, (0, 1), None), (2, 3, 0, (1, 2, 15))],
)
def test_transposed_convolutions_of_ones(
    kernel: int, stride: int, pad: int | tuple[int, int], output: tuple[int, ...] | None
) -> None:
    x = af.input((1, 2, 5))
    pads = (pad, pad) if isinstance(pad, int) else pad
    attributes = {"strides": (stride,), "pad_type": "custom", "pad": pads, "groups": 2, "output_shape": output}
    tensor = op("conv_transpose", x, Dense(np.ones((2, 1, kernel), np.float16)), **attributes)
    written = netplist(tensor)
    read = parse_netplist(written.data(), written.weights)
    values = np.random.default_rng(1).standard_normal((1, 2, 5))
    found = reference(read, {"x0": values.reshape(read.inputs["x0"].types[0].shape)})["y"]
    np.testing.assert_allclose(found.ravel(), reference(tensor, [values])["y"].ravel())
    assert [unit.params.get("Type") for unit in units(written)].count("ChannelWiseDeConv") == 1


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [(0, 0), (1, 2), (3, 0), (0, 4)])
@pytest.mark.parametrize("groups", [1, 2])
def test_any_transposed_convolution_is_a_convolution(stride: int, pad: tuple[int, int], groups: int) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 3, 3)).astype(np.float16)
    bias = Dense(np.arange(3 * groups, dtype=np.float16))
    attributes = {"strides": (stride,), "pad_type": "custom", "pad": pad, "groups": groups}
    tensor = op("conv_transpose", af.input((2, 4, 5)), Dense(weight), bias, **attributes)
    written = netplist(tensor)
    assert types(written).count("Conv") == (1 if stride == 1 else 2)
    assert "a convolution of x with zeros between its elements" in details(written)
    read_back(tensor)


def test_ones_whose_padding_would_be_negative() -> None:
    attributes = {"groups": 2, "pad_type": "custom", "pad": (2, 0), "strides": (2,)}
    read_back(op("conv_transpose", af.input((1, 2, 5)), Dense(np.ones((2, 1, 2), np.float16)), **attributes))


def test_rows_are_sorted_one_by_one_up_to_a_limit() -> None:
    assert types(netplist(af.sort(af.input((3, 4))))).count("Sort") == 3
    with pytest.raises(NotSupportedError, match=r"so rows are ordered one by one \(got 1025 rows, limit 1024\)"):
        netplist(af.sort(af.input((1025, 4))))


def test_dynamic_gains_of_other_channels_are_products() -> None:
    x, gain, offset = af.input((1, 5, 2, 2)), af.input((5,)), af.input((5,))
    written = netplist(op("dynamic_goc", x, gain, offset))
    assert "DynamicGOC" not in types(written)
    assert "5 channels" in details(written)[0]
    few = netplist(op("dynamic_goc", af.input((1, 4, 2, 2)), af.input((4,)), af.input((4,))))
    assert "DynamicGOC" in types(few)


def test_long_searches_take_the_other_layer() -> None:
    short = op("reduce_argmax", af.input((1, 1, 1, 2048)), axis=3).cast("fp16")
    long = op("reduce_argmax", af.input((1, 1, 1, 2049)), axis=3).cast("fp16")
    assert (types(netplist(short)), types(netplist(long))) == (["ArgMinMax"], ["GlobalArgMinMax"])


def deep(*shape: int, dtype: str = "fp16") -> Tensor:
    """Return an input of any rank and element type."""
    return Tensor(build("input", {}, {"shape": shape, "dtype": dtype}))


def gathered(*, axis: int = 3, key_axis: int = 3, other: bool = False, constant: bool = False) -> Tensor:
    """Return what is nearly the columns of a tensor in one channel's order."""
    x = af.input((1, 3, 1, 3))
    lane = op("input_view", af.input((1, 3, 1, 3)) if other else x, axis=1, offset=0, size=1)
    places = op("argsort", lane, axis=key_axis)
    known = Dense(np.zeros((1, 1, 1, 3), np.int32))
    repeated = op("broadcast", known if constant else places, shape=(1, 3, 1, 3))
    return op("gather_along_axis", x, repeated, axis=axis)


GAPS = op("conv", af.input((1, 1, 4, 4)), Dense(np.zeros((1, 1, 2, 2), np.float16)), dilations=(2, 2))
TURNED = op("conv_transpose", af.input((1, 2, 5)), af.input((2, 1, 2)))
TURNED_GAPS = op("conv_transpose", af.input((1, 2, 5)), Dense(np.ones((2, 1, 2), np.float16)), dilations=(2,))
REFUSED: list[tuple[Tensor, str]] = [
    (TURNED, "the kernel must be a constant"),
    (TURNED_GAPS, "the kernel must have no gaps"),
    (op("cast", deep(2, dtype="uint8"), dtype="fp16"), "no layer converts"),
    (op("cast", op("cast", af.input((2,)), dtype="int32"), dtype="fp16"), "no layer converts"),
    (op("cast", af.input((2,)), dtype="uint16"), "no layer cuts numbers towards zero"),
    (op("dropout", af.input((2,)), rate=0.25), "no source says how a layer gets a dropout rate"),
    (op("gather", af.input((2,)), op("cast", af.input((1,)), dtype="int32")), "one row of constant indices"),
    (op("gather", deep(1 << 17), Dense(np.array([70000], np.int32))), "an index does not fit into UInt16"),
    (op("pad", af.input((2, 3)), pad=(1, 1), mode="reflect"), "the layer that pads"),
    (op("slice_by_index", af.input((4,)), begin=(3,), end=(0,), stride=(-1,)), "must go forwards and have elements"),
    (af.input((2,)).apply("cumsum", axis=0), "cannot express it"),
    (op("matmul", deep(2, 2, 2, 2, 2), deep(2, 2, 2, 2, 2)), "has no depth"),
    (op("lrn", af.input((4, 2, 2)), kernel_channel=3), "normalises only the first KernelChannel channels"),
    (op("local_response_norm", deep(1, 3, 2, 2, 2), size=3), "unit takes a tensor of at most 4 axes"),
    (op("reshape", deep(2, 3, 2, 2, 2), shape=(2, 24)), "no key for the depth"),
    (GAPS, "no key for gaps"),
    (op("upsample_nearest_neighbor", af.input((1, 1, 4, 4)), scale_factor_height=1.5), "has integer factors"),
    (
        op("cross_product", deep(3, 1, 1, 1, 1), deep(3, 1, 1, 1, 1)),
        "CrossProduct unit takes a tensor of at most 4 axes",
    ),
    (op("real_div", deep(2, dtype="int32"), deep(2, dtype="int32")), "layers of a description compute in Float16"),
    (op("transpose", op("argsort", af.input((2, 3))), perm=(1, 0)), "places of elements as Float16 or UInt16"),
    (op("add", deep(2, dtype="int8"), deep(2, dtype="int8")), "layers of a description compute in Float16"),
    (op("matmul", deep(2, 2, dtype="int8"), deep(2, 2, dtype="int8")), "layers of a description compute in Float16"),
    (op("conv", deep(1, 1, 2, dtype="int8"), Dense(np.ones((1, 1, 1), np.int8))), "compute in Float16"),
    (op("avg_pool", af.input((1, 1, 5)), kernel_sizes=(2,), strides=(2,), ceil_mode=True), "all padding or none"),
    (op("softmax", deep(2, 2, 2, 2, 2, 1), axis=5), "axis of length 1 next to five longer ones"),
    (gathered(axis=2), "cannot express it"),
    (gathered(key_axis=1), "cannot express it"),
    (gathered(other=True), "cannot express it"),
    (gathered(constant=True), "cannot express it"),
]


@pytest.mark.parametrize(("tensor", "message"), REFUSED)
def test_forms_that_are_refused(tensor: Tensor, message: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        netplist(tensor)
    assert message in caught.value.message
    assert caught.value.remedy
    assert caught.value.location is not None
    assert caught.value.operation


def test_a_state_is_refused() -> None:
    total = af.state("total", (1, 2))
    with pytest.raises(NotSupportedError, match="a description has no key for tensors that are kept between runs"):
        netplist(Graph({"y": total + 1.0}, {"total": total + 1.0}))


# Where axes lie


def test_axes_that_lie_along_one_dimension_are_moved_apart() -> None:
    column = af.input((1, 3)).transpose(1, 0)  # its only long axis lies along the width
    read_back(column + af.input((3, 5)))
    read_back(af.input((3, 5)) * column)


@pytest.mark.parametrize("axis", range(6))
@pytest.mark.parametrize("shape", [(1,) * 6, (2, 3, 1, 1, 4, 5), (2, 1, 1, 3, 1, 1)])
def test_gathers_of_six_axes(shape: tuple[int, ...], axis: int) -> None:
    x = Tensor(build("input", {}, {"shape": shape}))
    indices = np.zeros(2 if shape[axis] > 1 else 1, np.int32)
    read_back(op("gather", x, Dense(indices), axis=axis))


def test_a_gather_that_needs_a_sixth_dimension() -> None:
    x = Tensor(build("input", {}, {"shape": (2, 2, 2, 2, 2, 1)}))
    with pytest.raises(NotSupportedError, match="a tensor of a description has five dimensions"):
        netplist(op("gather", x, Dense(np.array([0, 0], np.int32)), axis=5))


def test_truth_values_in_another_shape() -> None:
    x = af.input((2, 3))
    read_back(op("reshape", x.less(af.input((2, 3))), shape=(6,)).cast("fp16"))
    read_back(op("cast", x.floor(), dtype="bool").cast("fp16"))
    read_back(op("logical_not", op("reshape", x.less(af.input((2, 3))), shape=(3, 2))).cast("fp16"))


def test_places_in_another_shape() -> None:
    found = op("reduce_argmax", af.input((2, 3, 4)), axis=-1)
    read_back(op("reshape", found, shape=(6,)).cast("fp16"))
    place = op("reduce_argmax", af.input((1, 5)), axis=-1)
    read_back(op("dynamic_slice", af.input((2, 6)), place, size=2))
    begin = op("reshape", op("cast", af.input((1, 1)), dtype="int32"), shape=())
    read_back(op("dynamic_slice", af.input((2, 6)), begin, size=2))
