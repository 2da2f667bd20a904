"""`aneforge llm plan`: a language model chip by chip, before any weight is read."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from aneforge.llm.planning import ChipPlan, ContextPlan, DecoderPlan, PairPlan
    from aneforge.llm.pricing import RunPrice

__all__ = ["plan"]


def plan(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A folder with config.json, a config.json, or a GGUF file; no weight is read.",
            show_default=False,
            readable=False,
        ),
    ],
    target: given.Targets = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Context lengths (positions of the cache), separated by commas. [default: 512,2048, or all positions "
            "of a model that has fewer]",
            show_default=False,
        ),
    ] = None,
    lengths: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Tokens per step, whose legality is checked.")
    ] = "1,32,64,128,256,512",
    prompt: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Length of the prompt, for the time to the first token. [default: 128, or a context that is shorter]",
            show_default=False,
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="Weights of the layers: fp16, int8, int4 or blockwise.")
    ] = "fp16",
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICE=RATE",
            help="Prompt speed of another device in tokens per second, such as gpu=1200, to compare with. May be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    json: given.Json = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan as an HTML page.", show_default=False, readable=False),
    ] = None,
    force: given.Force = False,
) -> None:
    """Plan a language model on every chip: programs, bytes, legal lengths, time to the first token, tokens per second.

    Only settings are read. Times are predictions with the interval that should hold eight of ten measurements. The
    exit code is 1 where a chip does not run a context that was asked for.

    Examples:
    aneforge llm plan ./model -t {old},{new} --context 512,2048,8192

    aneforge llm plan ./model/config.json -t {new} --prompt 512 --against gpu=900 --html plan.html
    """
    from aneforge.commands.language_plan_page import plan_html  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.model_and_targets import chosen_targets  # noqa: PLC0415 - as above
    from aneforge.commands.outputs import save  # noqa: PLC0415 - as above
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - as above
    from aneforge.llm.planning import plan_decoder  # noqa: PLC0415 - as above

    given.refuse_json(json, model, force=force)
    if html is not None:
        refuse_output(html, model, force=force)
    found = plan_decoder(
        model,
        chosen_targets(given.parse_targets(target)),
        contexts=None if context is None else numbers("--context", context),
        lengths=numbers("--lengths", lengths),
        prompt=prompt,
        encoding=encoding,
        against=rates(against or ()),
    )
    if html is not None:
        save(html, plan_html(found))
    if not given.write_json(json, "llm plan", found, ok=found.ok):
        show_plan(found)
    raise typer.Exit(0 if found.ok else 1)


def numbers(option: str, text: str) -> list[int]:
    """Return positive integers that are separated by commas, each once.

    >>> numbers("--context", "512, 2048")
    [512, 2048]

    Raises:
        GraphError: One is not a positive integer.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise GraphError(f"{option} takes positive integers, separated by commas", seen=text, remedy=f"{option} 64,512")
    return list(dict.fromkeys(int(part) for part in parts))


def rates(texts: Sequence[str]) -> dict[str, float]:
    """Return tokens per second by device.

    >>> rates(["gpu=1200", "cpu=80.5"])
    {'gpu': 1200.0, 'cpu': 80.5}

    Raises:
        GraphError: A text is not of that form.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, equals, rate = text.partition("=")
        try:
            number = float(rate)
        except ValueError:
            number = 0.0
        if not equals or not name.strip() or not 0 < number < float("inf"):
            raise GraphError("--against is not of the form DEVICE=RATE", seen=text, remedy="--against gpu=1200")
        found[name.strip()] = number
    return found


def show_plan(found: DecoderPlan) -> None:
    """Print a plan: a row for every chip and context, where the time goes, what compiles, the encodings."""
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed

    out = console()
    from aneforge.report.numbers import bytes_text  # noqa: PLC0415 - as above

    sizes = dict.fromkeys(bytes_text(chip.weight_bytes) for chip in found.chips)
    print_wrapped(
        out,
        f"{found.source}: {found.architecture}, {found.parameters / 1e6:,.1f} million parameters, {found.layers} "
        f"layers of width {found.width}, {found.vocabulary:,} tokens, {found.positions:,} positions, "
        f"{' or '.join(sizes)} of {found.encoding} weights on the engine",
        style="bold",
    )
    for note in found.notes:
        print_wrapped(out, f"  {note}")
    out.print()
    show_runs(out, found.chips)
    show_parts(out, found.chips)
    show_pairs(out, found.chips)
    show_encodings(out, found.chips)
    for chip in found.chips:
        for note in chip.notes:
            print_wrapped(out, f"{chip.chip}: {note}")


def show_runs(out: Console, chips: Sequence[ChipPlan]) -> None:
    """Print a row for every chip and context."""
    from aneforge.cli.terminal import plain_table, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.headline import in_shop_words  # noqa: PLC0415 - as above
    from aneforge.report.numbers import bytes_text, energy_text  # noqa: PLC0415 - as above

    columns = ["prog", "context", "cache", "first token", "tokens/s", "on chip", "mJ/token"]
    table = plain_table(["chip", *columns], columns)
    for chip in chips:
        for one in chip.contexts:
            decode, prefill = one.decode, one.prefill
            table.add_row(
                chip.chip,
                str(chip.chunks if decode is None else decode.programs),
                str(one.context),
                bytes_text(one.cache_bytes),
                time_of(prefill),
                rate_of(decode),
                "-" if decode is None else bytes_text(max(run.peak for run in (decode, prefill) if run is not None)),
                "-" if decode is None or decode.energy is None else energy_text(decode.energy.millijoules),
            )
    out.print(table)
    for chip in chips:
        for one in chip.contexts:
            for refusal in one.refusals:
                print_wrapped(
                    out,
                    f"{chip.chip}, context {one.context}, {in_shop_words(refusal, chip.target, chip.chip)}",
                    style="red",
                )
        longest = max(one.prompt for one in chip.contexts)
        for one in (one for one in chip.contexts if one.prompt < longest):
            print_wrapped(
                out, f"{chip.chip}, context {one.context}: the prompt has {one.prompt} tokens, as many as fit"
            )
        for text in dict.fromkeys(text for one in chip.contexts for text in comparison_texts(one)):
            print_wrapped(out, f"{chip.chip}, {text}")
    out.print()


def comparison_texts(one: ContextPlan) -> Iterator[str]:
    """Yield whether a prompt pays on the engine, against every device that was given."""
    from aneforge.report.numbers import time_text  # noqa: PLC0415 - loaded when it is needed

    words = {"yes": "pays", "no": "does not pay", "undecided": "is within the error bar"}
    for compared in one.comparisons:
        yield (
            f"prompt of {one.prompt} tokens: {time_of(one.prefill)} here, {time_text(compared.microseconds)} on "
            f"{compared.device}: the engine {words[compared.pays]}"
        )


def time_of(run: RunPrice | None) -> str:
    """Return a time with its interval; a dash where there is none."""
    return "-" if run is None else interval_of(run.microseconds, run.low, run.high)


def interval_of(microseconds: float, low: float, high: float) -> str:
    """Return a time with its interval.

    >>> interval_of(357_000.0, 179_000.0, 715_000.0)
    '357 ms (179-715)'
    """
    from aneforge.report.numbers import interval_text, time_text  # noqa: PLC0415 - loaded when it is needed

    text = time_text(microseconds)
    return f"{text} ({interval_text(low, high, text.rpartition(' ')[2])})"


def rate_of(run: RunPrice | None) -> str:
    """Return tokens per second with their interval; a dash where there are none."""
    if run is None:
        return "-"
    low, high = run.tokens_per_second_low, run.tokens_per_second_high
    return f"{rate_text(run.tokens_per_second)} ({rate_text(low)}-{rate_text(high)})"


def rate_text(rate: float) -> str:
    """Return tokens per second in two digits at least.

    >>> rate_text(5920.3), rate_text(75.2), rate_text(2.66), rate_text(0.123)
    ('5920', '75', '2.7', '0.12')
    """
    return f"{rate:.0f}" if rate >= 9.95 else f"{rate:.1f}" if rate >= 0.995 else f"{rate:.2g}"


def times_of(run: RunPrice | None, step: RunPrice) -> str:
    """Return how many times as long as a step a run takes; a dash where there is none."""
    return "-" if run is None else f"{run.microseconds / step.microseconds:.2f}x"


def show_parts(out: Console, chips: Sequence[ChipPlan]) -> None:
    """Print where the time of a step goes, and how many times as long one takes that verifies guesses."""
    from aneforge.cli.terminal import plain_table  # noqa: PLC0415 - loaded when it is needed
    from aneforge.llm.planning import VERIFIED  # noqa: PLC0415 - as above

    parts = ("weights", "attention", "other", "head", "dispatch", "copies")
    verified = f"{VERIFIED} at once"
    table = plain_table(["time of a token", "context", *parts, verified], ["context", *parts, verified])
    for chip in chips:
        for one in chip.contexts:
            if one.decode is not None:
                split = one.decode.split
                times = (split.weights, split.attention, split.other, split.head, split.dispatch, split.copies)
                shares = [f"{spent / one.decode.microseconds:.0%}" for spent in times]
                table.add_row(chip.chip, str(one.context), *shares, times_of(one.verification, one.decode))
    if table.row_count:
        out.print(table)
        out.print()


def show_pairs(out: Console, chips: Sequence[ChipPlan]) -> None:
    """Print which lengths compile against which contexts, and the rule that breaks the others."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.headline import in_shop_words  # noqa: PLC0415 - as above

    for chip in chips:
        asked = [one for one in chip.pairs if one.verdict != "longer"]
        bad = [one for one in asked if one.verdict == "illegal"]
        print_wrapped(out, f"{chip.chip}: {len(asked) - len(bad)} of {len(asked)} pairs of length and context compile")
        for context, rules in dict.fromkeys((one.context, one.rules) for one in bad):
            same = [one for one in bad if (one.context, one.rules) == (context, rules)]
            why = f"{', '.join(rules)}: {same[0].reason}" if rules else same[0].reason
            why = in_shop_words(why, chip.target, chip.chip)
            print_wrapped(out, f"  {lengths_of(same)} at context {context}: {why}")
    out.print()


def lengths_of(pairs: Sequence[PairPlan]) -> str:
    """Return lengths in words."""
    return f"length{'s' if len(pairs) > 1 else ''} {', '.join(str(one.length) for one in pairs)}"


def show_encodings(out: Console, chips: Sequence[ChipPlan]) -> None:
    """Print the encodings of weights side by side."""
    from aneforge.cli.terminal import plain_table  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.numbers import bytes_text  # noqa: PLC0415 - as above

    columns = ["bytes", "programs", "a token", "error"]
    table = plain_table(["weights", "chip", *columns], columns)
    for chip in chips:
        for one in chip.encodings:
            table.add_row(
                one.encoding,
                chip.chip,
                bytes_text(one.weight_bytes),
                str(one.programs),
                interval_of(one.decode_microseconds, one.decode_low, one.decode_high),
                f"{one.error:.2%}",
            )
    if table.row_count:
        out.print(table)
