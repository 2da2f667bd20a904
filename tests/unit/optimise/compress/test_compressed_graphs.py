"""Graphs with encoded weights: what is chosen, what is reported, and that everything downstream takes them."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.layers import Constants
from aneforge.errors import GraphError, NoDataError, NotSupportedError, UnknownNameError
from aneforge.formats.mil.program import parse_mil
from aneforge.formats.mil.text import mil_text
from aneforge.graph.node import build
from aneforge.ops.constant import Constant, Dense, Int8Affine
from aneforge.optimise.compress import choice
from aneforge.optimise.compress.choice import MODES, Encoding, find_mode
from aneforge.optimise.compress.fates import Fate
from aneforge.optimise.compress.graphs import WeightReport, compressed
from aneforge.optimise.compress.weighted_products import Axes, uses
from aneforge.targets import Family

if TYPE_CHECKING:
    from pathlib import Path

    from golden_text import Golden

Array = npt.NDArray[Any]
GENERATOR = np.random.default_rng(8)
NORMAL = GENERATOR.standard_normal((24, 64)) / 8
FEW = GENERATOR.choice([-0.5, 0.25, 1.0], (24, 64))
THIN = np.where(GENERATOR.random((24, 64)) < 0.3, NORMAL, 0)
HALF = np.tile([1.0, 0.0], (24, 32))
STREAMING = {Family.A13: "int4 sparse", Family.A14: "int4 int8 sparse", Family.A15: "int4 int8 sparse blockwise"}


def linear(weight: Array, max_abs: float | None = None) -> af.Graph:
    return af.Graph({"y": af.input((1, weight.shape[1]), name="x", max_abs=max_abs).linear(weight)})


def only(graph: af.Graph, mode: str, target: Family | str, **options: float) -> WeightReport:
    (report,) = compressed(graph, mode, target=target, **options).weights  # pyright: ignore[reportArgumentType] - atol
    return report


@pytest.mark.parametrize("target", [Family.A13, Family.A14, Family.A15, Family.A16])
@pytest.mark.parametrize(
    ("weight", "wanted"), [(NORMAL, "int8"), (FEW, "int4"), (THIN, "sparse"), (HALF, "sparse")], ids=str
)
def test_auto_takes_the_first_that_streams_and_is_close_enough(weight: Array, wanted: str, target: Family) -> None:
    report = only(linear(weight, max_abs=4094.0), "auto", target)
    streams = STREAMING.get(target, STREAMING[Family.A15]).split()
    assert report.encoding == (wanted if wanted in streams else "fp16")
    assert report.fate is (Fate.STREAMS if wanted in streams else Fate.DENSE)


def test_auto_says_why_nothing_was_taken() -> None:
    report = only(linear(NORMAL), "auto", Family.A13)
    assert report.reason.startswith("sparse: 100.0% of the elements are not zero, over 50%; int4: relative error 0.1")
    assert report.reason.endswith("is over 0.05; int8: does not stream on this target")
    assert (report.bytes_before, report.bytes_after, report.error) == (3072, 3072, 0.0)


@pytest.mark.parametrize("target", [Family.A13, Family.A14, Family.A15, Family.A16])
@pytest.mark.parametrize("mode", [str(encoding) for encoding in Encoding])
def test_explicit_modes_are_not_filtered(mode: str, target: Family) -> None:
    weight = THIN if mode == "sparse" else FEW
    report = only(linear(weight), mode, target)
    assert report.encoding == mode
    assert report.fate is (Fate.STREAMS if mode in STREAMING.get(target, STREAMING[Family.A15]) else Fate.FOLDS)
    assert bool(report.why) is (report.fate is Fate.FOLDS)
    assert report.bytes_after < report.bytes_before


@pytest.mark.parametrize("target", [Family.A14, Family.A16])
def test_auto_takes_no_int8_where_activations_could_become_infinite(target: Family) -> None:
    """Magnitudes above 4,094 become infinite beside streamed int8 weights: ranges must exclude them."""
    assert "nothing bounds the activations" in only(linear(NORMAL), "auto", target).reason
    report = only(linear(NORMAL, max_abs=4096.0), "auto", target)
    assert report.encoding == "fp16"
    assert "activations may reach 4096, and with int8 weights, magnitudes above 4094 become infinite" in report.reason
    bounded = af.Graph({"y": (af.input((1, 64)).sigmoid() * 4000.0).linear(NORMAL)})
    assert only(bounded, "auto", target).encoding == "int8"


def test_the_bound_of_the_error_decides_for_auto_alone() -> None:
    """A mode that names an encoding is never filtered; its report says that the error is over the bound."""
    error = only(linear(NORMAL), "int4", Family.A13, atol=1.0).error
    assert 0.05 < error < 0.12
    assert only(linear(NORMAL), "auto", Family.A13, atol=error).encoding == "int4"
    assert only(linear(NORMAL), "auto", Family.A13, atol=np.nextafter(error, 0)).encoding == "fp16"
    report = only(linear(NORMAL), "int4", Family.A13)
    assert (report.encoding, report.error) == ("int4", error)
    assert report.reason == f"int4: relative error {error:.4g} is over 0.05"


@pytest.mark.parametrize("count", [1, 2, 15, 16])
def test_sixteen_distinct_values_are_lossless(count: int) -> None:
    """Whatever their shares and distances: a palette of sixteen holds them as they are."""
    values = (10.0 ** GENERATOR.uniform(-3, 3, count)).astype(np.float16)
    weight = values[np.minimum(GENERATOR.geometric(0.4, (16, 48)) - 1, count - 1)]
    assert only(linear(weight), "int4", Family.A16).error == 0.0


def test_just_over_half_is_not_sparse() -> None:
    more = HALF.copy()
    more[0, 1] = 1
    assert only(linear(HALF), "sparse", Family.A16).encoding == "sparse"
    report = only(linear(more), "sparse", Family.A16)
    assert (report.encoding, report.reason) == ("sparse", "sparse: 50.1% of the elements are not zero, over 50%")
    assert only(linear(more), "auto", Family.A16).encoding == "int4"


def test_block_size_reaches_the_encoding() -> None:
    made = compressed(linear(NORMAL), "blockwise", block_size=16, target=Family.A16)
    (constant,) = made.graph.constants.values()
    assert constant.parts["scale"].shape == (24, 4)


def products() -> dict[str, tuple[af.Tensor, tuple[int, int]]]:
    """Every operation that takes weights, with the channels of its weight: rows and columns."""
    x, image = af.input((2, 6), name="x"), af.input((1, 6, 5, 5), name="image")
    stack, weight = af.input((3, 2, 6), name="stack"), GENERATOR.standard_normal((8, 6))
    right = Dense(np.ascontiguousarray(weight.T).astype(np.float16))
    left = Dense(weight[:, :2].astype(np.float16))
    return {
        "linear": (x.linear(weight), (0, 1)),
        "matmul": (x @ weight.T, (0, 1)),
        "matmul, not transposed": (af.Tensor(build("matmul", {"x": x, "y": right})), (1, 0)),
        "matmul, weight on the left": (af.Tensor(build("matmul", {"x": left, "y": x})), (0, 1)),
        "bmm_w": (stack.bmm_weight(GENERATOR.standard_normal((3, 6, 4))), (2, 1)),
        "conv": (af.conv(image, GENERATOR.standard_normal((8, 6, 3, 3))), (0, 1)),
        "conv_transpose": (af.conv_transpose(image, GENERATOR.standard_normal((6, 8, 3, 3))), (1, 0)),
    }


@pytest.mark.parametrize("name", list(products()))
def test_channels_of_every_product(name: str) -> None:
    tensor, (rows, columns) = products()[name]
    graph = af.Graph({"y": tensor})
    (use,) = uses(graph)
    assert (use.axes.rows, use.axes.columns) == (rows, columns)
    made = compressed(graph, "int8", target=Family.A16)
    (constant,) = made.graph.constants.values()
    assert isinstance(constant, Int8Affine)
    assert constant.axis == rows
    assert constant.scale.size == use.weight.type.shape[rows]


@pytest.mark.parametrize("target", [Family.A13, Family.A14, Family.A15, Family.A16])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(products()))
def test_encoded_weights_run_as_their_decoded_values(name: str, mode: str, target: Family) -> None:
    """To the end: retargeted, compiled, scheduled, planned and run, encoded or decoded, gives the same numbers."""
    graph = af.Graph({"y": products()[name][0]})
    made = compressed(graph, mode, atol=1.0, target=target)
    feed = {port: GENERATOR.standard_normal(node.types[0].shape) for port, node in graph.inputs.items()}
    program = compile_graph(made.graph, target).program
    (report,) = made.weights
    words = {layer.choices["weights"] for layer in program.layers if "weights" in layer.choices}
    assert words == (set[str]() if report.fate is Fate.DENSE else {str(report.fate)})
    notes = [note.text for note in program.notes if note.stage == "choose-weight-stream"]
    assert bool(notes) is (report.fate is Fate.FOLDS)
    found = af.run(program, feed).outputs["y"]
    decoded = af.run(af.build_program(decoded_graph(made.graph), target), feed).outputs["y"]
    np.testing.assert_array_equal(found, decoded)


def decoded_graph(graph: af.Graph) -> af.Graph:
    constants = {symbol: Dense(constant.dense()) for symbol, constant in graph.constants.items()}
    text = "\n".join(line for line in str(graph).splitlines() if not line.startswith("  constant"))
    listed = "\n".join(
        f"  constant @{symbol} : {one.type} {one.encoding} sha256:{one.digest}" for symbol, one in constants.items()
    )
    return af.Graph.parse(text.rstrip("}\n") + "\n" + listed + "\n}\n", constants)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(products()))
def test_mil_keeps_the_encoding(name: str, mode: str) -> None:
    made = compressed(af.Graph({"y": products()[name][0]}), mode, atol=1.0, target=Family.A16)
    written = mil_text(made.graph)
    back = parse_mil(written.text, written.weights.tobytes()).graph()
    feed = {port: GENERATOR.standard_normal(node.types[0].shape) for port, node in made.graph.inputs.items()}
    expected, found = (af.reference(graph, feed) for graph in (made.graph, back))
    assert [array.tolist() for array in found.values()] == [array.tolist() for array in expected.values()]
    if made.weights[0].fate is not Fate.DENSE:
        assert "constexpr_" in written.text


def test_a_layer_that_cannot_stream_is_reported_as_folding() -> None:
    kernel = GENERATOR.choice([-0.5, 0.25, 1.0], (8, 4, 3, 3))
    image = af.input((1, 4, 9, 9))
    report = only(af.Graph({"y": af.conv(image, kernel, stride=2)}), "int4", Family.A16)
    assert report.fate is Fate.FOLDS
    assert report.why == "palette4 weights fold to dense fp16: streaming needs unit stride"


def test_a_weight_that_two_products_share_is_encoded_once_and_stays_shared() -> None:
    x = af.input((1, 64))
    graph = af.Graph({"y": x.linear(FEW) + (x * 2.0).linear(FEW)})
    made = compressed(graph, "int4", target=Family.A16)
    (report,) = made.weights
    assert report.used_by == ("t1.weight", "t3.weight")
    assert sum(constant.encoding == "palette4" for constant in made.graph.constants.values()) == 1


def test_a_weight_that_something_else_reads_too_says_so() -> None:
    weight = Dense(FEW[:, :1].astype(np.float16) @ np.ones((1, 24), np.float16))
    x = af.input((1, 24))
    product = af.Tensor(build("linear", {"x": x, "weight": weight}))
    total = product + af.Tensor(build("add", {"x": x, "y": weight}))
    (report,) = compressed(af.Graph({"y": total}), "int4", target=Family.A16).weights
    assert report.reason == "t2.y reads the same values, so the dense weight stays as well"


def test_what_is_no_weight_stays_as_it_is() -> None:
    x = af.input((4, 64))
    graph = af.Graph({"y": (x + FEW[:4]).rms_norm(np.ones(64)) * 3.0})
    made = compressed(graph, "auto", target=Family.A16)
    assert made.weights == ()
    assert made.graph == graph


def test_what_is_encoded_already_stays_so() -> None:
    graph = compressed(linear(FEW), "int4", target=Family.A16).graph
    report = only(graph, "int8", Family.A16)
    assert (report.encoding, report.reason) == ("int4", "it is encoded already")
    assert report.fate is Fate.STREAMS


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_weights_keep_their_element_type_in_the_graph(dtype: type[np.floating[Any]]) -> None:
    x = build("input", {}, {"shape": (1, 64), "dtype": {2: "fp16", 4: "fp32", 8: "fp64"}[dtype().itemsize]})
    y = build("linear", {"x": af.Tensor(x), "weight": Dense(FEW.astype(dtype))})
    made = compressed(af.Graph({"y": af.Tensor(y)}), "int4", target=Family.A16)
    (constant,) = made.graph.constants.values()
    assert constant.dense().dtype == dtype
    assert made.weights[0].bytes_before == FEW.size * dtype().itemsize


def test_other_element_types_and_empty_weights_stay() -> None:
    whole = build("input", {}, {"shape": (1, 4), "dtype": "int8"})
    y = build("linear", {"x": af.Tensor(whole), "weight": Dense(np.ones((2, 4), np.int8))})
    assert only(af.Graph({"y": af.Tensor(y)}), "int4", Family.A16).reason == "int8 weights are not encoded further"
    nothing = build("linear", {"x": af.input((1, 4)), "weight": Dense(np.ones((0, 4), np.float16))})
    assert only(af.Graph({"y": af.Tensor(nothing)}), "int4", Family.A16).reason == "it has no elements"


@pytest.mark.parametrize("mode", MODES)
def test_a_weight_that_is_not_finite_is_an_error_with_its_place(mode: str) -> None:
    weight = NORMAL.copy()
    weight[3, 5] = np.nan
    with pytest.raises(GraphError, match=r"linear \(t1.weight\) at .*test_compressed_graphs.py:\d+: .*nan at \[3, 5\]"):
        compressed(linear(weight), mode, target=Family.A16)


def test_wrong_options() -> None:
    graph = linear(FEW)
    with pytest.raises(UnknownNameError, match="unknown mode of compression 'int5'; nearest: int"):
        compressed(graph, "int5", target=Family.A16)
    for atol in (-0.1, float("nan"), "0.1", True):
        with pytest.raises(GraphError, match="the bound of a weight's relative error is not 0 or more"):
            find_mode("int8", frozenset(), atol=atol)  # pyright: ignore[reportArgumentType] - an untyped caller
    with pytest.raises(GraphError, match=r"the block size is not a positive integer \(got 0"):
        compressed(graph, "int8", block_size=0, target=Family.A16)


def test_auto_needs_to_know_what_streams() -> None:
    with pytest.raises(NoDataError, match="on h20: no published source says which weight encodings stream here"):
        compressed(linear(FEW), "auto", target="h20")
    assert only(linear(FEW), "int4", "h20").fate is Fate.UNKNOWN


def test_a_layer_that_does_not_compile_has_an_unknown_fate() -> None:
    high = af.Graph({"y": af.conv_transpose(af.input((1, 4, 8, 8)), np.ones((4, 4, 129, 1), np.float16))})
    report = only(high, "int4", Family.A13)
    assert report.fate is Fate.UNKNOWN
    assert report.why.startswith("the layer does not compile: ")
    with pytest.raises(NotSupportedError):
        af.build_program(compressed(high, "int4", target=Family.A13).graph, Family.A13)


def test_reports_read_well(golden: Golden) -> None:
    x, image = af.input((1, 64)), af.input((1, 4, 9, 9))
    kernel = np.tile([0.5, -0.25, 1.0], (8, 4, 3, 1))
    graph = af.Graph(
        {"a": x.linear(FEW), "b": x.linear(THIN), "c": x.linear(NORMAL), "d": af.conv(image, kernel, stride=2)}
    )
    lines: list[str] = []
    for target in (Family.A13, Family.A16):
        made = compressed(graph, "auto", target=target)
        lines += [str(target.name), *map(str, made.weights), f"{made.bytes_before} -> {made.bytes_after}"]
    golden("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("target", "fate"), [(Family.A13, Fate.FOLDS), (Family.A14, Fate.STREAMS), (Family.A16, Fate.STREAMS)]
)
def test_int8_weights_bring_their_side_effect_on_activations(target: Family, fate: Fate) -> None:
    """Activations of a streamed int8 product pass times 16: 4094 is the last that does (the sum itself is small)."""
    made = compressed(linear(np.array([[1.0, 0.004]] * 8)), "int8", atol=1.0, target=target)
    assert made.weights[0].fate is fate
    program = af.build_program(made.graph, target)
    found = [af.run(program, {"x": np.array([[0.0, value]])}).outputs["y"][0, 0] for value in (4094, 4096)]
    assert np.isfinite(found[0])
    assert np.isinf(found[1]) == (fate is Fate.STREAMS), "folded weights are dense fp16"


@pytest.mark.parametrize("mode", ["int4", "int8", "blockwise", "sparse"])
def test_network_descriptions_hold_the_decoded_weights(mode: str, tmp_path: Path) -> None:
    kernel = np.where(GENERATOR.random((8, 4, 1, 1)) < 0.4, 0.5, 0.0)
    graph = af.Graph({"y": af.conv(af.input((1, 4, 8, 8), name="x"), kernel)})
    made = compressed(graph, mode, atol=1.0, target=Family.A16)
    assert made.weights[0].fate is not Fate.DENSE
    back = af.load_netplist(af.save_netplist(made.graph, tmp_path))
    feed = GENERATOR.standard_normal((1, 4, 8, 8))
    expected = next(iter(af.reference(made.graph, [feed]).values()))
    found = next(iter(af.reference(back, [feed]).values()))
    np.testing.assert_array_equal(found, expected)


def test_graphs_that_read_the_same_weight_share_what_is_stored_and_decoded() -> None:
    weight = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float16)
    graphs = [
        compressed(af.input((rows, 32), name="x").linear(weight), "int8", target=Family.A14).graph for rows in (1, 8)
    ]
    stored = [
        one
        for graph in graphs
        for node in graph.nodes
        for one in node.operands.values()
        if isinstance(one, Constant) and one.is_encoded
    ]
    assert len(stored) == 2
    assert stored[0] is stored[1]
    held = [Constants() for _ in graphs]
    arrays = [one.array(constant, given=False) for one, constant in zip(held, stored, strict=True)]
    assert arrays[0] is arrays[1]


def test_decoding_makes_no_copy_in_float64() -> None:
    codes = np.random.default_rng(0).integers(-127, 128, (4096, 1024)).astype(np.int8)
    scale = np.linspace(0.001, 0.01, 1024).astype(np.float16)
    for axis, given in ((0, np.repeat(scale, 4)), (1, scale)):
        constant = Int8Affine(codes, given, axis=axis)
        tracemalloc.start()
        found = constant.dense()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < found.nbytes + 40_000_000
        wide = given.astype(np.float64).reshape((-1, 1) if axis == 0 else (1, -1))
        np.testing.assert_array_equal(found, (codes.astype(np.float64) * wide).astype(np.float16))


def test_a_weight_is_encoded_once_as_long_as_what_it_became_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Encoding] = []

    encode = choice.encode

    def counted(encoding: Encoding, weight: Array, axes: Axes, dtype: str, block_size: int) -> Constant:
        made.append(encoding)
        return encode(encoding, weight, axes, dtype, block_size)

    monkeypatch.setattr(choice, "encode", counted)
    weight = GENERATOR.standard_normal((24, 64))
    first = compressed(linear(weight), "int8", target=Family.A16)
    assert made == [Encoding.INT8]
    second = compressed(linear(weight.copy()), "int8", target=Family.A16)
    assert made == [Encoding.INT8]
    assert second.weights == first.weights
    compressed(linear(weight), "int4", target=Family.A16)
    assert made == [Encoding.INT8, Encoding.INT4]
    del first, second
    gc.collect()
    compressed(linear(weight), "int8", target=Family.A16)
    assert made == [Encoding.INT8, Encoding.INT4, Encoding.INT8]


def test_a_model_does_not_keep_the_weights_that_it_encoded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(tmp_path))
    weight = Dense.owning(GENERATOR.standard_normal((24, 64)).astype(np.float16))
    alive = weakref.ref(weight)
    model = af.compile(af.input((1, 64), name="x", max_abs=1.0).linear(weight), target=Family.A16, compress="int8")
    del weight
    gc.collect()
    assert alive() is None
    (node,) = (one for one in model.graph.nodes if one.op.name == "linear")
    assert isinstance(node.operands["weight"], Int8Affine)
