"""Products as steps: by a constant matrix, and of two tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.task_places import matrices_of
from aneforge.engine.planar import host_fp16
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.channel_softmax import Scratch
from aneforge.formats.hwx.emission.coefficients import kernel_plans, pack_kernel
from aneforge.formats.hwx.emission.move_tasks import exchange_channels_and_width
from aneforge.formats.hwx.emission.product_tasks import (
    constant_product_tasks,
    linear_convolution,
    runtime_kernel_size,
    runtime_product_tasks,
)
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.records import dataclass
from aneforge.runtime.hwx.move_steps import exchange_step
from aneforge.runtime.hwx.step import (
    Step,
    bias_of,
    core_extent,
    dense_values,
    extent_of,
    fp16_values,
    get_planned_place,
)
from aneforge.targets.task_chains import KERNEL_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.memory.task_places import Exchange, LayerPlaces, Matrices, ProductPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool
    from aneforge.targets.task_chains import Chain


__all__ = ["linear_steps", "product_parts", "product_steps"]


def product_steps(layer: Layer, places: LayerPlaces, scale: float = 1.0) -> tuple[Step, ...]:
    """Return the step of products of two tensors: one for each channel, in parts of as many rows as a kernel may have.

    Programs of single products of 16 to 128 rows were read; that others are made of them, and that a first tensor of
    fewer rows is multiplied the other way round, is inferred. They are scaled before they are rounded.

    Raises:
        HwxError: One is constant, a kernel is too large, or there are too few rows.
    """
    first, second = layer.operand("lhs"), layer.operand("rhs")
    if not isinstance(first, Value) or not isinstance(second, Value) or first == second:
        raise HwxError("ANE-EMIT-008: no program of a product by this constant is known")
    plan, extent = get_planned_place(places.product), core_extent(layer)
    given = [matrices_of(one.type) for one in (first, second)]
    factors = [Factor(*pair) for pair in zip(given[::-1] if plan.back else given, plan.exchanges, strict=True)]
    (kernel, of), result = (one.read for one in factors), matrices_of(layer.core_types[0])
    check_product(layer, plan, (kernel, of, result))
    shapes = [(part.rows, kernel.columns, of.columns) for part in plan.parts]
    product = Extent(kernel.rows, 1, of.columns)
    back = None if plan.back is None else exchange_step(product, plan.back)
    stand = surface_of(product, 0)
    for part, shape in zip(plan.parts, shapes, strict=True):
        runtime_product_tasks(shape, part.chain, stand, stand, stand)
    for one in factors:
        one.tasks(stand, Scratch(0))

    def emit(sources: Sequence[Surface], written: Surface, pool: ConstantPool, room: int) -> tuple[Draft, ...]:
        scratch = Scratch(room)
        tasks: list[Draft] = []
        for place in range(result.matrices):
            matrices: list[Surface] = []
            for factor, source in zip(factors, sources[::-1] if back else sources, strict=True):
                moves, matrix = factor.tasks(matrix_at(factor.given, source, place), scratch)
                tasks += moves
                matrices.append(matrix)
            end = matrix_at(result, written, place)
            to = scratch.take(product) if back else end
            for part, shape in zip(plan.parts, shapes, strict=True):
                some, rows = (one.at(one.base + part.first * one.plane) for one in (matrices[0], to))
                tasks += runtime_product_tasks(
                    shape, part.chain, some, matrices[1], rows, scratch_at=scratch.place, scale=scale
                )
                scratch.place += runtime_kernel_size(part.rows, kernel.columns)
            if back:
                tasks += back.emit([to], end, pool, 0)
        return tuple(tasks)

    room = sum(runtime_kernel_size(part.rows, kernel.columns) for part in plan.parts)
    room += sum(one.scratch for one in factors) + (stand.depth if back else 0)
    return (Step(extent, emit, result.matrices * room),)


def check_product(layer: Layer, plan: ProductPlaces, matrices: Sequence[Matrices]) -> None:
    """Raise the error for a product of kernel and map of which no program is known."""
    kernel, of, result = matrices
    if {kernel.matrices, of.matrices} - {1, result.matrices}:
        raise HwxError("ANE-EMIT-008: no program of products of these shapes is known", seen=layer.result.shape)
    if not plan.parts:
        raise HwxError("ANE-EMIT-008: one of the matrices must have 16 rows", seen=kernel.rows, limit=KERNEL_ROWS[-1])


def matrix_at(matrices: Matrices, tensor: Surface, place: int) -> Surface:
    """Return where one of the matrices is in a tensor; a single one stands for all."""
    if not matrices.of_channels:
        return tensor
    start = place * tensor.plane if matrices.matrices > 1 else 0
    return replace(tensor, base=tensor.base + start, plane=tensor.row, row=tensor.plane)


@dataclass(frozen=True, slots=True)
class Factor:
    """The matrices of one operand of a product, which may be read with rows and columns exchanged."""

    given: Matrices
    exchange: Exchange | None

    @property
    def read(self) -> Matrices:
        """The matrices as the product reads them."""
        return self.given.turned if self.exchange else self.given

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory for one matrix."""
        return surface_of(Extent(self.read.rows, 1, self.read.columns), 0).depth if self.exchange else 0

    def tasks(self, matrix: Surface, scratch: Scratch) -> tuple[tuple[Draft, ...], Surface]:
        """Return the tasks that make a matrix ready, and where it is then."""
        if self.exchange is None:
            return (), matrix
        to = scratch.take(Extent(self.read.rows, 1, self.read.columns))
        chain = get_planned_place(self.exchange.with_columns)
        return (exchange_channels_and_width(Extent(self.given.rows, 1, self.given.columns), chain, matrix, to),), to


def linear_steps(layer: Layer, places: LayerPlaces, offset: Stage | None) -> tuple[Step, ...]:
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
    chain = get_planned_place(places.chain)
    parts = product_parts(extent, result.width, chain, bias=bias is not None)

    def emit(sources: Sequence[Surface], written: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        made: list[Draft] = []
        for start, count in parts:
            shape, chosen = (extent.channels, extent.width, count), slice(start, start + count)
            some = None if bias is None else bias[chosen]
            (blocks,) = pack_kernel(linear_convolution(*shape, bias=some is not None), held[chosen], some)
            source, to = (replace(one, plane=one.row) if whole.height > 1 else one for one in (sources[0], written))
            to = to.at(to.base + 2 * start)
            place = pool.add(blocks)
            made += constant_product_tasks(shape, chain, source, to, bias=some is not None, kernel_at=place)
        return tuple(made)

    return (Step(result, emit),)


COLUMNS = 32
"""Columns of a line of memory."""


def product_parts(extent: Extent, outputs: int, chain: Chain, *, bias: bool) -> tuple[tuple[int, int], ...]:
    """Return first and number of the outputs of each product by a part of a matrix, so that each fits one task.

    Raises:
        HwxError: Not even 32 outputs, whose results fill a line of memory, fit one.
    """
    stand = surface_of(extent, 0)
    for count in (outputs, *range(outputs // COLUMNS * COLUMNS, 0, -COLUMNS)):
        if len(kernel_plans(linear_convolution(extent.channels, extent.width, count, bias=bias))) == 1:
            constant_product_tasks((extent.channels, extent.width, count), chain, stand, stand, bias=bias)
            return tuple((start, min(count, outputs - start)) for start in range(0, outputs, count))
    raise HwxError("ANE-EMIT-004: 32 outputs of a product must fit the kernel memory", seen=extent.width)
