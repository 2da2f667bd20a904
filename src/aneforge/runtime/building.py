"""From a graph to a program and what is known of it: canonical form, choice among forms, compression, compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.compiler.ir.printing import program_text
from aneforge.errors import NotSupportedError
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.optimise.forms.canonical import canonical
from aneforge.optimise.forms.native_attention import with_native_attention
from aneforge.records import dataclass
from aneforge.runtime.facts import ModelFacts
from aneforge.runtime.hazards import encoding_cautions, rule_cautions
from aneforge.runtime.options import Level
from aneforge.runtime.saved.files import SUFFIX, write_program_file
from aneforge.whole_files import write_synced

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.optimise.compress.graphs import WeightReport
    from aneforge.runtime.options import Options
    from aneforge.targets import Place, Target

__all__ = ["Built", "Prepared", "build", "keep_artifacts", "prepare_graph"]

UNCOUNTED = PLACEHOLDERS | {"const"}


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled program, what its model will know, and the graph for the target that it was lowered from."""

    program: Program
    facts: ModelFacts
    graph: Graph
    prepared: Graph
    """The same for no target: chosen, rescaled, its weights encoded."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph in the form in which it is compiled: chosen, rescaled, its weights encoded, for no target yet."""

    graph: Graph
    remarks: tuple[str, ...]
    weights: tuple[WeightReport, ...]


def prepare_graph(graph: Graph, place: Place, options: Options) -> Prepared:
    """Return a graph in the form that the options ask for."""
    remarks: tuple[str, ...] = ()
    target = place.target
    if options.level is not Level.PLAIN:
        graph, remarks = with_native_attention(canonical(graph), place)
    if options.level.chooses:
        graph, done = choose_form(graph, place, options.level)
        remarks = (*remarks, *done)
    if options.rescale is not None:
        graph, done = apply_rescaling(graph, target)
        remarks = (*remarks, *done)
    if options.compress is None:
        return Prepared(graph, remarks, ())
    from aneforge.optimise.compress.graphs import compressed  # noqa: PLC0415 - few programs are compressed

    made = compressed(graph, options.compress, atol=options.compress_atol, block_size=options.block_size, target=target)
    return Prepared(made.graph, remarks, made.weights)


def build(graph: Graph, place: Place, options: Options) -> Built:
    """Compile a graph.

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation, or an option, has no form there.
    """
    made = prepare_graph(graph, place, options)
    compiled = compile_graph(made.graph, place)
    counted = [node for node in made.graph.nodes if node.op.name not in UNCOUNTED and not is_bridge(node)]
    facts = ModelFacts(
        len(counted),
        warnings=(*rule_cautions(compiled.verdict), *encoding_cautions(made.weights, options)),
        remarks=made.remarks,
        supplied=compiled.supplied,
        weights=made.weights,
    )
    return Built(compiled.program, facts, compiled.graph, made.graph)


def apply_rescaling(graph: Graph, target: Target) -> tuple[Graph, tuple[str, ...]]:
    """Return a graph rescaled by powers of two for inputs that are drawn, and what that did."""
    from aneforge.optimise.rescaling import rescale_graph  # noqa: PLC0415 - few programs are rescaled

    made = rescale_graph(graph, target)
    done = (*map(str, made.applied), *map(str, made.outputs), *made.remarks)
    return made.graph, tuple(f"rescaled: {line}" for line in done)


def choose_form(graph: Graph, place: Place, level: Level) -> tuple[Graph, tuple[str, ...]]:
    """Return the form of a graph that the level chooses, and why."""
    from aneforge.optimise.forms import choosing  # noqa: PLC0415 - few programs are chosen among forms
    from aneforge.optimise.forms.patches import patches_as_blocks  # noqa: PLC0415 - as above
    from aneforge.optimise.forms.variants import variants  # noqa: PLC0415 - as above

    graph, rearranged = patches_as_blocks(graph, place.target)
    found, done = variants(graph, place.target)
    remarks = (*rearranged, *done)
    if len(found) == 1:
        return graph, (*remarks, "no faster form of the model is known")
    if level is Level.COST:
        choice = choosing.cheapest(found, place)
        return choice.chosen.graph, (*remarks, choice.reason)
    choice = choosing.search_forms(found, place, choosing.Search())
    return choice.chosen.graph, (*remarks, *map(str, choice.trials), choice.reason)


def keep_artifacts(built: Built, folder: Path) -> tuple[str, ...]:
    """Write what a compile made into a folder, and return what a reader should know of that.

    These are the saved program, its text, and the graph for the target as MIL with its weights, where it has a form.

    Raises:
        OSError: A file cannot be written.
    """
    from aneforge.formats.mil.mil_files import write_mil  # noqa: PLC0415 - few programs are kept

    write_program_file(folder / f"program{SUFFIX}", built.program, built.facts)
    write_synced(folder / "program.anec", program_text(built.program).encode())
    try:
        write_mil(built.graph, folder)
    except NotSupportedError as error:
        return (f"artifacts are in {folder}, MIL is not among them: {error.message}",)
    return (f"artifacts are in {folder}",)
