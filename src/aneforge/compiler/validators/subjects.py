"""Layers and slots of epilogues as rules see them: in the language of graph nodes, which is MIL's.

The compiler runs one code in two places: over the operations of a graph, when it decides what may run on the engine,
and over the layers of a program, when it makes them legal. It is one code here because both become the same subject.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from aneforge.compiler.ir.layer import Value
from aneforge.ops.constant import Constant
from aneforge.records import dataclass
from aneforge.rules.checks.dtype_rules import is_index
from aneforge.rules.subject import Operation, arguments_of, constants_of, tensors_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.kind import Kind, Slot
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.errors import Location
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType
    from aneforge.rules.subject import Held

__all__ = [
    "ALONE",
    "Surroundings",
    "op_of",
    "subject_of_layer",
    "subjects_of_epilogue",
    "surroundings",
]


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a kind whose form is the compiler's own is said in MIL's words."""

    operands: Mapping[str, str]
    """MIL's name of each operand."""
    attributes: Mapping[str, str]
    """MIL's name of each attribute that rules look at."""
    added: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])


WINDOW = {
    "strides": "strides",
    "dilation_rates": "dilations",
    "groups": "groups",
    "explicit_padding": "pad",
    "kernel_sizes": "kernel_sizes",
}
WEIGHTED = {"input": "x", "weights": "weight"}
SPELLINGS = {
    "convolution": Spelling(WEIGHTED, WINDOW, {"pad_type": "custom"}),
    "deconvolution": Spelling(WEIGHTED, WINDOW, {"pad_type": "custom"}),
    "matmul": Spelling({"lhs": "x", "rhs": "y"}, {"transpose_lhs": "transpose_x", "transpose_rhs": "transpose_y"}),
    "gain_offset_control": Spelling({"input": "x"}, {"axis": "axis"}),
    "slice": Spelling({"input": "x"}, {"begin": "begin", "size": "size"}),
    "strided_slice": Spelling({"input": "x"}, {"begin": "begin", "step": "stride"}),
    "resize": Spelling({"input": "x"}, {"mode": "interpolation_mode", "sampling": "sampling_mode"}),
}
Types: TypeAlias = "tuple[TensorType, ...]"


def op_of(kind: Kind) -> str:
    """Return the operation of the op table that a kind of layer is.

    >>> from aneforge.compiler.ir.catalogue import find_kind
    >>> op_of(find_kind("convolution")), op_of(find_kind("mult"))
    ('conv', 'mul')
    """
    return kind.entry.name


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a layer does not say of itself, and its program knows."""

    consumers: frozenset[str] = frozenset()
    """The operations that read its results."""
    indices: frozenset[str] = frozenset()
    """The operands that are places of elements: MIL spells them in 32 bits, the engine holds them in 16."""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])
    """Further attributes, such as whether a buffer is a live state."""


ALONE = Surroundings()


def subject_of_layer(layer: Layer, around: Surroundings = ALONE) -> Operation:
    """Return the engine operation of a layer as rules see it, its epilogue left out."""
    held = {
        name: tuple(
            ref if isinstance(ref, Constant) else ref.type
            for ref in (argument if isinstance(argument, tuple) else (argument,))
        )
        for name, argument in layer.operands.items()
    }
    results = layer.core_types if layer.epilogue else tuple(result.type for result in layer.results)
    first = next((stage.kind for _, stage in layer.epilogue), None)
    readers = around.consumers if first is None else frozenset({op_of(first)})
    seen = subject(layer.kind, held, {**layer.attributes, **around.attributes}, results, readers, layer.location)
    return replace(seen, operands=tensors_read(held, around.indices)) if around.indices else seen


def subjects_of_epilogue(layer: Layer, around: Surroundings = ALONE) -> Iterator[tuple[Slot, Operation]]:
    """Return what fills the slots after a layer as rules see it, each reading what the one before gives."""
    stages = list(layer.epilogue)
    if not stages:
        return
    flowing: Types = layer.core_types[:1]
    for place, (slot, stage) in enumerate(stages):
        held: Held = {stage.kind.flowing: flowing, **{name: (one,) for name, one in stage.operands.items()}}
        flowing = (stage.type_of(flowing[0]),)
        last = place + 1 == len(stages)
        readers = around.consumers if last else frozenset({op_of(stages[place + 1][1].kind)})
        yield slot, subject(stage.kind, held, stage.attributes, flowing, readers, layer.location)


def subject(
    kind: Kind,
    held: Held,
    attributes: Mapping[str, AttributeValue],
    results: Types,
    consumers: frozenset[str],
    location: Location | None,
) -> Operation:
    """Return a layer or a stage, in the compiler's words, as rules see it, in MIL's."""
    spelling = SPELLINGS.get(kind.name)
    op = op_of(kind)
    if spelling is not None:
        held = {spelling.operands.get(name, name): values for name, values in held.items()}
        own = {spelling.attributes[name]: value for name, value in attributes.items() if name in spelling.attributes}
        attributes = {**own, **spelling.added}
    return Operation(
        op=op,
        operands=tensors_read(held),
        results=results,
        attributes=attributes,
        consumers=consumers,
        location=location,
        arguments=arguments_of(held),
        constants=constants_of(held),
    )


def surroundings(program: Program, layer: Layer, attributes: Mapping[str, AttributeValue]) -> Surroundings:
    """Return what a program knows of a layer; `attributes` are those that are known already."""
    readers = (reader for result in layer.results for reader in program.consumers.get(result.name, ()))
    indices = (
        name
        for name, ref in layer.refs()
        if isinstance(ref, Value) and is_index_layer(program.producers.get(ref.name), ref.type.dtype)
    )
    return Surroundings(frozenset(op_of(reader.kind) for reader in readers), frozenset(indices), attributes)


def is_index_layer(producer: Layer | None, dtype: str) -> bool:
    """Return whether what a layer gives is a place of elements."""
    return producer is not None and is_index(op_of(producer.kind), dtype)
