"""What a pass is: a frozen dataclass whose fields are its options, and which returns a new program.

A pass verifies before and after and says whether it changed anything. Its docstring shows the program before and after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.verifier import verify
from aneforge.compiler.reproducer import within
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

__all__ = ["Pass", "PassResult", "Phase"]


class Phase(StrEnum):
    """The phases of the compiler, in the order in which they run (table 22.1 of the guide)."""

    FUSION = "fusion"
    LEGALISATION = "legalisation"


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass made of a program."""

    program: Program
    modified: bool


@dataclass(frozen=True)
class Pass(ABC):
    """A rewriting of programs."""

    name: ClassVar[str]
    phase: ClassVar[Phase]

    @abstractmethod
    def rewritten(self, program: Program) -> Program:
        """Return the new program; the program itself, if there is nothing to do."""

    def __call__(self, program: Program) -> PassResult:
        """Run the pass.

        Raises:
            GraphError: What it was given is not a program.
            NotSupportedError: A layer cannot be made legal.
            InternalError: What it made is not a program.
        """
        verify(program)
        result = self.rewritten(program)  # may refuse a number of the user's, such as an index past its axis
        with within(self.name):
            verify(result)
        return PassResult(result, result is not program)

    def __str__(self) -> str:
        chosen = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        options = ", ".join(f"{name} = {getattr(self, name)!r}" for name in chosen)
        return f"{self.name}({options})" if options else self.name
