"""The texts of a `.pt2` file: its program and the descriptions of its weights, checked before PyTorch reads them.

PyTorch makes functions of names (`torch.ops.aten.relu.default`), lengths of expressions, and containers of tree
specifications. What is let through is what `torch.export` itself writes.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import TYPE_CHECKING, cast

import torch
from torch._export.serde.schema import SCHEMA_VERSION

from aneforge.errors import GraphError
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.torch.torch_numbers import MATH_NAMES, OPERATOR_NAMES, SYMBOLIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["check_payloads", "check_program", "parse_json"]

OPERATOR = re.compile(r"torch\.ops\.[A-Za-z]\w*\.\w+(\.\w+)?")
PLAIN_TARGETS = frozenset(
    {f"_operator.{name}" for name in OPERATOR_NAMES}
    | {f"math.{name}" for name in MATH_NAMES}
    | {f"torch.{name}" for name in SYMBOLIC_NAMES}
    | {f"torch.sym_{name}" for name in MATH_NAMES}
)
"""Functions of plain numbers that a node may name."""
SYMBOL = re.compile(r"[A-Za-z]\w{0,63}")
EXPRESSION_MOST = 4096
"""Characters of one symbolic length."""
EXPRESSION_CALLS = frozenset({
    "Add", "And", "BooleanFalse", "BooleanTrue", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "Float",
    "FloatPow", "FloatTrueDiv", "FloorDiv", "FloorToInt", "Ge", "GreaterThan", "Gt", "IntTrueDiv", "Integer", "Le",
    "LessThan", "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or", "Pow", "PowByNatural",
    "PythonMod", "Rational", "RoundDecimal", "RoundToInt", "StrictGreaterThan", "StrictLessThan", "Symbol", "ToFloat",
    "TruncToFloat", "TruncToInt", "Unequality", "Where",
})  # fmt: skip
"""Functions of symbolic lengths, as PyTorch and sympy write them."""
EXPRESSION_NODES = (
    ast.Expression, ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
CONTAINERS = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
"""Containers of inputs and outputs; another would be looked up by name, and its module imported."""


def parse_json(name: str, contents: bytes) -> object:
    """Return a text of the archive, read as JSON.

    Raises:
        GraphError: It is none.
    """
    try:
        return json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"{name} is not valid JSON: {str(error)[:120] or type(error).__name__}") from None


def every_item(tree: object) -> Iterator[tuple[str, object]]:
    """Return every name and value of a tree of JSON, without recursion."""
    stack = [tree]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            items = cast("dict[str, object]", top)
            yield from items.items()
            stack.extend(items.values())
        elif isinstance(top, list):
            stack.extend(cast("list[object]", top))


def check_program(program: object) -> None:
    """Check the names, lengths and containers of a program.

    Raises:
        GraphError: One is not what `torch.export` writes.
    """
    if not isinstance(program, dict) or "graph_module" not in program:
        raise GraphError("models/model.json holds no program")
    tree = cast("object", program)
    if "schema_version" in program:  # PyTorch says itself what a program without one misses
        check_version(cast("dict[str, object]", program)["schema_version"])
    for name, value in every_item(tree):
        if name == "expr_str":
            check_expression(value)
        elif name in ("in_spec", "out_spec", "treespec") and isinstance(value, str):
            check_tree(value)
    for node in (one for name, value in every_item(tree) if name == "nodes" for one in as_list(value)):
        target = cast("dict[str, object]", node).get("target") if isinstance(node, dict) else None
        if not isinstance(target, str) or not (OPERATOR.fullmatch(target) or target in PLAIN_TARGETS):
            raise GraphError("a node of the program calls no operator", seen=repr(target)[:120])


def check_version(version: object) -> None:
    """Check that a program is written in the form that the installed PyTorch reads.

    Raises:
        GraphError: It is of another form, or does not say of which.
    """
    major = cast("dict[str, object]", version).get("major") if isinstance(version, dict) else None
    if type(major) is int and major == SCHEMA_VERSION[0]:
        return
    raise GraphError(
        "the program is written in another version of torch.export's form",
        seen=f"schema version {repr(major)[:120]}",
        limit=f"{SCHEMA_VERSION[0]}, which PyTorch {torch.__version__} reads",
        remedy="export it again with the installed PyTorch, or install the one that it was written with",
    )


def as_list(value: object) -> list[object]:
    """Return a list, or nothing of something else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def check_expression(text: object) -> None:
    """Check that a symbolic length is arithmetic on symbols: PyTorch evaluates its text.

    Raises:
        GraphError: It is something else.
    """
    if not isinstance(text, str) or len(text) > EXPRESSION_MOST:
        raise GraphError("a symbolic length of the program is not a short text", seen=repr(text)[:120])
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise GraphError("a symbolic length of the program is not an expression", seen=repr(text)[:120]) from None
    if not all(is_arithmetic(node) for node in ast.walk(tree)):
        raise GraphError("a symbolic length of the program is more than arithmetic", seen=repr(text)[:120])


def is_arithmetic(node: ast.AST) -> bool:
    """Return whether a part of an expression is a known function, a symbol, a number or an operator."""
    if not isinstance(node, EXPRESSION_NODES):
        return False
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in EXPRESSION_CALLS
    if isinstance(node, ast.Name):
        return SYMBOL.fullmatch(node.id) is not None and (node.id in EXPRESSION_CALLS or node.id[-1].isdigit())
    if isinstance(node, ast.Constant):
        named = isinstance(node.value, str) and SYMBOL.fullmatch(node.value) is not None
        return named or (isinstance(node.value, bool | int | float) and abs(node.value) < 2**64)
    return not isinstance(node, ast.Pow | ast.LShift | ast.MatMult)


def check_tree(text: str) -> None:
    """Check that inputs or outputs are in plain containers.

    Raises:
        GraphError: They are not.
    """
    for name, value in every_item(parse_json("a tree specification", text.encode())):
        plain = value is None or isinstance(value, str)
        if name == "type" and (not plain or value not in CONTAINERS):
            raise GraphError(
                "the program takes or gives a container that is not Python's own",
                seen=repr(value)[:120],
                limit="tuple, list, dict",
                remedy="export it with these, or import the module itself",
            )
        if name == "context" and isinstance(value, str) and "__enum__" in value:
            raise GraphError("the program's containers have keys of a class of their own", seen=repr(value)[:120])


def check_payloads(config: object, folder: str, sizes: Mapping[str, int]) -> None:
    """Check that weights are plain tensors that are within their files.

    Raises:
        GraphError: One is pickled, or is larger than its file.
    """
    described = cast("dict[str, object]", config).get("config") if isinstance(config, dict) else None
    if not isinstance(described, dict):
        raise GraphError(f"the description of {folder} holds no weights")
    for name, payload in cast("dict[str, object]", described).items():
        check_payload(repr(name)[:120], payload, folder, sizes)


def check_payload(name: str, payload: object, folder: str, sizes: Mapping[str, int]) -> None:
    """Check one weight.

    Raises:
        GraphError: It is pickled, or larger than its file.
    """
    parts = cast("dict[str, object]", payload) if isinstance(payload, dict) else {}
    file = f"{folder}{parts.get('path_name')}"
    if parts.get("use_pickle") is not False:
        raise GraphError(
            f"weight {name} is pickled, and would have to be trusted",
            remedy="save the program with plain tensors on the CPU",
        )
    meta = parts.get("tensor_meta")
    if file not in sizes or not isinstance(meta, dict):
        raise GraphError(f"weight {name} has no file or no type", seen=repr(file)[:120])
    described = cast("dict[str, object]", meta)
    extents, strides = (whole_numbers(name, as_list(described.get(key))) for key in ("sizes", "strides"))
    offset = whole_numbers(name, [described.get("storage_offset")])[0]
    check_extents(f"weight {name}", extents)
    reach = offset + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=False)) + 1
    if len(strides) != len(extents) or (math.prod(extents) and reach > sizes[file]):
        raise GraphError(
            f"weight {name} is outside of its file", seen=f"{reach} elements", limit=f"{sizes[file]} bytes"
        )


def whole_numbers(name: str, items: list[object]) -> list[int]:
    """Return lengths as the archive writes them.

    Raises:
        GraphError: One is not an integer.
    """
    found = [cast("dict[str, object]", item).get("as_int") if isinstance(item, dict) else None for item in items]
    if not all(type(one) is int and one >= 0 for one in found):
        raise GraphError(f"weight {name} has a length that is not a number", seen=repr(items)[:120])
    return cast("list[int]", found)
