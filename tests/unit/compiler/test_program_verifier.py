"""The verifier: every way in which a program can be wrong, once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.ir.layer import Epilogue, Layer, Stage, Value
from aneforge.compiler.ir.program import Note, Port, Program, State
from aneforge.compiler.ir.verifier import verify
from aneforge.errors import GraphError
from aneforge.ops.constant import Dense
from aneforge.ops.types import TensorType
from program_tools import lowered

if TYPE_CHECKING:
    from collections.abc import Callable

WIDE, NARROW = TensorType((2, 4)), TensorType((1, 4))


def program() -> Program:
    x = af.input((1, 4), name="x")
    return lowered({"y": (x + x).relu()})


def relu(**changes: object) -> Layer:
    kind = find_kind("relu")
    layer = Layer(
        kind=kind,
        operands={"x": Value("t0", NARROW)},
        attributes={},
        results=(Value("t9", NARROW),),
        engine=Engine.PE,
    )
    return replace(layer, **changes)  # pyright: ignore[reportArgumentType] - fields by name


def read_wide() -> Layer:
    return relu(operands={"x": Value("t0", WIDE)}, results=(Value("t9", WIDE),))


def behind(**slots: Stage) -> Layer:
    return relu(epilogue=Epilogue(**slots))


def with_layer(layer: Layer) -> Program:
    return replace(program(), layers=(*program().layers, layer))


def stage(name: str) -> Stage:
    return Stage(find_kind(name), {}, find_kind(name).complete({}))


WRONG: list[tuple[str, Callable[[], Program], str]] = [
    ("written twice", lambda: with_layer(relu(results=(Value("t1", NARROW),))), "%t1 is written twice"),
    (
        "read too early",
        lambda: with_layer(relu(operands={"x": Value("t8", NARROW)})),
        "before it is written",
    ),
    (
        "another type",
        lambda: with_layer(relu(operands={"x": Value("t0", WIDE)}, results=(Value("t9", WIDE),))),
        "as another type",
    ),
    ("wrong result", lambda: with_layer(relu(results=(Value("t9", WIDE),))), "not those that the layer gives"),
    ("wrong unit", lambda: with_layer(relu(engine=Engine.DMA)), "no such unit runs it"),
    (
        "attributes missing",
        lambda: with_layer(relu(kind=find_kind("reshape"), engine=Engine.DMA)),
        "'shape' is missing",
    ),
    (
        "no such slot",
        lambda: with_layer(behind(texture=stage("relu"))),
        "there is no texture slot after it",
    ),
    (
        "cannot fill",
        lambda: with_layer(behind(transpose=stage("relu"))),
        "cannot fill the transpose slot",
    ),
    (
        "list wanted",
        lambda: with_layer(relu(operands={"x": (Value("t0", NARROW),)})),
        "is a list of tensors",
    ),
    ("segments", lambda: with_layer(relu(segment=2)), "out of the order of segments"),
    ("output", lambda: replace(program(), outputs=(Port("y", Value("t7", WIDE)),)), "output 'y' reads %t7"),
    ("empty note", lambda: replace(program(), notes=(Note("pass", "t1", ""),)), "says nothing"),
    (
        "constant wanted",
        lambda: with_layer(
            relu(
                kind=find_kind("gain_offset_control"),
                operands={"input": Value("t0", NARROW), "gain": Value("t1", NARROW)},
                attributes={"axis": 1},
            )
        ),
        "operand 'gain' must be a constant",
    ),
    (
        "state type",
        lambda: replace(program(), states=(State("s", Value("s", WIDE), Value("t1", NARROW)),)),
        "changes its type",
    ),
]


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_is_named(make: Callable[[], Program], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        verify(make())


def test_gain_and_offset_fit_the_channels() -> None:
    kind = find_kind("gain_offset_control")
    held = Stage(kind, {"gain": Dense(np.ones(3))}, kind.complete({"axis": 1}))
    with pytest.raises(GraphError, match="neither one number nor one for every channel"):
        verify(with_layer(relu(epilogue=Epilogue(gain_offset=held))))


def test_an_error_names_layer_and_place() -> None:
    place = af.errors.Location("model.py", 7)
    with pytest.raises(GraphError, match=r"anec\.relu %t9 at model\.py:7"):
        verify(with_layer(relu(engine=Engine.DMA, location=place)))


def test_slots_are_in_the_order_of_the_hardware() -> None:
    assert [slot.value for slot in Slot] == [
        "texture",
        "broadcast",
        "pre_activation",
        "gain_offset",
        "post_activation",
        "transpose",
        "quantise",
    ]
    filled = Epilogue(post_activation=stage("relu"), pre_activation=stage("tanh"))
    assert [slot for slot, _ in filled] == [Slot.PRE_ACTIVATION, Slot.POST_ACTIVATION]
    assert filled.last is Slot.POST_ACTIVATION
