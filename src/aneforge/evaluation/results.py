"""What a shard gives, and its bytes: the same for the same job and shard, wherever and whenever it runs."""

from __future__ import annotations

import msgspec

from aneforge.typed_decoding import decode_typed

__all__ = ["Answer", "BadSample", "ChipAnswer", "SampleResult", "ShardResult", "decode", "encode"]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What one side says of a sample."""

    classes: tuple[int, ...] | None
    """The classes with the largest values, the largest first; None where the output is not one value for each.

    What is not a number (NaN) is never among them, so there is none where every value is that.
    """
    margin: float | None
    """The largest value less the second; None where it has no meaning or is not finite."""
    metric: float | None
    """What the user's metric gives; None without one."""


class ChipAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What one chip says of a sample."""

    answer: Answer
    error: float | None
    """The largest distance from float32; None without a reference, or where only one side is finite."""
    relative: float | None
    """That, divided by the largest magnitude of float32."""
    finite: bool
    """Every element of the outputs is finite."""
    bits: int
    """Chips with the same number here gave the same bits."""


class SampleResult(msgspec.Struct, frozen=True, array_like=True):
    """One sample on every chip."""

    index: int
    name: str
    label: int | None
    reference: Answer | None
    chips: tuple[ChipAnswer, ...]


class BadSample(msgspec.Struct, frozen=True, array_like=True):
    """A sample that could not be used, and why."""

    index: int
    name: str
    reason: str


class ShardResult(msgspec.Struct, frozen=True, array_like=True):
    """The samples of one shard, in their order."""

    number: int
    samples: tuple[SampleResult, ...]
    bad: tuple[BadSample, ...]


def encode(result: ShardResult) -> bytes:
    """Return the bytes of a result."""
    return msgspec.msgpack.encode(result)


def decode(content: bytes) -> ShardResult:
    """Return the result that bytes hold.

    Raises:
        msgspec.MsgspecError: They hold none.
    """
    return decode_typed(content, ShardResult, msgspec.msgpack.decode)
