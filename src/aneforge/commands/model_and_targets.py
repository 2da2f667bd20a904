"""What a command is given: a graph, or the path of a model file; and the targets by the names that users write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.compiler.compile import route_to
from aneforge.compiler.dialect import Route
from aneforge.errors import UnknownTargetError
from aneforge.formats.detection import ModelFormat
from aneforge.formats.model import load_model
from aneforge.graph.convert import unroll
from aneforge.graph.graph import Graph, as_graph
from aneforge.graph.precision import Halved, to_fp16
from aneforge.records import dataclass
from aneforge.targets import GROUPS, Place, Target, group, place_of
from aneforge.targets.names import known_as, title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import TypeIs  # only for the type checker

    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import GraphLike
    from aneforge.ops.types import Array
    from aneforge.rules.rule import Finding
    from aneforge.targets import TargetLike

__all__ = [
    "ModelLike",
    "Subject",
    "Targets",
    "chip_of",
    "chosen_targets",
    "is_path",
    "label_of",
    "parts_of",
    "runs_mil",
    "subject_of",
    "title_of_place",
    "with_chip",
]

ALL, SHIPPING = "all", "shipping"
"""Groups of targets of which those are meant that run MIL programs; the second is what a check looks at by itself."""
SAID_ELSEWHERE = frozenset({"MIL-PORT-001"})
"""Findings of readers that the note on wider tensors, which were taken as fp16, says for all of them."""
ModelLike = "GraphLike | str | os.PathLike[str]"
Targets = "TargetLike | Iterable[TargetLike]"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that a command works on, in the precision of the engine."""

    name: str
    format: str
    original: Graph
    """As it was before the change to fp16."""
    half: Halved
    remarks: tuple[str, ...] = ()
    """What its file has that its author should know."""

    @property
    def graph(self) -> Graph:
        """The graph in fp16; the original where nothing was changed."""
        return self.half.graph

    @property
    def notes(self) -> tuple[str, ...]:
        """What reading it found, and what the change to fp16 did."""
        return (*self.remarks, *self.half.notes)

    def route(self, target: Target) -> Route:
        """Return how a target is reached: only network descriptions reach those that run no MIL programs."""
        return route_to(target) if self.format == ModelFormat.NETPLIST else Route.MIL


def subject_of(
    model: GraphLike | str | os.PathLike[str],
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
    function: str | None = None,
    name: str | None = None,
    keep_precision: bool = False,
) -> Subject:
    """Return a model to work on: a graph as it is, or what a file holds, with floating-point tensors in fp16.

    >>> import aneforge as af
    >>> subject_of(af.input((1, 4), name="x").relu(), name="tiny").format
    'graph'

    Raises:
        GraphError: There is no model, or it cannot be read.
        ImportError: A package that its format needs is not installed.
    """
    if is_path(model):
        path = Path(model)
        loaded = load_model(path, shapes=shapes, values=values, function=function)
        kind, called, graph = str(loaded.format), path.name, Graph(loaded.outputs, loaded.states)
        remarks = remarks_of(loaded.findings)
    else:
        kind, called, graph, remarks = "graph", "graph", as_graph(model), ()
    graph = unroll(graph).graph
    if keep_precision:
        return Subject(name or called, kind, graph, Halved(graph), remarks)
    half = to_fp16(graph)
    return Subject(name or called, kind, graph, half, remarks)


def remarks_of(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return what the author of a file should know; what is wrong at many places is reported once."""
    said = [one for one in findings if one.rule not in SAID_ELSEWHERE]
    if not said:
        return ()
    from aneforge.commands.noting import merge_notes  # noqa: PLC0415 - few files have such findings

    return merge_notes((remark_text(one), str(one.location or one.op)) for one in said)


def remark_text(finding: Finding) -> str:
    """Return what is wrong, without its place."""
    remedy = f". Remedy: {finding.remedy}" if finding.remedy else ""
    return f"{finding.rule}: {finding.message}{remedy}".rstrip(".")


def is_path(model: object) -> TypeIs[str | os.PathLike[str]]:
    """Return whether a model is given as the path of its file."""
    return isinstance(model, str | os.PathLike)


def chosen_targets(targets: TargetLike | Iterable[TargetLike] = None) -> list[Place]:
    """Return targets in the order in which they are asked for, each once; nothing stands for `shipping`.

    Names may be those of groups, and several may be in one text, separated by commas. `all` stands for the targets
    that run MIL programs, `shipping` for those of them that are in a chip; older ones are asked for by their names, or
    with all others that have a family by `known`.

    >>> from aneforge.targets import Family
    >>> [one.target.family == Family.A16 for one in chosen_targets([Family.A13, Family.A16])]
    [False, True]

    Raises:
        UnknownTargetError: A target name is unknown.
        NoDataError: Asked later, of a target that is only a name.
    """
    if targets is None:
        return chosen_by(SHIPPING)
    single = targets if isinstance(targets, str | int | Target | Place) else None
    listed = [single] if single is not None else list(targets)  # pyright: ignore[reportArgumentType, reportUnknownVariableType] - distinguished above
    found: dict[tuple[str, bool], Place] = {}
    for one in (part for named in listed for part in parts_of(named)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - as above
        for place in chosen_by(one):
            found.setdefault((place.name, place.chip is None), place)
    if not found:
        raise UnknownTargetError(
            "no target is named", remedy="name targets, chips or families, or leave it out for all"
        )
    return list(found.values())


def parts_of(named: TargetLike) -> list[TargetLike]:
    """Return the names that are in one text.

    Raises:
        UnknownTargetError: Nothing is between two commas, where the user meant a name.
    """
    if not isinstance(named, str):
        return [named]
    parts = [part.strip() for part in named.split(",")]
    if any(parts) and not all(parts):
        raise UnknownTargetError(
            "a name between commas is empty", seen=named, remedy="name a target there, or leave the comma out"
        )
    return [part for part in parts if part]


def chosen_by(named: TargetLike) -> list[Place]:
    """Return what one name stands for: the targets of a group, or a target with the chip that was named."""
    if isinstance(named, str) and named in (ALL, SHIPPING):
        return [Place(target, None) for target in group(named) if runs_mil(target)]
    if isinstance(named, str) and named in GROUPS:
        return [Place(target, None) for target in group(named) if target.has_data and target.family is not None]
    return [place_of(named)]


def runs_mil(target: Target) -> bool:
    """Return whether a target runs MIL programs, which is what models become."""
    return target.limits.get("mil_programs") is True


def with_chip(target: str, chip: str) -> str:
    """Return the name of a target after that of a chip, where there is one.

    >>> with_chip("x1", "Chip"), with_chip("x1", "")
    ('Chip (x1)', 'x1')
    """
    return f"{chip} ({target})" if chip else target


def chip_of(place: Place) -> str:
    """Return the chip that was named, else the best known with the target's engine; nothing where no chip has it."""
    return known_as(place.target) if place.chip is None else place.chip.name


def label_of(place: Place) -> str:
    """Return a target as users write it: its chip, and its own name."""
    return with_chip(place.target.name, chip_of(place))


def title_of_place(place: Place) -> str:
    """Return the chip that was named, else those that have the target's engine, as users call them."""
    return title_of(place.target) if place.chip is None else place.chip.name
