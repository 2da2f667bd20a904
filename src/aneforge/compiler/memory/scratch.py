"""Scratch: DRAM of a segment that tensors share one after another."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.compiler.memory.arena import Arena
from aneforge.compiler.memory.layout import DRAM_ALIGNMENT, dram_layout, round_up
from aneforge.errors import NotSupportedError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.compiler.ir.layer import Value

__all__ = ["Scratch", "Tenant", "scratch_of"]

ADDRESS_BITS = 42
"""Width of a device address (guide ch. 20)."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tensor that needs scratch from one step to another, both counted."""

    value: Value
    first: int
    last: int
    over: str | None
    """A tensor that it may rewrite, because nothing else needs that one from its first step on."""


@dataclass(eq=False)
class Scratch:
    """Where tensors are in scratch."""

    offsets: dict[str, int] = field(default_factory=dict[str, int])
    rewritten: dict[str, str] = field(default_factory=dict[str, str])
    """Tensors that rewrite others in place."""
    size: int = 0


def scratch_of(tenants: Iterable[Tenant]) -> Scratch:
    """Give tensors room in scratch, each from its first step to its last.

    Raises:
        NotSupportedError: No device address reaches all of it.
    """
    found, arena = Scratch(), Arena(1 << ADDRESS_BITS)
    ordered = sorted(tenants, key=lambda one: (one.first, one.value.name))
    ends: dict[str, int] = {}
    by_last: list[Tenant] = sorted(ordered, key=lambda one: (one.last, one.value.name), reverse=True)
    sizes = {one.value.name: round_up(dram_layout(one.value.type).size, DRAM_ALIGNMENT) for one in ordered}
    for one in ordered:
        while by_last and by_last[-1].last < one.first:
            free(by_last.pop(), found, arena, sizes, ends)
        name = one.value.name
        if one.over in found.offsets and one.over not in ends and sizes[one.over] == sizes[name]:
            found.offsets[name] = found.offsets[one.over]
            found.rewritten[name] = one.over
            ends[one.over] = one.first
        else:
            offset = arena.take(sizes[name])
            if offset is None:
                raise NotSupportedError(
                    f"no device address reaches %{name} next to the other buffers in scratch memory",
                    seen=f"{sizes[name]} bytes",
                    limit=f"{1 << ADDRESS_BITS} bytes in all",
                    remedy="cut the tensor into parts",
                )
            found.offsets[name] = offset
    found.size = arena.highest
    return found


def free(one: Tenant, found: Scratch, arena: Arena, sizes: Mapping[str, int], rewritten: Mapping[str, int]) -> None:
    """Take back the room of a tensor, unless another one has it now."""
    if one.value.name not in rewritten:
        arena.give_back(found.offsets[one.value.name], sizes[one.value.name])
