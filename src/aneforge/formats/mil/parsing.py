"""Reads the text of a program into its syntax, piece by piece (`scanner`), each piece by the grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.elements import TEXT
from aneforge.formats.mil.grammar import Child, Tree, is_token, parse_piece, start, subtrees, tokens
from aneforge.formats.mil.literals import text_of
from aneforge.formats.mil.scanner import (
    DEEPEST,
    Piece,
    PieceKind,
    blanks_end,
    check_brackets,
    pieces,
    split_attributes,
)
from aneforge.formats.mil.syntax import (
    Argument,
    Blob,
    Function,
    Literal,
    NamedType,
    Program,
    RawAttribute,
    Reference,
    Statement,
    Tuple,
    Value,
    ValueType,
)
from aneforge.formats.mil.text_rules import (
    FUNCTION_TWICE,
    MISSING_PARAMETER,
    NO_FUNCTION,
    PARAMETER_TWICE,
    UNEXPECTED,
    UNKNOWN_PARAMETER,
    WRONG_SORT,
)
from aneforge.formats.mil.types import type_of, value_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lark

__all__ = ["parse_pairs", "parse_program"]

HEAD_MARKS = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[()\[]')
ATTRIBUTE_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*", re.ASCII)
TEXT_TYPE = ValueType(TEXT)
BLOB_PARAMETERS = {"path": 'path = string("@model_path/weights.bin")', "offset": "offset = uint64(64)"}
"""What a reference into a weights blob has, with an example of each."""


def parse_program(text: str) -> Program:
    """Read the text of a program.

    Raises:
        MilError: It is not a program; the error has the place in the text.
    """
    found = pieces(text)
    head = next(found)  # the scanner's first piece, or its error
    end, attributes = split_head(text, head)
    version = tokens(parse_piece(text[head.at : end], "head", head.at))[0]
    functions: dict[str, Function] = {}
    for piece in found:
        function = function_of(text, piece, found)
        if function.name in functions:
            raise FUNCTION_TWICE.broken(function.at, name=function.name)
        functions[function.name] = function
    if not functions:
        raise NO_FUNCTION.broken(head.end, expected="func main<ios18>(…) { … } -> (…);")
    return Program(version, attributes, functions)


def function_of(text: str, head: Piece, following: Iterator[Piece]) -> Function:
    """Read a function: its head, and the pieces that follow up to its tail."""
    end, attributes = split_head(text, head)
    tree = parse_piece(text[head.at : end], "function", head.at)
    name, opset = tokens(tree)[:2]
    inputs = tuple(named_of(one, head.at) for one in tree.children[2:])
    statements: list[Statement] = []
    for piece in following:
        if piece.kind is PieceKind.TAIL:
            tail = parse_piece(text[piece.at : piece.end], "tail", piece.at)
            outputs = tuple(Reference(str(one), piece.at + start(one)) for one in tail.children if is_token(one))
            return Function(name, opset, inputs, tuple(statements), outputs, attributes, head.at)
        statements.append(statement_of(text[piece.at : piece.end], piece.at))
    raise AssertionError("the scanner ends a function with its tail, or raises")


def split_head(text: str, piece: Piece) -> tuple[int, tuple[RawAttribute, ...]]:
    """Return where the head proper ends, and the attributes in brackets after it.

    Raises:
        MilError: Something is after the brackets, or an attribute has no value.
    """
    begin = find_bracket_after(text, piece)
    if begin == piece.end:
        return begin, ()
    end = text.rindex("]", begin, piece.end)
    rest = blanks_end(text, end + 1)
    if rest < piece.end:
        raise UNEXPECTED.broken(rest, found=repr(text[rest]), expected="'{'")
    if blanks_end(text, begin + 1) == end:
        return begin, ()
    spans = split_attributes(text, begin + 1, end)
    return begin, tuple(raw_attribute(text, first, last) for first, last in spans)


def find_bracket_after(text: str, piece: Piece) -> int:
    """Return where the attributes of a head begin: after the parenthesis that closes its parameters."""
    depth = 0
    for mark in HEAD_MARKS.finditer(text, piece.at, piece.end):
        depth += (mark[0] == "(") - (mark[0] == ")")
        if mark[0] == "[" and not depth:
            return mark.start()
    return piece.end


def raw_attribute(text: str, first: int, last: int) -> RawAttribute:
    """Return an attribute of a program or a function, as its text."""
    name = ATTRIBUTE_NAME.match(text, first, last)
    if name is None or name.end() == last:
        raise UNEXPECTED.broken(first, found=repr(text[first : min(first + 20, last)]), expected="name = value")
    return RawAttribute(name[1], text[name.end() : last].rstrip(), first)


def parse_pairs(text: str, at: int) -> dict[str, str]:
    """Read a dictionary of texts, as build info is.

    Raises:
        MilError: It is none.
    """
    pairs = [tokens(one) for one in subtrees(parse_piece(text, "pairs", at)) if one.data == "pair"]
    return {text_of(key, at): text_of(value, at) for key, value in pairs}


def statement_of(text: str, at: int) -> Statement:
    """Read one statement."""
    if text.count("(") + text.count("[") > DEEPEST:
        check_brackets(text, at)
    try:
        tree = parse_piece(text, "statement", at)
    except MilError:
        check_brackets(text, at)  # which says more, where it is they that are wrong
        raise
    return statement_from(tree, at)


def statement_from(tree: Tree, at: int) -> Statement:
    """Return the statement of a tree."""
    if tree.data == "const":
        named, begin, content = tree.children
        value, token = value_of(content, at), cast("lark.Token", begin)
        attributes = (name_of(token, at), Argument("val", value, value.at))
        return Statement((named_of(named, at),), "const", (), attributes, at, at + start(token))
    results: list[NamedType] = []
    arguments: list[Argument] = []
    attributes: tuple[Argument, ...] = ()
    op, op_at = "", at
    for child in tree.children:
        match child.type if is_token(child) else cast("Tree", child).data:
            case "named" | "TYPED":
                results.append(named_of(child, at))
            case "argument" | "PLAIN" | "NUMBERED":
                arguments.append(argument_of(child, at))
            case "attributes":
                attributes = tuple(argument_of(one, at) for one in cast("Tree", child).children)
            case "NAMED":
                attributes = (name_of(cast("lark.Token", child), at),)
            case _:
                op, op_at = str(child), at + start(cast("lark.Token", child))
    return Statement(tuple(results), op, tuple(arguments), attributes, at, op_at)


def named_of(child: Child, at: int) -> NamedType:
    """Read a type and a name."""
    if is_token(child):
        kind, _, name = child.rpartition(">")
        begin = at + start(child)
        return NamedType(value_type(f"{kind}>", begin), name.lstrip(), begin, begin + len(child) - len(name.lstrip()))
    kind, name = cast("Tree", child).children
    found, kind_at = type_of(cast("Tree", kind), at)
    return NamedType(found, str(name), kind_at, at + start(cast("lark.Token", name)))


def name_of(token: lark.Token, at: int) -> Argument:
    """Read the usual attribute, the statement's name."""
    begin = token.index('"')
    place = at + start(token)
    literal = Literal(TEXT_TYPE, token[begin : token.rindex('"') + 1], place + token.index("string"), place + begin)
    return Argument("name", literal, place + token.index("name"))


def argument_of(child: Child, at: int) -> Argument:
    """Read a value by name."""
    if is_token(child):
        name, _, value = child.partition("=")
        begin = at + start(child)
        place = begin + len(child) - len(value.lstrip())
        if child.type == "NUMBERED":
            return Argument(name.rstrip(), scalar_literal(value.lstrip(), place), begin)
        return Argument(name.rstrip(), Reference(value.lstrip(), place), begin)
    word, content = cast("Tree", child).children
    return Argument(str(word), value_of(content, at), at + start(cast("lark.Token", word)))


def value_of(child: Child, at: int) -> Value:
    """Read a value."""
    if is_token(child):
        return Reference(str(child), at + start(child))
    tree = cast("Tree", child)
    if tree.data != "tuple":
        return literal_of(tree, at)
    items = tuple(value_of(one, at) for one in tree.children)
    return Tuple(items, items[0].at if items else at)


def literal_of(tree: Tree, at: int) -> Literal | Blob:
    """Read a literal.

    Raises:
        MilError: Its type has none.
    """
    first = tree.children[0]
    if is_token(first):
        return scalar_literal(str(first), at + start(first))
    kind, kind_at = type_of(cast("Tree", first), at)
    if not isinstance(kind, ValueType):
        raise WRONG_SORT.broken(kind_at, name="A literal", found=kind, expected="a tensor, a number or a text")
    content = tree.children[1]
    if is_token(content):
        text = content[1:-1].strip() if content.startswith("(") else str(content)
        return Literal(kind, text, kind_at, at + start(content))
    inner = cast("Tree", content)
    if inner.data == "strings":
        return Literal(kind, f"[{', '.join(tokens(inner))}]", kind_at, kind_at)
    return blob_of(inner, kind, kind_at, at)


def scalar_literal(word: str, at: int) -> Literal:
    """Read a literal of one value, such as fp16(0x1p+1)."""
    name, _, text = word.partition("(")
    blanks = len(text) - len(text.lstrip())
    return Literal(value_type(name.rstrip(), at), text[:-1].strip(), at, at + len(name) + 1 + blanks)


def blob_of(tree: Tree, kind: ValueType, kind_at: int, at: int) -> Blob:
    """Read a reference into a weights blob.

    Raises:
        MilError: It has no path or no offset, or something else.
    """
    given: dict[str, Argument] = {}
    for one in (argument_of(child, at) for child in tree.children):
        if one.name not in BLOB_PARAMETERS:
            raise UNKNOWN_PARAMETER.broken(one.at, name=one.name, op="BLOBFILE", expected="path, offset")
        if one.name in given:
            raise PARAMETER_TWICE.broken(one.at, name=one.name, op="BLOBFILE")
        given[one.name] = one
    path, offset = (blob_parameter(name, given, kind_at) for name in BLOB_PARAMETERS)
    return Blob(kind, path, offset, kind_at)


def blob_parameter(name: str, given: dict[str, Argument], kind_at: int) -> Literal:
    """Return the path or the offset of a reference into a weights blob."""
    example = BLOB_PARAMETERS[name]
    if name not in given:
        raise MISSING_PARAMETER.broken(kind_at, name=name, op="BLOBFILE", expected=example)
    value = given[name].value
    dtype = TEXT if name == "path" else "uint64"
    if not isinstance(value, Literal) or value.type.dtype != dtype or value.type.rank:
        raise WRONG_SORT.broken(given[name].at, name=name, op="BLOBFILE", found=value, expected=example)
    return value
