"""The tiles in which layers work: how many rows at a time, and what passes between two layers.

No source gives the compiler's choice of tiles. Here a layer takes all its rows at once where operands and results fit
on chip together, and otherwise as many as fit when each is there twice; the planar engine takes no more rows than in
compiled programs. Matrix products read and write through rearrangements, as compiled programs show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.compiler.axes import Axis, axis_of, roles
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of, on_chip_layout
from aneforge.compiler.passes.kernels import kernel_of
from aneforge.ops.constant import Constant
from aneforge.ops.op import Trait
from aneforge.ops.types import bits
from aneforge.ops.windows import WindowAttributes, slides
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["RowWindow", "Tile", "Tiling", "row_window", "tiling_of"]

PLANAR = "planar"
MOVING_SLOTS = (Slot.TEXTURE, Slot.BROADCAST, Slot.TRANSPOSE)
DOUBLE = 2
"""An operand that comes in tiles is there twice: one tile is worked on while the next arrives."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What passes between two layers at a time."""

    channels: int
    rows: int
    width: int
    bits: int
    form: str
    """Planar, or what a layer does to the order of elements as it reads or writes them."""

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.channels}×{self.width} ({self.bits} bits, {self.form})"


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Which rows of an operand a row of the result is made from: `span` of them, every `stride`, `upward` to a row."""

    stride: int = 1
    span: int = 1
    before: int = 0
    upward: int = 1

    def rows_needed(self, rows: int) -> int:
        """Return how many rows of the operand so many rows of the result need, padding counted."""
        return -(-((rows - 1) * self.stride + self.span) // self.upward) if rows else 0


@dataclass(frozen=True, slots=True)
class Tiling:
    """How many rows of its result a layer makes at a time."""

    rows: int
    """0 where not even one row fits on chip."""
    of: int
    """The rows that there are."""
    whole: bool
    """Operands and results fit on chip together."""

    def emitted(self, layer: Layer) -> Tile:
        """Return what a layer writes at a time."""
        core = layer.core_types[0]
        extents = extents_of(core.shape)
        return Tile(extents.channels, self.rows, extents.width, bits(layer.result.type.dtype), find_written_form(layer))

    def declared(self, layer: Layer, name: str, value: Value, window: RowWindow | None) -> Tile:
        """Return what a layer takes of an operand at a time."""
        extents = extents_of(value.shape)
        rows = extents.rows
        if window is not None and self.rows < self.of:
            rows = min(rows, -(-self.rows * window.stride // window.upward))
        return Tile(extents.channels, rows, extents.width, bits(value.type.dtype), read_form(layer, name, value))

    def first_rows(self, value: Value, window: RowWindow | None) -> int:
        """Return how many rows of an operand the first tile needs, overlap with the next one counted."""
        rows = extents_of(value.shape).rows
        return rows if window is None else min(rows, max(window.rows_needed(self.rows) - window.before, 0))


def find_written_form(layer: Layer) -> str:
    """Return how a layer writes its result."""
    for slot in MOVING_SLOTS:
        if layer.epilogue[slot] is not None:
            return f"through its {slot} slot"
    if layer.kind.name == "linear" or (layer.kind.name == "matmul" and isinstance(layer.operand("rhs"), Constant)):
        return "transposed"
    return PLANAR


def read_form(layer: Layer, name: str, value: Value) -> str:
    """Return how a layer reads an operand."""
    kernel = kernel_of(layer)
    if kernel is not None and kernel.operand == name:
        return "as its kernel"
    if layer.kind.name == "matmul":
        # A right side of two axes has the contracted one in the channels already.
        plain = name == "rhs" and value.rank == 2 and not layer.flag("transpose_rhs")
        return PLANAR if plain else "transposed"
    return "transposed" if layer.kind.name == "linear" else PLANAR


def row_window(layer: Layer, name: str, value: Value, rules: Rules) -> RowWindow | None:
    """Return which rows of an operand the rows of a layer's result are made from; None where a row may need all."""
    kind = layer.kind.name
    rows, made = extents_of(value.shape).rows, extents_of(layer.core_types[0].shape).rows
    if kind in rules.pointwise_kinds:
        return RowWindow() if rows == made else None
    if kind in rules.row_kinds:
        return RowWindow() if keeps_rows(layer, value) and rows == made else None
    if kind in ("convolution", "deconvolution") and name == "input":
        return convolution_window(layer, value)
    if Trait.POOLING in layer.kind.entry.traits:
        return pool_window(layer, value)
    return None


def keeps_rows(layer: Layer, value: Value) -> bool:
    """Return whether the axes along which a layer works are only channel and width."""
    found = layer.attributes.get("axes", layer.attributes.get("axis"))
    axes = cast("tuple[int, ...]", found if isinstance(found, tuple) else () if found is None else (found,))
    within = {roles(value.rank)[axis] for axis in axes}
    return bool(axes) and within <= {Axis.CHANNEL, Axis.WIDTH}


def convolution_window(layer: Layer, value: Value) -> RowWindow | None:
    """Return the rows that a convolution's kernel covers."""
    strides, dilations, padding, kernel = (
        layer.integers(name) for name in ("strides", "dilation_rates", "explicit_padding", "kernel_sizes")
    )
    along = height_of(value, kernel)
    if along is None:
        return RowWindow() if value.rank == 3 else None
    span = dilations[along] * (kernel[along] - 1) + 1
    if layer.kind.name == "deconvolution":
        return RowWindow(span=span, upward=strides[along])
    return RowWindow(strides[along], span, padding[2 * along])


def pool_window(layer: Layer, value: Value) -> RowWindow | None:
    """Return the rows that a pooling window covers."""
    kernel = layer.integers("kernel_sizes")
    along = height_of(value, kernel)
    if along is None:
        return RowWindow() if value.rank == 3 else None
    slide = slides(value.shape[2:], kernel, layer.attributes_as(WindowAttributes))[along]
    return RowWindow(slide.stride, slide.span, slide.before)


def height_of(value: Value, kernel: tuple[int, ...]) -> int | None:
    """Return which of a window's axes is the height; None where there is none, or the window covers several depths."""
    height, depth = axis_of(Axis.HEIGHT, value.rank), axis_of(Axis.DEPTH, value.rank)
    if height is None or (depth is not None and kernel[depth - 2] > 1):
        return None
    return height - 2


def tiling_of(layer: Layer, memory: OnChip, rules: Rules) -> Tiling:
    """Return how many rows of its result a layer makes at a time."""
    rows = extents_of(layer.core_types[0].shape).rows
    most = min(rows, rules.planar_tile_rows) if layer.engine is Engine.PE else rows
    live = [(name, ref) for name, ref in layer.refs() if isinstance(ref, Value)]
    sizes = [on_chip_layout(value.type, memory.banks).size for value in (*(value for _, value in live), *layer.results)]
    if sum(sizes) <= memory.working_set:
        return Tiling(most, rows, whole=True)
    fixed, growing = 0, sum(bytes_of_a_row(result, memory) for result in layer.results)
    for name, value in live:
        window = row_window(layer, name, value, rules)
        if window is None:
            fixed += on_chip_layout(value.type, memory.banks).size
            continue
        row = bytes_of_a_row(value, memory)
        growing += -(-row * window.stride // window.upward)
        fixed += DOUBLE * row * max(window.span - window.stride, 0)
    return Tiling(max(0, min(most, (memory.working_set - fixed) // (DOUBLE * growing))), rows, whole=False)


def bytes_of_a_row(value: Value, memory: OnChip) -> int:
    """Return the bytes of one row of all channels."""
    return on_chip_layout(value.type, memory.banks, rows=1).size
