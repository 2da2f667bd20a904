"""How sure results are, from what kernels noted of the values on the way: the labels of the CPU, word for word."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.doubts import LABELS, SPECIAL, ZEROS_OF_BOTH_SIGNS
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.execution.labels import PAST_THE_EDGE
from aneforge.ops.numbers import FP16_INFINITY
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from aneforge.engine.execution.labels import Labels

    Array = npt.NDArray[Any]

__all__ = ["Noted", "Notes"]

UNLIKE_ZEROS = Label(Exactness.MODELLED, ZEROS_OF_BOTH_SIGNS)
BOTH_ZEROS = 3
UNLIKE_PAIRS = 4
FIELD_31 = 0x7C00


@dataclass(frozen=True, slots=True)
class Notes:
    """What a run noted: [place][sample], the word for all samples last."""

    words: npt.NDArray[np.uint32]
    wide: npt.NDArray[np.float64]

    def samples(self, places: Sequence[int]) -> list[int]:
        """Return the samples of which a word in one of some places is not 0."""
        return np.flatnonzero(self.words[list(places), :-1].any(axis=0)).tolist() if places else []

    def magnitudes(self, place: int) -> npt.NDArray[np.float64]:
        """Return the largest magnitude of a value for every sample, as the engine reads it."""
        return numbers_of(self.words[place, :-1])

    def largest(self, place: int) -> float:
        """Return the largest magnitude of a value among all samples."""
        return float(numbers_of(self.words[place, :-1].max(keepdims=True))[0])


@dataclass(slots=True)
class Noted:
    """Where a layer's doubts are noted."""

    layer: str
    labels: Labels
    magnitudes: list[int | float] = field(default_factory=list["int | float"])
    """The largest magnitudes of the operands: the place of a word, or the number of a constant."""
    flags: int | None = None
    """Where the doubts of a function of one number are noted."""
    zeros: tuple[int, int] | None = None
    """Where zeros are noted, and which bits together raise a doubt."""
    most: int | None = None
    """Where the largest sum of magnitudes of computed weights is noted."""
    after_slots: list[tuple[int, bool]] = field(default_factory=list["tuple[int, bool]"])
    """Where the slots after it note doubts: flags, or a magnitude that may be infinite."""
    host: list[Label] | None = None
    """What a layer on the host says of every sample, as it runs."""

    def worst_label(self, notes: Notes, said: Sequence[Label] | None) -> Label:
        """Return how sure the least sure sample is; `said` is what a layer on the host said of each."""
        if said is not None:
            return worst(said)
        if self.is_quiet(notes):
            return self.labels.known
        return worst([self.label(notes, sample) for sample in range(notes.words.shape[1] - 1)])

    def is_quiet(self, notes: Notes) -> bool:  # noqa: PLR0911 - one question after the other
        """Return whether no sample raises a doubt, by what was noted of all of them together."""
        if any(notes.words[place, :-1].any() for place, magnitude in self.after_slots if not magnitude):
            return False
        if any(notes.largest(place) >= FP16_INFINITY for place, magnitude in self.after_slots if magnitude):
            return False
        labels = self.labels
        if not labels.look:
            return True
        sizes = [notes.largest(one) if isinstance(one, int) else one for one in self.magnitudes]
        if labels.special and any(one >= FP16_INFINITY for one in sizes):
            return False
        if self.flags is not None and notes.words[self.flags, :-1].any():
            return False
        if self.zeros is not None and ((notes.words[self.zeros[0], :-1] & self.zeros[1]) == self.zeros[1]).any():
            return False
        rest = 0.0 if self.most is None else float(notes.wide[self.most].max())
        return labels.reach is None or not labels.reach.passes_edge_at(sizes[0], sizes[1], lambda: rest)

    def label(self, notes: Notes, sample: int) -> Label:
        """Return how sure the results for one sample are."""
        return self.labels.with_doubts([*self.doubts(notes, sample), *self.doubts_after_slots(notes, sample)])

    def doubts(self, notes: Notes, sample: int) -> list[Label]:
        """Return the doubts that the values which go in raise, in the order in which the CPU raises them."""
        labels, found = self.labels, list[Label]()
        if labels.look:
            sizes = [float(notes.magnitudes(one)[sample]) if isinstance(one, int) else one for one in self.magnitudes]
            infinite = any(one >= FP16_INFINITY for one in sizes)
            if labels.special and infinite:
                found.append(SPECIAL)
            if labels.doubtful is not None and self.flags is not None:
                found += flag(int(notes.words[self.flags, sample]))
            if self.zeros is not None:
                place, both = self.zeros
                if int(notes.words[place, sample]) & both == both:
                    found.append(UNLIKE_ZEROS)
            if labels.reach is not None and not infinite and self.passes_edge(sizes, notes, sample):
                found.append(PAST_THE_EDGE)
        return found

    def doubts_after_slots(self, notes: Notes, sample: int) -> list[Label]:
        """Return the doubts that values raise in the slots after an operation."""
        found: list[Label] = []
        for place, magnitude in self.after_slots:
            if magnitude:
                found += [SPECIAL] if float(notes.magnitudes(place)[sample]) >= FP16_INFINITY else []
            else:
                found += flag(int(notes.words[place, sample]))
        return found

    def passes_edge(self, sizes: list[float], notes: Notes, sample: int) -> bool:
        """Return whether a sum could pass the edge, as `Reach.passes_edge` says."""
        reach = self.labels.reach
        assert reach is not None  # noqa: S101 - the caller looked
        first, second = sizes
        rest = 0.0 if self.most is None else float(notes.wide[self.most, sample])
        return reach.passes_edge_at(first, second, lambda: rest)


def numbers_of(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return bits of magnitudes as the engine reads them: exponent 31 is an ordinary one."""
    ordinary = bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return np.where(bits >= FIELD_31, 65536.0 * (1 + (bits & 0x3FF) / 1024), ordinary)


def flag(bits: int) -> list[Label]:
    """Return the labels of flags."""
    return [label for place, label in enumerate(LABELS) if bits >> place & 1]
