"""The trainer on bundled digits and small networks: curves, counts of compiles, comparison of targets, refusals."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.datasets import load_digits  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType] - it has none

import aneforge as af
from aneforge.errors import (
    GraphError,
    GraphTypeError,
    NotSupportedError,
    RuntimeStateError,
    SliceSaturationWarning,
    UnknownNameError,
)
from aneforge.graph import gradients
from aneforge.runtime import compile as compiling
from aneforge.train.batches import Batches

if TYPE_CHECKING:
    from collections.abc import Callable


Array = npt.NDArray[Any]
BATCH, CLASSES = 50, 10


@cache
def digits() -> tuple[Array, Array]:
    pixels, labels = cast("tuple[Array, Array]", load_digits(return_X_y=True))
    return (pixels / 16).astype(np.float32), labels.astype(np.int64)


def first_values() -> tuple[Array, Array, Array]:
    random = np.random.default_rng(0)
    hidden = random.standard_normal((64, 32)) * np.sqrt(2 / 64)
    out = random.standard_normal((32, CLASSES)) * np.sqrt(2 / 32)
    return hidden.astype(np.float32), out.astype(np.float32), np.zeros((1, CLASSES), np.float32)


class Perceptron:
    """Inputs, parameters and objective of a small classifier."""

    def __init__(self) -> None:
        self.x, self.t = af.input((BATCH, 64), max_abs=1, name="x"), af.input((BATCH, CLASSES), name="t")
        hidden, out, bias = first_values()
        self.params = [af.parameter(hidden, name="hidden"), af.parameter(out, name="out"), af.parameter(bias)]
        self.logits = (self.x @ self.params[0]).relu() @ self.params[1] + self.params[2]
        self.objective = af.softmax_cross_entropy(self.logits, self.t)

    def trainer(self, target: str = "m1", rows: int = 1000, **options: Any) -> af.Trainer:  # noqa: ANN401 - passed on
        """Return a trainer with data."""
        chosen = cast("dict[str, Any]", {"lr": 0.01, "optimizer": "adam", "loss_scale": 1024.0, **options})
        made = af.Trainer(self.objective, self.params, target=target, **chosen)
        pixels, labels = digits()
        made.set_dataset(self.x, pixels[:rows], self.t, np.eye(CLASSES)[labels[:rows]])
        return made


@cache
def float32_losses(steps: int) -> list[float]:
    """Return the losses of the same run in float32, its gradients written out by hand."""
    hidden, out, bias = params = [af.parameter(one) for one in first_values()]
    optimizer = af.Adam(params, 0.01)
    batches = Batches(1000, BATCH, np.random.default_rng(0))
    pixels, labels = digits()
    losses: list[float] = []
    for _ in range(steps):
        rows = batches.take()
        x, wanted = pixels[rows], np.eye(CLASSES, dtype=np.float32)[labels[rows]]
        inner = np.maximum(x @ hidden.value, 0)
        scores = np.exp(inner @ out.value + bias.value)
        shares = scores / scores.sum(axis=1, keepdims=True)
        losses.append(float(-np.log((shares * wanted).sum(axis=1)).mean()))
        back = (shares - wanted) / BATCH
        inner_back = (back @ out.value.T) * (inner > 0)
        optimizer.step([x.T @ inner_back, inner.T @ back, back.sum(axis=0, keepdims=True)])
    return losses


@pytest.mark.parametrize("target", ["m1", "m4"])
def test_a_classifier_learns_as_in_float32_and_nothing_is_compiled_in_a_run(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []
    build = compiling.build_or_find

    def counted(graph: af.Graph, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on
        compiled.append(graph)
        return build(graph, *given, **named)

    monkeypatch.setattr(compiling, "build_or_find", counted)
    trainer = Perceptron().trainer(target)
    before = trainer.loss()
    losses = [trainer.step() for _ in range(60)]
    pixels, labels = digits()
    accuracy = trainer.accuracy(pixels[1000:], labels[1000:])  # 797 rows: the last batch is not full
    trainer.report()
    assert len(compiled) == 2
    assert losses[0] == before
    assert trainer.loss() < 0.5
    assert accuracy > 0.85
    wanted = float32_losses(60)
    np.testing.assert_allclose(losses[:10], wanted[:10], rtol=0.01)
    assert abs(np.mean(losses[-10:]) - np.mean(wanted[-10:])) < 0.02


def test_batches_are_those_of_the_experiment() -> None:
    random = np.random.default_rng(0)
    batches = Batches(7, 3, np.random.default_rng(0))
    first, second = random.permutation(7), random.permutation(7)
    taken = [batches.take().tolist() for _ in range(3)]
    assert taken == [first[:3].tolist(), first[3:6].tolist(), second[:3].tolist()]


def test_accumulated_batches_are_one_update_of_their_mean() -> None:
    network = Perceptron()
    one = network.trainer(optimizer="sgd", accumulate=2, lr=0.5)
    values = one.run.step()
    first = Perceptron().trainer(optimizer="sgd", lr=0.0)
    halves = [first.run.step() for _ in range(2)]
    for place, gradient in enumerate(values.gradients):
        np.testing.assert_array_equal(gradient, (halves[0].gradients[place] + halves[1].gradients[place]) / 2)
    assert values.loss == (halves[0].loss + halves[1].loss) / 2
    assert one.optimizer.steps == 1


def test_a_scalar_loss_trains_from_fixed_data() -> None:
    random = np.random.default_rng(1)
    rows = random.standard_normal((32, 4)).astype(np.float32)
    x, t, w = af.input((32, 4)), af.input((32, 1)), af.parameter(np.zeros((4, 1)))
    data = {x: rows, t: rows @ np.array([[1.0], [-1.0], [0.5], [2.0]])}
    trainer = af.Trainer(af.mse(x @ w, t), [w], lr=0.2, data_inputs=data, momentum=0.5, loss_scale=64, target="m2")
    for _ in range(60):
        trainer.step()
    assert trainer.loss() < 1e-3
    np.testing.assert_allclose(w.value.ravel(), [1.0, -1.0, 0.5, 2.0], atol=0.02)
    assert trainer.parameters == (w,)
    trainer.release()
    with pytest.raises(RuntimeStateError, match="released"):
        trainer.step()


def test_a_step_whose_gradient_overflows_is_skipped() -> None:
    x, w = af.input((1, 2)), af.parameter(np.full((1, 2), 200.0))
    trainer = af.Trainer((x * w).square().sum(), [w], lr=0.1, loss_scale=1024, data_inputs={x: [[8, 8]]}, target="m1")
    with pytest.warns(UserWarning, match="non-finite"):
        trainer.step()
    assert w.value.tolist() == [[200.0, 200.0]]


def test_runs_on_one_target_are_equal_and_a_comparison_leaves_the_trainer_as_it_is() -> None:
    trainer, other = Perceptron().trainer(), Perceptron().trainer()
    assert [trainer.step() for _ in range(3)] == [other.step() for _ in range(3)]
    found = trainer.compare("m1", steps=2)
    assert found.equal
    assert str(found).startswith("2 steps on h13 and h13: equal bits in every tensor; loss of the last step")
    assert trainer.compare("m2", steps=1).targets == ("h13", "h14g")
    assert [trainer.step() for _ in range(2)] == [other.step() for _ in range(2)] == list(found.losses[0])
    assert [one.value.tolist() for one in trainer.parameters] == [one.value.tolist() for one in other.parameters]


def test_a_comparison_names_the_first_step_and_tensor_that_differ() -> None:
    """Slices of the width saturate on one of the targets alone."""
    x, w = af.input((1, 1, 1, 8), name="x"), af.parameter(np.ones((1, 1, 1, 4)), name="w")
    loss = (x.slice_by_size([0, 0, 0, 2], [1, 1, 1, 4]) * w).mean((0, 1, 2, 3))
    with pytest.warns(SliceSaturationWarning):
        trainer = af.Trainer(loss, [w], lr=0.5, data_inputs={x: np.full((1, 1, 1, 8), 5000.0)}, target="m1")
    found = trainer.compare("m5", steps=1)
    assert found.first is not None
    assert (found.first.step, found.first.tensor, found.first.elements) == (1, "loss", 1)
    assert found.losses[1] == (5000.0,)
    assert found.losses[0][0] > 8000
    assert "first difference at step 1, loss: 1 of 1 elements differ, by 1.14e+04 at most" in str(found)
    assert [one.tensor for one in found.last] == ["w"]
    assert "<pre>" in found._repr_html_()  # pyright: ignore[reportPrivateUsage] - what notebooks call


def test_the_report_says_what_a_step_is() -> None:
    report = Perceptron().trainer(accumulate=2).report()
    text = str(report)
    assert len(text.splitlines()) <= 40
    assert text.startswith("training on h13: Adam on the host in float32, loss_scale 1024, 0 steps taken")
    assert [program.name for program in report.programs] == ["step", "forward"]
    assert report.parameters == 64 * 32 + 32 * 10 + 10
    assert report.bytes_host == 3 * 4 * report.parameters
    assert report.microseconds == 2 * report.programs[0].cost.microseconds
    assert report.programs[0].layers > report.programs[1].layers
    assert "on h13" in report.programs[0].legality
    assert "modelled" in text
    page = report._repr_html_()  # pyright: ignore[reportPrivateUsage] - as above
    assert page.count("<tr>") == 3
    assert "<th>program</th>" in page
    assert "<td>step</td><td>ok on h13: " in page
    assert "what the host computes is not included" in page


def plain_parts(node: af.Tensor, g: af.Tensor) -> list[af.Tensor]:
    """Return the gradient of a join as it is written first: slices of g, wherever they begin."""
    axis = cast("int", node.attrs["axis"])
    parts: list[af.Tensor] = []
    for one in node.srcs:
        begin = [0] * len(g.shape)
        begin[axis] = sum(part.shape[axis] for part in parts)
        parts.append(g.slice_by_size(begin, one.shape))
    return parts


def patches_along_the_width(x: af.Tensor, w: af.Parameter) -> af.Tensor:
    """Return the convolution of a 3×3 kernel with the patch index on the last axis."""
    batch, channels, rows, columns = x.shape
    rows, columns = rows - 2, columns - 2
    shifted = [
        x.slice_by_size([0, 0, u, v], [batch, channels, rows, columns]).reshape(batch, channels, rows * columns, 1)
        for u in range(3)
        for v in range(3)
    ]
    matrix = af.concat(shifted, axis=3).transpose(0, 2, 1, 3).reshape(batch, rows * columns, channels * 9)
    product = matrix @ w.reshape(1, channels * 9, w.shape[1])
    return product.transpose(0, 2, 1).reshape(batch, w.shape[1], rows, columns)


@pytest.mark.parametrize("rule", ["own", "plain"])
@pytest.mark.parametrize("target", ["m1", "m2", "m4"])
@pytest.mark.filterwarnings("ignore::aneforge.errors.SliceSaturationWarning")
@pytest.mark.filterwarnings("ignore:a gradient is non-finite")
def test_only_patches_along_the_width_saturate_and_only_by_a_rule_that_slices_there(
    target: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value is below 65,504; loss-scaled ones above 4,094 are lost in slices of the width on some families."""
    if rule == "plain":
        monkeypatch.setitem(gradients.RULES, "concat", plain_parts)
    random = np.random.default_rng(0)
    image, kernel = random.standard_normal((1, 2, 5, 5)), random.standard_normal((2, 2, 3, 3))
    finite: list[bool] = []
    for convolve in (patches_along_the_width, af.conv2d):
        x, w = af.parameter(image), af.conv_param(kernel)
        loss = (convolve(x, w).square() * 0.5).sum((0, 1, 2, 3))
        found = af.Trainer(loss, [x, w], lr=0.1, loss_scale=512, target=target).run.step().gradients
        finite.append(all(np.isfinite(one).all() for one in found))
    assert finite == [rule == "own" or target == "m4", True]


def guard_texts(target: str | None, kernel: tuple[int, int], loss_scale: float, *, joined: bool = False) -> list[str]:
    x = af.input((2, 1, 6, 6), max_abs=1)
    w = af.conv_param(np.ones((2, 1, *kernel)))
    y = af.conv2d(x, w)
    y = af.concat([y, y.relu()], axis=3) if joined else y
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        af.Trainer(y.square().mean((0, 1, 2, 3)), [w], lr=0.1, loss_scale=loss_scale, target=target).release()
    return [text for text in (str(one.message) for one in caught) if "is trained with loss_scale" in text]


@pytest.mark.parametrize("target", ["m1", "m2"])
def test_the_guard_warns_and_says_whether_this_program_has_such_a_slice(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = guard_texts(target, (1, 3), 512)
    assert "gradients must stay below 4094/512 = 8" in text
    assert "this program has no such slice of loss-scaled values" in text
    assert "Source: width_slice_crop_x16, measured" in text
    monkeypatch.setitem(gradients.RULES, "concat", plain_parts)
    (text,) = guard_texts(target, (1, 3), 512, joined=True)
    assert "such slices of loss-scaled values in this program: 1" in text


def test_the_guard_knows_a_target_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "h13")
    assert len(guard_texts(None, (1, 3), 512)) == 1
    monkeypatch.setenv("ANEFORGE_TARGET", "h16g")
    assert guard_texts(None, (1, 3), 512) == []


@pytest.mark.parametrize(("target", "kernel", "scale"), [("m4", (1, 3), 512), ("m1", (3, 1), 512), ("m1", (1, 3), 511)])
def test_the_guard_is_silent_where_a_condition_does_not_hold(
    target: str, kernel: tuple[int, int], scale: float
) -> None:
    assert guard_texts(target, kernel, scale) == []


def with_options(**options: Any) -> Callable[[], object]:  # noqa: ANN401 - passed on
    return lambda: Perceptron().trainer(**options)


def with_data(change: Callable[[Array, Array], tuple[object, object]]) -> Callable[[], object]:
    def call() -> None:
        network = Perceptron()
        trainer = network.trainer()
        pixels, labels = digits()
        x, t = change(pixels[:100].copy(), np.eye(CLASSES)[labels[:100]])
        trainer.set_dataset(network.x, x, network.t, t)

    return call


def with_accuracy(x: object, labels: object) -> Callable[[], object]:
    return lambda: Perceptron().trainer().accuracy(x, labels)


def with_nan(x: Array, t: Array) -> tuple[object, object]:
    x[3, 5] = np.nan
    return x, t


def trainer_of(objective: object, params: object, **options: Any) -> Callable[[], object]:  # noqa: ANN401 - passed on
    return lambda: af.Trainer(cast("af.Tensor", objective), cast("Any", params), lr=0.1, target="m1", **options)


X, W = af.input((2, 3), name="x"), af.parameter(np.ones((3, 2)))
Y = X @ W
LOSS = Y.square().mean((0, 1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (trainer_of(Y, [W]), GraphError, "the loss must be one number"),
        (trainer_of("loss", [W]), GraphTypeError, "the objective must be a scalar tensor"),
        (trainer_of(LOSS, [W, af.parameter(np.ones(2))]), GraphError, "does not depend on this parameter"),
        (trainer_of(LOSS, [X]), GraphTypeError, r"params\[0\] must be a parameter"),
        (trainer_of(LOSS, [W], loss_scale=1e5), GraphError, "the first gradient must be finite in fp16"),
        (trainer_of(LOSS, [W], data_inputs=[1]), GraphTypeError, "data_inputs must be arrays by input"),
        (trainer_of(LOSS, [W], data_inputs={"x": 1}), GraphTypeError, "must be a tensor of af.input"),
        (trainer_of(LOSS, [W], data_inputs={Y: [[1]]}), GraphError, "must be an input that the objective"),
        (trainer_of(LOSS, [W], data_inputs={W: [[1]]}), GraphError, "must not be a parameter"),
        (trainer_of(LOSS, [W], data_inputs={X: [[1]]}), GraphError, "must have the shape of its input"),
        (trainer_of(LOSS, [W], data_inputs={X: ["a"]}), GraphTypeError, "must be an array of numbers"),
        (lambda: af.Trainer(LOSS, [W], 0.1, target="m1").step(), RuntimeStateError, "no data for input 'x'"),
        (lambda: af.Trainer(LOSS, [W], 0.1, target="m1").accuracy([[1]], [1]), NotSupportedError, "only a class"),
        (lambda: af.softmax_cross_entropy(Y, af.input((2, 3))), GraphError, "must have one shape"),
        (lambda: af.softmax_cross_entropy(Y, Y), GraphError, "the target must be an input"),
        (lambda: af.mse(Y, af.input((1, 2))), GraphError, "must have the same shape"),
        (with_options(loss_scale=0), GraphError, "loss_scale must be a positive number"),
        (with_options(loss_scale="large"), GraphTypeError, "loss_scale must be a number"),
        (with_options(optimizer="adamax"), UnknownNameError, "unknown optimizer 'adamax'; nearest: adam"),
        (with_options(momentum=0.9), GraphError, "momentum must be 0 for adam"),
        (with_options(accumulate=0), GraphError, "accumulate is too small"),
        (with_options(rows=20), GraphError, r"the batch is larger than the data \(got 50, limit 20\)"),
        (with_data(lambda x, t: (x[:, :60], t)), GraphError, "the rows of X must have the shape"),
        (with_data(lambda x, t: (x, t[:, :9])), GraphError, "the rows of the targets must have the shape"),
        (with_data(lambda x, t: (x, t[:60])), GraphError, "must have equally many rows"),
        (with_data(lambda x, t: (x, t * 0.5)), GraphError, "targets must be one-hot"),
        (with_data(with_nan), GraphError, r"X must be finite in fp16 \(got nan"),
        (with_accuracy(np.zeros((2, 64)), [0.5, 1]), GraphTypeError, "labels must be integers"),
        (with_accuracy(np.zeros((2, 64)), [1]), GraphError, "one label for each row"),
        (with_accuracy(np.zeros((2, 64)), [1, 10]), GraphError, "a label is out of range"),
        (lambda: Perceptron().trainer().compare("m2", steps=0), GraphError, "steps is too small"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_inputs_of_different_batches_and_of_unclear_use_are_refused() -> None:
    x, z, t, w = af.input((4, 3)), af.input((4, 3)), af.input((4, 2)), af.parameter(np.ones((3, 2)))
    trainer = af.Trainer(af.softmax_cross_entropy((x + z) @ w, t), [w], lr=0.1, target="m1")
    with pytest.raises(GraphError, match="clear which input X is for"):
        trainer.accuracy(np.zeros((2, 3)), [0, 1])
    a, b = af.input((2, 3)), af.input((4, 2))
    loss = (a @ w).mean((0, 1)) + b.mean((0, 1))
    other = af.Trainer(loss, [w], lr=0.1, target="m1")
    with pytest.raises(GraphError, match="must have the same batch"):
        other.set_dataset(a, np.zeros((8, 3)), b, np.zeros((8, 2)))
