"""Lowering: every operation that some family runs becomes layers of the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.compiler.dialect import is_lowerable
from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.evaluate import evaluate_program
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.verifier import verify
from aneforge.errors import NotSupportedError
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.graph.node import build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import ops
from aneforge.rules.operations import op_status
from aneforge.targets import Target, group
from aneforge.testing.graphs import DrawnGraph, one_operation
from program_tools import ALGEBRAIC, expect_close, kinds_of, lowered

if TYPE_CHECKING:
    from aneforge.ops.op import Op
    from golden_text import Golden

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
RUNS_SOMEWHERE = [
    op
    for op in ops().values()
    if op.support.floor is not None and op.name not in (*PLACEHOLDERS, "const") and is_lowerable(op.name)
]
ROUNDED = {
    "constexpr_affine_dequantize": 2e-3,
    "constexpr_blockwise_shift_scale": 2e-3,
    "constexpr_lut_to_dense": 2e-3,
    "constexpr_sparse_blockwise_shift_scale": 2e-3,
}
"""Operations that compute a constant beforehand and round it to its element type."""


@pytest.mark.parametrize("op", RUNS_SOMEWHERE, ids=lambda op: op.name)
def test_every_operation_keeps_its_meaning(op: Op) -> None:
    @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
    @given(one_operation(op))
    def kept(drawn: DrawnGraph) -> None:
        program = lowered(drawn.graph)
        verify(program)
        assert str(parse_program(str(program), program.constants)) == str(program)
        if op.meaning is None:
            return
        wanted, _ = evaluate(drawn.graph, drawn.inputs)
        found, _ = evaluate_program(program, drawn.inputs)
        for name, array in wanted.items():
            expect_close(array, found[name], ROUNDED.get(op.name, ALGEBRAIC))

    kept()


@pytest.mark.parametrize("target", group("all"), ids=lambda target: target.name)
def test_what_is_native_is_lowerable_or_decomposed_into_what_is(target: Target) -> None:
    for op in ops().values():
        if op.name in (*PLACEHOLDERS, "const") or op_status(op.name, target) != "native":
            continue
        assert is_lowerable(op.name) or op.decompositions(), op.name


def test_what_no_family_runs_has_no_layers() -> None:
    x = af.input((2, 3))
    with pytest.raises(NotSupportedError, match=r"tan at .*: no layers of the engine make this operation"):
        lowered(Tensor(build("tan", {"x": x})))


def test_kinds_are_a_catalogue(golden: Golden) -> None:
    rows = [
        f"{name}: {'/'.join(kind.engines)}; op {kind.op}; hosts {len(kind.hosts)}; "
        f"fills {', '.join(kind.fills) or 'none'}{'; bridge' if kind.bridge else ''}; {kind.evidence.kind}"
        for name, kind in kinds().items()
    ]
    golden("\n".join(rows) + "\n")


def test_a_convolution_arrives_as_mil_hands_it_over() -> None:
    x = af.input((1, 4, 8, 8))
    weight, bias = Dense(np.ones((2, 4, 3, 3), np.float16)), Dense(np.ones(2, np.float16))
    program = lowered(af.conv(x, weight, bias=bias, stride=2, pad=1).relu())
    assert kinds_of(program) == ["convolution", "add", "relu"]
    layer = program.layers[0]
    assert layer.engine is Engine.NE
    assert dict(layer.attributes) == {
        "strides": (2, 2),
        "dilation_rates": (1, 1),
        "groups": 1,
        "explicit_padding": (1, 1, 1, 1),
        "padding_style": "EXPLICIT",
        "kernel_sizes": (3, 3),
        "weights_layout": "OIHW",
    }
    assert [value.name for value in layer.bottoms] == ["t0"]


def test_a_matmul_holds_its_direction_as_attributes() -> None:
    x, y = af.input((4, 3)), af.input((5, 4))
    program = lowered(Tensor(build("matmul", {"x": x, "y": y}, {"transpose_x": True, "transpose_y": True})))
    (layer,) = program.layers
    assert (layer.kind.name, dict(layer.attributes)) == ("matmul", {"transpose_lhs": True, "transpose_rhs": True})
    assert len(layer.bottoms) == 2


def test_same_padding_becomes_explicit() -> None:
    x = af.input((1, 1, 5, 5))
    weight = Dense(np.ones((1, 1, 2, 2), np.float16))
    attributes = {"pad_type": "same", "strides": (2, 2)}
    (conv,) = lowered(Tensor(build("conv", {"x": x, "weight": weight}, attributes))).layers
    assert conv.attributes["explicit_padding"] == (0, 1, 0, 1)
    (pool,) = lowered(Tensor(build("max_pool", {"x": x}, {"kernel_sizes": (2, 2), **attributes}))).layers
    assert (pool.attributes["pad_type"], pool.attributes["pad"]) == ("custom", (0, 1, 0, 1))


def test_what_is_known_is_computed_beforehand_and_said() -> None:
    x = af.input((2, 2))
    filled = Tensor(build("fill", {}, {"shape": (2, 2), "value": 3.0, "dtype": "fp16"}))
    program = lowered(x + filled)
    assert kinds_of(program) == ["add"]
    assert [note.text for note in program.notes] == ["fill of constants is computed beforehand"]


def test_a_constant_that_would_round_is_left_to_the_engine() -> None:
    third = Tensor(build("real_div", {"x": Dense(np.array([1], np.float16)), "y": Dense(np.array([3], np.float16))}))
    assert kinds_of(lowered(third)) == ["div"]


def test_compressed_weights_stay_compressed() -> None:
    data, scale, zero = Dense(np.ones((4, 6), np.int8)), Dense(np.ones(4, np.float16)), Dense(np.zeros(4, np.int8))
    held = {"quantized_data": data, "scale": scale, "zero_point": zero}
    weight = Tensor(build("constexpr_affine_dequantize", held, {"axis": 0}))
    x = af.input((3, 6))
    program = lowered(Tensor(build("matmul", {"x": x, "y": weight}, {"transpose_y": True})))
    (constant,) = program.constants.values()
    assert (constant.encoding, constant.nbytes) == ("int8", 4 * 6 + 4 * 2)


def test_repetition_of_axes_of_length_one_is_a_broadcast() -> None:
    x = af.input((1, 4, 1))
    assert kinds_of(lowered(x.tile((2, 1, 5)))) == ["broadcast"]
    assert kinds_of(lowered(x.tile((2, 2, 5)))) == ["tile"]


def test_a_constant_output_leaves_through_a_layer() -> None:
    filled = Tensor(build("fill", {}, {"shape": (2,), "value": 1.0, "dtype": "fp16"}))
    program = lowered(filled)
    assert kinds_of(program) == ["identity"]
    outputs, _ = evaluate_program(program, {})
    np.testing.assert_array_equal(outputs["y"], [1, 1])


def test_states_are_read_and_written() -> None:
    total = af.state("total", (2,))
    program = lowered(af.Graph({"y": total * 2.0}, {"total": total + 1.0}))
    outputs, finals = evaluate_program(program, {}, {"total": np.array([1.0, 2.0])})
    np.testing.assert_array_equal(outputs["y"], [2, 4])
    np.testing.assert_array_equal(finals["total"], [2, 3])
