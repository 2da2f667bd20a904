"""Every rule, at its limit and one past it, on every tier.

`PROBES` has one entry per rule: how to build an operation that shows the rule a given value. A rule without an entry
fails the first test, so that a new rule comes with its probe.
"""

from collections.abc import Callable

import pytest

from aneforge.rules import Finding, Operation, Relation, Rule, Severity, TensorType, check, rules
from aneforge.targets import Target, Value, database, resolve

Probe = Callable[[int | str], Operation]


def tensor(*shape: int) -> tuple[TensorType, ...]:
    return (TensorType(shape),)


def needs(op: str, **attributes: object) -> Probe:
    """Return a probe for a rule about a unit: the operation itself is the need."""
    return lambda _: Operation(op, attributes=attributes)  # pyright: ignore[reportArgumentType] - literal attributes


def window(op: str, place: int) -> Probe:
    def probe(size: int | str) -> Operation:
        sizes = [1, 1, 1]
        sizes[place] = int(size)
        return Operation(op, attributes={"kernel_sizes": tuple(sizes)})

    return probe


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
    "ANE-GATE-010": needs("broadcast", axes=("depth",)),
    "ANE-QUIRK-001": lambda _: Operation("round", consumers=frozenset({"muls"})),
    "ANE-GATE-011": lambda _: Operation("reduce_sum", consumers=frozenset({"square"})),
}

PAST: dict[str, int | str] = {"ANE-DTYPE-005": "bool"}
"""Values past a bound, of rules that are silent about the ordinary one."""
FLOOR_RULES = {"ANE-FLOOR-002", "ANE-FLOOR-003", "ANE-FLOOR-004"}
"""Rules whose value is the operation's own floor in the op table; they have tests of their own below."""
RULES_AND_TARGETS = [
    pytest.param(known, target, id=f"{known.id}-{target.name}")
    for known in rules().values()
    for target in database().targets.values()
    if known.id not in FLOOR_RULES
    and target.has_data
    and target.name == next(name for name, one in database().targets.items() if one.tier == target.tier)
]


def values_around(relation: Relation, bound: Value) -> tuple[int | str | None, int | str | None]:
    """Return a value within a bound and one just past it; None where there is no such value."""
    match relation, bound:
        case Relation.AT_MOST, int():
            return bound, bound + 1
        case Relation.AT_LEAST, int():
            return bound, bound - 1
        case Relation.ONE_OF, tuple():
            return str(bound[0]), "fp64"
        case _:
            return ("need", None) if bound else (None, "need")


def found_by(known: Rule, operation: Operation, target: Target) -> Finding | None:
    return known.check(operation, target)


def test_every_rule_has_a_probe() -> None:
    assert set(PROBES) | FLOOR_RULES == set(rules())


@pytest.mark.parametrize(("known", "target"), RULES_AND_TARGETS)
def test_at_the_limit_and_one_past_it(known: Rule, target: Target) -> None:
    probe = PROBES[known.id]
    is_known = any(known.bound in group for group in target.groups.values())
    bound = target.fact(known.bound) if is_known else None
    if bound is None:
        finding = found_by(known, probe(PAST.get(known.id, "fp64" if known.relation is Relation.ONE_OF else 1)), target)
        assert finding is not None
        assert finding.severity is Severity.INFO
        assert finding.message.startswith("cannot be decided: ")
        assert finding.evidence is None
        return
    within, past = values_around(known.relation, bound.value)
    past = PAST.get(known.id, past)
    if within is not None:
        assert found_by(known, probe(within), target) is None
    if past is not None:
        finding = found_by(known, probe(past), target)
        assert finding is not None
        assert finding.rule == known.id
        assert finding.severity is known.severity
        assert finding.limit == bound.value
        assert finding.evidence == bound.evidence
        assert finding.target == target.name
        assert finding.remedy
        assert "{" not in finding.message + finding.remedy
        if known.relation is not Relation.PRESENT:
            assert finding.seen == past
            assert str(past) in finding.message


@pytest.mark.parametrize("known", rules().values(), ids=rules())
def test_a_rule_is_silent_about_other_operations(known: Rule) -> None:
    if known.ops is None:
        return
    other = Operation("identity", results=tensor(1, 1, 1, 1), attributes={"kernel_sizes": (99, 99, 99)})
    assert known.check(other, database().targets["h13"]) is None


def ids(operation: Operation, target: str) -> list[str]:
    return [finding.rule for finding in check(operation, target) if finding.severity is not Severity.INFO]


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
        ("tan", "ANE-FLOOR-004", 2, True),
        ("tan", "ANE-FLOOR-004", 5, True),
        ("tan", "ANE-FLOOR-002", 2, False),
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
