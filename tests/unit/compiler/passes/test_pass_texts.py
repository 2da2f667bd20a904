"""Programs as text in, programs as text out: every case of the files beside this one, one file to a pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from aneforge.compiler.pipeline import PIPELINE
from legalisation_tools import assert_same_meaning, inputs_of
from pass_texts import PassCase, cases_of, rewrite

FILES = sorted(Path(__file__).parent.glob("*.ir"))
CASES = [case for path in FILES for case in cases_of(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}: {case.name}")
def test_a_pass_makes_the_text_that_is_written(case: PassCase, request: pytest.FixtureRequest) -> None:
    before = case.before()
    after = case.pipeline().run(before)
    if request.config.getoption("--update-golden"):
        rewrite(case, str(after))
        return
    assert str(after) == case.expected
    assert_same_meaning(before, after, inputs_of(before), 0 if case.exact else 1e-12)


def test_a_file_of_one_pass_is_named_after_it_and_its_cases_differ() -> None:
    names = {one.name for one in PIPELINE.passes}
    assert FILES
    for path in FILES:
        cases = cases_of(path)
        assert cases
        assert len(cases[0].passes) > 1 or cases[0].passes == (path.stem.replace("_", "-"),)
        assert set(cases[0].passes) <= names
        assert len({case.name for case in cases}) == len(cases)
