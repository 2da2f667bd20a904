"""Reads a compiled container as a graph: every task becomes the operations that it computes.

Tasks that only move elements leave nothing but the order of axes, slices and concatenations. A task that is no
operation by itself, such as a sum whose reciprocal is read off before it is rounded, is kept until what it belongs to
is recognised (`norm_chains`); if something else reads it, the error names it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import HwxError, Location
from aneforge.formats.hwx.ane_file import name_file, read_program
from aneforge.formats.hwx.interpreter.activation_tables import ActivationTable
from aneforge.formats.hwx.interpreter.element_names import MadeValue, ValueTable
from aneforge.formats.hwx.interpreter.norm_chains import (
    exponential_of,
    is_power_of_two,
    layer_norm_of,
    rows_of_planes,
    softmax_of,
)
from aneforge.formats.hwx.interpreter.steps import (
    FUNCTIONS,
    Bound,
    ChannelMaximum,
    ConstantKernel,
    Convolution,
    Copy,
    Elements,
    Normalisation,
    PairReduction,
    Reduction,
    Sum,
    Window,
)
from aneforge.formats.hwx.interpreter.walking import Program
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Container
    from aneforge.formats.hwx.interpreter.steps import Activation, NeuralWork, PlanarWork, Step
    from aneforge.graph.node import Argument

    Names = NDArray[np.int64]

__all__ = ["from_hwx", "lift"]

OUTPUT_SUFFIX = "@output"
"""What old compilers add to the names of outputs."""


def from_hwx(path: str | os.PathLike[str]) -> Graph:
    """Read a compiled container as a graph.

    Raises:
        HwxError: It cannot be read, or a task is not understood; the error names the task and the register.
    """
    with name_file(path):
        return lift(read_program(path), str(path))


def lift(container: Container, file: str | None = None) -> Graph:
    """Return the graph that the tasks of a container compute; a file's name is that of its operations' places.

    Raises:
        HwxError: A task is not understood, or a graph has no operation for it; the error names it and the register.
    """
    program = Program(container, np.int64)
    computer = GraphComputer(file)
    for port in program.inputs:
        attributes = {"shape": port.shape, "dtype": "fp16", "name": port.name}
        tensor = Tensor(build("input", {}, attributes, Location(file, node=port.name)))
        program.set_input(port.name, computer.values.add(MadeValue(tensor), port.shape))
    program.run(computer)
    return Graph(
        {
            port.name.removesuffix(OUTPUT_SUFFIX): computed_output(
                computer.values.tensor(program.output(port.name), f"port {port.name!r}"),
                Location(file, node=port.name),
            )
            for port in program.outputs
        }
    )


def computed_output(tensor: Tensor, place: Location) -> Tensor:
    """Return an output; one that is an unchanged input is a copy, for a task of the file writes it."""
    return Tensor(build("identity", {"x": tensor}, {}, place)) if tensor.op == "input" else tensor


class GraphComputer:
    """Makes the operations of steps; elements are names."""

    def __init__(self, file: str | None) -> None:
        self.values = ValueTable()
        self.file = file
        self.where = ""

    def compute(self, step: Step, sources: tuple[Names, ...], kernel: Names | None) -> Names:
        """Return the names of what a step gives."""
        self.where = f"task {step.index}"
        self.values.place = Location(self.file, node=self.where)
        if step.relu_of_source:
            return self.values.add(
                MadeValue(None, self.refuse("l2.input_relu", "a source is rectified")), step.result_shape
            )
        if step.work == Copy(1.0, Bound.NONE):
            return sources[0]
        return self.values.add(self.lift_step(step, sources, kernel), step.result_shape)

    def lift_step(self, step: Step, sources: tuple[Names, ...], kernel: Names | None) -> MadeValue:
        """Return what a step gives; what it cannot read is said when something needs the result."""
        try:
            if isinstance(step.work, Copy | Convolution | Sum | ChannelMaximum):
                return self.neural(step, step.work, sources, kernel)
            return self.planar(step.work, sources)
        except HwxError as error:
            return MadeValue(None, str(error), step.work, sources)

    def tensor(self, names: Names) -> Tensor:
        """Return the tensor of a source: without groups and depth where there is one of each."""
        groups, channels, depth, height, width = names.shape
        inner = (height, width) if depth == 1 else (depth, height, width)
        return self.values.tensor(names.reshape(groups, channels, *inner), self.where)

    def refuse(self, register: str, reason: str) -> str:
        """Return what is said of a value that a graph has no operation for."""
        return f"{self.where}: {register}: a graph has no operation for it: {reason}"

    # The neural engine.

    def neural(self, step: Step, work: NeuralWork, sources: tuple[Names, ...], kernel: Names | None) -> MadeValue:
        """Return what a task of the neural engine gives."""
        match work:
            case Copy():
                scaled = self.tensor(sources[0])
                scaled = scaled if work.scale == 1 else self.values.apply("muls", {"x": scaled}, {"k": work.scale})
                return self.activated(scaled, work.activation, work, sources)
            case Convolution():
                return self.convolved(work, sources, kernel)
            case Sum():
                return self.summed(step, work, sources)
            case ChannelMaximum():
                groups, channels, depth, height, width = sources[0].shape
                parts = sources[0].reshape(groups * channels // work.channels, work.channels, depth * height, width)
                largest = self.values.apply(
                    "reduce_max", {"x": self.values.tensor(parts, self.where)}, {"axes": (1,), "keep_dims": True}
                )
                return self.activated(largest, work.activation, work, sources)

    def activated(self, x: Tensor, activation: Activation, work: NeuralWork, sources: tuple[Names, ...]) -> MadeValue:
        """Return a tensor after an activation."""
        if activation is Bound.NONE:
            return MadeValue(x, work=work, sources=sources)
        if activation is Bound.RELU:
            return MadeValue(self.values.apply("relu", {"x": x}), work=work, sources=sources)
        named = activation.operation
        if named is None:
            return MadeValue(None, self.refuse("ne.nonlinearity", "the table is not a known one"))
        exponents = exponential_of(self.values, sources[0]) if is_power_of_two(work) else None
        if exponents is not None:
            return MadeValue(self.values.apply("exp", {"x": self.tensor(exponents)}), work=work, sources=sources)
        return MadeValue(self.values.apply(named.op, {"x": x}, named.attributes), work=work, sources=sources)

    def convolved(self, work: Convolution, sources: tuple[Names, ...], kernel: Names | None) -> MadeValue:
        """Return sums of products, scaled, after an activation."""
        images = self.images(sources[0])
        if isinstance(work.kernel, ConstantKernel):
            weights, biases = work.kernel.weights.view(np.float16), work.kernel.biases
            operands: dict[str, Argument] = {"x": images, "weight": Dense(weights)}
            operands |= {} if biases is None else {"bias": Dense(biases.view(np.float16))}
            sums = self.values.apply("conv", operands, attributes_of(work.window))
        else:
            if (work.window.height, work.window.width, work.window.groups) != (1, 1, 1):
                return MadeValue(None, self.refuse("ne.runtime_kernel", "a kernel that is computed must be a matrix"))
            matrix = self.values.tensor(cast("Names", kernel)[None, :, :, 0, 0], self.where)
            _, channels, height, width = images.shape
            columns = self.values.apply("reshape", {"x": images}, {"shape": (1, channels, height * width)})
            sums = self.values.apply("matmul", {"x": matrix, "y": columns})
        scaled = sums if work.scale == 1 else self.values.apply("muls", {"x": sums}, {"k": work.scale})
        return self.activated(scaled, work.activation, work, sources)

    def summed(self, step: Step, work: Sum, sources: tuple[Names, ...]) -> MadeValue:
        """Return sums of channels after an activation."""
        table = work.activation if isinstance(work.activation, ActivationTable) else None
        named = table.operation if table else None
        if work.channels == 1 and (work.window.height, work.window.width) == (1, 1):
            x = self.tensor(sources[0])
            if named is not None and "epsilon" in named.attributes:
                return MadeValue(self.values.apply(named.op, {"x": x}, {"epsilon": work.start}))
            return self.activated(
                self.values.apply("adds", {"x": x}, {"k": work.start}), work.activation, work, sources
            )
        if work.from_accumulator:
            return MadeValue(None, self.refuse("common.dpe", "a table reads the accumulator"), work, sources)
        outer = step.result_shape[0] * step.result_shape[1]
        ones = np.ones((outer, work.channels, work.window.height, work.window.width), np.float16)
        operands: dict[str, Argument] = {"x": self.images(sources[0]), "weight": Dense(ones)}
        operands |= {"bias": Dense(np.full(outer, work.start, np.float16))} if work.start else {}
        return self.activated(
            self.values.apply("conv", operands, attributes_of(work.window)), work.activation, work, sources
        )

    def images(self, names: Names) -> Tensor:
        """Return a source as images: groups and channels are one axis."""
        groups, channels, _, height, width = names.shape
        return self.values.tensor(names.reshape(1, groups * channels, height, width), self.where)

    # The planar engine.

    def planar(self, work: PlanarWork, sources: tuple[Names, ...]) -> MadeValue:
        """Return what a task of the planar engine gives."""
        match work:
            case Elements():
                return self.elements(work, sources)
            case Reduction():
                return self.reduced(work, sources)
            case PairReduction():
                refusal = self.refuse("pe.planar_operation", "a function of two sources is summed")
                return MadeValue(None, refusal, work, sources)
            case Normalisation():
                made = layer_norm_of(self.values, sources, self.where)
                refusal = self.refuse("common.task_type", "statistics are used that are not those of their rows")
                return MadeValue(made, "" if made is not None else refusal)

    def elements(self, work: Elements, sources: tuple[Names, ...]) -> MadeValue:
        """Return work on elements."""
        first, *others = sources
        made = self.pair(work, sources) if others else self.one(work, self.tensor(first))
        if made is None:
            refusal = self.refuse("pe.planar_config", "a pair is scaled, negated or shifted in one rounding")
            return MadeValue(None, refusal, work, sources)
        if work.relu:
            made = self.values.apply("relu", {"x": made})
        if work.function != "none":
            made = self.values.apply(FUNCTIONS[work.function], {"x": made}, {"epsilon": work.epsilon})
        return MadeValue(made, work=work, sources=sources)

    def one(self, work: Elements, x: Tensor) -> Tensor:
        """Return one source, scaled and shifted."""
        if work.absolute:
            x = self.values.apply("abs", {"x": x})
        if work.negated[0]:
            x = self.values.apply("muls", {"x": x}, {"k": -1.0})
        if work.scale != 1 and work.offset != 0:
            return self.values.apply("linear_activation", {"x": x}, {"alpha": work.scale, "beta": work.offset})
        if work.scale != 1:
            return self.values.apply("muls", {"x": x}, {"k": work.scale})
        return self.values.apply("adds", {"x": x}, {"k": work.offset}) if work.offset else x

    def pair(self, work: Elements, sources: tuple[Names, ...]) -> Tensor | None:
        """Return two sources combined; None where no operation combines them so."""
        op = work.pair_operation
        if op is None:
            return self.scaled_bound(work, sources)
        softmax = softmax_of(self.values, sources, self.where) if op == "mul" else None
        if softmax is not None:
            return softmax
        x, y = (self.tensor(names) for names in sources)
        return self.values.apply(op, {"x": x, "y": y})

    def scaled_bound(self, work: Elements, sources: tuple[Names, ...]) -> Tensor | None:
        """Return the larger or smaller of two sources, scaled: it is exact, so that only the scale is rounded."""
        op = replace(work, scale=1.0).pair_operation
        if op not in {"maximum", "minimum"}:
            return None
        x, y = (self.tensor(names) for names in sources)
        return self.values.apply("muls", {"x": self.values.apply(op, {"x": x, "y": y})}, {"k": work.scale})

    def reduced(self, work: Reduction, sources: tuple[Names, ...]) -> MadeValue:
        """Return a reduction over the plane of every channel."""
        names = sources[0].transpose(0, 1, *work.order)
        op = work.operation(names[0, 0].size)
        if op is None:
            refusal = self.refuse("pe.post_function", "a sum is scaled or has a function in one rounding")
            return MadeValue(None, refusal, work, sources)
        x, axes = rows_of_planes(self.values, names, self.where)
        return MadeValue(self.values.apply(op, {"x": x}, {"axes": axes, "keep_dims": True}), work=work, sources=sources)


def attributes_of(window: Window) -> Mapping[str, object]:
    """Return a window as the attributes of a convolution."""
    return {"strides": window.strides, "pad_type": "custom", "pad": window.pad, "groups": window.groups}
