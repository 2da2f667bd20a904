"""The grammar of MIL text: a piece of a program in, its tree out, or the exact place where it stops being one.

Types and scalar literals, of which every statement has many, are single words of the grammar where they are written as
compilers write them, and so are a type with a name, a parameter that is a name or a number, the usual attribute, and
the beginning of a const. The other rules take them apart where they are written otherwise, and so find the
place of a mistake.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

import lark

from aneforge.formats.mil.diagnostics import list_names
from aneforge.formats.mil.text_rules import UNEXPECTED

if TYPE_CHECKING:
    from aneforge.formats.mil.diagnostics import MilError

__all__ = ["Child", "Tree", "is_token", "parse_piece", "start", "subtrees", "tokens"]

GRAMMAR = r"""
    head: "program" "(" NUMBER ")"
    function: "func" NAME "<" NAME ">" "(" [_named ("," _named)*] ")"
    tail: "->" "(" [NAME ("," NAME)*] ")" ";"
    statement: [_named ("," _named)* "="] NAME "(" [_argument ("," _argument)*] ")" [attributes | NAMED] ";"
             | _named "=" CONST _value "]" ";" -> const
    _named: TYPED | named
    named: type NAME
    _argument: PLAIN | NUMBERED | argument
    argument: NAME "=" _value
    attributes: "[" [_argument ("," _argument)*] "]"
    _value: NAME | literal | tuple
    tuple: "(" [_value ("," _value)*] ")"
    literal: SCALAR
           | type NUMBERS
           | type "(" (NUMBER | NAME | STRING | strings | blob) ")"
    strings: "[" STRING ("," STRING)* "]"
    blob: "BLOBFILE" "(" _argument ("," _argument)* ")"
    type: TENSOR | NAME | NAME "<" (type | extents | NUMBER | UNKNOWN) ("," (type | extents | NUMBER | UNKNOWN))* ">"
    extents: "[" [(NUMBER | UNKNOWN) ("," (NUMBER | UNKNOWN))*] "]"
    pairs: "dict" "<" type "," type ">" "(" "{" [pair ("," pair)*] "}" ")"
    pair: "{" STRING "," STRING "}"

    TYPED.4: /tensor<[a-z][a-z0-9]*, ?\[[0-9?, ]*\]>[ \t]+[A-Za-z_][A-Za-z0-9_]*/
    TENSOR.3: /tensor[ \t]*<[ \t]*[a-z][a-z0-9]*[ \t]*,[ \t]*\[[0-9?, \t]*\][ \t]*>/
    SCALAR.3: /[a-z][a-z0-9]*[ \t]*\([ \t]*("[^"\\\n]*(\\.[^"\\\n]*)*"|[^()\[\]{}",;=\s]+)[ \t]*\)/
    PLAIN.3: /[A-Za-z_][A-Za-z0-9_]*[ \t]*=[ \t]*[A-Za-z_][A-Za-z0-9_]*(?=[ \t]*[,)\]])/
    NUMBERED.3: /[A-Za-z_][A-Za-z0-9_]*[ \t]*=[ \t]*[a-z][a-z0-9]*\([^()\[\]{}",;=\s]+\)(?=[ \t]*[,)\]])/
    CONST.3: /const\(\)\[[ \t]*name[ \t]*=[ \t]*string\("[^"\\\n]*(\\.[^"\\\n]*)*"\)[ \t]*,[ \t]*val[ \t]*=/
    NAMED.3: /\[[ \t]*name[ \t]*=[ \t]*string\([ \t]*"[^"\\\n]*(\\.[^"\\\n]*)*"[ \t]*\)[ \t]*\]/
    NUMBERS.2: /\(\s*\[[^()"]*\]\s*\)/
    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    NUMBER: /[-+]?(\.?[0-9][0-9A-Fa-f.xX]*([pPeE][-+]?[0-9]+)?|inf|nan)/
    STRING: /"[^"\\\n]*(\\.[^"\\\n]*)*"/
    UNKNOWN: "?"
    %ignore /[ \t\r\n\f\v]+/
"""
"""A word with a number has precedence: what it matches is not taken apart."""
RULES = ["head", "function", "statement", "tail", "pairs"]
WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a quoted text",
    "TENSOR": "a type",
    "TYPED": "a type",
    "SCALAR": "a literal",
    "NUMBERS": "a list of numbers",
    "PLAIN": "a parameter",
    "NUMBERED": "a parameter",
    "CONST": "a name",
    "NAMED": "'['",
    "UNKNOWN": "'?'",
    "$END": "'{'",
    "<END-OF-FILE>": "'{'",
}
"""Words for those of the grammar; after the head of a program or function, where its text ends, a brace follows."""
SUMMARY = {
    frozenset({"a name", "a type"}): "a type",
    frozenset({"a name", "a parameter"}): "a parameter",
    frozenset({"a name", "a parameter", "')'"}): "a parameter or ')'",
    frozenset({"a name", "a literal", "a type", "'('"}): "a value",
}
"""Words for what several alternatives come to."""
Tree = lark.Tree[lark.Token]
Child = lark.Token | Tree


class TextParser(Protocol):
    """What is needed of lark here, typed."""

    def parse(self, text: str, start: str) -> Tree:
        """Return the tree of a text."""
        ...


@cache
def lark_parser() -> lark.Lark:
    """Return the parser of MIL text."""
    return lark.Lark(GRAMMAR, parser="lalr", start=RULES, maybe_placeholders=False)


@cache
def parser() -> TextParser:
    """Return the parser of MIL text, typed."""
    return cast("TextParser", lark_parser())


def parse_piece(text: str, rule: str, at: int) -> Tree:
    """Return the tree of a piece that begins at a place.

    Raises:
        MilError: It is not what the rule says.
    """
    try:
        return parser().parse(text, rule)
    except lark.exceptions.UnexpectedInput as error:
        raise build_unexpected_error(error, text, at) from None


def build_unexpected_error(error: lark.exceptions.UnexpectedInput, text: str, at: int) -> MilError:
    """Return the error for a piece that breaks the grammar."""
    if isinstance(error, lark.exceptions.UnexpectedToken):
        wanted = error.accepts or error.expected
        token = cast("lark.Token", error.token)  # pyright: ignore[reportUnknownMemberType] - lark does not type it
        place, found = (len(text.rstrip()), "") if token.type == "$END" else (start(token), str(token))
    else:
        wanted = cast("set[str]", getattr(error, "allowed", None) or set[str]())
        place = error.pos_in_stream or 0
        found = text[place : place + 1]
    words = sorted({WORDS.get(word) or terminal_text(word) for word in wanted})
    expected = SUMMARY.get(frozenset(words)) or list_names(words)
    return UNEXPECTED.broken(at + place, found=repr(found) if found else "the end", expected=expected)


@cache
def terminal_text(name: str) -> str:
    """Return a sign or a keyword of the grammar as it is written."""
    return next((repr(one.pattern.value) for one in lark_parser().terminals if one.name == name), name)


def is_token(child: Child) -> TypeGuard[lark.Token]:
    """Return whether a part of a tree is a word."""
    return isinstance(child, lark.Token)


def start(token: lark.Token) -> int:
    """Return where a word begins in its piece."""
    return token.start_pos or 0


def subtrees(tree: Tree) -> list[Tree]:
    """Return the parts of a tree that are trees themselves."""
    return [child for child in tree.children if isinstance(child, lark.Tree)]


def tokens(tree: Tree) -> list[str]:
    """Return the words of a tree."""
    return [str(child) for child in tree.children if isinstance(child, lark.Token)]
