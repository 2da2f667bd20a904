"""What rescaling decides that no source says: `data/rescaling.toml`, each value with its reason."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from aneforge.errors import DataFileError
from aneforge.typed_decoding import decode_typed

__all__ = ["Policy", "policy"]

FILE = "data/rescaling.toml"


class Choice(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Something that was chosen, and why."""

    reason: str


class Bits(Choice, frozen=True):
    """A number of bits."""

    bits: int


class Part(Choice, frozen=True):
    """A part of something."""

    part: float


class Count(Choice, frozen=True):
    """How often something is done at most."""

    most: int


class RowSum(Choice, frozen=True):
    """What a row adds up to at most."""

    sum: float


class Sizes(Choice, frozen=True):
    """Inputs of other sizes than were given, on which nothing may become worse."""

    parts: tuple[float, ...]
    """How many times as large as a sample, or as its range, an input is."""
    sets: int
    """How many sets of inputs are run for each of these, where that is not too much work."""


class Smaller(Sizes, frozen=True):
    """Smaller inputs."""

    unless: float
    """Where errors on samples, or on inputs that fill their ranges, fall to so much, that pays for lost bits."""


class SmallRows(Smaller, frozen=True):
    """Inputs far smaller than declared ranges."""

    worse: float
    """The error of a norm by itself that grows by more is a loss, and so is one of the graph that is paid for."""


class Loss(Choice, frozen=True):
    """From which growth on an error is worse than by the luck of rounding."""

    one: float
    """On one set of inputs."""
    mean: float
    """On the mean of all sets, of the logarithms."""
    quiet: float
    """On inputs as they are expected, errors below so much of a rounding are none."""


class Gain(Part, frozen=True):
    """To what an error must fall for a gain."""

    near: float
    """Errors below this many roundings are near the rounding."""
    near_part: float
    """To what those must fall."""


class Fresh(Count, frozen=True):
    """How many sets of fresh inputs are tried."""

    work: int
    """Multiplications that all of them may take together."""
    element: int
    """Multiplications that take as long as an element of any other operation."""


class Channels(Choice, frozen=True):
    """When fresh inputs keep the channels of samples."""

    enough: int
    """With at least this many elements of a channel to draw from."""
    uneven: float
    """Always, where one is this many times as large as the median."""


class Policy(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The data file."""

    safety_declared: Bits
    safety_observed: Bits
    safety_drawn: Bits
    finer: Bits
    slack: Bits
    gain: Gain
    loss: Loss
    less: Smaller
    more: Sizes
    moved: Part
    worth: Part
    worth_a_layer: Part
    norm_size: Part
    small_rows: SmallRows
    norm_rounds: Count
    rounding_growth: Part
    softmax_row: RowSum
    fresh: Fresh
    channels: Channels
    samples: Count

    def safety(self, source: str) -> int:
        """Return the bits that are left free below the edges, by where bounds come from.

        >>> [policy().safety(source) for source in ("declared", "observed", "drawn")]
        [0, 3, 6]
        """
        found = {"declared": self.safety_declared, "observed": self.safety_observed, "drawn": self.safety_drawn}
        return found[source].bits


@cache
def policy() -> Policy:
    """Return the data file.

    Raises:
        DataFileError: It is not as it should be.
    """
    try:
        return decode_typed(files("aneforge.optimise").joinpath(FILE).read_bytes(), Policy, msgspec.toml.decode)
    except msgspec.DecodeError as error:
        raise DataFileError(f"{FILE}: {error}") from None
