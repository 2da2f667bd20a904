"""Converts networks with coremltools: packages, with inputs and the outputs that PyTorch gives, in a folder.

    python converted.py folder

It runs in a process of its own: coremltools is slow to load, and warns of what of Apple's frameworks is missing.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from unit.formats.torch.torch_networks import (
    MobileNetV2,
    ResNet18,
    SeparableNet,
    UNet,
    VisionTransformer,
)

__all__ = ["NETWORKS", "Accumulator", "Decoder", "Recurrent"]


class Decoder(torch.nn.Module):
    """A block of a decoder without its cache: RMS norm, causal attention, gated layers."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(width, eps=1e-5)
        self.inward, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.gate, self.up, self.down = (torch.nn.Linear(width, width) for _ in range(3))
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result for a sequence."""
        parts = self.inward(self.norm(x)).reshape(1, -1, 3, self.heads, x.shape[-1] // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


class Recurrent(torch.nn.Module):
    """A recurrent layer that runs both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(5, 7, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs of all steps."""
        return self.layer(x)[0]


class Accumulator(torch.nn.Module):
    """A sum that is kept from run to run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of everything that came in, doubled."""
        total = cast("torch.Tensor", self.total)
        total.add_(x)
        return total * 2


@dataclass(frozen=True, slots=True)
class Network:
    """A network and the shapes of its inputs."""

    module: type[torch.nn.Module]
    shapes: tuple[tuple[int, ...], ...]


NETWORKS = {
    "resnet": Network(ResNet18, ((1, 3, 64, 64),)),
    "mobilenet": Network(MobileNetV2, ((1, 3, 32, 32),)),
    "transformer": Network(VisionTransformer, ((1, 3, 32, 32),)),
    "unet": Network(UNet, ((1, 1, 16, 16),)),
    "separable": Network(SeparableNet, ((2, 3, 12, 12),)),
    "decoder": Network(Decoder, ((1, 6, 16),)),
    "recurrent": Network(Recurrent, ((4, 2, 5),)),
}
JOINT = "joint"
"""Sparse weights whose values are quantised."""


def main() -> None:
    """Convert every network, one of them in half precision and compressed too, and one with a state."""
    coremltools = cast("Any", importlib.import_module("coremltools"))
    folder = Path(sys.argv[1])
    for name, network in NETWORKS.items():
        cast("Any", torch).manual_seed(0)
        module = network.module().eval()
        inputs = tuple(torch.randn(shape) for shape in network.shapes)
        package = converted(coremltools, module, inputs, "FLOAT32")
        package.save(str(folder / f"{name}.mlpackage"))
        save_numbers(folder / f"{name}.npz", module, inputs)
        if name == "separable":
            half = converted(coremltools, module, inputs, "FLOAT16")
            half.save(str(folder / "half.mlpackage"))
            compress(half, folder)
    stateful(coremltools, folder)


def converted(coremltools: Any, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], precision: str) -> Any:  # noqa: ANN401 - coremltools has no types
    """Return a module converted to an ML program, from its exported form or, where coremltools fails, a traced one."""
    options: dict[str, object] = {
        "minimum_deployment_target": coremltools.target.iOS18,
        "compute_precision": getattr(coremltools.precision, precision),
        "skip_model_load": True,
    }
    try:
        return coremltools.convert(cast("Any", torch).export.export(module, inputs).run_decompositions({}), **options)
    except (NotImplementedError, TypeError, ValueError):
        traced = cast("Any", torch).jit.trace(module, inputs, strict=False, check_trace=False)
        kinds = [coremltools.TensorType(name=f"input{place}", shape=one.shape) for place, one in enumerate(inputs)]
        return coremltools.convert(traced, inputs=kinds, **options)


def save_numbers(path: Path, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Save inputs and outputs, in their order."""
    with torch.no_grad():
        given = module(*inputs)
    arrays = {f"input{place}": one.numpy() for place, one in enumerate(inputs)} | {"output0": given.numpy()}
    cast("Any", np).savez(path, **arrays)


def compress(package: Any, folder: Path) -> None:  # noqa: ANN401 - coremltools has no types
    """Save a network with its weights compressed in several ways."""
    coreml = importlib.import_module("coremltools.optimize.coreml")
    optimize = cast("Any", coreml)
    linear = optimize.OpLinearQuantizerConfig
    configurations = {
        "int8": (optimize.linear_quantize_weights, linear(mode="linear", weight_threshold=0)),
        "int4_blocks": (
            optimize.linear_quantize_weights,
            linear(mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=2, weight_threshold=0),
        ),
        "sparse": (optimize.prune_weights, optimize.OpMagnitudePrunerConfig(target_sparsity=0.5, weight_threshold=0)),
    }
    made = {
        name: function(package, optimize.OptimizationConfig(global_config=configuration))
        for name, (function, configuration) in configurations.items()
    }
    values = optimize.OptimizationConfig(global_config=linear(mode="linear_symmetric", weight_threshold=0))
    made[JOINT] = optimize.linear_quantize_weights(made["sparse"], values, joint_compression=True)
    for name, small in made.items():
        small.save(str(folder / f"{name}.mlpackage"))
        whole = optimize.decompress_weights(small)
        whole.save(str(folder / f"{name}_whole.mlpackage"))


def stateful(coremltools: Any, folder: Path) -> None:  # noqa: ANN401 - coremltools has no types
    """Save a network with a state."""
    traced = cast("Any", torch).jit.trace(Accumulator().eval(), torch.zeros(1, 4))
    held = coremltools.TensorType(shape=(1, 4), dtype=np.float16)
    package = coremltools.convert(
        traced,
        inputs=[coremltools.TensorType(shape=(1, 4), dtype=np.float16)],
        outputs=[coremltools.TensorType(dtype=np.float16)],
        states=[coremltools.StateType(wrapped_type=held, name="total")],
        minimum_deployment_target=coremltools.target.iOS18,
        skip_model_load=True,
    )
    package.save(str(folder / "state.mlpackage"))


if __name__ == "__main__":
    main()
