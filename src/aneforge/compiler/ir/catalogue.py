"""Reads the kinds of layers: `data/kinds.toml` for unit, slots and evidence; op table or `meanings/` for the rest."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from aneforge.compiler.ir.kind import DIALECT, Engine, Kind, Slot
from aneforge.compiler.ir.meanings import affine, convolution_meanings, regions
from aneforge.errors import DataFileError, UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.table import find_op
from aneforge.targets.schema import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.kind import LayerForm
    from aneforge.graph.node import Node

__all__ = ["find_kind", "is_bridge", "kind_of_op", "kinds"]

FILE = Path(__file__).parent.parent / "data" / "kinds.toml"
FORMS: Mapping[str, LayerForm] = {**affine.FORMS, **convolution_meanings.FORMS, **regions.FORMS}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind as the file has it."""

    engines: tuple[Engine, ...]
    op: str | None = None
    stands_for: str | None = None
    hosts: tuple[Slot, ...] | Literal["all"] = ()
    fills: tuple[Slot, ...] = ()
    bridge: bool = False
    evidence: EvidenceKind | None = None
    source: str | None = None
    note: str = ""


class Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    evidence: EvidenceKind
    source: str
    note: str
    kinds: dict[str, Row]


@cache
def kinds() -> Mapping[str, Kind]:
    """Return every kind of layer by its name.

    Raises:
        DataFileError: The file is not as it should be.
    """
    rows = read(FILE, Rows)
    return {name: build_kind(name, row, rows) for name, row in rows.kinds.items()}


def build_kind(name: str, row: Row, rows: Rows) -> Kind:
    """Return a kind.

    Raises:
        DataFileError: The row names no operation, and no form of its own is written.
    """
    evidence = Evidence(row.evidence or rows.evidence, row.source or rows.source, note=row.note or rows.note)
    own, entry = FORMS.get(name), row.op or row.stands_for
    if (own is None) == (row.op is None) or (own is None) == (row.stands_for is not None) or entry is None:
        raise DataFileError(
            f"{FILE.name}: kind {name!r} has an operation, or a form of its own and an operation that it stands for"
        )
    definition = own or find_op(entry)
    return Kind(
        name=name,
        operands=definition.operands,
        attributes=definition.attributes,
        infer=definition.infer,
        meaning=definition.meaning,
        no_meaning="" if own else find_op(entry).no_meaning,
        engines=row.engines,
        hosts=frozenset(Slot if row.hosts == "all" else row.hosts),
        fills=row.fills,
        bridge=row.bridge,
        op=row.op,
        entry=find_op(entry),
        evidence=evidence,
    )


def find_kind(name: str) -> Kind:
    """Return a kind by its name, with or without the dialect in front.

    >>> find_kind("anec.convolution").engines[0]
    <Engine.NE: 'NE'>

    Raises:
        UnknownNameError: There is none.
    """
    found = kinds().get(name.removeprefix(f"{DIALECT}."))
    if found is None:
        raise UnknownNameError.of("kind of layer", name, kinds())
    return found


@cache
def by_op() -> Mapping[str, Kind]:
    return {kind.op: kind for kind in kinds().values() if kind.op}


def kind_of_op(op: str) -> Kind | None:
    """Return the kind that an operation of the table becomes, where it becomes one layer of the same form."""
    return by_op().get(op)


def is_bridge(node: Node) -> bool:
    """Return whether an operation needs a program of its own; attention does if it asks for the engine's own layer."""
    kind = kind_of_op(node.op.name)
    return kind is not None and kind.bridge and ("native" not in node.attributes or node.flag("native"))
