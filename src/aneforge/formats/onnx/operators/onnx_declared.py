"""Operators that are not read, declared with the reason: no static graph expresses them, or no network needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held

TRAINING_DOMAIN = "ai.onnx.preview.training"
LEARNING_DOMAIN = "ai.onnx.ml"
TEXT_OPERATORS = ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")
SEQUENCES = (
    "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
    "SequenceLength", "SequenceMap", "SplitToSequence",
)  # fmt: skip
OPTIONALS = ("Optional", "OptionalGetElement", "OptionalHasElement")
LEARNING_OPERATORS = (
    "ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "Imputer",
    "LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "SVMClassifier",
    "SVMRegressor", "Scaler", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "ZipMap",
)  # fmt: skip
"""All of the classical machine-learning set."""


@operator(*TEXT_OPERATORS, takes_all=True)
def texts(call: Call) -> Held:
    """Refuse an operator on text."""
    raise UnsupportedNodeError(
        Reason.STRING, f"{call.operator} works on text", workaround="prepare text before it goes into the model"
    )


@operator(*LEARNING_OPERATORS, domain=LEARNING_DOMAIN, takes_all=True)
@operator(*SEQUENCES, *OPTIONALS, "TfIdfVectorizer", takes_all=True)
def host(call: Call) -> Held:
    """Refuse an operator that prepares the inputs of a network, or looks up its results."""
    raise UnsupportedNodeError(
        Reason.HOST,
        f"{call.operator} is not an engine operation",
        workaround="run it on the host with onnxruntime, and import the rest of the network (onnx.utils.extract_model "
        "cuts a model in parts)",
    )


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
