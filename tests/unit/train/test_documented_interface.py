"""Names, order and defaults of what users know: they call by position and by name, so neither may change."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

import aneforge as af
from aneforge import streaming

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTED: list[tuple[Callable[..., object], str]] = [
    (af.parameter, "init"),
    (af.conv_param, "w"),
    (af.conv2d, "x, weight, stride=1, pad=0"),
    (af.backward, "loss, params, loss_scale=1.0, stop=None"),
    (af.backward_from, "grad, root, params, stop=None"),
    (af.mse, "y, target"),
    (af.softmax_cross_entropy, "logits, target"),
    (af.SGD, "params, lr, loss_scale=1.0"),
    (af.Adam, "params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, loss_scale=1.0"),
    (af.adam_step, "params, m, v, grads, lr_t, betas=(0.9, 0.999), eps=1e-08"),
    (
        af.Trainer,
        (
            "objective, params, lr, loss_scale=1.0, data_inputs=None, optimizer='sgd', betas=(0.9, 0.999), eps=1e-08, "
            "device_optimizer=False, resident_state=False"
        ),
    ),
    (af.Trainer.set_dataset, "self, x_input, X, target_input, Y_onehot, seed=0"),
    (af.Trainer.accuracy, "self, X, labels"),
    (
        af.UnrolledTrainer,
        (
            "params, forward, kind, x_inputs, t_inputs, dataset, lr=0.001, loss_scale=1.0, betas=(0.9, 0.999), "
            "eps=1e-08, seed=0, resident=True"
        ),
    ),
    (af.UnrolledTrainer.predict, "self, X"),
    (streaming.CheckpointedStack, "layer_fn, example_params, io_shape"),
    (streaming.CheckpointedStack.forward, "self, layers, x0"),
    (streaming.CheckpointedStack.backward, "self, layers, inputs, g"),
    (af.group_norm_train, "x, gamma, beta, groups, eps=1e-05"),
    (af.conv_block, "x, w, gamma, beta, groups, pool=0"),
    (af.cifar_cnn, "batch, widths=(32, 64, 128), groups=8, classes=10, seed=0"),
]


@pytest.mark.parametrize(("made", "documented"), DOCUMENTED, ids=lambda one: getattr(one, "__qualname__", ""))
def test_arguments_are_the_documented_ones_and_come_first(made: Callable[..., object], documented: str) -> None:
    given = inspect.signature(made).parameters.values()
    by_place = [one for one in given if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    seen = ", ".join(str(one.replace(annotation=inspect.Parameter.empty)) for one in by_place)
    assert f"{seen}, ".startswith(f"{documented}, ")
