"""Packages that only some functions need: what for, whether one is installed, and the line that installs it."""

from __future__ import annotations

import importlib.util

from aneforge.errors import MissingPackageError
from aneforge.records import dataclass

__all__ = ["PACKAGES", "expect_package", "install_line", "is_installed"]

DISTRIBUTION = "aneforge-open"


@dataclass(frozen=True, slots=True)
class Use:
    """What a package is needed for, and how it comes."""

    purpose: str
    extra: str = ""
    """The extra of this distribution that brings it; empty where it is installed by its own name."""
    module: str = ""
    """What is imported, where that has another name."""


PACKAGES = {
    "onnx": Use("reading ONNX models", "onnx"),
    "torch": Use("reading PyTorch programs", "torch"),
    "coremltools": Use("reading and writing ML packages", "coreml"),
    "jinja2": Use("writing HTML pages"),
    "onnxruntime": Use("comparing with onnxruntime"),
    "pillow": Use("reading images", "data", "PIL"),
    "pyarrow": Use("reading and writing Parquet and Arrow files", "data"),
    "distributed": Use("running on several workers", "cluster"),
    "safetensors": Use("reading and writing checkpoints", "train"),
    "gguf": Use("reading GGUF files", "llm"),
    "tokenizers": Use("reading tokenizer.json", "llm"),
    "huggingface_hub": Use("fetching a model by its name (a folder needs nothing)"),
}
"""The extras are those of pyproject.toml; a test compares."""


def is_installed(package: str) -> bool:
    """Return whether a package is installed, without importing it.

    >>> is_installed("jinja2")
    True
    """
    return importlib.util.find_spec(PACKAGES[package].module or package) is not None


def install_line(package: str) -> str:
    """Return the command that installs a package.

    >>> install_line("onnx"), install_line("onnxruntime")
    ("pip install 'aneforge-open[onnx]'", 'pip install onnxruntime')
    """
    extra = PACKAGES[package].extra
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {package}"


def expect_package(package: str) -> None:
    """Check that a package is installed.

    >>> expect_package("jinja2")

    Raises:
        MissingPackageError: It is not; the message has the line that installs it.
    """
    if not is_installed(package):
        purpose = PACKAGES[package].purpose
        raise MissingPackageError(f"{purpose} needs the package {package}", remedy=install_line(package))
