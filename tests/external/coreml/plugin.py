"""A pytest plugin that runs coremltools' operator tests and judges every comparison that they make.

The tests build programs, convert them, and hand them with inputs and expected outputs to one function, which runs them
on Core ML where there is one. Here that function judges instead. Nothing of coremltools is changed but that name.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from external.coreml.judging import Case, judge

if TYPE_CHECKING:
    import pytest

MOST = int(os.environ.get("ANEFORGE_COREML_MOST", "32"))
"""Parameterisations of one test that are run: drawn by their number, and always the same."""
DRAWN = int(os.environ.get("ANEFORGE_COREML_DRAWN", "0"))
"""Tests that are run of all; 0 for every one."""
OUT = Path(os.environ.get("ANEFORGE_COREML_OUT", "judged.jsonl"))
SEED = 20260

COMMON = ("backend", "compute_unit")
"""Parameters of all tests."""

current = {"test": "", "parameters": ""}
numbers: dict[str, int] = {}
"""The numbers of parameterisations by their names, which are not stable: some hold arrays that are drawn."""


def pytest_configure() -> None:
    """Put the judge in the place of the comparison."""
    coremltools = cast("Any", importlib.import_module("coremltools"))
    coremltools.models.MLModel.make_state = lambda _: object()  # pyright: ignore[reportUnknownLambdaType] - untyped there
    for name in ("testing_utils", "mil.ops.tests.testing_utils"):
        module = cast("Any", importlib.import_module(f"coremltools.converters.mil.{name}"))
        module.compare_backend = compared


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep single precision, some parameterisations of each test, and of all tests as many as are asked for.

    Tests of what is invalid are left out: they expect an error, or numbers that differ, and state none of their own.
    """
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if precision_of(item) == "fp32" and "invalid" not in test_of(item):
            numbers[item.nodeid] = len(by_test[test_of(item)])
            by_test[test_of(item)].append(item)
    kept = [item for several in by_test.values() for item in sorted(several, key=place_of)[:MOST]]
    items[:] = sorted(kept, key=place_of)[:DRAWN] if DRAWN else kept


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of collections: coremltools collects once for every program that it converts.

    Three quarters of the time of a test were spent in them, over the objects of torch and of the collected tests.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the test, and draw the same numbers each time."""
    current["test"], current["parameters"] = test_of(item), parameters_of(item)
    seed = int(place_of(item)[:8], 16)
    random.seed(seed)
    np.random.seed(seed)
    cast("Any", importlib.import_module("torch")).manual_seed(seed)


def place_of(item: pytest.Item) -> str:
    """Return the place of a test in an order that is at random, and always the same."""
    return hashlib.sha256(f"{SEED}{test_of(item)}#{numbers[item.nodeid]}".encode()).hexdigest()


def test_of(item: pytest.Item) -> str:
    """Return folder, module, class and function of a test, wherever the tests are run from."""
    inner = item.nodeid.partition("[")[0].partition("::")[2]
    return f"{item.path.parent.name}/{item.path.name}::{inner}"


def parameters_of(item: pytest.Item) -> str:
    """Return the parameters that a test has of its own."""
    parameters = cast("dict[str, object]", getattr(getattr(item, "callspec", None), "params", {}))
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()) if name not in COMMON)


def precision_of(item: pytest.Item) -> str:
    """Return the precision that a test converts to; those that do not say so count as single precision."""
    parameters = cast("dict[str, Any]", getattr(getattr(item, "callspec", None), "params", {}))
    return str(getattr(parameters.get("backend"), "precision", "fp32"))


def compared(  # noqa: PLR0913, PLR0917 - it stands in the place of a function with these arguments
    mlmodel: Any,  # noqa: ANN401 - a class of coremltools, which has no types
    input_key_values: dict[str, object] | None,
    expected_outputs: dict[str, object] | None,
    dtype: str = "fp32",  # noqa: ARG001 - as above
    atol: float = 1e-4,
    rtol: float = 1e-5,
    also_compare_shapes: bool = True,  # noqa: FBT001, FBT002, ARG001 - as above
    state: object = None,
    allow_mismatch_ratio: float = 0.0,
) -> None:
    """Judge a comparison, and write down what became of it."""
    model = mlmodel.get_spec()
    if model.WhichOneof("Type") != "mlProgram" or state is not None or not input_key_values or not expected_outputs:
        return
    if not all(map(is_numeric, expected_outputs.values())):
        return
    weights = Path(mlmodel.weights_dir).parent if mlmodel.weights_dir else None
    content = cast("bytes", model.SerializeToString())
    inputs, tolerances = (input_key_values, expected_outputs), (rtol, atol, allow_mismatch_ratio)
    judged = judge(Case(current["test"], current["parameters"], content, weights, *inputs, *tolerances))
    line = {
        "test": judged.test,
        "operators": judged.operators,
        "outcome": judged.outcome.value,
        "reason": judged.reason,
        "detail": judged.detail,
    }
    with OUT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def is_numeric(value: object) -> bool:
    """Return whether an expected output is made of numbers or booleans."""
    return np.asarray(value).dtype.kind in "biuf"
