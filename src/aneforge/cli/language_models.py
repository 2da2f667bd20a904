"""`aneforge llm run`, `check` and `export`: language models from a checkpoint to tokens."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given
from aneforge.errors import GraphError, Location
from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aneforge.commands.language_models import LanguageCheck
    from aneforge.llm.tokenizer import TextTokenizer

__all__ = ["check", "export", "run"]

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A folder with config.json and safetensors, or a GGUF file.",
        show_default=False,
        readable=False,
    ),
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="A chip, a target or a family: {old}.".format(**EXAMPLES),
        show_default=False,
    ),
]
Prompt = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The prompt: text, or the name of a text file.", show_default=False)
]
Ids = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS", help="The prompt as tokens, separated by commas: 1,15043,29892.", show_default=False
    ),
]
Tokens = Annotated[int, typer.Option(min=1, help="Number of tokens to generate.")]
Context = Annotated[
    int | None, typer.Option(min=1, help="Largest number of tokens, prompt and answer together.", show_default=False)
]
ResidualScale = Annotated[
    float, typer.Option(help="Divide the residual by this power of two, if it would overflow fp16.")
]
ByRanges = Annotated[
    bool,
    typer.Option(
        "--by-ranges",
        help="Choose the scale of the residual and the form of norms from the magnitudes that the prompt reaches.",
    ),
]
DEFAULT_LENGTH = 128
LARGEST_SUM = 32768
"""The edge of the accumulator (`engine.golden`)."""
UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a tokenizer gives for a character of which some bytes are still to come."""


def run(
    model: Folder,
    target: Target,
    prompt: Prompt = None,
    ids: Ids = None,
    tokens: Tokens = 40,
    context: Context = None,
    compress: given.Compress = None,
    residual_scale: ResidualScale = 1.0,
    by_ranges: ByRanges = False,
    stream: Annotated[bool, typer.Option("--stream", help="Print every token as it is generated.")] = False,
    temperature: Annotated[
        float, typer.Option(help="0 takes the most likely token; a higher temperature samples.")
    ] = 0.0,
    top_k: Annotated[int, typer.Option(help="Sample from this many of the most likely tokens; 0 from all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Sample from the most likely tokens that together have this probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling: the same seed gives the same text.")] = 0,
    json: given.Json = None,
) -> None:
    """Continue a prompt on the software engine, bit for bit as a chip's program computes it.

    Examples:
    aneforge llm run ./Qwen3-0.6B -t {new} --prompt "The capital of France is" --stream

    aneforge llm run ./Qwen3-0.6B -t {new} --ids 785,6722 --tokens 8
    """
    from aneforge.llm.architecture import longest_context  # noqa: PLC0415 - loaded when it is needed
    from aneforge.llm.language_model import load  # noqa: PLC0415 - as above
    from aneforge.llm.token_sampling import Sampling  # noqa: PLC0415 - as above

    given.refuse_json(json, model)
    expect_prompt(prompt, ids)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    lm = load(model, target=target, compress=compress, context=context, residual_scale=residual_scale)
    tokenizer = tokenizer_of(model, lm.config.vocabulary) if prompt is not None else None
    start = prompt_tokens(prompt, ids, tokenizer)
    lm = lm.by_ranges(start) if by_ranges else lm
    printed = Printed(tokenizer, live=stream and json is None)
    waiting = watch_stream if printed.live else watch_tokens
    with waiting(lm.label, printed, tokens) as take:
        lm.generate(start, max_new_tokens=tokens, sampling=sampling, on_token=take)
    answer = {
        "model": str(model),
        "target": lm.label,
        "notes": list(lm.notes),
        "forms": str(lm.forms),
        "encodings": None if lm.encoded is None else str(lm.encoded),
        "cautions": list(lm.cautions),
        "prompt": start,
        "tokens": printed.tokens,
        "text": None if tokenizer is None else printed.text,
    }
    if not given.write_json(json, "llm run", answer):
        if not printed.ended:
            typer.echo(printed.rest())
        for note in [*lm.notes, *([str(lm.forms)] if by_ranges else []), *([str(lm.encoded)] if compress else [])]:
            typer.echo(f"note: {note}", err=True)
        if len(printed.tokens) < tokens and len(start) + len(printed.tokens) > lm.context:
            most = longest_context(lm.config)
            remedy = f"--context takes up to {most}" if lm.context < most else "the model has no longer one"
            typer.echo(
                f"note: the context of {lm.context} tokens is full after {len(printed.tokens)} of {tokens}; {remedy}",
                err=True,
            )
        for caution in lm.cautions:
            typer.echo(f"warning: {caution}", err=True)


class Printed:
    """What was generated so far: shown as it comes where that is asked for, a character only once it is whole."""

    def __init__(self, tokenizer: TextTokenizer | None, *, live: bool) -> None:
        self.tokenizer = tokenizer
        self.live = live
        self.tokens: list[int] = []
        self.shown = ""
        self.ended = False
        """Whether all of it was shown."""

    @property
    def text(self) -> str:
        """The text of the tokens; their numbers where there is no tokenizer."""
        if self.tokenizer is None:
            return " ".join(map(str, self.tokens))
        return self.tokenizer.readable(self.tokens)

    def rest(self) -> str:
        """Return what was not shown yet, for the last time."""
        self.ended = True
        return self.text[len(self.shown) :]

    def take(self, token: int) -> None:
        """Take the next token."""
        self.tokens.append(token)
        if self.live and not self.text.endswith(UNFINISHED):
            text = self.text
            typer.echo(text[len(self.shown) :], nl=False)
            self.shown = text


@contextmanager
def watch_tokens(label: str, printed: Printed, count: int) -> Generator[Callable[[int], object]]:
    """Show on a terminal how many tokens there are, while they are generated and not shown."""
    from aneforge.cli.waiting import bar  # noqa: PLC0415 - loaded when it is needed

    with bar(f"decoding on {label}", "tokens") as tell:

        def take(token: int) -> None:
            printed.take(token)
            tell(len(printed.tokens), count)

        yield take


@contextmanager
def watch_stream(label: str, printed: Printed, count: int) -> Generator[Callable[[int], object]]:
    """Show on a terminal that the prompt is read, until the first token is shown, and at last how fast they came.

    A bar next to the text would erase it: both are on the same line.
    """
    from aneforge.cli.waiting import Progress  # noqa: PLC0415 - loaded when it is needed

    reading = Progress(f"reading the prompt on {label}")
    times: list[float] = []

    def take(token: int) -> None:
        reading.end()
        times.append(perf_counter())
        printed.take(token)

    try:
        yield take
    finally:
        reading.end()
    on_terminal = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison] - None where closed
    if len(times) > 1 and on_terminal:
        rate = (len(times) - 1) / (times[-1] - times[0])
        typer.echo(printed.rest())
        typer.echo(f"{len(times)} of at most {count} tokens, {rate:.3g} tokens/s", err=True)


def check(
    model: Folder,
    target: given.Targets = None,
    prompt: Prompt = None,
    ids: Ids = None,
    tokens: Tokens = 32,
    context: Context = None,
    compress: given.Compress = None,
    residual_scale: ResidualScale = 1.0,
    by_ranges: ByRanges = False,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A text whose perplexity is measured.", show_default=False, exists=True, dir_okay=False
        ),
    ] = None,
    json: given.Json = None,
) -> None:
    """Decode greedily on chips: tokens, margins, the first flip against float32 and between chips, and its layer.

    float32 stands for the mathematics of the graph (float64, with weights as fp16 holds them), rounded.

    Examples:
    aneforge llm check ./Qwen3-0.6B -t {old},{new} --prompt prompt.txt --tokens 32

    aneforge llm check ./Qwen3-0.6B -t {new} --ids 785,6722 --compress int8
    """
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.language_models import check_language_model  # noqa: PLC0415 - as above

    given.refuse_json(json, model)
    expect_prompt(prompt, ids)
    tokenizer = tokenizer_of(model, vocabulary_of(model)) if prompt is not None or text is not None else None
    start = prompt_tokens(prompt, ids, tokenizer)
    with progress("loading") as tell:
        found = check_language_model(
            model,
            given.parse_targets(target),
            start,
            tokens=tokens,
            context=context,
            compress=compress,
            residual_scale=residual_scale,
            by_ranges=by_ranges,
            text=None if text is None or tokenizer is None else tokenizer.encode(read_text(text)),
            progress=tell,
        )
    if not given.write_json(json, "llm check", found):
        show_check(found, tokenizer)


def show_check(found: LanguageCheck, tokenizer: TextTokenizer | None) -> None:
    """Print what a check found."""
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed

    out = console()
    head = f"{found.model}: {found.architecture}, {found.parameters:,} parameters, context {found.context}"
    print_wrapped(out, head, style="bold")
    for note in found.notes:
        print_wrapped(out, f"note: {note}")
    for one in found.targets:
        out.print()
        made = " ".join(map(str, one.tokens)) if tokenizer is None else repr(tokenizer.readable(one.tokens))
        print_wrapped(out, f"{one.target}: {made}")
        if one.encodings is not None:
            print_wrapped(out, one.encodings, indent=2)
        for caution in one.cautions:
            print_wrapped(out, f"warning: {caution}", indent=2)
        print_wrapped(out, str(one.against_float32), indent=2)
        if one.against_first is not None:
            print_wrapped(out, str(one.against_first), indent=2)
        if one.perplexity is not None:
            print_wrapped(
                out,
                f"perplexity {one.perplexity:.4g}, in float32 {found.perplexity_float32:.4g} ({found.text:,} tokens, "
                f"{found.window} at a time)",
                indent=2,
            )
    out.print()
    print_wrapped(out, ranges_text(found))
    print_wrapped(out, found.forms)


def ranges_text(found: LanguageCheck) -> str:
    """Return where the residual is largest, and whether it fits fp16."""
    largest = max(range(len(found.magnitudes)), key=found.magnitudes.__getitem__)
    text = f"largest residual {found.magnitudes[largest]:.4g} after layer {largest}"
    if found.first_overflow is not None:
        return f"{text}; it does not fit fp16 from layer {found.first_overflow} on: give --by-ranges"
    if found.magnitudes[largest] / found.residual_scale >= LARGEST_SUM:
        return f"{text}, which fits fp16, but not a sum of products, which is infinite from {LARGEST_SUM:,} on"
    return f"{text}, which fits fp16"


def export(
    model: Folder,
    target: Target,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A name that ends with .mlpackage, or a folder for MIL text.",
            show_default=False,
            readable=False,
        ),
    ],
    context: Context = None,
    length: Annotated[
        list[int] | None,
        typer.Option(metavar="TOKENS", help="Lengths of prefill; may be repeated. [default: 128]", show_default=False),
    ] = None,
    compress: given.Compress = None,
    residual_scale: ResidualScale = 1.0,
    by_ranges: ByRanges = False,
    prompt: Prompt = None,
    ids: Ids = None,
    cache: Annotated[str, typer.Option(metavar="FORM", help="Form of the cache: ports, or Core ML states.")] = "ports",
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """Write prefill and decode as functions of one package, over one file of weights.

    A prompt is only for --by-ranges, which chooses the forms of numbers by it.

    Examples:
    aneforge llm export ./Qwen3-0.6B -t {new} -o qwen.mlpackage --context 512

    aneforge llm export ./Qwen3-0.6B -t {new} -o qwen-mil --length 64 --length 256 --compress int8
    """
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - loaded when it is needed
    from aneforge.llm.language_model import load  # noqa: PLC0415 - as above
    from aneforge.llm.model_export import export_model, export_places  # noqa: PLC0415 - as above
    from aneforge.llm.prompt_lengths import LONGEST_PIECE  # noqa: PLC0415 - as above

    given.refuse_json(json, model, force=force)
    if by_ranges:
        expect_prompt(prompt, ids)
    elif prompt is not None or ids is not None:
        raise GraphError("a prompt does nothing in an export", remedy="give --by-ranges, which is what it is for")
    with progress("writing"):
        lm = load(model, target=target, compress=compress, context=context, residual_scale=residual_scale)
        for place in export_places(lm, output):
            refuse_export(place, model, force=force)
        if by_ranges:
            tokenizer = tokenizer_of(model, lm.config.vocabulary) if prompt is not None else None
            lm = lm.by_ranges(prompt_tokens(prompt, ids, tokenizer))
        lengths = length or [min(LONGEST_PIECE if lm.recurrent else DEFAULT_LENGTH, lm.context)]
        written = export_model(lm, output, lengths=lengths, cache=cache)
    if given.write_json(json, "llm export", written):
        return
    for path in written.paths:
        typer.echo(f"{path}: {', '.join(written.functions)}")
    typer.echo(f"weights: {written.weight_bytes:,} bytes; cache: {written.cache}")
    typer.echo(written.forms)


def refuse_export(place: Path, model: Path, *, force: bool) -> None:
    """Refuse to write an export where files of the model or of another tool would be lost.

    Raises:
        GraphError: They would, or the place cannot be written.
    """
    from aneforge.commands.outputs import refuse_folder  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.own_files import refuse_foreign  # noqa: PLC0415 - as above
    from aneforge.llm.model_export import PACKAGE  # noqa: PLC0415 - as above

    package = place.suffix == PACKAGE
    holds = () if package else ("model.mil", "weights.bin")
    if not (package and place.is_file()):
        refuse_folder(place, model, holds=holds)
    refuse_foreign([place] if package else [place / name for name in holds], force=force)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        GraphError: It is not a text in UTF-8, or cannot be read.
    """
    where = Location(str(path))
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GraphError(
            "the file is not a text in UTF-8",
            location=where,
            seen=f"byte {error.object[error.start]:#04x} at {error.start}",
            remedy="name a text file, or give the prompt as tokens with --ids",
        ) from None
    except OSError as error:
        raise GraphError("the file cannot be read", location=where, seen=error.strerror) from None


def expect_prompt(prompt: str | None, ids: str | None) -> None:
    """Check that a prompt is given in one way.

    Raises:
        GraphError: It is not.
    """
    if (prompt is None) == (ids is None):
        raise GraphError("give a prompt with --prompt or --ids", remedy="--prompt 'Once upon a time', or --ids 1,9038")


def vocabulary_of(model: Path) -> int:
    """Return how many tokens a model has rows for, by its settings.

    Raises:
        CheckpointError: There are no settings, or one is wrong.
        UnsupportedModelError: The model is not supported here.
    """
    from aneforge.llm.planning import read_decoder  # noqa: PLC0415 - loaded when it is needed

    config, _ = read_decoder(model)
    return config.vocabulary


def tokenizer_of(model: Path, vocabulary: int) -> TextTokenizer:
    """Return the tokenizer next to a model.

    Raises:
        CheckpointError: There is none, or it is of another model.
    """
    from aneforge.llm.hub import local_folder  # noqa: PLC0415 - loaded when it is needed
    from aneforge.llm.tokenizer import TextTokenizer  # noqa: PLC0415 - as above

    place = local_folder(model)
    return TextTokenizer(place if place.is_dir() else place.parent, vocabulary)


def prompt_tokens(prompt: str | None, ids: str | None, tokenizer: TextTokenizer | None) -> list[int]:
    """Return the tokens of a prompt, which is given as a text, as a file, or as numbers.

    >>> prompt_tokens(None, "1, 22,3", None)
    [1, 22, 3]

    Raises:
        GraphError: The numbers are not numbers.
        CheckpointError: The text has no tokens.
    """
    if ids is not None:
        parts = [part.strip() for part in ids.split(",")]
        if not all(part.isascii() and part.isdecimal() for part in parts):
            raise GraphError("--ids takes tokens, separated by commas", seen=ids, remedy="--ids 1,15043")
        return [int(part) for part in parts]
    assert prompt is not None  # noqa: S101 - one of the two is given
    assert tokenizer is not None  # noqa: S101 - and a text has one
    return tokenizer.encode(read_text(Path(prompt)) if is_file(prompt) else prompt)


def is_file(text: str) -> bool:
    """Return whether a text is the name of a file; a long one cannot be."""
    try:
        return Path(text).is_file()
    except OSError:
        return False
