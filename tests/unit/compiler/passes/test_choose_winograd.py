"""Winograd: measured for one form of convolution, unknown for its relatives, direct for the rest."""

from __future__ import annotations

import numpy as np
import pytest

from aneforge.compiler.passes.choose_winograd import ChooseWinograd
from aneforge.ops.constant import Sparse
from legalisation_tools import changed, constant, convolution, layer, program_of, value

X = value("x", 1, 4, 8, 8)
SAME = (1, 1, 1, 1)
CASES = {
    "3×3": (convolution(X, constant(4, 4, 3, 3), explicit_padding=SAME), True),
    "odd width": (convolution(value("x", 1, 4, 8, 7), constant(4, 4, 3, 3), explicit_padding=SAME), "unknown"),
    "groups": (convolution(X, constant(4, 2, 3, 3), groups=2, explicit_padding=SAME), "unknown"),
    "dilation": (convolution(X, constant(4, 4, 3, 3), dilation_rates=(2, 2)), "unknown"),
    "live kernel": (convolution(X, value("w", 4, 4, 3, 3), explicit_padding=SAME), "unknown"),
    "5×3": (convolution(X, constant(4, 4, 5, 3)), "unknown"),
    "one axis": (convolution(value("x", 1, 4, 8), constant(4, 4, 3)), "unknown"),
    "7×3": (convolution(X, constant(4, 4, 7, 3)), False),
    "1×1": (convolution(X, constant(4, 4, 1, 1)), False),
    "5×5": (convolution(X, constant(4, 4, 5, 5)), False),
    "stride 2": (convolution(X, constant(4, 4, 3, 3), strides=(2, 2)), False),
    "sparse": (
        convolution(X, Sparse(np.ones((4, 4, 3, 3), np.bool_), np.ones(144, np.float16)), explicit_padding=SAME),
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_where_the_target_has_it(name: str) -> None:
    one, expected = CASES[name]
    made = ChooseWinograd()(program_of("h17s", one)).program
    assert made.layers[0].choices["winograd"] == expected
    assert not ChooseWinograd()(made).modified


@pytest.mark.parametrize("name", CASES)
def test_where_the_target_has_it_not(name: str) -> None:
    for target in ("h13", "h14", "h16g", changed("h17s", winograd_on_width=False)):
        assert ChooseWinograd()(program_of(target, CASES[name][0])).program.layers[0].choices["winograd"] is False


@pytest.mark.parametrize("name", CASES)
def test_where_no_source_tells(name: str) -> None:
    one, expected = CASES[name]
    found = ChooseWinograd()(program_of(changed("h13", winograd_on_width=None), one)).program
    assert found.layers[0].choices["winograd"] == (False if expected is False else "unknown")


def test_the_field_alone_decides() -> None:
    made = ChooseWinograd()(program_of(changed("h13", winograd_on_width=True), CASES["3×3"][0])).program
    assert made.layers[0].choices["winograd"] is True


def test_other_layers_are_left_alone() -> None:
    assert not ChooseWinograd()(program_of("h17s", layer("relu", {"x": X}, "y"))).modified
