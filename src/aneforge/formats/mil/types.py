"""Types of MIL text, read."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import lark

from aneforge.errors import nearest_names
from aneforge.formats.mil.diagnostics import MilError, list_names
from aneforge.formats.mil.elements import ELEMENTS
from aneforge.formats.mil.grammar import Child, Tree, is_token, start, tokens
from aneforge.formats.mil.syntax import ListType, StateType, Type, ValueType
from aneforge.formats.mil.text_rules import TOO_DEEP, TYPE_TOO_LARGE, UNEXPECTED, UNKNOWN_DTYPE, WRONG_SORT

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["type_of", "value_type"]

LONGEST_EXTENT = 18
"""Digits of a length; more elements than that are in no memory."""
MOST_AXES = 64
"""NumPy's arrays have no more."""
DEEPEST = 3
"""Types in one another: a list of tensors of an element type."""
TYPES_KEPT = 4096
LENGTH = re.compile(r"\?|[0-9]+", re.ASCII)
SORTS = "tensor<fp16, […]>, state<tensor<…>> or list<…>"


def type_of(tree: Tree, at: int, depth: int = 0) -> tuple[Type, int]:
    """Return the type of a tree, and where it begins.

    Raises:
        MilError: No such type is known, or it is made of others too deep.
    """
    first = cast("lark.Token", tree.children[0])
    begin = at + start(first)
    if len(tree.children) == 1:
        return value_type(str(first), begin), begin
    if depth > DEEPEST:
        raise TOO_DEEP.broken(begin, found=f"{depth} types in one another", expected=f"up to {DEEPEST}")
    return generic_type(str(first), tree.children[1:], begin, at, depth), begin


def generic_type(name: str, inner: Sequence[Child], begin: int, at: int, depth: int) -> Type:
    """Return a type that is made of others: a state, a list, or a tensor that is written unusually.

    Raises:
        MilError: No such type is known.
    """
    parts = [part if is_token(part) else cast("Tree", part) for part in inner]
    first = parts[0]
    kind = type_of(first, at, depth + 1)[0] if isinstance(first, lark.Tree) and first.data == "type" else None
    match name, kind, parts[1:]:
        case "tensor", ValueType(extents=None), [lark.Tree(data="extents") as extents]:
            return value_type(f"tensor<{kind}, [{','.join(tokens(extents))}]>", begin)
        case "state", ValueType(extents=tuple()), []:
            return StateType(kind)
        case "list", ValueType(), [lark.Token() as length]:
            return ListType(kind, extent(str(length), begin))
        case _:
            raise WRONG_SORT.broken(begin, name=name, found=f"{name}<…>", expected=SORTS)


def value_type(text: str, at: int) -> ValueType:
    """Return the type of a tensor or of one value.

    >>> value_type("tensor<fp16, [1, ?]>", 0)
    ValueType(dtype='fp16', extents=(1, None))

    Raises:
        MilError: There is no such element type, or the shape is larger than any.
    """
    try:
        return known_type(text)
    except MilError as error:
        error.at += at
        raise


@lru_cache(TYPES_KEPT)
def known_type(text: str) -> ValueType:
    """Return a type by its text; programs repeat few types many times."""
    name, bracket, rest = text.partition("<")
    if not bracket:
        check_dtype(name, 0)
        return ValueType(name)
    dtype, _, shape = rest.partition(",")
    check_dtype(dtype.strip(), len(name) + 1)
    lengths = shape[shape.index("[") + 1 : shape.index("]")]
    words = [word.strip() for word in lengths.split(",")] if lengths.strip() else []
    place = text.index("[")
    if len(words) > MOST_AXES:
        raise TYPE_TOO_LARGE.broken(place, found=f"{len(words)} axes", expected=f"{MOST_AXES} axes")
    return ValueType(dtype.strip(), tuple(extent(word, place) for word in words))


def extent(word: str, at: int) -> int | None:
    """Return the length of an axis; None for one that is not known.

    Raises:
        MilError: It is not a length, or too long to be one.
    """
    if not LENGTH.fullmatch(word):
        raise UNEXPECTED.broken(at, found=repr(word), expected="a length or '?'")
    if len(word) > LONGEST_EXTENT:
        raise TYPE_TOO_LARGE.broken(at, found=word, expected=f"{LONGEST_EXTENT} digits")
    return None if word == "?" else int(word)


def check_dtype(name: str, at: int) -> None:
    """Check that an element type exists.

    Raises:
        MilError: It does not.
    """
    if name not in ELEMENTS:
        close = nearest_names(name, ELEMENTS)
        raise UNKNOWN_DTYPE.broken(at, name=name, expected=list_names(close or ["fp16", "int32", "bool", "string"]))
