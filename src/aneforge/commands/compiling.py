"""`compile`: a model for one target, written in one of the forms in which programs travel."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.commands.model_and_targets import chip_of, chosen_targets, is_path, label_of, subject_of, with_chip
from aneforge.commands.noting import merge_notes, program_notes
from aneforge.commands.outputs import (
    refuse_folder,
    refuse_folder_in_place,
    refuse_model,
    refuse_read_only,
    save,
    writing,
)
from aneforge.commands.own_files import refuse_foreign
from aneforge.commands.preparing import Preparation, prepare_subject
from aneforge.commands.report_nodes import origins, report_nodes, trace_layers
from aneforge.compiler.compile import Compiled, compile_graph, route_to
from aneforge.compiler.dialect import Route
from aneforge.compiler.pipeline import PIPELINE
from aneforge.compiler.retarget import retarget
from aneforge.display import number_of
from aneforge.errors import GraphError, IllegalGraphError, Location, NotSupportedError, UnknownNameError
from aneforge.formats.mil.mil_files import MODEL_FILE, WEIGHTS_FILE, weights_beside, write_mil, write_mil_file
from aneforge.records import dataclass
from aneforge.targets import database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.pipeline import Pipeline
    from aneforge.compiler.retarget import Retargeted
    from aneforge.formats.hwx.layer_notes import TaskLayer
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.convert import Change
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.runtime.hwx.emit_program import EmittedFile
    from aneforge.targets import Target, TargetLike

__all__ = ["EMITTERS", "CompiledForm", "Emitted", "Emitter", "Form", "LayerTasks", "compile_form", "compile_model"]

CPU_PARTS = "the package holds more than the engine takes, which Core ML runs on the CPU; the layers do not include it"


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a compile made."""

    model: str
    target: str
    emit: str | None
    """The form that was written; None where nothing was."""
    path: str | None
    layers: int
    segments: int
    rebuilt: tuple[str, ...]
    """Operations that run as others."""
    text: str | None
    """The program after the pass that was asked for."""
    notes: tuple[str, ...]
    tasks: tuple[LayerTasks, ...] = ()
    """The tasks of each layer, where a container was written."""
    beside: tuple[str, ...] = ()
    """The files after the first, where the model became several."""
    chip: str = ""
    """The chip that was named, else the best known with the target's engine; empty where no chip has it."""

    @property
    def label(self) -> str:
        """The target as users write it."""
        return with_chip(self.target, self.chip)


@dataclass(frozen=True, slots=True)
class LayerTasks:
    """One layer of a container that was written."""

    file: str
    layer: str
    kind: str
    tasks: str
    """Numbers of its tasks in the file."""
    operations: str
    """What it carries out, by the names of the user's model."""


@dataclass(frozen=True, slots=True)
class CompileTask:
    """A model file that is compiled and written, as plain values; a process on another machine needs the same folders.

    Calling it does so.
    """

    model: Path
    target: str
    emit: str | None
    output: str | None
    shapes: Shapes | None
    force: bool
    prepare: Preparation
    print_after: str | None = None
    dump_phases: Path | None = None

    def __call__(self, progress: Callable[[str, int, int], None] | None = None) -> Emitted:
        """Compile the model."""
        if progress is not None:
            progress(f"compiling {self.model.name}", 0, 1)
        return compile_model(
            self.model,
            self.target,
            self.emit,
            self.output,
            shapes=self.shapes,
            print_after=self.print_after,
            dump_phases=self.dump_phases,
            force=self.force,
            prepare=self.prepare,
        )


def compile_model(  # noqa: PLR0913 - what is compiled, where it goes, and how far
    model: GraphLike | str | os.PathLike[str],
    target: TargetLike,
    emit: str | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    shapes: Shapes | None = None,
    print_after: str | None = None,
    dump_phases: str | os.PathLike[str] | None = None,
    force: bool = False,
    prepare: Preparation | None = None,
) -> Emitted:
    """Compile a model for one target and write it in a form that `EMITTERS` names.

    Without a form it is the one that the ending of `output` names. Without `output` the file is called after the model
    and the chip, such as `cnn.m4.mlpackage`. MIL goes into a folder; a path that ends with .mil is the text itself,
    with the weights next to it. What another tool made is replaced only with `force`.

    `print_after` stops after a pass and returns the program there; `dump_phases` keeps the program after every pass
    that changed it. `prepare` holds options of `af.compile`.

    >>> import aneforge as af
    >>> made = compile_model(af.input((1, 4), name="x").relu(), af.targets.Family.A13)
    >>> made.layers, made.segments
    (1, 1)

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation has no form there, or in the form that was asked for.
        UnknownNameError: There is no such form, or no such pass.
        StrictCompileError: Strictness was asked for and found something that it does not let pass.
        GraphError: Several targets are named, or a file cannot be written.
    """
    form_name = emit if emit is not None or output is None else form_of(output)
    if form_name is not None and form_name not in EMITTERS:
        raise UnknownNameError.of("form to emit", form_name, EMITTERS)
    named = chosen_targets([target])
    if len(named) > 1:
        raise GraphError(
            "a model is compiled for one target",
            seen=", ".join(map(label_of, named)),
            remedy="name one of them, and run the command once for each",
        )
    chosen, emit, where = named[0].target, form_name, None
    if emit is not None:
        where = place_of_form(emit, output if output is not None else default_name(name_of(model), emit, named[0].name))
        EMITTERS[emit].refuse(where.path, model)
        refuse_foreign(where.files, force=force)
        for file in list_numbered_files(where.path) if emit == "hwx" else ():
            refuse_foreign([file], force=force)
    if dump_phases is not None:
        refuse_folder(Path(dump_phases), model)
    subject = subject_of(model, shapes=shapes)
    subject, remarks = prepare_subject(subject, named, prepare or Preparation())
    pipeline = PIPELINE if print_after is None else PIPELINE.until(print_after)
    form = plain_form if emit is None else EMITTERS[emit].form
    # Only network descriptions reach the targets that run no MIL programs.
    reached = route_to(chosen) if emit == "netplist" else subject.route(chosen)
    route = Route.MIL if emit in MIL_FORMS else reached
    if dump_phases is None:
        made = compile_form(subject.graph, chosen, form, pipeline, pipeline.run, route)
    else:
        folder = Path(dump_phases)
        with writing(folder):
            made = compile_form(
                subject.graph, chosen, form, pipeline, lambda program: pipeline.dump(program, folder), route
            )
    program, written = made.program, Written(None)
    if emit is not None and where is not None:
        with writing(where.path):
            written = EMITTERS[emit].write(made.retargeted, program, where.path)
    return Emitted(
        model=subject.name,
        target=chosen.name,
        emit=emit,
        path=None if written.path is None else str(written.path),
        layers=len(program.layers),
        segments=len(program.segments),
        rebuilt=merge_notes((f"{change.op} became {change.detail}", node_of(change)) for change in made.changes),
        text=None if print_after is None else str(program),
        notes=(
            *subject.notes,
            *remarks,
            *made.notes,
            *written.notes,
            *merge_notes(program_notes(program, report_nodes(subject.graph), made.carried)),
        ),
        tasks=tuple(
            LayerTasks(
                file, layer.name, layer.kind, runs, operations_of(subject.graph, made.carried.get(layer.name, ()))
            )
            for file, layer, runs in written.tasks
        ),
        beside=tuple(map(str, written.beside)),
        chip=chip_of(named[0]),
    )


def operations_of(graph: Graph, nodes: tuple[int, ...]) -> str:
    """Return the operations of nodes, each with its name where the user's file gives one."""
    named = [report_nodes(graph)[number] for number in nodes]
    return ", ".join(f"{one.op} {one.name}".strip() for one in named)


@dataclass(frozen=True, slots=True)
class Written:
    """What a form was written to."""

    path: Path | None
    """None where nothing was written."""
    beside: tuple[Path, ...] = ()
    """The files after the first, where it became several."""
    notes: tuple[str, ...] = ()
    tasks: tuple[tuple[str, TaskLayer, str], ...] = ()
    """File, layer and numbers of tasks, where it holds tasks."""


@dataclass(frozen=True, slots=True)
class Form:
    """The graph that a form holds."""

    graph: Graph
    origin: tuple[tuple[int, ...], ...]
    """For every node of it, those that it was written for, as numbers of the graph that was given."""
    changes: tuple[Change, ...] = ()
    shared: str = ""
    """Who runs what the engine does not take of it; empty where nobody does."""


@dataclass(frozen=True, slots=True)
class CompiledForm:
    """A graph for one target, and the program of the graph that its form holds."""

    retargeted: Retargeted
    """What is written."""
    program: Program
    changes: tuple[Change, ...]
    carried: Mapping[str, tuple[int, ...]]
    """The nodes of the user's graph that each layer carries out, by the layer's name."""
    notes: tuple[str, ...] = ()


def compile_form(
    graph: Graph,
    target: Target,
    form: Callable[[Graph], Form],
    pipeline: Pipeline,
    run: Callable[[Program], Program],
    route: Route = Route.MIL,
) -> CompiledForm:
    """Return the program of the graph that a form holds: what is reported is what a reader of the file would compile.

    A form that others than the engine run a part of may hold what the engine does not take: the program is that of the
    graph for the target then, and a note says why.

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation has no form there, or in the form that was asked for.
    """
    retargeted = retarget(graph, target, route)
    written, notes = form(retargeted.graph), ()
    try:
        compiled = compile_graph(written.graph, target, route=route, pipeline=pipeline, run=run)
    except (IllegalGraphError, NotSupportedError) as error:
        if not written.shared:
            raise
        written, notes = plain_form(retargeted.graph), (f"{written.shared}: {error}",)
        compiled = compile_graph(written.graph, target, route=route, pipeline=pipeline, run=run)
    first = origins(graph, retargeted.graph)
    last = [
        tuple(dict.fromkeys(number for held in kept for made in written.origin[held] for number in first[made]))
        for kept in origins(written.graph, compiled.graph)
    ]
    changes = (*retargeted.changes, *written.changes, *compiled.changes)
    carried = trace_layers(compiled.program, compiled.graph, last)
    return CompiledForm(retargeted, compiled.program, changes, carried, notes)


def node_of(change: Change) -> str:
    """Return the name of the operation that was rebuilt, where the user's file gives it one."""
    return (change.location.node if change.location is not None else None) or ""


def name_of(model: object) -> str:
    """Return what a file that is written for a model is called after."""
    return Path(model).name if is_path(model) else "graph"


NETPLIST_FILES = ("net.plist", "weights.0", "weights.1")


def default_name(model: str, emit: str, chip: str) -> str:
    """Return where a form is written if no place is given.

    >>> default_name("net.onnx", "mlpackage", "chip"), default_name("net.onnx", "mil", "chip")
    ('net.chip.mlpackage', 'net.chip.mil')
    """
    return f"{Path(model).stem}.{chip}{EMITTERS[emit].ending}"


def form_of(output: str | os.PathLike[str]) -> str:
    """Return the form that the ending of a path names.

    >>> form_of("net.mlpackage"), form_of("net/")
    ('mlpackage', 'mil')

    Raises:
        GraphError: It names none.
    """
    if os.fspath(output).endswith("/"):
        return "mil"
    ending = Path(output).suffix
    found = next((form for form, emitter in EMITTERS.items() if emitter.ending == ending), None)
    if found is None:
        raise GraphError(
            "the ending of the path names no form to write",
            seen=f"-o {os.fspath(output)}",
            limit=", ".join(emitter.ending for emitter in EMITTERS.values()),
            remedy="name a form, such as --emit mil",
        )
    return found


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where a form is written."""

    path: Path
    files: tuple[Path, ...]
    """What would be replaced, the file that says whose all of them are first."""


def place_of_form(emit: str, output: str | os.PathLike[str]) -> OutputPlace:
    """Return where a form is written, and its files.

    MIL goes into a folder, as model.mil, unless the path ends with .mil and is neither a folder nor written as one.
    """
    path = Path(output)
    if emit == "netplist":
        return OutputPlace(path, tuple(path / name for name in NETPLIST_FILES))
    if emit != "mil":
        return OutputPlace(path, (path,))
    if path.suffix != EMITTERS[emit].ending or path.is_dir() or os.fspath(output).endswith(os.sep):
        path /= MODEL_FILE
    return OutputPlace(path, (path, weights_of(path)))


def weights_of(text: Path) -> Path:
    """Return the weights file of a MIL text: weights.bin where the text has a folder of its own."""
    return text.parent / WEIGHTS_FILE if text.name == MODEL_FILE else weights_beside(text)


def as_mil(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write MIL text and its weights."""
    del program  # MIL says what the graph says
    text = write_mil(retargeted, path.parent) if path.name == MODEL_FILE else write_mil_file(retargeted, path)
    return Written(text, (weights_of(path),))


def as_netplist(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write a network description and its weights into a folder."""
    del program  # a description says what the graph says
    from aneforge.formats.netplist.writing import save_netplist  # noqa: PLC0415 - loaded when it is needed

    return Written(save_netplist(retargeted, path))


def as_package(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write an ML package."""
    del program  # a package holds MIL
    from aneforge.formats.mlpackage.package import save_mlpackage  # noqa: PLC0415 - loaded when it is needed

    return Written(save_mlpackage(retargeted, path))


def as_program(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write a program that `af.load_program` reads."""
    from aneforge.runtime.compile import compile as compiled  # noqa: PLC0415 - loaded when it is needed

    del program  # the runtime compiles it again, with the facts that a model needs
    with compiled(retargeted.graph, opt=0, target=retargeted.target) as made:
        return Written(made.save(path))


def as_text(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write the text of the program; its weights stay outside, by hash."""
    del retargeted  # the program says it all
    path.parent.mkdir(parents=True, exist_ok=True)
    return Written(save(path, f"{program}\n"))


def as_container(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write a compiled container; what is between layers that are not emitted becomes files of its own.

    Raises:
        NotSupportedError: No layer is emitted.
    """
    from aneforge.formats.hwx.write_hwx import write  # noqa: PLC0415 - loaded when it is needed
    from aneforge.runtime.hwx.emit_program import emit_compiled  # noqa: PLC0415 - loaded when it is needed

    made = emit_compiled(Compiled(retargeted, program))
    refused = tuple(f"not emitted: {one}" for one in made.refused)
    if not made.files:
        raise NotSupportedError(
            "no layer is emitted: " + "; ".join((*refused, *made.remarks)), target=retargeted.target
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if made.whole:
        write(made.files[0].container, path)
        return Written(path, notes=made.remarks, tasks=tuple(layer_tasks(path.name, made.files[0])))
    paths = [name_numbered_file(path, number) for number in range(len(made.files))]
    for one, file in zip(paths, made.files, strict=True):
        write(file.container, one)
    parts = tuple(part_text(one.name, file) for one, file in zip(paths, made.files, strict=True))
    tasks = [one for place, file in zip(paths, made.files, strict=True) for one in layer_tasks(place.name, file)]
    return Written(paths[0], tuple(paths[1:]), (*parts, *refused, *made.remarks), tuple(tasks))


def name_numbered_file(path: Path, number: int) -> Path:
    """Return the name of one of several files.

    >>> print(name_numbered_file(Path("net.hwx"), 1))
    net.1.hwx
    """
    return path.with_suffix(f".{number}{path.suffix}")


def list_numbered_files(path: Path) -> Iterator[Path]:
    """Yield the files that are there under the names of several, up to the first that is not."""
    names = (name_numbered_file(path, number) for number in itertools.count())
    return itertools.takewhile(Path.exists, names)


def part_text(name: str, emitted: EmittedFile) -> str:
    """Return what one of several files has: how many layers, what it reads and what it writes."""
    count = len(set(emitted.layers.values()))
    layers = number_of(count, "layer")
    return f"{name}: {layers}, reads {', '.join(emitted.inputs)}, writes {', '.join(emitted.outputs)}"


def layer_tasks(file: str, emitted: EmittedFile) -> Iterator[tuple[str, TaskLayer, str]]:
    """Yield the layers of a container with the numbers of their tasks."""
    from aneforge.formats.hwx.layer_notes import layers_noted, task_runs  # noqa: PLC0415 - loaded when it is needed

    for layer, first, last in task_runs(layers_noted(emitted.container.identification)):
        yield file, layer, str(first) if first == last else f"{first} to {last}"


def as_linux_file(retargeted: Retargeted, program: Program, path: Path) -> Written:
    """Write the file of the Linux driver, which holds a whole program.

    Raises:
        NotSupportedError: A layer is not emitted, or the target is of a different generation than the driver's engines.
    """
    from aneforge.formats.hwx.ane_file import ane_of, write_ane  # noqa: PLC0415 - loaded when it is needed
    from aneforge.runtime.hwx.emit_program import GENERATION, emit_compiled  # noqa: PLC0415 - as above

    if program.target.descriptor_generation != GENERATION:
        engines = [one.name for one in database().targets.values() if one.descriptor_generation == GENERATION]
        raise NotSupportedError(
            f"the Linux driver runs only the engines {', '.join(engines)}",
            target=program.target.name,
            remedy="choose one of them, or write a container: --emit hwx",
        )
    made = emit_compiled(Compiled(retargeted, program), style=LINUX_STYLE)
    if not made.whole:
        reasons = "; ".join(str(one) for one in made.refused) or "the model is cut into several programs"
        raise NotSupportedError(
            f"a file of the Linux driver must be a whole program: {reasons}", target=retargeted.target
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_ane(ane_of(made.files[0].container), path)
    return Written(path, notes=made.remarks, tasks=tuple(layer_tasks(path.name, made.files[0])))


LINUX_STYLE = "v5"
"""Layout of containers that the Linux driver's files are made from: tasks first, outputs before inputs."""


def refuse_package(path: Path, model: object) -> None:
    """Refuse an ML package that could not be written, or for which a package is missing here."""
    from aneforge.formats.mlpackage.messages import messages  # noqa: PLC0415 - as above
    from aneforge.formats.mlpackage.package import check_target  # noqa: PLC0415 - loaded when it is needed

    messages()
    refuse_model(path, model)
    check_target(path)
    refuse_folder(path.parent)


def refuse_mil(path: Path, model: object) -> None:
    """Refuse MIL text and weights that could not be written."""
    if path.name == MODEL_FILE:
        refuse_folder(path.parent, model, holds=(MODEL_FILE, WEIGHTS_FILE))
        return
    for file in (path, weights_of(path)):
        refuse_one_file(file, model)


def refuse_one_file(path: Path, model: object) -> None:
    """Refuse a file that could not be written; the folders above it are made."""
    refuse_folder_in_place(path)
    refuse_model(path, model)
    if path.exists() and not path.is_file():
        raise GraphError("the file cannot be written", location=Location(str(path)), seen="not a regular file")
    refuse_read_only(path)
    refuse_folder(path.parent)


def plain_form(graph: Graph) -> Form:
    """Return a graph as it is: MIL says it so, and programs are lowered from it."""
    return Form(graph, tuple((number,) for number in range(len(graph.nodes))))


def netplist_form(graph: Graph) -> Form:
    """Return what a network description holds: four axes, broadcasts and views as units of their own."""
    from aneforge.formats.netplist.writing import describe_graph  # noqa: PLC0415 - loaded when it is needed

    made = describe_graph(graph)
    written = origins(graph, made.written)
    stamps = {node.created: number for number, node in enumerate(made.written.nodes)}
    origin = [written[stamps[source.created]] if (source := made.source(node)) else () for node in made.graph.nodes]
    return Form(made.graph, tuple(origin), made.changes)


def package_form(graph: Graph) -> Form:
    """Return what an ML package holds: operations and element types that Core ML has."""
    from aneforge.formats.mlpackage.package import package_graph  # noqa: PLC0415 - loaded when it is needed

    made = package_graph(graph)
    return Form(made.graph, origins(graph, made.graph), made.changes, shared=CPU_PARTS)


@dataclass(frozen=True, slots=True)
class Emitter:
    """A form in which programs travel."""

    ending: str
    """How names of its files end."""
    write: Callable[[Retargeted, Program, Path], Written]
    refuse: Callable[[Path, object], None]
    """Refuses what could not be written, before anything is compiled for it."""
    form: Callable[[Graph], Form] = plain_form
    """The graph that is written of one for a target."""


MIL_FORMS = ("mil", "mlpackage")
"""Forms that hold MIL, which some targets do not run."""
EMITTERS: Mapping[str, Emitter] = {
    "mil": Emitter(".mil", as_mil, refuse_mil),
    "netplist": Emitter(".netplist", as_netplist, partial(refuse_folder, holds=NETPLIST_FILES), netplist_form),
    "mlpackage": Emitter(".mlpackage", as_package, refuse_package, package_form),
    "program": Emitter(".aneprg", as_program, refuse_one_file),
    "text": Emitter(".anec", as_text, refuse_one_file),
    "hwx": Emitter(".hwx", as_container, refuse_one_file),
    "ane": Emitter(".ane", as_linux_file, refuse_one_file),
}
