"""What the tests of gathered elements share: graphs around a resize, inputs that tell, and bits compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import aneforge as af
from aneforge.analysis.divergence.passages import EVERY
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import prepare
from aneforge.graph.node import build
from aneforge.ops.constant import Dense

Array = np.ndarray[tuple[int, ...], np.dtype[np.float16]]

MULTIPLIES, READS = "h13", "h16s"
SHAPE = (1, 16, 64, 64)
"""Of an input that holds every fp16 number once."""
SMALL = [0.0, -0.0, 2.0**-24, -(2.0**-24), 2.0**-17, -(2.0**-17), 2.0**-16, 3 * 2.0**-17, 2.0**-14, 0.0156, -0.3]
LARGE = [1.0, 1000.5, 4094.0, 4096.0, 32752.0, -32752.0, 32768.0, -32768.0, 65504.0, np.inf, -np.inf, np.nan]
TELLING = np.array([*SMALL, *LARGE], np.float16)
"""Numbers that the accumulator, the crop and the signs of zeros tell apart."""


def x_of(shape: tuple[int, ...] = SHAPE) -> af.Tensor:
    return af.input(shape, name="x")


def operation(op: str, operands: dict[str, Any], attributes: dict[str, Any] | None = None) -> af.Tensor:
    return af.Tensor(build(op, operands, attributes or {}))


def single(number: float) -> Dense:
    return Dense(np.array(number, np.float16))


def mixed(x: af.Tensor, bias: float | None = None) -> af.Tensor:
    """Return sums of two channels each, by weights that are no powers of two."""
    channels = x.shape[1]
    weight = np.zeros((channels, channels, 1, 1), np.float16)
    for place in range(channels):
        weight[place, place], weight[place, (place + 1) % channels] = 0.3, -0.7
    operands: dict[str, Any] = {"x": x, "weight": Dense(weight)}
    if bias is not None:
        operands["bias"] = Dense(np.full(channels, bias, np.float16))
    return operation("conv", operands)


def quantised(x: af.Tensor, scale: float) -> af.Tensor:
    whole = operation("quantize", {"input": x, "scale": single(scale)}, {"output_dtype": "int8"})
    return operation("dequantize", {"input": whole, "scale": single(scale)})


def quarters(x: af.Tensor) -> af.Tensor:
    """Return numbers of a quarter each, none of them below zero, of elements in other places."""
    return quantised(x.reverse((3,)), 0.25).abs()


def padded(x: af.Tensor, number: float) -> af.Tensor:
    return operation("pad", {"x": x}, {"pad": (0, 1, 1, 0), "constant_val": number})


def resized(x: af.Tensor, height: int, width: int, op: str = "resize_nearest_neighbor") -> af.Tensor:
    return operation(op, {"x": x}, {"target_size_height": height, "target_size_width": width})


def shows(graph: af.Tensor | af.Graph, pair: tuple[str, str], inputs: list[Array]) -> bool:
    """Return whether two targets differ in a bit for one of several inputs."""
    ready = [prepare(build_program(graph, target)) for target in pair]
    for x in inputs:
        one, other = (program.run({"x": x}).outputs for program in ready)
        if any(one[name].tobytes() != other[name].tobytes() for name in one):
            return True
    return False


def every_number(shape: tuple[int, ...]) -> list[Array]:
    """Return inputs that hold all numbers in order and mixed up, and many zeros."""
    generator = np.random.default_rng(7)
    size = int(np.prod(shape))
    sparse = np.where(generator.random(shape) < 0.1, generator.choice(TELLING, shape), np.float16(-0.0))
    return [np.resize(EVERY, size).reshape(shape), generator.choice(EVERY, shape), sparse.astype(np.float16)]
