"""The command lines of the invokers. An option that takes several values may also be repeated."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from aneforge.runtime.dispatch.invoker_stages import InvokerError, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Given", "once_arguments", "rank_arguments", "worker_arguments"]

QUALITY_OF_SERVICE = 33
"""What the documented flow compiles and loads with."""
SURFACE_BYTES = 65536
"""The size of a surface where nothing says another."""
MOST_DIGITS = 18
"""What an integer of 64 bits holds for certain."""


class Given(argparse.Namespace):
    """What a command line says; `parse` fills in what an invoker has options for."""

    net_plist: Path
    weights: list[Path]
    input: list[tuple[str, Path]]
    output: list[tuple[str, Path]]
    raw_output: list[tuple[str, Path]]
    input_symbols: list[str]
    output_symbols: list[str]
    output_bytes: int
    repeats: int
    warmup: int


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of a step."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            InvokerError: Always.
        """
        raise InvokerError(Stage.ARGUMENTS, message)


def once_arguments(name: str, arguments: Sequence[str]) -> Given:
    """Return the arguments of an invoker of one call.

    >>> given = once_arguments("sdpa_invoker", ["--net-plist", "net.plist", "--input", "x=a.bin", "--repeats", "3"])
    >>> given.input[0][0], given.repeats, given.output
    ('x', 3, [])

    Raises:
        InvokerError: They are not in the form of the protocol.
    """
    parser = parser_of(name)
    add_ports(parser, "--input", "an input and the file with its elements")
    add_ports(parser, "--output", "an output and the file for its elements")
    add_ports(parser, "--raw-output", "an output and the file for the bytes of its surface")
    parser.add_argument("--repeats", type=at_least(1), default=1, metavar="N", help="executions that are timed")
    parser.add_argument("--warmup", type=at_least(0), default=0, metavar="N", help="executions before those")
    given = parser.parse_args(arguments, Given())
    expect_once([symbol for symbol, _ in given.input])
    return given


def rank_arguments(name: str, arguments: Sequence[str]) -> Given:
    """Return the arguments of the invoker whose outputs are surfaces.

    >>> given = rank_arguments("rank_invoker", ["--net-plist", "net.plist", "--output-raw", "y=y.bin"])
    >>> given.raw_output[0][0], given.output_bytes
    ('y', 65536)

    Raises:
        InvokerError: They are not in the form of the protocol.
    """
    parser = parser_of(name)
    parser.set_defaults(output=[], repeats=1, warmup=0)
    add_ports(parser, "--input", "an input and the file with its elements")
    add_ports(parser, "--output-raw", "an output and the file for the bytes of its surface", to="raw_output")
    parser.add_argument(
        "--output-bytes", type=at_least(1), default=SURFACE_BYTES, metavar="N", help="the size of each surface"
    )
    given = parser.parse_args(arguments, Given())
    expect_once([symbol for symbol, _ in given.input])
    return given


def worker_arguments(name: str, arguments: Sequence[str]) -> Given:
    """Return the arguments of the worker that stays: only symbols, in the order in which values are sent.

    >>> worker_arguments("persistent_worker", ["--net-plist", "n", "--input", "q", "--input", "k"]).input_symbols
    ['q', 'k']

    Raises:
        InvokerError: They are not in the form of the protocol.
    """
    parser = parser_of(name)
    for option, what in (("--input", "inputs"), ("--output", "outputs")):
        parser.add_argument(
            option,
            nargs="+",
            action="extend",
            default=[],
            dest=f"{option[2:]}_symbols",
            metavar="SYM",
            help=f"{what}, in the order of a set",
        )
    given = parser.parse_args(arguments, Given())
    expect_once(given.input_symbols)
    return given


def parser_of(name: str) -> Parser:
    """Return a parser with the options that all invokers have."""
    parser = Parser(prog=name, allow_abbrev=False, description="Run a network description on the software engine.")
    parser.add_argument("--net-plist", type=Path, required=True, metavar="FILE", help="the network description")
    parser.add_argument(
        "--weights", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help="its weights files"
    )
    parser.add_argument(
        "--qos",
        type=at_least(0),
        default=QUALITY_OF_SERVICE,
        metavar="N",
        help="quality of service: taken, and without effect on the software engine",
    )
    return parser


def add_ports(parser: Parser, option: str, meaning: str, to: str | None = None) -> None:
    """Add an option that gives files for ports."""
    parser.add_argument(
        option,
        type=port_file,
        nargs="+",
        action="extend",
        default=[],
        dest=to or option[2:].replace("-", "_"),
        metavar="SYM=FILE",
        help=meaning,
    )


def port_file(text: str) -> tuple[str, Path]:
    """Return a symbol and a file.

    >>> port_file("x=folder/a=b.bin")[0]
    'x'
    """
    symbol, equals, path = text.partition("=")
    if not symbol or not equals or not path:
        raise argparse.ArgumentTypeError(f"expected SYM=FILE, got {text!r}")
    return symbol, Path(path)


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads an integer from a number on."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS) or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be an integer of {least} or more, got {text!r}")
        return int(text)

    return read


def expect_once(symbols: Sequence[str]) -> None:
    """Check that no input is given twice.

    Raises:
        InvokerError: One is.
    """
    for place, symbol in enumerate(symbols):
        if symbol in symbols[:place]:
            raise InvokerError(Stage.ARGUMENTS, f"input {symbol!r} is given twice")
