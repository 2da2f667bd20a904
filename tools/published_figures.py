"""Lists every published time that can be priced: the figure, its prediction and interval, and whether it is inside.

`python tools/published_figures.py` prints a Markdown table for single operations, programs by route and networks, and
the conflict that gives both numbers where a figure is outside; `--outside` prints those rows alone. Times of which no
prediction can be made (nobody said the encoding, the form or the length) are named in the conflicts T1 and later.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.analysis.cost import price
from aneforge.analysis.files import checks, measurements, networks
from aneforge.analysis.machine import machine_of
from aneforge.analysis.routes import programs
from aneforge.report.numbers import time_text
from calibrate_cost import machine_by_route, network_works, works

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.analysis.cost import Cost

__all__ = ["Figure", "figures", "network_figures"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A published time next to its prediction."""

    group: str
    what: str
    low: float
    high: float
    """Microseconds as published: both ends are the figure, where one was."""
    predicted: Cost
    conflict: str
    """The entry that gives both numbers, where the prediction's interval does not hold the figure; else empty."""

    @property
    def inside(self) -> bool:
        """It meets the interval of the prediction."""
        return self.predicted.low <= self.high and self.low <= self.predicted.high

    @property
    def row(self) -> str:
        """The line of a table."""
        times = dict.fromkeys(map(time_text, (self.low, self.high)))
        found = self.predicted
        interval = f"{time_text(found.low)} to {time_text(found.high)}"
        inside = "yes" if self.inside else f"no ({self.conflict})"
        return f"| {self.what} | {' to '.join(times)} | {time_text(found.microseconds)} | {interval} | {inside} |"


def figures() -> Iterator[Figure]:
    """Yield every published time that can be priced."""
    yield from operation_figures()
    yield from program_figures()
    yield from network_figures()


def operation_figures() -> Iterator[Figure]:
    """Yield the times of programs of one operation, by which chips were fitted or checked."""
    for row in (*measurements(), *checks()):
        found = price(works(row), machine_of(row.chip))
        yield Figure("single operations", str(row), row.microseconds, row.microseconds, found, row.conflict)


def program_figures() -> Iterator[Figure]:
    """Yield the times of programs whose route to the engine is known."""
    for row in programs():
        if row.chip:
            found = price(works(row), machine_by_route(row))
            yield Figure("programs by route", str(row), row.low, row.high, found, row.conflict)


def network_figures() -> Iterator[Figure]:
    """Yield the times of whole networks."""
    for row in networks():
        found = price(network_works(row), machine_of(row.chip))
        yield Figure("networks", str(row), row.microseconds, row.microseconds, found, row.conflict)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="List published times next to their predictions.")
    parser.add_argument("--outside", action="store_true", help="print what is outside of its interval alone")
    arguments = parser.parse_args()
    groups: dict[str, list[Figure]] = {}
    for one in figures():
        groups.setdefault(one.group, []).append(one)
    for name, found in groups.items():
        inside = sum(one.inside for one in found)
        print(f"\n{name}: {inside} of {len(found)} inside the interval of the prediction\n")  # noqa: T201 - what it is for
        print("| figure | published | predicted | interval | inside |\n| --- | --- | --- | --- | --- |")  # noqa: T201 - as above
        rows = (one.row for one in found if not (arguments.outside and one.inside))
        print("\n".join(rows))  # noqa: T201 - as above


if __name__ == "__main__":
    main()
