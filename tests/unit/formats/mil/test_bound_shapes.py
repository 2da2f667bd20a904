"""Shapes that are given for the inputs of MIL text: those of states are fixed, and only lists of lengths are shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.formats.mil.program import parse_mil

if TYPE_CHECKING:
    from aneforge.errors import AneforgeError

TEXT = """
program(1.3) {
    func main<ios18>(tensor<fp16, [?, 3]> x, state<tensor<fp16, [2, 32]>> s) {
        tensor<fp16, [2, 32]> held = read_state(input = s)[name = string("held")];
        tensor<fp16, [?, 3]> y = relu(x = x)[name = string("y")];
    } -> (y, held);
}
"""


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ({"x": (2, 3), "s": (7, 7)}, GraphError, "'s' is a state, whose shape is fixed"),
        ({"x": None}, GraphTypeError, "the shape of input 'x' is not a list of lengths"),
        ({"x": 3}, GraphTypeError, "the shape of input 'x' is not a list of lengths"),
        ({"x": (2, 4)}, GraphError, "input 'x' has another shape"),
        ({"z": (2, 3)}, UnknownNameError, "unknown input 'z'"),
    ],
    ids=["state", "nothing", "a number", "another length", "another name"],
)
def test_what_is_no_shape_of_an_input(shapes: dict[str, Any], error: type[AneforgeError], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_mil(TEXT).graph(shapes=shapes)


def test_an_open_length_is_bound() -> None:
    assert parse_mil(TEXT).graph(shapes={"x": (5, 3)}).outputs["y"].shape == (5, 3)
