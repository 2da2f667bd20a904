"""The inputs of a program: their shapes with every symbolic length bound.

PyTorch names symbolic lengths by itself (`s77`), and may write one axis as an expression of another (`2*s77`). A length
is bound by its name, or by the whole shape of an input; example inputs give whole shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import torch

from aneforge.errors import GraphError, GraphTypeError
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.shapes import Input, bound_shape, check_shapes, expect_bound
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.formats.shared.shapes import Shapes

__all__ = ["Described", "bind_shapes", "describe_input"]


class Length(Protocol):
    """A symbolic length: an expression of sympy's, of which PyTorch has no types."""

    is_Integer: bool  # noqa: N815 - sympy's name
    free_symbols: set[Length]

    def subs(self, pairs: Sequence[tuple[Length, int]], /) -> Length:
        """Return it with symbols replaced."""
        ...

    def __int__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Described:
    """An input of a program."""

    input: Input
    expressions: tuple[Length | int, ...]
    """The length of every axis."""


def describe_input(name: str, traced: torch.Tensor, dtype: str) -> Described:
    """Return an input as PyTorch traced it."""
    expressions = tuple(
        expression_of(length) if isinstance(length, torch.SymInt) else length
        for length in cast("Iterable[int | torch.SymInt]", traced.shape)  # PyTorch types its shapes as plain numbers
    )
    lengths = tuple(one if isinstance(one, int) else int(one) if one.is_Integer else str(one) for one in expressions)
    return Described(Input(name, dtype, lengths), expressions)


def expression_of(length: object) -> Length:
    """Return the expression of a symbolic length, of which PyTorch has no types."""
    node = cast("object", getattr(length, "node"))  # noqa: B009 - untyped
    return cast("Length", getattr(node, "expr"))  # noqa: B009 - untyped


def bind_shapes(
    inputs: Sequence[Described],
    shapes: Shapes | None,
    ranges: Mapping[Length, object],
    file: str | None,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input.

    Raises:
        GraphError: A length is not bound, all such listed at once; or shapes contradict one another or the program.
        GraphTypeError: `shapes` is not a mapping of names to lengths and shapes.
        UnknownNameError: A name in `shapes` is none of the program's.
    """
    ports = [one.input for one in inputs]
    lengths = check_shapes(shapes, ports)
    symbols = symbol_lengths(inputs, lengths)
    for one in inputs:
        for expression in one.expressions:
            if not isinstance(expression, int) and not expression.is_Integer:
                value = evaluate(expression, symbols)
                if value is not None:
                    lengths[str(expression)] = value
    expect_bound(ports, lengths, file)
    check_ranges(symbols, ranges)
    return {one.input.name: consistent_shape(one, lengths) for one in inputs}


def symbol_lengths(inputs: Sequence[Described], lengths: Mapping[str, int | tuple[int, ...]]) -> dict[Length, int]:
    """Return the length that every symbol is given, by its name or by a shape that has it.

    Raises:
        GraphError: One is given two lengths.
    """
    found: dict[Length, int] = {}
    for one in inputs:
        whole = lengths.get(one.input.name)
        for axis, expression in enumerate(one.expressions):
            if isinstance(expression, int) or expression.is_Integer:
                continue
            for symbol in expression.free_symbols:
                direct = lengths.get(str(symbol))
                if isinstance(direct, int):
                    settle(found, symbol, direct)
            if isinstance(whole, tuple) and axis < len(whole):
                solve(found, expression, whole[axis])
    return found


def solve(found: dict[Length, int], expression: Length, length: int) -> None:
    """Take the length of the only open symbol from an expression that has it."""
    reduced = expression.subs(list(found.items()))
    symbols = list(reduced.free_symbols)
    if len(symbols) != 1:
        return
    start, step = at(reduced, symbols[0], 0), at(reduced, symbols[0], 1)
    slope = step - start
    solution = (length - start) // slope if slope else 0
    if at(reduced, symbols[0], solution) != length:
        raise GraphError(f"no length of {symbols[0]} makes {expression} this long", seen=length)
    settle(found, symbols[0], solution)


def at(expression: Length, symbol: Length, value: int) -> int:
    """Return the value of an expression of one symbol; PyTorch writes one axis as a line in another."""
    return int(expression.subs([(symbol, value)]))


def settle(found: dict[Length, int], symbol: Length, length: int) -> None:
    """Give a symbol a length.

    Raises:
        GraphError: It has another already.
    """
    if found.setdefault(symbol, length) != length:
        raise GraphError(f"dimension {str(symbol)!r} is given two lengths", seen=f"{found[symbol]} and {length}")


def evaluate(expression: Length, symbols: Mapping[Length, int]) -> int | None:
    """Return the value of an expression if all of its symbols have one.

    Raises:
        GraphError: It is not an integer.
    """
    value = expression.subs(list(symbols.items()))
    if value.free_symbols:
        return None
    if not value.is_Integer:
        raise GraphError(f"the length {expression} is not an integer", seen=str(value))
    return check_extents(f"the length {expression}", (int(value),))[0]


def consistent_shape(one: Described, lengths: Mapping[str, int | tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of an input.

    Raises:
        GraphError: A shape that the user gives contradicts the program, or its other shapes.
    """
    shape = bound_shape(one.input, lengths)
    for expression, length in zip(one.input.lengths or (), shape, strict=True):
        wanted = lengths.get(expression) if isinstance(expression, str) else expression
        if wanted != length:
            raise GraphError(
                f"input {one.input.name!r} contradicts other shapes", seen=list(shape), limit=f"{expression} = {wanted}"
            )
    return shape


def check_ranges(symbols: Mapping[Length, int], ranges: Mapping[Length, object]) -> None:
    """Check that lengths are within the ranges for which the program was traced.

    Raises:
        GraphError: One does not.
    """
    for symbol, length in symbols.items():
        bounds = ranges.get(symbol)
        if bounds is None:
            continue
        low, high = (cast("float", getattr(bounds, side)) for side in ("lower", "upper"))
        if not low <= length <= high:
            raise GraphError(
                f"dimension {str(symbol)!r} is outside of what the program was traced for",
                seen=length,
                limit=f"{low} to {high}",
                remedy="export it again with a wider range in dynamic_shapes",
            )


def example_shapes(inputs: Sequence[Described], given: Sequence[object]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of example inputs by the names of the inputs.

    Raises:
        GraphError: There are more or fewer than inputs.
        GraphTypeError: One is not a tensor, or of another element type.
    """
    tensors = [one for one in given if not isinstance(one, bool | int | float | str) and one is not None]
    if len(tensors) != len(inputs):
        raise GraphError(
            "the example inputs are not those of the program",
            seen=f"{len(tensors)} tensors",
            limit=f"{len(inputs)}: {', '.join(one.input.name for one in inputs)}",
        )
    found: dict[str, tuple[int, ...]] = {}
    for one, tensor in zip(inputs, tensors, strict=True):
        if not isinstance(tensor, torch.Tensor):
            raise GraphTypeError(f"example input {one.input.name!r} is not a tensor", seen=type(tensor).__name__)
        if tensor.dim() != len(one.expressions):
            raise GraphError(
                f"example input {one.input.name!r} has a different rank than the program's",
                seen=list(tensor.shape),
                limit=list(one.input.lengths or ()),
            )
        found[one.input.name] = tuple(tensor.shape)
    return found
