"""Finds the arithmetic of an operation on a target: what it computes, how sure that is, and why.

An executor asks once per layer. What has an arithmetic of its own is in the files of this room; what moves data is a
copy of its bits; anything else is its meaning in the op table, computed in float64 and rounded once to fp16, and
labelled modelled. `data/arithmetic.toml` says how sure each is.

The fast kernels do the same where they have the operation (`kernels.operations`), and a function of one fp16 number is
a table of all its 65,536 results, made once from the golden model. `kernels.library.using(golden=True)` and a missing
library leave the golden model alone.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine import (
    attention,
    choices,
    crop,
    kernels,
    neuron,
    normalisation,
    planar,
    pooling,
    products,
    quantised,
    reductions,
)
from aneforge.engine.doubts import CHOICES_AMONG_ZEROS, SPECIAL, doubtful_numbers, has_special
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.neuron import read_real
from aneforge.engine.planar import host_fp16
from aneforge.errors import NotSupportedError
from aneforge.ops.numbers import FP16_PATTERNS
from aneforge.ops.op import Category
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import TensorType, numpy_dtypes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from aneforge.engine.doubts import Doubtful
    from aneforge.ops.definition import OperandArrays
    from aneforge.ops.op import Op
    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.uint16]
    Function = Callable[..., Array | tuple[Array, ...]]
    Attributes = Mapping[str, AttributeValue]

__all__ = ["UNARY", "Arithmetic", "arithmetic", "is_real"]

MOST_TABLES = 256
"""Tables that are kept, 128 KiB each."""
MOST_FOUND = 8192
"""Operations on targets that are kept: all on all, and targets that stand for others while something is asked."""
DTYPE_NAMES = {dtype: name for name, dtype in numpy_dtypes().items()}
WHOLE_NUMBERS = "integers and booleans are computed exactly; not measured"
SIGMOID_GELU = "the table of GELU by a sigmoid is not known; its mathematics is rounded once"


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """What an operation computes on a target, and how sure that is.

    `label` holds for the operation; `label_of` looks at operands too and may be less sure.
    """

    op: Op
    target: Target
    entry: choices.ArithmeticEntry
    label: Label
    function: Function | None
    """Its own arithmetic; None for the meaning of the op table."""

    @cached_property
    def fast(self) -> Function | None:
        """The same on the kernels, found when it first runs; None where they have none."""
        on_target = kernels.operations.FOR_TARGET.get(self.op.name)
        return on_target(self.target) if on_target else kernels.operations.FUNCTIONS.get(self.op.name)

    @property
    def exactness(self) -> Exactness:
        """How sure it is."""
        return self.label.exactness

    @property
    def reason(self) -> str:
        """Why it is no surer, or why it is sure."""
        return self.label.reason

    def compute(self, operands: OperandArrays, attributes: Attributes) -> tuple[Array, ...]:
        """Return the results: fp16 for real numbers, integers and bool in their own types.

        Operands are of fp16, integers or bool. Those of wider floating types are passed by the host, which
        rounds ties to even, except for casts and constants that are folded. Attributes that are left out have defaults.

        >>> from aneforge.targets import Family, resolve
        >>> addition = arithmetic("add", resolve(Family.A13))
        >>> addition.compute({"x": np.array([2048], np.float16), "y": np.array([1], np.float16)}, {})[0].tolist()
        [2050.0]

        Raises:
            GraphError: An operand is missing, unknown or does not fit; an attribute is wrong; or there is no meaning.
        """
        complete = self.op.complete(attributes)
        held = operands if self.op.name in TAKEN_AS_GIVEN else round_operands(operands)
        self.op.types({name: type_of(value) for name, value in held.items()}, complete)
        return self.results(held, complete)

    def results(self, operands: OperandArrays, attributes: Attributes) -> tuple[Array, ...]:
        """Return the results for operands as the engine gets them and all attributes, both checked before."""
        if self.entry.copies or not self.takes(operands) or not kernels.library.available():
            return self.golden_results(operands, attributes)
        if self.op.name in UNARY:
            return (kernels.elements.lookup(cast("Array", operands["x"]), self.table(attributes)),)
        if self.fast is None:
            return self.golden_results(operands, attributes)
        with np.errstate(all="ignore"):
            return several(self.fast(*self.in_order(operands), **attributes))

    def golden_results(self, operands: OperandArrays, attributes: Attributes) -> tuple[Array, ...]:
        """Return the results as the golden model has them."""
        if self.entry.copies:
            results = self.op.evaluate(operands, attributes)
        elif self.function is None or not self.takes(operands):
            results = round_meaning(self.op, operands, attributes)
        else:
            with np.errstate(all="ignore"):
                results = several(self.function(*self.in_order(operands), **attributes))
        return results if self.op.name == "cast" else tuple(as_fp16(result) for result in results)

    def table(self, attributes: Attributes) -> Bits:
        """Return the results of an operation on one element for every fp16 number.

        >>> from aneforge.targets import Family, resolve
        >>> int(arithmetic("relu", resolve(Family.A13)).table({})[0xBC00])
        0
        """
        return make_table(self, tuple(sorted(attributes.items())))

    def label_of(self, operands: OperandArrays, attributes: Attributes, *, values: bool = True) -> Label:
        """Return how sure the results for given operands are.

        Looking at the values costs about as much as computing; without it the label rests on shapes and attributes.

        >>> from aneforge.targets import Family, resolve
        >>> product = arithmetic("matmul", resolve(Family.A13))
        >>> ones, large = np.ones((1, 2), np.float16), np.full((2, 1), 20000, np.float16)
        >>> product.exactness, product.label_of({"x": ones, "y": large}, {}).exactness
        (<Exactness.EXACT: 'exact'>, <Exactness.MODELLED: 'modelled'>)
        """
        complete, held = self.op.complete(attributes), round_operands(operands)
        by_values = self.doubts_of_values(held, complete) if values else ()
        return worst([self.label, *self.doubts_of_shapes(held, complete), *by_values])

    def doubts_of_shapes(self, operands: OperandArrays, attributes: Attributes) -> Iterator[Label]:
        """Return what makes results less sure than the operation, by types, shapes and attributes."""
        if self.entry.copies:
            return
        if not self.takes(operands):
            yield Label(Exactness.MODELLED, WHOLE_NUMBERS)
        elif self.op.name in DOUBTS:
            yield from DOUBTS[self.op.name](self.target, *self.in_order(operands), **attributes)

    def doubts_of_values(self, operands: OperandArrays, attributes: Attributes) -> Iterator[Label]:
        """Return what makes results less sure than the operation, by the values of the operands."""
        if self.entry.copies or not self.takes(operands):
            return
        if self.op.name in UNARY:
            x = cast("Array", operands["x"])
            yield from self.doubtful(attributes).labels(x, np.inf)
        elif any(map(has_special, real_values(operands))):
            yield SPECIAL
        if self.op.name in DOUBTS_OF_VALUES:
            yield from DOUBTS_OF_VALUES[self.op.name](self.target, *self.in_order(operands), **attributes)
        if self.op.name in CHOICES_AMONG_ZEROS:
            yield from CHOICES_AMONG_ZEROS[self.op.name](*self.in_order(operands), **attributes)

    def label_of_attributes(self, attributes: Attributes) -> Label:
        """Return how sure an operation on one element is with given attributes, before any value is seen."""
        return self.label_of({"x": np.zeros(1, np.float16)}, attributes, values=False)

    def doubtful(self, attributes: Attributes) -> Doubtful:
        """Return the numbers for which an operation on one element is less sure."""
        return doubtful_numbers(self.op.name, tuple(sorted(attributes.items())))

    def takes(self, operands: OperandArrays) -> bool:
        """Return whether the arithmetic is for such operands; that of most operations is only for real numbers."""
        return self.op.name in ANY_TYPE or has_real(operands)

    def in_order(self, operands: OperandArrays) -> list[Array | tuple[Array, ...] | None]:
        """Return operands in the order of the operation, None for one that is left out."""
        return [operands.get(operand.name) for operand in self.op.operands]


def arithmetic(op: str, target: Target) -> Arithmetic:
    """Return the arithmetic of an operation on a target.

    >>> from aneforge.targets import Family, resolve
    >>> found = arithmetic("softmax", resolve(Family.A13))
    >>> found.exactness
    <Exactness.MODELLED: 'modelled'>

    Raises:
        UnknownNameError: There is no such operation.
        NotSupportedError: No engine runs it.
    """
    return find_arithmetic(find_op(op).name, target)


@lru_cache(maxsize=MOST_FOUND)
def find_arithmetic(name: str, target: Target) -> Arithmetic:
    """Return the arithmetic of an operation, found once."""
    op = find_op(name)
    if not runs(op):
        raise NotSupportedError("no engine runs it, so it has no arithmetic", operation=name, target=target.name)
    entry = choices.entry_of(name)
    function = FUNCTIONS.get(name) or (FOR_TARGET[name](target) if name in FOR_TARGET else None)
    return Arithmetic(op, target, entry, choices.label_on(entry, target), function)


def runs(op: Op) -> bool:
    """Return whether any engine runs an operation."""
    return op.support.floor is not None or op.support.mil_since is not None


@lru_cache(maxsize=MOST_TABLES)
def make_table(found: Arithmetic, attributes: tuple[tuple[str, AttributeValue], ...]) -> Bits:
    """Return a table, made once for an operation on a target with some attributes."""
    every = np.arange(FP16_PATTERNS, dtype=np.uint16).view(np.float16)
    (results,) = found.golden_results({"x": every}, dict(attributes))
    return results.view(np.uint16)


# Operands and results at the border.


def round_operands(operands: OperandArrays) -> OperandArrays:
    """Return operands as the engine gets them: real numbers in fp16."""
    return {name: host_operand(value) for name, value in operands.items()}


def host_operand(value: Array | tuple[Array, ...] | None) -> Array | tuple[Array, ...] | None:
    """Return an operand, or each of a list, as the engine gets it."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(host_fp16(one) if is_real(one) else one for one in value)
    return host_fp16(value) if is_real(value) else value


def is_real(value: Array) -> bool:
    """Return whether an array holds real numbers, of NumPy's own types or not."""
    return value.dtype.kind == "f" or (value.dtype.kind == "V" and value.dtype.name.startswith(("bfloat", "float")))


def type_of(value: Array | tuple[Array, ...] | None) -> TensorType | tuple[TensorType, ...] | None:
    """Return the type of an operand, or of each of a list."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(TensorType(one.shape, DTYPE_NAMES[one.dtype]) for one in value)
    return TensorType(value.shape, DTYPE_NAMES[value.dtype])


def real_values(operands: OperandArrays) -> Iterator[Array]:
    """Return the operands that are real numbers."""
    for value in operands.values():
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None and is_real(one):
                yield one


def has_real(operands: OperandArrays) -> bool:
    """Return whether an operand is real numbers, or whether there are no operands."""
    given = [value for value in operands.values() if value is not None]
    return not given or any(True for _ in real_values(operands))


def several(found: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    """Return one result or several as several."""
    return found if isinstance(found, tuple) else (found,)


def as_fp16(result: Array) -> Array:
    """Return real numbers in fp16, which holds them; integers and bool as they are; a cast's other types too."""
    return host_fp16(result) if result.dtype == np.float64 else np.asarray(result)


def round_meaning(op: Op, operands: OperandArrays, attributes: Attributes) -> tuple[Array, ...]:
    """Return the meaning of the op table, rounded once; what is not a number is 0, as it was seen to be."""
    widened = {name: widen_operand(value) for name, value in operands.items()}
    return tuple(
        kernels.elements.to_fp16(np.where(np.isnan(result), 0.0, result)) if result.dtype == np.float64 else result
        for result in op.evaluate(widened, attributes)
    )


def widen_operand(value: Array | tuple[Array, ...] | None) -> Array | tuple[Array, ...] | None:
    """Return an operand for the mathematics: real numbers in float64, none of them NaN."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(read_real(one) if is_real(one) else one for one in value)
    return read_real(value) if is_real(value) else value


# What makes results less certain, in addition to `products`: functions of target, operands in order and attributes.


def doubts_of_gelu(_: Target, _x: Array, *, mode: str) -> Iterator[Label]:
    """Doubt the form by a sigmoid."""
    if mode == "SIGMOID_APPROXIMATION":
        yield Label(Exactness.MODELLED, SIGMOID_GELU)


def doubts_of_sdpa(_: Target, query: Array, key: Array, *_rest: object, **_attributes: object) -> Iterator[Label]:
    """Doubt attention outside its envelope."""
    label = attention.label_of_lengths(query.shape[-2], key.shape[-2])
    if label is not None:
        yield label


FUNCTIONS: Mapping[str, Function] = {
    **neuron.FUNCTIONS,
    **planar.FUNCTIONS,
    **pooling.FUNCTIONS,
    **products.FUNCTIONS,
    **quantised.FUNCTIONS,
    **reductions.FUNCTIONS,
}
"""Arithmetic that all targets share, by operation."""
FOR_TARGET: Mapping[str, Callable[[Target], Function]] = {
    **attention.FOR_TARGET,
    **crop.FOR_TARGET,
    **normalisation.FOR_TARGET,
    **pooling.FOR_TARGET,
    **products.FOR_TARGET,
    **reductions.FOR_TARGET,
}
"""Arithmetic that depends on the target, by operation."""
UNARY = frozenset(
    name for name, op in ops().items() if op.is_function_of_one and runs(op) and op.category is not Category.LOGIC
) - set(quantised.FUNCTIONS)
"""Operations on every fp16 number by itself, with nothing but attributes; what changes the type is not looked up."""
ANY_TYPE = frozenset({*crop.FOR_TARGET, *quantised.FUNCTIONS})
"""Operations whose arithmetic is for integers and bool too."""
TAKEN_AS_GIVEN = frozenset({"batch_norm", "cast", *choices.entries()["folded_weights"].ops})
"""Operations whose constants the compiler folds before anything is rounded, and casts from other types."""
DOUBTS: Mapping[str, Callable[..., Iterator[Label]]] = {
    **products.DOUBTS,
    "gelu": doubts_of_gelu,
    "sdpa": doubts_of_sdpa,
}
"""What makes results less sure by shapes and attributes, by operation."""
DOUBTS_OF_VALUES: Mapping[str, Callable[..., Iterator[Label]]] = products.DOUBTS_OF_VALUES
"""What makes results less sure by the values of operands, by operation, in addition to what `doubts` says of them."""
