"""The documented questions about a family or a target, each one look-up in the database.

A question takes anything that names a target (`resolve`); a `Family` or its number stands for its representative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from aneforge.errors import NoDataError, UnknownNameError
from aneforge.evidence import EvidenceKind
from aneforge.ops.numbers import FP16_MAX
from aneforge.targets.database import database
from aneforge.targets.family import Family, family_of, supports_mil
from aneforge.targets.names import find_target
from aneforge.targets.resolve import TargetLike, representative, resolve

if TYPE_CHECKING:
    from aneforge.evidence import Evidence
    from aneforge.targets.target import Target, Tier

__all__ = [
    "FP16_SLICE_SAT",
    "arch_for_family",
    "family_of_arch",
    "first_tier_with",
    "has_texture_engine",
    "limit",
    "native_streams",
    "was_measured_on",
]

FP16_SLICE_SAT = FP16_MAX / 16
"""Largest magnitude that survives the times-16 crop of a width slice: the fp16 maximum over 16."""


def family_of_arch(arch: str) -> Family:
    """Return the documented family of a compiler target.

    >>> family_of_arch(" H17S ")
    <Family.A16: 5>

    Raises:
        UnknownTargetError: No compiler knows the name; also a `KeyError`.
        NoDataError: The name is known and belongs to no family.
    """
    return family_of(find_target(arch))


@overload
def arch_for_family(family: Family | int) -> str: ...
@overload
def arch_for_family() -> tuple[str, ...]: ...
def arch_for_family(family: Family | int | None = None) -> str | tuple[str, ...]:
    """Return the compiler target that stands for a family, or for every family that runs MIL.

    >>> arch_for_family(Family.A16), arch_for_family()
    ('h16s', ('h13', 'h14', 'h15', 'h16s'))
    """
    if family is None:
        return tuple(name for known, name in database().representatives.items() if supports_mil(known))
    return representative(family).name


def limit(name: str, family: TargetLike = None) -> int:
    """Return a numeric limit: one of `target.limits`, else a field of the hardware-abstraction blob that is one.

    >>> limit("max_tensor_dim", Family.A16), limit("conv_kw_max", "m1"), limit("reduction_transpose_extent", "m3")
    (65536, 13, 384)

    Raises:
        UnknownNameError: There is no limit of that name.
        NoDataError: No source gives it for that target.
        PropertyTypeError: It is not a number there: a list, a flag, or the words `none` and `unbounded`.
    """
    resolved = resolve(family)
    in_blob = resolved.hal.knows(name) and not resolved.limits.knows(name)
    return (resolved.hal if in_blob else resolved.limits).integer(name)


def least_limit(name: str) -> int:
    """Return what every target takes: the smallest number that a limit is on any of them.

    >>> least_limit("max_tensor_dim"), least_limit("arg_reduction_extent")
    (16384, 2048)

    Raises:
        UnknownNameError: There is no limit of that name.
        NoDataError: It is a number nowhere.
    """
    properties = database().properties
    if name not in properties:
        raise UnknownNameError.of("value", name, properties)
    values = [fact.value for fact in properties[name].facts.values()]
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if not numbers:
        raise NoDataError(f"{name!r} is not a number on any target")
    return min(numbers)


def has_texture_engine(family: TargetLike = None) -> bool:
    """Return whether the texture engine is there (HAL byte 0x81d).

    >>> has_texture_engine(Family.A13), has_texture_engine(Family.A14)
    (False, True)
    """
    return resolve(family).hal.flag("texture_engine")


def first_tier_with(flag: str) -> Tier:
    """Return the earliest tier that has a flag set.

    >>> first_tier_with("texture_engine").title
    'A14'

    Raises:
        UnknownNameError: There is no property of that name.
        NoDataError: No tier is known to have it.
    """
    data = database()
    name = data.aliases.get(flag, flag)
    if name not in data.properties:
        raise UnknownNameError.of("value", flag, data.properties)
    facts = data.properties[name].facts
    for tier in data.tiers.values():
        if tier.name in facts and facts[tier.name].value is True:
            return tier
    raise NoDataError(f"no tier is known to have {flag!r}")


def native_streams(family: TargetLike = None) -> frozenset[str]:
    """Return the weight encodings that stay compressed on the way to the engine; the others fold to dense fp16.

    Targets below the MIL floor have none, as the documented API promises: their streams were not examined, and no
    program with compressed weights can reach them.

    >>> sorted(native_streams(Family.A13))
    ['int4', 'sparse']

    Raises:
        NoDataError: No source says what streams on that target.
    """
    resolved = resolve(family)
    if not resolved.streams and (resolved.family is None or supports_mil(resolved.family)):
        raise NoDataError("no published source says which weight encodings stream here", target=resolved.name)
    return frozenset(name for name, stream in resolved.streams.items() if stream.streams)


def was_measured_on(target: Target, evidence: Evidence) -> bool:
    """Return whether a chip that a value was measured on is one that this very target stands for.

    A tier shares its value among targets; a measurement holds for the chips that were measured. So the value of M2 Pro
    is measured for h14g and not for h14, which no published measurement used.

    >>> m2, a15 = resolve("m2-pro"), resolve("soc:a15")
    >>> [was_measured_on(one, one.evidence("accumulator")) for one in (m2, a15)]
    [True, False]
    """
    return evidence.kind is EvidenceKind.MEASURED and any(target_of_chip(chip) == target.name for chip in evidence.on)


def target_of_chip(name: str) -> str | None:
    """Return the target of a chip by the name on the box; None for a chip that the database does not list."""
    return next((chip.target for chip in database().chips.values() if chip.name == name), None)
