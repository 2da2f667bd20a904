"""The machine that a prediction is made for: rates of one chip, measured, or taken from the chips nearest to it.

A chip that was measured has its own values; clock, cores and, where a benchmark saw it, the weight bandwidth are
always its own. What else a chip without measurements needs comes from others. The time of a call falls from generation
to generation: it is the geometric mean of the measured chips of the same target, else of the same tier, else of the
nearest tiers on both sides. Host copies and costs for an element do not fall in this way: the last generation is ten
times as fast as all before, and two chips were many times slower than their generation. They come from chips that are
no such exception, of the same target, else of the same tier, else of the nearest tier before. What was taken from
where, and whether it was measured, fitted, decoded or scaled, is in `rates`.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from aneforge.analysis.files import (
    CallEntry,
    MachineEntry,
    PowerEntry,
    SpreadEntry,
    machines_file,
    model,
)
from aneforge.analysis.routes import calls_on, get_assumed_route, is_assumed
from aneforge.evidence import EvidenceKind
from aneforge.records import dataclass
from aneforge.targets import Kind, Place, database, place_of, resolve, supports_mil
from aneforge.targets.peak import curve_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from aneforge.evidence import Evidence
    from aneforge.targets import Target, TargetLike

__all__ = [
    "INTERVAL",
    "Basis",
    "Machine",
    "Provenance",
    "Rate",
    "anchors_of",
    "estimate_provenance",
    "machine_for",
    "machine_of",
]

INTERVAL = 1.2816
"""Standard deviations on either side that hold eight in ten of a normal distribution."""


class Basis(StrEnum):
    """How a part of a prediction is known, the surest first."""

    MEASURED = "measured"
    """A figure that was read on this chip."""
    FITTED = "fitted"
    """A number of this chip that explains its measured calls best."""
    DECODED = "decoded"
    """Read out of a compiler or a compiled program, or concluded from it; not timed."""
    SCALED = "scaled"
    """Taken over from other chips."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One rate or time of a machine: how it is known, and from where."""

    name: str
    basis: Basis
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.basis}, {self.text}"


class Provenance(TypedDict):
    """Where the numbers of an estimate come from, in the documented form."""

    target: str
    anchor: str
    """The target of the measured chips, several joined by a plus sign."""
    measured: bool
    """A chip of this very target was measured."""
    basis: str
    """`silicon`, or `extrapolated-from-` and the anchor."""
    chips: tuple[str, ...]
    """The measured chips themselves."""
    rates: Mapping[str, str]
    """By rate: `measured`, `fitted`, `decoded` or `scaled`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of one chip: bytes or operations for each microsecond, and fixed times in microseconds."""

    name: str
    target: str
    anchors: tuple[str, ...]
    """The measured chips that its values come from."""
    measured: bool
    """The chip, or a chip of the target, was measured."""
    dispatch: float
    """Time of one call that does nothing, by `route`."""
    dispatch_interval: tuple[float, float]
    """Minimum and maximum of one call; every figure that was published for this chip and route is inside."""
    route: str
    """The way to the engine that is assumed: calls by other ways take other times."""
    host_in: float
    host_out: float
    """Copies between the caller's memory and the engine's."""
    stream: float
    """Weights that are read once."""
    aliased_stream: float
    """Weights of as many input channels as were seen to be slow; equal to `stream` on other chips."""
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
    """None where power was not measured."""
    rates: tuple[Rate, ...]
    """How each rate is known."""

    @property
    def basis(self) -> tuple[str, ...]:
        """In words, where each value comes from."""
        return tuple(map(str, self.rates))

    def basis_of(self, name: str) -> Basis:
        """Return how a rate is known, by its name."""
        return next(rate.basis for rate in self.rates if rate.name == name)


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
    anchors = anchors_of(place, fitted)
    own = place.chip is not None and place.chip.key in anchors
    stands = own or (place.chip is None and all(is_of(key, place.target) for key in anchors))
    lenders = anchors if stands else lenders_of(place, fitted)
    entries = [fitted[key] for key in lenders]
    constants, target = model(), place.target
    dispatch, called = dispatch_of(place, anchors, fitted, calls, stands=stands)
    stream, streamed = stream_of(place, anchors)
    activation, moved = activation_of(target)
    clock, clocked = clock_of(target)
    cores, counted = cores_of(target)
    channels = 2 if stream >= constants.two_channels_from.value else 1
    # A bare target stands for its measured chip; another chip of the same target is as uncertain as another target.
    spread = max(entry.spread for entry in entries) if stands else spreads.other_chip
    sure = spread if stands else spreads.other_chip if called.basis is Basis.SCALED else spreads.network
    return Machine(
        name=place.name,
        target=target.name,
        anchors=tuple(database().chips[key].name for key in dict.fromkeys((*anchors, *lenders))),
        measured=stands,
        dispatch=dispatch,
        dispatch_interval=dispatch_interval(place, dispatch, sure, called.basis),
        route=get_assumed_route(),
        host_in=1e3 * mean([entry.host_in for entry in entries]),
        host_out=1e3 * mean([entry.host_out for entry in entries]),
        stream=1e3 * stream,
        aliased_stream=1e3 * (min(stream, constants.aliased_stream.value) if is_aliasing(target) else stream),
        restream=1e3 * stream / channels,
        activation=1e3 * activation,
        on_chip=clock * constants.on_chip_bytes.value,
        macs=clock * cores * macs_of(target),
        layer=constants.layer_cycles.value / clock,
        element_nanoseconds={
            name: mean([entry.element_nanoseconds[name] for entry in entries]) for name in constants.classes
        },
        inside_nanoseconds={name: 1e3 * one.inside_cycles / clock for name, one in constants.classes.items()},
        spread=spread,
        network_spread=spreads.network,
        power=entries[0].power if own or (stands and len(entries) == 1) else None,
        rates=(
            called,
            describe_copies(lenders, place, stands=stands),
            streamed,
            slow_weights(place),
            moved,
            clocked,
            counted,
            Rate(
                "on chip",
                Basis.SCALED,
                "from a fit to whole networks on several chips (networks)",
            ),
            elements_of(lenders, fitted, place, stands=stands),
        ),
    )


def is_of(key: str, target: Target) -> bool:
    """Return whether a chip is of a target."""
    return database().chips[key].target == target.name


def mean(values: Sequence[float]) -> float:
    """Return the geometric mean, which is what rates and times of different machines are compared with."""
    return math.exp(sum(map(math.log, values)) / len(values))


def anchors_of(place: Place, measured: Collection[str]) -> tuple[str, ...]:
    """Return the measured chips whose calls stand for those of a place.

    They are the chip itself, else those of the same target, else of the nearest tiers.
    """
    if place.chip is not None and place.chip.key in measured:
        return (place.chip.key,)
    return tuple(key for key in measured if is_of(key, place.target)) or nearest_tiers(place.target, measured)


def lenders_of(place: Place, fitted: Mapping[str, MachineEntry]) -> tuple[str, ...]:
    """Return the measured chips that lend their host copies and costs for an element.

    They are those of the same target, else of the same tier, else of the nearest tier before, else after.
    """
    data, placed = database(), generation(place.target)
    lending = [key for key, entry in fitted.items() if entry.lends] or list(fitted)
    order = {key: generation(data.targets[data.chips[key].target]) for key in lending}
    same_target = tuple(key for key in lending if is_of(key, place.target))
    before = max((one for one in order.values() if one <= placed), default=None)
    nearest = before if before is not None else min(order.values())
    return same_target or tuple(key for key in lending if order[key] == nearest)


def describe_copies(lenders: Sequence[str], place: Place, *, stands: bool) -> Rate:
    """Return how the host's copies are known."""
    if stands:
        return Rate("host copies", Basis.FITTED, f"to calls measured on {names(lenders)}")
    same = all(is_of(key, place.target) for key in lenders)
    where = "of the same target" if same else "of the nearest tier whose copies are not an exception"
    return Rate("host copies", Basis.SCALED, f"as on {names(lenders)}, {where}")


def elements_of(lenders: Sequence[str], fitted: Mapping[str, MachineEntry], place: Place, *, stands: bool) -> Rate:
    """Return how the costs for an element are known: some classes by a chip's own rows, the others by other chips."""
    host = describe_copies(lenders, place, stands=stands)
    seen = [name for name in model().classes if all(name in fitted[key].fitted_classes for key in lenders)]
    rest = [name for name in model().classes if name not in seen]
    text = f"{host.text}: {', '.join(seen)}" if seen else host.text
    others = f"; {', '.join(rest)} scaled from other chips" if rest else ""
    return Rate("elements", host.basis if seen else Basis.SCALED, text + others)


def dispatch_of(
    place: Place,
    anchors: Sequence[str],
    fitted: Mapping[str, MachineEntry],
    calls: Mapping[str, CallEntry],
    *,
    stands: bool,
) -> tuple[float, Rate]:
    """Return the time of one call, and how it is known.

    A chip of which only whole programs were measured has its own; so has a target that is no other chip's.
    """
    if not stands:
        alone = [key for key in calls if is_of(key, place.target)] if place.chip is None else [place.chip.key]
        own = [calls[key] for key in alone if key in calls]
        if own and not (place.chip is None and any(is_of(key, place.target) for key in anchors)):
            seen = f"to {sum(call.rows for call in own)} whole programs measured on {names(alone)}"
            return mean([call.dispatch for call in own]), Rate("dispatch", Basis.FITTED, seen)
    value = mean([fitted[key].dispatch for key in anchors])
    if stands:
        return value, Rate("dispatch", Basis.FITTED, f"to calls measured on {names(anchors)}")
    same = all(is_of(key, place.target) for key in anchors)
    where = "of the same target" if same else "of the nearest measured tiers"
    return value, Rate("dispatch", Basis.SCALED, f"as on {names(anchors)}, {where}")


def dispatch_interval(place: Place, dispatch: float, spread: float, basis: Basis) -> tuple[float, float]:
    """Return the minimum and the maximum of one call, given how sure the figure is.

    What was published for the chip itself is inside: by the assumed route, or by others where the figure is scaled.
    """
    known = calls_on([place.chip.key] if place.chip else [key for key in database().chips if is_of(key, place.target)])
    chosen = [figure for figure in known if is_assumed(figure.route)]
    if not chosen and basis is Basis.SCALED:
        chosen = list(known)
    width = math.exp(INTERVAL * spread)
    low = min([dispatch / width, *(figure.microseconds[0] for figure in chosen)])
    return low, max([dispatch * width, *(figure.microseconds[1] for figure in chosen)])


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


def stream_of(place: Place, anchors: Sequence[str]) -> tuple[float, Rate]:
    """Return the GB/s at which weights are read, and how it is known."""
    value, basis, text = stream_figure(place, anchors)
    return value, Rate("weight bandwidth", basis, text)


def stream_figure(place: Place, anchors: Sequence[str]) -> tuple[float, Basis, str]:
    """Return the GB/s at which weights are read, how it is known, and where it comes from."""
    chips = database().chips
    if place.chip is not None and place.chip.bandwidth is not None:
        return place.chip.bandwidth, *known_by(place.chip.bandwidth_evidence)
    whole = place.target.geometry.get("weight_bandwidth")
    alike = [one for one in chips.values() if one.target == place.target.name and one.bandwidth is not None]
    if place.chip is None:
        alike = [one for one in alike if one.key in anchors] or alike
    if alike:
        value = mean([one.bandwidth for one in alike if one.bandwidth is not None])
        standing = place.chip is None and len(alike) == 1
        basis = basis_of(alike[0].bandwidth_evidence) if standing else Basis.SCALED
        return value, basis, f"{', '.join(one.name for one in alike)}, of the same target"
    if isinstance(whole, int | float):
        known = place.target.evidence("weight_bandwidth")
        return float(whole), *known_by(known)
    found = [stream_figure(Place(resolve(chips[key].target), chips[key]), (key,))[0] for key in anchors]
    return mean(found), Basis.SCALED, f"as on {names(anchors)}"


def basis_of(evidence: Evidence | None) -> Basis:
    """Return how a fact of the database is known, as a rate has it."""
    measured = evidence is not None and evidence.kind is EvidenceKind.MEASURED
    return Basis.MEASURED if measured else Basis.DECODED


def where_known(evidence: Evidence) -> str:
    """Return on which chips something was seen, and who says so."""
    chips = f"on {', '.join(evidence.on)} " if evidence.on else ""
    disputed = f"; sources disagree, see {evidence.conflict}" if evidence.conflict else ""
    return f"{chips}({evidence.source}{disputed})"


def known_by(evidence: Evidence | None) -> tuple[Basis, str]:
    """Return how a fact of the database is known, and where."""
    return basis_of(evidence), "" if evidence is None else where_known(evidence)


def activation_of(target: Target) -> tuple[float, Rate]:
    """Return the GB/s at which activations move between DRAM and the engine, and how it is known."""
    tiers, known = database().tiers, model().activation_bandwidth
    reached = [name for name in known if tiers[name].order <= generation(target)]
    found = known[max(reached, key=lambda name: tiers[name].order)]
    chips = [one.name for one in database().chips.values() if one.target == target.name]
    basis = Basis.MEASURED if set(found.on) & set(chips) else Basis.SCALED
    return found.value, Rate("activations", basis, where_known(found.evidence))


def clock_of(target: Target) -> tuple[float, Rate]:
    """Return the highest clock in cycles for each microsecond, and how it is known."""
    if target.clock is not None:
        known = target.clock.evidence
        return float(target.clock.most), Rate("clock", *known_by(known))
    chosen = curve_of(target)
    text = chosen.substitute or f"the curve of {chosen.clock.curve}"
    return float(chosen.clock.most), Rate("clock", Basis.SCALED, text)


def cores_of(target: Target) -> tuple[int, Rate]:
    """Return the cores that share a layer, and how their number is known."""
    if target.ne_count_device:
        known = target.evidence("ne_count_device")
        return target.ne_count_device, Rate("cores", basis_of(known), f"{target.ne_count_device} {where_known(known)}")
    if target.kind is Kind.EMBEDDED and target.ne_count_hal:
        known = target.evidence("ne_count_hal")
        return target.ne_count_hal, Rate("cores", basis_of(known), f"{target.ne_count_hal} {where_known(known)}")
    unknown = model().cores_where_unknown
    return int(unknown.value), Rate("cores", Basis.SCALED, f"{unknown.value:g} {where_known(unknown.evidence)}")


def slow_weights(place: Place) -> Rate:
    """Return how the rate of weights of slow channel counts is known."""
    known = model().aliased_stream
    chips = [place.chip] if place.chip else [one for one in database().chips.values() if is_of(one.key, place.target)]
    measured = any(one.name in known.on for one in chips)
    return Rate("slow weights", Basis.MEASURED if measured else Basis.SCALED, where_known(known.evidence))


def is_aliasing(target: Target) -> bool:
    """Return whether some channel counts were seen to be slow on a target, or on another of its tier."""
    return target.tier is not None and target.tier.name in model().aliased_tiers


def macs_of(target: Target) -> float:
    """Return the multiply-accumulates of one core in one cycle."""
    found = target.geometry.get("macs_per_core_cycle_fp16")
    return float(found) if isinstance(found, int) else model().macs_where_unknown.value


def estimate_provenance(target: TargetLike = None) -> Provenance:
    """Return the sources of the numbers in an estimate for a target, by default the target of this machine.

    An `estimate` without a target is the documented heuristic and does not use them.

    >>> from aneforge.targets import Family
    >>> estimate_provenance(Family.A13)["basis"], estimate_provenance(Family.A15)["measured"]
    ('silicon', False)

    Raises:
        UnknownTargetError: The target name is unknown; also a `ValueError`.
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
        rates={rate.name: str(rate.basis) for rate in machine.rates},
    )
