"""Named values with evidence, as they hold for one target: `target.hal`, `.limits`, `.datapath`, `.geometry`."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import NoDataError, PropertyTypeError, UnknownNameError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.evidence import Evidence

__all__ = ["Fact", "Properties", "Property", "Value"]

Scalar = bool | int | float | str
Value = Scalar | tuple[Scalar, ...]

GUIDE_BUILD = "9.509"
"""The compiler build whose offsets the literature uses, and so the default for a look-up by offset."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value and why it is believed.

    >>> from aneforge.targets import resolve
    >>> fact = resolve("m1").fact("texture_engine")
    >>> print(fact.value, fact.evidence, sep=", ")
    False, measured on M1 (guide ch. 22, table 22.5; sources disagree, see S2)
    """

    value: Value
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Property:
    """One named property, with the facts known per tier or target.

    A property without facts is one whose name (and perhaps offset) is known and whose value no source gives, or
    is elsewhere (`see`). A fact may be a word: `none` or `unbounded` are values, a missing fact is not.

    >>> from aneforge.targets.database import database
    >>> known = database().hal["texture_engine"]
    >>> known.name, [hex(offset) for offset in known.offsets_in(GUIDE_BUILD)], known.fact("h13", "a13").value
    ('texture_engine', ['0x81d'], False)
    """

    name: str
    summary: str
    facts: Mapping[str, Fact]
    offsets: Mapping[str, int]
    more_offsets: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Further words of a list, by compiler build."""
    aliases: tuple[str, ...] = ()
    see: str = ""
    """Where the value is when it is not here."""
    ops: str = ""
    unit: str = ""

    def offsets_in(self, build: str) -> tuple[int, ...]:
        """Return every offset of the property in a compiler build."""
        first = (self.offsets[build],) if build in self.offsets else ()
        return first + self.more_offsets.get(build, ())

    def fact(self, target: str, tier: str | None) -> Fact | None:
        """Return what is known for a target: its own fact, else its tier's, else the one for all tiers."""
        if tier is None:
            return None
        return self.facts.get(target) or self.facts.get(tier) or self.facts.get("all")


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of one group as they hold for one target.

    >>> from aneforge.targets import resolve
    >>> m1 = resolve("m1")
    >>> m1.hal.texture_engine, m1.hal.integer("dense_kernel_memory"), m1.hal.at(0x81d), m1.hal.num_nes
    (False, 65536, False, 4)
    """

    group: str
    target: str
    tier: str | None
    table: Mapping[str, Property]
    aliases: Mapping[str, str]
    """Other names, such as the compiler's own, and the property that each stands for."""
    found: dict[str, Fact] = field(default_factory=dict[str, Fact], init=False, repr=False, compare=False)
    """Facts that were asked for already: compiling asks for the same few for every layer."""

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.fact(name).value

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names whose value is known for this target."""
        return (name for name, known in self.table.items() if known.fact(self.target, self.tier))

    def __contains__(self, name: str) -> bool:
        return self._known(name) is not None

    def knows(self, name: str) -> bool:
        """Return whether there is such a property at all, known for this target or not."""
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise UnknownNameError.of(f"{self.group} field", type(name).__name__, self.table)
        return self.aliases.get(name, name) in self.table

    def fact(self, name: str) -> Fact:
        """Return value and evidence of a property.

        Raises:
            UnknownNameError: There is no such property.
            NoDataError: No source gives its value for this target.
        """
        found = self._known(name)
        if found is not None:
            return found
        if not self.knows(name):
            raise UnknownNameError.of(f"{self.group} field", name, self.table)
        known = self._property(name)
        reason = "no published source gives its value"
        if known.see:
            reason = f"it has no value of its own; see {known.see}"
        if self.tier is None:
            raise NoDataError(
                "no published source describes this target: compilers know only its name, and its "
                f"{self.group} field {name!r} is unknown",
                target=self.target,
                remedy='choose a target with data: aneforge.targets.group("all") lists them',
            )
        raise NoDataError(f"{self.group} field {name!r} is unknown here: {reason}", target=self.target)

    def get(self, name: str) -> Value | None:
        """Return the value of a property, or None where no source gives it for this target."""
        found = self._known(name)
        return None if found is None else found.value

    def at(self, offset: int, build: str = GUIDE_BUILD) -> Value:
        """Return the value at a byte offset of the hardware-abstraction blob, as one compiler build lays it out."""
        return self.fact(self.name_at(offset, build)).value

    def name_at(self, offset: int, build: str = GUIDE_BUILD) -> str:
        """Return the name of the property at a byte offset.

        Raises:
            UnknownNameError: No property is known there.
        """
        by_offset = {offset: name for name, known in self.table.items() for offset in known.offsets_in(build)}
        if offset in by_offset:
            return by_offset[offset]
        near = sorted(by_offset, key=lambda known: abs(known - offset))[:3]
        neighbours = ", ".join(f"{known:#x} ({by_offset[known]})" for known in near) or "not known"
        raise UnknownNameError(f"no {self.group} field at offset {offset:#x} of build {build!r}; nearest: {neighbours}")

    def flag(self, name: str) -> bool:
        """Return a property that is a yes or a no."""
        value = self.fact(name).value
        if not isinstance(value, bool):
            raise self._wrong_type(name, "a flag")
        return value

    def integer(self, name: str) -> int:
        """Return a property that is an integer."""
        value = self.fact(name).value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_type(name, "an integer")
        return value

    def known_integer(self, name: str) -> int | None:
        """Return a property that is an integer, or None where no source gives it for this target.

        >>> from aneforge.targets import Family, resolve
        >>> hal = resolve(Family.A13).hal
        >>> hal.known_integer("dense_kernel_memory"), hal.known_integer("unicast_input_channel_limit")
        (65536, None)
        """
        return None if self._known(name) is None else self.integer(name)

    def text(self, name: str) -> str:
        """Return a property that is a word."""
        value = self.fact(name).value
        if not isinstance(value, str):
            raise self._wrong_type(name, "a word")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """Return a property that is a list of words."""
        value = self.fact(name).value
        if not isinstance(value, tuple):
            raise self._wrong_type(name, "a list")
        return tuple(str(item) for item in value)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a property that is a list of integers."""
        value = self.fact(name).value
        if not isinstance(value, tuple):
            raise self._wrong_type(name, "a list")
        return tuple(int(item) for item in value)

    def _known(self, name: str) -> Fact | None:
        """Return what is known under a name; None where that is nothing."""
        found = self.found.get(name) if type(name) is str else None
        if found is None and self.knows(name):
            found = self._property(name).fact(self.target, self.tier)
            if found is not None:
                self.found[name] = found
        return found

    def _property(self, name: str) -> Property:
        return self.table[self.aliases.get(name, name)]

    def _wrong_type(self, name: str, wanted: str) -> PropertyTypeError:
        found = self.fact(name).value
        return PropertyTypeError(f"{self.group} field {name!r} is {found!r}, not {wanted}", target=self.target)
