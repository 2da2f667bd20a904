"""The form of `layers.toml`, and the table that it makes: what a network description may hold.

The reader and the writer both ask this table, so a layer type or a parameter is named in one place.
"""

from __future__ import annotations

import tomllib
from enum import IntEnum, StrEnum
from functools import cache
from pathlib import Path

import msgspec

from aneforge.errors import DataFileError
from aneforge.evidence import Evidence, EvidenceKind

__all__ = ["DIMENSIONS", "Dim", "LayerEntry", "LayerTable", "NeuronEntry", "ParamEntry", "ParamKind", "layer_table"]

PATH = Path(__file__).with_name("layers.toml")

Scalar = bool | int | float | str


class Dim(IntEnum):
    """A dimension of a tensor, in the order in which elements lie in memory.

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
    WHOLE = "whole"
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"
    DIMENSION = "dimension"
    DIMENSIONS = "dimensions"
    WHOLES = "wholes"
    RECORDS = "records"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all entries: an unknown key is an error."""


class EvidenceEntry(Entry, frozen=True):
    """Why an entry is believed."""

    kind: EvidenceKind
    source: str
    note: str = ""

    def evidence(self) -> Evidence:
        """Return the evidence as the rest of the package knows it."""
        return Evidence(self.kind, self.source, note=self.note)


class DimensionEntry(Entry, frozen=True):
    """A dimension: its place in memory and the key that gives an input's extent."""

    axis: int
    extent: str


class ElementTypeEntry(Entry, frozen=True):
    """An element type of a tensor."""

    dtype: str
    note: str = ""


class NeuronEntry(Entry, frozen=True):
    """An activation: the operation that it is, with the attributes that parameters give and those that are fixed."""

    op: str
    numbers: dict[str, str] = {}
    """Parameters, and the attributes of the operation that they are."""
    others: tuple[str, ...] = ()
    """Parameters that it takes and that are no attribute."""
    fixed: dict[str, float] = {}


class PairEntry(Entry, frozen=True):
    """An elementwise layer: the operation that it is."""

    op: str
    bottoms: int = 2


class ParamEntry(Entry, frozen=True):
    """One parameter of a layer."""

    kind: ParamKind
    choices: tuple[str, ...] | str = ()
    """Names that it may have, or the table of the file whose keys they are."""
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
    groups: bool = False
    """Its unit has the key NumGroups."""
    evidence: EvidenceEntry | None = None


class LayerTable(Entry, frozen=True):
    """The whole file."""

    version: str
    evidence: EvidenceEntry
    dimensions: dict[str, DimensionEntry]
    dimensions_evidence: EvidenceEntry
    element_types: dict[str, ElementTypeEntry]
    neurons: dict[str, NeuronEntry]
    elementwise: dict[str, PairEntry]
    scaled: dict[str, str]
    pools: dict[str, str]
    reductions: dict[str, str]
    layers: dict[str, LayerEntry]
    unit_types: dict[str, int]
    unit_types_evidence: EvidenceEntry

    def choices(self, param: ParamEntry) -> tuple[str, ...]:
        """Return the names that a parameter may have."""
        if not isinstance(param.choices, str):
            return param.choices
        tables = {
            "neurons": self.neurons,
            "elementwise": self.elementwise,
            "scaled": self.scaled,
            "pools": self.pools,
            "reductions": self.reductions,
        }
        return tuple(tables[param.choices])

    def evidence_of(self, layer: str) -> Evidence:
        """Return why a layer's entry is believed."""
        return (self.layers[layer].evidence or self.evidence).evidence()


@cache
def layer_table(path: Path = PATH) -> LayerTable:
    """Return the table, read once per process.

    >>> layer_table().version, layer_table().neurons["Inv"].op
    ('1.0.10', 'inverse')

    Raises:
        DataFileError: The file is not in the form above.
    """
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), LayerTable)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise DataFileError(f"{path.name}: {error}") from error
