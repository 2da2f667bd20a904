"""Reads `data/validators.toml`: validators, their checks and literal texts, gates, and who checks which kind.

These are the shapes as they are in the file; `catalogue` makes of them what the rest of the package sees. A key that
is missing, misspelt or of the wrong type is a `DataFileError`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import DataFileError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets import schema
from aneforge.targets.schema import PropertyEntry, RawValue  # noqa: TC001 - msgspec reads them

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DIRECTIVE", "CheckEntry", "Stage", "UncheckedEntry", "ValidatorEntry", "ValidatorsFile", "validators_file"]

FILE = Path(__file__).parent.parent / "data" / "validators.toml"
DIRECTIVE = re.compile(r"%(?:zd|d|u|s)")
"""The places of a literal text that the compiler fills in."""


class Stage(StrEnum):
    """Where the compiler objects to a layer."""

    VALIDATION = "validation"
    LOWERING = "lowering"
    """The validator accepts; code generation or backend lowering fails."""
    CONVERSION = "conversion"
    """The conversion from a graph answers it by building the operation from others: no such layer is made."""
    MOVED = "moved"
    """The tensor is longer than the engine computes on and is only moved, which is taken to work (`oversize_tensors` of
    the decisions: inferred)."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all entries: an unknown key is an error, not a silent no-op."""


class CheckEntry(Entry, frozen=True):
    """A rule that a validator applies, with the text that it refuses with."""

    rule: str
    ops: tuple[str, ...] = ()
    """The operations that it concerns, where no validator says it."""
    text: str = ""
    fill: tuple[str, ...] = ()
    limit: RawValue | None = None
    stage: Stage = Stage.VALIDATION
    tiers: tuple[str, ...] = ()
    """The tiers for which a source gives stage and text; none given are all."""
    kind: EvidenceKind | None = None
    source: str | None = None
    on: tuple[str, ...] = ()
    note: str = ""

    def evidence(self, default: Evidence) -> Evidence:
        """Return why text and limit are believed."""
        return Evidence(self.kind or default.kind, self.source or default.source, self.on, self.note)


class UncheckedEntry(Entry, frozen=True):
    """A constraint that a source states and that nothing here can see."""

    constraint: str
    reason: str
    source: str


class ValidatorEntry(Entry, frozen=True):
    """One exported validator of a layer."""

    ops: tuple[str, ...]
    descriptor: bool = True
    later: bool = False
    """It is not in the export list of iOS 16.5; a source names it for a later build."""
    bottoms: tuple[int, ...] = ()
    more_bottoms: bool = False
    """The number of bottoms is the least there can be."""
    folded: tuple[str, ...] = ()
    implied: int = 0
    checks: tuple[CheckEntry, ...] = ()
    unchecked: tuple[UncheckedEntry, ...] = ()


class ExportEntry(Entry, frozen=True):
    """An export that is not a validator of a layer."""

    role: str
    here: str


class LayerEntry(Entry, frozen=True):
    """One of the three layers of validation: what it is in the compiler, and where it is here."""

    there: str
    here: str


class InternalEntry(Entry, frozen=True):
    """A routine that no export reaches."""

    symbol: str
    evidence: Evidence
    ops: tuple[str, ...] = ()


class UnnamedEntry(Entry, frozen=True):
    """The validators that exist and that no source names."""

    count: int
    candidates: tuple[str, ...]
    evidence: Evidence


class CensusEntry(Entry, frozen=True):
    """How many there are of each."""

    exports: int
    layer_validators: int
    descriptors: int
    evidence: Evidence


class SchemaEntry(Entry, frozen=True):
    """The version of the network description."""

    version: str
    evidence: Evidence


class NeuronModesEntry(Entry, frozen=True):
    """The mode of the non-linear unit that an operation is, by the operation's name."""

    evidence: Evidence
    numbers: dict[str, int]


class NoValidatorEntry(Entry, frozen=True):
    """Why no validator checks a kind of layer."""

    none: str


class ValidatorsFile(Entry, frozen=True):
    """The file."""

    evidence: Evidence
    named: Evidence
    """The evidence of the name of a validator that was there early."""
    census: CensusEntry
    schema: SchemaEntry
    exports: dict[str, ExportEntry]
    layers: dict[str, LayerEntry]
    internal: dict[str, InternalEntry]
    unnamed: UnnamedEntry
    gates: dict[str, PropertyEntry]
    validators: dict[str, ValidatorEntry]
    others: tuple[CheckEntry, ...]
    neuron_modes: NeuronModesEntry
    kinds: dict[str, str | NoValidatorEntry]

    def every_check(self) -> Iterator[CheckEntry]:
        """Iterate over all checks."""
        for validator in self.validators.values():
            yield from validator.checks
        yield from self.others

    def checks_of(self, rule: str) -> Iterator[tuple[CheckEntry, tuple[str, ...]]]:
        """Iterate over the checks that apply a rule, each with the operations that it concerns."""
        for validator in self.validators.values():
            for check in validator.checks:
                if check.rule == rule:
                    yield check, validator.ops
        for check in self.others:
            if check.rule == rule:
                yield check, check.ops


@cache
def validators_file() -> ValidatorsFile:
    """Return what the file says.

    Raises:
        DataFileError: It is not as it should be.
    """
    return read(FILE)


def read(path: Path) -> ValidatorsFile:
    """Return what a file says.

    Raises:
        DataFileError: It is not as it should be.
    """
    found = schema.read(path, ValidatorsFile)
    for check in found.every_check():
        places = len(DIRECTIVE.findall(check.text))
        if places != len(check.fill):
            raise DataFileError(
                f"{path.name}: the text of {check.rule} has {places} places and {len(check.fill)} values"
            )
    for kind, validator in found.kinds.items():
        if isinstance(validator, str) and validator not in {*found.validators, *found.internal}:
            raise DataFileError(f"{path.name}: kind {kind!r} names the validator {validator!r}, which does not exist")
    return found
