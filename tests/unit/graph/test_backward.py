"""`backward` and `backward_from`: what they return, frontiers, users' rules, wrong calls, and how the work grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge import autograd
from aneforge.graph import gradients
from aneforge.graph.graph import topological_order
from aneforge.graph.node import build
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.ops.types import Array


def values(tensors: dict[str, af.Tensor], feeds: dict[str, Array]) -> dict[str, Array]:
    graph = af.Graph(tensors)
    return af.reference(graph, {name: feeds[name] for name in graph.inputs})


def mean(x: af.Tensor) -> af.Tensor:
    """Return the mean over all axes."""
    return af.Tensor(build("reduce_mean", {"x": x}, {"keep_dims": True}))


@pytest.fixture
def own_rules() -> Iterator[None]:
    before = dict(gradients.RULES)
    yield
    gradients.RULES.clear()
    gradients.RULES.update(before)


def test_a_network_of_two_layers() -> None:
    x, w, v = af.input((4, 3), name="x"), af.input((3, 5), name="w"), af.input((5, 1), name="v")
    loss = mean(((x @ w).tanh() @ v).square())
    found = af.backward(loss, [w, v])
    assert list(found) == [w, v]
    generator = np.random.default_rng(0)
    feeds = {"x": generator.normal(size=(4, 3)), "w": generator.normal(size=(3, 5)), "v": generator.normal(size=(5, 1))}
    given = values({"w": found[w], "v": found[v]}, feeds)
    hidden = np.tanh(feeds["x"] @ feeds["w"])
    error = hidden @ feeds["v"] * (2 / 4)
    np.testing.assert_allclose(given["v"], hidden.T @ error)
    np.testing.assert_allclose(given["w"], feeds["x"].T @ (error @ feeds["v"].T * (1 - hidden**2)))


def test_the_scale_multiplies_every_gradient() -> None:
    x = af.input((1, 3), name="x")
    feeds = {"x": np.array([[1.0, -2.0, 4.0]])}
    scaled = af.backward(x.square().sum(), [x], loss_scale=1024)[x]
    assert values({"y": scaled}, feeds)["y"].tolist() == [[2048, -4096, 8192]]


def test_a_tensor_with_several_readers_gets_the_sum() -> None:
    x = af.input((1, 2), name="x")
    loss = (x * x + x * 3.0 + x).sum()
    found = af.backward(loss, [x])[x]
    assert values({"y": found}, {"x": np.array([[1.0, 5.0]])})["y"].tolist() == [[6, 14]]


def test_gradients_go_no_further_than_the_frontier() -> None:
    """The updated weight of one step is the weight of the next, and its gradient is its own."""
    w = af.input((1, 2), name="w")
    updated = w - w * 0.5
    loss = updated.square().sum()
    first = af.backward(loss, [updated])[updated]
    assert w.node in topological_order([first]), "it is computed from the first weight"
    feeds = {"w": np.array([[4.0, -2.0]])}
    assert values({"y": first}, feeds)["y"].tolist() == [[4, -2]]
    assert values({"y": af.backward(loss, [w])[w]}, feeds)["y"].tolist() == [[2, -1]]
    both = af.backward(loss, [w, updated], stop=[w])
    assert values({"w": both[w], "u": both[updated]}, feeds)["w"].tolist() == [[2, -1]]
    with pytest.raises(af.errors.GraphError, match="does not depend on this parameter"):
        af.backward(loss, [w], stop=[updated])


def test_a_gradient_may_come_from_several_tensors() -> None:
    x, g, h = af.input((1, 2), name="x"), af.input((1, 2), name="g"), af.input((1, 2), name="h")
    found = af.backward_from([g, h, h], [x * 2.0, x.square(), x * 2.0], [x])[x]
    feeds = {"x": np.array([[1.0, 3.0]]), "g": np.array([[1.0, 1.0]]), "h": np.array([[10.0, 100.0]])}
    assert values({"y": found}, feeds)["y"].tolist() == [[2 + 20 + 20, 2 + 600 + 200]]


def test_a_parameter_behind_steps_alone_gets_zeros() -> None:
    x = af.input((1, 2), name="x")
    found = af.backward((x.sign() * 3.0).sum(), [x])[x]
    assert values({"y": found}, {"x": np.array([[1.0, -2.0]])})["y"].tolist() == [[0, 0]]


def test_a_users_rule_comes_first(own_rules: None) -> None:
    del own_rules

    @autograd.vjp("round", "floor")
    def straight_through(node: af.Tensor, g: af.Tensor) -> list[af.Tensor | None]:
        assert node.op in ("round", "floor")
        assert node.srcs[0].shape == node.shape
        return [g * 5.0]

    x = af.input((1, 2), name="x")
    rounded = af.Tensor(build("round", {"x": x * 2.0}, {}))
    found = af.backward(rounded.sum(), [x])[x]
    graph = af.Graph({"y": found})
    assert af.reference(graph, {name: np.ones((1, 2)) for name in graph.inputs})["y"].tolist() == [[10, 10]]
    assert straight_through.__name__ == "straight_through"


def test_wrong_rules_are_named(own_rules: None) -> None:
    del own_rules
    x = af.input((1, 2), name="x")

    @autograd.vjp("tanh")
    def too_many(_: af.Tensor, g: af.Tensor) -> list[af.Tensor | None]:
        return [g, g]

    with pytest.raises(af.errors.GraphError, match=r"tanh at .*: a rule must give a gradient, or None, for every"):
        af.backward(x.tanh().sum(), [x])

    @autograd.vjp("tanh")
    def too_small(_: af.Tensor, g: af.Tensor) -> list[af.Tensor | None]:
        return [g.sum()]

    with pytest.raises(af.errors.GraphError, match=r"the rule of tanh gave a gradient of a different type"):
        af.backward(x.tanh().sum(), [x])
    assert too_many is not too_small
    with pytest.raises(af.errors.UnknownNameError, match="unknown operation 'tahn'"):
        autograd.vjp("tahn")
    with pytest.raises(af.errors.GraphError, match="a rule needs the name of an operation"):
        autograd.vjp()


def test_an_operation_without_a_rule_is_named_with_its_place_and_what_to_do() -> None:
    x = af.input((9, 2), name="x")
    made = af.Tensor(build("matrix_decomposition", {"x": x}, {}))
    with pytest.raises(NotImplementedError, match="no vjp for op") as caught:
        af.backward(mean(made), [x])
    text = str(caught.value)
    assert text.startswith("matrix_decomposition at ")
    assert "test_backward.py" in text
    assert "no source gives the mathematics" in text
    assert '@aneforge.autograd.vjp("matrix_decomposition")' in text


def test_wrong_calls_are_one_error_each() -> None:
    x, w, other = af.input((1, 2), name="x"), af.input((1, 2), name="w"), af.input((1, 2), name="other")
    pixels = af.input((1, 2), dtype="uint8", name="pixels")
    loss = (x * w).sum()
    with pytest.raises(af.errors.GraphError, match=r"does not depend on this parameter \(got params\[1\], 'other'"):
        af.backward(loss, [w, other])
    with pytest.raises(af.errors.GraphError, match=r"the loss must be one number \(got shape \[1, 2\]"):
        af.backward(x * w, [w])
    with pytest.raises(af.errors.GraphTypeError, match="params must be of floating-point numbers"):
        af.backward(loss, [pixels])
    with pytest.raises(af.errors.GraphTypeError, match="the loss must be a tensor"):
        af.backward(3.0, [w])  # pyright: ignore[reportArgumentType] - the mistake that is tested
    with pytest.raises(af.errors.GraphTypeError, match="params must be tensors"):
        af.backward(loss, [np.ones(2)])  # pyright: ignore[reportArgumentType] - as above
    with pytest.raises(af.errors.GraphTypeError, match="params must be tensors"):
        af.backward(loss, 3)  # pyright: ignore[reportArgumentType] - as above
    with pytest.raises(af.errors.GraphError, match="there are no parameters"):
        af.backward(loss, [])
    for scale in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(af.errors.GraphError, match="loss_scale must be a positive number"):
            af.backward(loss, [w], loss_scale=scale)
    with pytest.raises(af.errors.GraphTypeError, match="loss_scale is not a number"):
        af.backward(loss, [w], loss_scale="auto")  # pyright: ignore[reportArgumentType] - as above
    with pytest.raises(af.errors.GraphError, match="loss_scale is too large for the element type"):
        af.backward(loss, [w], loss_scale=1e6)
    with pytest.raises(af.errors.GraphError, match=r"the gradient must have the type of its root"):
        af.backward_from(x, loss, [w])
    with pytest.raises(af.errors.GraphError, match="every root needs one gradient"):
        af.backward_from([x, x], [x], [x])


def chain(length: int) -> tuple[af.Tensor, af.Tensor]:
    """Return a loss of a chain of layers that all read one weight, and the weight."""
    w = af.input((1, 2), name="w")
    x = af.input((1, 2), name="x")
    for _ in range(length):
        x = (x * w).relu() + x
    return x.sum(), w


def test_work_is_linear_in_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 nodes: every node is visited once, and what is built per node does not grow."""
    visits: list[int] = []
    original = gradients.Passage.passed_on

    def counted(self: gradients.Passage, node: object, incoming: object) -> object:
        visits[-1] += 1
        return original(self, node, incoming)  # pyright: ignore[reportArgumentType] - passed on

    monkeypatch.setattr(gradients.Passage, "passed_on", counted)
    built: list[int] = []
    for length in (10, 3333):
        loss, w = chain(length)
        visits.append(0)
        found = af.backward(loss, [w])[w]
        built.append(len(topological_order([found])))
    assert visits == [3 * 10 + 1, 3 * 3333 + 1]
    assert built[1] / 3333 < 1.05 * built[0] / 10


def test_constants_are_folded_and_nothing_is_multiplied_by_one() -> None:
    x = af.input((2, 3), name="x")
    weight = Dense(np.ones((3, 2), np.float16))
    loss = mean(af.Tensor(build("matmul", {"x": x, "y": weight}, {})))
    names = [node.op.name for node in topological_order([af.backward(loss, [x])[x]])]
    assert names == ["fill"]
    squares = [node.op.name for node in topological_order([af.backward(mean(x.square()), [x])[x]])]
    assert "mul" not in squares
    assert squares.count("muls") <= 2


def test_a_gradient_runs_on_the_engine() -> None:
    x, w = af.input((4, 8), name="x"), af.input((8, 3), name="w")
    loss = mean((x @ w).relu().square())
    model = af.compile(af.backward(loss, [w], loss_scale=64.0)[w], target="m1")
    generator = np.random.default_rng(0)
    feeds = [generator.uniform(-1, 1, (4, 8)).astype(np.float16), generator.uniform(-1, 1, (8, 3)).astype(np.float16)]
    result = np.asarray(model(*feeds), np.float64)
    inputs, weight = (one.astype(np.float64) for one in feeds)
    expected = inputs.T @ (np.maximum(inputs @ weight, 0) * 2 * 64 / 12)
    np.testing.assert_allclose(result, expected, rtol=2e-2, atol=2e-2)
