"""What a graph says and MIL text has no place for, kept in the build info of the program.

Build info is a dictionary of texts that compilers fill with versions and that changes nothing. Names of ports that are
no names of MIL, promises about inputs, and constexpr operations that the graph holds as nodes are there, under keys
that begin with `aneforge.`:

    aneforge.name.main.x_1      the name of a port of function main
    aneforge.max_abs.main.x_1   the largest magnitude that an input is promised to have
    aneforge.nodes.main         names of the constexpr statements that are nodes, not constants
    aneforge.number.main.t0_k   a number of which the program holds no more than its element type does
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.formats.mil.literals import number_of, number_text
from aneforge.formats.mil.parsing import parse_pairs
from aneforge.formats.mil.text_rules import RESERVED
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.mil.syntax import Program

__all__ = ["BUILD_INFO", "Hints", "build_info", "hints_of"]

BUILD_INFO = "buildInfo"
PREFIX = "aneforge."


@dataclass(frozen=True, slots=True)
class Hints:
    """What is kept of one function."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of ports in the graph, by their names in the text."""
    max_abs: Mapping[str, float] = field(default_factory=dict[str, float])
    """Promises about inputs, by their names in the text."""
    nodes: frozenset[str] = frozenset()
    """Names in the text of constexpr statements that are nodes of the graph."""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers that were rounded to the element type of their const, by its name."""

    def entries(self, function: str) -> dict[str, str]:
        """Return them as entries of build info."""
        nodes = {f"{PREFIX}nodes.{function}": " ".join(sorted(self.nodes))} if self.nodes else {}
        return {
            **{f"{PREFIX}name.{function}.{port}": name for port, name in self.names.items()},
            **{f"{PREFIX}max_abs.{function}.{port}": number_text(most) for port, most in self.max_abs.items()},
            **nodes,
            **{f"{PREFIX}number.{function}.{name}": number_text(one) for name, one in self.numbers.items()},
        }


def build_info(program: Program) -> dict[str, str]:
    """Return the build info of a program; it is empty where the program has none.

    Raises:
        MilError: It is not a dictionary of texts.
    """
    found = [parse_pairs(one.text, one.at) for one in program.attributes if one.name == BUILD_INFO]
    return found[0] if found else {}


def hints_of(program: Program, function: str) -> Hints:
    """Return what is kept of a function.

    Raises:
        MilError: An entry of this package's own cannot be read.
    """
    info = next((one for one in program.attributes if one.name == BUILD_INFO), None)
    if info is None or PREFIX not in info.text:
        return Hints()
    names: dict[str, str] = {}
    promises: dict[str, float] = {}
    nodes: frozenset[str] = frozenset()
    numbers: dict[str, float] = {}
    for key, value in parse_pairs(info.text, info.at).items():
        match key.split("."):
            case ["aneforge", "name", name, port] if name == function:
                names[port] = value
            case ["aneforge", "max_abs", name, port] if name == function:
                promises[port] = float(number_of(value, "fp64", info.at))
            case ["aneforge", "nodes", name] if name == function:
                nodes = frozenset(value.split())
            case ["aneforge", "number", name, const] if name == function:
                numbers[const] = float(number_of(value, "fp64", info.at))
            case ["aneforge", "name" | "max_abs" | "number", _, _] | ["aneforge", "nodes", _]:
                pass  # another function's
            case ["aneforge", *_]:
                expected = "aneforge.name, aneforge.max_abs, aneforge.nodes or aneforge.number"
                raise RESERVED.broken(info.at, found=key, expected=expected)
            case _:
                pass
    return Hints(names, promises, nodes, numbers)
