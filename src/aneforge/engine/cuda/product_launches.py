"""Products as launches: matrices, convolutions of any window, transposed ones, Winograd's.

They are all one kernel: tables say where the numbers of a line and those of a step are (`native/products.cu`). The left
operand of a convolution is the kernels, the right one the images, padded before, one column for each place of each
image of each sample.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from aneforge.engine import golden
from aneforge.engine.cuda.meanings import Meant, moved
from aneforge.engine.cuda.packing import (
    CHUNK,
    GROUP,
    PACKED,
    PART,
    bounds_of_lines,
    constant_extremes,
    decoded,
    pack_lines,
    pad_places,
)
from aneforge.engine.cuda.plans import Address, Buffer, Role
from aneforge.engine.cuda.primitives import HALF, UNRECTIFIED, Builder, Extremes
from aneforge.engine.cuda.tensors import Tensor, UnsuitedError
from aneforge.engine.kernels.arrays import places_of
from aneforge.engine.rounding import to_fp16
from aneforge.ops.labels import label_extents, labels_of
from aneforge.ops.types import TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from aneforge.engine.golden import Padding, Slides, Window

    Array = npt.NDArray[Any]
    Value = Tensor | npt.NDArray[Any]
    Places = npt.NDArray[np.int64]

__all__ = ["After", "Multiplier"]

THREADS = 128
PRODUCT_MEMORY = 40960
EXACT_THREADS = 256
MULTIPROCESSORS = 132
RESIDENT = 5
"""Blocks of a product that a multiprocessor of a large device holds; with fewer it waits."""
MOST_SLICES = 16
PACKED_FROM = 4
"""Groups of rows from which on images are packed: each gathers them anew, and packs are written once."""
CHUNKS_OF_A_BLOCK = 6
"""Fixed cost of a block, in chunks of its steps."""


@dataclass(frozen=True, slots=True)
class After:
    """What a sum begins at and what is done to it: float64 numbers for every row or column of a product, or one."""

    start: Array | None = None
    gain: Array | None = None
    offset: Array | None = None
    along_rows: bool = False
    unrounded: bool = False
    edgeless: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """An operand: where its batches, lines and steps are."""

    tensor: Tensor
    places: Places
    lines: Places
    steps: Places


@dataclass(frozen=True, slots=True)
class Out:
    """Where results go."""

    tensor: Tensor
    places: Places
    row: int
    columns: Places


class Multiplier:
    """Lays out products; `after` is what all of them have after their sums."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    # Matrices.

    def matmul(self, x: Value, w: Value, start: Array | None = None, *, after: After | None = None) -> Tensor:
        """Return x [..., M, K] times w [..., K, N], the leading axes broadcast; `after` is in place of a start.

        Raises:
            UnsuitedError: The kernels have no such form.
        """
        build = self.builder
        left, right = build.halves(x), build.halves(w)
        if left.ndim == 1:
            found = self.matmul(left[None], right, start, after=after)
            return found.reshape(*found.shape[:-2], found.shape[-1])
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        depth, columns = right.shape[-2:]
        rows = left.shape[-2]
        if left.shape[-1] != depth:
            raise UnsuitedError("matrices whose shapes do not match")
        after = after or After(*columns_of(start, columns))
        out = build.empty((*batch, rows, columns), np.dtype(np.float64) if after.unrounded else HALF)
        left_batch, right_batch = ([*batch_steps(one, batch), one.steps[-2], one.steps[-1]] for one in (left, right))
        if right.sample == 0 and math.prod(right.shape[:-2]) == 1:  # one product with more rows
            lines = places_of([build.samples, *batch, rows], [left.sample, *left_batch[:-1]])
            nowhere = np.zeros(1, np.int64)
            self.multiply(
                Lines(left, nowhere, lines, places_of([depth], [left.steps[-1]])),
                Lines(right, nowhere, places_of([columns], [right.steps[-1]]), places_of([depth], [right.steps[-2]])),
                Out(out, nowhere, columns, np.arange(columns)),
                after,
            )
            return out
        extents = [build.samples, *batch]
        self.multiply(
            Lines(
                left,
                places_of(extents, [left.sample, *left_batch[:-2]]),
                places_of([rows], [left.steps[-2]]),
                places_of([depth], [left.steps[-1]]),
            ),
            Lines(
                right,
                places_of(extents, [right.sample, *right_batch[:-2]]),
                places_of([columns], [right.steps[-1]]),
                places_of([depth], [right.steps[-2]]),
            ),
            Out(out, np.arange(math.prod(extents)) * rows * columns, columns, np.arange(columns)),
            after,
        )
        return out

    def einsum(self, values: tuple[Value, ...], *, equation: str) -> Tensor:
        """Return the sums of products over the labels that the result does not have, one after the other."""
        build = self.builder
        operands = [build.halves(value) for value in values]
        first, second, result = labels_of(equation)
        extents = label_extents([TensorType(one.shape) for one in operands], equation)
        mine, other = ([label for label in result if label in own] for own in (first, second))
        batch = [label for label in mine if label in other]
        rows, columns = ([label for label in own if label not in batch] for own in (mine, other))
        summed = [label for label in extents if label not in result]

        def lines(tensor: Tensor, labels: str, along: list[str]) -> Lines:
            apart = [0 if extent == 1 else step for extent, step in zip(tensor.shape, tensor.steps, strict=True)]

            def places(axes: list[str]) -> Places:
                steps = [sum(apart[i] for i, one in enumerate(labels) if one == label) for label in axes]
                return places_of([extents[label] for label in axes], steps)

            by_batch = places_of([build.samples], [tensor.sample])
            return Lines(tensor, np.add.outer(by_batch, places(batch)).ravel(), places(along), places(summed))

        order = [*batch, *rows, *columns]
        out = build.empty([extents[label] for label in order])
        height, width = (math.prod(extents[label] for label in own) for own in (rows, columns))
        count = build.samples * math.prod(extents[label] for label in batch)
        self.multiply(
            lines(operands[0], first, rows),
            lines(operands[1], second, columns),
            Out(out, np.arange(count) * height * width, width, np.arange(width)),
            After(),
        )
        found = [order.index(label) for label in result]
        shape, steps = ([of[one] for one in found] for of in (out.shape, out.steps))
        return build.contiguous(build.moved(out, 0, shape, steps))

    # Convolutions.

    def convolution(
        self,
        x: Value,
        weight: Value,
        bias: Array | None = None,
        *,
        after: After | None = None,
        **window: Unpack[Window],
    ) -> Tensor:
        """Return the direct convolution of images [N, C, …] with kernels [Cout, C / groups, …].

        Raises:
            UnsuitedError: The kernels have no such form.
        """
        build = self.builder
        kernels = build.halves(weight)
        slides = golden.Slides.of(kernels.ndim - 2, **window)
        images = build.padded(build.as_tensor(x), kernels.ndim - 2, slides.pads)
        return self.convolved(images, kernels, slides, after or After(numbers_of(bias), along_rows=True))

    def convolved(self, images: Tensor, kernels: Tensor, slides: Slides, after: After) -> Tensor:
        """Return the convolution of padded images."""
        build = self.builder
        outer, inner, *kernel = kernels.shape
        groups, count = slides.groups, images.shape[0]
        extents = images.shape[2:]
        spans = [gap * (length - 1) + 1 for gap, length in zip(slides.dilations, kernel, strict=True)]
        places = [
            (extent - span) // step + 1 for extent, span, step in zip(extents, spans, slides.strides, strict=True)
        ]
        out = build.empty((count, outer, *places), np.dtype(np.float64) if after.unrounded else HALF)
        plane = math.prod(places)
        ways = [step * along for step, along in zip(slides.strides, images.steps[2:], strict=True)]
        taps = [gap * along for gap, along in zip(slides.dilations, images.steps[2:], strict=True)]
        rows = outer // groups
        kernel_steps = places_of(kernels.shape[1:], kernels.steps[1:])
        image_steps = places_of([inner, *kernel], [images.steps[1], *taps])
        group = np.arange(groups, dtype=np.int64)
        if kernels.sample == 0:  # samples and images side by side
            left_places, right_places = group * rows * kernels.steps[0], group * inner * images.steps[1]
            lines = places_of([build.samples, count, *places], [images.sample, images.steps[0], *ways])
            columns = places_of([build.samples * count, plane], [outer * plane, 1])
            out_places, batches = group * rows * plane, 1
        else:
            sample = np.arange(build.samples, dtype=np.int64)
            left_places = np.add.outer(sample * kernels.sample, group * rows * kernels.steps[0]).ravel()
            right_places = np.add.outer(sample * images.sample, group * inner * images.steps[1]).ravel()
            lines = places_of([count, *places], [images.steps[0], *ways])
            columns = places_of([count, plane], [outer * plane, 1])
            out_places = np.add.outer(sample * out.size, group * rows * plane).ravel()
            batches = build.samples
        self.multiply(
            Lines(kernels, left_places, places_of([rows], [kernels.steps[0]]), kernel_steps),
            Lines(images, right_places, lines, image_steps),
            Out(out, out_places, plane, columns),
            after,
            np.tile(group * rows, batches),
        )
        return out

    def deconvolution(
        self,
        x: Value,
        weight: Value,
        bias: Array | None = None,
        *,
        extents: Sequence[int] | None = None,
        after: After | None = None,
        **window: Unpack[Window],
    ) -> Tensor:
        """Return the transpose of a convolution, as the golden model does it: of images that are set apart.

        Raises:
            UnsuitedError: The kernels have no such form.
        """
        build = self.builder
        images = build.halves(x)
        channels, outer, *kernel = weight.shape
        slides = golden.Slides.of(len(kernel), **window)
        groups = slides.groups

        def flip_kernels(weights: Array) -> Array:
            by_group = weights.reshape(groups, channels // groups, outer, *kernel)
            flipped = np.flip(np.swapaxes(by_group, 1, 2), axis=tuple(range(3, 3 + len(kernel))))
            return np.ascontiguousarray(flipped.reshape(groups * outer, channels // groups, *kernel))

        if isinstance(weight, Tensor):
            kernels = build.contiguous(moved(flip_kernels, Meant(build.halves(weight))).tensor)
        else:
            kernels = build.constant(flip_kernels(weight), ("turned", id(weight), groups))
            build.constant(weight)  # so that what the key names stays
        apart = [(extent - 1) * step + 1 for extent, step in zip(images.shape[2:], slides.strides, strict=True)]
        spans = [gap * (length - 1) for gap, length in zip(slides.dilations, kernel, strict=True)]
        full = [extent + span for extent, span in zip(apart, spans, strict=True)]
        wanted = [n - sum(cut) for n, cut in zip(full, slides.pads, strict=True)] if extents is None else extents
        around = [
            (span - before, span + before + extent - n)
            for span, (before, _), n, extent in zip(spans, slides.pads, full, wanted, strict=True)
        ]
        padded = build.padded(images, len(kernel), around, slides.strides)
        plain = golden.Slides.of(len(kernel), dilation=slides.dilations, groups=groups)
        return self.convolved(padded, kernels, plain, after or After(numbers_of(bias), along_rows=True))

    def winograd(
        self, x: Value, weight: Value, bias: Array | None = None, *, pad: Padding = 1, after: After | None = None
    ) -> Tensor:
        """Return a 3×3 convolution of stride 1 as Winograd F(2,3) along the width."""
        build = self.builder
        after = after or After(numbers_of(bias), along_rows=True)
        images = build.halves(x)
        (top, bottom), (before, behind) = golden.pairs(pad, 2)
        count, channels, height, wide = images.shape
        outer = weight.shape[0]
        rows, width = height + top + bottom - 2, wide + before + behind - 2
        tiles = (width + 1) // 2
        extra = 2 * tiles - width
        padded = build.contiguous(build.padded(images, 2, [(top, bottom), (before, behind + extra)]))
        tall = height + top + bottom
        planes = build.samples * count * channels * tall
        data = build.empty((4, count, channels, tall, tiles))  # samples are inside, not first
        build.over("transform_data", planes * tiles, build.at(padded), build.at(data), planes, width + 2 + extra, tiles)
        kernels = self.transformed(weight)
        each = build.samples * count
        sums = build.empty((4, count, outer, rows, tiles), np.dtype(np.float64))
        four, plane = np.arange(4, dtype=np.int64), rows * tiles
        sample = np.arange(build.samples if kernels.sample else 1, dtype=np.int64)  # each with its own kernels, or one
        kernel, image = outer * channels * 3, count * channels * tall * tiles
        left = np.add.outer(four * kernel * len(sample), sample * kernel)
        right = np.add.outer(four * planes * tiles, sample * image)
        out_places = np.add.outer(four * each * outer * plane, sample * count * outer * plane)
        images = count if kernels.sample else each
        self.multiply(
            Lines(
                kernels,
                left.ravel(),
                np.arange(outer, dtype=np.int64) * channels * 3,
                np.arange(channels * 3, dtype=np.int64),
            ),
            Lines(
                data,
                right.ravel(),
                places_of([images, rows, tiles], [channels * tall * tiles, tiles, 1]),
                places_of([channels, 3], [tall * tiles, tiles]),
            ),
            Out(sums, out_places.ravel(), plane, places_of([images, plane], [outer * plane, 1])),
            After(unrounded=True, edgeless=True),
        )
        out = build.empty((count, outer, rows, width), np.dtype(np.float64) if after.unrounded else HALF)
        numbers = [self.numbers(one, outer) for one in (after.start, after.gain, after.offset)]
        total = each * outer * plane
        build.over(
            "combine", total, build.at(sums), build.at(out), *numbers, total, tiles, width, rows, outer, after.unrounded
        )
        return out

    def transformed(self, weight: Value) -> Tensor:
        """Return Winograd's four kernels of every one: [4][outer][channels][3], samples inside."""
        build = self.builder
        if isinstance(weight, Tensor) and weight.sample:
            held = build.contiguous(build.halves(weight))
            out = build.empty((4, *held.shape[:3]))
            count = out.size * build.samples // 4
            build.over("transform_kernels", count, build.at(held), build.at(out), count)
            return out
        constant = cast("Array", weight.buffer.content if isinstance(weight, Tensor) else weight)
        parts = np.stack([to_fp16(one) for one in golden.kernel_transform(decoded(constant).astype(np.float64))])
        build.constant(constant)  # so that what the key names stays
        return build.constant(parts.astype(np.float16), ("transformed", id(constant)))

    # The kernel itself.

    def numbers(self, values: Array | None, count: int) -> Address | int:
        """Return the address of float64 numbers, one for each of a count; 0 for none."""
        if values is None:
            return 0
        held = np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.float64).ravel(), (count,)))
        return self.builder.table(held, ("numbers", held.tobytes()))

    def units(self, values: Array | None, count: int) -> Address | int:
        """Return the address of starts on the grid of products, in units of it; those beyond it are not looked at."""
        if values is None:
            return 0
        scaled = np.nan_to_num(np.clip(np.asarray(values, np.float64).ravel() * 65536.0, -(2.0**31) + 1, 2.0**31 - 1))
        whole = np.trunc(scaled + np.copysign(0.5, scaled)).clip(-(2**31), 2**31 - 1)
        held = np.ascontiguousarray(np.broadcast_to(whole, (count,)).astype(np.int32))
        return self.builder.table(held, ("units", held.tobytes()))

    def multiply(self, left: Lines, right: Lines, out: Out, after: After, first_rows: Places | None = None) -> None:
        """Lay out one product: bounds of what is computed, the tiles that they prove fast, and all others."""
        build = self.builder
        rows, columns, depth = len(left.lines), len(right.lines), len(left.steps)
        if depth == 0:
            raise UnsuitedError("sums without elements")
        batches = len(out.places)
        whole = rows if first_rows is None else int(first_rows.max(initial=0)) + rows
        length = whole if after.along_rows else columns
        starts = numbers_of(after.start)
        most = 0.0
        if starts is not None and starts.size:
            most = float(np.abs(starts).max())
        across, down = -(-columns // GROUP), -(-rows // GROUP)
        tiles = across * down * batches
        slices = slices_of(tiles, -(-depth // CHUNK))
        arrived = partial = Address(Buffer(4, Role.SCRATCH))
        if slices > 1:
            arrived, partial = (Address(Buffer(size * tiles, Role.SCRATCH)) for size in (4, slices * GROUP * GROUP * 4))
            build.over("fill", tiles, arrived, tiles, 0)
        arguments = [
            self.operand(left, left=True),
            self.operand(right, left=False, gathers=down < PACKED_FROM),
            rows,
            columns,
            depth,
            self.numbers(after.start, length),
            self.units(after.start, length),
            most,
            int(after.along_rows),
            int(not after.along_rows),
            self.numbers(after.gain, length),
            self.numbers(after.offset, length),
            build.places(first_rows) if first_rows is not None else 0,
            build.at(out.tensor),
            build.places(out.places, np.int64),
            build.places(out.columns),
            out.row,
            after.unrounded,
            after.edgeless,
            build.gate[0] if build.gate else 0,
            build.gate[1] if build.gate else 0,
            Address(Buffer(tiles * 4, Role.SCRATCH)),
            slices,
            partial,
            arrived,
            *UNRECTIFIED,
        ]
        build.launch("product", (across, down, batches * slices), THREADS, *arguments, memory=PRODUCT_MEMORY)
        build.launch("exact_product", (across, down, batches), EXACT_THREADS, *arguments)
        if not after.unrounded and build.gate is None:
            build.fresh = out.tensor.buffer

    def operand(self, lines: Lines, *, left: bool, gathers: bool = False) -> list[object]:
        """Return an operand as the kernel takes it: packed, or gathered where it may be and lines share numbers."""
        build = self.builder
        tensor = lines.tensor
        distinct, which = np.unique(lines.places, return_inverse=True)
        if tensor.sample == 0 and tensor.buffer.content is not None:
            content = tensor.buffer.content.ravel()
            extremes = constant_extremes(content)
            largest: object = build.table(extremes[:1], ("word", int(extremes[0])))
            least: object = build.table(extremes[1:], ("word", int(extremes[1])))
            packed = self.packed_constant(content, lines, distinct, left=left)
        else:
            noted = build.find_extremes(tensor) if tensor.sample else Extremes(0, 0, 0)
            largest, least = build.word_at(noted.largest, overall=True), build.least_at(noted.least, overall=True)
            several = len(lines.lines) * len(distinct) * len(lines.steps) > tensor.size * build.samples
            packed = [0] * 5 if several and gathers else self.packed(lines, distinct, left=left)
        return [
            build.at(tensor),
            build.places(lines.places, np.int64),
            build.places(pad_places(lines.lines, GROUP)),
            build.places(pad_places(lines.steps, CHUNK)),
            packed[0],
            largest,
            least,
            *packed[1:],
            -(-len(lines.lines) // GROUP),
            build.places(which.astype(np.int64)),
        ]

    def packed_constant(self, content: Array, lines: Lines, distinct: Places, *, left: bool) -> list[object]:
        """Return a constant packed, with the bounds of its lines, once for all plans."""
        build = self.builder
        key = (
            "packed",
            left,
            lines.tensor.first,
            id(lines.tensor.buffer.content),
            *(one.tobytes() for one in (lines.places, lines.lines, lines.steps)),
        )
        found: tuple[Array, ...] = ()
        if (key, 0) not in build.kept:
            where = (content, distinct + lines.tensor.first, lines.lines, lines.steps)
            found = (pack_lines(*where, left=left), *bounds_of_lines(*where))
        return [build.table(found[part] if found else np.empty(0), (key, part)) for part in range(5)]

    def packed(self, lines: Lines, distinct: Places, *, left: bool) -> list[object]:
        """Lay out the packing of what is computed, once, and return where it is, with the bounds of its lines."""
        build, tensor = self.builder, lines.tensor
        key = (tensor.buffer, tensor.first, left, *(one.tobytes() for one in (distinct, lines.lines, lines.steps)))
        if key not in build.packs:
            groups, chunks = -(-len(lines.lines) // GROUP), -(-len(lines.steps) // CHUNK)
            count, parts = len(distinct) * groups, -(-len(lines.steps) // PART)
            packs, *bounds = (
                Address(Buffer(count * size, Role.SCRATCH))
                for size in (chunks * PACKED.itemsize, parts * 4, parts * 4, chunks * 4)
            )
            build.packs[key] = [packs, *bounds]
            build.launch(
                "pack",
                (chunks, groups, len(distinct)),
                256,
                build.at(tensor),
                build.places(distinct, np.int64),
                build.places(pad_places(lines.lines, GROUP)),
                build.places(pad_places(lines.steps, CHUNK)),
                len(lines.lines),
                len(lines.steps),
                len(lines.steps) > 1 and lines.steps[1] - lines.steps[0] == 1,
                *build.packs[key],
                left,
            )
        return [*build.packs[key], 0]


def slices_of(tiles: int, chunks: int) -> int:
    """Return how many blocks share the steps of a tile, so that few multiprocessors are idle at the end.

    >>> slices_of(12544, 10), slices_of(49, 144)
    (1, 8)
    """

    def cost(slices: int) -> float:
        rounds, rest = divmod(-(-tiles * slices // MULTIPROCESSORS), RESIDENT)
        alone = 0.3 + 0.7 * rest / RESIDENT if rest else 0.0
        return (rounds + alone) * (-(-chunks // slices) + CHUNKS_OF_A_BLOCK)

    possible = [one for one in range(1, MOST_SLICES + 1) if (one - 1) * -(-chunks // one) < chunks]
    return min(possible, key=cost)


def numbers_of(values: Array | None) -> Array | None:
    """Return a start of sums as the engine reads it, in float64."""
    return None if values is None else golden.bias_operand(values)


def columns_of(start: Array | None, columns: int) -> tuple[Array | None]:
    """Return where the sums of columns start.

    Raises:
        UnsuitedError: It is not one number for every column, or one for all.
    """
    if start is None:
        return (None,)
    found = numbers_of(start)
    assert found is not None  # noqa: S101 - it was given
    if found.size not in (1, columns) or (found.size > 1 and found.shape[-1] != columns):
        raise UnsuitedError("sums with a start value for each row")
    return (found,)


def batch_steps(tensor: Tensor, batch: Sequence[int]) -> list[int]:
    """Return the steps of the leading axes of matrices, broadcast."""
    own = tensor.shape[:-2]
    missing = len(batch) - len(own)
    return [0] * missing + [
        0 if extent == 1 and wanted != 1 else step
        for extent, wanted, step in zip(own, batch[missing:], tensor.steps[:-2], strict=True)
    ]
