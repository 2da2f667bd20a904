"""The share of a predicted time that findings are about: of one operation, or of several together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.report.predicted import OWN_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

    from aneforge.report.model import Timed

__all__ = ["HOST", "share_text", "time_share"]

HOST = "host"
"""What runs the calls of programs on a timeline."""


def time_share(timeline: Sequence[Timed], nodes: AbstractSet[int | None], rule: str) -> float | None:
    """Return the share of the time of all layers that carry out one of some operations; None where there is none.

    A layer that carries out several of them counts once. An operation with a program of its own has its call too.

    >>> from aneforge.report.model import Timed
    >>> def layer(engine, duration, nodes, segment=0):
    ...     return Timed("", "", engine, segment, 0, 0.0, duration, nodes, "", "exact")
    >>> layers = [layer("host", 50.0, ()), layer("NE", 30.0, (1, 2)), layer("PE", 20.0, (3,))]
    >>> time_share(layers, {1, 2}, ""), time_share(layers, {3}, OWN_PROGRAM.id), time_share(layers, {9}, "")
    (0.3, 0.7, None)
    """
    total = sum(one.duration for one in timeline)
    layers = [one for one in timeline if not nodes.isdisjoint(one.nodes)]
    if not layers or not total:
        return None
    spent = sum(one.duration for one in layers)
    if rule == OWN_PROGRAM.id:
        own = {one.segment for one in layers}
        spent += sum(one.duration for one in timeline if one.engine == HOST and one.segment in own)
    return round(spent / total, 2)


def share_text(shares: Collection[float]) -> str:
    """Return the share of the time that findings are about, on one target or on several; empty where it is unknown.

    >>> share_text([0.38, 0.55, 0.4]), share_text([0.2]), share_text([0.0, 0.003]), share_text([])
    ('38-55% of the time', '20% of the time', 'less than 1% of the time', '')
    """
    if not shares:
        return ""
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    if high == "0%":
        return "less than 1% of the time"
    return f"{high} of the time" if low == high else f"{low.rstrip('%')}-{high} of the time"
