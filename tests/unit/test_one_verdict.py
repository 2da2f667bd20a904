"""One verdict: preflight, check, compile, the validators, cross_compile_check and the matrix give one row of one table.

| the graph, on one target | preflight | compile | validators | cross_compile_check |
|---|---|---|---|---|
| runs as it is, or by decompositions | ok | succeeds | accept | True |
| oversize, a split exists | not ok, names the split | succeeds, lists the split, warns once | accept | False |
| oversize, no split | not ok | one error, the same rule | - | False |
| reject | not ok | one error, the same rule | - | False |
| cut into segments | ok, says how many | succeeds | accept | raises |

Three hundred drawn graphs here; ten thousand with `make test-external`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.commands.checking import check
from aneforge.commands.demo_networks import network
from aneforge.compiler.compile import build_program, compile_graph
from aneforge.compiler.splits import IN_PARTS, TRANSPOSED
from aneforge.compiler.validators import validate_program
from aneforge.errors import IllegalGraphError, NoDataError
from aneforge.graph.graph import as_graph
from aneforge.report.tables import markdown
from verdict_tools import CUT, OVERSIZE, REJECT, ROWS, RUNS, SPLIT, ask, disagreements, draw_graph, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

GRAPHS = 300
AT_A_TIME = 50
KNOWN: dict[str, str] = {}
"""Classes of disagreement that are known, each with its reason; a class that is gone is to be taken out."""


@pytest.mark.parametrize("first", range(0, GRAPHS, AT_A_TIME))
def test_every_door_gives_the_same_row(first: int) -> None:
    wrong: dict[str, list[int]] = {}
    for seed in range(first, first + AT_A_TIME):
        for one in disagreements(ask(draw_graph(seed)[1], target_of(seed))):
            wrong.setdefault(one, []).append(seed)
    assert {one: seeds for one, seeds in wrong.items() if one not in KNOWN} == {}


EXAMPLES = {
    "relu": (af.input((1, 8, 4, 4)).relu(), RUNS),
    "sin": (af.input((1, 8)).sin(), RUNS),
    "width": (af.input((1, 1, 1, 16_385)).relu(), SPLIT),
    "channels": (af.input((1, 65_537, 1, 1)).relu(), SPLIT),
    "columns of a product": (af.input((4, 8)) @ np.zeros((8, 20_000)), SPLIT),
    "contraction of a product": (af.input((4, 20_000)) @ np.zeros((20_000, 8)), SPLIT),
    "contraction of a linear layer": (af.input((4, 20_000)).linear(np.zeros((8, 20_000))).relu(), SPLIT),
    "both computed": (af.input((4, 20_000), name="a") @ af.input((20_000, 16), name="b"), SPLIT),
    "kernel": (af.conv(af.input((1, 3, 32, 32)), np.zeros((4, 3, 3, 15))), SPLIT),
    "channels of their own": (
        af.conv(af.input((1, 70_000, 4, 4)), np.zeros((70_000, 1, 3, 3)), pad=1, groups=70_000),
        SPLIT,
    ),
    "joined reshapes": (af.input((1, 2, 3, 8_192)).reshape(1, 1, 1, 49_152).reshape(6, 8_192), SPLIT),
    "softmax": (af.input((4, 20_000)).softmax(), OVERSIZE),
    "contraction of a convolution": (
        af.conv(af.input((1, 70_000, 4, 4)), np.zeros((2, 70_000, 3, 3)), pad=1),
        OVERSIZE,
    ),
    "texture": (af.affine(af.input((1, 3, 8, 8)), np.ones((1, 6), np.float16), 8, 8), REJECT),
    "sort": (af.sort(af.input((1, 64)).relu()).abs(), CUT),
    "top k": (af.topk(af.input((1, 64)), 5)[0], REJECT),
    "group norm": (af.input((1, 32, 128, 128)).group_norm(np.ones(32), np.ones(32), 8), RUNS),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_row_has_its_examples(name: str) -> None:
    graph, row = EXAMPLES[name]
    target = af.targets.resolve(af.targets.Family.A14 if row == CUT else af.targets.Family.A13)
    found = ask(af.Graph({"y": graph}), target)
    assert list(disagreements(found)) == []
    assert found.row == row


def test_the_drawn_graphs_are_of_every_row() -> None:
    rows = Counter(ask(draw_graph(seed)[1], target_of(seed)).row for seed in range(60))
    assert set(rows) >= set(ROWS) - {OVERSIZE}


def test_compile_warns_once_of_what_it_splits() -> None:
    x = af.input((1, 1, 1, 16_385))
    with pytest.warns(af.OversizeWarning) as caught:
        af.compile(x.relu().exp(), target=af.targets.Family.A13)
    (said,) = [one for one in caught if one.category is af.OversizeWarning]
    assert "ANE-EXTENT-001" in str(said.message)
    assert "2 parts" in str(said.message)


def test_cross_compile_check_says_that_compile_would_split() -> None:
    wide = af.input((1, 1, 1, 16_385)).relu()
    with pytest.warns(af.OversizeWarning, match="compile splits it: relu becomes 2 parts"):
        assert cross_compile_check(wide, af.targets.Family.A13, host=af.targets.Family.A13) is False


def test_what_is_only_moved_is_inferred_and_says_so() -> None:
    compiled = compile_graph(af.input((1, 1, 1, 16_385)).relu(), af.targets.Family.A13)
    (change,) = compiled.changes
    assert change.detail.endswith("moves of the whole tensor, which are assumed to work (inferred)")
    moved = [one for one in validate_program(compiled.program).findings if one.stage == "moved"]
    assert {one.finding.rule for one in moved} == {"ANE-EXTENT-001"}


@pytest.mark.parametrize(("target", "limit"), [("h13", "8388607 (inferred)"), ("m5-pro", "16777215 (measured)")])
def test_a_transpose_has_a_limit_of_its_own_at_every_door(target: str, limit: str) -> None:
    """It passes preflight, so nothing may say that it is oversize."""
    graph = as_graph(af.input((1, 4, 8, 70_000)).transpose((0, 1, 3, 2)))
    found = ask(graph, af.targets.resolve(target))
    assert (found.row, list(disagreements(found))) == ("runs", [])
    assert found.compiled is not None
    (change,) = found.compiled.changes
    assert (change.detail, change.why) == (f"moved as a whole, up to {limit}", TRANSPOSED)


def test_parts_for_kernel_memory_are_not_said_to_be_oversize() -> None:
    compiled = compile_graph(network("resnet18"), af.targets.Family.A13)
    assert compiled.verdict.ok
    assert {one.why for one in compiled.changes} == {IN_PARTS}
    assert all("kernel is larger than kernel memory" in one.detail for one in compiled.changes)


def test_an_error_speaks_of_the_users_operation() -> None:
    with pytest.raises(IllegalGraphError, match=r"No split exists: softmax at .* works along its axis of 20000") as no:
        build_program(af.input((4, 20_000)).softmax(), af.targets.Family.A13)
    assert len(no.value.findings) == 1


@pytest.mark.parametrize(
    ("shape", "axis", "advice"),
    [
        ((1, 4, 8, 20_000), -1, "move the long axis to the channels (axis 1 of a rank-4 tensor), or make"),
        ((1, 70_000, 1, 4), 1, "make"),
        ((20_000, 20_000), -1, "move the long axis to the channels (axis 1 of a rank-4 tensor), or make"),
    ],
)
def test_what_cannot_be_split_is_not_advised_to_be_split(shape: tuple[int, ...], axis: int, advice: str) -> None:
    """Every door gives the same advice for the operation, and along the channels it does help."""
    graph, target = as_graph(af.input(shape).softmax(axis)), af.targets.Family.A13
    with pytest.raises(IllegalGraphError) as no:
        build_program(graph, target)
    (found,) = no.value.findings
    expected = f"Remedy: {advice} that axis shorter, or keep the operation on the host."
    assert expected in found
    reports = af.preflight(graph, target).reports[1], check(graph, target).targets[0]
    for found in (one for report in reports for one in report.findings if one.op == "softmax"):
        assert expected in str(found)
    assert build_program(af.input((1, 20_000, 1, 4)).softmax(1), target)


def test_what_feeds_an_operation_that_cannot_be_split_is_not_advised_to_be_split() -> None:
    """Nothing along the axis is; another axis, and another branch of the graph, still are."""
    x, other = af.input((1, 70_000, 1, 20_000), name="x"), af.input((1, 1, 8, 20_000), name="other")
    graph, target = as_graph({"a": x.relu().softmax(1).exp(), "b": other.sigmoid()}), af.targets.Family.A13
    for verdict in (af.preflight(graph, target), check(graph, target).targets[0]):
        split = {(one.op, one.rule) for one in verdict.findings if "split the" in one.remedy}
        assert split == {
            *((op, "ANE-EXTENT-001") for op in ("input", "relu", "softmax", "exp")),
            *((op, "ANE-EXTENT-001") for op in ("input", "sigmoid")),
        }
        whole = {one.remedy for one in verdict.findings if one.rule == "ANE-EXTENT-002"}
        assert whole == {
            f"make that axis shorter, or keep {what} on the host." for what in ("the operation", "what reads it")
        }
    with pytest.raises(IllegalGraphError) as no:
        build_program(graph, target)
    assert [found.split()[0] for found in no.value.findings] == ["ANE-EXTENT-002"]


def test_a_transpose_in_passes_is_no_objection_where_no_unit_transposes() -> None:
    product = af.input((4, 8)) @ np.zeros((8, 16))
    compiled = compile_graph(product, af.targets.Family.OLDER, route="direct")
    assert validate_program(compiled.program).ok
    assert {one.finding.rule for one in compiled.validation.findings if one.stage == "conversion"} == {
        "ANE-TRANSPOSE-002"
    }


DOORS: dict[str, Callable[[af.Tensor, str], object]] = {
    "preflight": af.preflight,
    "compile": lambda y, name: af.compile(y, target=name),
    "cross_compile_check": lambda y, name: cross_compile_check(y, name, host="h13"),
    "cost": af.cost,
    "estimate": af.estimate,
    "placement": af.placement,
    "check": lambda y, name: check(af.Graph({"y": y}), [name]),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["u1", "u2", "u3", "u4", "h15m", "h20", "m12"])
def test_every_door_refuses_a_target_without_family_or_data(name: str, door: str) -> None:
    with pytest.raises(NoDataError, match=name):
        DOORS[door](af.input((1, 8)).relu(), name)


@pytest.mark.parametrize("name", ["h11", "h12", "m9", "t0"])
def test_nothing_lands_on_an_engine_below_the_floor_of_mil(name: str) -> None:
    found = af.placement(af.input((1, 8)).relu(), name)
    assert (found.on_engine, found.segments, found.microseconds) == (0.0, (), None)
    assert "ANE-FLOOR-001" in str(found)


@pytest.mark.parametrize("name", [name for name, (_, row) in EXAMPLES.items() if row == SPLIT])
def test_the_split_and_its_cost_are_named_by_every_door(name: str) -> None:
    graph = af.Graph({"y": EXAMPLES[name][0]})
    splits = af.preflight(graph, "h13").splits
    assert all(re.search(r"\d+ bytes\)|moves of the whole tensor|all within the limit", one) for one in splits)
    report = check(graph, ["m1"])
    assert [note for note in report.notes if "compile splits it" in note] == [f"on M1 {one}" for one in splits]
    assert all(one in markdown(report) for one in splits)


def test_what_is_split_is_the_users_operation_not_the_one_fused_after_it() -> None:
    wide = af.conv(af.input((1, 3, 32, 32)), np.zeros((4, 3, 3, 15))).relu()
    long = af.input((4, 20_000)).linear(np.zeros((8, 20_000))).sigmoid()
    for y, op in ((wide, "conv"), (long, "linear")):
        assert [change.op for change in compile_graph(y, "h13").changes] == [op]
        assert all(f"it: {op} becomes" in one for one in af.preflight(y, "h13").splits)


def test_the_step_that_cannot_be_split_is_named() -> None:
    q, k, v = (af.input((1, 1, length, 64), name=name) for name, length in (("q", 64), ("k", 20_000), ("v", 20_000)))
    (reason,) = af.preflight(af.sdpa(q, k, v), "h13").splits
    assert reason.startswith("no split exists: softmax at ")
