"""The headline of every distinct result, as cards that the page begins with.

A card says of targets with the same result what a row of the terminal says (`ResultRow` is a part of it), and adds the
interval of the times, what else they are made of, how many programs there are and how many changes are worth making.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.records import dataclass
from aneforge.report.finding_keys import kind_of
from aneforge.report.gate import STOPPING
from aneforge.report.grouping import COSTLY
from aneforge.report.headline import alike, change_text, costs_of, estimate_text, places, range_text, result_row
from aneforge.report.model import COREML, NO, SPLIT, YES
from aneforge.report.numbers import time_text
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from aneforge.report.headline import ResultRow
    from aneforge.report.model import Report, TargetReport

__all__ = ["Card", "Share", "cards"]

ANSWERS = {YES: "runs", SPLIT: "runs after splitting", NO: "does not run"}
"""Whether a model runs on a target, in the words of a headline."""
SHARES = 4
"""What the time is made of: as many parts are named, the others are one."""
LEAST = 0.01
"""A smaller share is not named."""
OTHER = "other"
NOT_NEEDED = "not needed"
"""How a remedy begins that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Share:
    """Something that takes a part of the time."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Card:
    """The headline of targets with the same result."""

    row: ResultRow
    places: tuple[int, ...]
    """The targets, by their places in the report."""
    answer: str
    time: str
    """Predicted; empty without a program."""
    interval: str
    """What should hold eight of ten measurements."""
    programs: int
    shares: tuple[Share, ...]
    """What the time is made of, the largest first, what is small together at the end."""
    elsewhere: str
    """Why Core ML does not run all of it on the engine; empty where it does, and for a direct dispatch."""
    changes: tuple[str, ...]
    """Changes worth making: those with a price, then operations of findings with a remedy that stop a model, split it
    or cost time."""

    @property
    def headline(self) -> str:
        """The card in one sentence."""
        programs = number_of(self.programs, "program")
        changes = number_of(len(self.changes), "change")
        time = f"{self.time} ({self.interval})" if self.time else ""
        cost = f"{self.row.cost} of the time in {programs}" if self.row.cost else ""
        worth = f"{changes} worth making" if self.changes else ""
        parts = [self.answer, self.row.reason.rstrip("."), time, cost, worth]
        return f"{self.row.chips}: {', '.join(part for part in parts if part)}"


def cards(report: Report) -> tuple[Card, ...]:
    """Return a card for every distinct result, in the order of the targets.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> wide = af.input((1, 8, 1, 17_000), name="x").relu()
    >>> [(card.answer, card.programs, card.changes) for card in cards(check(wide, af.targets.Family.A15))]
    [('runs after splitting', 1, ('relu',))]
    """
    return tuple(card(report, group) for group in alike(report))


def card(report: Report, group: tuple[int, ...]) -> Card:
    """Return the card of targets with the same result."""
    targets = places(report, group)
    first = targets[0]
    known = [one.latency for one in targets if one.latency is not None]
    low, high = (
        (time_text(min(one.low for one in known)), time_text(max(one.high for one in known))) if known else ("", "")
    )
    return Card(
        row=result_row(report, targets),
        places=group,
        answer=ANSWERS.get(first.runs, first.runs),
        time=estimate_text(known) if known else "",
        interval=range_text(low, high) if known else "",
        programs=first.segments,
        shares=shares_of(costs_of(report, first)),
        elsewhere=elsewhere_reason(first),
        changes=max(map(worth_making, targets), key=len),
    )


def elsewhere_reason(target: TargetReport) -> str:
    """Return why Core ML runs operations on another device; empty where it does not."""
    if target.path != COREML or target.placement is None or target.placement.on_engine == 1:
        return ""
    return f"elsewhere: {target.placement.reason}" if target.placement.reason else ""


def shares_of(costs: dict[str, float]) -> tuple[Share, ...]:
    """Return the largest shares of a time, and the rest as one.

    >>> [(one.name, one.share) for one in shares_of({"a": 1.0, "b": 6.0, "c": 0.0, "d": 1.0, "e": 1.0, "f": 1.0})]
    [('b', 0.6), ('a', 0.1), ('d', 0.1), ('other', 0.2)]
    >>> [(one.name, one.share) for one in shares_of({"a": 0.4, "b": 99.6})]
    [('b', 0.996), ('other', 0.004)]
    """
    total = sum(costs.values())
    found = sorted(((time, name) for name, time in costs.items() if time > 0), key=lambda one: -one[0])
    seen = [one for one in found if one[0] >= LEAST * total]
    named = seen if len(seen) <= SHARES and len(seen) == len(found) else seen[: SHARES - 1]
    rest = sum(time for time, _ in found[len(named) :])
    shown = [*((name, time) for time, name in named), *([(OTHER, rest)] if rest else [])]
    return tuple(Share(name, round(time / total, 4)) for name, time in shown)


def worth_making(target: TargetReport) -> tuple[str, ...]:
    """Return the changes to a model that are worth making for a target; findings that fold into one are one.

    What Core ML runs elsewhere is a warning, and worth a change too.
    """
    counted = (*STOPPING, str(Severity.WARN)) if target.path == COREML else STOPPING
    fits = any(one.fits for one in target.changes)
    remedies = {
        kind_of(one): one.op
        for one in reversed(target.findings)
        if one.remedy
        and not (fits and one.severity == Severity.OVERSIZE)
        and not one.remedy.startswith(NOT_NEEDED)
        and (one.severity in counted or (one.share or 0.0) >= COSTLY)
    }
    return (*map(change_text, target.changes), *reversed(remedies.values()))
