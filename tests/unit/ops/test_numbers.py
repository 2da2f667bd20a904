"""The bounds of fp16: equal to NumPy's, and written down once."""

import re
from pathlib import Path

import numpy as np

from aneforge.ops import numbers

LARGEST = re.compile(r"^[A-Z0-9_]+(?:, [A-Z0-9_]+)* = .*\b65_?504\b", re.MULTILINE)


def test_the_bounds_are_those_of_fp16() -> None:
    half = np.finfo(np.float16)
    assert float(half.max) == numbers.FP16_MAX
    assert float(half.tiny) == numbers.FP16_SMALLEST_NORMAL
    assert float(half.smallest_subnormal) == numbers.FP16_SMALLEST
    # One step of the last binade after the largest: where the patterns would go on.
    assert numbers.FP16_MAX + float(half.eps) * 2.0**15 == numbers.FP16_INFINITY


def test_no_module_has_a_name_of_its_own_for_the_largest(repository: Path) -> None:
    source = repository / "src/aneforge"
    found = {
        path.relative_to(source).as_posix() for path in source.rglob("*.py") if LARGEST.search(path.read_text("utf-8"))
    }
    assert found == {"ops/numbers.py"}
