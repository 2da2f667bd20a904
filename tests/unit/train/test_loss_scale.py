"""Loss scales: advice from the exact engine, "auto", and scales that change in a run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import CheckpointError, GraphError, GraphTypeError
from aneforge.train.checkpoints import check_same
from aneforge.train.saturation_guard import find_scaled_crops
from aneforge.train.scaled_layers import Products, exponent_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.types import Array
    from aneforge.train.scale_advice import LossScaleAdvice

pytestmark = pytest.mark.filterwarnings("ignore::aneforge.errors.DispatchFloorWarning")


def table_of_a_product(weight: float, target: str) -> LossScaleAdvice:
    """Return the advice for x of which dy·Wᵀ is the gradient, as in the published table."""
    random = np.random.default_rng(0)
    x, dy = af.parameter(np.zeros((32, 256)), name="x"), af.input((32, 768), name="dy")
    w = af.input((256, 768), name="w")
    data = {dy: random.uniform(-8.3e-5, 8.3e-5, dy.shape), w: random.uniform(-weight, weight, w.shape)}
    # The gradient of sum((x·W)·dy) at x is dy·Wᵀ; dy enters as the scaled gradient, so its magnitude is exact there.
    return af.loss_scale_advice(((x @ w) * dy).sum((0, 1)), [x], data, target)


@pytest.mark.parametrize(
    ("weight", "errors"), [(0.036, (1.0, 0.58, 0.024, 0.0049)), (0.0074, (1.0, 1.0, 0.157, 0.030))]
)
def test_errors_by_scale_are_those_of_the_published_table(weight: float, errors: tuple[float, ...]) -> None:
    advice = table_of_a_product(weight, "m4")
    seen = [advice.error(scale) for scale in (1.0, 16.0, 256.0, 1024.0)]
    np.testing.assert_allclose(seen, errors, rtol=0.06)
    (gradient,) = [one for one in advice.tensors if one.is_gradient]
    lost = [cast("float", one.lost) for one in gradient.scales]
    assert lost[0] == 1.0
    assert lost == sorted(lost, reverse=True)
    assert lost[-1] < 0.02
    assert advice.recommended == 16384
    assert advice.headroom(advice.recommended) >= 16
    text = str(advice)
    assert text.startswith("loss_scale 16384 on h16g: gradients have an error of")
    assert "gradient of x (largest " in text
    assert "<pre>" in advice._repr_html_()  # pyright: ignore[reportPrivateUsage] - what notebooks call


def test_products_are_counted_as_the_engine_drops_them() -> None:
    random = np.random.default_rng(1)
    one = (random.standard_normal((4, 6)) * 2.0 ** random.integers(-20, 0, (4, 6))).astype(np.float16)
    other = (random.standard_normal((4, 5)) * 2.0 ** random.integers(-12, 0, (4, 5))).astype(np.float16)
    other[0, 0] = 0
    counted = Products(exponent_counts(one.astype(np.float64)).T @ exponent_counts(other.astype(np.float64)))
    lost = total = 0
    for row in range(4):
        for x in one[row].astype(np.float64):
            for w in other[row].astype(np.float64):
                if x and w:
                    total += 1
                    exponents = [max(int(np.floor(np.log2(abs(v)))), -14) for v in (x, w)]
                    lost += sum(exponents) <= -17
    assert 0 < lost < total
    assert counted.lost_share(1.0) == pytest.approx(lost / total)
    assert counted.lost_share(2.0**30) == 0


def test_a_gradient_that_is_0_but_for_rounding_does_not_decide() -> None:
    """A bias before a mean is taken off has no effect: its gradient is noise, on the engine at any scale."""
    random = np.random.default_rng(2)
    x, t = af.input((64, 8)), af.input((64, 3))
    w, b = (af.parameter(random.standard_normal(shape), name=name) for shape, name in (((8, 6), "w"), ((1, 6), "b")))
    v = af.parameter(random.standard_normal((6, 3)) * 1e-2, name="v")
    h = x @ w + b
    data = {x: random.standard_normal((64, 8)), t: random.standard_normal((64, 3)) * 1e-2}
    advice = af.loss_scale_advice(af.mse((h - h.mean((0,))).tanh() @ v, t), [w, b, v], data, "m1")
    (noise,) = (one for one in advice.tensors if one.name == "gradient of b")
    assert 0 < noise.largest < 1e-15
    assert {one.error for one in noise.scales} == {0.0}
    assert advice.error(advice.recommended) < 0.02 < advice.error(1.0)


def patches_along_the_width(x: af.Tensor, w: af.Parameter) -> af.Tensor:
    """Return a network whose backward pass, as a user writes it, slices loss-scaled values inside the width."""
    parts = [x.slice_by_size([0, 0, 0, begin], [*x.shape[:3], 4]) for begin in range(3)]
    return af.concat([part * w for part in parts], axis=3)


def slices_of_g(node: af.Tensor, g: af.Tensor) -> list[af.Tensor]:
    """Return the gradient of a join along the width as slices of it."""
    return [g.slice_by_size([0, 0, 0, 4 * place], one.shape) for place, one in enumerate(node.srcs)]


def test_crops_of_scaled_values_bound_the_scale_where_they_are_copied_times_16(monkeypatch: pytest.MonkeyPatch) -> None:
    from aneforge.graph import gradients  # noqa: PLC0415 - the rules are changed for this test

    monkeypatch.setitem(gradients.RULES, "concat", slices_of_g)
    x, w = af.input((1, 2, 3, 8), max_abs=4), af.parameter(np.ones((1, 2, 3, 4)), name="w")
    loss = (patches_along_the_width(x, w).square() * 0.5).sum((0, 1, 2, 3))
    data = {x: np.random.default_rng(0).standard_normal(x.shape)}
    early, late = (af.loss_scale_advice(loss, [w], data, target) for target in ("m2", "m4"))
    crops = [one for one in early.tensors if one.limit == 4094]
    assert [one.name.endswith("(copied times 16)") for one in crops] == [True, True]
    assert not [one for one in late.tensors if one.limit == 4094]
    assert early.recommended < late.recommended
    assert early.headroom(early.recommended) >= 16
    for scale in (256.0, af.DynamicLossScale(first=256)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer = af.Trainer(loss, [w], 0.1, scale, target="m1")
        texts = [str(one.message) for one in caught if "is trained with" in str(one.message)]
        assert len(texts) == 1
        assert "such slices of loss-scaled values in this program: 2, the first is slice[1, 2, 3, 4] at" in texts[0]
        assert "gradients must stay below 4094/256 = 16" in texts[0]
        assert len(find_scaled_crops(trainer.programs.step.model.program, trainer.objective, trainer.parameters)) == 2


def regression(loss_scale: Any, **options: Any) -> tuple[af.Trainer, af.Parameter, Array]:  # noqa: ANN401 - passed on
    random = np.random.default_rng(3)
    rows = random.standard_normal((64, 8)).astype(np.float32)
    wanted = random.standard_normal((8, 1)).astype(np.float32) * 0.01
    x, t, w = af.input((16, 8)), af.input((16, 1)), af.parameter(np.zeros((8, 1)), name="w")
    given: dict[str, Any] = {"lr": 0.01, "optimizer": "adam", "target": "m1", **options}
    trainer = af.Trainer(af.mse(x @ w, t), [w], loss_scale=loss_scale, **given)
    trainer.set_dataset(x, rows, t, rows @ wanted)
    return trainer, w, wanted


def falling_rate(step: int) -> float:
    return 0.01 / step**0.5


def test_auto_chooses_from_the_first_batch_and_nothing_else_is_compiled() -> None:
    trainer, w, wanted = regression("auto", lr=falling_rate)
    assert trainer.loss_scale == 4096 * 4
    programs = trainer.programs
    for _ in range(150):
        trainer.step()
    np.testing.assert_allclose(w.value, wanted, atol=3e-4)
    assert trainer.programs is programs
    assert trainer.optimizer.steps == 150
    assert trainer.compare("m1", steps=2).equal
    assert "loss_scale 16384 (changes in a run, from 1 to 16384)" in str(trainer.report())


def test_auto_waits_for_data() -> None:
    x, w = af.input((1, 4), name="x"), af.parameter(np.ones((1, 4)))
    loss = (x * w).square().mean((0, 1))
    trainer = af.Trainer(loss, [w], 0.1, "auto", target="m4")
    assert trainer.loss_scale == 1
    assert "loss_scale 1 (still to be chosen from data)" in str(trainer.report())
    with pytest.raises(af.errors.RuntimeStateError, match="no data for input 'x'"):
        trainer.step()
    other = af.Trainer(loss, [w], 0.1, "auto", {x: np.ones((1, 4))}, target="m4")
    other.step()
    assert other.loss_scale > 1


def overflowing(scale: af.DynamicLossScale, **options: Any) -> af.Trainer:  # noqa: ANN401 - passed on
    x, w = af.input((1, 2)), af.parameter(np.full((1, 2), 200.0))
    return af.Trainer((x * w).square().sum(), [w], 1e-4, scale, {x: [[8, 8]]}, target="m1", **options)


@pytest.mark.filterwarnings("ignore:a gradient is non-finite")
def test_a_scale_backs_off_and_grows_again_and_a_checkpoint_keeps_it() -> None:
    scale = af.DynamicLossScale(first=16, interval=3, least=0.5, most=64)
    trainer = overflowing(scale)
    seen: list[float] = []
    for _ in range(12):
        trainer.step()
        seen.append(trainer.loss_scale)
    assert seen[:3] == [8, 4, 2]  # 25,600 times 4 is too large
    assert 2 in seen[3:]
    assert trainer.optimizer.steps == 12 - sum(one < before for before, one in zip([16, *seen], seen, strict=False))
    other = overflowing(scale)
    kept = trainer.run.snapshot()
    check_same(kept.header, kept.tensors, other.run.snapshot())  # another scale is not another run
    other.run.restore(kept)
    assert other.loss_scale == trainer.loss_scale
    assert [other.step() for _ in range(5)] == [trainer.step() for _ in range(5)]
    assert other.loss_scale == trainer.loss_scale
    constant = af.Trainer(trainer.objective.result, trainer.parameters, 1e-4, 16, target="m1").run.snapshot()
    with pytest.raises(CheckpointError, match="only one of checkpoint and trainer has the number 'scale_changes'"):
        check_same(kept.header, kept.tensors, constant)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adam_fp16"])
def test_a_changing_scale_does_not_change_where_a_run_goes(optimizer: str) -> None:
    fixed, w, _ = regression(1024, optimizer=optimizer, device_optimizer=True)
    changing, v, _ = regression(af.DynamicLossScale(first=256, interval=10), optimizer=optimizer, device_optimizer=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(40):
            fixed.step()
            changing.step()
    assert changing.loss_scale == 4096
    np.testing.assert_allclose(v.value, w.value, atol=2e-3)


X, W = af.input((2, 3), name="x"), af.parameter(np.ones((3, 2)), name="w")
LOSS = (X @ W).square().mean((0, 1))
T = af.input((2, 2), name="t")
CLASSES = af.softmax_cross_entropy(X @ W, T)


def advice_of(data: object, objective: object = LOSS, params: object = None) -> Callable[[], object]:
    return lambda: af.loss_scale_advice(cast("Any", objective), cast("Any", params or [W]), cast("Any", data), "m1")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: af.DynamicLossScale(first=0), GraphError, "first must be a positive number"),
        (lambda: af.DynamicLossScale(growth=0.5), GraphError, "growth must be at least 1 and backoff below 1"),
        (lambda: af.DynamicLossScale(backoff=1.0), GraphError, "growth must be at least 1 and backoff below 1"),
        (lambda: af.DynamicLossScale(first=2.0**16), GraphError, "the first scale must be between least and most"),
        (lambda: af.DynamicLossScale(interval=0), GraphError, "interval is too small"),
        (lambda: af.Trainer(LOSS, [W], 0.1, 0, target="m1"), GraphError, r"loss_scale must be a positive number.*auto"),
        (lambda: af.Trainer(LOSS, [W], 0.1, cast("Any", None), target="m1"), GraphTypeError, "must be a number"),
        (
            lambda: af.Trainer(LOSS, [W], 0.1, af.DynamicLossScale(most=2.0**17), target="m1"),
            GraphError,
            "the first gradient must be finite in fp16",
        ),
        (
            lambda: af.Trainer(LOSS, [W], 0.1, af.DynamicLossScale(), resident_state=True, target="m1"),
            GraphError,
            'states on the engine have a loss_scale that stays the same.*"auto"',
        ),
        (lambda: af.Trainer(X @ W, [W], 0.1, "auto", target="m1"), GraphError, "the loss must be one number"),
        (lambda: af.parameter(np.ones((2, 2), np.int32)), GraphTypeError, "integers have no gradient"),
        (advice_of({}), GraphError, "every input needs a value .*none for 'x'"),
        (advice_of([1]), GraphTypeError, "data must be arrays by input"),
        (advice_of({"x": 1}), GraphError, "a key of data must be an input"),
        (advice_of({X: np.full((2, 3), np.nan)}), GraphError, "data of 'x' must be finite in fp16"),
        (advice_of({X: np.ones((3, 3))}), GraphError, "a value must have the shape of its input"),
        (advice_of({X: np.ones((2, 3)), T: np.ones((2, 2))}, CLASSES), GraphError, "targets must be one-hot"),
        (advice_of({X: np.ones((2, 3))}, X @ W), GraphError, "the loss must be one number"),
        (
            advice_of({X: np.ones((2, 3))}, params=[af.parameter([1.0])]),
            GraphError,
            "does not depend on this parameter",
        ),
    ],
)
def test_what_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
