"""What a name stands for while a model is read: a tensor, or nothing usable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.shared.interpretation import Lost
from aneforge.graph.node import Value
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.shared.findings import Reason

__all__ = ["Foreign", "Held", "Value"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value of a type that has no meaning here, such as text; a node that reads it is reported with the reason."""

    what: str
    reason: Reason


Held = Value | Foreign | Lost
