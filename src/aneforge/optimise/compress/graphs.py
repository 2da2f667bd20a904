"""A graph with its weights encoded, and for every weight what was done to it and what that is worth on a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from aneforge.analysis.ranges.probes import bound_by_promises
from aneforge.compiler.passes.kernels import encoding_of
from aneforge.errors import AneforgeError
from aneforge.graph.convert import unroll
from aneforge.graph.graph import as_graph, expect_values
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import is_float
from aneforge.optimise.compress.choice import TOLERANCE, Chosen, Encoding, choose, find_mode
from aneforge.optimise.compress.encodings import BLOCK_SIZE
from aneforge.optimise.compress.fates import Fate, Fates, Verdict
from aneforge.optimise.compress.numbers import ELEMENT_TYPES
from aneforge.optimise.compress.weighted_products import uses
from aneforge.records import dataclass
from aneforge.targets import FP16_SLICE_SAT, native_streams, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Argument, Node
    from aneforge.optimise.compress.choice import Mode
    from aneforge.optimise.compress.weighted_products import Axes, Use
    from aneforge.targets import Target, TargetLike

__all__ = ["Compressed", "WeightReport", "compressed"]


@dataclass(frozen=True, slots=True)
class WeightReport:
    """What was done to one weight."""

    name: str
    """Where it is first read: the number of the node and the operand, as programs call it."""
    used_by: tuple[str, ...]
    """Every place where it is read as this weight."""
    shape: tuple[int, ...]
    encoding: str
    """Name of the encoding that it has now, as the table of streams calls it; of a dense one, its element type."""
    fate: Fate
    """Whether it streams or folds on the target."""
    why: str
    """Why it does not stream; empty where it does or is dense."""
    bytes_before: int
    bytes_after: int
    """Bytes in storage; a weight that folds takes as many as before once it is on its way to the engine."""
    error: float
    """‖decoded − weight‖ / ‖weight‖."""
    reason: str
    """Why encodings that were tried first were not accepted, or what speaks against the one that was asked for."""
    place: str = ""
    """Where the product that reads it first is written, where that is known."""

    @property
    def label(self) -> str:
        """The weight as a user knows it: by the operation that reads it first."""
        return f"the {self.name.rpartition('.')[2]} of {self.place}" if self.place else self.name

    def __str__(self) -> str:
        text = (
            f"{self.name} {list(self.shape)}: {self.encoding}, {self.fate}, "
            f"{self.bytes_before:,} -> {self.bytes_after:,} bytes, error {self.error:.3g}"
        )
        remarks = "; ".join(remark for remark in (self.reason, self.why) if remark)
        return f"{text} ({remarks})" if remarks else text


@dataclass(frozen=True, slots=True)
class Compressed:
    """A graph whose constants may be encoded, and a report for every weight."""

    graph: Graph
    weights: tuple[WeightReport, ...]

    @property
    def bytes_before(self) -> int:
        """Bytes of the weights as they were."""
        return sum(weight.bytes_before for weight in self.weights)

    @property
    def bytes_after(self) -> int:
        """Bytes of the weights as they are."""
        return sum(weight.bytes_after for weight in self.weights)


def compressed(
    graph: GraphLike, mode: str, *, atol: float = TOLERANCE, block_size: int = BLOCK_SIZE, target: TargetLike = None
) -> Compressed:
    """Return a graph with its weights encoded for a target.

    `mode` is int8, int4, sparse, blockwise or auto. `auto` tries sparse, int4 and int8 in this order, only those that
    stream on the target and whose relative error is at most `atol`; and int8 only if ranges exclude that activations
    exceed 4,094, which would make them infinite. Weights for which none of them qualifies stay
    unchanged. A mode that names an encoding is applied to every weight, whatever its error: the report says where
    it is above `atol`. Operations that share a weight still share it afterwards.

    >>> import numpy as np, aneforge as af
    >>> weight = np.linspace(-1, 1, 32 * 16).reshape(32, 16)
    >>> made = compressed(af.input((1, 16)).linear(weight), "int8", target=af.targets.Family.A16)
    >>> print(made.weights[0])
    t1.weight [32, 16]: int8, streams, 1,024 -> 576 bytes, error 0.00232

    Raises:
        UnknownNameError: There is no such mode, or no such target.
        NoDataError: The mode is auto, and no source says which encodings stream on the target.
        GraphError: A weight contains a number that no encoding can hold (infinity or NaN); or an option is out of
            range.
    """
    whole, resolved = unroll(as_graph(graph)).graph, resolve(target)
    expect_values(whole, "encoding weights")
    streams = native_streams(resolved.name) if mode == "auto" else frozenset[str]()
    wanted = find_mode(mode, streams, atol=atol, block_size=block_size)
    fates, readers, found = Fates(resolved), readers_of(whole), uses(whole)
    guarded = Encoding.INT8 in wanted.encodings and not wanted.named
    hazards: Mapping[Node, str] = int8_hazards(found, resolved) if guarded else {}
    now: dict[tuple[Node, str], Constant] = {}
    reports: list[WeightReport] = []
    for same in grouped(found):
        first = same[0]
        chosen = decided(same, wanted, hazards)
        constant = chosen.constant or first.weight
        verdicts = [fates.of(use.node, use.operand, constant) for use in same] if is_encoded(constant) else []
        now.update({(use.node, use.operand): constant for use in same})
        kept = name_other_readers(readers, same) if constant is not first.weight else ""
        reports.append(report(same, constant, chosen, verdicts, kept))
    return Compressed(replaced(whole, now), tuple(reports))


Asked = tuple[str, "Axes", "Mode", str]
"""The digest of a weight, the axes along which it is read, what may be chosen, and what speaks against int8."""
STORED: WeakValueDictionary[str, Constant] = WeakValueDictionary()
"""Encoded constants in use, by their digests: graphs that read the same weights share what is stored of them."""
ENCODED: WeakValueDictionary[Asked, Constant] = WeakValueDictionary()
"""The same by what they were made of, so that a weight is encoded once."""
CHOSEN: WeakKeyDictionary[Constant, dict[Asked, Chosen]] = WeakKeyDictionary()
"""How constants in use were chosen; without the constant, which would live as long as what is said of it."""


def chosen_once(asked: Asked, choose: Callable[[], Chosen]) -> Chosen:
    """Return what is chosen for a weight; as long as the encoded constant is in use, the choice is not made again."""
    found = ENCODED.get(asked)
    if found is not None:
        return replace(CHOSEN[found][asked], constant=found)
    made = choose()
    if made.constant is None:
        return made
    constant = STORED.setdefault(made.constant.digest, made.constant)
    CHOSEN.setdefault(constant, {})[asked] = replace(made, constant=None)
    ENCODED[asked] = constant
    return replace(made, constant=constant)


def grouped(found: Sequence[Use]) -> list[list[Use]]:
    """Return uses by the constant that they read and the axes that they read it along."""
    groups: dict[tuple[Constant, Axes], list[Use]] = {}
    for use in found:
        groups.setdefault((use.weight, use.axes), []).append(use)
    return list(groups.values())


def int8_hazards(found: Sequence[Use], target: Target) -> Mapping[Node, str]:
    """Return by nodes why int8 weights could make what they read infinite; those for which ranges exclude it lack."""
    read = {use.node: [value for value in use.node.sources() if is_float(value.type.dtype)] for use in found}
    bounds = bound_by_promises([value for values in read.values() for value in values], target)
    most = {
        node: max((bounds[value.node, value.index] for value in values), default=0.0) for node, values in read.items()
    }
    return {node: hazard_text(bound) for node, bound in most.items() if bound > FP16_SLICE_SAT}


def hazard_text(bound: float) -> str:
    """Return why int8 weights are a hazard for activations of a magnitude."""
    what = f"activations may reach {bound:.4g}" if math.isfinite(bound) else "nothing bounds the activations"
    return (
        f"{what}, and with int8 weights, magnitudes above {FP16_SLICE_SAT:g} become infinite "
        f"(promise a smaller range with max_abs of the input, or put a bounded function before it)"
    )


def decided(same: Sequence[Use], mode: Mode, hazards: Mapping[Node, str]) -> Chosen:
    """Return the encoding of one weight, given what could become infinite where it is read.

    Raises:
        GraphError: It holds what no encoding can hold; the error names the operation and its place.
    """
    use, weight = same[0], same[0].weight
    against = next((hazards[one.node] for one in same if one.node in hazards), "")
    if not isinstance(weight, Dense):
        return Chosen(None, 0.0, "it is encoded already")
    if weight.type.dtype not in ELEMENT_TYPES:
        return Chosen(None, 0.0, f"{weight.type.dtype} weights are not encoded further")
    if not weight.type.size:
        return Chosen(None, 0.0, "it has no elements")
    try:
        return chosen_once(
            (weight.digest, use.axes, mode, against),
            lambda: choose(weight.values, use.axes, weight.type.dtype, mode, {Encoding.INT8: against}),
        )
    except AneforgeError as error:
        error.operation = error.operation or f"{use.node.op.name} ({use.name})"
        error.location = error.location or use.node.location
        raise


def is_encoded(constant: Constant) -> bool:
    """Return whether a constant is anything but dense."""
    return not isinstance(constant, Dense)


def readers_of(graph: Graph) -> Mapping[Constant, tuple[str, ...]]:
    """Return every place that reads a constant, by the constant."""
    found: dict[Constant, list[str]] = {}
    for number, node in enumerate(graph.nodes):
        for name, value in node.values():
            if isinstance(value, Constant):
                found.setdefault(value, []).append(f"t{number}.{name}")
    return {constant: tuple(places) for constant, places in found.items()}


def name_other_readers(readers: Mapping[Constant, tuple[str, ...]], same: Sequence[Use]) -> str:
    """Return what keeps the dense weight in the graph as well as the encoded one; empty if nothing does."""
    here = {use.name for use in same}
    others = [place for place in readers[same[0].weight] if place not in here]
    return f"{', '.join(others)} reads the same values, so the dense weight stays as well" if others else ""


def report(
    same: Sequence[Use], constant: Constant, chosen: Chosen, verdicts: Sequence[Verdict], kept: str
) -> WeightReport:
    """Return what was done to a weight; it streams where every layer that reads it streams it."""
    first = same[0]
    worst = next(
        (one for fate in (Fate.FOLDS, Fate.UNKNOWN, Fate.STREAMS) for one in verdicts if one.fate is fate),
        Verdict(Fate.DENSE),
    )
    return WeightReport(
        name=first.name,
        used_by=tuple(use.name for use in same),
        shape=first.weight.type.shape,
        encoding=encoding_of(constant) if is_encoded(constant) else constant.type.dtype,
        fate=worst.fate,
        why=worst.why,
        bytes_before=first.weight.nbytes,
        bytes_after=constant.nbytes,
        error=chosen.error,
        reason="; ".join(remark for remark in (chosen.reason, kept) if remark),
        place=str(first.node.location or ""),
    )


def replaced(graph: Graph, now: Mapping[tuple[Node, str], Constant]) -> Graph:
    """Return a graph whose nodes read other constants."""

    def exchanged(node: Node, operands: Mapping[str, Argument]) -> list[Tensor] | None:
        changed = {
            name: now[node, name]
            for name in operands
            if (node, name) in now and now[node, name] is not node.operands[name]
        }
        if not changed:
            return None
        made = replace(node, operands={**operands, **changed})
        return [Tensor(made, index) for index in range(len(node.types))]

    return rewrite(graph, exchanged)
