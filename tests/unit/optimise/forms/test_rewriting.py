"""Rewritings: those that change no bit change none, and those that may mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.ops.groups.activation import GELU_MODES
from aneforge.optimise.forms.canonical import canonical
from aneforge.optimise.forms.numeric import const_fold, simplify_scalars

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(1, 64, 32, 32)
PLAIN = (
    *("abs", "atan", "ceil", "erf", "exp", "exp2", "floor", "gelu", "leaky_relu", "log", "relu", "relu6", "round"),
    *("sigmoid", "sign", "silu", "softplus", "softsign", "sqrt", "square", "tanh"),
)
WEIGHT = np.random.default_rng(0).standard_normal((64, 64, 1, 1)) / 8


def names(graph: af.Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def bits(graph: af.Graph, target: str) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.uint16]]]:
    found = af.run(af.build_program(graph, target), {"x": EVERY_HALF}).outputs
    return {name: np.asarray(value, np.float16).view(np.uint16) for name, value in found.items()}


@pytest.mark.parametrize("target", ["h13", "h14", "h15", "h16g", "h17s"])
def test_every_function_that_rules_rely_on_gives_what_they_rely_on(target: str) -> None:
    x = af.input(EVERY_HALF.shape, name="x")
    modes = {f"gelu {mode}": af.Tensor(build("gelu", {"x": x}, {"mode": mode})) for mode in GELU_MODES}
    plain = {name: getattr(x, name)() for name in PLAIN} | modes
    more = {name: value * 1.0 + 0.0 for name, value in plain.items()}
    shorter = canonical(af.Graph(more))
    assert len(shorter.nodes) < len(af.Graph(more).nodes) - len(PLAIN)
    found, wanted = bits(shorter, target), bits(af.Graph(more), target)
    assert [name for name in plain if not np.array_equal(found[name], wanted[name])] == []


def test_products_with_one_and_sums_with_zero() -> None:
    x = af.input((1, 4))
    assert names(canonical(af.Graph({"y": x.relu() * 1.0 + 0.0}))) == ["input", "relu"]
    # After an input they do something: NaN becomes infinite, −0 becomes 0.
    assert names(canonical(af.Graph({"y": x * 1.0}))) == ["input", "muls"]
    assert names(canonical(af.Graph({"y": x.tanh() + 0.0}))) == ["input", "tanh", "adds"]
    assert names(canonical(af.Graph({"y": x.relu() * 2.0 + 1.0}))) == ["input", "relu", "muls", "adds"]


def test_what_no_engine_runs_is_left_to_the_rules() -> None:
    y = af.Tensor(build("asin", {"x": af.input((1, 4))})) * 1.0
    assert names(canonical(af.Graph({"y": y}))) == ["input", "asin", "muls"]


STEPS = ["relu", "sigmoid", "abs", "square", "conv", "scale", "shift", "residual"]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(["", "one", "zero", "turn"])), min_size=1, max_size=5)
)
def test_a_canonical_graph_gives_the_same_bits(steps: list[tuple[str, str]]) -> None:
    x = y = af.input(EVERY_HALF.shape, name="x")
    for step, idle in steps:
        match step:
            case "conv":
                y = af.conv(y, WEIGHT)
            case "scale":
                y = y * 1.7
            case "shift":
                y = y + 0.3
            case "residual":
                y = y + x
            case _:
                y = getattr(y, step)()
        match idle:
            case "one":
                y = y * 1.0
            case "zero":
                y = y + 0.0
            case "turn":
                y = y.transpose(0, 2, 3, 1).transpose(0, 3, 1, 2)
            case _:
                pass
    graph = af.Graph({"y": y})
    assert np.array_equal(bits(canonical(graph), "h13")["y"], bits(graph, "h13")["y"])


def test_scalars_are_joined_where_fp16_holds_them() -> None:
    x = af.input((1, 4))
    assert names(simplify_scalars(af.Graph({"y": x * 2.0 * 3.0 + 1.0 + 2.0}))) == ["input", "muls", "adds"]
    assert names(simplify_scalars(af.Graph({"y": x * 1e3 * 1e3}))) == ["input", "muls", "muls"]
    assert names(simplify_scalars(af.Graph({"y": x * 1e-5 * 1e-5}))) == ["input", "muls", "muls"]
    values = np.array([[1.0, -2.0, 0.5, 3.0]])
    joined = simplify_scalars(af.Graph({"y": x * 2.0 * 3.0 + 1.0}))
    assert af.reference(joined, [values])["y"].tolist() == (values * 6 + 1).tolist()


def test_constants_are_computed_ahead_through_lists_too() -> None:
    one = af.Tensor(build("muls", {"x": Dense(np.ones((1, 4), np.float16))}, {"k": 2.0}))
    x = af.input((1, 4))
    joined = const_fold(af.Graph({"y": af.concat([x, one.exp(), one], axis=1)}))
    assert names(joined) == ["input", "concat"]
    found = af.reference(joined, [np.zeros((1, 4))])["y"]
    assert np.allclose(found, [[0] * 4 + [np.exp(2)] * 4 + [2] * 4], rtol=1e-3)
    alone = const_fold(af.Graph({"y": one.exp(), "z": x}))
    assert af.reference(alone, [np.zeros((1, 4))])["y"].shape == (1, 4)


def test_sums_become_products() -> None:
    x = af.input((2, 3, 4, 512), name="x")
    values = np.random.default_rng(1).standard_normal((2, 3, 4, 512)).astype(np.float16)
    for axes in ([-1], [1], [0, 2], [1, 3]):
        graph = af.Graph({"y": x.sum(axes)})
        made = af.reduce_sum_to_matmul(graph)
        assert isinstance(made, af.Graph)
        assert "reduce_sum" not in names(made)
        wanted = values.astype(np.float64).sum(tuple(axes), keepdims=True)
        found = af.run(af.build_program(made, "h13"), {"x": values}).outputs["y"]
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 2**-10 * np.abs(wanted).max()


def test_a_sum_that_is_too_long_for_a_product_stays() -> None:
    assert names(af.Graph({"y": af.reduce_sum_to_matmul(af.input((1, 16385)).sum(-1))})) == ["input", "reduce_sum"]
    with pytest.raises(TypeError):
        af.reduce_sum_to_matmul(np.ones(3))  # pyright: ignore[reportCallIssue, reportArgumentType] - what it refuses
