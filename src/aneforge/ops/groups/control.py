"""Control flow and lists.

A list is a tensor of its elements, stacked along a first axis; it keeps its length. MIL's `dynamic_length`, which lets
a list grow, is therefore accepted and without effect.
"""

from __future__ import annotations

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import NOWHERE, dtype_attribute
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.op import Category, MilStatus, Op, Support, Trait
from aneforge.ops.results import Movement
from aneforge.ops.sampling import NUMBERS, Chooser, Fill, Sample, draw_shape, draw_type
from aneforge.ops.shapes import expect_integer, expect_rank, expect_within
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType

CATEGORY = Category.STATE
LIST = frozenset({Trait.LIST})
LISTS = Category.DETECTION
INTERNAL = Support(floor=None, mil_since=None, mil_otherwise=MilStatus.INTERNAL)


def same_types(values: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
    """Return the types of the values that go in, one or more, which are those that come out."""
    if not values:
        raise GraphError("there are no values", limit="one or more")
    return values


def branch_types(
    pred: TensorType, true_values: tuple[TensorType, ...], false_values: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    """Return the types of the values, which both branches must have."""
    if pred != TensorType((), "bool"):
        raise GraphError("the condition is not one bool", seen=pred, limit="bool[]")
    if len(true_values) != len(false_values):
        raise GraphError(
            "the branches have different numbers of values", seen=len(false_values), limit=len(true_values)
        )
    for place, (one, other) in enumerate(zip(true_values, false_values, strict=True)):
        if one != other:
            raise GraphError(f"value {place} of the branches is of different types", seen=other, limit=one)
    return same_types(true_values)


def branch(pred: Array, true_values: tuple[Array, ...], false_values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return the values of the branch that is taken."""
    return true_values if pred else false_values


def list_type(*, init_length: int, elem_shape: tuple[int, ...], dtype: str, **_: object) -> TensorType:
    """Return the type of a list."""
    return TensorType((init_length, *elem_shape), dtype)


def zero_list(*, init_length: int, elem_shape: tuple[int, ...], dtype: str, **_: object) -> Array:
    """Return a list of zeros."""
    return np.zeros((init_length, *elem_shape), meaning_dtype(dtype))


def expect_list(ls: TensorType) -> None:
    """Check that a tensor is a list.

    Raises:
        GraphError: It has no axis.
    """
    if not ls.rank:
        raise GraphError("one number is not a list", seen=ls, limit="a tensor of one axis or more")


def places(indices: Array, length: int) -> Array:
    """Return indices as places of a list.

    Raises:
        GraphError: The list has no such place.
    """
    expect_within(indices, 0, length - 1, "the list has no such place")
    return indices.astype(np.intp)


def length_type(ls: TensorType) -> TensorType:
    """Return the type of a length."""
    expect_list(ls)
    return TensorType((), "int32")


def length_of(ls: Array) -> Array:
    """Return the number of elements."""
    return np.array(len(ls), np.int32)


def read_type(ls: TensorType, index: TensorType) -> TensorType:
    """Return the type of an element."""
    expect_list(ls)
    expect_integer(index, "index")
    expect_rank(index, 0, what="index")
    return ls.with_shape(*ls.shape[1:])


def read(ls: Array, index: Array) -> Array:
    """Return one element."""
    return np.asarray(ls[places(index, len(ls))])


def write_type(ls: TensorType, index: TensorType, value: TensorType) -> TensorType:
    """Return the type of the list, of whose elements' type the value is."""
    element = read_type(ls, index)
    if value != element:
        raise GraphError("the value is not of the elements' type", seen=value, limit=element)
    return ls


def write(ls: Array, index: Array, value: Array) -> Array:
    """Return the list with one element replaced."""
    result = ls.copy()
    result[places(index, len(ls))] = value
    return result


def gather_type(ls: TensorType, indices: TensorType) -> TensorType:
    """Return the type of several elements, stacked."""
    expect_list(ls)
    expect_integer(indices, "indices")
    expect_rank(indices, 1, what="indices")
    return ls.with_shape(indices.shape[0], *ls.shape[1:])


def scatter_type(ls: TensorType, indices: TensorType, value: TensorType) -> TensorType:
    """Return the type of the list, some of whose elements the value stacks."""
    elements = gather_type(ls, indices)
    if value != elements:
        raise GraphError("the value does not stack an element for each index", seen=value, limit=elements)
    return ls


def draw_values(chooser: Chooser) -> tuple[Fill, ...]:
    """Draw a few values."""
    return tuple(Fill(draw_type(chooser, ["fp16", "int32", "bool"], 0, 3)) for _ in range(chooser.integer(1, 3)))


def sample_branch(chooser: Chooser) -> Sample:
    """Draw a condition and the values of both branches."""
    values = draw_values(chooser)
    return Sample({"pred": Fill(TensorType((), "bool")), "true_values": values, "false_values": values})


def sample_loop(chooser: Chooser) -> Sample:
    """Draw the variables of a loop."""
    return Sample({"loop_vars": draw_values(chooser)})


def sample_call(chooser: Chooser) -> Sample:
    """Draw the arguments of a function."""
    return Sample({"values": draw_values(chooser)})


def sample_make_list(chooser: Chooser) -> Sample:
    """Draw the form of a list."""
    attributes = {"init_length": chooser.integer(0, 4), "elem_shape": draw_shape(chooser, 0, 3)}
    flag = chooser.choose([True, False])
    return Sample({}, {**attributes, "dynamic_length": flag, "dtype": chooser.choose(NUMBERS)})


def draw_list(chooser: Chooser) -> Fill:
    """Draw a list."""
    dtype = chooser.choose(NUMBERS)
    return Fill(TensorType((chooser.integer(1, 5), *draw_shape(chooser, 0, 2)), dtype))


def sample_length(chooser: Chooser) -> Sample:
    """Draw a list to measure."""
    return Sample({"ls": draw_list(chooser)})


def sample_read(chooser: Chooser) -> Sample:
    """Draw a list and a place of it."""
    ls = draw_list(chooser)
    return Sample({"ls": ls, "index": Fill(TensorType((), "int32"), 0, ls.type.shape[0] - 1)})


def sample_write(chooser: Chooser) -> Sample:
    """Draw a list, a place of it and a new element."""
    ls = draw_list(chooser)
    index = Fill(TensorType((), "int32"), 0, ls.type.shape[0] - 1)
    return Sample({"ls": ls, "index": index, "value": Fill(ls.type.with_shape(*ls.type.shape[1:]))})


def sample_gather(chooser: Chooser) -> Sample:
    """Draw a list and places of it, some perhaps twice."""
    ls = draw_list(chooser)
    return Sample({"ls": ls, "indices": Fill(TensorType((chooser.integer(0, 5),), "int32"), 0, ls.type.shape[0] - 1)})


def sample_scatter(chooser: Chooser) -> Sample:
    """Draw a list, places of it, some perhaps twice, and new elements."""
    ls = draw_list(chooser)
    count = chooser.integer(0, 5)
    indices = Fill(TensorType((count,), "int32"), 0, ls.type.shape[0] - 1)
    return Sample({"ls": ls, "indices": indices, "value": Fill(ls.type.with_shape(count, *ls.type.shape[1:]))})


COND = Op(
    name="cond",
    category=CATEGORY,
    summary="the values of one branch or of the other, as pred is true or false",
    operands=(Operand("pred"), Operand("true_values", variadic=True), Operand("false_values", variadic=True)),
    infer=branch_types,
    meaning=branch,
    sample=sample_branch,
    movement=Movement(("true_values", "false_values")),
    support=INTERNAL,
    decompositions=lambda: (decompositions.movement.BRANCHES,),
    in_mil=True,
    gradient=lambda: gradients.moving.BRANCHES,
)
WHILE_LOOP = Op(
    name="while_loop",
    category=CATEGORY,
    summary="a body repeated on its variables while a condition on them holds",
    operands=(Operand("loop_vars", variadic=True),),
    infer=same_types,
    meaning=None,
    no_meaning="condition and body are functions of the program",
    sample=sample_loop,
    support=INTERNAL,
    in_mil=True,
    gradient=lambda: gradients.reasons.FUNCTIONS,
)
CALL = Op(
    name="call",
    category=CATEGORY,
    summary="a function of the program that gives values of the types that it takes",
    operands=(Operand("values", variadic=True),),
    infer=same_types,
    meaning=None,
    no_meaning="it calls a function of the program",
    sample=sample_call,
    support=INTERNAL,
    in_mil=True,
    gradient=lambda: gradients.reasons.FUNCTIONS,
)
MAKE_LIST = Op(
    name="make_list",
    category=LISTS,
    summary="a list of zeros",
    operands=(),
    attributes=(
        Attribute("init_length", AttributeKind.INTEGER, 1, least=0),
        Attribute("dynamic_length", AttributeKind.FLAG, default=True),
        Attribute("elem_shape", AttributeKind.INTEGERS, least=0),
        dtype_attribute("fp32"),
    ),
    infer=list_type,
    meaning=zero_list,
    sample=sample_make_list,
    traits=LIST,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
LIST_LENGTH = Op(
    name="list_length",
    category=LISTS,
    summary="the number of elements of a list",
    operands=(Operand("ls"),),
    infer=length_type,
    meaning=length_of,
    sample=sample_length,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)
LIST_READ = Op(
    name="list_read",
    category=LISTS,
    summary="ls[index]",
    operands=(Operand("ls"), Operand("index")),
    infer=read_type,
    meaning=read,
    sample=sample_read,
    movement=Movement(("ls",)),
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.looking_up.READ_ELEMENT,
)
LIST_WRITE = Op(
    name="list_write",
    category=LISTS,
    summary="ls with value at index",
    operands=(Operand("ls"), Operand("index"), Operand("value")),
    infer=write_type,
    meaning=write,
    sample=sample_write,
    traits=LIST,
    movement=Movement(("ls", "value")),
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.looking_up.WRITTEN_ELEMENT,
)
LIST_GATHER = Op(
    name="list_gather",
    category=LISTS,
    summary="ls[i] for every index i, stacked",
    operands=(Operand("ls"), Operand("indices")),
    infer=gather_type,
    meaning=read,
    sample=sample_gather,
    movement=Movement(("ls",)),
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.looking_up.GATHERED_ELEMENTS,
)
LIST_SCATTER = Op(
    name="list_scatter",
    category=LISTS,
    summary="ls with the elements of value at the indices, the last one where an index comes twice",
    operands=(Operand("ls"), Operand("indices"), Operand("value")),
    infer=scatter_type,
    meaning=write,
    sample=sample_scatter,
    traits=LIST,
    movement=Movement(("ls", "value")),
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.looking_up.SCATTERED_ELEMENTS,
)
