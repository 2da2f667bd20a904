"""Which opset a function needs: the lowest whose operations have every parameter that it gives, in its element type.

The opsets are those of `aneforge.formats.mil.opsets`. A parameter that came later than an operation is left out where
it says what the operation did before, which is its default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.mil.calls import mil_ops
from aneforge.formats.mil.constexpr import PACKED
from aneforge.formats.mil.elements import TEXT
from aneforge.formats.mil.literals import array_of, scalar_of
from aneforge.formats.mil.opsets import ANY, OPSETS, STATES, parameters_at, public_operations
from aneforge.formats.mil.syntax import Blob, Immediate, ListType, Literal, Reference, StateType, Tuple, ValueType
from aneforge.graph.precision import NARROWED
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.errors import Location
    from aneforge.formats.mil.syntax import Argument, Function, Statement, Type, Value
    from aneforge.ops.op import Op

__all__ = ["find_needed_opset", "for_opset"]

LATER_VALUES = {
    ("pad_type", "same_lower"): "ios16",
    **{("dtype", dtype): "ios17" for dtype in ("int16", "int8", "uint16", "uint8")},
}
"""Values of parameters that came later than the parameter, whatever the operation."""
HALF_PORTS = "ios16"
"""The first opset whose ports can be fp16."""
HALVED = "write af.to_fp16(graph).graph"
"""What helps a floating type that Core ML does not take."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A parameter as a statement gives it: its element types, and its value where that is known."""

    name: str
    dtypes: frozenset[str]
    value: Literal | None


def find_needed_opset(function: Function, places: Mapping[str, Location]) -> str:
    """Return the lowest opset that has all that a function uses; `places` says where the user made results.

    Raises:
        NotSupportedError: No public operation takes what a statement gives; the error names the place.
    """
    kinds = types_of(function)
    known = literals(function)
    needed = [port_opset(function, kinds), OPSETS[0]]
    for statement in calls(function):
        try:
            needed.append(statement_opset(statement, kinds, known))
        except NotSupportedError as error:
            error.location = next((places[one.name] for one in statement.results if one.name in places), None)
            raise
    return max(needed)


def port_opset(function: Function, kinds: Mapping[str, Type]) -> str:
    """Return the lowest opset that has the ports of a function."""
    ports = [port.type for port in function.inputs] + [kinds[output.name] for output in function.outputs]
    if any(isinstance(kind, StateType) for kind in ports):
        return STATES
    half = any(isinstance(kind, ValueType) and kind.dtype == "fp16" for kind in ports)
    return HALF_PORTS if half else OPSETS[0]


def statement_opset(statement: Statement, kinds: Mapping[str, Type], known: Mapping[str, Literal]) -> str:
    """Return the lowest opset that has an operation with the parameters that a statement gives.

    Raises:
        NotSupportedError: None has.
    """
    given = [type_operand(argument, kinds, known) for argument in parameters_of(statement)]
    check_lists(statement, kinds)
    check_cast(statement, kinds)
    public = public_operations().get(statement.op)
    if public is None:
        raise NotSupportedError(
            "it is not a public operation of Core ML",
            operation=statement.op,
            remedy="build it from other operations, or write MIL text or a network description",
        )
    entry = mil_ops().get(statement.op)
    earliest = entry.opset if entry is not None and not is_packed(statement) else OPSETS[0]
    first = max(earliest, *(value_opset(one) for one in given), OPSETS[0])
    for opset in OPSETS[OPSETS.index(first) :]:
        taken = parameters_at(public, opset)
        if taken is not None and not any(is_refused(one, taken, entry) for one in given):
            return opset
    newest = parameters_at(public, OPSETS[-1]) or {}
    wrong = next(one for one in given if is_refused(one, newest, entry))
    raise NotSupportedError(
        f"Core ML does not take {wrong.name} in that form",
        operation=statement.op,
        seen=", ".join(sorted(wrong.dtypes)),
        limit=newest.get(wrong.name) or f"no {wrong.name}",
        remedy=type_remedy(wrong, newest),
    )


def type_remedy(wrong: Typed, taken: Mapping[str, str]) -> str | None:
    """Return what helps a parameter of a different element type than those that are taken."""
    if wrong.name not in taken:
        return None
    halved = "fp16" in taken[wrong.name].split() and wrong.dtypes <= NARROWED.keys()
    return f"{HALVED}, or cast it" if halved else "cast it"


def is_packed(statement: Statement) -> bool:
    """Return whether a compressed weight is in the form of opsets before that of the op table."""
    return statement.op in PACKED and any(attribute.name == "shape" for attribute in statement.attributes)


def check_lists(statement: Statement, kinds: Mapping[str, Type]) -> None:
    """Check that what reads a list reads one that the function made.

    Raises:
        NotSupportedError: It reads a tensor, which a graph takes for one.
    """
    for argument in statement.arguments:
        lists = argument.name == "ls" and isinstance(argument.value, Reference)
        if lists and not isinstance(kinds[cast("Reference", argument.value).name], ListType):
            raise NotSupportedError(
                "it reads a tensor as a list",
                operation=statement.op,
                remedy="make the list with make_list, or use gather",
            )


def check_cast(statement: Statement, kinds: Mapping[str, Type]) -> None:
    """Check that a cast is to an element type from which there is one too.

    Raises:
        NotSupportedError: Core ML has no cast to it.
    """
    if statement.op != "cast":
        return
    dtype = dtype_of(Reference(statement.results[0].name), kinds)
    taken = public_operations()["cast"]["ios17"]["x"]
    if dtype not in taken.split():
        raise NotSupportedError(
            "Core ML does not take a cast to that type",
            operation=statement.op,
            seen=dtype,
            limit=taken,
            remedy=HALVED if dtype in NARROWED else None,
        )


def value_opset(given: Typed) -> str:
    """Return the first opset that has the value of a parameter."""
    literal = given.value
    text = "" if literal is None or literal.type.dtype != TEXT or literal.type.rank else str(scalar_of(literal))
    return LATER_VALUES.get((given.name, text), OPSETS[0])


def for_opset(function: Function, opset: str) -> Function:
    """Return a function without the parameters that an opset does not have yet, and without consts that none reads."""
    statements: list[Statement] = []
    for statement in function.statements:
        taken = parameters_at(public_operations().get(statement.op, {}), opset)
        if statement.op == "const" or taken is None:
            statements.append(statement)
            continue
        kept = tuple(argument for argument in statement.arguments if argument.name in taken)
        if statement.op == "topk" and len(statement.results) == 1:  # no indices, so no element type of theirs
            kept = tuple(argument for argument in kept if argument.name != "output_indices_dtype")
        statements.append(replace(statement, arguments=kept))
    read = {name for one in statements for argument in one.arguments for name in names_in(argument.value)}
    read |= {output.name for output in function.outputs}
    used = tuple(one for one in statements if one.op != "const" or one.results[0].name in read)
    return replace(function, opset=opset, statements=used)


def is_refused(given: Typed, taken: Mapping[str, str], entry: Op | None) -> bool:
    """Return whether a parameter cannot be given, nor be left out because it says what holds anyway."""
    if given.name not in taken:
        return not is_default(given, entry)
    return taken[given.name] != ANY and not given.dtypes <= set(taken[given.name].split())


def is_default(given: Typed, entry: Op | None) -> bool:
    """Return whether a parameter has the value that the op table gives it by default."""
    attribute = next((one for one in entry.attributes if one.name == given.name), None) if entry is not None else None
    if attribute is None or given.value is None:
        return False
    literal = given.value
    value = array_of(literal).reshape(-1).tolist() if literal.type.rank else scalar_of(literal)
    try:
        return attribute.checked(value) == attribute.default
    except GraphError:
        return False


def type_operand(argument: Argument, kinds: Mapping[str, Type], known: Mapping[str, Literal]) -> Typed:
    """Return a parameter with its element types."""
    values = argument.value.items if isinstance(argument.value, Tuple) else (argument.value,)
    literal = known.get(values[0].name) if len(values) == 1 and isinstance(values[0], Reference) else None
    return Typed(argument.name, frozenset(dtype_of(one, kinds) for one in values), literal)


def dtype_of(value: Value, kinds: Mapping[str, Type]) -> str:
    """Return the element type of a value."""
    if isinstance(value, Literal | Blob | Immediate):
        return value.type.dtype
    kind = kinds[value.name] if isinstance(value, Reference) else None
    match kind:
        case StateType():
            return kind.held.dtype
        case ListType():
            return kind.element.dtype
        case ValueType():
            return kind.dtype
        case None:
            raise TypeError("a parameter is one value, or several of them")


def types_of(function: Function) -> dict[str, Type]:
    """Return the types of everything that has a name in a function."""
    results = [result for statement in function.statements for result in statement.results]
    return {port.name: port.type for port in (*function.inputs, *results)}


def literals(function: Function) -> dict[str, Literal]:
    """Return the values of consts that are in a function, by name."""
    return {
        statement.results[0].name: attribute.value
        for statement in function.statements
        if statement.op == "const"
        for attribute in statement.attributes
        if attribute.name == "val" and isinstance(attribute.value, Literal)
    }


def calls(function: Function) -> Iterator[Statement]:
    """Yield the statements that call an operation."""
    return (statement for statement in function.statements if statement.op != "const")


def parameters_of(statement: Statement) -> Iterator[Argument]:
    """Yield the parameters of a statement, those in its attributes too."""
    yield from statement.arguments
    yield from (attribute for attribute in statement.attributes if attribute.name != "name")


def names_in(value: Value) -> Iterator[str]:
    """Yield the names in a value."""
    for one in value.items if isinstance(value, Tuple) else (value,):
        if isinstance(one, Reference):
            yield one.name
