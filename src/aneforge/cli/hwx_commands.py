"""`aneforge hwx show`, `dis`, `run`, `lint` and `diff`: compiled containers, as an engine loads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.display import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from aneforge.formats.hwx.container import Container

__all__ = ["diff", "dis", "lint", "run", "show"]

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A compiled container (.hwx, .ane).", show_default=False, readable=False)
]
NAMED = 0xF
"""Type of a symbol that is not a debugging text."""
ACCESS = ((1, "read"), (2, "write"), (4, "run"))


def show(file: File) -> None:
    """Show a compiled container: segments, ports, constants, symbols, and what each task computes.

    Examples:
    aneforge hwx show model.hwx
    """
    from aneforge.cli.terminal import console  # noqa: PLC0415 - loaded when it is needed
    from aneforge.formats.hwx.ane_file import name_file, read_program  # noqa: PLC0415 - as above

    container = read_program(file)
    out = console()
    show_head(out, file, container)
    show_segments(out, container)
    show_ports(out, container)
    show_constants(out, container)
    show_symbols(out, container)
    with name_file(file):
        show_tasks(out, container)


def show_head(out: Console, file: Path, container: Container) -> None:
    """Print what a container is."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    program = container.program
    print_wrapped(out, f"{printable(str(file))}: {container.size} bytes", style="bold")
    print_wrapped(
        out,
        f"engine: subtype {container.header.cpu_subtype} ({', '.join(container.targets)}), "
        f"task descriptors of generation {container.generation}",
    )
    lines = [printable(line) for line in container.identification.splitlines()[:2]]
    print_wrapped(out, f"compiler: {', '.join(lines) or 'not named'}")
    tasks = number_of(program.task_count, "task")
    events = f"{program.log_events} log events, {program.debug_events} debug events"
    print_wrapped(out, f"program: {printable(program.name)!r}, {tasks}, {events}")
    unnamed = sum(len(command.unnamed) for command in container.commands)
    if unnamed or container.strays:
        print_wrapped(
            out,
            f"not understood: {unnamed} words of commands, {len(container.strays)} ranges of bytes; "
            "aneforge hwx lint names them",
            style="yellow",
        )


def show_segments(out: Console, container: Container) -> None:
    """Print segments and their sections."""
    rows = [
        (
            segment.name if section is None else f"  {section.name}",
            f"{(segment if section is None else section).address:#x}",
            f"{(segment if section is None else section).size:#x}",
            f"{(segment if section is None else section).file_offset:#x}" if segment.file_size else "",
            access_text(segment.protection[0]) if section is None else relocation_text(len(section.relocations)),
        )
        for segment in container.segments
        for section in (None, *segment.sections)
    ]
    show_table(
        out, "segments", ("name", "address", "bytes", "in file", "access"), rows, ("address", "bytes", "in file")
    )


def show_ports(out: Console, container: Container) -> None:
    """Print what the program reads and writes."""
    rows = [
        (
            port.name,
            port.direction.name.lower(),
            port.element_name,
            "×".join(map(str, port.shape)),
            ", ".join(map(str, port.strides)),
            f"{port.address:#x}",
            "" if port.base is None else str(port.base),
        )
        for port in container.ports
    ]
    headings = ("name", "port", "type", "shape", "strides", "address", "base")
    show_table(out, "ports", headings, rows, ("address", "base"))


def show_constants(out: Console, container: Container) -> None:
    """Print the sections of constants with their hashes."""
    import hashlib  # noqa: PLC0415 - loaded when it is needed

    rows = [
        (path, str(section.size), hashlib.sha256(section.content or b"").hexdigest()[:16])
        for path, section in container.constants.items()
    ]
    show_table(out, "constants", ("section", "bytes", "SHA-256 (first 16 digits)"), rows, ("bytes",))


def show_symbols(out: Console, container: Container) -> None:
    """Print named symbols, and how many debugging texts there are."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    named = [one for one in container.symbols if one.type == NAMED]
    show_table(out, "symbols", ("address", "name"), [(f"{one.value:#x}", one.name) for one in named], ("address",))
    print_wrapped(out, f"and {len(container.symbols) - len(named)} debugging texts", style="dim")


def show_tasks(out: Console, container: Container) -> None:
    """Print the tasks with what each computes."""
    from aneforge.formats.hwx.descriptors.disassembly import meaning_line  # noqa: PLC0415 - loaded when it is needed
    from aneforge.formats.hwx.layer_notes import layers_noted  # noqa: PLC0415 - as above
    from aneforge.formats.hwx.program_tasks import tasks_of  # noqa: PLC0415 - as above

    layers = layers_noted(container.identification)
    rows = [
        (str(number), f"{task.offset:#x}", str(task.size), str(layers.get(number, "")), meaning_line(task))
        for number, task in enumerate(tasks_of(container))
    ]
    headings = ["task", "at", "words", "layer", "computes"]
    if not layers:  # another compiler made it
        headings.remove("layer")
        rows = [(*row[:3], row[4]) for row in rows]
    show_table(out, "tasks", headings, rows, ("task", "at", "words"))


def show_table(
    out: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str]
) -> None:
    """Print a table under its title; whatever a file has for a name is printed as text."""
    from rich.text import Text  # noqa: PLC0415 - loaded when it is needed

    from aneforge.cli.terminal import plain_table  # noqa: PLC0415 - as above

    table = plain_table(headings, numbers)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    out.print(f"\n[bold]{title}[/]")
    out.print(table)


def access_text(protection: int) -> str:
    """Return what may be done with a segment.

    >>> access_text(5), access_text(0)
    ('read, run', 'none')
    """
    return ", ".join(word for bit, word in ACCESS if protection & bit) or "none"


def relocation_text(count: int) -> str:
    """Return a number of relocations; nothing for none.

    >>> relocation_text(2), relocation_text(0)
    ('2 relocations', '')
    """
    return number_of(count, "relocation") if count else ""


def printable(text: str) -> str:
    r"""Return a text of a file as a terminal can show it.

    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)


def dis(
    file: File,
    only: Annotated[
        int | None, typer.Option("--td", metavar="N", min=0, help="Show one task, counted from 0.", show_default=False)
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Show offsets, record headers and fields that are 0.")] = False,
) -> None:
    """Disassemble a compiled container: what each task computes, and every register by name and field.

    Bits that no source names are marked as unknown, fields that are inferred have a question mark.

    Examples:
    aneforge hwx dis model.hwx
    aneforge hwx dis model.hwx --td 3 --raw
    """
    from aneforge.formats.hwx.ane_file import name_file, read_program  # noqa: PLC0415 - loaded when it is needed
    from aneforge.formats.hwx.descriptors.disassembly import disassemble  # noqa: PLC0415 - as above
    from aneforge.formats.hwx.program_tasks import tasks_of  # noqa: PLC0415 - as above

    with name_file(file):
        text = disassemble(tasks_of(read_program(file)), only=only, raw=raw)
    typer.echo(text)


def run(
    file: File,
    inputs: given.Inputs = None,
    output: given.Outputs = None,
    seed: given.Seed = None,
    force: given.Force = False,
    verbose: given.Verbose = False,
) -> None:
    """Run a compiled container: its own tasks on its own addresses, with the arithmetic of the exact engine.

    Examples:
    aneforge hwx run model.hwx --inputs x.npz -o y.npz
    """
    from aneforge.cli.programs import save_arrays, statistics  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.showing import cut_text  # noqa: PLC0415 - as above
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - as above
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.hwx_running import run_container  # noqa: PLC0415 - as above
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - as above

    values = given.read_arrays(inputs) if inputs is not None else None
    if output is not None:
        refuse_output(output, file, force=force)
    with progress("running the container"):
        ran = run_container(file, values, seed)
    out, label = console(), ran.label
    print_wrapped(out, f"{ran.target}, {number_of(len(ran.labels), 'task')}: {label.exactness}")
    print_wrapped(out, f"why {label.exactness}: {label.reason if verbose else cut_text(label.reason)}", indent=2)
    for name, array in ran.outputs.items():
        print_wrapped(out, printable(f"{name} {list(array.shape)} {array.dtype}: {statistics(array)}"), indent=2)
    if output is not None:
        save_arrays(output, ran.outputs)
        print_wrapped(out, f"wrote {output}")


def lint(file: File) -> None:
    """Check a compiled container as a loader would, and its tasks; the exit code is 1 where something is rejected.

    Examples:
    aneforge hwx lint model.hwx
    """
    from aneforge.cli.reference import finding_text  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import STYLES, console, print_wrapped  # noqa: PLC0415 - as above
    from aneforge.commands.hwx_files import lint as findings_in  # noqa: PLC0415 - as above
    from aneforge.rules.rule import Severity  # noqa: PLC0415 - as above

    found = findings_in(file)
    out = console()
    for one in found:
        print_wrapped(out, printable(finding_text(one)), word=(one.severity, STYLES.get(one.severity, "")))
        if one.remedy:
            print_wrapped(out, f"remedy: {one.remedy}", indent=2)
        print_wrapped(out, f"evidence: {one.evidence_text}", indent=2, style="dim")
    rejected = sum(one.severity is Severity.REJECT for one in found)
    counted = f"{number_of(len(found), 'finding')}, {rejected} of them rejected"
    print_wrapped(out, counted if found else "nothing found")
    raise typer.Exit(1 if rejected else 0)


def diff(
    first: Annotated[Path, typer.Argument(metavar="A.hwx", show_default=False, readable=False)],
    second: Annotated[Path, typer.Argument(metavar="B.hwx", show_default=False, readable=False)],
    most: Annotated[int, typer.Option(min=0, help="Number of differences to print.")] = 100,
) -> None:
    """Show where two compiled containers differ, by field and register; the exit code is 1 where they do.

    Examples:
    aneforge hwx diff a.hwx b.hwx
    """
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.hwx_files import diff as differences  # noqa: PLC0415 - as above

    found = differences(first, second)
    out = console()
    for one in found[:most]:
        values = " → ".join("none" if value is None else value for value in (one.first, one.second))
        print_wrapped(out, printable(f"{one.place}: {values}"))
        if one.detail:
            print_wrapped(out, one.detail, indent=2)
    if len(found) > most:
        print_wrapped(out, f"and {len(found) - most} more (--most {len(found)} prints all)")
    if not found:
        print_wrapped(out, "nothing differs")
    raise typer.Exit(1 if found else 0)
