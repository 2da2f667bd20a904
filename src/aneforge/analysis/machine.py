"""The machine that a prediction is made for: rates of one chip, measured, or taken from the chips nearest to it.

A chip that was measured has its own values; clock, cores and, where a benchmark saw it, the weight bandwidth are always
its own. What else a chip without measurements needs comes from others. The time of a call falls from generation to
generation: it is the geometric mean of the measured chips of the same target, else of the same tier, else of the
nearest tiers on both sides. Host copies and costs for an element do not fall so: the last generation is ten times as
fast as all before, and two chips were many times slower than their generation. They come from chips that are no such
exception, of the same target, else of the same tier, else of the nearest tier before. What was taken from where is in
`basis`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from aneforge.analysis.files import CallEntry, MachineEntry, PowerEntry, SpreadEntry, machines_file, model
from aneforge.errors import UnknownTargetError
from aneforge.targets import Chip, Kind, Target, chip, database, resolve, supports_mil
from aneforge.targets.peak import curve_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from aneforge.targets import TargetLike

__all__ = [
    "Machine",
    "Place",
    "Provenance",
    "anchors_of",
    "estimate_provenance",
    "machine_for",
    "machine_of",
    "place_of",
]


class Provenance(TypedDict):
    """Where the numbers after an estimate come from, in the documented form."""

    target: str
    anchor: str
    """The target of the measured chips, several joined by a plus sign."""
    measured: bool
    """A chip of this very target was measured."""
    basis: str
    """`silicon`, or `extrapolated-from-` and the anchor."""
    chips: tuple[str, ...]
    """The measured chips themselves."""


@dataclass(frozen=True, slots=True)
class Place:
    """A chip, where one was named, and the target that it is."""

    target: Target
    chip: Chip | None

    @property
    def name(self) -> str:
        """The chip's key, else the target's name."""
        return self.chip.key if self.chip else self.target.name


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of one chip: bytes or operations for each microsecond, and fixed times in microseconds."""

    name: str
    target: str
    anchors: tuple[str, ...]
    """The measured chips after it."""
    measured: bool
    """The chip, or a chip of the target, was measured."""
    dispatch: float
    """Time of one call that does nothing."""
    host_in: float
    host_out: float
    """Copies between the caller's memory and the engine's."""
    stream: float
    """Weights that are read once."""
    restream: float
    """What a large product reads again and again."""
    activation: float
    """Inputs and outputs of a program: their first reading and their writing."""
    on_chip: float
    """Tensors that stay inside a program."""
    macs: float
    """Multiply-accumulates at full use of the array."""
    layer: float
    """Fixed time of a layer."""
    element_nanoseconds: Mapping[str, float]
    """By class of layers: what an element costs beyond being moved, in a program of that layer alone."""
    inside_nanoseconds: Mapping[str, float]
    """The same inside a network."""
    spread: float
    """Standard deviation of the logarithm of the error, of a program of one layer."""
    network_spread: float
    """The same of whole networks, on whatever chip."""
    power: PowerEntry | None
    """None where nobody measured power."""
    basis: tuple[str, ...]
    """In words, where each value comes from."""


def place_of(target: TargetLike) -> Place:
    """Return the chip that something names, where it names one, and its target."""
    resolved = resolve(target)
    if not isinstance(target, str) or target.strip().lower() in database().targets:
        return Place(resolved, None)
    try:
        named = chip(target)
    except UnknownTargetError:
        return Place(resolved, None)
    return Place(resolved, named)


def machine_of(target: TargetLike) -> Machine:
    """Return the machine for a chip or a target.

    >>> from aneforge.targets import Family
    >>> machine = machine_of(Family.A13)
    >>> machine.measured, machine.dispatch > 100
    (True, True)

    Raises:
        NoDataError: No source describes the target.
    """
    file = machines_file()
    return machine_for(place_of(target), file.chips, file.spread, file.calls)


def machine_for(
    place: Place,
    fitted: Mapping[str, MachineEntry],
    spreads: SpreadEntry,
    calls: Mapping[str, CallEntry],
) -> Machine:
    """Return the machine for a place, given the chips that were fitted and those of which only a call is known."""
    anchors, why = anchors_of(place, fitted)
    own = place.chip is not None and place.chip.key in anchors
    same_target = all(database().chips[key].target == place.target.name for key in anchors)
    stands = own or (place.chip is None and same_target)
    lenders, lenders_why = (anchors, "") if stands else lenders_of(place, fitted)
    entries = [fitted[key] for key in lenders]
    dispatch, dispatch_why = dispatch_of(place, [fitted[key] for key in anchors], calls)
    stream, stream_why = stream_of(place, anchors)
    constants, target = model(), place.target
    activation = activation_of(target)
    channels = 2 if stream >= constants.two_channels_from.value else 1
    clock, clock_why = clock_of(target)
    # A bare target stands for its measured chip; another chip of the same target is as uncertain as another target.
    spread = max(entry.spread for entry in entries) if stands else spreads.other_chip
    return Machine(
        name=place.name,
        target=target.name,
        anchors=tuple(database().chips[key].name for key in dict.fromkeys((*anchors, *lenders))),
        measured=stands,
        dispatch=dispatch,
        host_in=1e3 * mean([entry.host_in for entry in entries]),
        host_out=1e3 * mean([entry.host_out for entry in entries]),
        stream=1e3 * stream,
        restream=1e3 * stream / channels,
        activation=1e3 * activation,
        on_chip=clock * constants.on_chip_bytes.value,
        macs=clock * cores_of(target) * macs_of(target),
        layer=constants.layer_cycles.value / clock,
        element_nanoseconds={
            name: mean([entry.element_nanoseconds[name] for entry in entries]) for name in constants.classes
        },
        inside_nanoseconds={name: 1e3 * one.inside_cycles / clock for name, one in constants.classes.items()},
        spread=spread,
        network_spread=spreads.network,
        power=entries[0].power if own or (stands and len(entries) == 1) else None,
        basis=tuple(reason for reason in (dispatch_why or why, lenders_why, stream_why, clock_why) if reason),
    )


def mean(values: Sequence[float]) -> float:
    """Return the geometric mean, which is what rates and times of different machines are compared with."""
    return math.exp(sum(map(math.log, values)) / len(values))


def anchors_of(place: Place, measured: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Return the measured chips whose calls stand for those of a place, and why they."""
    chips, target = database().chips, place.target
    if place.chip is not None and place.chip.key in measured:
        return (place.chip.key,), f"dispatch, host copies and layers: measured on the {place.chip.name}"
    same_target = tuple(key for key in measured if chips[key].target == target.name)
    if same_target and place.chip is None:
        return same_target, f"dispatch, host copies and layers: {names(same_target)}, of the same target"
    if same_target:
        return same_target, f"dispatch: {names(same_target)}, of the same target"
    found = nearest_tiers(target, measured)
    return found, f"dispatch: {names(found)}, of the nearest measured tiers"


def lenders_of(place: Place, fitted: Mapping[str, MachineEntry]) -> tuple[tuple[str, ...], str]:
    """Return the measured chips that lend their host copies and costs for an element, and why they.

    They are those of the same target, else of the same tier, else of the nearest tier before, else after.
    """
    data, placed = database(), generation(place.target)
    lending = [key for key, entry in fitted.items() if entry.lends] or list(fitted)
    order = {key: generation(data.targets[data.chips[key].target]) for key in lending}
    same_target = tuple(key for key in lending if data.chips[key].target == place.target.name)
    before = max((one for one in order.values() if one <= placed), default=None)
    nearest = before if before is not None else min(order.values())
    found = same_target or tuple(key for key in lending if order[key] == nearest)
    why = "of the same target" if same_target else "of the nearest tier whose are no exception"
    return found, f"host copies and layers: {names(found)}, {why}"


def dispatch_of(place: Place, entries: Sequence[MachineEntry], calls: Mapping[str, CallEntry]) -> tuple[float, str]:
    """Return the time of one call, and where it comes from if not from the chips that stand for a place."""
    own = None if place.chip is None else calls.get(place.chip.key)
    if own is None:
        return mean([entry.dispatch for entry in entries]), ""
    return own.dispatch, f"dispatch: fitted to {own.rows} whole networks on the chip itself"


def nearest_tiers(target: Target, measured: Collection[str]) -> tuple[str, ...]:
    """Return the measured chips of a target's tier, else of the nearest tiers before and after it."""
    data = database()
    order = {key: tier.order for key in measured if (tier := data.targets[data.chips[key].target].tier)}
    placed = generation(target)
    if placed in order.values():
        return tuple(key for key in order if order[key] == placed)
    before = max((one for one in order.values() if one < placed), default=None)
    after = min((one for one in order.values() if one > placed), default=None)
    return tuple(key for key in order if order[key] in (before, after))


def generation(target: Target) -> int:
    """Return the order of the tier whose generation a target is of.

    A small embedded target is counted to the first tier of its family. A design of no family is on no line of
    generations: the first tier that runs programs stands for it.
    """
    tiers = database().tiers.values()
    if target.tier is None or target.tier.family is None:
        return min(tier.order for tier in tiers if tier.family is not None and supports_mil(tier.family))
    if target.kind is Kind.EMBEDDED:
        return min(tier.order for tier in tiers if tier.family is target.tier.family)
    return target.tier.order


def names(keys: Sequence[str]) -> str:
    """Return chips as a reader knows them."""
    return " and ".join(database().chips[key].name for key in keys)


def stream_of(place: Place, anchors: Sequence[str]) -> tuple[float, str]:
    """Return the GB/s at which weights are read, and where the figure comes from."""
    chips = database().chips
    if place.chip is not None and place.chip.bandwidth is not None:
        return place.chip.bandwidth, f"weight bandwidth: {place.chip.bandwidth_evidence}"
    whole = place.target.geometry.get("weight_bandwidth")
    alike = [one for one in chips.values() if one.target == place.target.name and one.bandwidth is not None]
    if place.chip is None:
        alike = [one for one in alike if one.key in anchors] or alike
    if alike:
        value = mean([one.bandwidth for one in alike if one.bandwidth is not None])
        return value, f"weight bandwidth: {', '.join(one.name for one in alike)}, of the same target"
    if isinstance(whole, int | float):
        return float(whole), f"weight bandwidth: {place.target.evidence('weight_bandwidth')}"
    found = [stream_of(Place(resolve(chips[key].target), chips[key]), (key,))[0] for key in anchors]
    return mean(found), f"weight bandwidth: as on {names(anchors)}"


def activation_of(target: Target) -> float:
    """Return the GB/s at which activations move between DRAM and the engine."""
    tiers, known = database().tiers, model().activation_bandwidth
    reached = [name for name in known if tiers[name].order <= generation(target)]
    return known[max(reached, key=lambda name: tiers[name].order)].value


def clock_of(target: Target) -> tuple[float, str]:
    """Return the highest clock in cycles for each microsecond, and whose it is."""
    if target.clock is not None:
        return float(target.clock.most), f"clock: {target.clock.evidence}"
    chosen = curve_of(target)
    return float(chosen.clock.most), f"clock: {chosen.substitute or f'the curve of {chosen.clock.curve}'}"


def cores_of(target: Target) -> int:
    """Return the cores that share a layer."""
    small = target.kind is Kind.EMBEDDED
    return target.ne_count_device or (target.ne_count_hal if small else None) or int(model().cores_where_unknown.value)


def macs_of(target: Target) -> float:
    """Return the multiply-accumulates of one core in one cycle."""
    found = target.geometry.get("macs_per_core_cycle_fp16")
    return float(found) if isinstance(found, int) else model().macs_where_unknown.value


def estimate_provenance(target: TargetLike = None) -> Provenance:
    """Return where the numbers after an estimate for a target come from; without one, for the target of this machine.

    An `estimate` that names no target is the documented heuristic, and rests on none of them.

    >>> from aneforge.targets import Family
    >>> estimate_provenance(Family.A13)["basis"], estimate_provenance(Family.A15)["measured"]
    ('silicon', False)

    Raises:
        UnknownTargetError: Nothing has that name; also a `ValueError`.
    """
    place = place_of(target)
    machine = machine_of(target)
    chips = {one.name: one.target for one in database().chips.values()}
    anchor = "+".join(dict.fromkeys(chips[name] for name in machine.anchors))
    return Provenance(
        target=place.target.name,
        anchor=anchor,
        measured=machine.measured,
        basis="silicon" if machine.measured else f"extrapolated-from-{anchor}",
        chips=machine.anchors,
    )
