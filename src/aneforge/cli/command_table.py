"""Every command by its name, in the order in which the help lists them; a name of two words is in a group."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aneforge.targets.names import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["COMMANDS", "GROUPS", "SUMMARIES", "help_of"]

PLACES: Mapping[str, str] = {
    "check": "check:check",
    "compile": "programs:compile_",
    "run": "programs:run",
    "compare": "compare:compare",
    "evaluate": "evaluate:evaluate",
    "reduce": "programs:reduce",
    "diff": "reference:diff",
    "explain": "reference:explain",
    "targets": "reference:targets",
    "ops": "reference:ops",
    "routes": "reference:routes",
    "bench": "programs:bench",
    "dispatch-library": "dispatching:dispatch_library",
    "doctor": "reference:doctor",
    "demo": "demo:demo",
    "llm plan": "planning:plan",
    "llm run": "language_models:run",
    "llm check": "language_models:check",
    "llm export": "language_models:export",
    "invoker install": "invoking:install",
    "hwx show": "hwx_commands:show",
    "hwx dis": "hwx_commands:dis",
    "hwx run": "hwx_commands:run",
    "hwx lint": "hwx_commands:lint",
    "hwx diff": "hwx_commands:diff",
    "trace show": "dispatching:trace_show",
}
"""The module of every command, and its function there."""


class CommandTable(Mapping[str, Callable[..., None]]):
    """The commands by their names; the module of one is loaded when it is asked for."""

    def __getitem__(self, name: str) -> Callable[..., None]:
        module, _, function = PLACES[name].partition(":")
        return getattr(importlib.import_module(f"aneforge.cli.{module}"), function)

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


COMMANDS = CommandTable()
GROUPS: Mapping[str, str] = {
    "llm": "Language models: from a checkpoint to tokens, chip by chip.",
    "invoker install": "Write the invokers, and say where they are.",
    "invoker": "Executables that run network descriptions for other programs.",
    "hwx": "Compiled containers, as an engine loads them.",
    "trace": "Records of the dispatch library's calls.",
}
"""What the commands of a group are for."""


SUMMARIES: Mapping[str, str] = {
    "check": "Will it run, why not, how fast, how exact, what to change.",
    "compile": "Compile models for one target and write the result.",
    "run": "Run a model on the exact engine, as a chip would.",
    "compare": "Compare chips, or one with float, onnxruntime, your own.",
    "evaluate": "Accuracy and agreement of every chip over a data set.",
    "reduce": "Find the smallest part of a model that shows a problem.",
    "diff": "Show what changed between two reports.",
    "explain": "Explain a rule, chip, operation, or any printed word.",
    "ops": "List operations and what becomes of them on each chip.",
    "routes": "List the routes to the engine and what a call costs.",
    "bench": "Measure how fast the exact engine runs a model here.",
    "dispatch-library": "Print the path of the dispatch library, and set it up.",
    "doctor": "Say what is installed, and which backends work.",
    "demo": "See what it does in one screen; no file needed.",
    "llm": "Language models: from a checkpoint to tokens.",
    "invoker install": "Write the invokers, and say where they are.",
    "invoker": "Executables that run networks for other programs.",
}
"""What a command does, in the words of the list of commands: each is one line there."""


def help_of(command: Callable[..., None]) -> str:
    """Return the help of a command: its docstring, with names of chips and targets filled in, each example a line.

    >>> help_of(COMMANDS["targets"])
    'List targets and the chips that have them.'
    """
    return (inspect.getdoc(command) or "").format(**EXAMPLES).replace("Examples:\n", "Examples:\n\n")
