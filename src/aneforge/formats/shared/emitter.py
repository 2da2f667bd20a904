"""Operations of the op table, put into the graph for one node of a model, or computed at once.

An operation whose operands are all constants is evaluated by the table's own meaning and becomes a constant, rounded to
its element type; that is all there is to folding, and shape arithmetic needs nothing more. What is folded is bounded,
in one result and over the model; past the bounds the operation stays in the graph, where it means the same.

The methods below `apply` are the small vocabulary in which the operators are written. They take a Python number
wherever they take a second operand; it gets the element type of the first.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.shared.extents import ELEMENTS_MOST, EXTENT_MOST, RANK_MOST
from aneforge.formats.shared.findings import Reason, TooLargeModelError, UnsupportedNodeError
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense, Int8Affine
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.op import Trait
from aneforge.ops.shapes import normalise_axis
from aneforge.ops.table import find_op
from aneforge.ops.types import Array, TensorType, is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.op import Op

__all__ = ["Budget", "Emitter"]

NODES_MOST = 100_000
"""Operations of one import, folded ones counted; an unrolled loop is the usual way past it."""
FOLD_MOST_BYTES = 64 * 2**20
"""A folded result may be this large whatever it came from."""
FOLD_MOST_GROWTH = 4
"""A folded result may be this many times as large as its operands, as widened weights are."""
FOLD_ALL_BYTES = 2**30
"""All folded results together may be this large, or this many times the model's own weights: FOLD_MOST_GROWTH."""
WORK_BYTES = 8
"""Bytes of a number while an operation is folded: meanings compute in the widest types."""
WORK_GROWTH = 32
"""What widening the model's own weights may take while it is done, in their bytes: int4 read and made in WORK_BYTES."""
FOLD_SMALL_BYTES = 2**16
"""Results that are folded whatever they came from, such as a layer's parameters; they count like others."""
FOLD_FREE_BYTES = 2**10
"""Results that count for nothing: shapes, axes. All that an import can make of them are NODES_MOST times as many."""
FOLD_MOST_MACS = 10**9
"""Multiply-accumulates of one folded operation."""
KNOWN_MOST = 2**26
"""Numbers of a table that a converter makes by itself, such as the places of all elements."""


@dataclass(slots=True)
class Budget:
    """What an import may still make."""

    nodes: int = NODES_MOST
    folded: int = FOLD_ALL_BYTES
    weights: int = 0
    """Bytes of the model's own weights."""
    arranged: dict[tuple[int, str, tuple[int, ...]], tuple[Constant, Constant]] = field(
        init=False, default_factory=dict[tuple[int, str, tuple[int, ...]], "tuple[Constant, Constant]"]
    )
    """Constants in another order or shape, with those that they were made from, by the identity of the latter: every
    iteration of a loop has the same."""

    def arrange(self, constant: Constant, how: str, form: tuple[int, ...], make: Callable[[], Constant]) -> Constant:
        """Return a constant in another order or shape: one object, however often it is asked for."""
        key = id(constant), how, form
        if key not in self.arranged:
            self.arranged[key] = constant, make()  # the constant is kept, so that no other has its identity
        return self.arranged[key][1]

    def take_nodes(self, count: int = 1) -> None:
        """Count operations, or nodes of a body that is run once more.

        Raises:
            TooLargeModelError: There are too many.
        """
        self.nodes -= count
        if self.nodes < 0:
            raise TooLargeModelError(
                "the model unrolls to too many operations",
                seen=f"more than {NODES_MOST}",
                limit=NODES_MOST,
                remedy="shorten loops and sequences, or import the loop's body by itself",
            )

    def may_fold(self, size: int, operands: int, work: int = 0) -> bool:
        """Return whether a result of so many bytes may be folded from operands of so many, and count it.

        `work` is what computing it takes for a while, which must fit in addition to what was folded before.
        """
        if size <= FOLD_FREE_BYTES:
            return True
        if size > FOLD_SMALL_BYTES and size > max(FOLD_MOST_BYTES, FOLD_MOST_GROWTH * operands):
            return False
        if size > self.folded or work > max(self.folded, WORK_GROWTH * self.weights):
            return False
        self.folded -= size
        return True


@dataclass(frozen=True, slots=True)
class Emitter:
    """Makes operations at one place of the model."""

    location: Location | None
    budget: Budget

    # One operation.

    def apply(self, op: str, operands: Mapping[str, Argument | None], **attributes: object) -> Value:
        """Return the first result of an operation."""
        return self.apply_all(op, operands, **attributes)[0]

    def apply_all(self, op: str, operands: Mapping[str, Argument | None], **attributes: object) -> tuple[Value, ...]:
        """Return all results of an operation, as constants where all operands are.

        Raises:
            GraphError: The operands do not fit the operation, or a result is larger than any tensor.
            TooLargeModelError: The model unrolls to too much.
        """
        self.budget.take_nodes()
        entry = find_op(op)
        attributes = dict(entry.attributes_by_name(op, attributes))
        given = {name: argument for name, argument in operands.items() if argument is not None}
        node = new_node(entry, given, attributes, self.location)
        for result in node.types:
            expect_makeable(result)
        if all(result.size == 0 for result in node.types):
            return tuple(self.empty(result.shape, result.dtype) for result in node.types)
        constants = get_known_operands(given)
        if constants is not None and self.foldable(entry, constants, node.types, attributes):
            return self.folded(entry, constants, node.types, entry.complete(attributes))
        return tuple(Tensor(node, index) for index in range(len(node.types)))

    def foldable(
        self,
        entry: Op,
        constants: Mapping[str, Constant | tuple[Constant, ...]],
        types: tuple[TensorType, ...],
        attributes: Mapping[str, object],
    ) -> bool:
        """Return whether an operation on constants is computed at once."""
        if entry.meaning is None or Trait.RANDOM in entry.traits:
            return False
        listed = [one for value in constants.values() for one in (value if isinstance(value, tuple) else (value,))]
        if entry.macs is not None:
            operands = {
                name: tuple(one.type for one in value) if isinstance(value, tuple) else value.type
                for name, value in constants.items()
            }
            if entry.work(operands, entry.complete(attributes)).macs > FOLD_MOST_MACS:
                return False
        size, given = sum(one.nbytes for one in types), sum(one.nbytes for one in listed)
        grows = size > sum({id(one): one.nbytes for one in listed}.values())
        numbers = sum(math.prod(one.shape) for one in types) + sum(math.prod(one.type.shape) for one in listed)
        return self.budget.may_fold(size, given, WORK_BYTES * numbers if grows else 0)

    def folded(
        self,
        entry: Op,
        constants: Mapping[str, Constant | tuple[Constant, ...]],
        types: tuple[TensorType, ...],
        attributes: Mapping[str, object],
    ) -> tuple[Constant, ...]:
        """Return the results of an operation on constants."""
        arrays = {
            name: tuple(map(meant, value)) if isinstance(value, tuple) else meant(value)
            for name, value in constants.items()
        }
        results = entry.evaluate(arrays, attributes)  # pyright: ignore[reportArgumentType] - completed by the entry
        return tuple(self.rounded(array, kind.dtype) for array, kind in zip(results, types, strict=True))

    def rounded(self, array: Array, dtype: str) -> Constant:
        """Return numbers as a constant of an element type."""
        with np.errstate(all="ignore"):
            return Dense.owning(np.asarray(array).astype(numpy_dtype(dtype)))

    # Constants.

    def room(self, *extents: int) -> None:
        """Check that a table of numbers that a converter is about to make does not take the machine's memory.

        Raises:
            UnsupportedNodeError: It would.
        """
        needed = math.prod(max(extent, 1) for extent in extents)  # an empty table is made of lists that are not
        if needed > KNOWN_MOST:
            raise UnsupportedNodeError(
                Reason.LIMIT,
                f"it needs a table of {needed} numbers, and {KNOWN_MOST} is the most",
                workaround="make the tensors smaller",
            )

    def constant(self, values: object, dtype: str) -> Constant:
        """Return a constant of an element type."""
        return self.rounded(np.asarray(values), dtype)

    def number(self, value: Value | float, like: Value) -> Value:
        """Return a Python number as a constant in the element type of a tensor, and a tensor as it is."""
        if isinstance(value, bool | int | float | np.generic):
            return self.constant(value, like.type.dtype)
        return value

    def empty(self, shape: Sequence[int], dtype: str) -> Constant:
        """Return a tensor without elements."""
        expect_makeable(TensorType(tuple(shape), dtype))
        return self.constant(np.zeros(tuple(shape)), dtype)

    def filled(self, shape: Sequence[int], value: float, dtype: str) -> Value:
        """Return a tensor of one value: a constant if it is small, else the operation that makes it."""
        kind = TensorType(tuple(shape), dtype)
        expect_makeable(kind)
        if self.budget.may_fold(kind.nbytes, 0):
            return self.constant(np.full(kind.shape, value, meaning_dtype(dtype)), dtype)
        return self.apply("fill", {}, shape=kind.shape, value=float(value), dtype=dtype)

    def output_of(self, constant: Constant) -> Tensor:
        """Return a constant as a result of the graph."""
        return Tensor(new_node(find_op("identity"), {"x": constant}, {}, self.location))

    # Arithmetic.

    def unary(self, op: str, x: Value, **attributes: object) -> Value:
        """Return an operation on every element."""
        return self.apply(op, {"x": x}, **attributes)

    def binary(self, op: str, x: Value, y: Value | float) -> Value:
        """Return an operation on pairs of elements."""
        return self.apply(op, {"x": x, "y": self.number(y, x)})

    def add(self, x: Value, y: Value | float) -> Value:
        """Return x + y."""
        if isinstance(y, int | float) and is_float(x.type.dtype):
            return self.apply("adds", {"x": x}, k=float(y))
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value | float) -> Value:
        """Return x − y."""
        if isinstance(y, int | float) and is_float(x.type.dtype):
            return self.apply("adds", {"x": x}, k=-float(y))
        return self.binary("sub", x, y)

    def mul(self, x: Value, y: Value | float) -> Value:
        """Return x · y."""
        if isinstance(y, int | float) and is_float(x.type.dtype):
            return self.apply("muls", {"x": x}, k=float(y))
        return self.binary("mul", x, y)

    def div(self, x: Value, y: Value | float) -> Value:
        """Return x / y; integers are cut towards zero."""
        return self.binary("real_div", x, y)

    def negative(self, x: Value) -> Value:
        """Return −x."""
        if is_float(x.type.dtype):
            return self.mul(x, -1.0)
        return self.binary("sub", self.constant(0, x.type.dtype), x)

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """Return a where the condition holds, else b; one of the two is a tensor."""
        like = b if isinstance(a, int | float) else a
        if isinstance(like, int | float):
            raise TypeError("select between two numbers has no element type")
        return self.apply("select", {"cond": condition, "a": self.number(a, like), "b": self.number(b, like)})

    def cast(self, x: Value, dtype: str) -> Value:
        """Return x in another element type; weights go from one floating type to another without a detour."""
        if x.type.dtype == dtype:
            return x
        real = is_float(x.type.dtype) and is_float(dtype)
        if isinstance(x, Dense) and real and self.budget.may_fold(x.type.with_dtype(dtype).nbytes, x.nbytes):
            return self.rounded(x.values, dtype)
        return self.apply("cast", {"x": x}, dtype=dtype)

    # Shapes.

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return x in another shape, all lengths of which are given; weights are looked at without a copy."""
        wanted = tuple(shape)
        if x.type.shape == wanted:
            return x
        if math.prod(wanted) != x.type.size:
            raise GraphError(
                f"a tensor of shape {list(x.type.shape)} cannot take the shape {list(wanted)}",
                seen=f"{x.type.size} elements",
                limit=f"{math.prod(wanted)} elements",
            )
        if isinstance(x, Dense):
            self.budget.take_nodes()
            values = x.values
            return self.budget.arrange(x, "shape", wanted, lambda: Dense(values.reshape(wanted)))
        return self.empty(wanted, x.type.dtype) if 0 in wanted else self.apply("reshape", {"x": x}, shape=wanted)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Return x with its axes in another order; weights are turned without a copy."""
        perm = tuple(order)
        if sorted(perm) != list(range(x.type.rank)):
            raise GraphError(f"{list(perm)} is not an order of the axes", seen=f"rank {x.type.rank}")
        if perm == tuple(range(x.type.rank)):
            return x
        self.budget.take_nodes()
        if isinstance(x, Dense | Int8Affine):
            return self.budget.arrange(x, "order", perm, lambda: transposed(x, perm))
        return self.apply("transpose", {"x": x}, perm=perm)

    def moved(self, x: Value, source: int, target: int) -> Value:
        """Return x with one axis at another place."""
        first, last = (normalise_axis(axis, x.type.rank) for axis in (source, target))
        order = [axis for axis in range(x.type.rank) if axis != first]
        order.insert(last, first)
        return self.transpose(x, order)

    def expand(self, x: Value, *axes: int) -> Value:
        """Return x with further axes of length 1; they are counted in the result."""
        rank = x.type.rank + len(axes)
        places = {normalise_axis(axis, rank) for axis in axes}
        lengths = iter(x.type.shape)
        return self.reshape(x, [1 if axis in places else next(lengths) for axis in range(rank)])

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Return tensors one after another."""
        return values[0] if len(values) == 1 else self.apply("concat", {"values": tuple(values)}, axis=axis)

    def take(self, x: Value, indices: object, axis: int) -> Value:
        """Return the slices of x at places that are known."""
        return self.apply("gather", {"x": x, "indices": self.constant(indices, "int32")}, axis=axis)

    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        """Return the elements from one place to before another along an axis."""
        along = normalise_axis(axis, x.type.rank)
        if (begin, end) == (0, x.type.shape[along]):
            return x
        if not 0 <= begin <= end <= x.type.shape[along]:
            raise GraphError(f"axis {along} has no such part", seen=f"{begin} to {end}", limit=x.type.shape[along])
        self.budget.take_nodes()
        if isinstance(x, Dense):
            return Dense(x.values[(slice(None),) * along + (slice(begin, end),)])
        begins = [begin if one == along else 0 for one in range(x.type.rank)]
        sizes = [end - begin if one == along else extent for one, extent in enumerate(x.type.shape)]
        return self.apply("slice_by_size", {"x": x}, begin=begins, size=sizes)

    def at(self, x: Value, axis: int, place: int) -> Value:
        """Return one slice of an axis, without the axis."""
        along = normalise_axis(axis, x.type.rank)
        return self.reshape(self.part(x, along, place, place + 1), x.type.shape[:along] + x.type.shape[along + 1 :])

    def region(self, x: Value, bounds: Mapping[int, range]) -> Value:
        """Return the places of axes that ranges name."""
        whole = [bounds.get(axis, range(extent)) for axis, extent in enumerate(x.type.shape)]
        shape = [len(one) for one in whole]
        if 0 in shape:
            return self.empty(shape, x.type.dtype)
        if whole == [range(extent) for extent in x.type.shape]:
            return x
        if isinstance(x, Dense):
            return Dense(x.values[tuple(as_slice(one) for one in whole)])
        if all(one.step == 1 for one in whole):
            return self.apply("slice_by_size", {"x": x}, begin=[one.start for one in whole], size=shape)
        return self.apply(
            "slice_by_index",
            {"x": x},
            begin=[one.start for one in whole],
            end=[max(one.stop, 0) for one in whole],
            stride=[one.step for one in whole],
            end_mask=[one.step < 0 and one.stop < 0 for one in whole],
        )

    def spread(self, x: Value, shape: Sequence[int]) -> Value:
        """Return x repeated to a shape to which it broadcasts."""
        wanted = tuple(shape)
        full = self.reshape(x, (1,) * (len(wanted) - x.type.rank) + x.type.shape)
        if len(wanted) < x.type.rank or any(
            old not in (1, new) for new, old in zip(wanted, full.type.shape, strict=True)
        ):
            raise GraphError(f"a tensor of shape {list(x.type.shape)} does not broadcast to {list(wanted)}")
        if full.type.shape == wanted:
            return full
        if 0 in wanted:
            return self.empty(wanted, x.type.dtype)
        repeats = [new // old for new, old in zip(wanted, full.type.shape, strict=True)]
        return self.apply("tile", {"x": full}, reps=repeats)

    def reduce(self, op: str, x: Value, axes: Sequence[int], *, keep: bool = True) -> Value:
        """Return a reduction over axes; over none it is x itself."""
        if not axes:
            return x
        return self.apply(op, {"x": x}, axes=tuple(axes), keep_dims=keep)

    def matmul(self, x: Value, y: Value, *, transpose_y: bool = False) -> Value:
        """Return the product of matrices; with a constant matrix it is a linear layer."""
        if isinstance(y, Dense | Int8Affine) and y.type.rank == 2 and x.type.rank >= 2 and not isinstance(x, Constant):
            weight = y if transpose_y else self.transpose(y, (1, 0))
            return self.apply("linear", {"x": x, "weight": weight})
        return self.apply("matmul", {"x": x, "y": y}, transpose_y=transpose_y)

    def linear(self, x: Value, weight: Value, bias: Value | None) -> Value | None:
        """Return a linear layer where weights [outputs, inputs] and bias are constants of its form, else nothing."""
        known = isinstance(weight, Constant) and weight.type.rank == 2 and weight.type.size > 0
        shifted = bias is None or (isinstance(bias, Constant) and bias.type.shape == weight.type.shape[:1])
        if not known or not shifted or isinstance(x, Constant) or x.type.rank < 2 or not x.type.size:
            return None
        return self.apply("linear", {"x": x, "weight": weight, "bias": bias}) if is_float(x.type.dtype) else None


def get_known_operands(
    given: Mapping[str, Argument],
) -> dict[str, Constant | tuple[Constant, ...]] | None:
    """Return operands that are all constants, or nothing."""
    found: dict[str, Constant | tuple[Constant, ...]] = {}
    for name, argument in given.items():
        if isinstance(argument, Constant):
            found[name] = argument
            continue
        if not isinstance(argument, tuple):
            return None
        constants = tuple(value for value in argument if isinstance(value, Constant))
        if len(constants) != len(argument):
            return None
        found[name] = constants
    return found


def transposed(constant: Dense | Int8Affine, perm: tuple[int, ...]) -> Constant:
    """Return weights with their axes in another order, without a copy."""
    if isinstance(constant, Dense):
        return Dense(constant.values.transpose(perm))
    turned = constant.quantized.transpose(perm)
    return Int8Affine(turned, constant.scale, constant.zero_point, perm.index(constant.axis))


def meant(constant: Constant) -> Array:
    """Return a constant in the type of the mathematics."""
    return constant.dense().astype(meaning_dtype(constant.type.dtype))


def expect_makeable(kind: TensorType) -> None:
    """Check that a tensor is not larger than any that makes sense.

    Raises:
        UnsupportedNodeError: It is.
    """
    elements = math.prod(extent for extent in kind.shape if extent)  # NumPy counts so in an empty array too
    if kind.rank > RANK_MOST or max(kind.shape, default=0) > EXTENT_MOST or elements > ELEMENTS_MOST:
        raise UnsupportedNodeError(
            Reason.LIMIT,
            f"a result of shape {list(kind.shape[:RANK_MOST])} is larger than any tensor",
            workaround=f"at most {RANK_MOST} axes, up to {EXTENT_MOST} long, and {ELEMENTS_MOST} elements",
        )


def as_slice(places: range) -> slice:
    """Return a range of places as a slice; one that ends before the first place has no end."""
    return slice(places.start, None if places.stop < 0 else places.stop, places.step)
