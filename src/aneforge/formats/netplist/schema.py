"""The form of `layers.toml`, and the table that it makes: what a network description may hold.

The reader and the writer both ask this table, so a layer type or a parameter is named in one place.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads it
from aneforge.targets.schema import read

__all__ = ["DIMENSIONS", "Dim", "LayerEntry", "LayerTable", "ParamEntry", "ParamKind", "RowEntry", "layer_table"]

PATH = Path(__file__).with_name("layers.toml")

Scalar = bool | int | float | str


class Dim(IntEnum):
    """A dimension of a tensor, in the order in which elements are in memory.

    >>> Dim.CHANNEL.spelling, Dim.named("Width")
    ('Channel', <Dim.WIDTH: 4>)
    """

    BATCH = 0
    CHANNEL = 1
    DEPTH = 2
    HEIGHT = 3
    WIDTH = 4

    @property
    def spelling(self) -> str:
        """Its name in a network description."""
        return self.name.capitalize()

    @classmethod
    def named(cls, spelling: str) -> Dim:
        """Return a dimension by its name in a network description, which must be one."""
        return cls[spelling.upper()]


DIMENSIONS = tuple(dim.spelling for dim in Dim)


class ParamKind(StrEnum):
    """How a parameter is given."""

    BITS = "bits"
    """A number, as the bit pattern of its fp16."""
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"
    DIMENSION = "dimension"
    DIMENSIONS = "dimensions"
    INTEGERS = "integers"
    RECORDS = "records"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all entries: an unknown key is an error."""


class DimensionEntry(Entry, frozen=True):
    """A dimension: its place in memory and the key that gives an input's extent."""

    axis: int
    extent: str


class ElementTypeEntry(Entry, frozen=True):
    """An element type of a tensor."""

    dtype: str
    note: str = ""


class RowEntry(Entry, frozen=True):
    """A layer that is one operation, for reading and for writing."""

    op: str
    params: dict[str, Scalar] = {}
    """Values of parameters that distinguish it from other rows of its layer."""
    attributes: dict[str, Scalar] = {}
    """Values that attributes of the operation have in it."""
    keys: dict[str, str] = {}
    """Parameters, and the attributes that they are."""
    axes: dict[str, str] = {}
    """Parameters that name dimensions, and the attributes that name the axes along them."""
    operands: dict[str, str] = msgspec.field(default_factory=lambda: {"x": ""})
    """Operands in the order of the bottoms, and the dimensions of the axes of each; empty: any, the same for all."""
    result: str | None = None
    """The dimensions of the result's axes, if they are not those of the first operand."""


class ParamEntry(Entry, frozen=True):
    """One parameter of a layer."""

    kind: ParamKind
    choices: tuple[str, ...] | Literal["rows"] = ()
    """Names that it may have, or "rows": those that the rows of its layer give it."""
    infinite: bool = False
    """The number may be infinite."""
    words: str = ""
    """What messages call it, if not by the name of its attribute."""
    least: int | None = None
    count: tuple[int, int] | None = None
    """Fewest and most entries of a list."""
    default: Scalar | tuple[int, ...] | None = None
    optional: bool = False
    only: tuple[Scalar, ...] | None = None
    """The values whose meaning is known."""
    why: str = ""
    fields: dict[str, ParamEntry] = {}


class LayerEntry(Entry, frozen=True):
    """One layer type."""

    summary: str
    bottoms: tuple[int, int]
    """Fewest and most tensors that it reads."""
    params: dict[str, ParamEntry] = {}
    rows: tuple[RowEntry, ...] = ()
    """The operations that it is, where it is one operation."""
    groups: bool = False
    """Its unit has the key NumGroups."""
    evidence: Evidence | None = None

    def choices(self, name: str, param: ParamEntry) -> tuple[str, ...]:
        """Return the names that a parameter may have."""
        if param.choices != "rows":
            return param.choices
        return tuple(dict.fromkeys(str(row.params[name]) for row in self.rows))

    @property
    def defaults(self) -> dict[str, Scalar | tuple[int, ...]]:
        """What stands for parameters that are left out."""
        return {name: param.default for name, param in self.params.items() if param.default is not None}


class LayerTable(Entry, frozen=True):
    """The whole file."""

    version: str
    evidence: Evidence
    dimensions: dict[str, DimensionEntry]
    dimensions_evidence: Evidence
    element_types: dict[str, ElementTypeEntry]
    layers: dict[str, LayerEntry]
    unit_types: dict[str, int]
    unit_types_evidence: Evidence

    def evidence_of(self, layer: str) -> Evidence:
        """Return why a layer's entry is believed."""
        return self.layers[layer].evidence or self.evidence


@cache
def layer_table(path: Path = PATH) -> LayerTable:
    """Return the table, read once per process.

    >>> layer_table().version, layer_table().layers["RadiusSearch"].rows[0].keys
    ('1.0.10', {'Radius': 'radius'})

    Raises:
        DataFileError: The file is not in the form above.
    """
    return read(path, LayerTable)
