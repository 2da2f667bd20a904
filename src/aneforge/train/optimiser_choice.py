"""Optimisers by name: on the host in float32, or as programs on the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError, UnknownNameError
from aneforge.records import dataclass
from aneforge.train.device_optimisers import DeviceAdam, DeviceAdamFp16, DeviceSGD
from aneforge.train.optimisers import SGD, Adam, AdamW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.train.optimisers import Optimizer, Rate
    from aneforge.train.parameter import Parameter

__all__ = ["OptimizerOptions"]

HOST_ADAMS = {"adam": Adam, "adamw": AdamW}
DEVICE_ADAMS = {"adam": DeviceAdam, "adam_fp16": DeviceAdamFp16}
NAMES = ("sgd", "adam", "adamw", "adam_fp16")


@dataclass(frozen=True, slots=True)
class OptimizerOptions:
    """What the trainer takes for all optimisers."""

    name: str
    betas: tuple[float, float]
    eps: float
    momentum: float
    weight_decay: float | None
    """None is the optimiser's own default."""
    clip_norm: float | None
    on_device: bool

    def build(self, params: Sequence[Parameter], lr: Rate, loss_scale: float) -> Optimizer:
        """Return the optimiser; one on the engine still needs its programs (`for_target`).

        Raises:
            UnknownNameError: There is no such optimiser.
            GraphError: A number is out of its range, or an option does not belong to this optimiser.
        """
        if self.name not in NAMES:
            raise UnknownNameError.of("optimizer", self.name, NAMES)
        if self.momentum and self.name != "sgd":
            raise GraphError(
                f"momentum must be 0 for {self.name}", seen=self.momentum, remedy='use betas, or optimizer="sgd"'
            )
        return self.on_engine(params, lr, loss_scale) if self.on_device else self.on_host(params, lr, loss_scale)

    def on_host(self, params: Sequence[Parameter], lr: Rate, loss_scale: float) -> Optimizer:
        """Return an optimiser on the host.

        Raises:
            GraphError: It exists only on the engine.
        """
        decay, clip = self.weight_decay, self.clip_norm
        if self.name == "sgd":
            return SGD(params, lr, loss_scale, momentum=self.momentum, weight_decay=decay, clip_norm=clip)
        if self.name not in HOST_ADAMS:
            raise GraphError(
                f"{self.name} is an update on the engine",
                seen="device_optimizer=False",
                remedy='use device_optimizer=True, or optimizer="adam", which is in float32 on the host',
            )
        made = HOST_ADAMS[self.name]
        return made(params, lr, self.betas, self.eps, loss_scale, weight_decay=decay, clip_norm=clip)

    def on_engine(self, params: Sequence[Parameter], lr: Rate, loss_scale: float) -> Optimizer:
        """Return an optimiser on the engine.

        Raises:
            GraphError: It exists only on the host, or an option does.
        """
        host_only = {"momentum": self.momentum, "weight_decay": self.weight_decay}
        for option, value in host_only.items():
            if value:
                raise GraphError(
                    f"an update on the engine has no {option}", seen=value, remedy="use device_optimizer=False"
                )
        if self.name == "sgd":
            return DeviceSGD(params, lr, loss_scale, clip_norm=self.clip_norm)
        if self.name not in DEVICE_ADAMS:
            raise GraphError(
                f"{self.name} is an optimiser on the host",
                seen="device_optimizer=True",
                remedy='use device_optimizer=False, or optimizer="adam" or "adam_fp16"',
            )
        made = DEVICE_ADAMS[self.name]
        return made(params, lr, self.betas, self.eps, loss_scale, clip_norm=self.clip_norm)
