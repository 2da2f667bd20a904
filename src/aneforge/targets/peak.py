"""The documented projection of peak throughput: one anchor, scaled by cores and by the clock of the cost curve.

It is a ceiling and a generational shape, not a promise: the documentation itself says that one chip projects to about
5.5 times another where programs were seen to run 2.3 to 3.3 times as fast (conflict T6). No latency of this package
rests on it. Cores are those of the field at 0x238, which counts by the suffix of a target's name; devices report the
same number whatever the suffix (conflict C3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from aneforge.errors import NoDataError
from aneforge.records import dataclass
from aneforge.targets.database import database
from aneforge.targets.resolve import TargetLike, place_of, resolve

if TYPE_CHECKING:
    from aneforge.targets.target import Clock, Target, Tier

__all__ = ["CurveChoice", "Peak", "curve_of", "project_peak"]

ANCHOR_TFLOPS = 1.8
"""Peak of the anchor (guide ch. 34, aneforge cost model): the M1, whose curve is that of h13."""
ANCHOR = "h13"
OPERATING_SHARE = 0.8
"""The clock at which a chip is taken to run, as a share of the highest (aneforge cost model)."""


class Peak(TypedDict):
    """What the documented call returns."""

    tflops: float
    rel_m1: float
    cores: int
    ghz: float


@dataclass(frozen=True, slots=True)
class CurveChoice:
    """The clock curve that stands for a target."""

    clock: Clock
    cores: int
    """Cores as the field at 0x238 counts them; the curve's own where it is the documented one."""
    substitute: str | None
    """Why the curve of another target is used; None where it is the documented one."""


def project_peak(arch: TargetLike) -> Peak:
    """Return the projected fp16 peak of a target or a chip, by the documented scaling.

    Targets without a published curve use that of a substitute: `curve_of` says which, and why. A chip is projected with
    the target of the documentation, which for one chip differs from the target that its device reports.

    >>> project_peak("h13")
    {'tflops': 1.8, 'rel_m1': 1.0, 'cores': 4, 'ghz': 1.1424}
    >>> round(project_peak("h17s")["rel_m1"], 4), round(project_peak("m5")["rel_m1"], 4)
    (4.942, 4.942)

    Raises:
        UnknownTargetError: The target name is unknown; also a `KeyError`.
        NoDataError: No source describes the target; also a `KeyError`.
    """
    chosen, anchor = curve_of(find_projected(arch)), curve_of(ANCHOR)
    scale = throughput(chosen) / throughput(anchor)
    return Peak(
        tflops=ANCHOR_TFLOPS * scale,
        rel_m1=scale,
        cores=chosen.cores,
        ghz=round(OPERATING_SHARE * chosen.clock.most / 1000, 6),
    )


def find_projected(arch: TargetLike) -> Target:
    """Return the target as which the projection counts a chip or a target."""
    place = place_of(arch)
    named = None if place.chip is None else place.chip.projected_as
    return place.target if named is None else resolve(named)


def throughput(chosen: CurveChoice) -> float:
    """Return cores times the paired clock at the operating point."""
    clock = chosen.clock
    return chosen.cores * float(np.interp(OPERATING_SHARE * clock.most, clock.points, clock.paired))


def curve_of(target: TargetLike) -> CurveChoice:
    """Return the curve that the projection uses for a target, and why where it is not the documented one.

    >>> curve_of("h12").substitute
    'no curve is published for h12; that of h11, of the same tier'

    Raises:
        NoDataError: No source describes the target.
    """
    resolved = resolve(target)
    if resolved.cost_curve is not None:
        return CurveChoice(resolved.cost_curve, cores_of(resolved.cost_curve), None)
    if resolved.tier is None:
        raise NoDataError("no published source describes it, so its clock is unknown", target=resolved.name)
    other, where = stand_in(resolved.tier)
    clock = clock_of(other)
    why = f"no curve is published for {resolved.name}; that of {other.name}, {where}"
    return CurveChoice(clock, resolved.ne_count_hal or cores_of(clock), why)


def stand_in(tier: Tier) -> tuple[Target, str]:
    """Return the target whose curve stands for those of a tier that have none, and why it."""
    own = curve_in(tier.name)
    if own is not None:
        return own, "of the same tier"
    if tier.family is None:
        return database().targets[ANCHOR], "the anchor, since the target belongs to no family"
    earlier = [one.name for one in database().tiers.values() if one.order < tier.order]
    found = next(one for name in reversed(earlier) if (one := curve_in(name)))
    return found, "of the latest tier before it that has one"


def curve_in(tier: str) -> Target | None:
    """Return the first target of a tier that has a documented curve."""
    return next(
        (one for one in database().targets.values() if one.tier and one.tier.name == tier and one.cost_curve), None
    )


def clock_of(target: Target) -> Clock:
    """Return the documented curve of a target that has one."""
    if target.cost_curve is None:
        raise NoDataError("no cost curve is published for it", target=target.name)
    return target.cost_curve


def cores_of(clock: Clock) -> int:
    """Return the cost model's core count of a curve.

    Raises:
        NoDataError: The curve has only clocks.
    """
    if clock.cores is None:
        raise NoDataError(f"the curve {clock.curve} gives no number of cores")
    return clock.cores
