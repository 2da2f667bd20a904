"""Products as steps: by a constant matrix, and of two tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.layer import Value
from aneforge.engine.planar import host_fp16
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.coefficients import kernel_plans, pack_kernel
from aneforge.formats.hwx.emission.move_tasks import (
    exchange_channels_and_width,
)
from aneforge.formats.hwx.emission.product_tasks import (
    constant_product_tasks,
    linear_convolution,
    runtime_kernel_size,
    runtime_product_tasks,
)
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.records import dataclass
from aneforge.runtime.hwx.composed_steps import (
    Scratch,
)
from aneforge.runtime.hwx.step import (
    Step,
    bias_of,
    core_extent,
    dense_values,
    extent_of,
    fp16_values,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool


__all__ = ["linear_steps", "product_parts", "product_steps"]


def product_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of products of two tensors: one for each channel, in parts of as many rows as a kernel may have.

    Programs of single products of 16 to 128 rows were read; that others are made of them is inferred.

    Raises:
        HwxError: One is constant, a kernel is too large, or there are too few rows.
    """
    first, second = layer.operand("lhs"), layer.operand("rhs")
    if not isinstance(first, Value) or not isinstance(second, Value) or first == second:
        raise HwxError("ANE-EMIT-008: no program of a product by this constant is known")
    factors = (
        Factor(Matrices.of(extent_of(first.type)), layer.flag("transpose_lhs")),
        Factor(Matrices.of(extent_of(second.type)), layer.flag("transpose_rhs")),
    )
    left, right = (one.read for one in factors)
    result = Matrices.of(core_extent(layer))
    if {left.count, right.count} - {1, result.count}:
        raise HwxError("ANE-EMIT-008: no program of products of these shapes is known", seen=layer.result.shape)
    parts = row_parts(left.rows)
    stand = surface_of(left.extent, 0)
    for _start, rows in parts:
        runtime_product_tasks(rows, left.columns, right.columns, stand, stand, stand)
    for one in factors:
        one.tasks(stand, Scratch(0))

    def emit(sources: Sequence[Surface], written: Surface, _: ConstantPool, room: int) -> tuple[Draft, ...]:
        scratch = Scratch(room)
        tasks: list[Draft] = []
        for place in range(result.count):
            matrices: list[Surface] = []
            for factor, source in zip(factors, sources, strict=True):
                moves, matrix = factor.tasks(factor.given.surface(source, place), scratch)
                tasks += moves
                matrices.append(matrix)
            to = result.surface(written, place)
            for start, rows in parts:
                kernel, some = (one.at(one.base + start * one.plane) for one in (matrices[0], to))
                shape = (rows, left.columns, right.columns)
                tasks += runtime_product_tasks(*shape, kernel, matrices[1], some, scratch_at=scratch.place)
                scratch.place += runtime_kernel_size(rows, left.columns)
        return tuple(tasks)

    kernels = sum(runtime_kernel_size(rows, left.columns) for _, rows in parts)
    return (Step(core_extent(layer), emit, result.count * (kernels + sum(one.scratch for one in factors))),)


@dataclass(frozen=True, slots=True)
class Matrices:
    """A tensor as matrices: one, whose rows are channels, or one for each channel."""

    count: int
    rows: int
    columns: int

    @classmethod
    def of(cls, extent: Extent) -> Matrices:
        """Return the matrices of a tensor: rows and columns are its last two axes."""
        if extent.height == 1:
            return cls(1, extent.channels, extent.width)
        return cls(extent.channels, extent.height, extent.width)

    @property
    def extent(self) -> Extent:
        """The extents of one of them."""
        return Extent(self.rows, 1, self.columns)

    @property
    def turned(self) -> Matrices:
        """The matrices with rows and columns exchanged."""
        return Matrices(self.count, self.columns, self.rows)

    def surface(self, tensor: Surface, place: int) -> Surface:
        """Return where one of the matrices is in the tensor; a single one stands for all."""
        if self.count == 1:
            return tensor
        return replace(tensor, base=tensor.base + place * tensor.plane, plane=tensor.row, row=tensor.plane)


@dataclass(frozen=True, slots=True)
class Factor:
    """The matrices of one operand of a product, which may be read with rows and columns exchanged."""

    given: Matrices
    exchanged: bool

    @property
    def read(self) -> Matrices:
        """The matrices as the product reads them."""
        return self.given.turned if self.exchanged else self.given

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory for one matrix."""
        return surface_of(self.read.extent, 0).depth if self.exchanged else 0

    def tasks(self, matrix: Surface, scratch: Scratch) -> tuple[tuple[Draft, ...], Surface]:
        """Return the tasks that make a matrix ready, and where it is then."""
        if not self.exchanged:
            return (), matrix
        to = scratch.take(self.read.extent)
        return (exchange_channels_and_width(self.given.extent, matrix, to),), to


KERNEL_ROWS = (128, 64, 32, 16)
"""Rows of a runtime kernel of which programs are known."""


def row_parts(rows: int) -> tuple[tuple[int, int], ...]:
    """Return first and number of the rows of each part of a product; the last part may repeat rows of the one before.

    >>> row_parts(64), row_parts(200)
    (((0, 64),), ((0, 128), (128, 64), (184, 16)))

    Raises:
        HwxError: There are fewer rows than the smallest kernel has.
    """
    if rows < KERNEL_ROWS[-1]:
        raise HwxError("ANE-EMIT-008: a runtime kernel must have at least 16 rows", seen=rows, limit=KERNEL_ROWS[-1])
    parts: list[tuple[int, int]] = []
    start = 0
    while start < rows:
        count = next((one for one in KERNEL_ROWS if one <= rows - start), KERNEL_ROWS[-1])
        parts.append((min(start, rows - count), count))
        start += count
    return tuple(parts)


def linear_steps(layer: Layer, offset: Stage | None) -> tuple[Step, ...]:
    """Return the step of a product by a constant matrix: rows of the source are turned into columns of a map.

    Raises:
        HwxError: There are several matrices, or the kernel does not fit one task.
    """
    whole, result = extent_of(layer.bottoms[0].type), core_extent(layer)
    extent = Extent(whole.channels * whole.height, 1, whole.width)  # rows of all channels are rows of one matrix
    held, given = fp16_values(layer.operand("weight")), layer.weight("bias")
    if given is not None and offset is not None:
        raise HwxError("ANE-EMIT-011: no program of a product with a bias and an offset is known")
    bias = None if given is None else host_fp16(dense_values(given).reshape(-1)).astype(np.float16)
    bias = bias if offset is None else bias_of(offset, result.width)
    parts = product_parts(extent, result.width, bias=bias is not None)

    def emit(sources: Sequence[Surface], written: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        made: list[Draft] = []
        for start, count in parts:
            shape, chosen = (extent.channels, extent.width, count), slice(start, start + count)
            some = None if bias is None else bias[chosen]
            (blocks,) = pack_kernel(linear_convolution(*shape, bias=some is not None), held[chosen], some)
            source, to = (replace(one, plane=one.row) if whole.height > 1 else one for one in (sources[0], written))
            to = to.at(to.base + 2 * start)
            place = pool.add(blocks)
            made += constant_product_tasks(*shape, source, to, bias=some is not None, kernel_at=place)
        return tuple(made)

    return (Step(result, emit),)


COLUMNS = 32
"""Columns of a line of memory."""


def product_parts(extent: Extent, outputs: int, *, bias: bool) -> tuple[tuple[int, int], ...]:
    """Return first and number of the outputs of each product by a part of a matrix, so that each fits one task.

    Raises:
        HwxError: Not even 32 outputs, whose results fill a line of memory, fit one.
    """
    stand = surface_of(extent, 0)
    for count in (outputs, *range(outputs // COLUMNS * COLUMNS, 0, -COLUMNS)):
        if len(kernel_plans(linear_convolution(extent.channels, extent.width, count, bias=bias))) == 1:
            constant_product_tasks(extent.channels, extent.width, count, stand, stand, bias=bias)
            return tuple((start, min(count, outputs - start)) for start in range(0, outputs, count))
    raise HwxError("ANE-EMIT-004: 32 outputs of a product must fit the kernel memory", seen=extent.width)
