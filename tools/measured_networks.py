"""The networks of `networks.toml`, by name: what to build for a measured call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attention_networks import (
    decoding_step,
    depth_anything_small,
    distilbert,
    efficientformer,
    encoder_decoder,
    fastvit,
    llama_perceptrons,
    mobilevit_v2,
    whisper_encoder,
)
from convolutional_networks import (
    convolution_stack,
    densenet121,
    fully_connected,
    mobilenet_v2,
    mobilenet_v3_small,
    mobileone,
    repvit,
    resnet50,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import aneforge as af

__all__ = ["network"]


def stacked_convolutions() -> af.Tensor:
    """Return six 3×3 convolutions of 128 channels over 10×512."""
    return convolution_stack(128, 6, 10, 512)


def stacked_products() -> af.Tensor:
    """Return three products of ten rows by matrices of 256 columns."""
    return fully_connected(10, 512, (256, 256, 256))


def mobilenet_v2_of_width(width: str) -> af.Tensor:
    """Return MobileNetV2 of a width as it is published."""
    return mobilenet_v2(float(width))


PLAIN: Mapping[str, Callable[[], af.Tensor]] = {
    "convolution_stack": stacked_convolutions,
    "densenet121": densenet121,
    "depth_anything_small": depth_anything_small,
    "distilbert": distilbert,
    "encoder_decoder": encoder_decoder,
    "fully_connected": stacked_products,
    "llama_perceptrons": llama_perceptrons,
    "mobilenet_v3_small": mobilenet_v3_small,
    "mobilevit_v2": mobilevit_v2,
    "resnet50": resnet50,
}
VARIED: Mapping[str, Callable[[str], af.Tensor | af.Graph]] = {
    "decoding_step": decoding_step,
    "efficientformer": efficientformer,
    "fastvit": fastvit,
    "mobilenet_v2": mobilenet_v2_of_width,
    "mobileone": mobileone,
    "repvit": repvit,
    "whisper_encoder": whisper_encoder,
}


def network(name: str, variant: str) -> af.Tensor | af.Graph:
    """Return a network by its name, and by its variant where it has some.

    Raises:
        ValueError: No network has the name, or it has variants and none was named, or the other way round.
    """
    if not variant and name in PLAIN:
        return PLAIN[name]()
    if not variant or name not in VARIED:
        raise ValueError(f"no network is known as {name!r} with the variant {variant!r}")
    return VARIED[name](variant)
