"""`aneforge evaluate`: models over a data set, on every chip."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.display import number_of
from aneforge.errors import GraphError, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from aneforge.commands.evaluating import Evaluation
    from aneforge.evaluation.summary import Flip

__all__ = ["evaluate"]

SHOWN_FLIPS, SHOWN_BAD = 10, 5
ELSEWHERE = "write to another path"


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
            help="Labels (numbers of classes): one column in the order of the samples, or names of samples "
            "and numbers.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    target: given.Targets = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="A Python function of a sample's outputs (by name) and label; its mean is reported.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="NAME", help="The output that answers are read from.", show_default=False)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples per run (the batch), if the model leaves it open.", show_default=False)
    ] = None,
    shape: given.Shapes = None,
    reference: Annotated[
        bool, typer.Option("--reference/--chips-only", help="Also compare with float32; slower.")
    ] = True,
    shard: Annotated[int, typer.Option(help="Samples per shard; the results of a shard are written together.")] = 256,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the results of every shard here. [default: the cache, until the run is complete]",
            show_default=False,
            readable=False,
        ),
    ] = None,
    fail_on_bad_sample: Annotated[
        bool, typer.Option("--fail-on-bad-sample", help="Stop at the first sample that cannot be used.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="Device that runs the programs: cpu or cuda.")] = "cpu",
    scheduler: given.Scheduler = None,
    workers: given.Workers = None,
    resize: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTHS",
            help="Images: resize to this shorter side, or this height and width: 256 or 224,224.",
            show_default=False,
        ),
    ] = None,
    crop: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTHS", help="Images: then crop the centre to this size: 224 or 224,224.", show_default=False
        ),
    ] = None,
    scale: Annotated[float, typer.Option(help="Images: divide the pixel values by this.")] = 255.0,
    mean: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Images: then subtract this from each channel.", show_default=False),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Images: then divide each channel by this.", show_default=False),
    ] = None,
    explain: Annotated[int, typer.Option(min=0, help="Number of worst samples whose first difference is located.")] = 3,
    json: given.Json = None,
    force: given.Force = False,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the results of every sample on every chip.", show_default=False, readable=False
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a page with the samples that flip.", show_default=False, readable=False
        ),
    ] = None,
) -> None:
    """Run models over a data set on every chip: accuracy, agreement, errors, and the samples that flip.

    Chips are compared with the model as its file has it (in float64, rounded to float32) and with one another. An
    interrupted run goes on where it stopped when the same command is given again, and ends with the same bytes.

    Examples:
    aneforge evaluate model.onnx --data test.npz -t {old},{new}

    aneforge evaluate model.onnx --data images/ --labels labels.csv --resize 256 --crop 224 -t {old} --html report.html

    aneforge evaluate zoo/*.onnx --data test.npz -t {old},{new} --scheduler tcp://head:8786 --json report.json
    """
    from aneforge.cli.waiting import bar  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.evaluating import evaluate as evaluated  # noqa: PLC0415 - as above
    from aneforge.commands.evaluation_page import MOST_SHOWN, evaluations_html  # noqa: PLC0415 - as above
    from aneforge.commands.outputs import save  # noqa: PLC0415 - as above
    from aneforge.evaluation.images import ImageOptions  # noqa: PLC0415 - as above

    refuse_outputs({"--json": json, "--parquet": parquet, "--html": html}, models, [data, labels], force=force)
    if parquet is not None and len(models) > 1:
        raise GraphError("a Parquet file has the results of one model", seen=f"{len(models)} models", limit=1)
    images = ImageOptions(lengths(resize), lengths(crop), scale, numbers("--mean", mean), numbers("--std", std))

    def evaluate_one(model: Path) -> Evaluation:
        with bar(f"evaluating {model.name}", "samples") as progress:
            return evaluated(
                model,
                data,
                given.parse_targets(target),
                labels=labels,
                metric=metric,
                device=device,
                batch=batch,
                shapes=given.parse_shapes(shape),
                output=output,
                images=images,
                scheduler=scheduler,
                workers=workers,
                parquet=parquet,
                pictures=MOST_SHOWN if html is not None else 0,
                reference=reference,
                explain=explain,
                shard=shard,
                folder=folder_of(out, models, model),
                fail_on_bad_sample=fail_on_bad_sample,
                progress=progress,
            )

    found, code = evaluate_each(models, evaluate_one)
    if not found:
        raise typer.Exit(code)
    ok = all(one.ok for one in found) and not code
    if html is not None:
        save(html, evaluations_html(found))
    if not given.write_json(json, "evaluate", [one.repeatable() for one in found], ok=ok):
        show_evaluations(found)
    raise typer.Exit(0 if ok else code or 1)


def evaluate_each(models: Sequence[Path], evaluate_one: Callable[[Path], Evaluation]) -> tuple[list[Evaluation], int]:
    """Return the evaluations of models, and the exit code of errors; of several models the others go on.

    What stops every run, such as a full disk, stops here too: the evaluations before it are returned.

    Raises:
        AneforgeError: There is one model alone, and it cannot be evaluated.
    """
    from aneforge.cli.error_messages import report_error  # noqa: PLC0415 - loaded when it is needed
    from aneforge.evaluation.running import StoppedError  # noqa: PLC0415 - as above

    found: list[Evaluation] = []
    code = 0
    for model in models:
        try:
            found.append(evaluate_one(model))
        except Exception as error:
            if len(models) == 1:
                raise
            code = max(code, report_error(error, model))
            if isinstance(error, StoppedError):
                break
    return found, code


def refuse_outputs(
    outputs: Mapping[str, Path | None], models: Sequence[Path], sources: Sequence[Path | None], *, force: bool
) -> None:
    """Refuse files that cannot be written, that are read, or of which one would overwrite another.

    Raises:
        GraphError: One is such a file.
    """
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - loaded when it is needed

    files = {option: file for option, file in outputs.items() if file is not None and str(file) != given.STDOUT}
    read = {source.resolve() for source in sources if source is not None}
    options: dict[Path, str] = {}
    for option, file in files.items():
        if file.resolve() in read:
            raise GraphError(
                "the data itself would be overwritten", location=Location(str(file)), seen=option, remedy=ELSEWHERE
            )
        first = options.setdefault(file.resolve(), option)
        if first != option:
            seen = f"{first} and {option}"
            raise GraphError(
                "two results would be written to the same file",
                location=Location(str(file)),
                seen=seen,
                remedy=ELSEWHERE,
            )
        for model in models:
            refuse_output(file, model, force=force)


def numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Return numbers that are separated by commas.

    >>> numbers("--mean", "0.5,0.25")
    (0.5, 0.25)

    Raises:
        GraphError: They are not numbers.
    """
    try:
        return tuple(float(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        raise GraphError(
            f"{option} takes numbers, separated by commas", seen=text, remedy=f"{option} 0.5,0.5,0.5"
        ) from None


def lengths(text: str | None) -> tuple[int, ...]:
    """Return one or two lengths.

    >>> lengths("224"), lengths("224,320")
    ((224,), (224, 320))

    Raises:
        GraphError: They are not lengths.
    """
    parts = [part.strip() for part in text.split(",")] if text is not None else []
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise GraphError("the size of images is one length, or height and width", seen=text, remedy="224 or 224,320")
    return tuple(int(part) for part in parts)


def folder_of(out: Path | None, models: Sequence[Path], model: Path) -> Path | None:
    """Return the folder of one model's results: that of several models has one for each.

    Raises:
        GraphError: Two models have one name.
    """
    if out is None or len(models) == 1:
        return out
    if [one.name for one in models].count(model.name) > 1:
        raise GraphError(
            "two models have the same name and would be written to the same folder",
            seen=model.name,
            remedy="leave --out out",
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
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.evaluation_page import rate_text  # noqa: PLC0415 - as above

    summary = found.summary
    rate = found.timing.rate if found.timing is not None else None
    speed = "" if rate is None else f", {rate_text(rate)} samples/s on {number_of(len(summary.chips), 'chip')}"
    print_wrapped(out, f"{found.model} on {found.data}: {number_of(summary.samples, 'sample')}{speed}")
    if summary.bad:
        print_wrapped(out, f"{number_of(len(summary.bad), 'bad sample')}, left out:", style="yellow")
        for bad in summary.bad[:SHOWN_BAD]:
            print_wrapped(out, f"  {bad.name}: {bad.reason}", style="yellow")
        if len(summary.bad) > SHOWN_BAD:
            print_wrapped(out, f"  and {len(summary.bad) - SHOWN_BAD} more (--json has all)", style="yellow")
    for failed in found.failed:
        print_wrapped(out, f"samples {failed.first} to {failed.last} were not run: {failed.reason}", style="red")
    out.print()
    show_chips(out, found)
    show_rates(out, found)
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
    from aneforge.commands.evaluation_page import number_text, percent  # noqa: PLC0415 - loaded when it is needed

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
                f"{chip.label}: {number_of(chip.not_finite, 'sample')} with values that are not finite", style="red"
            )


def show_rates(out: Console, found: Evaluation) -> None:
    """Print how many samples a second the chips themselves are predicted to run."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.evaluation_page import rate_text  # noqa: PLC0415 - as above

    rates = [
        f"{one.chip} {rate_text(one.expected)} ({rate_text(one.low)} to {rate_text(one.high)})" for one in found.rates
    ]
    if rates:
        print_wrapped(out, f"predicted samples/s of the chip itself: {', '.join(rates)}")


def show_pairs(out: Console, found: Evaluation) -> None:
    """Print how far chips agree, those that agree least first."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.evaluation_page import percent  # noqa: PLC0415 - loaded when it is needed

    pairs = sorted(found.summary.pairs, key=lambda one: (one.agreement or 0.0, one.same_bits))
    if pairs and all(one.same_bits == 1 for one in pairs):
        print_wrapped(
            out, f"the same bits on {number_of(len(found.summary.chips), 'chip')} in every sample", style="green"
        )
        return
    for one in pairs[:3]:
        agreed = "" if one.agreement is None else f"the same answer to {percent(one.agreement)} of the samples, "
        print_wrapped(out, f"{one.first} and {one.second}: {agreed}the same bits in {percent(one.same_bits)}")


def show_flips(out: Console, found: Evaluation) -> None:
    """Print the samples to which not every side gives the same answer."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    flips = found.summary.flips
    if not flips:
        return
    print_wrapped(out, f"{number_of(len(flips), 'sample')} with different answers:")
    for flip in flips[:SHOWN_FLIPS]:
        print_wrapped(out, f"  {flip_text(flip)}")
    if len(flips) > SHOWN_FLIPS:
        print_wrapped(out, f"  and {len(flips) - SHOWN_FLIPS} more (--json has all)")


def flip_text(flip: Flip) -> str:
    """Return a sample that flips as one line: each answer with those who give it, and the smallest margin."""
    sides: dict[int | None, list[str]] = {}
    for answer in flip.answers:
        sides.setdefault(answer.top, []).append(answer.side)
    answers = "; ".join(f"{'NaN' if top is None else top} ({', '.join(names)})" for top, names in sides.items())
    label = "" if flip.label is None else f", label {flip.label}"
    margins = [answer.margin for answer in flip.answers if answer.margin is not None]
    margin = f", smallest margin {min(margins):.3g}" if margins else ""
    return f"{flip.name}: {answers}{label}{margin}"
