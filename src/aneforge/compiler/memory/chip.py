"""The on-chip memory of a target, and how it is shared out between buffers that stay and operands that stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.memory.layout import Banks
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.targets import Target

__all__ = ["OnChip", "on_chip"]


@dataclass(frozen=True, slots=True)
class OnChip:
    """One engine's on-chip memory. Buffers are from its beginning, windows of streams at its end."""

    size: int
    banks: Banks
    working_set: int
    """Bytes that live buffers may take together: the size, scaled by the margin."""
    windows: int
    """Where the windows of streams begin, and buffers end."""

    @property
    def window_bytes(self) -> int:
        """Bytes for the windows of streams."""
        return self.size - self.windows


def on_chip(target: Target, rules: Rules) -> OnChip:
    """Return the on-chip memory of a target.

    >>> from aneforge.compiler.schedule.rules import rules
    >>> from aneforge.targets import Family, resolve
    >>> memory = on_chip(resolve(Family.A13), rules())
    >>> memory.size, memory.working_set, memory.windows
    (2097152, 1572864, 1835008)

    Raises:
        NoDataError: No source gives the size for the target.
    """
    size = target.hal.integer("max_operand_bytes")
    count = target.hal.get("l2_bank_count")
    banks = Banks(
        count if isinstance(count, int) else rules.banks_where_unknown, target.geometry.integer("l2_bank_width")
    )
    line = banks.number * banks.width
    windows = size - int(size * rules.stream_share) // line * line
    return OnChip(size, banks, int(size * rules.working_set_margin), windows)
