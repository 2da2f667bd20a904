"""What preflight says of graphs that validators refuse: each form, where it is refused, and what the compiler does.

A form that is refused is refused by retargeting too. What is rebuilt compiles and means the same, and no validator
objects to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.commands.checking import check
from aneforge.compiler.compile import build_program, compile_graph
from aneforge.compiler.ir.evaluate import evaluate_program
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.retarget import retarget
from aneforge.compiler.validators import validate_module, validate_program
from aneforge.errors import IllegalGraphError, NotSupportedError
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.reference import reference
from aneforge.ops.constant import Constant, Dense, Palette
from aneforge.rules.preflight import preflight
from aneforge.rules.rule import Severity
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.graph.node import Argument

ALL = ("m1", "m2", "m3", "m4", "m5", "h18", "m6", "m11")
"""A target of every tier that runs MIL programs."""
SINCE_M2 = ALL[1:]


def x(*shape: int) -> af.Tensor:
    return af.input(shape)


def zeros(*shape: int, dtype: type[np.generic] = np.float16) -> Constant:
    return Dense(np.zeros(shape, dtype))


def numbers(*shape: int) -> Constant:
    """Return small numbers that fp16 holds exactly."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    return Dense(((places * 5 % 17 - 8) / 8).astype(np.float16))


def graph(op: str, operands: Mapping[str, Argument], **attributes: object) -> Graph:
    node = build(op, operands, attributes)
    return Graph({f"y{place}": af.Tensor(node, place) for place in range(len(node.types))})


def attention(value: int, mask: Constant | None = None) -> Graph:
    given = {"query": x(1, 2, 8, 4), "key": x(1, 2, 8, 4), "value": x(1, 2, 8, value)}
    return graph("sdpa", given if mask is None else {**given, "attn_mask": mask}, native=True)


def coordinates(count: int) -> af.Tensor:
    """Return coordinates that are computed at run time."""
    return x(5, count).cast("int32")


REFUSED: dict[str, tuple[Callable[[], Graph], str, tuple[str, ...]]] = {
    "broadcast along the depth": (
        lambda: graph("broadcast", {"x": x(1, 4, 1, 4, 4)}, shape=(1, 4, 2, 4, 4)),
        "ANE-GATE-010",
        ("m1",),
    ),
    "three-dimensional convolution": (
        lambda: graph("conv", {"x": x(1, 4, 4, 4, 4), "weight": zeros(4, 4, 3, 1, 1)}),
        "ANE-CONV-006",
        ALL,
    ),
    "kernel of run time, two images": (
        lambda: graph("dynamic_conv", {"x": x(2, 4, 4, 4), "weight": x(4, 4, 3, 3)}),
        "ANE-CONV-007",
        ALL,
    ),
    "kernel of run time, stride 4": (
        lambda: graph("conv", {"x": x(1, 4, 9, 9), "weight": x(4, 4, 3, 3)}, strides=(4, 4)),
        "ANE-STRIDE-003",
        ALL,
    ),
    "stride 7 over too many channels": (
        lambda: graph("conv", {"x": x(1, 2048, 7, 7), "weight": zeros(1, 2048, 7, 7)}, strides=(7, 7)),
        "ANE-STRIDE-004",
        ALL,
    ),
    "product of unshared batch axes": (
        lambda: graph("matmul", {"x": x(2, 1, 3, 4, 5), "y": x(1, 2, 1, 5, 4)}),
        "ANE-MATRIXMULT-007",
        ALL,
    ),
    "attention, values wider than keys": (lambda: attention(5), "ANE-SDPA-002", ALL),
    "attention, mask of booleans": (lambda: attention(4, zeros(8, 8, dtype=np.bool_)), "ANE-SDPA-003", ALL),
    "three largest": (lambda: graph("topk", {"x": x(1, 64)}, k=3), "ANE-TOPK-003", ALL),
    "four largest": (lambda: graph("topk", {"x": x(1, 64)}, k=4), "ANE-TOPK-003", ALL),
    "largest of 2049": (lambda: graph("reduce_argmax", {"x": x(1, 2049)}, axis=1), "ANE-ARGMINMAX-002", ALL),
    "random numbers without a range": (
        lambda: graph("random_uniform", {}, shape=(2, 2), low=1.0, high=1.0, dtype="fp16"),
        "ANE-RANDOM-003",
        ALL,
    ),
    "ring buffer that is no state": (
        lambda: graph("tensor_to_circular_buffer", {"buffer": x(1, 8, 4), "x": x(1, 2, 4)}, axis=1),
        "ANE-RINGBUFFERWRITER-002",
        ALL,
    ),
    "ring buffer that is read": (
        lambda: graph("circular_buffer_to_tensor", {"buffer": x(1, 8, 4)}, axis=1),
        "ANE-RINGBUFFERREADER-001",
        ("m1",),
    ),
    "response norm of 16 channels": (lambda: graph("local_response_norm", {"x": x(1, 16, 4, 4)}), "ANE-LRN-002", ALL),
    "five gains of run time": (
        lambda: graph("dynamic_goc", {"x": x(1, 5, 4, 4), "gain": x(5), "offset": x(5)}),
        "ANE-DYNAMICGOC-002",
        ALL,
    ),
    "pixel shuffle by 6": (
        lambda: graph("pixel_shuffle", {"x": x(1, 36, 2, 2)}, upscale_factor=6),
        "ANE-PIXELSHUFFLE-002",
        ALL,
    ),
    "pixel unshuffle by 5": (
        lambda: graph("pixel_unshuffle", {"x": x(1, 2, 10, 10)}, downscale_factor=5),
        "ANE-PIXELUNSHUFFLE-002",
        ALL,
    ),
    "depth to space by 5": (
        lambda: graph("depth_to_space", {"x": x(1, 25, 2, 2)}, block_size=5),
        "ANE-CHANNELTOSPACE-002",
        ALL,
    ),
    "space to depth by 5": (
        lambda: graph("space_to_depth", {"x": x(1, 2, 10, 10)}, block_size=5),
        "ANE-SPACETOCHANNEL-002",
        ALL,
    ),
    "space to batch by 5": (
        lambda: graph("space_to_batch", {"x": x(1, 2, 10, 10)}, block_shape=(5, 1)),
        "ANE-SPACETOBATCH-002",
        ALL,
    ),
    "batch to space by 5": (
        lambda: graph("batch_to_space", {"x": x(5, 2, 2, 2)}, block_shape=(5, 1)),
        "ANE-BATCHTOSPACE-002",
        ALL,
    ),
    "coordinates of run time, too few": (
        lambda: graph("gather_nd", {"x": x(4, 4, 4), "indices": coordinates(2)}),
        "ANE-GATHER-003",
        ("m1",),
    ),
}
"""What makes each form, the rule that refuses it, and where."""


@pytest.mark.parametrize("form", REFUSED)
def test_what_no_layer_is_is_refused_before_anything_is_compiled(form: str) -> None:
    make, rule, targets = REFUSED[form]
    made = make()
    for target in ALL:
        verdict = preflight(made, target)
        found = {one.rule for one in verdict.findings if one.severity is Severity.REJECT}
        assert (rule in found) is (target in targets), target
        if rule in found:
            with pytest.raises(IllegalGraphError, match=rule):
                retarget(made, target)


REBUILT: dict[str, tuple[Callable[[], Graph], str | None]] = {
    "rows repeated five times": (lambda: graph("tile", {"x": x(1, 4, 4, 4)}, reps=(1, 1, 5, 1)), "ANE-TILE-002"),
    "two axes repeated": (lambda: graph("tile", {"x": x(3, 5)}, reps=(7, 2)), "ANE-TILE-002"),
    "a depth of 1 repeated, as HaloNet does": (
        lambda: graph("tile", {"x": x(4, 2, 1, 8, 14)}, reps=(1, 1, 14, 1, 1)),
        "ANE-TILE-002",
    ),
    "channels padded": (lambda: graph("pad", {"x": x(1, 3, 4, 5)}, pad=(1, 2, 0, 0, 0, 0)), "ANE-PAD-002"),
    "all axes padded": (
        lambda: graph("pad", {"x": x(2, 3, 4, 5)}, pad=(1, 0, 0, 2, 1, 1, 0, 3), constant_val=0.5),
        "ANE-PAD-002",
    ),
    "channels repeated at their ends": (
        lambda: graph("pad", {"x": x(1, 3, 4, 5)}, pad=(2, 1, 0, 0, 1, 0), mode="replicate"),
        "ANE-PAD-002",
    ),
    "planes padded": (lambda: graph("pad", {"x": x(2, 3, 2, 4, 5)}, pad=(1, 1, 0, 0, 0, 0)), "ANE-PAD-002"),
    "one axis padded": (lambda: graph("pad", {"x": x(7)}, pad=(1, 2)), None),
    "channels resized": (
        lambda: graph("resize", {"x": x(1, 4, 3, 5)}, shape=(8, 6, 5), resized_dims=3),
        "ANE-RESIZE-002",
    ),
    "channels resized by the nearest": (
        lambda: graph(
            "resize", {"x": x(2, 4, 3)}, shape=(3, 2, 6), resized_dims=3, interpolation_mode="NEAREST_NEIGHBOR"
        ),
        "ANE-RESIZE-002",
    ),
    "all axes resized with offset corners": (
        lambda: graph("resize", {"x": x(3, 4, 5)}, shape=(6, 4, 5), resized_dims=3, sampling_mode="OFFSET_CORNERS"),
        "ANE-RESIZE-002",
    ),
    "product of five axes": (
        lambda: graph("matmul", {"x": x(2, 2, 3, 4, 5), "y": x(2, 2, 3, 5, 4)}),
        "ANE-MATRIXMULT-002",
    ),
    "linear layer of five axes": (
        lambda: graph("linear", {"x": x(1, 2, 3, 4, 5), "weight": numbers(4, 5)}),
        "ANE-LINEAR-002",
    ),
    "batch transposed": (
        lambda: graph("transpose", {"x": x(2, 3, 4, 5, 6)}, perm=(1, 0, 2, 3, 4)),
        "ANE-TRANSPOSE-003",
    ),
    "one tensor joined": (lambda: graph("concat", {"values": (x(1, 4),)}, axis=1), None),
    "one tensor stacked": (lambda: graph("stack", {"values": (x(1, 4),)}, axis=1), None),
    "depth repeated": (lambda: graph("tile", {"x": x(1, 4, 1, 4, 4)}, reps=(1, 1, 2, 1, 1)), None),
    "stride 8": (lambda: graph("conv", {"x": x(1, 2, 16, 16), "weight": numbers(4, 2, 8, 8)}, strides=(8, 8)), None),
}
"""What makes each form, and the rule that says that it is rebuilt; none where it is made otherwise without a word."""


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("form", REBUILT)
def test_what_is_rebuilt_compiles_means_the_same_and_is_accepted(form: str, target: str) -> None:
    make, rule = REBUILT[form]
    made = make()
    verdict = preflight(made, target)
    assert verdict.ok, [str(finding) for finding in verdict.findings]
    if rule is not None:
        assert rule in {one.rule for one in verdict.findings if one.severity is Severity.DECOMPOSE}
    program = build_program(made, target)
    assert [str(one) for one in validate_program(program).findings if one.stops] == []
    generator = np.random.default_rng(len(form))
    given = {name: generator.integers(-8, 9, node.types[0].shape) / 4 for name, node in made.inputs.items()}
    found, _ = evaluate_program(program, given)
    for name, expected in reference(made, given).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-9)


def test_products_longer_than_kernel_memory_are_split() -> None:
    made = graph("matmul", {"x": x(2, 32_769), "y": x(32_769, 2)})
    (report,) = preflight(made, "m4").oversize
    assert [finding.rule for finding in report.findings] == ["ANE-MATRIXMULT-006"]
    program = build_program(made, "m4")
    assert sum(layer.kind.name == "matmul" for layer in program.layers) == 2
    assert validate_program(program).ok
    assert preflight(graph("matmul", {"x": x(2, 32_768), "y": x(32_768, 2)}), "m4").ok


# What a graph reads.


def alone() -> af.Tensor:
    return made("relu", {"x": numbers(1, 4)})


def named(*shape: int) -> af.Tensor:
    """Return a constant that is an operation, and has no numbers."""
    return made("const", {}, shape=shape)


@pytest.mark.parametrize(
    ("out", "rule"), [(alone, "ANE-PORT-001"), (lambda: x(1, 4) + named(1, 4), "ANE-PORT-002")], ids=["fed", "const"]
)
def test_every_door_refuses_what_reads_nothing_by_one_rule(out: Callable[[], af.Tensor], rule: str) -> None:
    for target in ("h13", "h17s"):
        found = preflight(out(), target)
        assert (found.ok, [one.rule for one in found.findings]) == (False, [rule])
        for door in (compile_graph, af.cost):
            with pytest.raises(IllegalGraphError, match=rule):
                door(out(), target)
        with pytest.raises(IllegalGraphError, match=rule):
            af.compile(out(), target=target)
        assert [one.rule for one in check(out(), target).targets[0].findings] == [rule]
        assert rule in {one.finding.rule for part in validate_module(out(), target) for one in part.findings}
        assert cross_compile_check(out(), target, host=target) is False


# Element types.


def test_a_constant_is_not_refused_for_the_type_in_which_it_is_stored() -> None:
    indices = Dense(np.zeros((4, 4), np.uint8)).dense()
    table: dict[str, Argument] = {
        "indices": four_bits(indices),
        "lut": Dense(np.zeros((1, 1, 16, 1), np.float16)),
    }
    palette = Graph({"y": x(4, 4) + made("constexpr_lut_to_dense", table)})
    boxes: dict[str, Argument] = {
        "x": x(1, 4, 8, 8),
        "boxes": zeros(2, 4, dtype=np.float32),
        "box_indices": zeros(2, dtype=np.int32),
    }
    for whole in (palette, graph("crop_resize", boxes, target_height=4, target_width=4)):
        for target in SINCE_M2:
            verdict = preflight(whole, target)
            assert verdict.ok, [str(finding) for finding in verdict.findings]
            assert validate_program(build_program(whole, target)).ok


def four_bits(values: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Constant:
    import ml_dtypes  # noqa: PLC0415 - the type of four bits, needed here alone

    return Dense(values.astype(ml_dtypes.uint4))


def test_a_weight_in_a_palette_is_what_it_stands_for() -> None:
    weight = Palette(np.zeros((4, 8), np.uint8), np.zeros(16, np.float16), 4)
    assert preflight(graph("linear", {"x": x(1, 8), "weight": weight}), "m1").ok


def test_a_tensor_of_a_type_that_the_engine_cannot_hold_is_refused_beside_any_constant() -> None:
    made = graph("add", {"x": x(4).cast("int32"), "y": zeros(4, dtype=np.int32)})
    assert {one.rule for one in preflight(made, "m1").findings} == {"ANE-DTYPE-002", "ANE-DTYPE-003"}


@pytest.mark.parametrize("target", SINCE_M2)
def test_what_retargeting_made_is_not_refused(target: str) -> None:
    values, places = af.topk(x(4, 8), 2)
    compared = values.greater(values)
    _, row = af.topk(x(8), 2)
    retargeted = retarget([values, places, compared, row], target)
    assert {change.op for change in retargeted.changes} == {"topk", "greater"}
    again = preflight(retargeted.graph, target)
    assert again.ok, [str(finding) for finding in again.findings]
    assert again.decompose == []


def test_an_index_that_is_cast_is_held_in_16_bits() -> None:
    place = af.Tensor(build("reduce_argmax", {"x": x(1, 8)}, {"axis": 1}))
    assert preflight(place.cast("fp16"), "m1").ok
    assert not preflight(place.cast("int32"), "m1").ok


# What is a constant when the program is compiled, though it is none in the graph.


def made(op: str, operands: Mapping[str, Argument], **attributes: object) -> af.Tensor:
    return af.Tensor(build(op, operands, attributes))


def stored(*shape: int) -> af.Tensor:
    """Return an int8 weight that is dequantised."""
    return made("dequantize", {"input": zeros(*shape, dtype=np.int8), "scale": numbers(4)}, axis=0)


def in_palette(*shape: int) -> af.Tensor:
    table = Dense(np.zeros((*(1,) * len(shape), 16, 1), np.float16))
    return made("constexpr_lut_to_dense", {"indices": four_bits(np.zeros(shape, np.uint8)), "lut": table})


KERNEL = (4, 4, 3, 3)
WEIGHTS: dict[str, tuple[Callable[[], af.Tensor], bool]] = {
    "palette": (lambda: in_palette(*KERNEL), True),
    "palette, reshaped": (lambda: made("reshape", {"x": in_palette(4, 36)}, shape=KERNEL), True),
    "constant, transposed": (lambda: made("transpose", {"x": numbers(*KERNEL)}, perm=(1, 0, 2, 3)), True),
    "int8, dequantised": (lambda: stored(*KERNEL), True),
    "int8, dequantised and reshaped": (lambda: made("reshape", {"x": stored(4, 36)}, shape=KERNEL), False),
    "product that rounds": (lambda: made("mul", {"x": tenths(*KERNEL), "y": tenths()}), False),
    "computed": (lambda: x(*KERNEL).relu(), False),
}
"""Kernels, and whether the compiled program has them as constants."""


def tenths(*shape: int) -> Constant:
    return Dense(np.full(shape, 0.1, np.float16))


@pytest.mark.parametrize("kernel", WEIGHTS)
def test_a_kernel_that_will_be_a_constant_is_none_of_run_time(kernel: str) -> None:
    make, constant = WEIGHTS[kernel]
    convolution = graph("conv", {"x": x(2, 4, 8, 8), "weight": make()})
    for target in ALL:
        found = {one.rule for one in preflight(convolution, target).findings}
        assert found == (set() if constant else {"ANE-CONV-007"}), target
    layer = next(one for one in lower(convolution, resolve("m1")).layers if one.kind.name == "convolution")
    folded_later = kernel == "int8, dequantised"
    assert isinstance(layer.operands["weights"], Constant) is (constant and not folded_later)
    if constant:
        program = build_program(convolution, "m1")
        assert [isinstance(one.operands["weights"], Constant) for one in program.layers] == [True]


def test_whole_numbers_that_are_known_beforehand_are_not_held_by_the_engine() -> None:
    places = made("concat", {"values": (zeros(1, dtype=np.int32), zeros(2, dtype=np.int32))}, axis=0)
    rows = made("reshape", {"x": places}, shape=(3, 1))
    gathered = graph("gather_nd", {"x": x(4, 8), "indices": rows})
    for target in ALL:
        assert preflight(gathered, target).findings == []
        assert validate_program(build_program(gathered, target)).ok
    computed = graph("gather_nd", {"x": x(4, 8), "indices": made("reshape", {"x": x(3).cast("int32")}, shape=(3, 1))})
    assert {one.rule for one in preflight(computed, "m2").findings} == {"ANE-DTYPE-003"}


# Layers that are made otherwise.


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("random_normal", {"shape": (2, 2), "dtype": "fp16"}),
        ("random_bernoulli", {"shape": (2, 2), "dtype": "fp16"}),
        ("random_categorical", {}),
    ],
)
def test_what_is_drawn_anew_at_every_run_is_never_a_constant(op: str, attributes: dict[str, object]) -> None:
    operands: dict[str, Argument] = {"x": zeros(1, 4)} if op == "random_categorical" else {}
    with pytest.raises(NotSupportedError, match="no layers of the engine make this operation"):
        lower(graph(op, operands, **attributes), resolve("m3"))


def test_a_join_of_one_tensor_is_a_copy() -> None:
    joined = graph("concat", {"values": (x(1, 4).relu(),)}, axis=1)
    assert [layer.kind.name for layer in lower(joined, resolve("m1")).layers] == ["relu", "identity"]
    assert [layer.kind.name for layer in build_program(joined, "m1").layers] == ["relu"]


def test_axes_beside_height_and_width_go_to_their_place_and_back() -> None:
    padded = lower(REBUILT["all axes padded"][0](), resolve("m1"))
    assert [layer.kind.name for layer in padded.layers] == ["padding", *["transpose", "padding", "transpose"] * 2]
    assert [layer.name for layer in padded.layers][-1] == "t1"
    resized = lower(REBUILT["channels resized"][0](), resolve("m4"))
    assert [layer.kind.name for layer in resized.layers] == ["transpose", "resize", "transpose", "resize"]
    assert [note.text for note in (*padded.notes, *resized.notes)] == [
        "axes other than height and width are padded in the height's place, transposed before and after",
        "axes other than height and width are resized in the width's place, transposed before and after",
    ]


@pytest.mark.parametrize(
    ("indices", "warned"),
    [
        (lambda: af.input((1, 6)).cast("int32"), True),
        (lambda: made("reshape", {"x": af.input((1, 6)).cast("int32")}, shape=(3, 2)), True),
        (lambda: made("reduce_argmax", {"x": x(6, 4096)}, axis=-1), False),
        (lambda: Dense(np.arange(6, dtype=np.int32)), False),
    ],
    ids=["fed", "fed and reshaped", "computed", "constant"],
)
def test_indices_that_were_fp16_are_warned_of_on_a_long_axis(
    indices: Callable[[], af.Tensor | Constant], *, warned: bool
) -> None:
    """Word 2049 of a vocabulary is word 2048 in fp16."""
    for rows in (2049, 2050):
        found = preflight(graph("gather", {"x": numbers(rows, 2), "indices": indices()}, axis=0), "m4").findings
        assert [one.rule for one in found if one.rule == "ANE-GATHER-004"] == ["ANE-GATHER-004"] * (
            warned and rows > 2049
        )


def test_coordinates_are_judged_by_the_longest_axis_that_they_name() -> None:
    places = made("reshape", {"x": af.input((1, 3)).cast("int32")}, shape=(3, 1))
    for shape, found in (((4096, 2), ["ANE-GATHER-004"]), ((2, 4096), [])):
        gathered = graph("gather_nd", {"x": x(*shape), "indices": places})
        warned = [one.rule for one in preflight(gathered, "m4").findings if one.severity is Severity.WARN]
        assert warned == found


@pytest.mark.parametrize("reader", ["transpose", "input"])
def test_what_a_transpose_reads_or_gives_has_the_cap_of_what_else_computes_with_it(reader: str) -> None:
    wide = x(1, 1, 16, 65_537)
    turned = wide.transpose((1, 0, 2, 3))
    largest = made("topk", {"x": turned if reader == "transpose" else wide}, k=5)
    both = Graph({"y": largest} if reader == "transpose" else {"y": largest, "z": turned})
    assert [report.op for report in preflight(both, "h17c").oversize] == [reader]
    with pytest.raises(NotSupportedError, match="ANE-EXTENT-001"):
        compile_graph(both, "h17c")
    assert preflight(turned, "h17c").ok  # alone it is a matter of strides
