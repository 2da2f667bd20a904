"""Windows that go along axes: where they are, what they see, and how they are drawn for samples.

Convolution and pooling share it. The padding rules are those of MIL's `pad_type`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NotRequired, TypedDict

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops.shapes import expect_entries, sliding_extent
from aneforge.ops.signature import Attribute, AttributeKind
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.sampling import Chooser
    from aneforge.ops.types import Array

__all__ = [
    "DILATIONS",
    "PAD",
    "PAD_TYPE",
    "STRIDES",
    "ConvAttributes",
    "Slide",
    "TransposeAttributes",
    "WindowAttributes",
    "WindowSample",
    "draw_windows",
    "one_each",
    "pad_pairs",
    "same_padding",
    "slides",
    "window_attributes",
    "windows_of",
]

MOST_SLIDES = 4096
"""Ways of windows that are kept."""

STRIDES = Attribute("strides", AttributeKind.INTEGERS, None, least=1)
DILATIONS = Attribute("dilations", AttributeKind.INTEGERS, None, least=1)
PAD_TYPE = Attribute("pad_type", AttributeKind.TEXT, "valid", choices=("valid", "same", "same_lower", "custom"))
PAD = Attribute("pad", AttributeKind.INTEGERS, None, least=0)


class WindowAttributes(TypedDict):
    """The attributes that say how windows go; None is 1 for strides and dilations, 0 for padding."""

    strides: tuple[int, ...] | None
    pad_type: str
    pad: tuple[int, ...] | None
    dilations: NotRequired[tuple[int, ...] | None]
    ceil_mode: NotRequired[bool]


class ConvAttributes(WindowAttributes):
    """The attributes of a convolution."""

    groups: int


class TransposeAttributes(ConvAttributes):
    """The attributes of a transposed convolution."""

    output_shape: tuple[int, ...] | None


def window_attributes(attributes: ConvAttributes) -> WindowAttributes:
    """Return the attributes that say how the window goes."""
    return {
        "strides": attributes["strides"],
        "pad_type": attributes["pad_type"],
        "pad": attributes["pad"],
        "dilations": attributes.get("dilations"),
    }


@dataclass(frozen=True, slots=True)
class Slide:
    """How a window goes along one axis."""

    extent: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int
    places: int

    @property
    def span(self) -> int:
        """How far the window reaches, the gaps of its dilation counted."""
        return self.dilation * (self.window - 1) + 1

    @property
    def reach(self) -> int:
        """How far all places together reach, from the first element of the padding on."""
        return (self.places - 1) * self.stride + self.span


def slides(extents: Sequence[int], window: Sequence[int], attributes: WindowAttributes) -> tuple[Slide, ...]:
    """Return how a window goes along each axis.

    >>> [slide.places for slide in slides([7, 7], [3, 1], {"strides": (2, 2), "pad_type": "same", "pad": None})]
    [4, 4]

    Raises:
        GraphError: A list does not have one value for every axis, the padding contradicts its type, or the window is
            longer than a padded axis.
    """
    return compute_slides(
        tuple(extents),
        tuple(window),
        attributes["strides"],
        attributes.get("dilations"),
        attributes["pad_type"],
        attributes["pad"],
        ceil=attributes.get("ceil_mode", False),
    )


@lru_cache(maxsize=MOST_SLIDES)
def compute_slides(
    extents: tuple[int, ...],
    window: tuple[int, ...],
    given_strides: tuple[int, ...] | None,
    given_dilations: tuple[int, ...] | None,
    pad_type: str,
    given_pad: tuple[int, ...] | None,
    *,
    ceil: bool,
) -> tuple[Slide, ...]:
    """Return how a window goes along each axis, found once: types, passes, validators and labels all ask.

    Raises:
        GraphError: As `slides` says.
    """
    count = len(extents)
    strides = one_each("strides", given_strides, count)
    dilations = one_each("dilations", given_dilations, count)
    pads = pad_pairs(pad_type, given_pad, count)
    if ceil and pad_type.startswith("same"):
        raise GraphError("ceil_mode goes with padding that is given", seen=pad_type, limit="valid or custom")
    found: list[Slide] = []
    for extent, length, stride, dilation, given in zip(extents, window, strides, dilations, pads, strict=True):
        span = dilation * (length - 1) + 1
        pad = given or same_padding(-(-extent // stride), extent, stride, span, pad_type)
        places = sliding_extent(extent, length, stride, pad, dilation, ceil=ceil)
        found.append(Slide(extent, length, stride, dilation, *pad, places))
    return tuple(found)


def one_each(name: str, values: tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    """Return one value for every spatial axis; None is 1 for all.

    Raises:
        GraphError: There are more or fewer.
    """
    if values is None:
        return (1,) * count
    expect_entries(name, values, count, "spatial axis")
    return values


def pad_pairs(pad_type: str, pad: tuple[int, ...] | None, count: int) -> tuple[tuple[int, int] | None, ...]:
    """Return the padding before and after every spatial axis; None where the pad type computes it.

    Raises:
        GraphError: There is not one pair for every axis, or a pad type other than custom comes with padding.
    """
    flat = (0,) * (2 * count) if pad is None else pad
    if len(flat) != 2 * count:
        raise GraphError(
            "pad needs a value before and one after for every spatial axis",
            seen=list(flat),
            limit=f"{2 * count} values",
            remedy="for two axes give top, bottom, left, right",
        )
    if pad_type != "custom" and any(flat):  # zeros are common in programs and contradict nothing
        raise GraphError(
            f"padding is given, and pad_type {pad_type!r} does not use it", seen=list(flat), remedy='pad_type="custom"'
        )
    if pad_type.startswith("same"):
        return (None,) * count
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def same_padding(places: int, extent: int, stride: int, span: int, pad_type: str) -> tuple[int, int]:
    """Return the least padding that gives so many places; an odd element goes after, or before for same_lower.

    >>> same_padding(4, 8, 2, 3, "same"), same_padding(4, 8, 2, 3, "same_lower")
    ((0, 1), (1, 0))
    """
    total = max((places - 1) * stride + span - extent, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if pad_type == "same" else (more, less)


def windows_of(x: Array, along: Sequence[Slide], padding: float = 0) -> Array:
    """Return what every window sees along the last axes: the other axes, then the places, then the window's elements.

    >>> slide = slides([4], [2], {"strides": (2,), "pad_type": "valid", "pad": None})
    >>> windows_of(np.arange(4), slide).tolist()
    [[0, 1], [2, 3]]
    """
    others = x.ndim - len(along)
    missing = [(slide.before, max(slide.reach - slide.before - slide.extent, 0)) for slide in along]
    padded = np.pad(x, [(0, 0)] * others + missing, constant_values=padding) if np.any(missing) else x
    seen = np.lib.stride_tricks.sliding_window_view(
        padded, [slide.span for slide in along], axis=tuple(range(others, x.ndim))
    )
    steps = [slice(0, (slide.places - 1) * slide.stride + 1, slide.stride) for slide in along]
    gaps = [slice(None, None, slide.dilation) for slide in along]
    return seen[(..., *steps, *gaps)]


@dataclass(frozen=True, slots=True)
class WindowSample:
    """Windows drawn for a sample: the lengths of the axes, those of the window, and the attributes."""

    extents: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...] | None
    padding: tuple[int, ...]
    """What custom padding puts before and after every axis."""
    attributes: WindowAttributes


def draw_windows(
    chooser: Chooser, *, dilated: bool, pad_below_window: bool, pad_type_attribute: Attribute = PAD_TYPE
) -> WindowSample:
    """Draw windows on one to three axes that fit the padded axes."""
    count = chooser.integer(1, 3)
    window = tuple(chooser.integer(1, 3) for _ in range(count))
    strides = chooser.choose([None, tuple(chooser.integer(1, 3) for _ in range(count))])
    dilations = chooser.choose([None, tuple(chooser.integer(1, 2) for _ in range(count))]) if dilated else None
    pad_type = chooser.choose(pad_type_attribute.choices)
    pad = None
    if pad_type == "custom":
        most = [min(length - 1, 2) if pad_below_window else 2 for length in window for _ in range(2)]
        pad = chooser.choose([None, tuple(chooser.integer(0, one) for one in most)])
    extents: list[int] = []
    for axis, (length, gap) in enumerate(zip(window, one_each("dilations", dilations, count), strict=True)):
        taken = sum(pad[2 * axis : 2 * axis + 2]) if pad else 0
        least = 1 if pad_type.startswith("same") else max(gap * (length - 1) + 1 - taken, 1)
        extents.append(least + chooser.integer(0, 3))
    attributes: WindowAttributes = {"strides": strides, "pad_type": pad_type, "pad": pad}
    if dilated:
        attributes["dilations"] = dilations
    return WindowSample(tuple(extents), window, strides, pad or (0,) * (2 * count), attributes)
