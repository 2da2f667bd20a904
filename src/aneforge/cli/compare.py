"""`aneforge compare`: one model on several sides; first the outputs, then the worst operations."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.display import number_of
from aneforge.errors import GraphError
from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from rich.console import Console

    from aneforge.commands.comparing import Comparison, Tolerance
    from aneforge.commands.output_errors import OutputError

__all__ = ["compare"]

SHOWN_HAZARDS = 5
SHOWN_OUTPUTS = 8


def compare(
    model: given.Model,
    target: given.Targets = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What every target is compared with: a target, reference (the mathematics in float64) or "
            "onnxruntime. [default: the first of several targets, else reference]",
            show_default=False,
        ),
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Compare every target with these outputs, by name, such as those of your own framework.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    inputs: given.Inputs = None,
    seed: given.Seed = None,
    atol: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Fail where an output is off by more than atol + rtol·|wanted|.", show_default=False
        ),
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(min=0.0, help="The relative part of that tolerance.", show_default=False)
    ] = None,
    mark: Annotated[
        str | None, typer.Option(metavar="all", help="all keeps every intermediate value.", show_default=False)
    ] = None,
    shape: given.Shapes = None,
    most: Annotated[int, typer.Option(min=0, help="Number of operations to print, worst first.")] = 20,
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """Compare a model on any number of targets, or with the mathematics, onnxruntime or your own outputs.

    Several targets are compared with the first one; one target with the mathematics in float64, of the model as its
    file has it: differences are the chip's arithmetic and the rounding of weights and inputs to fp16 together.

    Exit code: with --atol or --rtol, 1 where an element of an output is outside the tolerance. Without, 1 where two
    targets have different bits; other comparisons are only shown.

    Examples:
    aneforge compare model.onnx -t {old} -t {new} --seed 0

    aneforge compare model.onnx -t {old},{pro},{new} --inputs x.npz --expect golden.npz --atol 0.01

    aneforge compare model.onnx -t {old} --against onnxruntime --seed 0 --rtol 0.01

    aneforge compare model.onnx -t {old} --inputs x.npz --mark all
    """
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.comparing import Tolerance, compare_targets  # noqa: PLC0415 - as above
    from aneforge.commands.model_and_targets import parts_of  # noqa: PLC0415 - as above

    names = [part for text in target or () for part in parts_of(text)]
    if not names:
        raise GraphError("no target is named", remedy="-t {old} -t {new}, or only -t {old}".format(**EXAMPLES))
    if mark not in (None, "all"):
        raise GraphError("--mark takes one word", seen=mark, limit="all")
    if expect is not None and against is not None:
        raise GraphError(
            "--expect and --against cannot be used together", seen="--expect and --against", remedy="give one of them"
        )
    given.refuse_json(json, model, force=force)
    values = given.read_arrays(inputs) if inputs is not None else None
    expected = given.read_arrays(expect) if expect is not None else None
    tolerance = Tolerance(atol or 0.0, rtol or 0.0) if atol is not None or rtol is not None else None
    shapes = given.parse_shapes(shape)
    with progress("comparing"):
        found = compare_targets(
            model,
            names,
            against,
            values,
            expected=expected,
            seed=seed,
            mark=mark is not None,
            shapes=shapes,
            tolerance=tolerance,
        )
    passes = all(one.passes for one in found)
    if not given.write_json(json, "compare", found, ok=passes):
        show_comparisons(found, most)
    raise typer.Exit(0 if passes else 1)


def show_comparisons(found: tuple[Comparison, ...], most: int) -> None:
    """Print comparisons: the outputs of all, then the operations of each."""
    from aneforge.cli.terminal import console  # noqa: PLC0415 - loaded when it is needed

    out = console()
    for one in found:
        show_outputs(out, one)
    for one in found:
        show_operations(out, one, most)


def show_outputs(out: Console, found: Comparison) -> None:
    """Print how far the outputs are apart, the worst first."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed

    for error in found.errors[:SHOWN_OUTPUTS]:
        style = "green" if not error.differing else ("red" if error.outside and not found.passes else "yellow")
        print_wrapped(out, output_text(found, error), style=style)
    if len(found.errors) > SHOWN_OUTPUTS:
        print_wrapped(
            out, f"and {number_of(len(found.errors) - SHOWN_OUTPUTS, 'output')} more with smaller differences"
        )


def output_text(found: Comparison, error: OutputError) -> str:
    """Return how far one output is off, as one line."""
    head = f"output {error.name}: {' against '.join(found.labels)}"
    if not error.differing:
        return f"{head}: the same bits in all {error.elements} elements"
    return f"{head}: {verdict_text(error, found.tolerance)}: {', '.join(distances(error))}"


def verdict_text(error: OutputError, tolerance: Tolerance | None) -> str:
    """Return in how many elements an output differs, and whether the tolerance covers that."""
    if tolerance is None:
        return f"{error.differing} of {error.elements} elements differ"
    limits = f"(atol {tolerance.atol:g}, rtol {tolerance.rtol:g})"
    if not error.outside:
        return f"within the tolerance {limits}"
    return f"{error.outside} of {error.elements} elements outside the tolerance {limits}"


def distances(error: OutputError) -> list[str]:
    """Return the errors of an output in words."""
    found = ["finite on one side only" if error.largest is None else f"largest error {error.largest:.3g}"]
    found += [f"relative {error.relative:.2g}"] if error.relative is not None else []
    found += [f"SNR {error.snr:.1f} dB"] if error.snr is not None else []
    if error.argmax is not None:
        found.append("same argmax" if error.argmax == 1 else f"argmax agrees in {error.argmax:.1%} of rows")
    found += ["not finite: {} and {}".format(*error.not_finite)] if any(error.not_finite) else []
    return found


def show_operations(out: Console, found: Comparison, most: int) -> None:
    """Print what was compared and the operations that are the furthest apart."""
    from rich.text import Text  # noqa: PLC0415 - loaded when it is needed

    from aneforge.cli.terminal import plain_table, print_wrapped  # noqa: PLC0415 - loaded when it is needed

    out.print()
    values = number_of(len(found.nodes), "value")
    print_wrapped(out, f"{found.model}: {' against '.join(found.labels)}, {values} compared")
    if found.hidden and not found.marked:
        print_wrapped(
            out, f"{number_of(found.hidden, 'operation')} hidden by fusion; --mark all shows them", style="dim"
        )
    if found.marked:
        print_wrapped(
            out, "every operation is an output here, so these programs differ from those that would run", style="dim"
        )
    print_wrapped(
        out, f"exactness: {found.labels[0]} {found.exactness[0]}, {found.labels[1]} {found.exactness[1]}", style="dim"
    )
    if found.reference:
        print_wrapped(out, f"{found.second}: {found.reference}", style="dim")
    for hazard in found.hazards[:SHOWN_HAZARDS]:
        print_wrapped(out, f"finite values become infinite on {hazard}", style="dim")
    if len(found.hazards) > SHOWN_HAZARDS:
        out.print(f"and in {number_of(len(found.hazards) - SHOWN_HAZARDS, 'more operation')}", style="dim")
    first = found.first_difference
    if first is None:
        out.print("[green]the same bits everywhere[/]")
        return
    place = f"first difference: {first.op} {first.name!r}, {first.differing} of {first.elements} elements"
    print_wrapped(out, place)
    worst = found.worst
    table = plain_table(["#", "worst first", "op", "differ", "of", "largest", "relative"], ["#", "differ", "of"])
    for one in worst[:most]:
        output = "*" if one.node in found.outputs else ""
        largest = "not finite" if one.largest is None else f"{one.largest:.3g}"
        relative = "" if one.relative is None else f"{one.relative:.2g}"
        table.add_row(
            f"{one.node}{output}", Text(one.name), one.op, str(one.differing), str(one.elements), largest, relative
        )
    out.print(table)
    if len(worst) > most:
        out.print(f"and {len(worst) - most} with smaller differences (--most {len(worst)} prints all)")
    out.print("* an output of the model", style="dim")
