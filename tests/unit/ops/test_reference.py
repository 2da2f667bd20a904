"""The meaning of every operation equals an independent implementation, on calls drawn from the op table.

Each module of `oracles/` has a table `ORACLES`: operation name to a function with the operation's own operands and
attributes, written with another library (torch, scipy, onnx's reference evaluator) or by plain loops.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings

from aneforge.ops.definition import meaning_dtype
from aneforge.ops.op import Op, Trait
from aneforge.ops.table import ops
from aneforge.testing.calls import Drawn, calls

if TYPE_CHECKING:
    from oracle_tools import Oracle


def oracles_of(path: Path) -> dict[str, Oracle]:
    spec = importlib.util.spec_from_file_location(f"oracles_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("dict[str, Oracle]", module.ORACLES)


ORACLES = {
    name: oracle
    for path in sorted((Path(__file__).parent / "oracles").glob("*.py"))
    for name, oracle in oracles_of(path).items()
}
WITH_MEANING = [op for op in ops().values() if op.meaning is not None]


def test_every_operation_with_a_meaning_has_an_oracle() -> None:
    assert set(ORACLES) == {op.name for op in WITH_MEANING}


def test_an_operation_without_a_meaning_says_why() -> None:
    assert all(op.no_meaning for op in ops().values() if op.meaning is None)


@pytest.mark.parametrize("op", WITH_MEANING, ids=lambda op: op.name)
def test_meaning(op: Op) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(calls(op))
    def compare(call: Drawn) -> None:
        attributes = op.complete(call.sample.attributes)
        types = op.types(call.types, attributes)
        results = op.evaluate(call.values, attributes)
        operands = [call.values.get(operand.name) for operand in op.operands]
        expected = ORACLES[op.name](*operands, **attributes)
        others = expected if isinstance(expected, tuple) else (expected,)
        for result, kind, other in zip(results, types, others, strict=True):
            assert result.shape == np.shape(other)
            if Trait.DATA_SHAPE in op.traits:
                assert all(extent <= most for extent, most in zip(result.shape, kind.shape, strict=True))
            else:
                assert result.shape == kind.shape
            assert result.dtype == meaning_dtype(kind.dtype), "the meaning's own type"
            np.testing.assert_allclose(result, other, rtol=1e-9, atol=1e-11)

    compare()


@pytest.mark.parametrize("op", ops().values(), ids=lambda op: op.name)
def test_work_is_counted(op: Op) -> None:
    @settings(max_examples=5, deadline=None, derandomize=True)
    @given(calls(op))
    def count(call: Drawn) -> None:
        attributes = op.complete(call.sample.attributes)
        work = op.work(call.types, attributes)
        assert work.macs >= 0
        assert (work.macs > 0) == (op.macs is not None)
        assert work.bytes_out == sum(result.nbytes for result in op.types(call.types, attributes))

    count()
