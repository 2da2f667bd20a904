"""Texts that test a pass: a program, and what the pass makes of it, in one file of any number of cases.

    // RUN: legalise-transpose
    // What the cases of the file are about.

    // CASE: what this one shows
    // EXACT
    program for h13 { … }
    // ---
    program for h13 { … }

The passes of the RUN line are those of the pipeline, in the order that is given. Both programs mean the same; EXACT
asks for equal numbers, where nothing is summed in another order. A constant of a program that goes in has no bytes in
the text: `counted 3` in place of its encoding and hash stands for numbers that are counted from 3 on, as
`legalisation_tools.constant` has them. What comes out is the pass's own text; `--update-golden` rewrites it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.pipeline import PIPELINE, Pipeline
from legalisation_tools import constant

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant

__all__ = ["PassCase", "cases_of", "rewrite"]

RUN, EXACT, CASE, BECOMES = "// RUN: ", "// EXACT\n", "// CASE: ", "// ---\n"
COUNTED = re.compile(
    r"^  constant @(?P<symbol>\S+) : (?P<dtype>\w+)\[(?P<shape>[\d, ]*)\] counted (?P<first>\d+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class PassCase:
    """One program of a file, and what its passes should make of it."""

    path: Path
    name: str
    passes: tuple[str, ...]
    exact: bool
    given: str
    expected: str

    def before(self) -> Program:
        """Return the program that goes in."""
        constants: dict[str, Constant] = {}

        def written(found: re.Match[str]) -> str:
            shape = tuple(int(extent) for extent in found["shape"].split(",") if extent.strip())
            made = constants[found["symbol"]] = constant(*shape, seed=int(found["first"]), dtype=found["dtype"])
            return found[0].replace(f"counted {found['first']}", f"{made.encoding} sha256:{made.digest}")

        return parse_program(COUNTED.sub(written, self.given), constants)

    def pipeline(self) -> Pipeline:
        """Return the passes of the file."""
        return Pipeline(tuple(PIPELINE.passes[PIPELINE.place(name)] for name in self.passes))


def cases_of(path: Path) -> list[PassCase]:
    """Return the cases of a file."""
    head, *parts = path.read_text(encoding="utf-8").split(CASE)
    assert head.startswith(RUN), f"{path.name} does not begin with the passes that it runs"
    passes = tuple(head.splitlines()[0].removeprefix(RUN).split())
    found: list[PassCase] = []
    for part in parts:
        name, _, texts = part.partition("\n")
        given, _, expected = texts.removeprefix(EXACT).partition(BECOMES)
        exact = texts.startswith(EXACT)
        found.append(PassCase(path, name, passes, exact, given.strip() + "\n", expected.strip() + "\n"))
    return found


def rewrite(case: PassCase, text: str) -> None:
    """Write what a case should become into its file."""
    head, *parts = case.path.read_text(encoding="utf-8").split(CASE)
    for place, part in enumerate(parts):
        if part.startswith(f"{case.name}\n"):
            end = "" if place == len(parts) - 1 else "\n"
            parts[place] = part.partition(BECOMES)[0] + BECOMES + text + end
    case.path.write_text(CASE.join([head, *parts]), encoding="utf-8")
