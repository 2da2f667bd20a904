"""Shapes that a package allows for inputs of flexible shape: one of a list, or lengths within ranges.

The description of a model states them for arrays, axis by axis, and for images, only by height and width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.formats.mlpackage.messages import Description, FeatureType, ImageFeature, SizeRange

__all__ = ["Flexibility", "flexible_inputs", "list_inputs"]

Range = tuple[int, int | None]
"""The least and the greatest length of an axis; None where there is no greatest."""


@dataclass(frozen=True, slots=True)
class Flexibility:
    """What is said about the last axes of an input: all of an array, height and width of an image."""

    usual: tuple[int, ...]
    """The shape that is taken where none is asked for."""
    listed: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[Range, ...] = ()

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Return whether an input may have a shape.

        >>> image = Flexibility((8, 8), ranges=((8, 16), (8, None)))
        >>> image.allows((1, 3, 16, 99)), image.allows((1, 3, 17, 99))
        (True, False)
        """
        if self.listed:
            return any(shape[-len(one) :] == one for one in self.listed if one)
        last = shape[-len(self.ranges) :] if self.ranges else ()
        pairs = zip(last, self.ranges, strict=False)
        return all(least <= extent and (most is None or extent <= most) for extent, (least, most) in pairs)

    def example(self, stated: tuple[int, ...]) -> tuple[int, ...]:
        """Return the usual shape in the place of one with unknown lengths, which are negative."""
        return (*stated[: max(len(stated) - len(self.usual), 0)], *self.usual)

    def __str__(self) -> str:
        """Return what is allowed in words.

        >>> print(Flexibility((2, 3), ranges=((1, 4), (3, 3))), "/", Flexibility((2,), listed=((2,), (4,))))
        [1 to 4, 3] / [2] or [4]
        """
        if self.listed:
            return " or ".join(str(list(shape)) for shape in self.listed)
        return f"[{', '.join(range_text(*one) for one in self.ranges)}]" if self.ranges else ""


def range_text(least: int, most: int | None) -> str:
    """Return the lengths of an axis in words."""
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def flexible_inputs(description: Description, default_function: str) -> dict[str, dict[str, Flexibility]]:
    """Return what the description of a model says about the shapes of inputs, by function and name."""
    described = {ports.name: ports for ports in description.functions} or {default_function: description}
    return {
        function: {port.name: found for port in ports.input for found in flexibility(port.type)}
        for function, ports in described.items()
    }


def flexibility(kind: FeatureType) -> Iterator[Flexibility]:
    """Yield what is said about the shape of an input, if anything is."""
    match kind.WhichOneof("Type"):
        case "multiArrayType":
            array = kind.multiArrayType
            listed = tuple(tuple(one.shape) for one in array.enumeratedShapes.shapes)
            yield Flexibility(tuple(array.shape), listed, tuple(map(bounds, array.shapeRange.sizeRanges)))
        case "imageType":
            yield image_flexibility(kind.imageType)
        case _:
            return


def image_flexibility(image: ImageFeature) -> Flexibility:
    """Return what is said about the size of an image."""
    listed = tuple((one.height, one.width) for one in image.enumeratedSizes.sizes)
    sizes = image.imageSizeRange
    is_range = image.WhichOneof("SizeFlexibility") == "imageSizeRange"
    ranges = (bounds(sizes.heightRange), bounds(sizes.widthRange)) if is_range else ()
    return Flexibility((image.height, image.width), listed, ranges)


def bounds(size: SizeRange) -> Range:
    """Return the lengths of an axis; a negative greatest one is none."""
    return size.lowerBound, None if size.upperBound < 0 else size.upperBound


def list_inputs(stated: Mapping[str, str], known: Mapping[str, Flexibility]) -> str:
    """Return inputs with their types, and what is allowed for them."""
    shown: list[str] = []
    for name, kind in stated.items():
        allowed = str(known[name]) if name in known else ""
        shown.append(f"{name} {kind} ({allowed} allowed)" if allowed else f"{name} {kind}")
    return ", ".join(shown)
