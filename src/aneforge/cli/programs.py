"""`aneforge compile`, `run`, `compare`, `reduce` and `bench`: what makes and runs programs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.errors import GraphError
from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from aneforge.commands.comparing import Comparison
    from aneforge.commands.compiling import LayerTasks
    from aneforge.commands.running import Ran
    from aneforge.ops.types import Array

__all__ = ["bench", "compare", "compile_", "reduce", "run"]

OneTarget = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="A target, chip or family: {large}, {pro}, {family}.".format(**EXAMPLES),
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Draw the inputs that are not given from this seed.", show_default=False)
]
Most = Annotated[int, typer.Option(min=0, help="Rows to print.")]
SHOWN_NAME = 28
SHOWN_HAZARDS = 5


def compile_(
    model: given.Model,
    target: OneTarget,
    emit: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="mil, netplist, mlpackage, program, text, hwx or ane.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Where to write it.", show_default=False, readable=False),
    ] = None,
    shape: given.Shapes = None,
    print_after: Annotated[
        str | None,
        typer.Option(metavar="PASS", help="Stop after a pass and print the program there.", show_default=False),
    ] = None,
    dump_phases: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the program after every pass that changed it.",
            show_default=False,
            readable=False,
        ),
    ] = None,
) -> None:
    """Compile a model for one target.

    Examples:
    aneforge compile model.onnx -t {new} --emit mlpackage -o model.mlpackage

    aneforge compile model.onnx -t {old} --print-after fuse-epilogue

    aneforge compile model.onnx -t {old} --dump-phases phases
    """
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import console  # noqa: PLC0415 - as above
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.compiling import compile_model  # noqa: PLC0415 - as above

    if output is not None and emit is None:
        raise GraphError("nothing is to be written", seen=f"-o {output}", remedy="name a form, such as --emit mil")
    shapes = given.shapes_given(shape)
    with progress("compiling"):
        made = compile_model(
            model, target, emit, output, shapes=shapes, print_after=print_after, dump_phases=dump_phases
        )
    if made.text is not None:
        typer.echo(made.text)
        return
    out = console()
    print_wrapped(
        out, f"{made.model} for {made.target}: {counted(made.layers, 'layer')} in {counted(made.segments, 'program')}"
    )
    for line in (*(f"rebuilt: {one}" for one in made.rebuilt), *(f"note: {one}" for one in made.notes)):
        print_wrapped(out, line, indent=2)
    show_layer_tasks(out, made.tasks)
    for path in (made.path, dump_phases):
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
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.npz",
            help="Where to write the outputs.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What runs it; aneforge doctor lists them. [default: software]", show_default=False
        ),
    ] = None,
    seed: Seed = None,
    shape: given.Shapes = None,
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
    from aneforge.cli.showing import cut_text, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import console  # noqa: PLC0415 - as above
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.outputs import refuse_file  # noqa: PLC0415 - as above
    from aneforge.commands.running import run_model  # noqa: PLC0415 - as above
    from aneforge.formats.detection import is_program_file  # noqa: PLC0415 - as above

    values = given.read_arrays(inputs) if inputs is not None else None
    names = given.targets_given(target)
    if names is None and not is_program_file(model):
        raise GraphError("no target is named", remedy="name one, such as --target {old}".format(**EXAMPLES))
    shapes = given.shapes_given(shape)
    if output is not None:
        refuse_file(output, model)
    with progress("running the model"):
        found = run_model(model, names, values, seed=seed, backend=backend, shapes=shapes)
    out = console()
    for note in found[0].notes:
        print_wrapped(out, f"note: {note}", style="dim")
    for one in found:
        print_wrapped(out, f"{one.target} ({one.backend}): {one.exactness}, {one.seconds * 1e3:.1f} ms here")
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
    """Return a few numbers that tell one array from another."""
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

    stream = io.BytesIO()
    np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType] - its stub takes the arrays for an option
    save(path, stream.getvalue())


def compare(
    model: given.Model,
    target: given.Targets = None,
    inputs: given.Inputs = None,
    seed: Seed = None,
    mark: Annotated[
        str | None, typer.Option(metavar="all", help="all keeps every intermediate value.", show_default=False)
    ] = None,
    shape: given.Shapes = None,
    most: Most = 20,
) -> None:
    """Compare a model on two targets, or on one and in mathematics, operation by operation.

    One target is compared with the mathematics in float64, of the model as its file has it: differences are the chip's
    arithmetic and the rounding of weights and inputs to fp16 together. The exit code is 1 where two targets differ.

    Examples:
    aneforge compare model.onnx -t {old} -t {new} --seed 0

    aneforge compare model.onnx -t {old} --inputs x.npz --mark all
    """
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.comparing import REFERENCE  # noqa: PLC0415 - as above
    from aneforge.commands.comparing import compare as compared  # noqa: PLC0415 - as above
    from aneforge.commands.model_and_targets import parts_of  # noqa: PLC0415 - as above

    names = [part for text in target or () for part in parts_of(text)]
    if len(names) not in (1, 2):
        raise GraphError(
            "one or two targets are compared",
            seen=len(names),
            remedy="-t {old} -t {new}, or -t {old} alone".format(**EXAMPLES),
        )
    if mark not in (None, "all"):
        raise GraphError("--mark takes one word", seen=mark, limit="all")
    second = names[1] if len(names) == 2 else REFERENCE
    values = given.read_arrays(inputs) if inputs is not None else None
    shapes = given.shapes_given(shape)
    with progress("comparing"):
        found = compared(model, names[0], second, values, seed=seed, mark=mark is not None, shapes=shapes)
    show_comparison(found, most)
    raise typer.Exit(1 if len(names) == 2 and not found.equal else 0)


def show_comparison(found: Comparison, most: int) -> None:
    """Print a comparison."""
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import console, plain_table  # noqa: PLC0415 - as above

    out = console()
    values = counted(len(found.nodes), "value")
    out.print(f"{found.model}: {found.first} against {found.second}, {values} compared", markup=False)
    if found.hidden and not found.marked:
        out.print(f"{counted(found.hidden, 'operation')} hidden by fusion; --mark all shows them", style="dim")
    if found.marked:
        out.print("every operation is an output, so these are not the programs that would run", style="dim")
    out.print(f"exactness: {found.first} {found.exactness[0]}, {found.second} {found.exactness[1]}", style="dim")
    if found.reference:
        print_wrapped(out, f"{found.second}: {found.reference}", style="dim")
    for hazard in found.hazards[:SHOWN_HAZARDS]:
        print_wrapped(out, f"finite values become infinite on {hazard}", style="dim")
    if len(found.hazards) > SHOWN_HAZARDS:
        out.print(f"and in {counted(len(found.hazards) - SHOWN_HAZARDS, 'more operation')}", style="dim")
    first = found.first_difference
    if first is None:
        out.print("[green]the same bits everywhere[/]")
        return
    out.print(
        f"first difference: {first.op} {first.name!r}, {first.differing} of {first.elements} elements", markup=False
    )
    differing = [one for one in found.nodes if one.differing]
    table = plain_table(["#", "node", "op", "differ", "of", "largest", "relative"], ["#", "differ", "of"])
    for one in differing[:most]:
        name = one.name if len(one.name) <= SHOWN_NAME else f"{one.name[: SHOWN_NAME - 1]}…"
        output = "*" if one.node in found.outputs else ""
        largest = "not finite" if one.largest is None else f"{one.largest:.3g}"
        relative = "" if one.relative is None else f"{one.relative:.2g}"
        table.add_row(f"{one.node}{output}", name, one.op, str(one.differing), str(one.elements), largest, relative)
    out.print(table)
    if len(differing) > most:
        out.print(f"and {len(differing) - most} more")
    out.print("* an output of the model", style="dim")


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
            help="Folder for model.mil, and inputs.npz where values decide.",
            readable=False,
        ),
    ] = Path("reduced"),
    inputs: given.Inputs = None,
    seed: Annotated[int, typer.Option(help="Draws the inputs that are not given.")] = 0,
    shape: given.Shapes = None,
) -> None:
    """Find the smallest part of a model that still shows something, and save it.

    Examples:
    aneforge reduce model.onnx --keep 'rule ANE-EXTENT-001 {old}'

    aneforge reduce model.onnx --keep 'diverges {old} {new}' -o smallest
    """
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import console  # noqa: PLC0415 - as above
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.outputs import refuse_folder, writing  # noqa: PLC0415 - as above
    from aneforge.commands.reducing import reduce_model  # noqa: PLC0415 - as above
    from aneforge.formats.mil.mil_files import save_mil  # noqa: PLC0415 - as above

    values = given.read_arrays(inputs) if inputs is not None else None
    shapes = given.shapes_given(shape)
    refuse_folder(output, model, holds=("model.mil", "weights.bin", "inputs.npz"))
    with progress("trying smaller parts"):
        found = reduce_model(model, keep, values, seed=seed, shapes=shapes)
    with writing(output):
        path = save_mil(found.graph, output)
    beside = ""
    if found.inputs:
        save_arrays(path.parent / "inputs.npz", found.inputs)
        beside = " and inputs.npz beside it"
    out = console()
    tried = counted(found.tried, "part")
    print_wrapped(out, f"{found.model}: {counted(found.before, 'operation')} became {found.after}, {tried} tried")
    for line in str(found.graph).splitlines():
        out.print(line, markup=False, no_wrap=True, overflow="ellipsis")  # the file has it whole
    print_wrapped(out, f"wrote {path}{beside}")


def bench(
    model: given.Model,
    target: given.Targets = None,
    inputs: given.Inputs = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs to take the percentiles of.")] = 10,
    seed: Annotated[int, typer.Option(help="Draws the inputs that are not given.")] = 0,
    shape: given.Shapes = None,
) -> None:
    """Measure how fast the exact engine runs a model here, and show the predicted time of the chip beside it.

    Examples:
    aneforge bench model.onnx -t {old} --runs 20
    """
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import console, plain_table  # noqa: PLC0415 - as above
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.benching import bench as measured  # noqa: PLC0415 - as above
    from aneforge.report.numbers import latency_text, time_text  # noqa: PLC0415 - as above

    values = given.read_arrays(inputs) if inputs is not None else None
    names = given.targets_given(target)
    if names is None:
        raise GraphError("no target is named", remedy="name one, such as --target {old}".format(**EXAMPLES))
    with progress() as tell:
        found = measured(model, names, values, runs=runs, seed=seed, shapes=given.shapes_given(shape), progress=tell)
    out = console()
    table = plain_table(["target", "least", "p10", "p50", "p90", "p99", "GMAC/s", "the chip (predicted)"])
    for one in found:
        times = (time_text(value * 1e3) for value in one.milliseconds.values())
        table.add_row(one.target, *times, f"{one.macs_per_second / 1e9:.1f}", latency_text(one.predicted))
    out.print(table)
    first = found[0]
    ran, threads = counted(first.runs, "run"), counted(first.threads, "thread")
    print_wrapped(out, f"{ran} on this machine; kernels: {first.kernels}; {threads}", style="dim")


def counted(count: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "program"), counted(2, "program")
    ('1 program', '2 programs')
    """
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
