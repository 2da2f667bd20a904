"""PyTorch's own samples of its operators: equal, drawn at random, or declared unsupported for one of eight reasons.

The whole sweep is long, so it runs where the tables are refreshed; a drawn part runs always.
"""

from __future__ import annotations

import pytest
import torch

from external.torch.yardstick import (
    WAYS,
    Outcome,
    core_operators,
    judged,
    operation_names,
    read_results,
    results_text,
    table_of,
)

EQUAL_LEAST = 150
DRAWN_PART = ("add", "cat", "index_put", "nn.functional.avg_pool2d", "var", "where")
RECORDED_WITH = "2.13"
pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(RECORDED_WITH), reason="another release of PyTorch has other samples"
)


def counts(row: tuple[str, ...]) -> dict[Outcome, int]:
    return dict(zip(Outcome, map(int, row[1 : 1 + len(Outcome)]), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DRAWN_PART)
def test_a_drawn_operation_is_as_recorded(name: str, way: str) -> None:
    tally = judged(name, way)
    assert tally.outcomes[Outcome.WRONG] == tally.outcomes[Outcome.BROKEN] == 0, tally.details
    assert tally.outcomes[Outcome.EQUAL]
    recorded = read_results(way)
    if name in recorded:
        assert tally.row == recorded[name]


@pytest.mark.parametrize("way", WAYS)
def test_every_operation_is_as_recorded(way: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("the whole sweep is long: make test-external runs it")
    tallies = [judged(name, way) for name in operation_names()]
    table_of(way).write_text(results_text(tallies), encoding="utf-8")
    failed = [
        f"{one.operation}: {one.details}"
        for one in tallies
        if one.outcomes[Outcome.WRONG] or one.outcomes[Outcome.BROKEN]
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_recorded_is_wrong_or_broken(way: str) -> None:
    rows = read_results(way)
    assert rows
    assert set(rows) <= set(operation_names())
    assert [name for name, row in rows.items() if counts(row)[Outcome.WRONG] or counts(row)[Outcome.BROKEN]] == []


def test_enough_operations_are_equal_on_all_samples() -> None:
    rows = read_results("whole").values()
    equal = [row[0] for row in rows if counts(row)[Outcome.EQUAL] == sum(counts(row).values()) > 0]
    assert len(equal) >= EQUAL_LEAST


def test_pytorch_says_what_is_core() -> None:
    assert len(core_operators()) >= EQUAL_LEAST
