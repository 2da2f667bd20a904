"""Updates on the engine: the documented formulas in fp16, the form that fp16 can hold, and what is refused."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, PrecisionWarning, UnknownNameError
from aneforge.train.adam_in_graph import correct_rate
from aneforge.train.device_optimisers import DeviceAdam, DeviceAdamFp16, DeviceSGD

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.types import Array

MAGNITUDES = np.repeat(10.0 ** np.arange(-5, 3), 16)[None]
"""Scaled gradients over eight decades."""


STEPS, EPS = 50, 2.0**-14


def drawn_gradients() -> list[Array]:
    """Return gradients that fp16 holds, one for each step."""
    random = np.random.default_rng(0)
    return [(random.standard_normal(MAGNITUDES.shape) * MAGNITUDES).astype(np.float16) for _ in range(STEPS)]


def run_updates(made: type[DeviceAdam], target: str) -> Array:
    """Return a parameter after the updates on the engine."""
    optimizer = made([af.parameter(np.zeros(MAGNITUDES.shape))], 0.01).for_target(target, None)
    for gradient in drawn_gradients():
        optimizer.step([gradient.astype(np.float32)])
    return optimizer.params[0].value


def exact_updates(eps: float) -> Array:
    """Return the same in float64."""
    weight, first, second = (np.zeros(MAGNITUDES.shape) for _ in range(3))
    for step, gradient in enumerate(drawn_gradients(), 1):
        first = 0.9 * first + 0.1 * gradient.astype(np.float64)
        second = 0.999 * second + 0.001 * gradient.astype(np.float64) ** 2
        weight -= correct_rate(0.01, step, (0.9, 0.999)) * first / (np.sqrt(second) + eps)
    return weight


@pytest.mark.parametrize("target", ["m1", "m5"])
def test_the_form_for_fp16_is_right_over_eight_decades_and_the_documented_one_is_not(target: str) -> None:
    np.testing.assert_allclose(run_updates(DeviceAdamFp16, target), exact_updates(EPS), atol=0.001)
    with pytest.warns(PrecisionWarning, match=r"second moments vanish in fp16: \d+ of 128 of params\[0\] are 0"):
        documented = run_updates(DeviceAdam, target)
    wanted = exact_updates(1e-8)
    assert np.abs(documented - wanted)[:, :48].max() > 0.1
    np.testing.assert_allclose(documented[:, 80:112], wanted[:, 80:112], atol=0.001)


def test_squares_that_overflow_are_warned_of_and_auto_stays_below_them() -> None:
    p = af.parameter(np.zeros((1, 4)))
    optimizer = DeviceAdam([p], lr=0.01).for_target("m1", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            optimizer.step([np.array([[1.0, -20.0, 255.0, 255.0]])])
    fresh = DeviceAdam([p], lr=0.01).for_target("m1", None)
    with pytest.warns(PrecisionWarning, match=r"above 256 overflow in fp16: 1 of 4 of params\[0\] have"):
        fresh.step([np.array([[1.0, 3000.0, 255.0, 255.0]])])
    x, t, w = af.input((4, 2)), af.input((4, 1)), af.parameter(np.ones((2, 1)))
    data = {x: np.ones((4, 2)), t: np.zeros((4, 1))}  # gradients of 4
    chosen: dict[str, float] = {}
    for name in ("adam", "adam_fp16"):
        trainer = af.Trainer(
            af.mse(x @ w, t), [w], 0.01, "auto", data, optimizer=name, device_optimizer=True, target="m1"
        )
        trainer.step()
        chosen[name] = trainer.loss_scale
    assert chosen["adam"] * 4 <= 16
    assert chosen["adam_fp16"] > 16 * chosen["adam"]


def test_the_documented_update_is_its_formula_in_fp16() -> None:
    param = af.parameter(np.array([[1.0, -2.0]]))
    optimizer = DeviceAdam([param], 0.01, loss_scale=1024).for_target("m1", None)
    optimizer.step([np.array([[64.0, -16.0]])])
    first, second = optimizer.kept[0]
    assert first.dtype == second.dtype == np.float16
    np.testing.assert_allclose(first, [[6.4, -1.6]], rtol=1e-3)  # of the scaled gradient
    np.testing.assert_allclose(second, [[4.096, 0.256]], rtol=1e-3)
    rate = float(np.float16(correct_rate(0.01, 1, (0.9, 0.999))))
    np.testing.assert_allclose(param.value, [[1 - rate * 6.4 / 4.096**0.5, -2 + rate * 1.6 / 0.256**0.5]], rtol=1e-3)
    assert (param.value == param.value.astype(np.float16)).all()


def test_descent_on_the_engine_divides_the_scale_out_and_skips_what_is_not_finite() -> None:
    param = af.parameter(np.ones(2))
    optimizer = DeviceSGD([param], 0.5, 256.0, clip_norm=5.0).for_target("m4", None)
    assert optimizer.step([np.array([128.0, 256.0])])
    assert param.value.tolist() == [0.75, 0.5]
    assert optimizer.step([np.array([0.0, 2560.0])])  # a norm of 10, clipped to 5
    assert param.value.tolist() == [0.75, -2.0]
    with pytest.warns(UserWarning, match="non-finite"):
        assert not optimizer.step([np.array([np.inf, 0.0])])
    assert optimizer.steps == 2


@pytest.mark.parametrize(("made", "powers"), [(DeviceAdam, (1, 2)), (DeviceAdamFp16, (1, 1))])
def test_moments_follow_a_change_of_the_scale(made: type[DeviceAdam], powers: tuple[int, int]) -> None:
    optimizer = made([af.parameter(np.zeros((1, 2)))], 0.01, loss_scale=64.0).for_target("m4", None)
    optimizer.step([np.array([[8.0, 16.0]])])
    before = [one.copy() for one in optimizer.kept[0]]
    optimizer.rescale(128.0)
    for one, old, power in zip(optimizer.kept[0], before, powers, strict=True):
        np.testing.assert_array_equal(one, old * 2**power)
    assert optimizer.loss_scale == 128


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 4, 1, 1)])
def test_parameters_of_any_rank_are_updated(shape: tuple[int, ...]) -> None:
    for made in (DeviceSGD, DeviceAdam, DeviceAdamFp16):
        param = af.parameter(np.zeros(shape))
        made([param], 0.25).for_target("m4", None).step([np.ones(shape)])
        np.testing.assert_allclose(param.value, np.full(shape, -0.25), rtol=5e-3)


def network(**options: Any) -> af.Trainer:  # noqa: ANN401 - passed on
    random = np.random.default_rng(2)
    rows = random.standard_normal((32, 4)).astype(np.float32)
    x, t, w = af.input((32, 4)), af.input((32, 1)), af.parameter(np.zeros((4, 1)), name="w")
    data = {x: rows, t: rows @ np.array([[1.0], [-1.0], [0.5], [2.0]])}
    given: dict[str, Any] = {
        "lr": 0.1,
        "loss_scale": 64,
        "optimizer": "adam_fp16",
        "device_optimizer": True,
        "target": "m1",
    }
    given.update(options)
    return af.Trainer(af.mse(x @ w, t), [w], data_inputs=data, **given)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adam_fp16"])
def test_a_network_trains_with_updates_on_the_engine(optimizer: str) -> None:
    trainer = network(optimizer=optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        for _ in range(100):
            trainer.step()
    np.testing.assert_allclose(trainer.parameters[0].value.ravel(), [1.0, -1.0, 0.5, 2.0], atol=0.05)
    found = trainer.compare("m4", steps=2)
    assert found.targets == ("h13", "h16g")
    report = trainer.report()
    assert [one.name for one in report.updates] == ["update"]
    assert "on the engine, 1 × program update, loss_scale 64" in str(report)
    assert report.microseconds == report.programs[0].cost.microseconds + report.updates[0].cost.microseconds
    trainer.release()


def adam_of(**changed: Any) -> Callable[[], object]:  # noqa: ANN401 - passed on
    tensors = {name: [af.input((2, 2))] for name in ("params", "m", "v", "grads")}
    given: dict[str, Any] = {**tensors, "lr_t": af.input((1, 1)), **changed}
    return lambda: af.adam_step(**given)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: network(optimizer="adamw"), GraphError, "adamw is an optimiser on the host"),
        (lambda: network(device_optimizer=False), GraphError, "adam_fp16 is an update on the engine"),
        (lambda: network(optimizer="sgd", momentum=0.5), GraphError, "an update on the engine has no momentum"),
        (lambda: network(weight_decay=0.1), GraphError, "an update on the engine has no weight_decay"),
        (lambda: network(optimizer="sgd", lr=1e-6).step(), GraphError, "the rate of an update on the engine is 0"),
        (adam_of(form="fp32"), UnknownNameError, "unknown form 'fp32'"),
        (adam_of(lr_t=af.input((1,))), GraphError, r"lr_t must be a tensor \[1, 1\]"),
        (adam_of(m=[]), GraphError, "m must have one tensor for every parameter"),
        (adam_of(grads={}), GraphError, "grads must have one tensor for every parameter"),
        (adam_of(v=[af.input((2, 3))]), GraphError, r"v\[0\] must have the shape of its parameter"),
        (adam_of(params=[cast("af.Tensor", 1.0)]), GraphTypeError, "params is not a tensor"),
        (adam_of(eps=0), GraphError, "eps must be a positive number"),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
