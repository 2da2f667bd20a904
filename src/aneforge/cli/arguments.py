"""Arguments that several commands take, as users write them, and what they stand for."""

from __future__ import annotations

import itertools
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.errors import GraphError, Location
from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.ops.types import Array
    from aneforge.report.gate import Budget

__all__ = [
    "Compress",
    "Force",
    "Function",
    "Inputs",
    "Json",
    "MaxAbs",
    "Model",
    "Models",
    "Opt",
    "Scheduler",
    "Seed",
    "Shapes",
    "Targets",
    "Verbose",
    "Workers",
    "parse_buckets",
    "parse_budgets",
    "parse_level",
    "parse_magnitudes",
    "parse_shapes",
    "parse_targets",
    "read_arrays",
    "refuse_json",
    "write_json",
]

STDOUT = "-"
"""The file that stands for the terminal."""
ONE_ARRAY = b"\x93NUMPY"
"""How a file of one array begins."""
EXAMPLE_TARGETS = "{old},{pro},{device},{target}".format(**EXAMPLES)
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="ONNX, .mlpackage, .mlmodel, MIL text, a network description, or a file of torch.export.save.",
        show_default=False,
        readable=False,  # the reader of the file says what is wrong with it
    ),
]
Models = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL",
        help="One or several: ONNX, .mlpackage, .mlmodel, MIL text, network descriptions, or files of "
        "torch.export.save.",
        show_default=False,
        readable=False,  # the reader of the file says what is wrong with it
    ),
]
Opt = Annotated[
    str | None,
    typer.Option(
        "--opt",
        metavar="LEVEL",
        help="Rewrite the graph first, as af.compile does: routes (keeps all bits), 1 (the cheapest form), 2 or max "
        "(the cheapest form whose error was measured). [default: no rewriting]",
        show_default=False,
    ),
]
Compress = Annotated[
    str | None,
    typer.Option(
        "--compress",
        metavar="WAY",
        help="Encode the weights first: int8, int4, sparse, blockwise or auto.",
        show_default=False,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        metavar="NAMES",
        help=f"Chips, devices, targets, families or a group, separated by commas: {EXAMPLE_TARGETS}, "
        "shipping (chips that are sold), all (every target that runs MIL programs), families, or known (older ones "
        "too). May be repeated.",
        show_default=False,
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=LENGTHS",
        help="Length of a symbolic dimension, or shape of an input: batch=1, image=1,3,224,224. May be repeated.",
        show_default=False,
    ),
]
MaxAbs = Annotated[
    list[str] | None,
    typer.Option(
        "--max-abs",
        metavar="NAME=NUMBER",
        help="Largest magnitude of an input; bounds of all values follow from it. May be repeated.",
        show_default=False,
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE.npz", help="Sample inputs, by name.", show_default=False, readable=False),
]
Function = Annotated[
    str | None,
    typer.Option(
        "--function", metavar="NAME", help="The function to use, if the model has several.", show_default=False
    ),
]

Outputs = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.npz",
        help="Where to write the outputs.",
        show_default=False,
        readable=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="Draw inputs that are not given at random, from this seed.", show_default=False
    ),
]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the result as JSON; - prints it.", show_default=False, readable=False
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files even if another tool made them.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Run on the workers of this Dask scheduler: tcp://head:8786.", show_default=False
    ),
]
Workers = Annotated[int | None, typer.Option(help="Run in this many processes on this machine.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print reasons in full.")]


def parse_targets(texts: Sequence[str] | None) -> list[str] | None:
    """Return names of targets, or nothing where none is given."""
    return list(texts) if texts else None


def shape_texts(texts: Sequence[str] | None) -> list[str]:
    """Return every name with its lengths; one text may hold several, separated by commas.

    >>> shape_texts(["batch=2,image=1,3,8,8"])
    ['batch=2', 'image=1,3,8,8']
    """
    return [part for text in texts or () for part in NEXT_NAME.split(text)]


def parse_shapes(texts: Sequence[str] | None) -> dict[str, int | tuple[int, ...]] | None:
    """Return lengths and shapes by name.

    >>> parse_shapes(["batch=2", "image=1,3,8,8"])
    {'batch': 2, 'image': (1, 3, 8, 8)}

    Raises:
        GraphError: A text is not of that form.
    """
    found: dict[str, int | tuple[int, ...]] = {}
    for text in shape_texts(texts):
        name, equals, lengths = text.rpartition("=")
        parts = [part.strip() for part in lengths.split(",")]
        if not equals or not name or not all(part.isascii() and part.isdigit() for part in parts):
            raise GraphError("--shape is not of the form NAME=LENGTHS", seen=text, remedy="--shape image=1,3,224,224")
        if name.strip() in found:
            raise GraphError("--shape names something twice", seen=text, remedy="give it once")
        numbers = tuple(int(part) for part in parts)
        found[name.strip()] = numbers if "," in lengths else int(parts[0])
    return found or None


def parse_buckets(texts: Sequence[str] | None) -> list[list[str]]:
    """Return the shapes of every check: a name with several lengths, separated by colons, stands for one check of each.

    >>> parse_buckets(["batch=1", "tokens=32:128"])
    [['batch=1', 'tokens=32'], ['batch=1', 'tokens=128']]
    """
    choices: list[list[str]] = []
    for text in shape_texts(texts):
        name, equals, lengths = text.rpartition("=")
        choices.append([f"{name}{equals}{length}" for length in lengths.split(":")])
    return [list(chosen) for chosen in itertools.product(*choices)]


def parse_magnitudes(texts: Sequence[str] | None) -> dict[str, tuple[float, float] | float]:
    """Return the largest magnitudes of inputs by name.

    >>> parse_magnitudes(["image=4"])
    {'image': 4.0}

    Raises:
        GraphError: A text is not of that form.
    """
    found: dict[str, tuple[float, float] | float] = {}
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not equals or not name or not value >= 0:
            raise GraphError("--max-abs is not of the form NAME=NUMBER", seen=text, remedy="--max-abs image=4.0")
        if name.strip() in found:
            raise GraphError("--max-abs names an input twice", seen=text, remedy="give it once")
        found[name.strip()] = value
    return found


def refuse_json(path: Path | None, model: Path | None = None, *, force: bool = False) -> None:
    """Refuse a file for the answer that could not be written, before any work is done for it.

    Raises:
        GraphError: It cannot be written, is part of the model, or is another tool's and `force` is not given.
    """
    if path is None or str(path) == STDOUT:
        return
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - loaded when it is needed

    refuse_output(path, model, force=force)


def write_json(path: Path | None, command: str, answer: object, *, ok: bool = True) -> bool:
    """Write the answer of a command as JSON where that is asked for; return whether it was printed instead.

    `ok` is what the exit code says.
    """
    if path is None:
        return False
    from aneforge.report.answers import answer_to_json  # noqa: PLC0415 - loaded when it is needed

    text = answer_to_json(command, answer, ok=ok)
    if str(path) == STDOUT:
        typer.echo(text, nl=False)
        return True
    from aneforge.commands.outputs import save  # noqa: PLC0415 - as above

    save(path, text)
    return False


def parse_level(text: str | None) -> str | int | None:
    """Return a level of optimisation: a number, or a word.

    >>> parse_level("1"), parse_level("max"), parse_level(None)
    (1, 'max', None)
    """
    return int(text) if text is not None and text.isdecimal() else text


UNITS = {
    "max-latency": {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6},
    "max-memory": {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9},
    "min-exact": {"": 1.0},
}
"""Units of budgets by option, as factors."""
NEXT_NAME = re.compile(r",(?=[^,=]*=)")
"""The comma before another name with its lengths."""
AMOUNT = re.compile(r"([0-9.]+) ?([a-zµ]*)")


def parse_budgets(option: str, texts: Sequence[str] | None) -> list[Budget]:
    """Return budgets: an amount for all targets, or with the name of one before it.

    >>> [(one.target, one.limit) for one in parse_budgets("max-latency", ["1.5ms"])]
    [(None, 1500.0)]

    Raises:
        GraphError: A text is not of that form.
        UnknownTargetError: The target name is unknown.
    """
    from aneforge.report.gate import Budget  # noqa: PLC0415 - loaded when it is needed
    from aneforge.targets import resolve  # noqa: PLC0415 - as above

    found: list[Budget] = []
    for text in texts or ():
        name, _, amount = text.rpartition("=")
        match = AMOUNT.fullmatch(amount.strip().lower())
        factor = None if match is None else UNITS[option].get(match[2])
        if match is None or factor is None or match[1].count(".") > 1:
            units = ", ".join(unit for unit in UNITS[option] if unit)
            raise GraphError(
                f"--{option} is not an amount, optionally after the name of a chip",
                seen=text,
                limit=f"a number in {units}" if units else "a share from 0 to 1",
            )
        found.append(Budget(option, float(match[1]) * factor, resolve(name).name if name else None, name.strip()))
    return found


def read_arrays(path: Path) -> Mapping[str, Array]:
    """Return the arrays of an .npz file.

    Raises:
        GraphError: It cannot be read, or is not such a file.
    """
    import numpy as np  # noqa: PLC0415 - loaded when it is needed

    place = Location(str(path))
    try:
        with path.open("rb") as file:
            begins = file.read(len(ONE_ARRAY))
        expect_archive(path, begins)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except GraphError:
        raise  # it is a ValueError too, and says already what is wrong
    except OSError as error:
        raise GraphError("the inputs cannot be read", location=place, seen=error.strerror or error) from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        # NumPy answers arrays of objects with the advice to load them anyway, which would run what they hold.
        seen = "arrays of objects" if "allow_pickle" in str(error) else error
        raise GraphError("the file is not an .npz archive of arrays", location=place, seen=seen) from None


def expect_archive(path: Path, begins: bytes) -> None:
    """Refuse a file that is not an archive, by how it begins.

    Raises:
        GraphError: It is one array, or something else.
    """
    place, remedy = Location(str(path)), "write it with np.savez"
    if begins == ONE_ARRAY:
        raise GraphError("the file holds one array without a name", location=place, remedy=remedy)
    if not zipfile.is_zipfile(path):
        raise GraphError("the file is not an .npz archive of arrays", location=place, seen=begins, remedy=remedy)
