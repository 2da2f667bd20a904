"""Every conformance case that the onnx package has: equal, or declared unsupported for one of eight reasons."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest

from external.onnx.yardstick import (
    DECLARED,
    EQUAL,
    KINDS,
    Outcome,
    Result,
    cases,
    judge,
    read_results,
    results_text,
    table_of,
)

NODE_EQUAL_LEAST = 1250
RECORDED_WITH = "1.23"
"""The version of onnx whose cases the committed tables list; a newer one has more, which are judged all the same."""
pytestmark = pytest.mark.skipif(
    tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23),
    reason="older onnx expects some numbers that were corrected since",
)
ROUNDED_WHEN_FOLDED = {"test_attention_4d_causal_fp16_expanded"}
"""Cases of fp16 whose tolerance is one step of it: what is folded is rounded after every operation, and misses it."""


def recorded(kind: str) -> dict[str, Result]:
    return {one.name: one for one in read_results(kind)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_is_equal_or_declared(kind: str, request: pytest.FixtureRequest) -> None:
    results = [judge(case) for case in cases(kind)]
    if request.config.getoption("--refresh-results"):
        table_of(kind).write_text(results_text(results), encoding="utf-8")
    failed = [f"{one.name}: {one.detail}" for one in results if one.outcome in (Outcome.WRONG, Outcome.BROKEN)]
    assert not failed, "\n".join(failed)
    assert all(one.reason in DECLARED for one in results if one.outcome is Outcome.UNSUPPORTED)
    known = recorded(kind)
    changed = [f"{one.name}: {one.row[2:]}" for one in results if one.name in known and one.row != known[one.name].row]
    assert not changed, "\n".join(changed)


def test_enough_of_the_node_cases_are_equal() -> None:
    counts = Counter(one.outcome for one in recorded("node").values())
    assert sum(counts[outcome] for outcome in EQUAL) >= NODE_EQUAL_LEAST
    assert counts[Outcome.WRONG] == counts[Outcome.BROKEN] == 0


@pytest.mark.skipif(not onnx.__version__.startswith(RECORDED_WITH), reason="a newer onnx has more cases")
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_lists_every_case(kind: str) -> None:
    assert {case.name for case in cases(kind)} == set(recorded(kind))


@pytest.mark.parametrize("kind", ["pytorch-operator", "pytorch-converted", "real"])
def test_exported_networks_are_all_equal(kind: str) -> None:
    assert {one.outcome for one in recorded(kind).values()} == {Outcome.EQUAL}


@pytest.mark.parametrize("free", [1, 0], ids=["all inputs but the first", "all inputs"])
def test_a_case_means_the_same_with_inputs_fixed_as_weights_are(free: int) -> None:
    known = recorded("node")
    supported = [case for case in cases("node") if known.get(case.name) and known[case.name].outcome in EQUAL]
    results = [judge(case, free) for case in supported if case.name not in ROUNDED_WHEN_FOLDED]
    failed = [f"{one.name}: {one.detail}" for one in results if one.outcome not in EQUAL]
    assert not failed, "\n".join(failed)
    assert {Outcome.FOLDED if free == 0 else Outcome.BOUND} <= {one.outcome for one in results}
