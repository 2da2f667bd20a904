"""Where each operation runs: the catalogue, and single questions. Views over the op table; no second list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from aneforge.errors import UnknownNameError
from aneforge.ops.op import Below, MilStatus
from aneforge.ops.table import find_op, ops
from aneforge.records import dataclass
from aneforge.targets import Family, TargetLike, family_of, resolve, supports_mil

if TYPE_CHECKING:
    from aneforge.ops.op import Op, Support

__all__ = [
    "OP_CATALOG",
    "Catalogue",
    "OpInfo",
    "catalogue",
    "categories",
    "device_status",
    "is_native",
    "min_native_family",
    "op_info",
    "op_status",
    "ops_on",
    "walled_everywhere",
]

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One row of the catalogue of MIL operations."""

    name: str
    category: str
    summary: str
    mil: str | None
    """Spelling in MIL; None for what is not a single operation there."""
    opset: str
    support: Support
    status: Mapping[Family, str]
    """What the MIL front end does with it, per family that runs MIL."""


@cache
def catalogue() -> Mapping[str, OpInfo]:
    """Return the catalogue of MIL operations: every entry of the op table that is one of its rows."""
    return {name: row(entry) for name, entry in ops().items() if entry.catalogued}


def row(entry: Op) -> OpInfo:
    """Return an entry of the table as a row of the catalogue."""
    status = {family: mil_status(entry.support, family) for family in Family if supports_mil(family)}
    return OpInfo(entry.name, entry.category, entry.summary, entry.mil_name, entry.opset, entry.support, status)


def mil_status(support: Support, family: Family) -> str:
    """Return what the MIL front end does with an operation on a family."""
    if support.mil_since is not None and family >= support.mil_since:
        return NATIVE
    return str(support.mil_otherwise)


def op_status(op: str, family: TargetLike = None) -> str:
    """Return what happens to an operation on a family: `native`, `decompose` or `reject`.

    This is the route of family floors; `device_status` answers for the MIL front end.

    >>> op_status("sin", Family.A13), op_status("sin", Family.A15), op_status("topk", Family.A13)
    ('decompose', 'native', 'reject')

    Raises:
        UnknownNameError: The op table has no such operation.
    """
    support = find_op(op).support
    found = family_of(resolve(family))
    if not supports_mil(found):
        return str(Below.REJECT)
    return NATIVE if support.floor is not None and found >= support.floor else str(support.below)


def op_info(op: str) -> OpInfo:
    """Return the catalogue's row of an operation, or an equivalent one if it is not in the catalogue.

    It knows every name that `op_status` knows.

    >>> op_info("sin").opset, op_info("global_argmin").mil, "global_argmin" in catalogue()
    ('ios15', None, False)

    Raises:
        UnknownNameError: The op table has no such operation.
    """
    entry = find_op(op)
    return catalogue().get(entry.name) or row(entry)


def device_status(op: str, chip: TargetLike = None) -> str:
    """Return how the MIL front end treats an operation on a target.

    `native`, `bridge` (a network description can carry it), `software` (built from others), `fold` (computed at compile
    time), `internal` (the compiler's own) or `none`.

    >>> device_status("conv", Family.A13), device_status("crop_resize", Family.A13)
    ('native', 'none')

    Raises:
        UnknownNameError: The op table has no such operation.
    """
    family = family_of(resolve(chip))
    return mil_status(op_info(op).support, family) if supports_mil(family) else "none"


def is_native(op: str, chip: TargetLike = None) -> bool:
    """Return whether a MIL program runs an operation natively on a target.

    >>> from aneforge.targets import Family
    >>> is_native("relu", Family.A13), is_native("topk", Family.A13)
    (True, False)
    """
    return device_status(op, chip) == NATIVE


def ops_on(chip: TargetLike = None, status: str = NATIVE) -> list[str]:
    """Return the catalogue's operations that have a status on a target, in order of name.

    >>> from aneforge.targets import Family
    >>> sorted(set(ops_on(Family.A14)) - set(ops_on(Family.A13)))[:3]
    ['affine', 'argsort', 'constexpr_affine_dequantize']

    Raises:
        UnknownNameError: There is no such status.
    """
    if status not in (NATIVE, *MilStatus):
        raise UnknownNameError.of("status", status, (NATIVE, *MilStatus))
    resolved = resolve(chip)
    return [op for op in catalogue() if device_status(op, resolved) == status]


def min_native_family(op: str) -> Family | None:
    """Return the lowest family on which a MIL program runs an operation natively; None if none does.

    >>> min_native_family("relu"), min_native_family("lstm")
    (<Family.A13: 2>, None)
    """
    since = op_info(op).support.mil_since
    return None if since is None else Family(since)


def walled_everywhere() -> list[str]:
    """Return the catalogue's operations that no family runs natively from MIL, in order of name.

    >>> walled_everywhere()[:3]
    ['acos', 'acosh', 'asin']
    """
    return [op for op, info in catalogue().items() if info.support.mil_since is None]


def categories() -> dict[str, list[str]]:
    """Return the catalogue's operations by category.

    >>> categories()["recurrent"]
    ['gru', 'lstm', 'rnn']
    """
    found: dict[str, list[str]] = {}
    for name, info in catalogue().items():
        found.setdefault(info.category, []).append(name)
    return dict(sorted(found.items()))


class Catalogue(Mapping[str, OpInfo]):
    """The catalogue as a mapping that is made when it is first read, so that importing it reads no op table."""

    def __getitem__(self, op: str) -> OpInfo:
        return op_info(op)

    def __iter__(self) -> Iterator[str]:
        return iter(catalogue())

    def __len__(self) -> int:
        return len(catalogue())


OP_CATALOG = Catalogue()
