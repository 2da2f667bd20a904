"""The compiler's passes in order.

A pipeline is a list that can be printed, cut and dumped: what it gives after any pass is a program in text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.compiler.ir.verifier import verify
from aneforge.compiler.passes.fusion import FUSION
from aneforge.compiler.passes.legalisation import LEGALISATION
from aneforge.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.base import Pass

__all__ = ["PIPELINE", "Pipeline", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """What the program was after one pass."""

    name: str
    modified: bool
    program: Program


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in the order in which they run.

    >>> print(PIPELINE.until("fold-padding"))
     1 fusion       eliminate-copies
     2 fusion       fold-padding
    """

    passes: tuple[Pass, ...]

    def __str__(self) -> str:
        return "\n".join(f"{number:2} {one.phase:<12} {one}" for number, one in enumerate(self.passes, 1))

    def place(self, name: str) -> int:
        """Return where a pass stands.

        Raises:
            UnknownNameError: There is no such pass.
        """
        names = [one.name for one in self.passes]
        if name not in names:
            raise UnknownNameError.of("pass", name, names)
        return names.index(name)

    def until(self, name: str) -> Pipeline:
        """Return the pipeline up to a pass, that one included."""
        return Pipeline(self.passes[: self.place(name) + 1])

    def without(self, name: str) -> Pipeline:
        """Return the pipeline with a pass left out."""
        place = self.place(name)
        return Pipeline(self.passes[:place] + self.passes[place + 1 :])

    def exchanging(self, name: str, other: Pass) -> Pipeline:
        """Return the pipeline with another pass in a pass's place, such as the same with other options."""
        place = self.place(name)
        return Pipeline((*self.passes[:place], other, *self.passes[place + 1 :]))

    def run(self, program: Program, watch: Callable[[Step], None] | None = None) -> Program:
        """Return what the passes make of a program; `watch` is called after each.

        Raises:
            GraphError: What was given is not a program.
            NotSupportedError: A layer cannot be made legal.
            InternalError: A pass made something that is not a program.
        """
        verify(program)
        for one in self.passes:
            result = one(program)
            program = result.program
            if watch is not None:
                watch(Step(one.name, result.modified, program))
        return program

    def dump(self, program: Program, folder: Path) -> Program:
        """Run, and write the program before the first pass and after each that changed it into a folder.

        Files are called by their place and their pass; each is written under another name first and renamed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        written = 0

        def write(step: Step) -> None:
            nonlocal written
            if step.modified:
                file = folder / f"{written:02}-{step.name}.anec"
                unfinished = file.with_suffix(".unfinished")
                unfinished.write_text(str(step.program), encoding="utf-8")
                unfinished.replace(file)
            written += 1

        write(Step("lower", modified=True, program=program))
        return self.run(program, write)


PIPELINE = Pipeline((*FUSION, *LEGALISATION))
"""Fusion, then legalisation."""
