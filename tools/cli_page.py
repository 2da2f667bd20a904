"""The reference page of the `aneforge` command, from the commands themselves; `reference_pages.py` asks for it."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Annotated, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from aneforge.cli.command_table import COMMANDS, help_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["cli_page"]

INTRODUCTION = """# The command line

`aneforge COMMAND --help` prints the same. `python -m aneforge` is the same command. `--debug` anywhere shows the
traceback of an error; `--install-completion` sets up completion for the shell.

Exit codes: 0 clean; 1 findings at or above the threshold, or answers that differ; 2 bad input or usage; 3 an internal
error; 130 after Ctrl-C, which leaves no partial file; 141 where whoever reads the output went away.

Colours follow the terminal and `NO_COLOR`, which leaves bold and dim; piped output and `TERM=dumb` have neither, and no
progress. Lines keep to the width of the terminal (`COLUMNS`), but for those that machines read: `--github`, forms that
are printed, programs. A file appears whole or not at all; a pipe or a device is written to as it is."""


def cli_page() -> str:
    """Return the page."""
    return "\n\n".join([INTRODUCTION, *(section(name, command) for name, command in COMMANDS.items())])


def section(name: str, command: Callable[..., None]) -> str:
    """Return the section of one command: what it does, its parameters, its examples."""
    before, _, examples = help_of(command).partition("Examples:")
    rows = ["| parameter | meaning | default |", "| --- | --- | --- |", *parameter_rows(command)]
    parts = [f"## aneforge {name}", before.strip(), "\n".join(rows)]
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    if lines:
        parts.append("\n".join(["```console", *(f"$ {line}" for line in lines), "```"]))
    return "\n\n".join(parts)


def parameter_rows(command: Callable[..., None]) -> Iterator[str]:
    """Yield a row for every parameter of a command."""
    defaults = inspect.signature(command).parameters
    for name, hint in get_type_hints(command, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        info = next(one for one in get_args(hint) if isinstance(one, ArgumentInfo | OptionInfo))
        default = defaults[name].default
        shown = "" if default in (inspect.Parameter.empty, None, False) else f"`{default}`"
        meaning = re.sub(r"\s*\[default: ([^]]*)\]", "", info.help or "").replace("|", "\\|")
        written = re.search(r"\[default: ([^]]*)\]", info.help or "")
        yield f"| {spelling(name, info)} | {meaning} | {f'`{written[1]}`' if written else shown} |"


def spelling(name: str, info: ArgumentInfo | OptionInfo) -> str:
    """Return how a parameter is written."""
    metavar = (info.metavar or "").replace("|", "\\|")
    if isinstance(info, ArgumentInfo):
        return f"`{metavar or name.upper()}`"
    # typer takes the first name of an option for its default where the option stands in an annotation.
    first = [info.default] if isinstance(info.default, str) and info.default.startswith("-") else []
    names = [*first, *(info.param_decls or ())] or [f"--{name.replace('_', '-')}"]
    return ", ".join(f"`{one}`" for one in names) + (f" {metavar}" if metavar else "")
