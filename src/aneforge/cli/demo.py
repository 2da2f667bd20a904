"""`aneforge demo`: one story on one screen, or the check of an embedded model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given

if TYPE_CHECKING:
    from rich.console import Console

    from aneforge.commands.demonstration import Story
    from aneforge.report.model import Report, TargetReport

__all__ = ["demo"]


def demo(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Check one of the embedded models instead: resnet18, transformer, unet or keyword-spotter.",
            show_default=False,
        ),
    ] = None,
    target: given.Targets = None,
    html: Annotated[
        Path, typer.Option("--html", metavar="FILE", help="Where to write the page.", readable=False)
    ] = Path("demo.html"),
    force: given.Force = False,
    most: Annotated[int, typer.Option(min=0, help="Number of findings to print for an embedded model.")] = 3,
    verbose: given.Verbose = False,
) -> None:
    """Show the main job: one network on three chips, why it fails on one, and what only exact bits show.

    With a name it checks an embedded model, real shapes with drawn weights. Some of them fall off older chips on
    purpose, so the exit code is still 0.

    Examples:
    aneforge demo

    aneforge demo resnet18 -t {old},{pro}
    """
    if name is not None or target:
        show_model(name or "resnet18", target, most=most, verbose=verbose)
        return
    from aneforge.cli.terminal import console  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.demonstration import tell_story  # noqa: PLC0415 - as above

    with progress() as tell:
        story = tell_story(progress=tell)
        written = write_page(story.report, html, force=force)
    show_story(console(), story, written)


def show_model(name: str, target: list[str] | None, *, most: int, verbose: bool) -> None:
    """Print the check of an embedded model."""
    from aneforge.cli.screen import show_report  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.demonstration import demonstrated  # noqa: PLC0415 - as above
    from aneforge.report.gate import outcome  # noqa: PLC0415 - as above

    with progress() as tell:
        (report,) = demonstrated(name, given.parse_targets(target), progress=tell)
    show_report(report, outcome(report), most=most, verbose=verbose, command="demo")


def write_page(report: Report, path: Path, *, force: bool) -> str:
    """Write the page of a report and return what to say of it; a demonstration goes on without one."""
    from aneforge.commands.outputs import save  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - as above
    from aneforge.errors import AneforgeError  # noqa: PLC0415 - as above
    from aneforge.report.forms import written_form  # noqa: PLC0415 - as above

    try:
        refuse_output(path, force=force)
        save(path, written_form("html", report))
    except (AneforgeError, ImportError, OSError) as error:
        return f"no page was written: {error}"
    return f"wrote {path}: open it in a browser"


def show_story(out: Console, story: Story, written: str) -> None:
    """Print the story: the verdict, one finding with its remedy, the slice, and what to type next."""
    from aneforge.cli.screen import show_finding  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - as above
    from aneforge.report.grouping import fold_results  # noqa: PLC0415 - as above

    print_wrapped(out, f"{story.report.model}: {' · '.join(map(describe, story.shown))}")
    out.print(f"\nwhy not on {story.shown[0].title}, and what to change:")
    show_finding(out, story.report, fold_results(story.report)[0], verbose=False)
    values = ", ".join(f"{one.chip} {one.value:g}" for one in story.slices)
    known = ", ".join(dict.fromkeys(one.exactness for one in story.slices))
    out.print("\nwhat each chip computes, bit for bit, without a Mac:")
    print_wrapped(out, f"the same slice: {values}, both {known}", indent=2)
    print_wrapped(
        out, "(the right half of eight numbers of 5000, far below the largest of fp16)", indent=2, style="dim"
    )
    out.print()
    print_wrapped(out, written)
    print_wrapped(out, "next: aneforge check model.onnx (or .mlpackage, .mlmodel, .mil, .pt2)")


def describe(target: TargetReport) -> str:
    """Return the result of a network on a chip, in a few words."""
    from aneforge.report.model import NO, SPLIT  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.numbers import time_text  # noqa: PLC0415 - as above

    if target.runs == NO:
        return f"{target.title} ✗ {target.findings[0].op if target.findings else 'no program'}"
    time = "" if target.latency is None else f" {time_text(target.latency.microseconds)}"
    splits = f" after {target.counts.oversize} splits" if target.runs == SPLIT else ""
    return f"{target.title} ✓{splits}{time}"
