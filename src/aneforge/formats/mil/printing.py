"""A MIL program as text; `grammar` reads it back.

What is printed is what the program was made of, literals as they were written: only spaces and line breaks are this
module's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.formats.mil.syntax import Function, Program, RawAttribute

__all__ = ["program_text"]


def program_text(program: Program) -> str:
    """Return a program as text."""
    return "\n".join(lines_of(program)) + "\n"


def lines_of(program: Program) -> Iterator[str]:
    """Yield the lines of a program."""
    yield f"program({program.version})"
    if program.attributes:
        yield attributes_text(program.attributes)
    yield "{"
    for function in program.functions.values():
        yield head_text(function)
        for statement in function.statements:
            yield f"        {statement}"
        yield f"    }} -> ({', '.join(map(str, function.outputs))});"
    yield "}"


def head_text(function: Function) -> str:
    """Return the line that begins a function."""
    inputs = ", ".join(map(str, function.inputs))
    attributes = f" {attributes_text(function.attributes)}" if function.attributes else ""
    return f"    func {function.name}<{function.opset}>({inputs}){attributes} {{"


def attributes_text(attributes: Sequence[RawAttribute]) -> str:
    """Return attributes in brackets."""
    return f"[{', '.join(map(str, attributes))}]"
