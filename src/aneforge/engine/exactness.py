"""How sure a result is: exact, modelled or unknown, and why.

Every arithmetic of the engine carries a label. *Exact* means that it reproduces the published results of chips to the
last digit, or that there is nothing to round: bits are moved or chosen. *Modelled* means that its steps are known in
part, or that no chip of the target's kind was measured, and that what is missing was chosen. *Unknown* means that no
source says what the engine gives.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Exactness", "Label", "label_of_all", "worst"]


class Exactness(StrEnum):
    """The three labels, the surest first.

    >>> max([Exactness.MODELLED, Exactness.EXACT], key=lambda one: one.doubt)
    <Exactness.MODELLED: 'modelled'>
    """

    EXACT = "exact"
    MODELLED = "modelled"
    UNKNOWN = "unknown"

    @property
    def doubt(self) -> int:
        """Place in the order: 0 is the surest."""
        return DOUBTS[self]


DOUBTS = {one: place for place, one in enumerate(Exactness)}


@dataclass(frozen=True, slots=True)
class Label:
    """How sure a result is, and why.

    >>> print(Label(Exactness.MODELLED, "the order of the sums is not known"))
    modelled: the order of the sums is not known
    """

    exactness: Exactness
    reason: str

    def __str__(self) -> str:
        return f"{self.exactness}: {self.reason}"


NOTHING_COMPUTED = Label(Exactness.EXACT, "nothing is computed")


def label_of_all(labels: Iterable[Label]) -> Label:
    """Return how sure a whole program is: the least sure of its layers, of which there may be none.

    >>> print(label_of_all([]))
    exact: nothing is computed
    """
    found = list(labels)
    return worst(found) if found else NOTHING_COMPUTED


def worst(labels: Iterable[Label]) -> Label:
    """Return the least sure of several labels, with the reasons of all that are no surer.

    >>> known, guessed = Label(Exactness.EXACT, "known"), Label(Exactness.MODELLED, "guessed")
    >>> print(worst([known, guessed, Label(Exactness.MODELLED, "not measured"), guessed]))
    modelled: guessed; not measured

    Raises:
        ValueError: There is none.
    """
    found = list(labels)
    if not found:
        raise ValueError("there is no label to choose from")
    level = max((label.exactness for label in found), key=lambda one: one.doubt)
    reasons = dict.fromkeys(label.reason for label in found if label.exactness is level)
    return Label(level, "; ".join(reasons))
