"""Misuse of the builder: every argument of every function and method, replaced by everything that it is not.

Whatever is given, there is one error of the package's own, which names the operation and the line of the caller;
nothing wrong is accepted, nothing hangs, nothing takes the machine's memory.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError
from aneforge.graph import special
from aneforge.graph.builder import einsum
from aneforge.graph.tensor import Tensor
from builder_calls import BUILDER, CALLS, FUNCTIONS, METHODS, OPERATORS, PLAIN, Kind, one_error, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def generated() -> Iterator[int]:
    yield 1


ALWAYS: dict[str, object] = {
    "text": "text",
    "bytes": b"ab",
    "complex": 1j,
    "object": object(),
    "type": np.float16,
    "dictionary": {"a": 1},
    "set": {1, 2},
    "generator": generated(),
    "ragged": [[1.0, 2.0], [3.0]],
    "texts": ["a", "b"],
    "array of texts": np.array(["a", "b"]),
    "array of objects": np.array([None, object()]),
    "truths": [True, False],
    "array of truths": np.array([True, False]),
    "true": True,
    "numpy's true": np.bool_(True),  # noqa: FBT003 - the value itself is the subject
    "huge": 10**400,
    "huge digits": 10**5000,
    "huges": [10**400],
    "range": range(10**12),
    "nested": [[1, 2], [3, 4]],
    "tensors nested": [[tensor(1)]],
}
OTHER: dict[str, object] = {
    "none": None,
    "nan": math.nan,
    "infinity": math.inf,
    "fraction": 1.5,
    "numpy's fraction": np.float32(1.5),
    "array of no axes": np.array(1),
    "integers": [1, 2],
    "array of integers": np.array([1, 2]),
    "array of numbers": np.array([1.5, 2.5]),
    "numbers": [1.5, 2.5],
    "nothing": [],
    "empty text": "",
    "tensor": tensor(1, 4),
    "list of a tensor": [tensor(1, 4)],
    "negative": -7,
    "far": 10**18,
}
NUMBERS = {"fraction", "numpy's fraction", "negative", "far"}
LISTS = {"integers", "array of integers", "nothing"}
ARRAYS = {"array of numbers", "numbers", "nothing"}
FITS: dict[Kind, set[str]] = {
    Kind.TENSOR: {"tensor"},
    Kind.TENSORS: {"list of a tensor"},
    Kind.ARRAY: ARRAYS,
    Kind.OPTIONAL_ARRAY: {"none", *ARRAYS},
    Kind.PARAMETER: {"tensor", *ARRAYS},
    Kind.OPERAND: {"tensor", "nan", "infinity", *NUMBERS, *ARRAYS},
    Kind.MATRIX: {"tensor", *ARRAYS},
    Kind.MASK: {"none", "tensor", *ARRAYS},
    Kind.WHOLE: {"negative", "far"},
    Kind.OPTIONAL_WHOLE: {"none", "negative", "far"},
    Kind.WHOLES: LISTS,
    Kind.OPTIONAL_WHOLES: {"none", *LISTS},
    Kind.WHOLE_OR_WHOLES: {"negative", "far", *LISTS},
    Kind.PADDING: {"negative", "far", *LISTS},
    Kind.NUMBER: NUMBERS,
    Kind.OPTIONAL_NUMBER: {"none", *NUMBERS},
    Kind.NUMBER_OR_NUMBERS: {*NUMBERS, *ARRAYS, *LISTS},
    Kind.FLAG: set(),
    Kind.TEXT: {"empty text"},
    Kind.OPTIONAL_TEXT: {"none", "empty text"},
}
"""What may be right for an argument of a kind, and is left out of the trial by type; the tables below try it."""
RIGHT: dict[Kind, set[str]] = {
    Kind.FLAG: {"true", "numpy's true"},
    Kind.TEXT: {"text"},
    Kind.OPTIONAL_TEXT: {"text"},
}
INFINITE = {"clip", "clamp", "adds", "muls"}
"""Numbers that may be infinite, or no number, as in arithmetic."""


def wrong_values(name: str, kind: Kind) -> dict[str, object]:
    """Return what an argument of a kind cannot be."""
    wrong = {what: value for what, value in ALWAYS.items() if what not in RIGHT.get(kind, ())}
    wrong |= {what: value for what, value in OTHER.items() if what not in FITS[kind]}
    if name.removeprefix("x.") in INFINITE:
        del wrong["nan"], wrong["infinity"]
    return wrong


def test_every_function_is_tried() -> None:
    public = {name for module in BUILDER for name in module.__all__}
    assert set(FUNCTIONS) == {name for name in public if not inspect.isclass(getattr(einsum, name, None))}
    methods = {name for name, _ in inspect.getmembers(Tensor, inspect.isfunction) if not name.startswith("_")}
    assert {*METHODS, *PLAIN, "reshape", "apply"} - {*OPERATORS, "__matmul__"} == methods


@pytest.mark.parametrize("name", CALLS)
def test_the_call_itself_is_right(name: str) -> None:
    function, arguments = CALLS[name]
    function(**{argument: value for argument, (_, value) in arguments.items()})


@pytest.mark.parametrize(("name", "argument"), [(name, one) for name, call in CALLS.items() for one in call.arguments])
def test_a_wrong_argument_is_one_error(name: str, argument: str) -> None:
    function, arguments = CALLS[name]
    right = {known: value for known, (_, value) in arguments.items()}
    for what, value in wrong_values(name, arguments[argument][0]).items():
        try:
            one_error(lambda value=value: function(**{**right, argument: value}))
        except BaseException as error:
            error.add_note(f"{name} with {argument} = {what}")
            raise


@pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_extreme_arguments_neither_hang_nor_take_memory(name: str) -> None:
    function, arguments = CALLS[name]
    right = {known: value for known, (_, value) in arguments.items()}
    for argument in arguments:
        for value in ("tensor", "negative", "far", "nothing", "numbers", "empty text", "integers"):
            try:
                function(**{**right, argument: OTHER[value]})
            except GraphError as error:
                assert error.operation  # noqa: PT017 - it may be right for some
                assert error.location  # noqa: PT017


@pytest.mark.parametrize(
    "function",
    [
        *(call.function for name, call in FUNCTIONS.items() if name != "einsum"),
        af.einsum,
        *(getattr(special, name) for name in special.__all__),
        *(function for name, function in inspect.getmembers(Tensor, inspect.isfunction) if not name.startswith("_")),
    ],
    ids=lambda function: getattr(function, "__qualname__", "function"),
)
def test_every_function_has_an_example(function: Callable[..., object]) -> None:
    assert ">>>" in (function.__doc__ or "")
