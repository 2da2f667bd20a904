"""The seven slots after an engine operation: what each does to the value that flows through, and where it rounds.

The operation passes its result in one of two forms: rounded to fp16, or, where the first slot is a gain and the
exact result is known (the sum of a product, that of two elements), before that rounding. The gain and offset then work
on the exact result and round once. Everything else works on fp16 and rounds by itself.

An offset without a gain after a product is not a slot but the start of the sum (measured); `products` sees to that.

Slots that do the same to every number become one table of all numbers. What goes through the slots is seen by nobody
else, so they say themselves which of the values that they met make them less sure (`engine.doubts`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

import numpy as np

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind
from aneforge.engine import kernels
from aneforge.engine.dispatch import UNARY, arithmetic, round_operands
from aneforge.engine.doubts import EVERY, SPECIAL, doubtful_numbers, has_special
from aneforge.engine.doubts import LABELS as DOUBTS
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.execution.values import magnitude_of
from aneforge.engine.planar import host_fp16, read
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.attributed import AttributeReader
from aneforge.ops.numbers import FP16_PATTERNS
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    import numpy.typing as npt

    from aneforge.compiler.affine import Affine
    from aneforge.compiler.ir.kind import Slot
    from aneforge.compiler.ir.layer import Stage
    from aneforge.engine.doubts import Doubtful
    from aneforge.engine.kernels.prepared import Through
    from aneforge.ops.types import TensorType
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = [
    "ONE_ROUNDING",
    "Exact",
    "Moved",
    "Pointwise",
    "Stages",
    "along",
    "build_gain",
    "label_of_gain",
    "stages_of",
]

ONE_ROUNDING = "assumed: gain and offset are rounded once, together with the operation; not measured"
SIGN_BIT = 0x8000
FEW = 4096
"""The cost of a call in numbers, however few it is given: about a sixteenth of the time that a table takes."""
TWO_ROUNDINGS = "assumed: gain and offset round as the tails of the activation tables do; not measured"


class Pointwise:
    """A function that does the same to every fp16 number: one step, or several of them one after the other.

    A table of all results stands for it once it pays: when about as many numbers have gone through as there are.
    Layers with the same function share it (`share_function`). A program of thousands of small layers would spend its
    first run, and gigabytes, on tables otherwise.
    """

    def __init__(
        self,
        key: Hashable,
        function: Callable[[Array], Array],
        doubts: Callable[[], Doubtful],
        parts: tuple[Pointwise, ...] = (),
    ) -> None:
        self.key = key
        """What distinguishes it from other functions."""
        self.function = function
        self.find_doubts = doubts
        self.parts = parts or (self,)
        self.seen = 0
        """How many numbers have gone through, until as many have as there are; a call counts as a few at least."""

    def __call__(self, x: Array) -> Array:
        """Return the results."""
        return self.looked_up(x) if self.pays_table(x) else self.function(x)

    def run(self, x: Array, doubts: list[Label]) -> Array:
        """Return the results; doubts that the values raise, here or between two steps, are added to the others."""
        if self.pays_table(x):
            doubts += self.doubtful.labels(x, magnitude_of(x))
            return self.looked_up(x)
        found: set[Label] = set()
        for part in self.parts:
            found.update(part.doubtful.labels(x, magnitude_of(x)))
            x = part.function(x)
        doubts += [label for label in DOUBTS if label in found]  # in the order in which a table would raise them
        return x

    def pays_table(self, x: Array) -> bool:
        """Return whether a table pays for some values; they are counted."""
        if x.dtype != np.float16 or not kernels.library.available():
            return False
        if not self.paid:
            self.seen += max(FEW, x.size)
        return self.paid

    @property
    def paid(self) -> bool:
        """True if the table pays already."""
        return self.seen >= FP16_PATTERNS

    @cached_property
    def table(self) -> npt.NDArray[np.uint16]:
        """Results for every number, found the first time that they are needed."""
        return self.function(EVERY).view(np.uint16)

    @cached_property
    def through(self) -> Through:
        """What results of a product go through: the table, or a rectifier where the table is one."""
        table = self.table
        bound = int(table[0x7C00])
        if 0 < bound < SIGN_BIT and np.array_equal(table, kernels.elements.rectify(EVERY, bound).view(np.uint16)):
            return kernels.prepared.Through(None, bound)
        return kernels.prepared.Through(table)

    def looked_up(self, x: Array) -> Array:
        """Return the results by the table, or without it where it is a rectifier."""
        through = self.through
        return kernels.elements.rectify(x, through.bound) if through.bound else kernels.elements.lookup(x, self.table)

    @cached_property
    def doubtful(self) -> Doubtful:
        """The numbers for which it is less sure, found the first time that they are needed."""
        first, *others = self.parts
        found, values = first.find_doubts(), EVERY
        for part, other in pairwise((first, *others)):
            values = part.function(values)
            found = other.find_doubts().after(values.view(np.uint16), found)
        return found

    def then(self, other: Pointwise) -> Pointwise:
        """Return the function that does this and then another."""
        parts = (*self.parts, *other.parts)

        def every(x: Array) -> Array:
            for part in parts:
                x = part.function(x)
            return x

        return share_function(Pointwise((self.key, other.key), every, self.find_doubts, parts))


SHARED: WeakValueDictionary[Hashable, Pointwise] = WeakValueDictionary()
"""The functions of the programs that are loaded, by what distinguishes them."""


def share_function(function: Pointwise) -> Pointwise:
    """Return the function of the same key that a loaded program has, or this one."""
    return SHARED.setdefault(function.key, function)


class Each:
    """A function of numbers and of their places, such as a gain for every channel; infinities make it less sure."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function = function

    def __call__(self, x: Array) -> Array:
        return self.function(x)

    def run(self, x: Array, doubts: list[Label]) -> Array:
        """Return the results; doubts that the values raise are added to the others."""
        doubts += doubtful_numbers("", ()).labels(x, magnitude_of(x))
        return self.function(x)


class Moved(Each):
    """Another order of axes, which moves numbers and changes none."""

    def __init__(self, order: tuple[int, ...], function: Callable[[Array], Array]) -> None:
        super().__init__(function)
        self.order = order


Function = Pointwise | Each


@dataclass(frozen=True, slots=True)
class Stages:
    """What is done to a value one after the other, and how sure each step is."""

    functions: tuple[Function, ...] = ()
    labels: tuple[Label, ...] = ()

    def __call__(self, x: Array) -> Array:
        """Return what leaves the last step."""
        for function in self.functions:
            x = function(x)
        return x

    def run(self, x: Array, doubts: list[Label]) -> Array:
        """Return what leaves the last step; doubts that the values on the way raise are added to the others."""
        for function in self.functions:
            x = function.run(x, doubts)
        return x

    def after(self, first: Function, label: Label) -> Stages:
        """Return these steps with another in front, joined where both are tables."""
        return Stages(join([first, *self.functions]), (label, *self.labels))


@dataclass(frozen=True, slots=True)
class Exact:
    """A gain and offset on exact results: one rounding."""

    gain: Array | None
    offset: Array | None

    @classmethod
    def of(cls, affine: Affine, rank: int) -> Exact:
        """Return the constants of a gain and offset after a tensor of a rank."""
        laid = [along(values, rank, affine.axis) for values in (affine.gain, affine.offset)]
        return cls(*(None if one is None else read(one) for one in laid))

    def __call__(self, exact: Array) -> Array:
        """Return gain · x + offset in fp16; what is not a number is 0, as it was seen to be."""
        with np.errstate(invalid="ignore", over="ignore"):
            total = exact * (1.0 if self.gain is None else self.gain)
            if self.offset is not None:
                total += self.offset
        no_number = np.isnan(total)
        return kernels.elements.to_fp16(np.where(no_number, 0.0, total) if no_number.any() else total)


def stages_of(stages: Iterable[tuple[Slot, Stage]], flowing: TensorType, target: Target) -> Stages:
    """Return what some slots do after a value of a type."""
    functions: list[Function] = []
    labels: list[Label] = []
    for _, stage in stages:
        function, label = stage_of(stage, flowing, target)
        functions.append(function)
        labels.append(label)
        flowing = stage.type_of(flowing)
    return Stages(join(functions), tuple(labels))


def join(functions: Iterable[Function]) -> tuple[Function, ...]:
    """Return functions with neighbours that are tables made one."""
    found: list[Function] = []
    for function in functions:
        before = found[-1] if found else None
        if isinstance(before, Pointwise) and isinstance(function, Pointwise):
            found[-1] = before.then(function)
        else:
            found.append(function)
    return tuple(found)


def stage_of(stage: Stage, flowing: TensorType, target: Target) -> tuple[Function, Label]:
    """Return what one slot does after a value of a type, and how sure that is."""
    if stage.kind.name == GAIN_OFFSET:
        affine = affine_of_stage(stage, flowing.rank)
        return build_gain(affine, flowing.rank), label_of_gain(affine, target)
    call = call_of_kind(stage.kind, stage.attributes, flowing.shape)
    assert call is not None, "only gain and offset is not a call"  # noqa: S101 - handled above
    found = arithmetic(call.op, target)
    attributes = found.op.complete(call.attributes)
    constants = round_operands({name: constant.dense() for name, constant in stage.operands.items()})

    def function(x: Array) -> Array:
        (result,) = found.results(cast("Any", call.renamed({stage.kind.flowing: x, **constants})), attributes)
        return result

    if found.op.name in UNARY:
        made = Pointwise((found, tuple(sorted(attributes.items()))), function, lambda: found.doubtful(attributes))
        return share_function(made), found.label_of_attributes(attributes)
    if found.op.name == "transpose":
        return Moved(AttributeReader(attributes).integers("perm"), function), found.label
    special = any(map(has_special, cast("Iterable[Array]", constants.values())))
    return Each(function), worst([found.label, *([SPECIAL] if special else [])])


def build_gain(affine: Affine, rank: int) -> Function:
    """Return gain · x + offset; the constants are fp16, rounded by the host that compiled them."""
    constants = [along(values, rank, affine.axis) for values in (affine.gain, affine.offset)]
    single = all(one is None or one.size == 1 for one in constants)
    gain, offset = (one.reshape(()) if one is not None and single else one for one in constants)

    def function(x: Array) -> Array:
        return kernels.operations.gain_offset(x, gain, offset)

    if not single:
        return Each(function)
    key = ("gain and offset", *(None if one is None else one.tobytes() for one in (gain, offset)))
    return share_function(Pointwise(key, function, lambda: doubtful_numbers("", ())))


def label_of_gain(affine: Affine, target: Target) -> Label:
    """Return how sure a gain and offset on fp16 is on a target: one of them by itself is an elementwise operation."""
    given = [values for values in (affine.gain, affine.offset) if values is not None]
    labels = [arithmetic("muls", target).label]
    if len(given) > 1:
        labels.append(Label(Exactness.MODELLED, TWO_ROUNDINGS))
    if any(has_special(host_fp16(values)) for values in given):
        labels.append(SPECIAL)
    return worst(labels)


def along(values: Array | None, rank: int, axis: int) -> Array | None:
    """Return constants as the program holds them, in fp16, ready to meet a tensor."""
    if values is None:
        return None
    held = host_fp16(values)
    return held if held.ndim == 0 else reshape_along(held, rank, axis)
