"""Layers that are one operation: the rows of `layers.toml`, each of which says how it is read and how it is written.

A row pairs parameters with attributes, dimensions with axes, and bottoms with operands. Reader and writer ask it from
either side, so they are inverses of each other.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from aneforge.formats.netplist.schema import Dim, ParamKind, RowEntry, layer_table
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.netplist.document import Dims, Parameter
    from aneforge.formats.netplist.schema import ParamEntry

__all__ = ["LayerRow", "Layout", "Rounding", "row_of_node", "row_of_unit", "rows"]


class Rounding(Protocol):
    """Rounds a number to fp16; `what` is what messages call it."""

    def __call__(self, value: float, what: str, *, infinite: bool = False) -> float:
        """Return the number as a description holds it."""
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """The dimensions of the axes of a tensor, in the order of the axes; none where any will do.

    >>> vectors = Layout.parse("Channel Depth? Height? Width?")
    >>> [dim.spelling for dim in vectors.of_rank(2)]
    ['Channel', 'Width']
    """

    dims: tuple[Dim, ...]
    optional: frozenset[Dim]
    """Those that a tensor of fewer axes does without, from the front."""

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the layout of a row in `layers.toml`."""
        names = text.split()
        optional = frozenset(Dim.named(name[:-1]) for name in names if name.endswith("?"))
        return cls(tuple(Dim.named(name.removesuffix("?")) for name in names), optional)

    def of_rank(self, rank: int) -> tuple[Dim, ...] | None:
        """Return the dimensions of the axes of a graph's tensor, or None if it has too many or too few."""
        left_out = [dim for dim in self.dims if dim in self.optional][: max(len(self.dims) - rank, 0)]
        found = tuple(dim for dim in self.dims if dim not in left_out)
        return found if len(found) == rank else None

    def of_dims(self, dims: Dims) -> tuple[Dim, ...]:
        """Return the dimensions of a description's tensor that become axes: the depth only where it is not 1."""
        flat = dims.depth == 1 and Dim.DEPTH in self.optional
        return tuple(dim for dim in self.dims if not (flat and dim is Dim.DEPTH))


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer that is one operation."""

    kind: str
    """The layer type."""
    entry: RowEntry
    operands: Mapping[str, Layout]
    """Operands in the order of the bottoms."""
    result: Layout
    numbers: Mapping[str, ParamEntry]
    """Attributes that the layer has as bit patterns of fp16, and the parameters that they are."""

    @property
    def op(self) -> str:
        """The operation."""
        return self.entry.op

    @property
    def params(self) -> Mapping[str, ParamEntry]:
        """The parameters of the layer."""
        return layer_table().layers[self.kind].params

    def dims_of(self, params: Mapping[str, Parameter]) -> tuple[Dim, ...]:
        """Return the dimensions that parameters name for the axes of the operation."""
        return tuple(Dim.named(name) for key in self.entry.axes for name in names_of(params[key]))

    def attributes_of(
        self, params: Mapping[str, Parameter], axes: Mapping[Dim, int] = MappingProxyType({})
    ) -> dict[str, object]:
        """Return the attributes that parameters give; `axes` has the axis of every dimension."""
        found: dict[str, object] = dict(self.entry.attributes)
        for key, name in self.entry.keys.items():
            value = params.get(key)
            found[name] = cast("str", value).lower() if self.params[key].kind is ParamKind.DIMENSION else value
        for key, name in self.entry.axes.items():
            along = [axes[Dim.named(one)] for one in names_of(params[key])]
            found[name] = along[0] if self.params[key].kind is ParamKind.DIMENSION else tuple(sorted(along))
        return found

    def params_of(
        self, attributes: Mapping[str, object], number: Rounding, dims: Sequence[Dim] = ()
    ) -> dict[str, Parameter]:
        """Return the parameters that attributes give; `dims` has the dimensions of the named axes.

        Parameters that nothing gives are left out, and so are optional ones whose attribute is None.
        """
        found: dict[str, Parameter] = dict(self.entry.params)
        for key, name in self.entry.keys.items():
            if attributes[name] is not None:
                found[key] = write_parameter(self.params[key], attributes[name], name, number)
        for key in self.entry.axes:
            names = tuple(dim.spelling for dim in sorted(dims))
            found[key] = names[0] if self.params[key].kind is ParamKind.DIMENSION else names
        return found


def write_parameter(entry: ParamEntry, value: object, name: str, number: Rounding) -> Parameter:
    """Return an attribute as the parameter that it is."""
    if entry.kind is ParamKind.BITS:
        return number(cast("float", value), entry.words or name, infinite=entry.infinite)
    if entry.kind is ParamKind.DIMENSION:
        return cast("str", value).capitalize()
    return cast("Parameter", value)


def names_of(value: Parameter) -> tuple[str, ...]:
    """Return the dimensions that a parameter names."""
    return (value,) if isinstance(value, str) else cast("tuple[str, ...]", value)


@cache
def rows() -> tuple[LayerRow, ...]:
    """Return all rows, those of one layer in the order in which they are tried.

    >>> [row.op for row in rows() if row.kind == "GOC"]
    ['muls', 'adds', 'linear_activation']
    """
    return tuple(layer_row(kind, entry) for kind, layer in layer_table().layers.items() for entry in layer.rows)


def layer_row(kind: str, entry: RowEntry) -> LayerRow:
    """Return a row of the table with its layouts read."""
    operands = {name: Layout.parse(text) for name, text in entry.operands.items()}
    result = next(iter(operands.values())) if entry.result is None else Layout.parse(entry.result)
    params = {name: layer_table().layers[kind].params[key] for key, name in entry.keys.items()}
    numbers = {name: param for name, param in params.items() if param.kind is ParamKind.BITS}
    return LayerRow(kind, entry, operands, result, numbers)


@cache
def rows_by_kind() -> Mapping[str, list[LayerRow]]:
    """Return the rows of every layer type."""
    found: dict[str, list[LayerRow]] = {}
    for row in rows():
        found.setdefault(row.kind, []).append(row)
    return found


@cache
def rows_by_op() -> Mapping[str, list[LayerRow]]:
    """Return the rows of every operation."""
    found: dict[str, list[LayerRow]] = {}
    for row in rows():
        found.setdefault(row.op, []).append(row)
    return found


def row_of_unit(kind: str, params: Mapping[str, Parameter]) -> LayerRow:
    """Return the row that a unit is; the last of a layer's rows is every other unit of it.

    >>> row_of_unit("GOC", {"ScaleScalar": 1.0, "BiasScalar": 2.0}).op
    'adds'
    """
    return next(row for row in rows_by_kind()[kind] if fits(row.entry.params, params))


def row_of_node(op: str, attributes: Mapping[str, object]) -> LayerRow | None:
    """Return the row that an operation with attributes is, or None.

    >>> row_of_node("scaled_elementwise", {"mode": "mult", "scale": 0.5}).entry.params
    {'Type': 'Mult'}
    """
    return next((row for row in rows_by_op().get(op, ()) if fits(row.entry.attributes, attributes)), None)


def fits(wanted: Mapping[str, object], given: Mapping[str, object]) -> bool:
    """Return whether values are as a row has them; an optional one that is left out is."""
    return all(given.get(name, value) == value for name, value in wanted.items())
