"""One graph against every family: does it compile, what was rebuilt, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.analysis.work import NOTHING
from aneforge.compiler.compile import compile_graph
from aneforge.display import number_of
from aneforge.errors import GraphError, IllegalGraphError, NoDataError, UnknownNameError
from aneforge.graph.precision import to_fp16
from aneforge.records import dataclass
from aneforge.targets import group

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.targets import Target

__all__ = ["CompileMatrix", "Compiles", "compile_matrix"]

NO_DATA = "the compiler knows this name, and no source describes the target"


@dataclass(frozen=True, slots=True)
class Compiles:
    """The verdict for one target."""

    target: str
    family: str
    reasons: tuple[str, ...]
    """Why it does not compile; empty where it does."""
    rebuilt: tuple[str, ...] = ()
    """Operations that run as others."""
    segments: int = 0
    """Programs that it is cut into; 0 where it does not compile."""
    layers: int = 0

    @property
    def ok(self) -> bool:
        """It compiles."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class CompileMatrix:
    """The verdicts for a group of targets, in the order of the families."""

    entries: tuple[Compiles, ...]
    notes: tuple[str, ...] = ()
    """What was done to the graph before it was compiled for any of them."""

    @property
    def ok(self) -> bool:
        """It compiles for all of them."""
        return all(entry.ok for entry in self.entries)

    def __getitem__(self, target: str) -> Compiles:
        """Return the verdict for a target, or the first for a family.

        Raises:
            UnknownNameError: The matrix has neither of that name.
        """
        found = next((entry for entry in self.entries if target in (entry.target, entry.family)), None)
        if found is None:
            names = dict.fromkeys(name for entry in self.entries for name in (entry.target, entry.family))
            raise UnknownNameError.of("target of this matrix", target, names)
        return found

    def __str__(self) -> str:
        return "\n".join([*(line for entry in self.entries for line in lines_of(entry)), *self.notes])


def lines_of(entry: Compiles) -> list[str]:
    """Return one verdict as text."""
    size = f"{number_of(entry.layers, 'layer')} in {number_of(entry.segments, 'program')}" if entry.layers else NOTHING
    size = size if entry.ok else "does not compile"
    head = f"{entry.family} ({entry.target}): {size}"
    return [head, *(f"  rebuilt: {one}" for one in entry.rebuilt), *(f"  {one}" for one in entry.reasons)]


def compile_matrix(out: GraphLike, targets: str = "families") -> CompileMatrix:
    """Compile a graph for every family, or every target of another group, with the reasons where it does not compile.

    >>> import aneforge as af
    >>> found = compile_matrix(af.input((1, 8)).sin())
    >>> [(entry.ok, len(entry.rebuilt)) for entry in found.entries]
    [(True, 1), (True, 1), (True, 0), (True, 0)]

    Raises:
        UnknownTargetError: There is no such group; they are `families`, `all` and `known`.
    """
    half = to_fp16(out)
    return CompileMatrix(tuple(compiles(half.graph, target) for target in group(targets)), half.notes)


def compiles(graph: Graph, target: Target) -> Compiles:
    """Return the verdict for one target; one that no source describes is a reason too."""
    family = target.family.name if target.family is not None else "no family"
    if not target.has_data:
        return Compiles(target.name, family, reasons=(NO_DATA,))
    try:
        compiled = compile_graph(graph, target)
    except IllegalGraphError as error:
        return Compiles(target.name, family, reasons=error.findings)
    except (GraphError, NoDataError) as error:
        return Compiles(target.name, family, reasons=(str(error),))
    rebuilt = tuple(f"{change.op} became {change.detail}" for change in compiled.changes)
    program = compiled.program
    return Compiles(target.name, family, (), rebuilt, len(program.segments), len(program.layers))
