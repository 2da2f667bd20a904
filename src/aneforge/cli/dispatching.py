"""`aneforge dispatch-library` and `trace show`: the library by which other programs use our engine."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import Annotated

import typer

__all__ = ["dispatch_library", "trace_show"]


def dispatch_library() -> None:
    """Print the path of the dispatch library, and record this interpreter as the one that serves it.

    The library has the C ABI by which clients reach the Neural Engine, and answers from the software engine.

    Examples:
    ANEFORGE_DYLIB=$(aneforge dispatch-library) python their_program.py
    """
    from aneforge.runtime.dispatch.library import library_path, record_interpreter  # noqa: PLC0415 - loaded when needed

    path = library_path()
    obstacle = record_interpreter()
    if obstacle is not None:
        sys.stderr.write(f"aneforge: {obstacle}\n")
    sys.stdout.write(f"{path}\n")


def trace_show(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, readable=False)],
    most: Annotated[int, typer.Option(min=0, help="Number of programs to print.")] = 20,
) -> None:
    """Sum up a record of the dispatch library's calls, which ANEFORGE_TRACE made.

    The file itself opens in the trace viewers of browsers.

    Examples:
    ANEFORGE_TRACE=calls.json python their_program.py; aneforge trace show calls.json
    """
    from aneforge.cli.terminal import console, plain_table  # noqa: PLC0415 - loaded when it is needed
    from aneforge.runtime.dispatch.traces import call_times, program_calls, read_trace  # noqa: PLC0415 - as above

    calls = read_trace(file)
    out = console()
    functions = plain_table(["function", "calls", "failed", "median µs", "longest µs", "total ms"])
    for one in call_times(calls):
        numbers = (f"{one.median:.1f}", f"{one.longest:.1f}", f"{one.total / 1000:.1f}")
        functions.add_row(one.function, str(one.count), str(one.failed), *numbers)
    out.print(functions)
    found = program_calls(calls)
    programs = plain_table(["program", "target", "layers", "inputs", "outputs", "exact", "runs", "median µs"])
    for one in found[:most]:
        about, median = one.about, f"{one.median:.1f}" if one.executions else "-"
        ports = (", ".join(about.inputs.values()), ", ".join(about.outputs.values()))
        programs.add_row(
            show_path(one.path), about.target, str(about.layers), *ports, about.exactness, str(one.executions), median
        )
    out.print()
    out.print(programs)
    if len(found) > most:
        out.print(f"… and {len(found) - most} more; --most N prints them")


def show_path(path: str) -> str:
    """Return the end of a path that distinguishes programs: the folder is named by their content.

    >>> show_path("/tmp/ab12/model.mil")
    'ab12/model.mil'
    """
    return "/".join(path.rsplit("/", 2)[-2:])
