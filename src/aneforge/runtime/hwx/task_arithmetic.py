"""What one task computes, made of the arithmetic of the engine's operations.

Where a task is an operation of the table, that operation's arithmetic runs. A task that does more in one pass (a sum
whose reciprocal is read off before it is rounded, a difference that is scaled) is made of the same steps as the
engine's norms: `read`, exact numbers, one rounding at the end.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine import golden, kernels
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.doubts import SPECIAL
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.labels import PAST_THE_EDGE, WINOGRAD_GROWTH, Reach
from aneforge.engine.neuron import table as table_of
from aneforge.engine.planar import host_fp16, read
from aneforge.engine.products import convolution_by, form_of
from aneforge.engine.reductions import accumulate, adder_of, extreme, squares
from aneforge.engine.rounding import to_fp16
from aneforge.formats.hwx.interpreter.activation_tables import ActivationTable
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
from aneforge.ops.attributed import plain_attributes
from aneforge.ops.numbers import FP16_INFINITY
from aneforge.records import dataclass
from aneforge.runtime.hwx.interpolation import interpolate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.formats.hwx.interpreter.steps import Activation, NeuralWork, PlanarWork, Step
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.windows import ConvAttributes
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.uint16]

__all__ = ["SoftwareComputer"]

IN_ONE_TASK = "the planar engine's sums and functions of them in one pass; their order and rounding are not measured"
SCALED_PAIR = "a scaled pair rounds once; not measured"
FROM_ACCUMULATOR = "a table that reads the accumulator; its rounding before the table is not measured"
UNKNOWN_TABLE = "an activation table that is not one of the known ones is interpolated as they are"
EARLY_SCALE = "a scale before an activation; not measured"


@dataclass(slots=True)
class SoftwareComputer:
    """Computes steps on a target, and notes how sure each is."""

    target: Target
    labels: dict[int, list[Label]] = field(default_factory=dict[int, "list[Label]"])
    task: int = 0

    def compute(self, step: Step, sources: tuple[Bits, ...], kernel: Bits | None) -> Bits:
        """Return the result of a step."""
        self.task = step.index
        self.labels[step.index] = [Label(Exactness.MODELLED, doubt) for doubt in step.doubts]
        values = [np.ascontiguousarray(one).view(np.float16) for one in sources]
        if step.relu_of_source:
            values[0] = self.run("relu", {"x": values[0]})
        found = self.worked(step, values, None if kernel is None else kernel.view(np.float16))
        return np.ascontiguousarray(host_fp16(found)).view(np.uint16)

    def worked(self, step: Step, values: list[Array], kernel: Array | None) -> Array:
        """Return the result of a step in fp16, or in float64 that holds fp16."""
        if isinstance(step.work, Copy | Convolution | Sum | ChannelMaximum):
            return self.neural(step, step.work, values[0], kernel)
        return self.planar(step.work, values)

    def neural(self, step: Step, work: NeuralWork, x: Array, kernel: Array | None) -> Array:
        """Return what the neural engine gives."""
        match work:
            case Copy():
                return self.activated(self.scaled(x, work.scale), work.activation)
            case Convolution():
                return self.convolved(step, work, x, kernel)
            case Sum():
                return self.summed(step, work, x)
            case ChannelMaximum():
                return self.largest(work, x)

    def planar(self, work: PlanarWork, values: list[Array]) -> Array:
        """Return what the planar engine gives."""
        match work:
            case Elements():
                return self.elements(work, values)
            case Reduction():
                return self.reduced(work, values[0])
            case PairReduction():
                return self.pair_reduced(work, values)
            case Normalisation():
                self.doubt(IN_ONE_TASK)
                x, statistics = values
                means, factors = statistics[:, :, :, :1], statistics[:, :, :, 1:]
                return to_fp16((read(x) - read(means)) * read(factors))

    def run(
        self, op: str, operands: Mapping[str, Array | None], attributes: Mapping[str, AttributeValue] | None = None
    ) -> Array:
        """Return the result of an operation of the table, and note how sure it is."""
        found, complete = arithmetic(op, self.target), attributes or {}
        given = {name: value for name, value in operands.items() if value is not None}
        self.labels[self.task].append(found.label_of(given, complete, values=op != "conv"))
        return found.compute(given, complete)[0]

    def doubt(self, reason: str) -> None:
        """Note what makes the task modelled."""
        self.labels[self.task].append(Label(Exactness.MODELLED, reason))

    # The neural engine.

    def scaled(self, x: Array, scale: float) -> Array:
        """Return elements times the scale before an activation."""
        if scale == 1:
            return x
        self.doubt(EARLY_SCALE)
        return self.run("muls", {"x": x}, {"k": scale})

    def activated(self, x: Array, activation: Activation) -> Array:
        """Return elements after an activation."""
        if activation is Bound.NONE:
            return x
        if activation is Bound.RELU:
            return self.run("relu", {"x": x})
        table = activation
        if table.operation is not None:
            return self.run(table.operation.op, {"x": x}, table.operation.attributes)
        self.doubt(UNKNOWN_TABLE)
        return interpolate(x, table, self.task)

    def convolved(self, step: Step, work: Convolution, x: Array, kernel: Array | None) -> Array:
        """Return sums of products, scaled, after an activation."""
        images = planes_of(x)
        if isinstance(work.kernel, ConstantKernel):
            weights = work.kernel.weights.view(np.float16)
            biases = None if work.kernel.biases is None else work.kernel.biases.view(np.float16)
        else:
            weights, biases = np.ascontiguousarray(cast("Array", kernel)), None
        attributes = attributes_of(work.window)
        self.doubt_sums(images, weights, biases, attributes)
        if work.scale == 1:
            given: dict[str, Array | None] = {"x": images, "weight": weights, "bias": biases}
            found = self.run("conv", given, plain_attributes(attributes))
        else:
            self.doubt(EARLY_SCALE)
            found = golden.apply_gain(self.total(images, weights, biases, attributes), work.scale, None)
        return self.activated(host_fp16(group(found, step)), work.activation)

    def doubt_sums(self, images: Array, weights: Array, biases: Array | None, attributes: ConvAttributes) -> None:
        """Note what values make less sure: infinities, and sums that could pass the accumulator's edge."""
        form = form_of(images.shape, weights.shape, attributes, self.target)
        largest, heaviest = (float(np.abs(read(one)).max(initial=0.0)) for one in (images, weights))
        if max(largest, heaviest) >= FP16_INFINITY:
            self.labels[self.task].append(SPECIAL)
        elif form != "scaling":
            start_magnitude = 0.0 if biases is None else float(np.abs(read(biases)).max(initial=0.0))
            growth = WINOGRAD_GROWTH if form == "winograd" else 1.0
            reach = Reach("conv", weights[0].size, start_magnitude, growth, transposed=False, most=None)
            if reach.passes_edge(largest, heaviest, weights):
                self.labels[self.task].append(PAST_THE_EDGE)

    def total(self, images: Array, weights: Array, biases: Array | None, attributes: ConvAttributes) -> Array:
        """Return the sums of a convolution before they are rounded."""
        form = form_of(images.shape, weights.shape, attributes, self.target)
        starts = None if biases is None else biases.astype(np.float64)
        return convolution_by(form, images.shape, weights.shape, attributes, kernels.operations.TOTALS)(
            images, weights, starts
        )

    def summed(self, step: Step, work: Sum, x: Array) -> Array:
        """Return sums of channels, each times 1, after an activation.

        One channel with a start is an operation that adds an epsilon before its table is read.
        """
        named = work.activation.operation if isinstance(work.activation, ActivationTable) else None
        if work.channels == 1 and (work.window.height, work.window.width) == (1, 1):
            self.doubt(FROM_ACCUMULATOR)
            if named is None or "epsilon" not in named.attributes:
                return self.activated(self.run("adds", {"x": x}, {"k": work.start}), work.activation)
            return self.run(named.op, {"x": x}, {"epsilon": work.start})
        images = planes_of(x)
        outer = step.result_shape[0] * step.result_shape[1]
        ones = np.ones((outer, work.channels, work.window.height, work.window.width), np.float16)
        starts = np.full(outer, work.start, np.float16) if work.start else None
        attributes = attributes_of(work.window)
        if work.from_accumulator and named is not None:
            self.doubt(FROM_ACCUMULATOR)
            return table_of(named.op, group(self.total(images, ones, starts, attributes), step))
        given: dict[str, Array | None] = {"x": images, "weight": ones, "bias": starts}
        found = self.run("conv", given, plain_attributes(attributes))
        return self.activated(group(found, step), work.activation)

    def largest(self, work: ChannelMaximum, x: Array) -> Array:
        """Return the largest of neighbouring channels, after an activation."""
        groups, channels, *rest = x.shape
        parts = x.reshape(groups, channels // work.channels, work.channels, *rest)
        found = self.run("reduce_max", {"x": parts}, {"axes": (2,), "keep_dims": False})
        return self.activated(found, work.activation)

    # The planar engine.

    def elements(self, work: Elements, values: list[Array]) -> Array:
        """Return sources combined, scaled, shifted, after a function."""
        found = self.pair(work, values) if len(values) > 1 else self.one(work, values[0])
        found = host_fp16(found)
        if work.relu:
            self.doubt("pe.relu is interpreted by its name only")
            found = self.run("relu", {"x": found})
        if work.function == "none":
            return found
        self.doubt(IN_ONE_TASK)
        return self.run(FUNCTIONS[work.function], {"x": found}, {"epsilon": work.epsilon})

    def one(self, work: Elements, x: Array) -> Array:
        """Return one source, scaled and shifted."""
        if work.absolute:
            x = self.run("abs", {"x": x})
        if work.negated[0]:
            x = self.run("muls", {"x": x}, {"k": -1.0})
        match work.scale == 1, work.offset == 0:
            case True, True:
                return x
            case True, False:
                return self.run("adds", {"x": x}, {"k": work.offset})
            case False, True:
                return self.run("muls", {"x": x}, {"k": work.scale})
            case _:
                return self.run("linear_activation", {"x": x}, {"alpha": work.scale, "beta": work.offset})

    def pair(self, work: Elements, values: list[Array]) -> Array:
        """Return two sources combined, scaled and shifted."""
        x, y = values
        if work.pair_operation is not None:
            return self.run(work.pair_operation, {"x": x, "y": y})
        self.doubt(SCALED_PAIR)
        exact = combine(work.operation, apply_sign(x, negated=work.negated[0]), apply_sign(y, negated=work.negated[1]))
        if work.absolute:
            exact = np.abs(exact)
        return golden.apply_gain(exact, work.scale, work.offset or None)  # adding 0 would lose the sign of a zero

    def reduced(self, work: Reduction, x: Array) -> Array:
        """Return a reduction over the plane of every channel."""
        rows = rows_of(x, work.order)
        op = work.operation(rows.shape[-1])
        if op is not None:
            return planes(self.run(op, {"x": rows}, {"axes": (2,), "keep_dims": False}))
        self.doubt(IN_ONE_TASK)
        if work.kind == "max":
            found = extreme(read(rows), (2,), np.argmax, keep_dims=False)
        else:
            found = accumulate(read(rows), (2,), adder_of(self.target))[..., 0]
        return planes(self.apply_function(found * work.factor + work.epsilon, work.function))

    def pair_reduced(self, work: PairReduction, values: list[Array]) -> Array:
        """Return the sum of a function of two sources."""
        self.doubt(IN_ONE_TASK)
        x, y = (apply_sign(one, negated=negated) for one, negated in zip(values, work.negated, strict=True))
        x, y = np.broadcast_arrays(x, y)
        terms = squares(x + y) if work.operation == "square of sum" else combine(work.operation, x, y)
        total = accumulate(rows_of(terms, work.order), (2,), adder_of(self.target))[..., 0]
        return planes(self.apply_function(total * work.factor + work.epsilon, work.function))

    def apply_function(self, total: Array, function: str) -> Array:
        """Return a function of sums that were not rounded before."""
        return to_fp16(total) if function == "none" else table_of(FUNCTIONS[function], total)


def apply_sign(x: Array, *, negated: bool) -> Array:
    """Return numbers as the engine reads them, with their sign turned where a register says so."""
    return -read(x) if negated else read(x)


def combine(operation: str, x: Array, y: Array) -> Array:
    """Return pairs of numbers combined exactly."""
    functions: Mapping[str, Callable[[Array, Array], Array]] = {
        "add": np.add,
        "mul": np.multiply,
        "max": lambda x, y: np.where(x > y, x, y),
        "min": lambda x, y: np.where(x < y, x, y),
        "square of sum": lambda x, y: np.square(x + y),
    }
    return functions[operation](x, y)


def planes_of(x: Array) -> Array:
    """Return a tensor of groups as images: groups and channels are one axis."""
    groups, channels, _, height, width = x.shape
    return np.ascontiguousarray(x.reshape(1, groups * channels, height, width))


def group(found: Array, step: Step) -> Array:
    """Return images as a tensor of groups."""
    groups = step.result_shape[0]
    _, channels, height, width = found.shape
    return found.reshape(groups, channels // groups, 1, height, width)


def rows_of(x: Array, order: tuple[int, ...]) -> Array:
    """Return the plane of every channel as one row, in the order in which its axes are added."""
    return np.ascontiguousarray(x.transpose(0, 1, *order)).reshape(*x.shape[:2], -1)


def planes(rows: Array) -> Array:
    """Return one number per channel as a tensor."""
    return rows[:, :, None, None, None]


def attributes_of(window: Window) -> ConvAttributes:
    """Return a window as the attributes of a convolution."""
    return {
        "strides": window.strides,
        "pad_type": "custom",
        "pad": window.pad,
        "dilations": (1, 1),
        "groups": window.groups,
    }
