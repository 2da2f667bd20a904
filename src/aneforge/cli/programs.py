"""`aneforge compile`, `run`, `reduce` and `bench`: what makes and runs programs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.display import number_of
from aneforge.errors import GraphError
from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from aneforge.commands.compiling import Emitted, LayerTasks
    from aneforge.commands.running import Ran
    from aneforge.ops.types import Array

__all__ = ["bench", "compile_", "reduce", "run"]

OneTarget = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="A target, chip or family: {large}, {pro}, {family}.".format(**EXAMPLES),
    ),
]


def compile_(
    models: given.Models,
    target: OneTarget,
    emit: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="mil, netplist, mlpackage, program, text, hwx or ane. [default: from the ending of -o]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Where to write it. net.mil is a MIL text with net.weights.bin next to it, net/ a folder with "
            "model.mil and weights.bin; {model} is replaced by the name of each of several models. [default: "
            "MODEL.CHIP and the ending of the form]",
            show_default=False,
        ),
    ] = None,
    force: given.Force = False,
    shape: given.Shapes = None,
    opt: given.Opt = None,
    compress: given.Compress = None,
    rescale: Annotated[
        bool,
        typer.Option("--rescale", help="Scale values by powers of two first, where that makes results more exact."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse every decomposition, folding, saturation risk and inexact arithmetic, as af.compile does.",
        ),
    ] = False,
    print_after: Annotated[
        str | None,
        typer.Option(metavar="PASS", help="Stop after this pass and print the program.", show_default=False),
    ] = None,
    dump_phases: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the program after every pass that changed it to this folder.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    scheduler: given.Scheduler = None,
    workers: given.Workers = None,
    quiet: given.Quiet = False,
) -> None:
    """Compile models for one target.

    Of several models one that cannot be compiled is an error of its own, and the others are compiled.

    Examples:
    aneforge compile model.onnx -t {new} --emit mlpackage

    aneforge compile model.onnx -t {new} -o model.mil

    aneforge compile zoo/*.onnx -t {new} --emit mlpackage --workers 4

    aneforge compile model.onnx -t {old} --print-after fuse-epilogue

    aneforge compile model.onnx -t {old} --dump-phases phases
    """
    from aneforge.cli.several_models import Results, expect_own_names, own_name  # noqa: PLC0415 - loaded when needed
    from aneforge.commands.compiling import CompileTask  # noqa: PLC0415 - as above
    from aneforge.commands.preparing import Preparation  # noqa: PLC0415 - as above

    shapes = given.parse_shapes(shape)
    prepare = Preparation(given.parse_level(opt), compress, "auto" if rescale else None, strict)
    for option, path in (("-o", output), ("--dump-phases", dump_phases)):
        if path is not None:
            expect_own_names(option, str(path), models)
    tasks = [
        CompileTask(
            model,
            target,
            emit,
            None if output is None else own_name(output, model),
            shapes,
            force,
            prepare,
            print_after,
            None if dump_phases is None else Path(own_name(dump_phases, model)),
        )
        for model in models
    ]
    results = Results(tasks, scheduler, workers, "compiling")
    for number, made in results:
        if not quiet or made.text is not None:
            show_compiled(made, tasks[number].dump_phases)
    raise typer.Exit(results.code)


def show_compiled(made: Emitted, phases: Path | None) -> None:
    """Print what became of a model, or the program itself where that was asked for."""
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed

    if made.text is not None:
        typer.echo(made.text)
        return
    out = console()
    print_wrapped(
        out,
        f"{made.model} for {made.label}: {number_of(made.layers, 'layer')} in {number_of(made.segments, 'program')}",
    )
    for line in (*(f"rebuilt: {one}" for one in made.rebuilt), *(f"note: {one}" for one in made.notes)):
        print_wrapped(out, line, indent=2)
    show_layer_tasks(out, made.tasks)
    for path in (made.path, *made.beside, phases):
        if path is not None:
            print_wrapped(out, f"wrote {path}")


MOST_LAYERS = 60
"""Layers whose tasks are printed; `aneforge hwx show` prints all tasks of a file."""


def show_layer_tasks(out: Console, layers: Sequence[LayerTasks]) -> None:
    """Print which tasks of a container compute which layer."""
    if not layers:
        return
    from rich.text import Text  # noqa: PLC0415 - loaded when it is needed

    from aneforge.cli.terminal import plain_table  # noqa: PLC0415 - as above

    several = len({one.file for one in layers}) > 1
    headings = (*(("file",) if several else ()), "layer", "kind", "tasks", "operations")
    table = plain_table(headings, ("tasks",))
    for one in layers[:MOST_LAYERS]:
        cells = (*((one.file,) if several else ()), one.layer, one.kind, one.tasks, one.operations)
        table.add_row(*map(Text, cells))
    out.print(table)
    if len(layers) > MOST_LAYERS:
        out.print(f"and {len(layers) - MOST_LAYERS} more layers (aneforge hwx show prints all tasks)")


def run(
    model: given.Model,
    target: given.Targets = None,
    inputs: given.Inputs = None,
    output: given.Outputs = None,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Backend that runs it; aneforge doctor lists them. [default: software]",
            show_default=False,
        ),
    ] = None,
    seed: given.Seed = None,
    shape: given.Shapes = None,
    force: given.Force = False,
    verbose: given.Verbose = False,
) -> None:
    """Run a model on the exact engine, bit for bit as a chip would; on several targets at once.

    A program that compile --emit program wrote runs on the target that it is for. With several targets the outputs are
    called TARGET.NAME in the file. States start at zero, or with what --inputs has under their names; what they hold at
    the end is in the file too.

    Examples:
    aneforge run model.onnx -t {old} --inputs x.npz -o y.npz

    aneforge run model.onnx -t {old},{new} --seed 0

    aneforge run model.aneprg --inputs x.npz
    """
    from aneforge.cli.showing import cut_text  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - as above
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - as above
    from aneforge.commands.running import run_model  # noqa: PLC0415 - as above
    from aneforge.formats.detection import is_program_file  # noqa: PLC0415 - as above

    values = given.read_arrays(inputs) if inputs is not None else None
    names = given.parse_targets(target)
    if names is None and not is_program_file(model):
        raise GraphError("no target is named", remedy="name one, such as --target {old}".format(**EXAMPLES))
    shapes = given.parse_shapes(shape)
    if output is not None:
        refuse_output(output, model, force=force)
    with progress("running the model"):
        found = run_model(model, names, values, seed=seed, backend=backend, shapes=shapes)
    out = console()
    for note in found[0].notes:
        print_wrapped(out, f"note: {note}", style="dim")
    for one in found:
        print_wrapped(out, f"{one.label}, {one.backend}: {one.exactness}, {one.seconds * 1e3:.1f} ms here")
        print_wrapped(out, f"why {one.exactness}: {one.reason if verbose else cut_text(one.reason)}", indent=2)
        states = ((f"state {name}", array) for name, array in one.states.items())
        for name, array in (*one.outputs.items(), *states):
            print_wrapped(out, f"{name} {list(array.shape)} {array.dtype}: {statistics(array)}", indent=2)
    if not verbose and any(cut_text(one.reason) != one.reason for one in found):
        print_wrapped(out, "… -v prints the whole reasons", style="dim")
    if output is not None:
        save_arrays(output, arrays_of(found))
        print_wrapped(out, f"wrote {output}")


def statistics(array: Array) -> str:
    """Return a few numbers that distinguish arrays."""
    import numpy as np  # noqa: PLC0415 - loaded when it is needed

    if not array.size:
        return "empty"
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    lost = array.size - finite.size
    ends = f"{finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}" if finite.size else "nothing finite"
    return ends + (f"; {lost} not finite" if lost else "")


def arrays_of(found: Sequence[Ran]) -> dict[str, Array]:
    """Return all outputs and states under names of their own; a state whose name an output has is called NAME.state."""
    made: dict[str, Array] = {}
    for one in found:
        states = {f"{name}.state" if name in one.outputs else name: array for name, array in one.states.items()}
        before = "" if len(found) == 1 else f"{one.target}."
        made |= {f"{before}{name}": array for name, array in (*one.outputs.items(), *states.items())}
    return made


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as an .npz file, whole or not at all."""
    import numpy as np  # noqa: PLC0415 - loaded when it is needed

    from aneforge.commands.outputs import save  # noqa: PLC0415 - as above
    from aneforge.commands.own_files import ARCHIVE_COMMENT  # noqa: PLC0415 - as above

    stream = io.BytesIO()
    np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType] - its stub takes the arrays for an option
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = ARCHIVE_COMMENT
    save(path, stream.getvalue())


def reduce(
    model: given.Model,
    keep: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="'rule ANE-… [TARGET]', 'diverges {old} {new}' or 'nan [TARGET]'.".format(**EXAMPLES),
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for model.mil, and for inputs.npz if the failure depends on values.",
            readable=False,
        ),
    ] = Path("reduced"),
    inputs: given.Inputs = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs that are not given, which are drawn at random.")] = 0,
    shape: given.Shapes = None,
    force: given.Force = False,
) -> None:
    """Find the smallest part of a model that still shows something, and save it.

    Examples:
    aneforge reduce model.onnx --keep 'rule ANE-EXTENT-001 {old}'

    aneforge reduce model.onnx --keep 'diverges {old} {new}' -o smallest
    """
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.outputs import refuse_folder, writing  # noqa: PLC0415 - as above
    from aneforge.commands.own_files import refuse_foreign  # noqa: PLC0415 - as above
    from aneforge.commands.reducing import reduce_model  # noqa: PLC0415 - as above
    from aneforge.formats.mil.mil_files import save_mil  # noqa: PLC0415 - as above

    values = given.read_arrays(inputs) if inputs is not None else None
    shapes = given.parse_shapes(shape)
    holds = ("model.mil", "weights.bin", "inputs.npz")
    refuse_folder(output, model, holds=holds)
    refuse_foreign([output / name for name in holds], force=force)
    with progress("trying smaller parts"):
        found = reduce_model(model, keep, values, seed=seed, shapes=shapes)
    with writing(output):
        path = save_mil(found.graph, output)
    second = ""
    if found.inputs:
        save_arrays(path.parent / "inputs.npz", found.inputs)
        second = " and inputs.npz next to it"
    out = console()
    tried = number_of(found.tried, "part")
    print_wrapped(out, f"{found.model}: {number_of(found.before, 'operation')} became {found.after}, {tried} tried")
    for line in str(found.graph).splitlines():
        out.print(line, markup=False, no_wrap=True, overflow="ellipsis")  # the file has it whole
    print_wrapped(out, f"wrote {path}{second}")


def bench(
    model: given.Model,
    target: given.Targets = None,
    inputs: given.Inputs = None,
    runs: Annotated[int, typer.Option(min=1, help="Number of runs for the percentiles.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the inputs that are not given, which are drawn at random.")] = 0,
    shape: given.Shapes = None,
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """Measure how fast the exact engine runs a model here, and show the predicted time of the chip next to it.

    Examples:
    aneforge bench model.onnx -t {old} --runs 20
    """
    from aneforge.cli.terminal import console, plain_table, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.benching import bench as measured  # noqa: PLC0415 - as above
    from aneforge.report.numbers import latency_text, time_text  # noqa: PLC0415 - as above

    given.refuse_json(json, model, force=force)
    values = given.read_arrays(inputs) if inputs is not None else None
    names = given.parse_targets(target)
    if names is None:
        raise GraphError("no target is named", remedy="name one, such as --target {old}".format(**EXAMPLES))
    with progress() as tell:
        found = measured(model, names, values, runs=runs, seed=seed, shapes=given.parse_shapes(shape), progress=tell)
    if given.write_json(json, "bench", found):
        return
    out = console()
    table = plain_table(["target", "least", "p10", "p50", "p90", "p99", "GMAC/s", "the chip (predicted)"])
    for one in found:
        times = (time_text(value * 1e3) for value in one.milliseconds.values())
        table.add_row(one.label, *times, f"{one.macs_per_second / 1e9:.1f}", latency_text(one.predicted))
    out.print(table)
    first = found[0]
    ran, threads = number_of(first.runs, "run"), number_of(first.threads, "thread")
    print_wrapped(out, f"{ran} on this machine; kernels: {first.kernels}; {threads}", style="dim")
