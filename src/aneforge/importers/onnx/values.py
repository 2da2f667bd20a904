"""What a name stands for while a model is read: a tensor, or nothing usable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.graph.node import Output, Value
from aneforge.importers.interpretation import Lost
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.importers.findings import Reason

__all__ = ["Absent", "Foreign", "Held", "Value", "is_value"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value of a type that has no meaning here, such as text; a node that reads it is reported with the reason."""

    what: str
    reason: Reason


Absent = None
Held = Value | Foreign | Lost


def is_value(held: object) -> bool:
    """Tell whether something is a tensor, computed or constant."""
    return isinstance(held, Output | Constant)
