"""`targets` and `ops`: what there is, one row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.commands.model_and_targets import title_of
from aneforge.errors import UnknownNameError
from aneforge.ops.table import ops
from aneforge.rules.operations import op_status
from aneforge.targets import Family, group, resolve, supports_mil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.targets import Target, TargetLike

__all__ = ["OpRow", "TargetRow", "list_ops", "list_targets"]


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One target."""

    target: str
    chips: str
    family: str | None
    tier: str | None
    extent: int | None
    """The longest spatial axis; None where no source gives it."""
    on_chip_bytes: int | None
    folds: tuple[str, ...]
    """Weight encodings that become dense fp16 there."""
    summary: str


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operation."""

    op: str
    category: str
    summary: str
    status: Mapping[str, str]
    """native, decompose or reject, by family or target."""


def list_targets(which: str = "all") -> tuple[TargetRow, ...]:
    """Return the targets of a group: all, families or known.

    >>> len(list_targets("families")), len(list_targets("all")) > 20
    (4, True)

    Raises:
        UnknownTargetError: There is no such group.
    """
    return tuple(map(target_row, group(which)))


def target_row(target: Target) -> TargetRow:
    """Return one target as a row."""
    extent, memory = target.limits.get("max_tensor_dim"), target.hal.get("on_chip_memory")
    return TargetRow(
        target=target.name,
        chips=title_of(target),
        family=None if target.family is None else target.family.name,
        tier=None if target.tier is None else target.tier.title,
        extent=extent if isinstance(extent, int) else None,
        on_chip_bytes=memory if isinstance(memory, int) else None,
        folds=tuple(name for name, stream in target.streams.items() if not stream.streams),
        summary=target.summary,
    )


def list_ops(
    targets: Iterable[TargetLike] | None = None, *, category: str | None = None, status: str | None = None
) -> tuple[OpRow, ...]:
    """Return operations with what becomes of them on each family, or on the targets that are named.

    >>> [list(row.status.values()) for row in list_ops() if row.op == "topk"]
    [['reject', 'native', 'native', 'native']]

    Raises:
        UnknownNameError: There is no such category or status.
        UnknownTargetError: Nothing has one of the names.
    """
    known = sorted({str(entry.category) for entry in ops().values()})
    if category is not None and category not in known:
        raise UnknownNameError.of("category", category, known)
    if status is not None and status not in ("native", "decompose", "reject"):
        raise UnknownNameError.of("status", status, ("native", "decompose", "reject"))
    columns: dict[str, TargetLike] = (
        {family.name: family for family in Family if supports_mil(family)}
        if targets is None
        else {resolve(one).name: one for one in targets}
    )
    rows = (
        OpRow(
            entry.name,
            str(entry.category),
            entry.summary,
            {name: op_status(entry.name, target) for name, target in columns.items()},
        )
        for entry in ops().values()
        if category in (None, str(entry.category))
    )
    return tuple(row for row in rows if status is None or status in row.status.values())
