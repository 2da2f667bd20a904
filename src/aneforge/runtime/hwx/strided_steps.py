"""Convolutions with strides of which no program is known: with strides of one, of whose result every so many are kept.

Rows are left out by strides of memory; columns are exchanged with channels, left out in the same way, and exchanged
back. That only copies, so that the bits are those of the strided convolution (`emit_program` says that it is inferred).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.move_tasks import exchange_channels_and_width
from aneforge.formats.hwx.emission.surfaces import Extent
from aneforge.runtime.hwx.step import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.memory.task_places import Thinning
    from aneforge.formats.hwx.emission.coefficients import Convolution
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool

__all__ = ["thinned_convolution", "thinning_steps"]


def thinned_convolution(convolution: Convolution, places: Thinning) -> Convolution:
    """Return the convolution with strides of one whose result is thinned."""
    rows, columns = places.whole
    return replace(convolution, stride=(1, 1), result=replace(convolution.result, height=rows, width=columns))


def thinning_steps(result: Extent, strides: tuple[int, int], places: Thinning) -> tuple[Step, Step]:
    """Return the steps that keep every so many rows and columns of a map."""
    _, columns = places.whole
    turned = Extent(columns, result.height, result.channels)

    def keep_rows(sources: Sequence[Surface], to: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return tuple(
            exchange_channels_and_width(
                Extent(result.channels, part.rows, columns),
                part.columns,
                replace(one, base=one.base + part.first * strides[0] * one.row, row=strides[0] * one.row),
                to.at(to.base + part.first * to.row),
            )
            for one in sources
            for part in places.rows
        )

    def keep_columns(sources: Sequence[Surface], to: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return tuple(
            exchange_channels_and_width(
                Extent(result.width, part.rows, result.channels),
                part.back,
                replace(one, base=one.base + part.first * one.row, plane=strides[1] * one.plane),
                to.at(to.base + part.first * to.row),
            )
            for one in sources
            for part in places.rows
        )

    return Step(turned, keep_rows), Step(result, keep_columns)
