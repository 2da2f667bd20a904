"""Layers as launches: operands, the operation before the epilogue, the slots, and where doubts are noted.

The twin of `execution.layers`: what a layer computes and how sure it is are found by the same functions. A layer whose
form has no kernels runs on the host in its place, and the plan says so.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from aneforge.callsite import keep_warnings
from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.compiler.ir.layer import Value as LayerValue
from aneforge.engine.cuda.device_operations import Operations
from aneforge.engine.cuda.meanings import as_real
from aneforge.engine.cuda.noted_labels import BOTH_ZEROS, UNLIKE_PAIRS, Noted
from aneforge.engine.cuda.plans import HostStep, Role
from aneforge.engine.cuda.primitives import HALF, Builder
from aneforge.engine.cuda.product_launches import After
from aneforge.engine.cuda.tensors import Tensor, UnsuitedError
from aneforge.engine.dispatch import UNARY, arithmetic, is_real, round_operands
from aneforge.engine.execution.epilogue import GAIN_OFFSET, Exact, Pointwise, along, build_gain, join, stage_of
from aneforge.engine.execution.labels import Labels
from aneforge.engine.execution.layers import plain_stages, rounds_once
from aneforge.engine.execution.run import engine_element
from aneforge.engine.execution.run_products import MATRIX_PRODUCTS, for_channels, is_product, product_of
from aneforge.engine.execution.values import Values
from aneforge.engine.planar import host_fp16
from aneforge.engine.products import convolution_by, matmul_by, transposed_window
from aneforge.ops.windows import ConvAttributes, TransposeAttributes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.kind import Slot
    from aneforge.compiler.ir.layer import Stage
    from aneforge.engine.cuda.plans import Buffer, Plan
    from aneforge.engine.exactness import Label
    from aneforge.engine.execution.epilogue import Function
    from aneforge.engine.execution.layers import Step
    from aneforge.engine.execution.run import Executable
    from aneforge.engine.execution.run_products import Product
    from aneforge.ops.types import TensorType

    Array = npt.NDArray[Any]
    Value = Tensor | npt.NDArray[Any]
    Operand = Value | tuple[Value, ...]

__all__ = ["Planned", "plan_program"]


@dataclass(slots=True)
class Planned:
    """A plan, and where its doubts are noted."""

    plan: Plan
    noted: list[Noted] = field(default_factory=list[Noted])
    words: int = 0
    high: int = 0
    wide: int = 0
    refusals: tuple[int, ...] = ()
    """Words that are not 0 for a sample that the CPU refuses while it runs, and says why."""
    undecided: tuple[int, ...] = ()
    """Words that are not 0 for a sample that the CPU computes: the device cannot decide between two numbers."""


def plan_program(ready: Executable, samples: int, kept: dict[object, Buffer]) -> Planned:
    """Lay out a program for a number of samples; plans of one program share constants through `kept`."""
    with keep_warnings():  # a run gives them
        return Layers(ready, samples, kept).planned()


class Layers:
    """Lays out the layers of a program one after the other."""

    def __init__(self, ready: Executable, samples: int, kept: dict[object, Buffer]) -> None:
        self.ready = ready
        self.program = ready.program
        self.builder = Builder(samples, kept)
        self.operations = Operations(self.builder, partial(arithmetic, target=self.program.target))
        self.values: dict[str, Tensor] = {}

    def planned(self) -> Planned:
        """Return the plan."""
        build, plan, program = self.builder, self.builder.plan, self.program
        for port in program.inputs:
            plan.inputs[port.name] = self.values[port.value.name] = self.port(port.value.type)
        for state in program.states:
            plan.inputs[f"state {state.name}"] = self.values[state.read.name] = self.port(state.read.type)
        found = Planned(plan)
        for step in self.ready.steps:
            found.noted.append(self.lay_out(step))
        for port in program.outputs:
            plan.outputs[port.name] = build.contiguous(self.values[port.value.name])
        for state in program.states:
            plan.states[state.name] = build.contiguous(self.values[(state.written or state.read).name])
        plan.items[:0] = build.begin()
        noted = build.findings
        found.words, found.high, found.wide = noted.words, noted.high, noted.wide
        found.refusals, found.undecided = noted.refusals, noted.undecided
        return found

    def port(self, kind: TensorType) -> Tensor:
        """Return memory for what a port takes."""
        return self.builder.empty(kind.shape, engine_element(kind), role=Role.KEPT)

    def lay_out(self, step: Step) -> Noted:
        """Lay out a layer, on the host where there are no kernels for it."""
        layer, build = step.layer, self.builder
        before = build.mark()
        operands = {name: self.operand(step, name, argument) for name, argument in layer.operands.items()}
        noted = Noted(layer.name, step.labels)
        try:
            results = self.computed(step, operands, noted)
            for value, tensor in zip(layer.results, results, strict=True):
                if tensor.shape != value.type.shape or tensor.dtype != engine_element(value.type):
                    raise UnsuitedError(f"{tensor.dtype} {tensor.shape} for {value.type}")  # noqa: TRY301
            self.note_operands(step, operands, noted)
        except UnsuitedError as error:
            build.undo(before)
            return self.on_host(step, str(error))
        self.values |= {value.name: tensor for value, tensor in zip(layer.results, results, strict=True)}
        return noted

    def operand(self, step: Step, name: str, argument: object) -> Operand:
        """Return an operand: a tensor, or an array of the host for a constant."""
        if isinstance(argument, tuple):
            listed = cast("tuple[object, ...]", argument)
            return tuple(
                self.values[one.name] if isinstance(one, LayerValue) else step.constants[f"{name}.{number}"]
                for number, one in enumerate(listed)
            )
        return self.values[argument.name] if isinstance(argument, LayerValue) else step.constants[name]

    def computed(self, step: Step, operands: Mapping[str, Operand], noted: Noted) -> tuple[Tensor, ...]:
        """Lay out what a layer computes."""
        layer = step.layer
        call = call_of_layer(layer)
        if not any(isinstance(one, Tensor) for value in operands.values() for one in as_list(value)):
            return self.constants(step, noted)
        if call is None:
            affine, rank = affine_of_layer(layer), layer.core_types[0].rank
            first = (build_gain(affine, rank), (affine.gain, affine.offset, rank, affine.axis))
            x = cast("Tensor", operands["input"])
            return (self.staged(x, layer.epilogue.stages, layer.core_types[0], noted, first),)
        if is_product(layer):
            product = product_of(layer, call, self.program.target)
            found = self.multiplied(product, operands)
            return (self.staged(found, product.stages, layer.core_types[0], noted),)
        renamed = cast("dict[str, Any]", call.renamed(dict(operands)))
        if rounds_once(layer):
            rank = layer.core_types[0].rank
            exact = Exact.of(affine_of_stage(layer.epilogue.stages[0][1], rank), rank)
            kind = {"mult": "mul"}.get(layer.kind.name, layer.kind.name)
            result = self.builder.gained_pair(kind, renamed["x"], renamed["y"], exact.gain, exact.offset)
            return (self.staged(result, plain_stages(layer), layer.core_types[0], noted),)
        results = self.plain(call, renamed, noted)
        stages = plain_stages(layer)
        return (self.staged(results[0], stages, layer.core_types[0], noted), *results[1:]) if stages else results

    def constants(self, step: Step, noted: Noted) -> tuple[Tensor, ...]:
        """Compute what is made of constants alone, once, by the CPU's kernels."""
        found, doubts = step.run(Values({}))
        noted.labels = Labels(step.labels.with_doubts(doubts))
        arrays = [host_fp16(one) if is_real(one) else one for one in found]
        return tuple(self.builder.constant(one, (step.layer.name, number)) for number, one in enumerate(arrays))

    def plain(self, call: Call, operands: dict[str, Any], noted: Noted) -> tuple[Tensor, ...]:
        """Lay out an operation of the table."""
        found = arithmetic(call.op, self.program.target)
        attributes = found.op.complete(call.attributes)
        x = operands.get("x")
        if call.op in UNARY and isinstance(x, Tensor) and x.dtype == HALF:
            flags = noted.labels.doubtful.flags if noted.labels.doubtful is not None else None
            out, place = self.builder.lookup(
                x, found.table(attributes), (call.op, found.target.name, repr(sorted(attributes.items()))), flags
            )
            noted.flags = place if flags is not None else None
            return (out,)
        results = self.operations.run(call.op, operands, attributes)
        if noted.labels.among_zeros is not None:
            if self.operations.zeros is not None:
                noted.zeros = (self.operations.zeros, UNLIKE_PAIRS)
            elif isinstance(x, Tensor) and call.op != "pe_elementwise":
                noted.zeros = (self.builder.find_extremes(x).zeros, BOTH_ZEROS)
        return results

    # What is after an operation.

    def staged(
        self,
        x: Tensor,
        stages: Iterable[tuple[Slot, Stage]],
        flowing: TensorType,
        noted: Noted,
        first: tuple[Function, tuple[Any, ...]] | None = None,
    ) -> Tensor:
        """Lay out slots one after the other; neighbours that are tables are one."""
        forms: dict[int, tuple[Any, ...]] = {}
        functions: list[Function] = []
        if first is not None:
            functions.append(first[0])
            forms[id(first[0])] = ("gain", *first[1])
        kinds = flowing
        for _, stage in stages:
            function, _ = stage_of(stage, kinds, self.program.target)
            functions.append(function)
            if stage.kind.name == GAIN_OFFSET:
                affine = affine_of_stage(stage, kinds.rank)
                forms[id(function)] = ("gain", affine.gain, affine.offset, kinds.rank, affine.axis)
            else:
                forms[id(function)] = ("stage", stage, kinds.shape)
            kinds = stage.type_of(kinds)
        for function in join(functions):
            if isinstance(function, Pointwise):
                if x.dtype != HALF:
                    raise UnsuitedError(f"slots after {x.dtype}")
                table = function.table
                x, place = self.builder.lookup_next(x, table, ("slot", table.tobytes()), function.doubtful.flags)
                noted.after_slots.append((place, False))
                continue
            if x.dtype == HALF:
                noted.after_slots.append((self.builder.find_extremes(x).largest, True))
            x = self.stage(x, forms[id(function)])
        return x

    def stage(self, x: Tensor, form: tuple[Any, ...]) -> Tensor:
        """Lay out one slot that is not a table."""
        if form[0] == "gain":
            _, gain, offset, rank, axis = form
            return self.operations.gain_offset(x, along(gain, rank, axis), along(offset, rank, axis))
        _, stage, shape = form
        call = call_of_kind(stage.kind, stage.attributes, shape)
        assert call is not None  # noqa: S101 - gain and offset are handled above
        constants = round_operands({name: constant.dense() for name, constant in stage.operands.items()})
        operands = cast("dict[str, Any]", call.renamed({stage.kind.flowing: x, **constants}))
        found = arithmetic(call.op, self.program.target)
        (result,) = self.operations.run(call.op, operands, found.op.complete(call.attributes))
        return result

    # Products.

    def multiplied(self, product: Product, operands: Mapping[str, Operand]) -> Tensor:
        """Lay out a product with a gain and offset directly after its sum."""
        first, second = (cast("Value", operands[name]) for name in product.layer.operands)
        exact, affine = product.exact, product.affine
        channels = not affine.vector or affine.axis == 1
        convolves = product.form in {"direct", "winograd"} and channels
        single = product.call.op in MATRIX_PRODUCTS and not affine.vector
        fused = (convolves or single) and not product.crops
        if exact is None:
            multiply = self.sums(product, None)
        elif fused and exact.gain is not None:
            outer = product.layer.core_types[0].shape[1] if convolves else 1
            after = After(
                None, for_channels(exact.gain, outer), for_channels(exact.offset, outer), along_rows=convolves
            )
            multiply = self.sums(product, after)
        else:
            multiply = self.sums(product, After(unrounded=True, along_rows=True))
        if product.crops:
            if not isinstance(first, Tensor) or isinstance(second, Tensor):
                raise UnsuitedError("int8 weights that are computed at run time")
            found = self.operations.meeting_int8(cast("Any", multiply), first, second)
        else:
            found = multiply(first, second)
        if exact is None or fused:
            return found
        total = as_real(found) if product.form == "scaling" else found  # a scaling rounds, whatever follows
        return self.builder.gained_total(total, exact.gain, exact.offset)

    def sums(self, product: Product, after: After | None) -> Callable[[Value, Value], Tensor]:
        """Return what lays out the sums of a product; without `after` they start where the product says."""
        layer, call = product.layer, product.call
        (_, one), (_, other) = layer.refs()
        x, weight = one.type.shape, other.type.shape
        multiplier, products = self.operations.multiplier, self.operations.products
        start = product.start
        outer = layer.core_types[0].shape[1] if layer.core_types[0].rank > 1 else 1
        match call.op:
            case "conv":
                attributes = call.attributes_as(ConvAttributes)
                given = {} if after is None else {"after": after}
                made = replace(
                    products,
                    convolution=partial(multiplier.convolution, **given),
                    winograd=partial(multiplier.winograd, **given),
                )
                convolve = convolution_by(product.form, x, weight, attributes, made)
                channels = None if after is not None or start is None else for_channels(start, outer)
                return lambda images, kernels: cast(
                    "Tensor", convolve(cast("Any", images), cast("Any", kernels), channels)
                )
            case "conv_transpose":
                extents, window = transposed_window(x, weight, call.attributes_as(TransposeAttributes))
                channels = None if after is not None or start is None else for_channels(start, outer)
                return lambda images, kernels: multiplier.deconvolution(
                    images, kernels, channels, extents=extents, after=after, **window
                )
            case "linear":
                return lambda left, right: multiplier.matmul(left, right.T, start, after=after)
            case _:
                flags = {name: call.flag(name) for name in ("transpose_x", "transpose_y")}
                matmul = matmul_by(replace(products, matmul=cast("Any", partial(multiplier.matmul, after=after))))
                return lambda left, right: cast("Tensor", matmul(cast("Any", left), cast("Any", right), start, **flags))

    # Doubts.

    def note_operands(self, step: Step, operands: Mapping[str, Operand], noted: Noted) -> None:
        """Note what labels ask of the values that go in."""
        labels, build = noted.labels, self.builder
        if not labels.look:
            return
        flat = [one for value in operands.values() for one in as_list(value)]
        for read, value in zip(step.read, flat, strict=True):
            if not isinstance(read, str):
                noted.magnitudes.append(read)
            elif cast("Tensor", value).dtype != HALF:
                noted.magnitudes.append(0.0)
            else:
                noted.magnitudes.append(build.find_extremes(cast("Tensor", value)).largest)
        reach = labels.reach
        if reach is not None and reach.most is None:
            noted.most = self.note_most(reach.op, cast("Tensor", flat[1]), transposed=reach.transposed)

    def note_most(self, op: str, weight: Tensor, *, transposed: bool) -> int:
        """Note the largest sum of magnitudes of computed weights, as `labels.most_of` finds it."""
        build = self.builder
        transposes = op == "conv_transpose"
        held = build.contiguous(weight.swapaxes(0, 1) if transposes else weight)
        shape = held.shape
        batches = 1
        if transposes or op in {"conv", "linear"}:
            lines, depth = shape[0], held.size // max(shape[0], 1)
            line_step, depth_step = depth, 1
        elif held.ndim == 1:
            lines, depth, line_step, depth_step = 1, shape[0], 0, 1
        else:
            batches = held.size // max(shape[-1] * shape[-2], 1)
            lines, depth = (shape[-2], shape[-1]) if transposed else (shape[-1], shape[-2])
            line_step, depth_step = (shape[-1], 1) if transposed else (1, shape[-1])
        place = build.wide_word()
        build.over(
            "most_sums",
            lines * batches,
            build.at(held),
            build.wide_at(place),
            [lines, depth, line_step, depth_step, batches, lines * depth],
            samples=build.samples,
        )
        return place

    # Layers without kernels.

    def on_host(self, step: Step, reason: str) -> Noted:
        """Lay out a layer that runs on the host, by the CPU's kernels."""
        build, layer = self.builder, step.layer
        names = list(dict.fromkeys(value.name for value in layer.bottoms))
        operands = tuple(build.contiguous(self.values[name]) for name in names)
        results = tuple(build.empty(value.type.shape, engine_element(value.type)) for value in layer.results)
        said: list[Label] = []

        def compute(arrays: Sequence[Array]) -> Sequence[Array]:
            found, doubts = step.run(Values(dict(zip(names, arrays, strict=True))))
            said.append(step.labels.with_doubts(doubts))
            return [host_fp16(array) if is_real(array) else array for array in found]

        build.plan.items.append(HostStep(layer.name, layer.kind.name, reason, compute, operands, results))
        self.values |= {value.name: tensor for value, tensor in zip(layer.results, results, strict=True)}
        return Noted(layer.name, step.labels, host=said)


def as_list(value: Operand) -> tuple[Value, ...]:
    """Return one operand or several as several."""
    return value if isinstance(value, tuple) else (value,)
