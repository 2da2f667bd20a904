"""PyTorch's own samples of its operators: equal, drawn at random, or declared unsupported for one of nine reasons.

The whole sweep is long, so it runs where the tables are refreshed; a drawn part runs always.
"""

from __future__ import annotations

import pytest
import torch

from external.torch.own_samples import OWN_SAMPLES
from external.torch.results import WAYS, counts, is_equal, names_of, read_results, results_text, table_of
from external.torch.yardstick import Outcome, judged
from torch_page import OWN_SAMPLED

EQUAL_LEAST = 150
"""Operators of core ATen all of whose forms are equal on all of their static samples."""
DRAWN_PART = ("index_put", "nn.functional.avg_pool2d", "_upsample_bilinear2d_aa", "where")
RECORDED_WITH = "2.13"
pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(RECORDED_WITH), reason="another release of PyTorch has other samples"
)


@pytest.mark.parametrize("name", DRAWN_PART)
def test_a_drawn_operation_is_as_recorded(name: str) -> None:
    tally = judged(name)
    assert tally.outcomes[Outcome.EQUAL]
    assert tally.row == read_results("whole")[name], tally.details


@pytest.mark.parametrize("way", WAYS)
def test_every_operation_is_as_recorded(way: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("the whole sweep is long: make test-external runs it")
    tallies = [judged(name) for name in names_of(way)]
    table_of(way).write_text(results_text(tallies), encoding="utf-8")
    bad = (Outcome.WRONG, Outcome.BROKEN)
    failed = [f"{one.operation}: {one.details}" for one in tallies if any(one.outcomes[outcome] for outcome in bad)]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_recorded_is_wrong_or_broken(way: str) -> None:
    rows = read_results(way)
    assert list(rows) == list(names_of(way))
    assert [name for name, row in rows.items() if counts(row)[Outcome.WRONG] or counts(row)[Outcome.BROKEN]] == []


def test_enough_of_core_aten_is_equal_on_all_static_samples() -> None:
    forms = {name: is_equal(row) for name, row in read_results("core").items()}
    operators = {name.split(".")[1] for name in forms}
    unequal = {name.split(".")[1] for name, equal in forms.items() if not equal}
    assert sum(forms.values()) >= len(operators - unequal) >= EQUAL_LEAST


def test_the_page_marks_the_forms_that_are_judged_by_samples_of_our_own() -> None:
    assert set(OWN_SAMPLED) == set(OWN_SAMPLES)
