"""Every rule of the validators: at its limit and one past it, on every tier, or a right and a wrong operation.

`PROBES` shows a rule a given value; `PAIRS` has the rules whose bound is the operation itself. A rule in neither fails
the first test, so that a new one comes with its probe. The rules about the number of tensors are gone over as a whole.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aneforge.compiler.axes import Axis, axis_of
from aneforge.compiler.validators import Verdict, semantic_rules, validate, validators
from aneforge.compiler.validators.catalogue import count_rule_id
from aneforge.compiler.validators.containers import (
    CONTAINER,
    CONTAINER_PORT,
    subject_of_container,
    subject_of_port,
)
from aneforge.compiler.validators.edits import WEIGHT_EDIT
from aneforge.compiler.validators.load import CompiledMatrix, Plane, subject_of_matrix
from aneforge.compiler.validators.network import NETWORK
from aneforge.errors import NoDataError
from aneforge.ops.constant import Sparse
from aneforge.ops.signature import AttributeValue
from aneforge.ops.types import TensorType, numpy_dtype
from aneforge.rules import Operation, Relation, Rule, Severity
from aneforge.rules.looking import depth_axis
from aneforge.targets import Target, Value, database
from hwx_tools import hand_made
from unit.compiler.validators.layers_by_hand import fp16, zeros

Seen = float | str
Probe = Callable[[Seen], Operation]
TARGETS = [
    next(target for target in database().targets.values() if target.tier == tier) for tier in database().tiers.values()
]
COUNT_RULES = {count_rule_id(one) for one in validators().values() if one.bottoms}


def call(op: str, results: tuple[TensorType, ...] = (), /, **parts: TensorType | AttributeValue) -> Operation:
    """Return an operation: types among the parts are operands, the rest are attributes."""
    arguments = {name: (part,) for name, part in parts.items() if isinstance(part, TensorType)}
    attributes = {name: part for name, part in parts.items() if not isinstance(part, TensorType)}
    operands = tuple(one for types in arguments.values() for one in types)
    return Operation(op, operands, results or operands[:1], attributes, arguments=arguments)


def volume(depth: int) -> TensorType:
    return fp16(1, 4, depth, 4, 4)


def convolution(x: TensorType, kernel: TensorType, **attributes: AttributeValue) -> Operation:
    given_ = {"pad_type": "valid", "groups": 1, "kernel_sizes": kernel.shape[2:], **attributes}
    result = fp16(x.shape[0], kernel.shape[0], *x.shape[2:])
    return call("conv", (result,), x=x, weight=kernel, **given_)


def sparse_weight(bits: Seen) -> Operation:
    dtype = {8: "int8", 4: "int4"}[int(bits)]
    weight = Sparse(np.ones((4, 4), np.bool_), np.ones(16, numpy_dtype(dtype)))
    x = fp16(1, 4)
    return Operation(
        "linear", (x,), (x,), arguments={"x": (x,), "weight": (weight.type,)}, constants={"weight": (weight,)}
    )


def edit(encoding: Seen) -> Operation:
    attributes = {"symbol": "w", "type": "fp16[4]", "new_type": "fp16[4]"}
    return Operation(WEIGHT_EDIT, attributes={**attributes, "old_encoding": "dense", "new_encoding": str(encoding)})


def network(**attributes: AttributeValue) -> Operation:
    plain: dict[str, AttributeValue] = {"schema": "1.0.10", "engines": 1, "units": ("a", "b"), "unconverted": ()}
    return Operation(NETWORK, attributes={**plain, **attributes})


def matrix(*planes: Plane, compressed: bool = False) -> Operation:
    return subject_of_matrix(CompiledMatrix("m", planes, compressed))


def container(**attributes: AttributeValue) -> Operation:
    return Operation(CONTAINER, attributes={**subject_of_container(hand_made()).attributes, **attributes})


def container_port(**attributes: AttributeValue) -> Operation:
    made = hand_made()
    return Operation(CONTAINER_PORT, attributes={**subject_of_port(made, made.ports[0]).attributes, **attributes})


IMAGE = fp16(1, 8, 16, 16)
PROBES: dict[str, Probe] = {
    "ANE-AFFINETRANSFORM-002": lambda dtype: call("affine", x=IMAGE, transform_matrix=TensorType((1, 6), str(dtype))),
    "ANE-ARGMINMAX-005": lambda stride: call("argmax", x=IMAGE, axis=1, strides=(int(stride),)),
    "ANE-BATCHTOSPACE-003": lambda batch: call("batch_to_space", x=fp16(int(batch), 1, 1, 1), block_shape=(1, 1)),
    "ANE-CHANNELTOSPACE-003": lambda factor: call("channel_to_space", x=IMAGE, block_size=2, factor_z=int(factor)),
    "ANE-COMPRESSION-001": sparse_weight,
    "ANE-CROPRESIZE-002": lambda dtype: call("crop_resize", x=IMAGE, boxes=TensorType((2, 4), str(dtype))),
    "ANE-CROSSPRODUCT-002": lambda length: call("cross_product", a=fp16(int(length), 2), b=fp16(3, 2)),
    "ANE-CROSSPRODUCT-003": lambda dtype: call("cross_product", a=fp16(3), b=TensorType((3,), str(dtype))),
    "ANE-DROPOUT-002": lambda rate: call("dropout", x=IMAGE, rate=float(rate)),
    "ANE-GATHER-002": lambda _: call("gather_nd", x=fp16(4, 4), indices=TensorType((5, 2), "int32"), batch_dims=0),
    "ANE-LAYERNORM-002": lambda dtype: call("layer_norm", (TensorType((1, 8), str(dtype)),), x=fp16(1, 8)),
    "ANE-LAYERNORM-004": lambda depth: call("group_norm", x=volume(int(depth)), num_groups=2),
    "ANE-LOAD-003": lambda side: matrix(Plane(32, 32, 64, tile=int(side)), compressed=True),
    "ANE-MINMAXNORM-002": lambda _: call("minmax_norm", x=fp16(3, 4, 5), dimension="Channel"),
    "ANE-MUTABLE-003": edit,
    "ANE-NETWORK-002": lambda engines: network(engines=int(engines)),
    "ANE-NEURON-002": lambda mode: call("relu", x=IMAGE, mode=int(mode)),
    "ANE-NMS-002": lambda four: call("non_maximum_suppression", boxes=fp16(1, int(four), 9), scores=fp16(1, 2, 9)),
    "ANE-NMS-003": lambda _: call("non_maximum_suppression", boxes=fp16(1, 4, 9), scores=fp16(1, 2, 9)),
    "ANE-POOL-004": lambda mode: call("pe_pool", x=IMAGE, mode=str(mode)),
    "ANE-RANDOM-002": lambda dtype: call("random_uniform", (TensorType((4,), str(dtype)),)),
    "ANE-REDUCTION-002": lambda axis: call("reduce_sum", x=volume(2), axes=(int(axis),)),
    "ANE-REDUCTION-003": lambda _: call("sq_after_reduce", x=IMAGE, axes=(1,)),
    "ANE-RESAMPLE-002": lambda count: call("resample", x=IMAGE, coordinates=fp16(1, 4, 4, int(count))),
    "ANE-RESAMPLE-003": lambda depth: call("resample", x=IMAGE, coordinates=fp16(1, 4, int(depth), 4, 2)),
    "ANE-RESIZE-003": lambda _: call("resize", (fp16(1, 16, 8, 8),), x=fp16(1, 8, 8, 8)),
    "ANE-RESIZE-004": lambda _: call("upsample_bilinear", x=IMAGE, align_corners=True, half_pixel_centers=True),
    "ANE-SOFTMAX-002": lambda dtype: call("softmax", (TensorType((1, 8), str(dtype)),), x=fp16(1, 8)),
    "ANE-SPACETOBATCH-003": lambda batch: call("space_to_batch", (fp16(int(batch), 1, 1, 1),), x=fp16(1, 1, 1, 1)),
    "ANE-UNFLATTEN-002": lambda _: call("unflatten", x=fp16(1, 64)),
}
OUTSIDE: dict[str, Seen] = {
    "ANE-AFFINETRANSFORM-002": "fp32",
    "ANE-ARGMINMAX-005": 3,
    "ANE-CROPRESIZE-002": "fp32",
    "ANE-CROSSPRODUCT-002": 4,
    "ANE-CROSSPRODUCT-003": "fp32",
    "ANE-LAYERNORM-002": "int8",
    "ANE-LOAD-003": 8,
    "ANE-MUTABLE-003": "palette4",
    "ANE-NMS-002": 5,
    "ANE-POOL-004": "Median",
    "ANE-RANDOM-002": "fp32",
    "ANE-RESAMPLE-002": 3,
    "ANE-SOFTMAX-002": "int8",
}
"""A value outside of the list that bounds a rule."""
STEPS = {"ANE-COMPRESSION-001": 4}
"""How far one past the limit is, where the unit is not 1."""


PAIRS: dict[str, tuple[Operation, Operation]] = {
    "ANE-ARGMINMAX-003": (
        call("argmax", x=IMAGE, kernel_sizes=(2, 2), pad=(0, 0, 1, 1)),
        call("argmax", x=IMAGE, kernel_sizes=(2, 2), pad=(0, 0, 2, 2)),
    ),
    "ANE-ARGMINMAX-004": (
        call("argmax", x=IMAGE, kernel_sizes=(4, 4), pad=(0, 0, 1, 1)),
        call("argmax", x=IMAGE, kernel_sizes=(4, 4), pad=(0, 0, 1, 2)),
    ),
    "ANE-BATCHTOSPACE-004": (
        call("batch_to_space", x=fp16(6, 1, 2, 2), block_shape=(2, 3)),
        call("batch_to_space", x=fp16(7, 1, 2, 2), block_shape=(2, 3)),
    ),
    "ANE-BROADCAST-002": (
        call("broadcast", (fp16(4, 8),), x=fp16(1, 8)),
        call("broadcast", (fp16(4, 8),), x=fp16(2, 8)),
    ),
    "ANE-CONCAT-002": (
        Operation("concat", attributes={"axis": -4}, arguments={"values": (IMAGE, IMAGE)}),
        Operation("concat", attributes={"axis": -5}, arguments={"values": (IMAGE, IMAGE)}),
    ),
    "ANE-CONCAT-003": (
        Operation("concat", attributes={"axis": 1, "layouts": ("a", "a")}, arguments={"values": (IMAGE, IMAGE)}),
        Operation("concat", attributes={"axis": 1, "layouts": ("a", "b")}, arguments={"values": (IMAGE, IMAGE)}),
    ),
    "ANE-CONCAT-004": (
        Operation("concat", attributes={"axis": 1}, arguments={"values": (IMAGE, fp16(1, 3, 16, 16))}),
        Operation("concat", attributes={"axis": 1}, arguments={"values": (IMAGE, fp16(1, 3, 16, 15))}),
    ),
    "ANE-CONV-002": (
        convolution(fp16(1, 8, 4, 4), fp16(6, 4, 1, 1), groups=2),
        convolution(fp16(1, 8, 4, 4), fp16(6, 2, 1, 1), groups=4),
    ),
    "ANE-CONV-003": (
        call("conv_transpose", x=fp16(1, 8, 4, 4), weight=fp16(8, 3, 1, 1), groups=2),
        call("conv_transpose", x=fp16(1, 8, 4, 4), weight=fp16(4, 3, 1, 1), groups=2),
    ),
    "ANE-CONV-004": (
        convolution(fp16(1, 8, 4, 4), fp16(8, 8, 3, 3), pad_type="custom", pad=(0, 1, 0, 0), dilations=(2, 1)),
        convolution(fp16(1, 8, 4, 4), fp16(8, 8, 3, 3), pad_type="custom", pad=(0, 0, 0, 0), dilations=(2, 1)),
    ),
    "ANE-CROSSCORRELATION-002": (
        call("cross_correlation", x=IMAGE, template=fp16(3, 3)),
        call("cross_correlation", x=volume(4), template=volume(2)),
    ),
    "ANE-DROPOUT-003": (call("dropout", x=IMAGE, rate=0.0), call("dropout", x=IMAGE, rate=-0.1)),
    "ANE-INPUTVIEW-002": (call("input_view", x=fp16(1, 8), axis=-2), call("input_view", x=fp16(1, 8), axis=2)),
    "ANE-INPUTVIEW-003": (
        call("input_view", x=fp16(1, 8), axis=1, offset=7, size=1),
        call("input_view", x=fp16(1, 8), axis=1, offset=8, size=1),
    ),
    "ANE-INPUTVIEW-004": (
        call("input_view", x=fp16(1, 8), axis=1, offset=1, size=3, step=3),
        call("input_view", x=fp16(1, 8), axis=1, offset=2, size=3, step=3),
    ),
    "ANE-INPUTVIEW-005": (
        call("input_view", x=fp16(1, 8), axis=1, offset=0, size=1, step=1),
        call("input_view", x=fp16(1, 8), axis=1, offset=0, size=1, step=0),
    ),
    "ANE-LAYERNORM-003": (
        call("group_norm", x=fp16(1, 8, 4, 4), num_groups=4),
        call("group_norm", x=fp16(1, 8, 4, 4), num_groups=3),
    ),
    "ANE-LOAD-001": (matrix(Plane(1, 1, 2)), matrix()),
    "ANE-LOAD-002": (matrix(Plane(8, 4, 16)), matrix(Plane(8, 4, 64), Plane(8, 4, 15))),
    "ANE-LOAD-004": (matrix(Plane(8, 4, 16)), matrix(Plane(8, 4, 16, tile=16))),
    "ANE-LOAD-005": (container(), container(strays=(0x3000,))),
    "ANE-LOAD-006": (container(), container(unnamed=("command 0x77",))),
    "ANE-LOAD-007": (container(), container(program_address=0)),
    "ANE-LOAD-008": (container(), container(base_indices=(4,), base_addresses=(0x2000_0000,))),
    "ANE-LOAD-009": (container(), container(segment_offsets=(0, 0x4100))),
    "ANE-LOAD-010": (
        container(),
        container(relocation_places=(0x74,), relocation_values=(0x80,), relocation_sizes=(0x80,)),
    ),
    "ANE-LOAD-011": (container(), container(task_error="the list is cyclic")),
    "ANE-LOAD-012": (container(), container(**{"stated log events": 99})),
    "ANE-LOAD-013": (container_port(), container_port(base=None)),
    "ANE-LOAD-014": (container_port(), container_port(strides=(768, 256, 80, 2))),
    "ANE-LOAD-015": (container_port(), container_port(room=64)),
    "ANE-MATRIXMULT-004": (
        call("matmul", x=fp16(8, 16), y=fp16(4, 16), transpose_y=True),
        call("matmul", x=fp16(8, 16), y=fp16(4, 16), transpose_y=False),
    ),
    "ANE-MATRIXMULT-005": (
        call("matmul", (fp16(16, 4),), x=fp16(8, 16), y=fp16(8, 4), transpose_x=True),
        call("matmul", (fp16(8, 4),), x=fp16(8, 16), y=fp16(8, 4), transpose_x=True),
    ),
    "ANE-MUTABLE-001": (
        edit("dense"),
        Operation(
            WEIGHT_EDIT,
            attributes={
                "symbol": "w",
                "type": None,
                "new_type": "fp16[4]",
                "old_encoding": None,
                "new_encoding": "dense",
            },
        ),
    ),
    "ANE-MUTABLE-002": (
        edit("dense"),
        Operation(WEIGHT_EDIT, attributes={**edit("dense").attributes, "new_type": "fp16[5]"}),
    ),
    "ANE-NETWORK-001": (network(schema="1.0.10"), network(schema="1.0.11")),
    "ANE-NETWORK-003": (network(units=("a", "A")), network(units=("a", "a"))),
    "ANE-NETWORK-004": (network(), network(unconverted=("b",))),
    "ANE-NEURON-003": (call("relu", x=IMAGE, mode=1), call("relu", x=IMAGE, mode=0)),
    "ANE-PIXELSHUFFLE-003": (
        call("pixel_shuffle", x=fp16(1, 12, 4, 4), upscale_factor=2),
        call("pixel_shuffle", x=fp16(1, 10, 4, 4), upscale_factor=2),
    ),
    "ANE-PIXELUNSHUFFLE-003": (
        call("pixel_unshuffle", x=fp16(1, 1, 6, 4), downscale_factor=2),
        call("pixel_unshuffle", x=fp16(1, 1, 5, 4), downscale_factor=2),
    ),
    "ANE-POOL-002": (
        call("max_pool", x=fp16(1, 1, 4, 4), kernel_sizes=(5, 4), pad_type="custom", pad=(1, 0, 0, 0)),
        call("max_pool", x=fp16(1, 1, 4, 4), kernel_sizes=(5, 4), pad_type="valid"),
    ),
    "ANE-POOL-003": (
        call("max_pool", x=IMAGE, kernel_sizes=(3, 2), pad_type="custom", pad=(2, 2, 1, 1)),
        call("max_pool", x=IMAGE, kernel_sizes=(3, 2), pad_type="custom", pad=(2, 2, 1, 2)),
    ),
    "ANE-QUANT-001": (
        call("quantize", (TensorType((4,), "int8"),), input=fp16(4), zero_point=TensorType((), "int8")),
        call("quantize", (TensorType((4,), "fp8e4m3fn"),), input=fp16(4), zero_point=TensorType((), "fp8e4m3fn")),
    ),
    "ANE-RESHAPE-002": (
        call("reshape", (fp16(4, 2),), x=fp16(8)),
        call("reshape", (fp16(4, 3),), x=fp16(8)),
    ),
    "ANE-SDPA-004": (
        call("sdpa", query=fp16(8, 4), key=fp16(6, 4), value=fp16(6, 4)),
        call("sdpa", query=fp16(8, 5), key=fp16(6, 4), value=fp16(6, 4)),
    ),
    "ANE-SDPA-005": (
        call("sdpa", query=fp16(8, 4), key=fp16(6, 4), value=fp16(6, 4), attn_mask=fp16(1, 6)),
        call("sdpa", query=fp16(8, 4), key=fp16(6, 4), value=fp16(6, 4), attn_mask=fp16(7, 6)),
    ),
    "ANE-TOPK-002": (
        call("topk", x=fp16(1, 64), k=64, axis=-1),
        call("topk", x=fp16(1, 64), k=65, axis=-1),
    ),
    "ANE-TRANSPOSE-004": (
        call("transpose", x=IMAGE, perm=(-4, 2, 1, 3)),
        call("transpose", x=IMAGE, perm=(0, 2, 2, 3)),
    ),
}


def test_every_rule_has_a_probe_or_a_pair() -> None:
    assert set(PROBES) | set(PAIRS) | COUNT_RULES == set(semantic_rules())
    assert not set(PROBES) & set(PAIRS)
    never = {known.id for known in semantic_rules().values() if known.relation is Relation.NEVER}
    assert set(PAIRS) == never


def values_around(known: Rule, bound: Value) -> tuple[list[Seen], list[Seen]]:
    """Return values within a bound and values past it."""
    step = STEPS.get(known.id, 1)
    match known.relation, bound:
        case Relation.AT_MOST | Relation.AT_LEAST, int():
            return [bound], [bound + step if known.relation is Relation.AT_MOST else bound - step]
        case Relation.BELOW, float():
            return [0.0, bound - 1e-3], [bound, bound + 1]
        case Relation.ONE_OF, tuple():
            return list(bound), [OUTSIDE[known.id]]
        case Relation.NONE_OF, tuple():
            return [max(int(one) for one in bound) + 1], list(bound)
        case _:
            return ([1], []) if bound else ([], [1])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("rule_id", PROBES)
def test_at_the_limit_and_one_past_it(rule_id: str, target: Target) -> None:
    known, probe = semantic_rules()[rule_id], PROBES[rule_id]
    bound = known.bound_on(target)
    if isinstance(bound, NoDataError):
        finding = known.check(probe(OUTSIDE.get(rule_id, 5)), target)
        assert finding is not None
        assert (finding.severity, finding.evidence) == (Severity.INFO, None)
        assert finding.message.startswith("cannot be decided: ")
        return
    within, past = values_around(known, bound.value)
    for value in within:
        assert known.check(probe(value), target) is None, value
    for value in past:
        finding = known.check(probe(value), target)
        assert finding is not None, value
        assert finding.severity is known.severity
        assert finding.evidence == bound.evidence
        assert finding.remedy
        assert "{" not in finding.message + finding.remedy


@pytest.mark.parametrize("rule_id", PAIRS)
def test_right_and_wrong(rule_id: str) -> None:
    known, (right, wrong) = semantic_rules()[rule_id], PAIRS[rule_id]
    for target in TARGETS:
        assert known.check(right, target) is None
        finding = known.check(wrong, target)
        assert finding is not None
        assert finding.severity is known.severity
        assert finding.evidence is not None
        assert "{" not in finding.message + finding.remedy


@pytest.mark.parametrize("name", [one.name for one in validators().values() if one.bottoms])
def test_the_number_of_tensors(name: str) -> None:
    validator = validators()[name]
    known = semantic_rules()[count_rule_id(validator)]
    least, most = min(validator.bottoms), max(validator.bottoms)
    for count in range(7):
        right = count >= least if validator.more_bottoms else least <= count <= most
        given_ = {f"operand{place}": (IMAGE,) for place in range(count - validator.implied)}
        folded = dict.fromkeys(validator.folded, (IMAGE,))
        subject = Operation(validator.ops[0], arguments={**given_, **folded})
        if count < validator.implied:
            continue
        finding = known.check(subject, TARGETS[1])
        assert (finding is None) is right, count
        if finding is not None:
            assert finding.seen == count


def test_lists_count_one_by_one() -> None:
    joined = Operation("concat", arguments={"values": (IMAGE, IMAGE, IMAGE)})
    assert validators()["Concat"].bottoms_of(joined) == 3


NUMBERS = st.integers(-3, 70_000)
ATTRIBUTES = st.one_of(
    NUMBERS,
    st.floats(allow_nan=True),
    st.booleans(),
    st.none(),
    st.sampled_from(["custom", "valid", "same", "channel", ""]),
    st.lists(NUMBERS, max_size=10).map(tuple),
)
TYPES = st.builds(
    TensorType, st.lists(st.integers(0, 9), max_size=7).map(tuple), st.sampled_from(["fp16", "int32", "bool", "bf16"])
)
NAMES = [
    "x",
    "y",
    "weight",
    "a",
    "b",
    "query",
    "key",
    "value",
    "attn_mask",
    "indices",
    "boxes",
    "coordinates",
    "values",
]
ATTRIBUTE_NAMES = [
    "axis",
    "axes",
    "perm",
    "pad",
    "pad_type",
    "kernel_sizes",
    "strides",
    "dilations",
    "groups",
    "num_groups",
    "block_shape",
    "block_size",
    "upscale_factor",
    "k",
    "mode",
    "reps",
    "offset",
    "size",
    "step",
    "batch_dims",
    "rate",
    "low",
    "high",
    "dimension",
    "sampling_mode",
    "transpose_x",
    "factor_z",
    "layouts",
]


@given(
    op=st.sampled_from(sorted({op for one in validators().values() for op in one.ops})),
    arguments=st.dictionaries(st.sampled_from(NAMES), st.lists(TYPES, min_size=1, max_size=3).map(tuple), max_size=4),
    results=st.lists(TYPES, max_size=2).map(tuple),
    attributes=st.dictionaries(st.sampled_from(ATTRIBUTE_NAMES), ATTRIBUTES, max_size=6),
    target=st.sampled_from([one.name for one in TARGETS]),
)
@example(op="ne_conv", arguments={"x": (TensorType((), "fp16"),)}, results=(), attributes={}, target="h11")
def test_no_authored_form_breaks_a_rule(
    op: str,
    arguments: dict[str, tuple[TensorType, ...]],
    results: tuple[TensorType, ...],
    attributes: dict[str, AttributeValue],
    target: str,
) -> None:
    operands = tuple(one for types in arguments.values() for one in types)
    subject = Operation(op, operands, results, attributes, arguments=arguments)
    found = validate(subject, target)
    assert found.verdict in Verdict
    for one in found.findings:
        assert "{" not in str(one.finding.message)
        assert "%" not in "".join(one.texts)


def test_a_constant_is_written_in_a_type_that_its_layer_reads() -> None:
    boxes = zeros(2, 4, dtype="fp32")
    held = Operation(
        "crop_resize", (IMAGE,), (IMAGE,), arguments={"boxes": (boxes.type,)}, constants={"boxes": (boxes,)}
    )
    live = Operation("crop_resize", (IMAGE,), (IMAGE,), arguments={"boxes": (boxes.type,)})
    known = semantic_rules()["ANE-CROPRESIZE-002"]
    assert known.check(held, TARGETS[1]) is None
    assert known.check(live, TARGETS[1]) is not None
    matrix_of = {"transform_matrix": (boxes.type,)}
    turned = Operation("affine", arguments=matrix_of, constants={"transform_matrix": (boxes,)})
    assert semantic_rules()["ANE-AFFINETRANSFORM-002"].check(turned, TARGETS[1]) is None


def test_the_depth_is_the_same_axis_for_rules_and_for_the_compiler() -> None:
    for rank in range(1, 6):
        assert depth_axis(fp16(*[2] * rank)) == axis_of(Axis.DEPTH, rank)
