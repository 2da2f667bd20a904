"""Packages and model files for tests, made with the writer and changed where a test needs them otherwise."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.formats.mlpackage.messages import messages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.formats.mlpackage.messages import MilOperation, Model
    from aneforge.graph.graph import Graph

__all__ = ["MODEL", "WEIGHTS", "bare", "changed", "operation", "saved"]

MODEL = "Data/com.apple.CoreML/model.mlmodel"
WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"


def saved(graph: object, folder: Path, name: str = "model") -> Path:
    """Write a package, where none is yet."""
    path = folder / f"{name}.mlpackage"
    if path.exists():
        shutil.rmtree(path)
    return af.save_mlpackage(graph, path)  # pyright: ignore[reportArgumentType] - tests give all that is taken


def changed(package: Path, change: Callable[[Model], object]) -> Path:
    """Change the model file of a package."""
    file = package / MODEL
    model = messages().model.FromString(file.read_bytes())
    change(model)
    file.write_bytes(model.SerializeToString(deterministic=True))
    return package


def operation(model: Model, op: str, function: str = "main") -> MilOperation:
    """Return the first operation of a type."""
    (block,) = (model.mlProgram.functions[function].block_specializations[key] for key in keys(model, function))
    return next(one for one in block.operations if one.type == op)


def bare(graph: Graph) -> str:
    """Return the text of a graph without the places where its nodes were made."""
    return re.sub(r" at (node )?(\"|').*$", "", graph.text, flags=re.MULTILINE)


def keys(model: Model, function: str) -> list[str]:
    """Return the opsets for which a function has operations."""
    return list(model.mlProgram.functions[function].block_specializations)
