"""`aneforge evaluate`: models over a data set, on every chip."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.cli.programs import counted
from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from aneforge.commands.evaluating import Evaluation
    from aneforge.evaluation.summary import Flip

__all__ = ["evaluate"]

SHOWN_FLIPS, SHOWN_BAD = 10, 5


def evaluate(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="One model or several.", show_default=False, readable=False)
    ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="The samples: .npy or .npz with arrays by input (and labels), a folder of images, Parquet or Arrow.",
            show_default=False,
            readable=False,
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Numbers of classes: one column in the order of the samples, or names and numbers.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    target: given.Targets = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="A Python function of a sample's outputs by name and its label, whose mean is reported.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="NAME", help="The output that answers are read from.", show_default=False)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples of one run, where the model leaves that open.", show_default=False)
    ] = None,
    shape: given.Shapes = None,
    reference: Annotated[
        bool, typer.Option("--reference/--no-reference", help="Compare with float32 too, which takes its own time.")
    ] = True,
    shard: Annotated[int, typer.Option(help="Samples whose results are written at a time.")] = 256,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the results of every shard here. [default: the cache, until the run is whole]",
            show_default=False,
            readable=False,
        ),
    ] = None,
    fail_on_bad_sample: Annotated[
        bool, typer.Option("--fail-on-bad-sample", help="Stop at a sample that cannot be used.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="What programs run on: cpu.")] = "cpu",
    explain: Annotated[int, typer.Option(min=0, help="The worst samples whose first difference is looked for.")] = 3,
    json: given.Json = None,
) -> None:
    """Run models over a data set on every chip: accuracy, agreement, errors, and the samples that flip.

    Chips are compared with the model as its file has it (in float64, rounded to float32) and with one another. An
    interrupted run goes on where it stopped when the same command is given again, and ends with the same bytes.

    Examples:
    aneforge evaluate model.onnx --data test.npz -t {old},{new}

    aneforge evaluate model.onnx --data test.npz --labels test.csv -t {old} --json report.json
    """
    from aneforge.cli.waiting import bar  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.evaluating import evaluate as evaluated  # noqa: PLC0415 - as above

    given.refuse_json(json, models[0])
    found: list[Evaluation] = []
    for model in models:
        with bar(f"evaluating {model.name}", "samples") as progress:
            found.append(
                evaluated(
                    model,
                    data,
                    given.targets_given(target),
                    labels=labels,
                    metric=metric,
                    device=device,
                    batch=batch,
                    shapes=given.shapes_given(shape),
                    output=output,
                    reference=reference,
                    explain=explain,
                    shard=shard,
                    folder=folder_of(out, models, model),
                    fail_on_bad_sample=fail_on_bad_sample,
                    progress=progress,
                )
            )
    ok = all(one.ok for one in found)
    if not given.write_json(json, "evaluate", [one.repeatable() for one in found], ok=ok):
        show_evaluations(found)
    raise typer.Exit(0 if ok else 1)


def folder_of(out: Path | None, models: Sequence[Path], model: Path) -> Path | None:
    """Return the folder of one model's results: that of several models has one for each.

    Raises:
        GraphError: Two models have one name.
    """
    if out is None or len(models) == 1:
        return out
    if [one.name for one in models].count(model.name) > 1:
        raise GraphError(
            "two models have one name, and would have one folder", seen=model.name, remedy="leave --out out"
        )
    return out / model.name


def show_evaluations(found: Sequence[Evaluation]) -> None:
    """Print evaluations, one after the other."""
    from aneforge.cli.terminal import console  # noqa: PLC0415 - loaded when it is needed

    out = console()
    for number, one in enumerate(found):
        if number:
            out.print()
        show_evaluation(out, one)


def show_evaluation(out: Console, found: Evaluation) -> None:
    """Print one evaluation: what was run, a row for every chip, the samples that flip, and the worst."""
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    summary = found.summary
    rate = found.timing.rate if found.timing is not None else None
    speed = "" if rate is None else f", {rate:.3g} samples/s on {counted(len(summary.chips), 'chip')}"
    print_wrapped(out, f"{found.model} on {found.data}: {counted(summary.samples, 'sample')}{speed}")
    if summary.bad:
        print_wrapped(out, f"{counted(len(summary.bad), 'bad sample')}, left out:", style="yellow")
        for bad in summary.bad[:SHOWN_BAD]:
            print_wrapped(out, f"  {bad.name}: {bad.reason}", style="yellow")
        if len(summary.bad) > SHOWN_BAD:
            print_wrapped(out, f"  and {len(summary.bad) - SHOWN_BAD} more (--json has all)", style="yellow")
    for failed in found.failed:
        print_wrapped(out, f"samples {failed.first} to {failed.last} were not run: {failed.reason}", style="red")
    out.print()
    show_chips(out, found)
    show_pairs(out, found)
    show_flips(out, found)
    for one in found.explained:
        for layer in one.layers:
            place = f"{layer.op} {layer.operation!r}, {layer.differing} of {layer.elements} elements"
            print_wrapped(out, f"sample {one.name}: {layer.chip} against {layer.against} first differs in {place}")
    for note in found.notes:
        print_wrapped(out, note, style="dim")


def show_chips(out: Console, found: Evaluation) -> None:
    """Print a row for every chip."""
    from aneforge.cli.terminal import plain_table  # noqa: PLC0415 - loaded when it is needed

    summary = found.summary
    metric = [found.metric] if found.metric else []
    headings = ["chip", "top-1", "top-5", *metric, "as float32", "error p50", "p99", "largest", "exact"]
    table = plain_table(headings, headings[1:-1])
    if summary.float32 is not None:
        scores = summary.float32
        own = [number_text(scores.metric)] if metric else []
        table.add_row("float32", percent(scores.top1), percent(scores.top5), *own, "", "", "", "", "")
    for chip in summary.chips:
        own = [number_text(chip.scores.metric)] if metric else []
        errors = [number_text(one) for one in (chip.error.p50, chip.error.p99, chip.error.largest)]
        agreement = percent(chip.agreement)
        table.add_row(
            chip.label, percent(chip.scores.top1), percent(chip.scores.top5), *own, agreement, *errors, chip.exactness
        )
    out.print(table)
    for chip in summary.chips:
        if chip.not_finite:
            out.print(
                f"{chip.label}: {counted(chip.not_finite, 'sample')} with values that are not finite", style="red"
            )


def show_pairs(out: Console, found: Evaluation) -> None:
    """Print how far chips agree, those that agree least first."""
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    pairs = sorted(found.summary.pairs, key=lambda one: (one.agreement or 0.0, one.same_bits))
    if pairs and all(one.same_bits == 1 for one in pairs):
        print_wrapped(
            out, f"the same bits on {counted(len(found.summary.chips), 'chip')} in every sample", style="green"
        )
        return
    for one in pairs[:3]:
        agreed = "" if one.agreement is None else f"the same answer to {percent(one.agreement)} of the samples, "
        print_wrapped(out, f"{one.first} and {one.second}: {agreed}the same bits in {percent(one.same_bits)}")


def show_flips(out: Console, found: Evaluation) -> None:
    """Print the samples to which not every side gives the same answer."""
    from aneforge.cli.showing import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    flips = found.summary.flips
    if not flips:
        return
    print_wrapped(out, f"{counted(len(flips), 'sample')} with different answers:")
    for flip in flips[:SHOWN_FLIPS]:
        print_wrapped(out, f"  {flip_text(flip)}")
    if len(flips) > SHOWN_FLIPS:
        print_wrapped(out, f"  and {len(flips) - SHOWN_FLIPS} more (--json has all)")


def flip_text(flip: Flip) -> str:
    """Return a sample that flips as one line: each answer with those who give it, and the smallest margin."""
    sides: dict[int, list[str]] = {}
    for answer in flip.answers:
        sides.setdefault(answer.top, []).append(answer.side)
    answers = "; ".join(f"{top} ({', '.join(names)})" for top, names in sides.items())
    label = "" if flip.label is None else f", label {flip.label}"
    margins = [answer.margin for answer in flip.answers if answer.margin is not None]
    margin = f", smallest margin {min(margins):.3g}" if margins else ""
    return f"{flip.name}: {answers}{label}{margin}"


def percent(share: float | None) -> str:
    """Return a share in per cent; nothing where there is none.

    >>> percent(0.98765), percent(None)
    ('98.77 %', '')
    """
    return "" if share is None else f"{share:.2%}".replace("%", " %")


def number_text(value: float | None) -> str:
    """Return a number in three digits; nothing where there is none."""
    return "" if value is None else f"{value:.3g}"
