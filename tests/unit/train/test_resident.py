"""States that stay on the engine: the bits of states that the host passes on, counts of compiles, checkpoints."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError
from aneforge.graph import gradients
from compile_counts import count_compiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Array = npt.NDArray[Any]
BATCH, ROWS, CLASSES = 8, 50, 3


def data() -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, ROWS)
    return random.standard_normal((ROWS, 1, 6, 6)) * 0.5 + labels[:, None, None, None] - 1, labels


def first_values() -> list[af.Parameter]:
    random = np.random.default_rng(1)
    return [
        af.conv_param(random.standard_normal((2, 1, 3, 3)) * 0.4, name="kernel"),
        af.parameter(random.standard_normal((8, CLASSES)) * 0.5, name="weight"),
        af.parameter(np.zeros((1, CLASSES)), name="bias"),
    ]


def forward(params: list[af.Tensor], x: af.Tensor) -> af.Tensor:
    kernel, weight, bias = params
    return af.conv2d(x, kernel).relu().avg_pool(2).reshape(BATCH, 8) @ weight + bias


def unrolled(steps: int = 3, target: str = "m1", **options: Any) -> af.UnrolledTrainer:  # noqa: ANN401 - passed on
    images, labels = data()
    xs = [af.input((BATCH, 1, 6, 6), max_abs=8) for _ in range(steps)]
    ts = [af.input((BATCH, CLASSES)) for _ in range(steps)]
    chosen = cast("dict[str, Any]", {"lr": 0.05, "loss_scale": 256.0, **options})
    pair = images, np.eye(CLASSES)[labels]
    return af.UnrolledTrainer(first_values(), forward, "ce", xs, ts, pair, target=target, **chosen)


def resident(target: str = "m1", **options: Any) -> af.Trainer:  # noqa: ANN401 - passed on
    images, labels = data()
    x, t, params = af.input((BATCH, 1, 6, 6), max_abs=8), af.input((BATCH, CLASSES)), first_values()
    chosen = cast("dict[str, Any]", {"lr": 0.05, "optimizer": "adam", "loss_scale": 256.0, **options})
    objective = af.softmax_cross_entropy(forward(list(params), x), t)
    trainer = af.Trainer(objective, params, resident_state=True, target=target, **chosen)
    trainer.set_dataset(x, images, t, np.eye(CLASSES)[labels])
    return trainer


@pytest.mark.parametrize("target", ["m1", "m4"])
def test_resident_states_have_the_bits_of_states_that_the_host_passes_on(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = count_compiles(monkeypatch)
    one, other = unrolled(target=target), unrolled(target=target, resident=False)
    losses = [one.step() for _ in range(5)]
    assert [other.step() for _ in range(5)] == losses
    for mine, theirs in zip(one.states.read(), other.states.read(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    images, labels = data()
    assert (one.predict(images).argmax(1) == labels).mean() > 0.8  # 50 rows: the last batch is not full
    np.testing.assert_array_equal(one.predict(images), other.predict(images))
    assert len(compiled) == 4
    assert losses[-1] < 0.6 * losses[0]
    assert one.steps == 15


def test_a_resident_trainer_is_an_unrolled_one_of_one_step_and_compiles_nothing_in_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = count_compiles(monkeypatch)
    trainer = resident()
    losses = [trainer.step() for _ in range(6)]
    images, labels = data()
    accuracy, loss = trainer.accuracy(images, labels), trainer.loss()
    assert len(compiled) == 2
    assert loss < losses[0]
    assert accuracy > 0.6
    steps = unrolled(steps=1)
    assert [steps.step() for _ in range(6)] == losses
    steps.read_back()
    for one, other in zip(trainer.state_dict().values(), steps.params, strict=True):
        np.testing.assert_array_equal(one, other.value)
    assert trainer.compare("m1", steps=2).equal
    trainer.release()
    with pytest.raises(RuntimeStateError, match="released"):
        trainer.step()


def test_plain_descent_and_the_form_for_fp16_learn() -> None:
    chosen: list[dict[str, Any]] = [{"optimizer": "sgd", "lr": 0.5}, {"optimizer": "adam_fp16"}]
    for options in chosen:
        trainer = resident(**options)
        losses = [trainer.step() for _ in range(12)]
        assert losses[-1] < 0.7 * losses[0], options


@pytest.mark.parametrize("build", [resident, unrolled])
def test_a_checkpoint_of_resident_states_goes_on_with_the_same_bits(
    build: Callable[[], af.Trainer | af.UnrolledTrainer], tmp_path: Path
) -> None:
    pytest.importorskip("safetensors", reason="checkpoints need the extra train")
    one, other = build(), build()
    for _ in range(2):
        one.step()
    path = one.save(tmp_path / "run.safetensors")
    other.load(path)
    assert [other.step() for _ in range(3)] == [one.step() for _ in range(3)]
    assert other.save(tmp_path / "other").read_bytes() == one.save(path).read_bytes()


def test_parameters_that_are_not_finite_are_warned_of_when_they_are_read() -> None:
    trainer = resident(optimizer="sgd", lr=6e4)
    with np.errstate(all="ignore"):
        for _ in range(4):
            trainer.step()
    with pytest.warns(UserWarning, match="read back from the engine are non-finite: kernel"):
        trainer.state_dict()


def test_second_moments_that_vanish_are_warned_of_when_they_are_read() -> None:
    trainer = resident(loss_scale=1.0)
    trainer.step()
    with pytest.warns(af.errors.PrecisionWarning, match="second moments vanish in fp16"):
        trainer.state_dict()
    steps = unrolled(steps=1, loss_scale=1.0)
    steps.step()
    with pytest.warns(af.errors.PrecisionWarning, match=r"second moments vanish in fp16: \d+ of \d+ of \w+ are 0"):
        steps.predict(data()[0])


def test_a_step_without_data_counts_for_nothing() -> None:
    x, w = af.input((2, 3), name="x"), af.parameter(np.ones((3, 1)))
    trainer = af.Trainer((x @ w).square().mean((0, 1)), [w], lr=0.1, resident_state=True, target="m1")
    with pytest.raises(RuntimeStateError, match="no data for input 'x'"):
        trainer.step()
    assert trainer.optimizer.steps == 0


def scale_from_advice(params: list[af.Parameter], limit: float) -> float:
    """Return what the first mini-batch asks for, the first of the permutation, by its advice and a limit."""
    images, labels = data()
    rows = np.random.default_rng(0).permutation(ROWS)[:BATCH]
    x, t = af.input((BATCH, 1, 6, 6), max_abs=8), af.input((BATCH, CLASSES))
    objective = af.softmax_cross_entropy(forward(list(params), x), t)
    given = {x: images[rows], t: np.eye(CLASSES)[labels[rows]]}
    advice = af.loss_scale_advice(objective, params, given, "m1")
    gradients = max(one.largest for one in advice.tensors if one.is_gradient)
    return max(one for one in advice.scales if one <= advice.recommended and 16 * gradients * one <= limit)


@pytest.mark.filterwarnings("ignore::aneforge.errors.SliceSaturationWarning")
@pytest.mark.parametrize("build", [resident, unrolled])
def test_a_loss_scale_is_chosen_from_the_first_batch_and_stays(
    build: Callable[..., af.Trainer | af.UnrolledTrainer],
) -> None:
    wanted = scale_from_advice(first_values(), 256)
    assert 1 < wanted < scale_from_advice(first_values(), 65504)  # squares of gradients must be finite too
    chosen, given = build(loss_scale="auto"), build(loss_scale=wanted)
    assert chosen.loss_scale == wanted
    assert [chosen.step() for _ in range(4)] == [given.step() for _ in range(4)]
    assert chosen.loss_scale == wanted
    if isinstance(chosen, af.Trainer) and isinstance(given, af.Trainer):
        for one, other in zip(chosen.state_dict().values(), given.state_dict().values(), strict=True):
            np.testing.assert_array_equal(one, other)
        assert f"loss_scale {wanted:g} (chosen from data), 4 steps taken" in str(chosen.report())
        assert chosen.compare("m1", steps=2).equal
        assert [list(one.shape) for one in chosen.inputs] == [[BATCH, 1, 6, 6], [BATCH, CLASSES]]


def packed(params: list[af.Tensor], x: af.Tensor) -> af.Tensor:
    """Return a network of parts that lie side by side along the width."""
    parts = [x.slice_by_size([0, 0, 0, begin], [2, 2, 3, 4]) for begin in range(3)]
    return af.concat([part * params[0] for part in parts], axis=3)


def slices_of_g(node: af.Tensor, g: af.Tensor) -> list[af.Tensor]:
    return [g.slice_by_size([0, 0, 0, 4 * place], one.shape) for place, one in enumerate(node.srcs)]


def guard_texts(build: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build()
    return [str(one.message) for one in caught if "is trained with" in str(one.message)]


def test_the_guard_warns_of_an_unrolled_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = guard_texts(lambda: unrolled(loss_scale=512.0))
    assert "a convolution kernel of width 3 is trained with loss_scale 512" in text
    assert "this program has no such slice of loss-scaled values" in text
    assert guard_texts(lambda: unrolled(loss_scale=256.0)) == []
    assert guard_texts(lambda: unrolled(loss_scale=512.0, target="m4")) == []

    def side_by_side() -> af.UnrolledTrainer:
        w = af.parameter(np.ones((1, 2, 3, 4)), name="w")
        xs, ts = ([af.input((2, 2, 3, width)) for _ in range(2)] for width in (8, 12))
        pair = np.ones((4, 2, 3, 8)), np.zeros((4, 2, 3, 12))
        return af.UnrolledTrainer([w], packed, "mse", xs, ts, pair, lr=0.1, loss_scale=64.0, target="m2")

    assert guard_texts(side_by_side) == []  # slices of the second step's input hold nothing that is scaled
    monkeypatch.setitem(gradients.RULES, "concat", slices_of_g)
    (text,) = guard_texts(side_by_side)
    assert "such slices of loss-scaled values in this program: 2, the first is slice[2, 2, 3, 4]" in text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: unrolled(loss_scale=0), GraphError, "loss_scale must be a positive number.*auto"),
        (lambda: unrolled(loss_scale=1e6), GraphError, "the first gradient must be finite in fp16"),
        (lambda: unrolled(loss_scale=af.DynamicLossScale()), GraphError, "a loss_scale that stays the same"),
        (lambda: resident(clip_norm=1.0), GraphError, "a resident state has no clip_norm"),
        (lambda: resident(accumulate=2), GraphError, "updated by every mini-batch"),
        (lambda: resident(optimizer="adamw"), GraphError, "adamw is an optimiser on the host"),
        (lambda: unrolled(steps=0), GraphTypeError, "x_inputs must be a list of inputs"),
        (lambda: unrolled(form="float"), KeyError, "unknown form 'float'"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


X, T = af.input((4, 2)), af.input((4, 1))


@pytest.mark.parametrize(
    ("kind", "xs", "ts", "pair", "error", "message"),
    [
        ("hinge", [X], [T], (np.zeros((4, 2)), np.zeros((4, 1))), ValueError, "kind must be 'ce' or 'mse'"),
        (
            "mse",
            [X],
            [T, T],
            (np.zeros((4, 2)), np.zeros((4, 1))),
            GraphError,
            "every step needs an input",
        ),
        ("mse", [X, af.input((3, 2))], [T, T], (1, 2), GraphError, "x_inputs must be inputs of one shape"),
        ("mse", [X], [T], 3, GraphTypeError, "dataset must be a pair of arrays"),
        ("mse", [X], [T], (np.zeros((3, 2)), np.zeros((3, 1))), GraphError, "the batch is larger than the data"),
        ("ce", [X], [T], (np.zeros((4, 2)), np.zeros((4, 1))), GraphError, "targets must be one-hot"),
    ],
)
def test_what_an_unrolled_trainer_refuses(
    kind: str,
    xs: list[af.Tensor],
    ts: list[af.Tensor],
    pair: tuple[object, object],
    error: type[Exception],
    message: str,
) -> None:
    w = af.parameter(np.zeros((2, 1)))
    with pytest.raises(error, match=message):
        af.UnrolledTrainer([w], lambda params, x: x @ params[0], kind, xs, ts, pair, lr=0.1, target="m1")


def minus_step(step: int) -> float:
    return -step


def falling_to_nothing(step: int) -> float:
    return 0.0 if step > 4 else 1e-9 if step > 2 else 0.1


def test_rates_that_fp16_does_not_hold_are_refused_before_anything_is_drawn() -> None:
    w, data = af.parameter(np.zeros((2, 1))), (np.ones((8, 2)), np.ones((8, 1)))

    def with_rate(lr: Any) -> af.UnrolledTrainer:  # noqa: ANN401 - also what is no rate
        return af.UnrolledTrainer([w], lambda P, x: x @ P[0], "mse", [X], [T], data, lr=lr, target="m1")  # noqa: N803 - as documented

    for lr, error in ((-1.0, GraphError), ("a", GraphTypeError), (None, GraphTypeError)):
        with pytest.raises(error, match="lr must be"):
            with_rate(lr)
    for lr, message in (
        (1e-9, "is 0 in fp16"),
        (1e6, "is infinite in fp16"),
        (minus_step, r"lr\(1\) must be 0"),
    ):
        trainer = with_rate(lr)
        with pytest.raises(GraphError, match=message):
            trainer.step()
        assert (trainer.steps, trainer.dataset.current) == (0, None)
    trainer = with_rate(falling_to_nothing)
    with pytest.warns(af.PrecisionWarning, match="the rate .* of the schedule is 0 in fp16"):
        losses = [trainer.step() for _ in range(6)]
    assert losses[0] > losses[1] > losses[2]


def test_an_unrolled_trainer_needs_a_function_and_inputs_of_their_own() -> None:
    w, data = af.parameter(np.zeros((2, 1))), (np.ones((8, 2)), np.ones((8, 1)))
    nothing: Any = None
    with pytest.raises(GraphTypeError, match="forward must be a function"):
        af.UnrolledTrainer([w], nothing, "mse", [X], [T], data, lr=0.1, target="m1")
    for xs, ts in (([X, X], [T, af.input(T.shape)]), ([X, af.input(X.shape)], [T, T])):
        with pytest.raises(GraphError, match="an input and a target of its own"):
            af.UnrolledTrainer([w], lambda P, x: x @ P[0], "mse", xs, ts, data, lr=0.1, target="m1")  # noqa: N803 - as above
