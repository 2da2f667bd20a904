"""`targets`, `ops` and `routes`: what there is, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.analysis.routes import Measures, range_text, routes, time_range_text
from aneforge.errors import UnknownNameError
from aneforge.ops.table import ops
from aneforge.records import dataclass
from aneforge.rules.operations import op_status
from aneforge.targets import Family, group, resolve, supports_mil
from aneforge.targets.names import title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.analysis.routes import Route
    from aneforge.targets import Target, TargetLike

__all__ = ["OpRow", "RouteRow", "TargetRow", "list_ops", "list_routes", "list_targets"]


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


@dataclass(frozen=True, slots=True)
class RouteRow:
    """One route to the engine."""

    route: str
    title: str
    device: str
    status: str
    calls: str
    """Microseconds of one call that computes next to nothing, over all chips; empty where nothing was published."""
    other_costs: str
    """What making a program ready, or passing a tensor, was published to take; empty where nothing was."""


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
        UnknownTargetError: A target name is unknown.
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


def list_routes() -> tuple[RouteRow, ...]:
    """Return the routes to the engine, and what is compared with it, with what they were published to take.

    >>> [(row.status, row.other_costs) for row in list_routes() if row.route == "standard"]
    [('stable', 'compile and load 38 ms')]
    """
    return tuple(map(route_row, routes()))


def route_row(known: Route) -> RouteRow:
    """Return one route as a row."""
    standing = [figure for figure in known.figures if not figure.withdrawn]
    ends = [end for figure in standing if figure.measures is Measures.CALL for end in figure.microseconds]
    others = [figure for figure in standing if not figure.measures.repeated]
    return RouteRow(
        route=known.name,
        title=known.title,
        device=known.device,
        status=str(known.status),
        calls=range_text((min(ends), max(ends))) if ends else "",
        other_costs=", ".join(f"{figure.measures} {time_range_text(figure.microseconds)}" for figure in others),
    )
