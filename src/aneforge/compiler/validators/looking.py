"""What only the rules over layers look at: padding that is made explicit, the bits of a stored constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.declared import Declared
from aneforge.ops.types import bits
from aneforge.rules.looking import integers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.ops.constant import Constant
    from aneforge.rules.subject import Subject

__all__ = ["count_stored_bits", "pad_pairs"]


def pad_pairs(subject: Subject, count: int) -> Iterator[tuple[int, int]]:
    """Iterate over the padding before and after each of the last axes; none except for explicit padding."""
    explicit = subject.attributes.get("pad_type") == "custom"
    pads = integers(subject, "pad") if explicit else ()
    for place in range(count):
        yield (pads[2 * place], pads[2 * place + 1]) if len(pads) >= 2 * count else (0, 0)


def count_stored_bits(constant: Constant) -> int:
    """Return the bits in which one element of a constant is stored."""
    match constant:
        case Dense() | Sparse():  # most constants are dense, so they are asked for first
            return bits(constant.type.dtype)
        case Declared():
            return constant.element_bits
        case Palette():
            return constant.bits
        case Int8Affine():
            return 8
        case Blockwise():
            return bits(str(constant.data.dtype))
        case _:
            return bits(constant.type.dtype)
