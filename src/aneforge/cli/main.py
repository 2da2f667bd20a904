"""The entry point: one command for each job, exit codes, and errors as one message.

0: clean. 1: findings at or above the threshold, or answers that differ where none may. 2: bad input or usage. 3: an
internal error. Ctrl-C ends with 130 and a reader that went away with 141, as shells expect.
"""

from __future__ import annotations

import functools
import shutil
import sys
import warnings
from typing import TYPE_CHECKING, Annotated, ParamSpec, TextIO

import typer

from aneforge.cli.command_table import COMMANDS, GROUPS, SUMMARIES, help_of
from aneforge.cli.error_messages import DEBUG, complain, report_error
from aneforge.cli.plain_parameters import PlainCommand, PlainGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Parameters = ParamSpec("Parameters")

__all__ = ["main", "run", "whole_app"]

INTERRUPTED = 130
MOST_COLUMNS = 80
"""Help texts are not wider on a wide terminal: lines of that length are read best."""


class InterruptedError_(Exception):  # noqa: N801, N818 - carries a Ctrl-C past the framework, which would take it
    """The user pressed Ctrl-C."""


def guard(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Return a command from which a Ctrl-C comes out as an exception of ours."""

    @functools.wraps(command)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise InterruptedError_ from None

    return call


def print_version(asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        from aneforge._version import __version__  # noqa: PLC0415 - read only here

        typer.echo(f"aneforge {__version__}")
        raise typer.Exit


def whole(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error; works anywhere.")] = False,
) -> None:
    """Take the options of all commands."""
    del version, debug  # the one acted when it was read, `run` takes the other


def build_app(names: Iterable[str]) -> typer.Typer:
    """Return the command line with some of the commands, and the groups that they are in."""
    made = typer.Typer(
        name="aneforge",
        cls=PlainGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Will my model run on the Neural Engine of these chips; if not, which operation, why, and what do I "
            "change; how fast; how different between chips; how far from the mathematics?\n\n"
            "Start with: aneforge demo"
        ),
        epilog="Exit codes: 0 clean, 1 findings at or above the threshold, 2 bad input or usage, 3 internal error.",
    )
    made.callback()(whole)
    groups: dict[str, typer.Typer] = {}
    for name in names:
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None, help=GROUPS[group])
        command = COMMANDS[name]
        add = (groups[group] if group else made).command(
            last, cls=PlainCommand, help=help_of(command), short_help=SUMMARIES.get(name)
        )
        add(guard(command))
    for name in GROUPS:
        if name in groups:
            made.add_typer(groups[name], name=name, short_help=SUMMARIES.get(name))
    return made


@functools.cache
def whole_app() -> typer.Typer:
    """Return the command line with every command."""
    return build_app(COMMANDS)


def build_asked_app(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line with only the command that is asked for; anything but a command needs all of them.

    The framework reads the types of every parameter of every command that it is given.
    """
    asked = next((name for count in (1, 2) if (name := " ".join(arguments[:count])) in COMMANDS), None)
    return whole_app() if asked is None else build_app([asked])


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without a place in our sources."""
    del category, filename, lineno, file, line  # the form of the hook
    complain(f"warning: {message}")


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code.

    >>> run(["--version"])  # doctest: +ELLIPSIS
    aneforge ...
    0
    """
    debug = DEBUG in arguments
    given = [one for one in arguments if one != DEBUG]
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            typer.main.get_command(build_asked_app(given)).main(
                args=given, prog_name="aneforge", terminal_width=help_width()
            )
        except SystemExit as left:
            return left.code if isinstance(left.code, int) else 0
        except InterruptedError_:
            complain("\ninterrupted; no partial file was left")
            return INTERRUPTED
        except Exception as error:
            if debug:
                raise
            return report_error(error)
    return 0


def help_width() -> int:
    """Return the width of help texts; by itself the framework goes no lower than 50 columns."""
    return min(shutil.get_terminal_size().columns, MOST_COLUMNS) - 2


def main() -> None:
    """Run the command line of this process."""
    sys.exit(run(sys.argv[1:]))
