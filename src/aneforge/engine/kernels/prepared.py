"""Products and pairs of fixed shapes, ready to run many times, with what is directly after them.

A layer runs the same operation again and again. What depends on its shapes is found once, operands are read where they
lie, and the slots after it are done as results are stored: gain and offset of a sum, a table, an order of axes. What
the labels of a layer ask about its values is noted on the way: magnitudes, and which zeros there are.
"""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import golden
from aneforge.engine.kernels.arrays import bits_of, element_strides, places_of
from aneforge.engine.kernels.codes import Coded
from aneforge.engine.kernels.convolution import Convolution, convolved_places
from aneforge.engine.kernels.elements import Pair, Pairs, in_runs, pairs_of
from aneforge.engine.kernels.library import address, call
from aneforge.engine.kernels.matmul import Matmul
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from aneforge.engine.golden import Window

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.uint16]
    Shape = tuple[int, ...]
    Weights = Array | Coded
    Run = Callable[[Any, Any, "Through"], tuple[Array, "Seen"]]
    """Operands are arrays, or weights in codes where it is a product."""

__all__ = ["PLAIN", "After", "Run", "Seen", "Through", "ready_convolution", "ready_matmul", "ready_pairs"]


@dataclass(frozen=True, slots=True)
class After:
    """What is at the sums of a product, in float64: where they start, and gain and offset before they are rounded.

    One number for all, or one for every row of the product, which are the output channels of a convolution.
    """

    start: Array | None = None
    gain: Array | None = None
    offset: Array | None = None
    order: Shape | None = None
    """The order of the result's axes; None for their own."""


@dataclass(frozen=True, slots=True)
class Through:
    """What every result goes through: a table of 65,536 entries, or a rectifier, which needs none."""

    table: npt.NDArray[np.uint16] | None = None
    bound: int = 0
    """Of a rectifier the bits of its largest result; 0 for none."""


PLAIN = Through()


@dataclass(frozen=True, slots=True)
class Seen:
    """What was noted of results: the largest magnitude and the zeros before the table, and the largest after it."""

    before: float
    zeros: frozenset[int]
    after: float

    @classmethod
    def of(cls, noted: Iterable[int]) -> Seen:
        """Return what the kernels noted.

        >>> Seen.of([0x4000, 2, 0x3C00])
        Seen(before=2.0, zeros=frozenset({32768}), after=1.0)
        """
        before, zeros, after = noted
        return cls(magnitude(before), ZEROS[zeros], magnitude(after))


ZEROS = tuple(
    frozenset(bits for place, bits in enumerate((0x0000, 0x8000)) if noted >> place & 1) for noted in range(4)
)
Noted = ctypes.c_int64 * 3
"""As many as `ANEFORGE_SEEN` of kernels.h."""


@cache
def magnitude(bits: int) -> float:
    """Return a magnitude; of what a product gives, infinity is the largest, and it is read as 2^16."""
    return 65536.0 if bits >= 0x7C00 else struct.unpack("<e", bits.to_bytes(2, "little"))[0]


def row_numbers(values: Array | None, rows: int) -> Array | None:
    """Return one number for all rows, or one for each, contiguous."""
    if values is None:
        return None
    flat = np.ascontiguousarray(values, np.float64).ravel()
    return flat if flat.size in {1, rows} else None


def all_fit(after: After, rows: int) -> bool:
    """Return whether what is at the sums is one number for all or one for each row, gain and offset alike."""
    given = [one for one in (after.start, after.gain, after.offset) if one is not None]
    sizes = {one.size for one in (after.gain, after.offset) if one is not None}
    return all(one.size in {1, rows} for one in given) and len(sizes) < 2


def results(shape: Shape, order: Shape | None) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Return room for results in an order of axes, and the same in the order in which they are computed."""
    if order is None:
        out = np.empty(shape, np.uint16)
        return out, out
    out = np.empty([shape[axis] for axis in order], np.uint16)
    return out, out.transpose(np.argsort(order))


class Operand:
    """The bits of an operand and where they lie; those of a constant, which nobody can write to, are found once."""

    __slots__ = ("known", "operation", "shape", "strided")

    def __init__(self, operation: str, shape: Shape | None = None, *, strided: bool = False) -> None:
        self.operation = operation
        self.shape = shape
        """Which shape its bits are given; None for its own."""
        self.strided = strided
        """One that has this shape is read where it lies, whatever its strides."""
        self.known: tuple[Array, Bits, ctypes.c_void_p] | None = None

    def find(self, given: Weights) -> tuple[Array, ctypes.c_void_p]:
        """Return the bits, side by side where they are given a shape, and their address; of codes the shape alone."""
        if isinstance(given, Coded):
            return given.seen if self.shape is None else given.seen.reshape(self.shape), address(given.stored)
        known = self.known
        if known is None or known[0] is not given:
            bits = bits_of(self.operation, given)
            if self.shape is not None and not (self.strided and bits.shape == self.shape):
                bits = np.ascontiguousarray(bits).reshape(self.shape)
            known = (given, bits, address(bits))
            if not given.flags.writeable and np.may_share_memory(bits, given):  # a copy would grow old
                self.known = known
        return known[1], known[2]


@dataclass(frozen=True, slots=True)
class ReadyMatmul:
    """Matrix products of given shapes: left [..., M, K] times right [..., K, N], the leading axes broadcast."""

    shape: Shape
    depth: int
    after: After
    start: Array | None
    gain: Array | None
    offset: Array | None
    left: Operand
    right: Operand
    templates: dict[tuple[Shape, Shape], tuple[Matmul, list[Array]]] = field(default_factory=dict[Any, Any])
    """By the strides of the operands: the call without addresses, and the places that it points to."""

    def __call__(self, first: Weights, second: Weights, through: Through) -> tuple[Array, Seen]:
        """Return the product of fp16 matrices and what was noted of it; one of them may be in codes."""
        (left, left_address), (right, right_address) = self.left.find(first), self.right.find(second)
        key = (left.strides, right.strides)
        if key not in self.templates:
            self.templates[key] = self.template(left, right)
        given = Matmul.from_buffer_copy(self.templates[key][0])
        out, _ = results(self.shape, self.after.order)
        noted = Noted()
        given.left, given.right, given.out = left_address, right_address, address(out)
        given.left_codes = ctypes.addressof(first.of_rows) if isinstance(first, Coded) else None
        given.right_codes = ctypes.addressof(second.of_columns) if isinstance(second, Coded) else None
        given.seen = ctypes.addressof(noted)
        set_through(given, through)
        call("aneforge_run_matmul", ctypes.byref(given))
        return out.view(np.float16), Seen.of(noted)

    def template(self, left: Array, right: Array) -> tuple[Matmul, list[Array]]:
        """Return the call for operands of some strides, without addresses."""
        batch, (rows, columns) = self.shape[:-2], self.shape[-2:]
        lefts = element_strides(np.broadcast_to(left, (*batch, *left.shape[-2:])))
        rights = element_strides(np.broadcast_to(right, (*batch, *right.shape[-2:])))
        outs = element_strides(results(self.shape, self.after.order)[1])
        places = [places_of(batch, strides[:-2]) for strides in (lefts, rights, (0,) * len(self.shape), outs)]
        start, gain, offset = self.start, self.gain, self.offset
        return Matmul(
            batch=math.prod(batch),
            rows=rows,
            depth=self.depth,
            columns=columns,
            left_places=address(places[0]),
            left_row=lefts[-2],
            left_step=lefts[-1],
            right_places=address(places[1]),
            right_step=rights[-2],
            right_column=rights[-1],
            bias=None if start is None else address(start),
            bias_places=address(places[2]),
            bias_row=0 if start is None or start.size == 1 else 1,
            bias_count=0 if start is None else start.size,
            gain=None if gain is None else address(gain),
            offset=None if offset is None else address(offset),
            gain_row=0 if gain is None or gain.size == 1 else 1,
            out_places=address(places[3]),
            out_row=outs[-2],
            out_column=outs[-1] if columns > 1 else 1,
        ), places


def set_through(given: Matmul | Convolution | Pairs, through: Through) -> None:
    """Set what results go through."""
    given.rectifies = through.bound
    given.table = None if through.table is None else address(through.table)


def ready_matmul(
    shape: Shape, depth: int, after: After, *, left: Shape | None = None, right: Shape | None = None
) -> Run | None:
    """Return matrix products with results of a shape, None where the kernels have them only step by step.

    Operands that come in other shapes are given those of `left` and `right`.
    """
    outs = element_strides(results(shape, after.order)[1])
    if not depth or not math.prod(shape) or 1 not in outs[-2:] or not all_fit(after, shape[-2]):
        return None
    start = None if after.start is None else row_numbers(golden.bias_operand(after.start), shape[-2])
    gain, offset = row_numbers(after.gain, shape[-2]), row_numbers(after.offset, shape[-2])
    first, second = (Operand("matmul", one, strided=True) for one in (left, right))
    return ReadyMatmul(shape, depth, after, start, gain, offset, first, second)


def ready_convolution(x: Shape, weight: Shape, window: Window, after: After, *, winograd: bool) -> Run | None:
    """Return convolutions of images and kernels of given shapes, None where the kernels have them step by step."""
    if not 3 <= len(weight) <= 4 or 0 in x or 0 in weight or not all_fit(after, weight[0]):
        return None
    slides = golden.Slides.of(len(weight) - 2, **window)
    shape = (x[0], weight[0], *convolved_places(np.broadcast_to(np.uint16(0), x), np.broadcast_to(0, weight), slides))
    plain = set(weight[2:]) == {1} and slides.groups == 1 and set(slides.strides) == {1} and not np.any(slides.pads)
    if plain and not winograd:
        return ready_pointwise(x, weight, after)
    if after.order is not None:
        return None
    start = None if after.start is None else row_numbers(golden.bias_operand(after.start), weight[0])
    start, gain, offset = (each_row(one, weight[0]) for one in (start, after.gain, after.offset))
    missing = 4 - len(weight)  # one axis is the width of images of height 1
    height, width = (1, *x[2:])[-2:]
    template = Convolution(
        winograd=winograd,
        batch=x[0],
        groups=slides.groups,
        rows=weight[0] // slides.groups,
        channels=weight[1],
        height=height,
        width=width,
        kernel_height=(1, *weight[2:])[-2],
        kernel_width=weight[-1],
        stride_height=1 if missing else slides.strides[0],
        stride_width=slides.strides[-1],
        dilation_height=1 if missing else slides.dilations[0],
        dilation_width=slides.dilations[-1],
        pad_top=0 if missing else slides.pads[0][0],
        pad_left=slides.pads[-1][0],
        out_height=(1, *shape[2:])[-2],
        out_width=shape[-1],
        bias=None if start is None else address(start),
        gain=None if gain is None else address(gain),
        offset=None if offset is None else address(offset),
        gain_row=1,
    )
    kept = (start, gain, offset)  # the template has their addresses alone
    first, second = Operand("conv", weight), Operand("conv", x)

    def run(images: Array, kernels: Weights, through: Through) -> tuple[Array, Seen]:
        _ = kept
        (_left, left), (_right, right) = first.find(kernels), second.find(images)  # copies stay until the call is done
        given = Convolution.from_buffer_copy(template)
        out, noted = np.empty(shape, np.uint16), Noted()
        given.kernels, given.images, given.out = left, right, address(out)
        given.codes = ctypes.addressof(kernels.of_rows) if isinstance(kernels, Coded) else None
        given.seen = ctypes.addressof(noted)
        set_through(given, through)
        call("aneforge_run_convolution", ctypes.byref(given))
        return out.view(np.float16), Seen.of(noted)

    return run


def each_row(values: Array | None, rows: int) -> Array | None:
    """Return a number for every row."""
    return None if values is None else np.ascontiguousarray(np.broadcast_to(values.ravel(), (rows,)), np.float64)


def ready_pointwise(x: Shape, weight: Shape, after: After) -> Run | None:
    """Return convolutions with kernels of one place: products of the kernels with the images where they lie."""
    places = math.prod(x[2:])
    if after.order is not None and len(x) != 3:
        return None
    multiply = ready_matmul((x[0], weight[0], places), weight[1], after, left=weight[:2], right=(x[0], x[1], places))
    if multiply is None:
        return None

    def run(images: Array, kernels: Weights, through: Through) -> tuple[Array, Seen]:
        found, seen = multiply(kernels, images, through)
        return (found if after.order is not None else found.reshape(x[0], weight[0], *x[2:])), seen

    return run


PAIRS: Mapping[str, Pair] = {
    "add": Pair.ADD,
    "sub": Pair.SUB,
    "mul": Pair.MUL,
    "maximum": Pair.MAX,
    "minimum": Pair.MIN,
}
"""Operations on pairs, by name."""


@dataclass(frozen=True, slots=True)
class ReadyPairs:
    """Pairs of elements with results of a shape, to which operands are broadcast."""

    pair: Pair
    shape: Shape
    templates: dict[tuple[Shape, Shape], tuple[Pairs, list[Array], bool]] = field(default_factory=dict[Any, Any])
    """By the strides of the operands: the call without addresses, the places that it points to, and whether operands
    are copied first."""

    def __call__(self, x: Array, y: Array, through: Through) -> tuple[Array, Seen]:
        """Return what pairs of fp16 numbers give, and what was noted of it."""
        first, second = bits_of("pairs", x), bits_of("pairs", y)
        key = (first.strides, second.strides)
        if key not in self.templates:
            self.templates[key] = self.template(first, second)
        template, _, copies = self.templates[key]
        if copies:
            first, second = (np.ascontiguousarray(np.broadcast_to(one, self.shape)) for one in (first, second))
        given = Pairs.from_buffer_copy(template)
        out, noted = np.empty(self.shape, np.uint16), Noted()
        given.x, given.y, given.out = address(first), address(second), address(out)
        given.seen = ctypes.addressof(noted)
        set_through(given, through)
        call("aneforge_run_pairs", ctypes.byref(given))
        return out.view(np.float16), Seen.of(noted)

    def template(self, x: Array, y: Array) -> tuple[Pairs, list[Array], bool]:
        """Return the call for operands of some strides, without addresses."""
        wide = np.broadcast_to(x, self.shape), np.broadcast_to(y, self.shape)
        axis, first, second = in_runs(*wide)
        return *pairs_of(self.pair, axis, first, second), first is not wide[0] or second is not wide[1]


def ready_pairs(operation: str, shape: Shape) -> Run | None:
    """Return an operation on pairs with results of a shape, None where it is another operation or there are none.

    >>> run = ready_pairs("mul", (2,))
    >>> run(np.array([3.0, 0.5], np.float16), np.array([2.0], np.float16), PLAIN)[0].tolist()
    [6.0, 1.0]
    """
    return ReadyPairs(PAIRS[operation], shape) if operation in PAIRS and math.prod(shape) else None
