"""Samples from folders of images, and what is done with each before a model takes it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, Location
from aneforge.evaluation.samples import BadSampleError, Sample, Shard, spans
from aneforge.packages import expect_package, is_installed
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    from PIL.Image import Image

    from aneforge.evaluation.labels import Labels
    from aneforge.ops.types import Array

__all__ = ["ImageFolder", "ImageOptions", "decode_image", "expect_options", "open_images", "thumbnail"]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
THUMBNAIL = 96
"""The longer side of a small picture, in pixels."""
DEEP = ("I", "F")
"""How the names of Pillow's modes with more than 8 bits for a channel begin."""
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""How Pillow calls images, by their channels."""


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """What is done with an image, in this order: resize, crop, divide by `scale`, subtract `mean`, divide by `std`."""

    resize: tuple[int, ...] = ()
    """The length of the shorter side, or height and width; nothing leaves the size as it is. Bilinear."""
    crop: tuple[int, ...] = ()
    """Height and width, or the side of a square, of the middle that is kept."""
    scale: float = 255.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class ImageFolder:
    """The images of a folder and of those in it, and those that labels name, by the order of their names."""

    folder: Path
    files: tuple[Path, ...]
    labels: Sequence[int] | None

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.files)

    @property
    def identity(self) -> str:
        """Name, size and time of every file, and the labels."""
        return f"{[(self.called(file), *size_and_time(file)) for file in self.files]} {self.labels}"

    def called(self, file: Path) -> str:
        """Return the name of a sample: its path in the folder."""
        return file.relative_to(self.folder).as_posix() if file.is_relative_to(self.folder) else str(file)

    def shards(self, size: int, done: Container[int]) -> Iterator[Shard]:
        """Yield the images that are not done, as their files have them."""
        for number, rows in spans(self.count, size, done):
            yield Shard(number, tuple(self.sample(row) for row in rows))

    def sample(self, row: int) -> Sample:
        """Return one image; one that cannot be read says so."""
        file = self.files[row]
        label = None if self.labels is None else self.labels[row]
        try:
            return Sample(row, self.called(file), encoded=file.read_bytes(), label=label)
        except OSError as error:
            return Sample(row, self.called(file), label=label, problem=f"cannot be read: {error.strerror}")


def size_and_time(file: Path) -> tuple[int, int]:
    """Return what changes when a file does; nothing is known of one that is gone."""
    try:
        stat = file.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def open_images(folder: Path, labels: Labels | None) -> ImageFolder:
    """Open a folder of images.

    Raises:
        GraphError: There is no image in it, or the labels do not fit.
        MissingPackageError: Pillow is not installed.
    """
    expect_package("pillow")
    named = (file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)
    files = tuple(sorted(file for file in named if not file.is_dir()))
    if not files:
        raise GraphError(
            "there is no image in the folder",
            location=Location(str(folder)),
            limit=", ".join(sorted(SUFFIXES)),
            remedy="name a folder of images, or a file of arrays",
        )
    names = [file.relative_to(folder).as_posix() for file in files]
    if labels is not None and labels.named is not None:
        names = sorted({*names, *labels.named}, key=folder.joinpath)  # those that are not there are bad samples
        files = tuple(map(folder.joinpath, names))
    return ImageFolder(folder, files, None if labels is None else labels.in_order(names))


def decode_image(content: bytes, wanted: tuple[int, ...], options: ImageOptions) -> Array:
    """Return an image as a model takes it: channels, height, width, in float32.

    Raises:
        BadSampleError: It cannot be read, or has a different size than the input.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - an extra

    if len(wanted) != 3 or wanted[0] not in MODES:
        raise BadSampleError("the input does not take images", seen=["samples", *wanted])
    channels, height, width = wanted
    try:
        with Image.open(io.BytesIO(content)) as opened:
            expect_bytes(opened.mode)
            image = cropped(resized(opened.convert(MODES[channels]), options.resize), options.crop)
    except BadSampleError:
        raise
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = str(error).partition(" <_io")[0]
        raise BadSampleError(f"the image cannot be read: {reason}") from None
    if (image.height, image.width) != (height, width):
        raise BadSampleError(
            "the image has a different size than the input",
            seen=f"{image.height} × {image.width}",
            limit=f"height × width of {height} × {width}",
            remedy=f"--resize {height},{width}, or --resize {max(height, width)} --crop {height},{width}",
        )
    values = np.asarray(image, np.float32).reshape(height, width, channels).transpose(2, 0, 1) / np.float32(
        options.scale
    )
    if options.mean:
        values -= np.asarray(options.mean, np.float32).reshape(-1, 1, 1)
    if options.std:
        values /= np.asarray(options.std, np.float32).reshape(-1, 1, 1)
    return values


def expect_bytes(mode: str) -> None:
    """Refuse an image of more than 8 bits a channel: Pillow would make white of all values above 255.

    Raises:
        BadSampleError: It is one.
    """
    if mode.startswith(DEEP):
        raise BadSampleError(
            "the image has more than 8 bits for a channel",
            seen=f"mode {mode}",
            limit="8 bits",
            remedy="save it with 8 bits, or its values as arrays: --data FILE.npz",
        )


def resized(image: Image, size: tuple[int, ...]) -> Image:
    """Return an image in another size: its shorter side, or height and width."""
    from PIL.Image import Resampling  # noqa: PLC0415 - an extra

    if not size:
        return image
    if len(size) == 2:
        return image.resize((size[1], size[0]), Resampling.BILINEAR)
    short = min(image.width, image.height)
    width, height = (max(1, round(length * size[0] / short)) for length in (image.width, image.height))
    return image.resize((width, height), Resampling.BILINEAR)


def cropped(image: Image, size: tuple[int, ...]) -> Image:
    """Return the middle of an image; one that is smaller stays as it is, and does not fit later."""
    if not size:
        return image
    height, width = size if len(size) == 2 else (size[0], size[0])
    left, top = (image.width - width) // 2, (image.height - height) // 2
    if left < 0 or top < 0:
        return image
    return image.crop((left, top, left + width, top + height))


def expect_options(options: ImageOptions, wanted: tuple[int, ...]) -> None:
    """Refuse options that do not fit the input of a model.

    Raises:
        GraphError: The input does not take images, or mean and std are not one number for each channel.
    """
    if len(wanted) != 3 or wanted[0] not in MODES:
        raise GraphError(
            "the input does not take images",
            seen=["samples", *wanted],
            limit="samples, 1, 3 or 4 channels, height, width",
            remedy="give the data as arrays: --data FILE.npz",
        )
    for name, given in (("mean", options.mean), ("std", options.std)):
        if len(given) not in (0, 1, wanted[0]):
            raise GraphError(f"--{name} is one number for each channel", seen=list(given), limit=f"{wanted[0]} numbers")
    for name, given in (("scale", (options.scale,)), ("mean", options.mean), ("std", options.std)):
        if not np.isfinite(given).all():
            raise GraphError(f"--{name} must be finite", seen=", ".join(map(str, given)))
    if 0 in options.std or not options.scale:
        raise GraphError(
            "images cannot be divided by zero", seen=list(options.std) if 0 in options.std else options.scale
        )


def thumbnail(encoded: bytes | None, values: Array | None) -> bytes | None:
    """Return a small PNG of a sample: an image as its file has it, or an array of one or three channels.

    None where it is neither, or Pillow is not installed.
    """
    if not is_installed("pillow"):
        return None
    from PIL import Image  # noqa: PLC0415 - an extra

    if encoded is not None:
        picture = Image.open(io.BytesIO(encoded)).convert("RGB")
    elif values is not None and values.ndim == 3 and values.shape[0] in (1, 3) and np.isfinite(values).all():
        low, span = float(values.min()), float(np.ptp(values)) or 1.0
        pixels = np.rint((values.astype(np.float64) - low) / span * 255).astype(np.uint8).transpose(1, 2, 0)
        picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    else:
        return None
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()
