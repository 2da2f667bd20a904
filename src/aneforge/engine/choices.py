"""What the engine's arithmetic rests on, read from `data/arithmetic.toml`.

The file says for every operation how sure its arithmetic is and on what evidence, and it holds every choice that no
source makes for us: how a reduction groups its terms, whether the affine unit rounds its product, where attention can
be relied on. A later discovery is a changed line there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.errors import DataFileError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets.queries import was_measured_on
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.targets import Target, Value

__all__ = [
    "AdderChoice",
    "ArithmeticEntry",
    "Choices",
    "choices",
    "doubts_of",
    "entries",
    "entry_of",
    "label_on",
    "switch",
]

PATH = Path(__file__).parent / "data" / "arithmetic.toml"
FALLBACK = "meaning"
"""The entry of operations that no other entry names."""


class ArithmeticEntry(Entry, frozen=True):
    """One arithmetic: the operations that have it, how sure it is, and why that is believed."""

    ops: tuple[str, ...]
    exactness: Exactness
    reason: str
    evidence: Evidence
    switches: tuple[str, ...] = ()
    """Values of the target's datapath that it depends on: where one was not measured it is modelled."""
    copies: bool = False
    """It moves bits and computes nothing."""


class AdderChoice(Entry, frozen=True):
    """How a reduction adds: in chains, or in groups and a tree; what is left is added without rounding.

    A chain adds neighbours one after another and rounds every sum to some bits; chains of such sums follow. Else
    neighbours are added together and rounded to fp16, pairs of those in a tree; where there is a window, terms are cut
    before both kinds of addition.
    """

    evidence: Evidence
    chain: int = 0
    """How many neighbours are added one after another; 0 where sums are added in groups and a tree."""
    times: int = 0
    """How many times over: sums of chains are the neighbours of the next ones."""
    bits: int = 0
    """Significant bits to which every addition of a chain is rounded."""
    group: int = 1
    """How many neighbours are added at a time, the sum rounded once to fp16."""
    tree: int = 1
    """How many of those are added two by two, each sum rounded to fp16."""
    window: int = 0
    """Bits of the window into which the terms of a sum are cut, counted from the largest one; 0 for no window."""


class ReductionChoice(Entry, frozen=True):
    """How reductions add, by the target's `reduction_order`."""

    orders: dict[str, AdderChoice]
    squares_are_rounded: bool
    evidence: Evidence


class GainOffsetChoice(Entry, frozen=True):
    """How the affine unit rounds."""

    product_is_rounded: bool
    evidence: Evidence


class CropChoice(Entry, frozen=True):
    """The fixed-point crop: every value passes times this factor."""

    factor: int
    evidence: Evidence


class ConvolutionChoice(Entry, frozen=True):
    """Which convolutions leave the direct form."""

    winograd_kernels: tuple[tuple[int, ...], ...]
    measured_kernels: tuple[tuple[int, ...], ...]
    """Kernels of stride 1, one group and no dilation of which figures of the direct form are published."""
    one_channel_scales: bool
    evidence: Evidence


class AttentionChoice(Entry, frozen=True):
    """Where the native attention layer can be relied on."""

    longest: int
    """Neither sequence may be longer."""
    both_from: int
    """The two may not both reach this length."""
    causal_mask_applies: bool
    evidence: Evidence


class Choices(Entry, frozen=True):
    """Every choice that no source makes."""

    reduction: ReductionChoice
    gain_offset: GainOffsetChoice
    crop: CropChoice
    convolution: ConvolutionChoice
    attention: AttentionChoice
    assumed: dict[str, bool | str]
    """What stands for a datapath value on a target for which no source gives it."""


class ArithmeticFile(Entry, frozen=True):
    """`arithmetic.toml`."""

    arithmetics: dict[str, ArithmeticEntry]
    choices: Choices


@cache
def file() -> ArithmeticFile:
    """Return the data file."""
    return read(PATH, ArithmeticFile)


def choices() -> Choices:
    """Return the choices.

    >>> choices().crop.factor
    16
    """
    return file().choices


def entries() -> Mapping[str, ArithmeticEntry]:
    """Return every arithmetic by its name."""
    return file().arithmetics


@cache
def names_by_operation() -> Mapping[str, str]:
    """Return the name of the arithmetic of every operation that the file lists.

    Raises:
        DataFileError: Two arithmetics list one operation.
    """
    found: dict[str, str] = {}
    for name, entry in entries().items():
        for op in entry.ops:
            if found.setdefault(op, name) != name:
                raise DataFileError(f"{PATH.name}: {op} is listed under {found[op]} and under {name}")
    return found


def entry_of(op: str) -> ArithmeticEntry:
    """Return the arithmetic of an operation; one that the file does not list has its meaning, rounded once.

    >>> entry_of("add").exactness
    <Exactness.EXACT: 'exact'>
    """
    return entries()[names_by_operation().get(op, FALLBACK)]


def label_on(entry: ArithmeticEntry, target: Target) -> Label:
    """Return how sure an arithmetic is on a target: no surer than the target's values on which it depends.

    >>> from aneforge.targets import Family, resolve
    >>> print(label_on(entry_of("conv"), resolve(Family.A15)).exactness)
    modelled
    """
    reason = f"{entry.reason} ({entry.evidence})"
    return worst(
        [Label(entry.exactness, reason), *(doubt for name in entry.switches for doubt in doubts_of(name, target))]
    )


def doubts_of(name: str, target: Target) -> Iterator[Label]:
    """Doubt a value of a target's datapath that was not measured on a chip of that very target.

    >>> from aneforge.targets import Family, resolve
    >>> [str(label.exactness) for family in Family for label in doubts_of("accumulator", resolve(family))][-1]
    'modelled'
    """
    if name not in target.datapath:
        yield Label(Exactness.UNKNOWN, f"no source gives {name} for this target")
        return
    evidence = target.evidence(name)
    if was_measured_on(target, evidence):
        return
    if evidence.kind is EvidenceKind.MEASURED:
        chips = ", ".join(evidence.on)
        yield Label(Exactness.MODELLED, f"{name} was not measured for this target, only on {chips} of the same tier")
    else:
        yield Label(Exactness.MODELLED, f"{name} was not measured for this target: {str(evidence).removesuffix('.')}")


def switch(target: Target, name: str) -> Value:
    """Return a datapath value of a target, or what is assumed where no source gives it.

    >>> from aneforge.targets import Family, resolve
    >>> switch(resolve(Family.OLDER), "reduction_order")
    'early'
    """
    known = target.datapath.get(name)
    return choices().assumed[name] if known is None else known
