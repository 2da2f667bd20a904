"""Every rule, at its limit and one past it, on every tier; or a right and a wrong operation.

`PROBES` has one entry per rule: how to build an operation that shows the rule a given value. `PAIRS` has the rules
whose bound is a sentence. A rule in neither fails the first test, so that a new rule comes with its probe.
"""

from collections.abc import Callable

import numpy as np
import pytest

from aneforge.errors import NoDataError
from aneforge.ops.constant import Blockwise, Constant, Dense
from aneforge.ops.signature import AttributeValue
from aneforge.rules import Finding, Operation, Relation, Rule, Severity, TensorType, check, rules
from aneforge.targets import Target, Value, database, resolve
from unit.rules.operations_by_hand import IMAGE, call, convolution, fp16, ids, volume

Probe = Callable[[int | str], Operation]


def tensor(*shape: int) -> tuple[TensorType, ...]:
    return (TensorType(shape),)


def needs(op: str, **attributes: AttributeValue) -> Probe:
    """Return a probe for a rule about a unit: the operation itself is the need."""
    return lambda _: Operation(op, attributes=attributes)


def window(op: str, place: int) -> Probe:
    def probe(size: int | str) -> Operation:
        sizes = [1, 1, 1]
        sizes[place] = int(size)
        return Operation(op, attributes={"kernel_sizes": tuple(sizes)})

    return probe


def unshared(rank: int) -> Operation:
    """Return a product of which each operand has every other batch axis."""
    batch = (2, 3, 2)[-(rank - 2) :]
    x, y = (tuple(e if place % 2 == odd else 1 for place, e in enumerate(batch)) for odd in (0, 1))
    return call("matmul", (fp16(*batch, 4, 4),), x=fp16(*x, 4, 4), y=fp16(*y, 4, 4))


def moving_the_last(count: int, rank: int) -> tuple[int, ...]:
    """Return an order of axes in which the first of the last so many changes its place."""
    kept = tuple(range(rank - count))
    return (*kept, *range(rank - count + 1, rank), rank - count)


def held(*names: str) -> dict[str, tuple[Constant, ...]]:
    """Return constants of eight ones by their names."""
    return {name: (Dense(np.ones(8, np.float16)),) for name in names}


BLOCKS = Blockwise(np.ones((4, 8), np.int8), np.ones((4, 2), np.float16))

PROBES: dict[str, Probe] = {
    "ANE-FLOOR-001": needs("relu"),
    "ANE-RANK-001": lambda rank: Operation("relu", results=tensor(*[1] * int(rank))),
    "ANE-EXTENT-001": lambda width: Operation("relu", results=tensor(1, 8, 1, int(width))),
    "ANE-EXTENT-002": lambda channels: Operation("relu", results=tensor(1, int(channels), 1, 1)),
    "ANE-EXTENT-003": lambda width: Operation("transpose", results=tensor(1, 8, 1, int(width))),
    "ANE-EXTENT-004": lambda width: Operation("relu", results=tensor(1, 8, 1, int(width))),
    "ANE-EXTENT-005": lambda pixels: Operation(
        "group_norm", operands=tensor(1, 8, int(pixels), 1), attributes={"num_groups": 2}
    ),
    "ANE-KERNEL-001": window("conv", 2),
    "ANE-KERNEL-002": window("conv_transpose", 1),
    "ANE-KERNEL-003": window("conv", 0),
    "ANE-KERNEL-004": window("avg_pool", 2),
    "ANE-STRIDE-001": lambda factor: call("conv", x=IMAGE, strides=(1, int(factor))),
    "ANE-STRIDE-002": lambda count: call("conv", x=IMAGE, strides=(8 ** int(count), 1)),
    "ANE-STRIDE-003": lambda stride: convolution(IMAGE, fp16(8, 8, 3, 3), strides=(1, int(stride))),
    "ANE-STRIDE-004": lambda channels: call(
        "conv", x=fp16(1, int(channels), 5, 1), strides=(5, 1), kernel_sizes=(1, 1)
    ),
    "ANE-SCATTER-001": lambda places: call(
        "scatter", data=fp16(int(places) - 3, 2), indices=fp16(3), axis=0, mode="update"
    ),
    "ANE-DTYPE-001": lambda dtype: Operation("input", results=(TensorType((1, 8), str(dtype)),)),
    "ANE-DTYPE-002": lambda dtype: Operation("output", operands=(TensorType((1, 8), str(dtype)),)),
    "ANE-DTYPE-003": lambda dtype: Operation("add", operands=(TensorType((1, 8), str(dtype)),)),
    "ANE-DTYPE-004": lambda _: Operation("add", operands=(TensorType((1, 8), "fp8e4m3fn"),)),
    "ANE-DTYPE-005": lambda dtype: Operation("output", operands=(TensorType((1, 8), str(dtype)),)),
    "ANE-GATE-001": needs("crop_resize"),
    "ANE-GATE-002": needs("pad", mode="reflect"),
    "ANE-GATE-003": needs("dropout"),
    "ANE-GATE-004": needs("softmax"),
    "ANE-GATE-005": needs("instance_norm"),
    "ANE-GATE-006": needs("local_response_norm"),
    "ANE-GATE-007": needs("minmax_norm"),
    "ANE-GATE-008": needs("global_arg_min_max"),
    "ANE-GATE-009": needs("dynamic_goc"),
    "ANE-GATE-010": lambda _: call("broadcast", (volume(2),), x=volume(1)),
    "ANE-GATE-011": lambda _: Operation("reduce_sum", consumers=frozenset({"square"})),
    "ANE-QUIRK-001": lambda _: Operation("round", consumers=frozenset({"muls"})),
    "ANE-QUIRK-002": lambda _: call("softplus", x=IMAGE, reach=10.5),
    "ANE-QUIRK-003": lambda _: call("add", x=IMAGE, y=IMAGE, largest_mask=1e9),
    "ANE-QUIRK-004": lambda _: Operation("layer_norm", constants=held("gamma", "beta")),
    "ANE-QUIRK-005": lambda _: Operation("square", results=tensor(1, 8, 65), consumers=frozenset({"relu"})),
    "ANE-QUIRK-006": lambda _: call("muls", x=IMAGE, k=0.0, scaled_reduction="reduce_sum"),
    "ANE-QUIRK-007": lambda _: Operation("output", operands=tensor(1, 8), attributes={"producer": "input"}),
    "ANE-PORT-001": lambda _: Operation("output", operands=tensor(1, 8), attributes={"fed": False}),
    "ANE-PORT-002": needs("const"),
    "ANE-QUIRK-008": lambda _: call("silu", x=IMAGE),
    "ANE-STATE-001": lambda width: Operation("state", results=tensor(1, 8, int(width))),
    "ANE-WEIGHT-001": needs("constexpr_blockwise_shift_scale"),
    "ANE-WEIGHT-002": lambda _: Operation("linear", constants={"weight": (BLOCKS,)}),
    "ANE-CONV-005": lambda _: convolution(volume(4), fp16(4, 4, 3, 1, 1)),
    "ANE-CONV-006": lambda _: convolution(volume(4), fp16(4, 4, 1, 1, 1)),
    "ANE-CONV-007": lambda batch: convolution(fp16(int(batch), 8, 4, 4), fp16(8, 8, 1, 1)),
    "ANE-MATRIXMULT-002": lambda depth: call("matmul", x=volume(1), y=volume(int(depth))),
    "ANE-MATRIXMULT-003": lambda rank: call("matmul", x=fp16(*[1] * int(rank)), y=fp16(1, 1)),
    "ANE-MATRIXMULT-006": lambda size: call("matmul", x=fp16(2, int(size) // 2), y=fp16(int(size) // 2, 2)),
    "ANE-MATRIXMULT-007": lambda rank: unshared(int(rank)),
    "ANE-LINEAR-002": lambda rank: call("linear", x=fp16(*[1] * int(rank)), weight=fp16(1, 1)),
    "ANE-SDPA-006": lambda count: call("sdpa", query=fp16(1, 4), key=fp16(int(count), 4), value=fp16(int(count), 4)),
    "ANE-SDPA-007": lambda count: call("sdpa", query=fp16(int(count), 4), key=fp16(600, 4), value=fp16(600, 4)),
    "ANE-TRANSPOSE-002": lambda _: call("transpose", x=IMAGE, perm=(0, 2, 3, 1)),
    "ANE-TRANSPOSE-003": lambda count: call("transpose", x=volume(2), perm=moving_the_last(int(count), 5)),
    "ANE-TILE-002": lambda count: call("tile", (fp16(1, 8, 16 * int(count), 16),), x=IMAGE, reps=(1, 1, int(count), 1)),
    "ANE-SPACETOBATCH-002": lambda side: call("space_to_batch", x=IMAGE, block_shape=(1, int(side))),
    "ANE-BATCHTOSPACE-002": lambda side: call("batch_to_space", x=IMAGE, block_shape=(int(side), 1)),
    "ANE-CHANNELTOSPACE-002": lambda side: call("depth_to_space", x=IMAGE, block_size=int(side)),
    "ANE-SPACETOCHANNEL-002": lambda side: call("space_to_channel", x=IMAGE, block_size=int(side)),
    "ANE-PIXELSHUFFLE-002": lambda by: call("pixel_shuffle", x=IMAGE, upscale_factor=int(by)),
    "ANE-PIXELUNSHUFFLE-002": lambda by: call("pixel_unshuffle", x=IMAGE, downscale_factor=int(by)),
    "ANE-GATHER-004": lambda extent: call("gather", x=fp16(int(extent), 8), rounded_extent=int(extent)),
    "ANE-GATHER-003": lambda _: call("gather_nd", x=fp16(4, 4, 4), indices=TensorType((5, 2), "uint16")),
    "ANE-TOPK-003": lambda k: call("topk", x=fp16(1, 64), k=int(k), axis=-1),
    "ANE-ARGMINMAX-002": lambda extent: call("reduce_argmax", x=fp16(1, int(extent)), axis=-1),
    "ANE-RINGBUFFERWRITER-003": lambda _: call("tensor_to_circular_buffer", buffer=fp16(1, 8), x=fp16(1, 2)),
    "ANE-RINGBUFFERREADER-001": lambda _: call("circular_buffer_to_tensor", buffer=fp16(1, 8)),
    "ANE-LRN-002": lambda channels: call("lrn", x=fp16(int(channels), 4, 4)),
    "ANE-DYNAMICGOC-002": lambda channels: call("dynamic_goc", x=fp16(1, int(channels), 4, 4)),
}


def emission(refusal: str) -> Operation:
    """Return a layer that is emitted or refused."""
    return Operation("emission", attributes={"refusal": refusal})


def task(**attributes: AttributeValue) -> Operation:
    return Operation("task", attributes=attributes)


PAIRS: dict[str, tuple[Operation, Operation]] = {
    "ANE-PAD-002": (
        call("pad", x=IMAGE, pad=(0, 0, 0, 0, 1, 1, 2, 2)),
        call("pad", x=IMAGE, pad=(0, 0, 0, 1, 0, 0, 0, 0)),
    ),
    "ANE-RANDOM-003": (
        call("random", (fp16(4),), low=0.0, high=0.5),
        call("random", (fp16(4),), low=0.5, high=0.5),
    ),
    "ANE-RESIZE-002": (
        call("resize", (fp16(1, 8, 32, 32),), x=IMAGE),
        call("resize", (fp16(1, 9, 16, 16),), x=IMAGE),
    ),
    "ANE-RINGBUFFERWRITER-002": (
        call("tensor_to_circular_buffer", buffer=fp16(1, 8), x=fp16(1, 2), live_state=True),
        call("tensor_to_circular_buffer", buffer=fp16(1, 8), x=fp16(1, 2), live_state=False),
    ),
    "ANE-SDPA-002": (
        call("sdpa", query=fp16(1, 8, 4), key=fp16(1, 6, 4), value=fp16(1, 6, 4)),
        call("sdpa", query=fp16(1, 8, 4), key=fp16(1, 6, 4), value=fp16(1, 6, 5)),
    ),
    "ANE-SDPA-003": (
        call("sdpa", query=fp16(8, 4), key=fp16(6, 4), value=fp16(6, 4), attn_mask=fp16(8, 6)),
        call("sdpa", query=fp16(8, 4), key=fp16(6, 4), value=fp16(6, 4), attn_mask=TensorType((8, 6), "bool")),
    ),
    **{
        f"ANE-EMIT-{number:03}": (emission("ANE-EMIT-000: none"), emission(f"ANE-EMIT-{number:03}: sin"))
        for number in range(1, 15)
    },
    "ANE-TASK-001": (task(task_id=1, index=1), task(task_id=0, index=1)),
    "ANE-TASK-002": (task(later=1, is_later=1), task(later=0, is_later=1)),
    "ANE-TASK-003": (task(last=1, is_last=1), task(last=0, is_last=1)),
    "ANE-TASK-004": (task(neural_cores=1, cores_of_config=1), task(neural_cores=0, cores_of_config=1)),
    "ANE-TASK-005": (task(info_network_id=1, is_neural=1), task(info_network_id=0, is_neural=1)),
    "ANE-TASK-006": (task(kernel_bar_enable=1, kernel_enable=1), task(kernel_bar_enable=0, kernel_enable=1)),
    "ANE-TASK-007": (task(result_buffer_mode=1, result_streamed=1), task(result_buffer_mode=0, result_streamed=1)),
    "ANE-TASK-008": (task(first_record=1, first_block=1), task(first_record=0, first_block=1)),
    "ANE-TASK-009": (task(source_in_memory=1, source1_enable=1), task(source_in_memory=0, source1_enable=1)),
    "ANE-TASK-010": (task(result_in_memory=1, result_enable=1), task(result_in_memory=0, result_enable=1)),
    "ANE-TASK-011": (task(disallow_abort=1, hand_over_producer=1), task(disallow_abort=0, hand_over_producer=1)),
    "ANE-TASK-012": (task(next_bar_enable=1, is_followed=1), task(next_bar_enable=0, is_followed=1)),
    "ANE-TASK-013": (task(source2_present=1, source2_bar_enable=1), task(source2_present=0, source2_bar_enable=1)),
    "ANE-TASK-014": (task(flags="0x1", usual_flags=("0x0", "0x1")), task(flags="0x2", usual_flags=("0x0", "0x1"))),
    "ANE-TASK-015": (
        task(log_events="0x1", usual_log_events=("0x0", "0x1")),
        task(log_events="0x2", usual_log_events=("0x0", "0x1")),
    ),
    "ANE-TASK-016": (
        task(debug_log_events="0x1", usual_debug_log_events=("0x0", "0x1")),
        task(debug_log_events="0x2", usual_debug_log_events=("0x0", "0x1")),
    ),
}
"""A right and a wrong operation for every rule whose bound is a sentence."""
OUTSIDE: dict[str, int | str] = {
    "ANE-DTYPE-005": "bool",
    "ANE-STRIDE-001": 5,
    "ANE-TILE-002": 7,
    "ANE-SPACETOBATCH-002": 5,
    "ANE-BATCHTOSPACE-002": 11,
    "ANE-CHANNELTOSPACE-002": 7,
    "ANE-SPACETOCHANNEL-002": 5,
    "ANE-PIXELSHUFFLE-002": 6,
    "ANE-PIXELUNSHUFFLE-002": 5,
    "ANE-DYNAMICGOC-002": 5,
}
"""Values outside of a list that is not of element types, and of rules that are silent about the ordinary one."""
NEEDS = {"ANE-TRANSPOSE-002"}
"""Rules about a number that is at least 1 where the thing exists at all."""
STEPS = {"ANE-MATRIXMULT-006": 2}
"""How far one past the limit is, where the unit is not 1."""
OWN_LIMITS = {"ANE-GATHER-003", "ANE-QUIRK-002", "ANE-QUIRK-003"}
"""Rules that say what the operation itself should have been."""
FLOOR_RULES = {f"ANE-FLOOR-00{number}" for number in range(2, 9)}
"""Rules whose value is the operation's own floor in the op table; they have tests of their own below."""
TARGETS = [
    next(target for target in database().targets.values() if target.tier == tier) for tier in database().tiers.values()
]
RULES_AND_TARGETS = [
    pytest.param(known, target, id=f"{known.id}-{target.name}")
    for known in rules().values()
    for target in TARGETS
    if known.id in PROBES
]


def values_around(known: Rule, bound: Value) -> tuple[list[int | str], list[int | str]]:
    """Return values within a bound and values just past it."""
    step = STEPS.get(known.id, 1)
    match known.relation, bound:
        case Relation.AT_MOST, int() if known.id not in NEEDS:
            return [bound], [bound + step]
        case Relation.AT_LEAST, int():
            return [bound], [bound - step]
        case Relation.MULTIPLE_OF, int():
            return [bound, 8 * bound], [bound - 1, bound + 1, 270]
        case Relation.ONE_OF, tuple():
            return [one for one in bound if isinstance(one, int | str)], [OUTSIDE.get(known.id, "fp64")]
        case Relation.NONE_OF, tuple():
            return [max(int(one) for one in bound) + 1], [int(one) for one in bound]
        case _:
            return ([1], []) if bound else ([], [1])


def found_by(known: Rule, operation: Operation, target: Target) -> Finding | None:
    return known.check(operation, target)


def test_every_rule_has_a_probe_or_a_pair() -> None:
    assert set(PROBES) | set(PAIRS) | FLOOR_RULES == set(rules())
    assert set(PAIRS) == {known.id for known in rules().values() if known.relation is Relation.NEVER}
    assert all(target.has_data for target in TARGETS)


@pytest.mark.parametrize(("known", "target"), RULES_AND_TARGETS)
def test_at_the_limit_and_one_past_it(known: Rule, target: Target) -> None:
    probe, bound = PROBES[known.id], known.bound_on(target)
    if isinstance(bound, NoDataError):
        finding = found_by(
            known, probe(OUTSIDE.get(known.id, "fp64" if known.relation is Relation.ONE_OF else 5)), target
        )
        assert finding is not None
        assert finding.severity is Severity.INFO
        assert finding.message.startswith("cannot be decided: ")
        assert finding.evidence is None
        return
    within, past = values_around(known, bound.value)
    for value in within:
        assert found_by(known, probe(value), target) is None, value
    for value in past:
        finding = found_by(known, probe(value), target)
        assert finding is not None, value
        assert finding.rule == known.id
        assert finding.severity is known.severity
        assert finding.limit == bound.value or known.id in OWN_LIMITS
        assert finding.evidence == bound.evidence
        assert finding.target == target.name
        assert finding.remedy
        assert "{" not in finding.message + finding.remedy
        if known.relation is not Relation.PRESENT:
            assert finding.seen == value
            assert str(value) in finding.message or known.id in NEEDS


@pytest.mark.parametrize("rule_id", PAIRS)
def test_right_and_wrong(rule_id: str) -> None:
    known, (right, wrong) = rules()[rule_id], PAIRS[rule_id]
    for target in TARGETS:
        assert known.check(right, target) is None
        finding = known.check(wrong, target)
        assert finding is not None
        assert finding.severity is known.severity
        assert finding.evidence is not None
        assert finding.remedy
        assert "{" not in finding.message + finding.remedy


@pytest.mark.parametrize("known", rules().values(), ids=rules())
def test_a_rule_is_silent_about_other_operations(known: Rule) -> None:
    if known.ops is None:
        return
    other = Operation("identity", results=tensor(1, 1, 1, 1), attributes={"kernel_sizes": (99, 99, 99)})
    assert known.check(other, database().targets["h13"]) is None


def test_a_17000_wide_tensor_is_oversize_before_the_m4_alone() -> None:
    wide = Operation("relu", results=tensor(1, 8, 1, 17_000))
    assert ids(wide, "m3") == ["ANE-EXTENT-001"]
    assert ids(wide, "m4") == []


def test_a_70000_channel_tensor_is_oversize_everywhere() -> None:
    wide = Operation("relu", results=tensor(1, 70_000, 1, 1))
    assert ids(wide, "m1") == ids(wide, "m6") == ["ANE-EXTENT-002"]


def test_axis_1_of_rank_3_is_no_channel_axis() -> None:
    assert ids(Operation("relu", results=tensor(1, 17_000, 1)), "m1") == ["ANE-EXTENT-001"]


def test_a_transposed_20000_wide_tensor_has_the_wide_cap_and_so_has_what_feeds_it() -> None:
    shape = tensor(1, 8, 1, 20_000)
    assert ids(Operation("transpose", results=shape), "m1") == []
    assert ids(Operation("relu", results=shape, consumers=frozenset({"transpose"})), "m1") == []
    assert ids(Operation("relu", results=shape, consumers=frozenset({"add"})), "m1") == ["ANE-EXTENT-001"]


def test_a_3x14_kernel_runs_on_the_m4_and_not_on_the_m1() -> None:
    convolution = Operation("conv", results=tensor(1, 8, 32, 32), attributes={"kernel_sizes": (3, 14)})
    assert ids(convolution, "m1") == ["ANE-KERNEL-001"]
    assert ids(convolution, "m4") == []
    tall = Operation("conv", results=tensor(1, 8, 32, 32), attributes={"kernel_sizes": (14, 3)})
    assert ids(tall, "m1") == []


def test_group_norm_has_an_inner_extent() -> None:
    image = Operation("group_norm", tensor(1, 32, 256, 256), tensor(1, 32, 256, 256), {"num_groups": 8})
    assert ids(image, "m1") == ["ANE-EXTENT-005"]
    assert ids(image, "m4") == []


def test_group_norm_without_groups_is_left_to_the_graph() -> None:
    assert ids(Operation("group_norm", tensor(1, 32, 256, 256), attributes={"num_groups": 0}), "m1") == []


def test_the_worst_value_is_reported() -> None:
    finding = check(Operation("relu", results=(*tensor(1, 1, 1, 20_000), *tensor(1, 1, 30_000, 1))), "m1")[0]
    assert finding.seen == 30_000
    assert finding.message.startswith("Axis 2 of result 1 is 30000 long")


def test_fp8_is_one_finding_not_two() -> None:
    operation = Operation("matmul", operands=(TensorType((8, 8), "fp8e4m3fn"),))
    assert ids(operation, "m5") == ["ANE-DTYPE-004"]
    assert ids(operation, "h18") == []


@pytest.mark.parametrize("dtype", ["int32", "int64", "fp32", "fp64", "bf16"])
def test_types_that_the_engine_cannot_hold(dtype: str) -> None:
    assert ids(Operation("add", results=(TensorType((8,), dtype),)), "m6") == ["ANE-DTYPE-003"]


def test_constant_padding_needs_no_texture_engine() -> None:
    assert ids(Operation("pad", results=tensor(1, 8, 8, 8), attributes={"mode": "constant"}), "m1") == []


def test_below_the_floor_everything_is_rejected() -> None:
    assert ids(Operation("relu", results=tensor(1, 8)), "h12") == ["ANE-FLOOR-001"]


@pytest.mark.parametrize(
    ("op", "rule_id", "family", "fires"),
    [
        ("relu", "ANE-FLOOR-002", 2, False),
        ("softmax", "ANE-FLOOR-002", 1, True),
        ("softmax", "ANE-FLOOR-002", 2, False),
        ("topk", "ANE-FLOOR-002", 2, True),
        ("topk", "ANE-FLOOR-002", 3, False),
        ("sin", "ANE-FLOOR-003", 3, True),
        ("sin", "ANE-FLOOR-003", 4, False),
        ("sin", "ANE-FLOOR-002", 2, False),
        ("dropout", "ANE-FLOOR-003", 3, True),
        ("make_list", "ANE-FLOOR-004", 2, True),
        ("make_list", "ANE-FLOOR-004", 5, True),
        ("make_list", "ANE-FLOOR-002", 2, False),
        ("make_list", "ANE-FLOOR-005", 2, False),
        ("tan", "ANE-FLOOR-002", 2, False),
        ("tan", "ANE-FLOOR-003", 2, False),
        ("tan", "ANE-FLOOR-004", 2, False),
        ("tan", "ANE-FLOOR-005", 2, True),
        ("tan", "ANE-FLOOR-005", 5, True),
        ("tan", "ANE-FLOOR-006", 2, False),
        ("scatter", "ANE-FLOOR-005", 2, False),
        ("scatter", "ANE-FLOOR-006", 2, True),
        ("scatter", "ANE-FLOOR-006", 5, True),
        ("non_zero", "ANE-FLOOR-004", 2, False),
        ("non_zero", "ANE-FLOOR-007", 2, True),
        ("non_zero", "ANE-FLOOR-007", 5, True),
        ("lstm", "ANE-FLOOR-005", 2, False),
        ("lstm", "ANE-FLOOR-008", 2, True),
        ("gru", "ANE-FLOOR-008", 5, True),
        ("tan", "ANE-FLOOR-008", 5, False),
        ("not_in_the_table", "ANE-FLOOR-005", 2, False),
        ("not_in_the_table", "ANE-FLOOR-002", 2, False),
    ],
)
def test_floors_of_the_op_table(op: str, rule_id: str, family: int, *, fires: bool) -> None:
    finding = rules()[rule_id].check(Operation(op), resolve(family))
    assert (finding is not None) is fires
    if finding:
        assert op in finding.message
        assert finding.limit == family


def test_a_reference_target_has_no_family_to_compare_with() -> None:
    finding = rules()["ANE-FLOOR-002"].check(Operation("topk"), resolve("u1"))
    assert finding is not None
    assert finding.severity is Severity.INFO
