"""Makes the layers that stand for one layer: named after it, at its place, in its segment."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.weights import reshape_densely
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.declared import Declared
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.kind import Engine, Kind
    from aneforge.compiler.ir.layer import Argument, Epilogue, Layer, Ref
    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import Target

__all__ = ["LayerMaker", "cost_text", "merge_first_axes"]

VIEWED_AXES = 4
"""Axes of a tensor that is viewed with one more after it."""


def merge_first_axes(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the shape in which a tensor of too many axes is held: the first ones merged.

    >>> merge_first_axes((2, 3, 4, 5), 3)
    (6, 4, 5)
    """
    spare = len(shape) - most
    return shape if spare <= 0 else (math.prod(shape[: spare + 1]), *shape[spare + 1 :])


class LayerMaker:
    """Makes layers in the place of one, which is called the old layer.

    What a step makes is named by the old layer's name and the step's, with a word between them where two passes might
    take the same steps; the last one, of no step, has the old layer's own name, so that its readers go on reading it.

    Parts along the width are taken of a view whose last axis has length 1, unless the target is known to leave a slice
    only that begins inside the width: elsewhere it passes a fixed-point crop, and joining two of them goes wrong.
    """

    def __init__(self, layer: Layer, target: Target | None = None, *, word: str = "") -> None:
        self.layer = layer
        self.prefix = f"{layer.name}.{word}." if word else f"{layer.name}."
        self.layers: list[Layer] = []
        self.crops = target is not None and target.datapath.get("width_slice_crop_x16") is not False
        self.views: dict[str, Ref] = {}

    def name_step(self, step: str) -> str:
        """Return the name of what a step makes."""
        return f"{self.prefix}{step}" if step else self.layer.name

    def add(
        self,
        kind: str | Kind,
        operands: Mapping[str, Argument],
        attributes: Mapping[str, object] | None = None,
        *,
        step: str = "",
        engine: Engine | None = None,
        epilogue: Epilogue | None = None,
        choices: Mapping[str, AttributeValue] | None = None,
    ) -> Value:
        """Add a layer of one result."""
        made = new_layer(
            kind,
            operands,
            attributes,
            self.name_step(step),
            location=self.layer.location,
            engine=engine,
            epilogue=epilogue,
        )
        return self.keep(replace(made, segment=self.layer.segment, choices=dict(choices or {})))

    def keep(self, layer: Layer) -> Value:
        """Add a layer that is made already and return its result."""
        self.layers.append(layer)
        return layer.result

    def finish(self) -> list[Layer]:
        """Return the layers, the last of them under the old layer's name."""
        last = self.layers[-1]
        self.layers[-1] = replace(last, results=(Value(self.layer.name, last.result.type),))
        return self.layers

    def reshape(self, x: Ref, shape: tuple[int, ...], *, step: str = "") -> Ref:
        """Return a tensor in another shape: a constant reshaped beforehand, or itself if it has that shape."""
        if x.type.shape == shape and step:
            return x
        if isinstance(x, Constant):
            return reshape_densely(x, shape)
        return self.add("reshape", {"x": x}, {"shape": shape}, step=step)

    def transpose(
        self, x: Ref, perm: Sequence[int], *, step: str = "", choices: Mapping[str, AttributeValue] | None = None
    ) -> Ref:
        """Return a tensor with its axes in another order; a constant's are changed beforehand."""
        if isinstance(x, Declared):
            return x.derive(f"transpose {list(perm)}", [x.type.shape[axis] for axis in perm])
        if isinstance(x, Constant):
            return Dense(np.asarray(np.transpose(x.dense(), perm), order="C"))
        if tuple(perm) == tuple(range(len(perm))) and step:
            return x
        return self.add("transpose", {"x": x}, {"perm": tuple(perm)}, step=step, choices=choices)

    def part(self, x: Ref, axis: int, begin: int, size: int, *, step: str) -> Ref:
        """Return a part of a tensor along an axis; itself, if the part is all of it."""
        shape = x.type.shape
        if size == shape[axis]:
            return x
        if isinstance(x, Constant):
            from aneforge.compiler.passes.constant_parts import constant_part  # noqa: PLC0415 - few layers are cut

            return constant_part(x, axis, begin, size)
        if self.crops and axis == len(shape) - 1 and begin and is_float(x.type.dtype):
            return self.part_of_view(x, begin, size, step)
        begins = tuple(begin if place == axis else 0 for place in range(len(shape)))
        sizes = tuple(size if place == axis else extent for place, extent in enumerate(shape))
        return self.add("slice", {"input": x}, {"begin": begins, "size": sizes}, step=step)

    def part_of_view(self, x: Value, begin: int, size: int, step: str) -> Ref:
        """Return a part along the width, taken as rows of a view of one column."""
        rows = merge_first_axes(x.shape, VIEWED_AXES)
        if x.name not in self.views:
            self.views[x.name] = self.reshape(x, (*rows, 1), step=f"{step}.column")
        part = self.part(self.views[x.name], len(rows) - 1, begin, size, step=f"{step}.rows")
        return self.reshape(part, (*x.shape[:-1], size), step=step)

    def join(self, parts: Sequence[Ref], axis: int, *, step: str = "") -> Value:
        """Join the parts of a result; each is written where it belongs, so that joining copies nothing."""
        choices = {"in_place": True} if decision("parts_are_written_in_place").value is True else {}
        return self.add("concat", {"values": tuple(parts)}, {"axis": axis}, step=step, choices=choices)


def cost_text(pieces: Sequence[Layer]) -> str:
    """Return how many layers stand for one that was too large, and what they write."""
    written = sum(value.type.nbytes for piece in pieces for value in piece.results)
    return f"{len(pieces)} layers ({written} bytes)" if len(pieces) != 1 else f"1 layer ({written} bytes)"
