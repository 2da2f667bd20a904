"""Operators that no static graph expresses, declared with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.registry import operator

if TYPE_CHECKING:
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Held

TRAINING_DOMAIN = "ai.onnx.preview.training"
LEARNING_DOMAIN = "ai.onnx.ml"
TEXT_OPERATORS = ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")


@operator(*TEXT_OPERATORS, takes_all=True)
def texts(call: Call) -> Held:
    """Refuse an operator on text."""
    raise UnsupportedNodeError(
        Reason.STRING, f"{call.operator} works on text", workaround="prepare text before it goes into the model"
    )


@operator("CategoryMapper", "DictVectorizer", "CastMap", "ZipMap", domain=LEARNING_DOMAIN, takes_all=True)
def maps(call: Call) -> Held:
    """Refuse an operator on maps."""
    reason = Reason.STRING if call.operator == "CategoryMapper" else Reason.MAP
    raise UnsupportedNodeError(reason, "it works on text or on a map", workaround="export the model without it")


@operator("ImageDecoder", takes_all=True)
def compressed_image(_: Call) -> Held:
    """Refuse an operator whose result has the size that an image says."""
    raise UnsupportedNodeError(
        Reason.DATA_SHAPE,
        "the size of the image is in its compressed bytes",
        workaround="end the model before it and do the rest on the host",
    )


@operator("Adagrad", "Adam", "Gradient", "Momentum", domain=TRAINING_DOMAIN, takes_all=True)
def training(call: Call) -> Held:
    """Refuse an operator of training."""
    raise UnsupportedNodeError(
        Reason.TRAINING,
        f"{call.operator} is a step of training",
        workaround="export the model for inference, or use aneforge's training",
    )
