"""Takes a MIL program apart into its head, the heads and tails of its functions, and their statements.

Only brackets, quoted texts and semicolons are looked at here, so this is fast, and so a statement is parsed by itself:
memory follows the longest one, and nesting is bounded before any parser sees it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.formats.mil.text_rules import (
    COMMENT,
    MISMATCHED,
    NESTED_BLOCK,
    TOO_DEEP,
    TRUNCATED,
    UNCLOSED_TEXT,
    UNEXPECTED,
)
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Piece", "PieceKind", "blanks_end", "check_brackets", "pieces", "split_attributes"]

DEEPEST = 32
"""Brackets inside brackets; programs of compilers have eight at most."""
QUOTED = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
MARKS = re.compile(rf'{QUOTED}|[()\[\]{{}};"]|//|/\*')
PARTS = re.compile(rf"{QUOTED}|[()\[\]{{}}<>,]")
PLAIN_TEXT = re.compile(rf'(?:[^"{{}};/]++|{QUOTED}|/(?![/*]))*+')
"""What is inside a statement; braces, semicolons and comments do not."""
CLOSING = {"(": ")", "[": "]", "{": "}"}
BLANK = re.compile(r"\s*")
REST = "remove what follows the last brace"


class PieceKind(StrEnum):
    """What a piece of a program is."""

    HEAD = "the head of the program"
    FUNCTION = "the list of functions"
    STATEMENT = "the body of a function"
    TAIL = "what a function returns"


ENDING = {
    PieceKind.HEAD: "'{'",
    PieceKind.FUNCTION: "'}' or a function",
    PieceKind.STATEMENT: "';'",
    PieceKind.TAIL: "';'",
}
"""The sign that is missing where a piece is not ended."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text, from `at` up to and without `end`; a statement and a tail include their semicolon."""

    kind: PieceKind
    at: int
    end: int


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a program in their order.

    >>> [piece.kind.name for piece in pieces("program(1.3) { func f<ios18>() { fp16 x = a(); } -> (x); }")]
    ['HEAD', 'FUNCTION', 'STATEMENT', 'TAIL']

    Raises:
        MilError: A bracket or a quoted text is not closed, brackets are nested too deep, or something is outside.
    """
    at = head_end(text, 0, PieceKind.HEAD)
    yield Piece(PieceKind.HEAD, blanks_end(text, 0), at)
    at = blanks_end(text, at + 1)
    while text[at : at + 1] != "}":
        end = head_end(text, at, PieceKind.FUNCTION)
        yield Piece(PieceKind.FUNCTION, at, end)
        at = end + 1
        for piece in statements(text, at):
            yield piece
            at = piece.end
        at = blanks_end(text, at) + 1
        end = statement_end(text, at, PieceKind.TAIL)
        if text[end] != ";":
            raise UNEXPECTED.broken(end, found=repr(text[end]), expected="';'")
        yield Piece(PieceKind.TAIL, blanks_end(text, at), end + 1)
        at = blanks_end(text, end + 1)
    rest = blanks_end(text, at + 1)
    if rest < len(text):
        raise UNEXPECTED.broken(rest, found=repr(text[rest]), expected="the end of the text", suggestion=REST)


def head_end(text: str, at: int, kind: PieceKind) -> int:
    """Return the place of the brace that opens what a head belongs to; braces inside brackets are values."""
    opened: list[str] = []
    for mark in MARKS.finditer(text, at):
        sign, place = mark[0], mark.start()
        if not opened and sign == "{":
            return place
        check_word(sign, place)
        if len(sign) == 1:
            follow_bracket(opened, sign, place)
    wanted = repr(CLOSING[opened[-1]]) if opened else ENDING[kind]
    raise TRUNCATED.broken(len(text.rstrip()), name=str(kind), expected=wanted)


def statements(text: str, at: int) -> Iterator[Piece]:
    """Yield the statements of a body, which begins at a place, up to the brace that closes it."""
    while True:
        begin = blanks_end(text, at)
        end = statement_end(text, begin, PieceKind.STATEMENT)
        if text[end] == "}" and end == begin:
            return
        if text[end] != ";":
            rule = NESTED_BLOCK if text[end] == "{" else UNEXPECTED
            raise rule.broken(end, found=repr(text[end]), expected="';'")
        at = end + 1
        yield Piece(PieceKind.STATEMENT, begin, at)


def statement_end(text: str, at: int, kind: PieceKind) -> int:
    """Return the place of the next semicolon or brace.

    Raises:
        MilError: There is none, a quoted text is not closed, or a comment is before it.
    """
    found = PLAIN_TEXT.match(text, at)
    end = at if found is None else found.end()
    if end == len(text):
        raise TRUNCATED.broken(len(text.rstrip()), name=str(kind), expected=ENDING[kind])
    check_word(text[end : end + 2] if text[end] == "/" else text[end], end)
    return end


def check_word(sign: str, at: int) -> None:
    """Check that a mark is a bracket, a semicolon or a quoted text.

    Raises:
        MilError: It is a comment, or a quotation mark without its other one.
    """
    if sign == '"':
        raise UNCLOSED_TEXT.broken(at)
    if sign in ("//", "/*"):
        raise COMMENT.broken(at, found=sign)


def check_brackets(text: str, at: int) -> None:
    """Check the brackets of a statement that begins at a place.

    Raises:
        MilError: They do not fit, or are nested too deep.
    """
    opened: list[str] = []
    for mark in MARKS.finditer(text):
        if len(mark[0]) == 1:
            follow_bracket(opened, mark[0], at + mark.start())


def follow_bracket(opened: list[str], sign: str, at: int) -> None:
    """Keep the list of open brackets.

    Raises:
        MilError: One is closed that is not the last that was opened, a semicolon is inside, or there are too many.
    """
    if sign in CLOSING:
        opened.append(sign)
        if len(opened) > DEEPEST:
            raise TOO_DEEP.broken(at, found=f"{len(opened)} brackets", expected=f"up to {DEEPEST}")
        return
    if sign == ";" and not opened:
        return
    expected = repr(CLOSING[opened[-1]]) if opened else "a bracket that opens before it"
    if sign == ";":
        raise UNEXPECTED.broken(at, found="';'", expected=expected)
    if not opened or CLOSING[opened[-1]] != sign:
        raise MISMATCHED.broken(at, found=repr(sign), expected=expected)
    opened.pop()


def blanks_end(text: str, at: int) -> int:
    """Return the place after the blanks at a place."""
    found = BLANK.match(text, at)
    return at if found is None else found.end()


def split_attributes(text: str, at: int, end: int) -> list[tuple[int, int]]:
    """Return the places of the parts of a list that commas separate, whatever brackets are in it.

    >>> text = "[a = dict<b, c>({{1, 2}}), d = 3]"
    >>> [text[first:last] for first, last in split_attributes(text, 1, len(text) - 1)]
    ['a = dict<b, c>({{1, 2}})', 'd = 3']
    """
    depth = 0
    found: list[tuple[int, int]] = []
    first = at
    for mark in PARTS.finditer(text, at, end):
        sign = mark[0]
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and not depth:
            found.append((blanks_end(text, first), mark.start()))
            first = mark.end()
    return [*found, (blanks_end(text, first), end)]
