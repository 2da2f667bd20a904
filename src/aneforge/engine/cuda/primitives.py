"""Steps of arithmetic as launches: elements, pairs, tables, copies, rows. Products stand in `product_launches`.

Every method takes tensors or constant arrays of the host and returns tensors; nothing runs before the plan does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine.activations import ACTIVATIONS, LOG2_E, SEGMENTS, samples
from aneforge.engine.cuda.plans import Address, Buffer, Findings, Launch, Plan, Role
from aneforge.engine.cuda.tensors import Tensor, UnsuitedError, dense_steps, type_of
from aneforge.engine.kernels.arrays import places_of
from aneforge.engine.kernels.norms import table_of_golden
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice

    Array = npt.NDArray[Any]
    Value = Tensor | npt.NDArray[Any]

__all__ = ["PAIRS", "Builder", "Extremes"]

HALF = np.dtype(np.float16)
MOST_AXES = 6
UNRECTIFIED = (0, 0, 0, 0, 1)
"""The last fields of a product: whether negative results become 0, flags of results that are not numbers and of −0,
where those are noted, and how many results a sample has."""
INFINITY_BITS, NEGATIVE_ZERO = 0x7C00, 0x8000
PRODUCED = np.concatenate([np.arange(0x7C01), np.arange(0x8000, 0xFC01)])
"""Bits that come out of a product: numbers and infinities."""
WIDTH = 256
MOST_BLOCKS = 132 * 16
"""Blocks of a grid over elements: as many as a large device holds at a time; each does several elements."""
LOOKED_AT = 16
"""Numbers that a thread looks at for the extremes of a value."""
LEAST_START = 0xFFFF
PAIRS = {"add": 0, "sub": 1, "mul": 2, "max": 3, "min": 4, "slope": 5}
COMPARISONS = {"equal": 0, "not_equal": 1, "greater": 2, "greater_equal": 3, "less": 4, "less_equal": 5}
RESPONSES = {0.5: 1, 1: 2, 2: 3, 0.75: 4}
"""Powers of response norms that every processor computes alike, in the order of `enum response`."""
ROW_WIDTH = 128
WARP = 32
SHORT_ROW = 512
"""Elements of a row up to which one warp does it."""
STRETCH = 4096
SUM_TOTAL, SUM_HALF, SUM_SQUARE = range(3)
LARGEST_PLACE = 2**31 - 1
INVERSE_KNOTS = samples(np.reciprocal, 0.5 + np.arange(SEGMENTS + 1) / (2 * SEGMENTS))
ROOT_KNOTS = np.concatenate([np.zeros(8), samples(lambda at: 1 / np.sqrt(at), np.arange(8, SEGMENTS + 1) / 16)])


@dataclass(frozen=True, slots=True)
class Extremes:
    """Where the largest magnitude, the least above 0 and the zeros of a value are noted, by sample and then for all."""

    largest: int
    least: int
    zeros: int


@dataclass(frozen=True, slots=True)
class Mark:
    """How much a builder had laid out at some time; what it knows only grows, in order."""

    items: int
    extremes: int
    packs: int
    copies: int
    findings: Findings
    gate: tuple[Address, int] | None


class Builder:
    """Lays out a plan for a number of samples."""

    def __init__(self, samples: int, kept: dict[object, Buffer]) -> None:
        self.plan = Plan(samples)
        self.samples = samples
        self.findings = Findings(samples)
        self.kept = kept
        """Constants by what distinguishes them; plans for other numbers of samples share them."""
        self.extremes: dict[Buffer, Extremes] = {}
        self.packs: dict[object, list[Address]] = {}
        """Where operands of products are packed, by what distinguishes them, with the bounds of their lines."""
        self.copies: dict[object, Tensor] = {}
        """What was copied so that its elements are contiguous, by where they were."""
        self.fresh: Buffer | None = None
        """What the last launches, those of a product, left; a table directly after it is theirs."""
        self.gate: tuple[Address, int] | None = None
        """Products run only where a magnitude is reached, while this is set."""
        self.words, self.high, self.wide = (Buffer(0, Role.KEPT) for _ in range(3))

    # Attempts.

    def mark(self) -> Mark:
        """Return how much was laid out so far, for `undo`."""
        known = (len(self.extremes), len(self.packs), len(self.copies))
        return Mark(len(self.plan.items), *known, replace(self.findings), self.gate)

    def undo(self, mark: Mark) -> None:
        """Forget what was laid out since then: another form takes its place, and nothing of it will run."""
        del self.plan.items[mark.items :]
        forget_after(self.extremes, mark.extremes)
        forget_after(self.packs, mark.packs)
        forget_after(self.copies, mark.copies)
        self.findings, self.gate, self.fresh = replace(mark.findings), mark.gate, None

    # Memory.

    def constant(self, array: Array, key: object = None) -> Tensor:
        """Return a constant; arrays with one key are one."""
        known = (id(array),) if key is None else key
        if known not in self.kept:
            content = np.ascontiguousarray(array)
            self.kept[known] = Buffer(content.nbytes, Role.CONSTANT, content)
            self.kept[(known, "alive")] = Buffer(0, Role.CONSTANT, array)  # what an id is of must stay
        shape = np.shape(array)
        return Tensor(self, self.kept[known], array.dtype, shape, dense_steps(shape), 0, 0)

    def as_tensor(self, value: Value) -> Tensor:
        """Return a tensor; what the host holds is a constant."""
        return value if isinstance(value, Tensor) else self.constant(np.asarray(value))

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any] = HALF, *, role: Role = Role.SCRATCH) -> Tensor:
        """Return memory for a tensor of every sample."""
        size = math.prod(shape)
        buffer = Buffer(size * self.samples * dtype.itemsize, role)
        return Tensor(self, buffer, dtype, tuple(shape), dense_steps(shape), 0, size)

    def table(self, array: Array, key: object) -> Address:
        """Return the address of a constant that is not a tensor, such as a list of places."""
        if key not in self.kept:
            content = np.ascontiguousarray(array)
            self.kept[key] = Buffer(content.nbytes, Role.CONSTANT, content)
        return Address(self.kept[key])

    def places(self, places: npt.NDArray[np.int64], dtype: type = np.int32) -> Address:
        """Return a list of places on the device.

        Raises:
            UnsuitedError: They are beyond 32 bits.
        """
        if dtype is np.int32 and places.size and int(places.max()) > LARGEST_PLACE:
            raise UnsuitedError("indices beyond 32 bits")
        held = places.astype(dtype)
        return self.table(held, ("places", held.dtype.name, held.size, held.tobytes()))

    def at(self, tensor: Tensor) -> Address:
        """Return the address of a tensor."""
        return Address(tensor.buffer, tensor.first * tensor.dtype.itemsize)

    def launch(self, kernel: str, grid: tuple[int, int, int], width: int, *arguments: object, memory: int = 0) -> None:
        """Add a launch; lists among the arguments are taken apart."""
        if max(grid[1:]) > 65535 or grid[0] > LARGEST_PLACE:
            raise UnsuitedError("a grid larger than a device can run")
        if 0 in grid:
            return
        self.fresh = None
        self.plan.items.append(Launch(kernel, grid, width, tuple(flat(arguments)), memory))

    def over(self, kernel: str, count: int, *arguments: object, samples: int = 1) -> None:
        """Add a launch over elements."""
        self.launch(kernel, (min(-(-count // WIDTH), MOST_BLOCKS), samples if count else 0, 1), WIDTH, *arguments)

    # Findings.

    def word(self) -> int:
        """Return the place of a word for every sample and one for all, which begins with 0."""
        self.findings.words += 1
        return self.findings.words - 1

    def wide_word(self) -> int:
        """Return the place of eight bytes for every sample, which begin with 0."""
        self.findings.wide += 1
        return self.findings.wide - 1

    def refusal(self) -> int:
        """Return the place of a word that says of every sample whether the host must say what is wrong with it."""
        place = self.word()
        self.findings.refusals += (place,)
        return place

    def undecided(self) -> int:
        """Return the place of a word that says of every sample whether the host must compute it."""
        place = self.word()
        self.findings.undecided += (place,)
        return place

    def word_at(self, place: int, *, overall: bool = False) -> Address:
        """Return the address of words for samples, or of that for all."""
        return Address(self.words, (place * (self.samples + 1) + (self.samples if overall else 0)) * 4)

    def least_at(self, place: int, *, overall: bool = False) -> Address:
        """Return the address of words that begin high, for samples or for all."""
        return Address(self.high, (place * (self.samples + 1) + (self.samples if overall else 0)) * 4)

    def wide_at(self, place: int) -> Address:
        """Return the address of eight bytes for every sample."""
        return Address(self.wide, place * self.samples * 8)

    def find_extremes(self, value: Value) -> Extremes:
        """Note the extremes of a value, once."""
        tensor = self.as_tensor(value)
        if tensor.size * (self.samples if tensor.sample else 1) * 2 != tensor.buffer.nbytes:
            tensor = self.contiguous(tensor)
        if tensor.buffer not in self.extremes:
            whole = tensor.sample == 0
            count = tensor.buffer.nbytes // 2 // (1 if whole else self.samples)
            self.findings.high += 1
            found = Extremes(self.word(), self.findings.high - 1, self.word())
            self.extremes[tensor.buffer] = found
            self.note_extremes(Address(tensor.buffer), count, found, 1 if whole else self.samples)
        return self.extremes[tensor.buffer]

    def note_extremes(self, address: Address, count: int, found: Extremes, samples: int) -> None:
        """Add the launch that notes extremes; a thread looks at many numbers before its block compares."""
        blocks = min(-(-count // (WIDTH * LOOKED_AT)), MOST_BLOCKS)
        self.launch(
            "magnitude",
            (blocks, samples, 1),
            WIDTH,
            address,
            self.word_at(found.largest),
            self.least_at(found.least),
            self.word_at(found.zeros),
            count,
            self.samples,
        )

    def begin(self) -> list[Launch]:
        """Return what every run begins with: findings as they begin. The buffers get their sizes here."""
        each = self.samples + 1
        words, high = self.findings.words * each, self.findings.high * each
        launches: list[Launch] = []
        wide = self.findings.wide * self.samples * 2
        for buffer, count, value in ((self.words, words, 0), (self.high, high, LEAST_START), (self.wide, wide, 0)):
            object.__setattr__(buffer, "nbytes", count * 4)
            if count:
                self.plan.findings.append(buffer)
                blocks = min(-(-count // WIDTH), MOST_BLOCKS)
                launches.append(Launch("fill", (blocks, 1, 1), WIDTH, (Address(buffer), count, value)))
        return launches

    # Elements.

    def lookup(self, x: Tensor, table: Array, key: object, flags: Array | None = None) -> tuple[Tensor, int]:
        """Return what a table has for every number, and where the flags that were met are noted."""
        held = self.contiguous(x)
        out = self.empty(held.shape, table.dtype if table.dtype != np.uint16 else HALF)
        place = self.word() if flags is not None else 0
        self.over(
            "lookup",
            held.size,
            self.at(held),
            self.table(table, ("table", key)),
            self.at(out),
            0 if flags is None else self.table(flags, ("flags", flags.tobytes())),
            self.word_at(place) if flags is not None else 0,
            held.size,
            held.dtype.itemsize,
            out.dtype.itemsize,
            samples=self.samples,
        )
        return out, place

    def scale_channels(
        self, x: Tensor, scales: Array, zeros: Array, axis: int, dtype: np.dtype[Any], reach: tuple[int, int]
    ) -> Tensor:
        """Return integers as fp16 numbers, or fp16 numbers as integers within a reach, by what their channels have."""
        held = self.contiguous(x)
        out = self.empty(held.shape, dtype)
        count, channels = held.size * self.samples, held.shape[axis]
        with np.errstate(invalid="ignore"):  # what is not a number goes as this processor converts it
            rest = np.zeros(1) * np.inf
            no_number = int(rest.astype(HALF).view(np.uint16)[0]) if dtype == HALF else int(rest.astype(dtype)[0])
        tables = [np.broadcast_to(one.astype(np.float64), (channels,)).copy() for one in (scales, zeros)]
        self.over(
            "scale_channels",
            count,
            *(self.at(one) for one in (held, out)),
            *(self.table(one, ("channels", one.tobytes())) for one in tables),
            [count, math.prod(held.shape[axis + 1 :]), channels, type_of(held), type_of(out), no_number],
            *map(float, reach),
        )
        return out

    def lookup_next(self, x: Tensor, table: Array, key: object, flags: Array) -> tuple[Tensor, int]:
        """Do as `lookup` with a value that nothing else asks for: a product rectifies its own results."""
        special, zero = int(flags[INFINITY_BITS]), int(flags[NEGATIVE_ZERO])
        rectified = np.where(PRODUCED < NEGATIVE_ZERO, PRODUCED, 0)
        expected = np.where(PRODUCED & 0x7FFF == INFINITY_BITS, special, np.where(PRODUCED == NEGATIVE_ZERO, zero, 0))
        rectifies = np.array_equal(table[PRODUCED], rectified) and np.array_equal(flags[PRODUCED], expected)
        whole = x.dense and x.size * self.samples * 2 == x.buffer.nbytes
        if x.buffer is not self.fresh or not whole or not rectifies:
            return self.lookup(x, table, key, flags)
        place = self.word()
        for number in (-2, -1):
            launch = self.plan.items[number]
            assert isinstance(launch, Launch)  # noqa: S101 - a product's
            kept = launch.arguments[: -len(UNRECTIFIED)]
            fields = (1, special, zero, self.word_at(place), x.size)
            self.plan.items[number] = replace(launch, arguments=(*kept, *fields))
        self.fresh = None
        return x, place

    def activation(self, name: str, x: Tensor) -> Tensor:
        """Return a function of the activation unit."""
        return self.lookup(x, table_of_golden(ACTIVATIONS[name]), ("activation", name))[0]

    def pair(self, kind: str, x: Value, y: Value, *, zeros: int | None = None) -> Tensor:
        """Combine pairs of fp16 numbers, broadcast."""
        left, right = self.halves(x), self.halves(y)
        out = self.empty(np.broadcast_shapes(left.shape, right.shape))
        axes, (one, other) = self.walk(out, left, right)
        self.over(
            "pairs",
            out.size * self.samples,
            self.at(left),
            self.at(right),
            self.at(out),
            0 if zeros is None else self.word_at(zeros),
            out.size * self.samples,
            out.size,
            PAIRS[kind],
            axes,
            one,
            other,
        )
        return out

    def compare(self, kind: str, x: Value, y: Value) -> Tensor:
        """Compare pairs of fp16 numbers, broadcast."""
        left, right = self.halves(x), self.halves(y)
        out = self.empty(np.broadcast_shapes(left.shape, right.shape), np.dtype(np.bool_))
        axes, steps = self.walk(out, left, right)
        count = out.size * self.samples
        self.over("compare", count, self.at(left), self.at(right), self.at(out), count, COMPARISONS[kind], axes, *steps)
        return out

    def power(self, x: Value, y: Value) -> Tensor:
        """Return powers of fp16 numbers, broadcast, as the mathematics has them."""
        left, right = self.halves(x), self.halves(y)
        out = self.empty(np.broadcast_shapes(left.shape, right.shape))
        axes, steps = self.walk(out, left, right)
        count = out.size * self.samples
        self.over("powers", count, self.at(left), self.at(right), self.at(out), count, axes, *steps)
        return out

    def response_norm(self, x: Value, axis: int, size: int, factor: float, beta: float, k: float) -> Tensor:
        """Return x / (k + factor · Σ x²)^beta, the sum over neighbours along an axis."""
        held = self.contiguous(self.halves(x))
        out = self.empty(held.shape)
        count, kind = out.size * self.samples, RESPONSES.get(beta, 0)
        self.over(
            "response_norm",
            count,
            *(self.at(one) for one in (held, out)),
            0 if kind else self.word_at(self.undecided()),
            [count, out.size, held.shape[axis], math.prod(held.shape[axis + 1 :]), (size - 1) // 2, size // 2, kind],
            *map(float, (k, factor, beta)),
        )
        return out

    def choose(self, condition: Value, x: Value, y: Value) -> Tensor:
        """Return x where a condition holds, else y, broadcast."""
        asked, left, right = self.as_tensor(condition), self.halves(x), self.halves(y)
        if asked.dtype != np.bool_:
            raise UnsuitedError("a condition that is not boolean")
        out = self.empty(np.broadcast_shapes(asked.shape, left.shape, right.shape))
        axes, steps = self.walk(out, asked, left, right)
        count = out.size * self.samples
        self.over("choose", count, *(self.at(one) for one in (asked, left, right, out)), count, axes, *steps)
        return out

    def gained_pair(self, kind: str, x: Value, y: Value, gain: Array | None, offset: Array | None) -> Tensor:
        """Return gain · (x op y) + offset, rounded once."""
        left, right = self.halves(x), self.halves(y)
        out = self.empty(np.broadcast_shapes(left.shape, right.shape))
        numbers = [None if one is None else self.constant(np.asarray(one, np.float64)) for one in (gain, offset)]
        axes, steps = self.walk(out, left, right, *(right if one is None else one for one in numbers))
        count = out.size * self.samples
        self.over(
            "gained_pairs",
            count,
            self.at(left),
            self.at(right),
            *(0 if one is None else self.at(one) for one in numbers),
            self.at(out),
            count,
            PAIRS[kind],
            axes,
            *steps,
        )
        return out

    def gained_total(self, totals: Tensor, gain: Array | None, offset: Array | None) -> Tensor:
        """Return gain · total + offset of unrounded sums, rounded once."""
        out = self.empty(totals.shape)
        numbers = [None if one is None else self.constant(np.asarray(one, np.float64)) for one in (gain, offset)]
        axes, (_, *steps) = self.walk(out, totals, *(totals if one is None else one for one in numbers))
        count = out.size * self.samples
        self.over(
            "gained_totals",
            count,
            self.at(totals),
            *(0 if one is None else self.at(one) for one in numbers),
            self.at(out),
            count,
            axes,
            *steps,
        )
        return out

    def halves(self, value: Value) -> Tensor:
        """Return a tensor of fp16.

        Raises:
            UnsuitedError: It is of another type.
        """
        tensor = self.as_tensor(value)
        if tensor.dtype != HALF:
            raise UnsuitedError(f"numbers of {tensor.dtype}")
        return tensor

    def walk(self, out: Tensor, *operands: Tensor) -> tuple[list[int], list[list[int]]]:
        """Return the axes of a result, samples first, and the steps of operands that are broadcast to it."""
        laid = [broadcast_steps(one, out.shape) for one in operands]
        shape, steps = compact(
            [self.samples, *out.shape], [[one.sample, *along] for one, along in zip(operands, laid, strict=True)]
        )
        return shape, steps

    # Copies.

    def contiguous(self, x: Tensor) -> Tensor:
        """Return a tensor of every sample whose elements are contiguous; what was copied once stays."""
        if x.dense and (x.sample or not x.size):
            return x
        known = (x.buffer, x.first, x.shape, x.steps, x.sample)
        if known in self.copies:
            return self.copies[known]
        out = self.empty(x.shape, x.dtype)
        axes, (steps,) = self.walk(out, x)
        count = out.size * self.samples
        self.over("move", count, self.at(x), self.at(out), count, x.dtype.itemsize, axes, steps)
        self.copies[known] = out
        return out

    def padded(
        self,
        x: Tensor,
        axes: int,
        around: Sequence[tuple[int, int]],
        gaps: Sequence[int] = (1, 1, 1),
        filled: int = 0,
    ) -> Tensor:
        """Return images with something around the last axes, and zeros between their elements."""
        apart = [(extent - 1) * gap + 1 for extent, gap in zip(x.shape[-axes:], gaps, strict=False)]
        extents = [extent + sum(pair) for extent, pair in zip(apart, around, strict=True)]
        if list(x.shape[-axes:]) == extents and not np.any(around):
            return self.halves(x) if x.sample else self.contiguous(self.halves(x))
        held = self.contiguous(self.halves(x))
        out = self.empty((*x.shape[:-axes], *extents))
        ones = [1] * (3 - axes)
        self.over(
            "pad_planes",
            -(-out.size * self.samples // 8),
            self.at(held),
            self.at(out),
            out.size * self.samples,
            filled,
            [*ones, *x.shape[-axes:]],
            [*ones, *extents],
            [*(0 for _ in ones), *(before for before, _ in around)],
            [*ones, *list(gaps)[:axes]],
        )
        return out

    def picked(self, sources: Sequence[Tensor], maps: Sequence[tuple[Array, Array | None]], out: Tensor) -> None:
        """Copy elements of several sources by lists of places, which are the same for every sample."""
        for source, (taken, given) in zip(sources, maps, strict=True):
            held = source if source.dense else self.contiguous(source)
            self.over(
                "pick",
                taken.size,
                self.at(held),
                self.at(out),
                self.places(taken),
                0 if given is None else self.places(given),
                taken.size,
                out.dtype.itemsize,
                held.sample,
                out.sample,
                samples=self.samples,
            )

    def moved(self, source: Tensor, first: int, shape: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Return a tensor whose elements are in an affine pattern in another: a view, which nothing moves for."""
        return Tensor(
            self, source.buffer, source.dtype, tuple(shape), tuple(steps), source.first + first, source.sample
        )

    # Rows.

    def sums(
        self,
        x: Tensor,
        axes: Sequence[int],
        adder: AdderChoice,
        *,
        kind: int = 0,
        result: int = SUM_HALF,
        factor: Array | None = None,
    ) -> Tensor:
        """Return sums along axes, which stay with length 1; a factor works on them before they are rounded."""
        held = self.contiguous(self.halves(x))
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = self.rows(held, kept, sorted(axes))
        return self.summed(
            held, rows, [held.shape[axis] if axis in kept else 1 for axis in range(x.ndim)], adder, kind, result, factor
        )

    def summed(
        self,
        x: Tensor,
        rows: Sequence[object],
        shape: Sequence[int],
        adder: AdderChoice,
        kind: int,
        result: int,
        factor: Array | None,
    ) -> Tensor:
        """Return sums of rows."""
        out = self.empty(shape, np.dtype(np.float64) if result == SUM_TOTAL else HALF)
        factors = None if factor is None else np.asarray(factor, np.float64).ravel()
        self.launch_rows(
            "sum_rows",
            out.size * self.samples,
            self.at(x),
            self.at(out),
            0 if factors is None else self.table(factors, ("factors", factors.tobytes())),
            1 if factors is None else factors.size,
            kind,
            result,
            rows,
            adder_fields(adder),
        )
        return out

    def rows(self, x: Tensor, kept: Sequence[int], gone: Sequence[int]) -> list[object]:
        """Return where rows begin and the steps of their elements, for axes that stay and axes along a row."""
        shape, (steps,) = compact(
            [self.samples, *(x.shape[axis] for axis in kept)], [[x.sample, *(x.steps[axis] for axis in kept)]]
        )
        extents, along = [x.shape[axis] for axis in gone], [x.steps[axis] for axis in gone]
        length = math.prod(extents)
        step = one_step(extents, along)
        taps = 0 if step is not None else self.places(places_of(extents, along))
        return [shape, steps, taps, step or 0, length]

    def launch_rows(self, kernel: str, count: int, *arguments: object) -> None:
        """Add a launch with a block for every row, given its arguments with `rows` and an adder last."""
        length = cast("int", flat(arguments)[-7])
        width = ROW_WIDTH if length > SHORT_ROW else WARP
        memory = (ROW_WIDTH + 2 * -(-min(length, STRETCH) // 4)) * 8
        self.launch(kernel, (count, 1, 1), width, *arguments, memory=memory)

    def softmax(self, x: Tensor, axis: int, adder: AdderChoice | None) -> Tensor:
        """Return eˣ / Σ eˣ along an axis."""
        held = self.contiguous(self.halves(x))
        out = self.empty(held.shape)
        place = axis % held.ndim
        kept = [one for one in range(held.ndim) if one != place]
        self.launch_rows(
            "softmax_rows",
            held.size * self.samples // max(held.shape[place], 1),
            self.at(held),
            self.at(out),
            self.table(table_of_golden(ACTIVATIONS["exp2"]), ("table", ("activation", "exp2"))),
            self.table(INVERSE_KNOTS, "knots of the reciprocal"),
            LOG2_E,
            self.rows(held, kept, [place]),
            adder_fields(adder),
        )
        return out

    def standardised(
        self, x: Tensor, axes: Sequence[int], epsilon: float, adder: AdderChoice, *, centred: bool = True
    ) -> Tensor:
        """Return (x − μ) / √(σ² + epsilon) along axes; not centred, x / √ max(Σ x², epsilon)."""
        held = self.contiguous(self.halves(x))
        out = self.empty(held.shape)
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        length = math.prod(x.shape[axis] for axis in axes)
        self.launch_rows(
            "standardise_rows",
            held.size * self.samples // max(length, 1),
            self.at(held),
            self.at(out),
            self.table(ROOT_KNOTS, "knots of the reciprocal root"),
            float(np.float32(epsilon)),
            float(np.float32(1.0) / np.float32(max(length, 1))),
            int(centred),
            self.rows(held, kept, sorted(axes)),
            adder_fields(adder),
        )
        return out

    def extreme(
        self, x: Tensor, rows: Sequence[object], shape: Sequence[int], sign: int, dtype: np.dtype[Any]
    ) -> Tensor:
        """Return the first of the largest or smallest numbers of rows, or its place."""
        out = self.empty(shape, dtype)
        count = out.size * self.samples
        places = 0 if dtype == HALF else dtype.itemsize
        if places not in (0, 2, 4):
            raise UnsuitedError(f"indices of {dtype}")
        self.over("extreme_rows", count, self.at(x), self.at(out), count, sign, places, rows)
        return out


def forget_after(known: dict[Any, Any], count: int) -> None:
    """Forget what was added to a table after so many entries.

    >>> known = {"a": 1, "b": 2, "c": 3}
    >>> forget_after(known, 1)
    >>> known
    {'a': 1}
    """
    for key in list(known)[count:]:
        del known[key]


def flat(arguments: Sequence[object]) -> list[Address | int | float]:
    """Return arguments one after the other."""
    found: list[Address | int | float] = []
    for one in arguments:
        if isinstance(one, list | tuple):
            found += flat(one)  # type: ignore[arg-type]
        elif isinstance(one, Address | float):
            found.append(one)
        else:
            found.append(int(one))  # type: ignore[call-overload]
    return found


def adder_fields(adder: AdderChoice | None) -> list[int]:
    """Return how numbers are added, as kernels take it; without an adder, as products with 1.

    Raises:
        UnsuitedError: The kernels have no such order.
    """
    if adder is None:
        return [0] * 6
    if adder.chain:
        if adder.chain != 8 or adder.times > 3:
            raise UnsuitedError("another order of sums")
        return [0, 0, 0, adder.chain, adder.times, adder.bits]
    if adder.group != 4 or adder.tree != 16:
        raise UnsuitedError("another order of sums")
    return [adder.group, adder.tree, adder.window, 0, 0, 0]


def broadcast_steps(x: Tensor, shape: Sequence[int]) -> list[int]:
    """Return the steps of an operand along the axes of a result to which it is broadcast."""
    missing = len(shape) - x.ndim
    return [0] * missing + [
        0 if extent == 1 and wanted != 1 else step
        for extent, wanted, step in zip(x.shape, shape[missing:], x.steps, strict=True)
    ]


def compact(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return axes without those of length 1 and with neighbours made one where all operands allow, six of them.

    >>> compact([2, 3, 4], [[12, 4, 1], [0, 0, 1]])
    ([1, 1, 1, 1, 6, 4], [[0, 0, 0, 0, 4, 1], [0, 0, 0, 0, 0, 1]])

    Raises:
        UnsuitedError: More are left.
    """
    axes: list[int] = []
    along: list[list[int]] = [[] for _ in steps]
    for place, extent in enumerate(shape):
        here = [one[place] for one in steps]
        if extent == 1:
            continue
        if axes and all(one[-1] == step * extent for one, step in zip(along, here, strict=True)):
            axes[-1] *= extent
            for one, step in zip(along, here, strict=True):
                one[-1] = step
            continue
        axes.append(extent)
        for one, step in zip(along, here, strict=True):
            one.append(step)
    if len(axes) > MOST_AXES:
        raise UnsuitedError(f"{len(axes)} axes that are not adjacent")
    missing = MOST_AXES - len(axes)
    return [1] * missing + axes, [[0] * missing + one for one in along]


def one_step(extents: Sequence[int], steps: Sequence[int]) -> int | None:
    """Return the step between neighbours of a row along several axes; None where it is not one.

    >>> one_step([3, 4], [4, 1]), one_step([3, 4], [8, 1]), one_step([], [])
    (1, None, 0)
    """
    longer = [(extent, step) for extent, step in zip(extents, steps, strict=True) if extent > 1]
    if not longer:
        return 0
    expected = longer[-1][1]
    for extent, step in reversed(longer):
        if step != expected:
            return None
        expected *= extent
    return longer[-1][1]
