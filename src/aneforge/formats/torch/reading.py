"""A program as it comes in: a module that is exported here, an exported program, or a file of one."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch.utils import _pytree as pytree

from aneforge.errors import GraphError, GraphTypeError, Location, NotSupportedError
from aneforge.formats.torch.archive import load_archive
from aneforge.formats.torch.places import is_users
from aneforge.formats.torch.quiet import OWN_WEIGHTS, quiet_loggers, without_printed_graph
from aneforge.records import dataclass

__all__ = ["ExampleInputs", "ProgramSource", "ReadProgram", "flat_inputs", "read_program"]

ProgramSource = torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str]
ExampleInputs = torch.Tensor | tuple[object, ...] | list[object] | Mapping[str, object]
MESSAGE_LINES = 3
"""Lines of PyTorch's own message that an error quotes; the rest is advice on its flags."""
PACKED = ("PackedParams", "quantized nyi in meta tensors")
"""Signs of modules whose weights are packed for kernels of PyTorch's own."""
LOOKS_AT_MASK = "_detect_is_causal_mask"
"""The function of PyTorch's transformer layers that compares a mask with a causal one."""
DATA_DEPENDENT = ("data-dependent", "data dependent", "GuardOnDataDependent", "Dynamic control flow")


@dataclass(frozen=True, slots=True)
class ReadProgram:
    """A program, and whom its weights belong to."""

    program: torch.export.ExportedProgram
    file: str | None
    owned: bool
    """Nobody else holds the weights, so that they need no copy."""
    traced: bool = False
    """It was traced here with the example inputs, whose shapes it has."""


def read_program(source: ProgramSource, example_inputs: ExampleInputs | None) -> ReadProgram:
    """Return a program.

    Raises:
        GraphError: A file cannot be read, or a module has no example inputs.
        NotSupportedError: PyTorch cannot export a module.
        GraphTypeError: The source is of another kind.
    """
    if isinstance(source, torch.export.ExportedProgram):
        return ReadProgram(source, None, owned=False)
    if isinstance(source, torch.nn.Module):
        return ReadProgram(export(source, example_inputs), None, owned=False, traced=True)
    if isinstance(source, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        path = Path(source)
        return ReadProgram(load_archive(path), str(path), owned=True)
    raise GraphTypeError(
        "a program is given by a module, an ExportedProgram or the path of a .pt2 file",
        seen=type(source).__name__,
        remedy="a function is made a module by a class with a method forward",
    )


def export(module: torch.nn.Module, example_inputs: ExampleInputs | None) -> torch.export.ExportedProgram:
    """Return a module as PyTorch exports it.

    Raises:
        GraphError: There are no example inputs.
        NotSupportedError: PyTorch cannot export it.
    """
    if example_inputs is None:
        raise GraphError(
            "a module is exported with example inputs, and there are none",
            remedy="give from_torch(module, (torch.zeros(1, 3, 224, 224),)), or an exported program",
        )
    positional, named = arguments_of(example_inputs)
    try:
        with warnings.catch_warnings(), quiet_loggers(), without_printed_graph():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, of its tree specifications
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", OWN_WEIGHTS, UserWarning)
            return torch.export.export(module, positional, named, strict=False)
    except Exception as error:
        raise export_error(module, error) from error


def arguments_of(example_inputs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return positional and named arguments.

    Raises:
        GraphTypeError: They are of another sort.
    """
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, tuple | list):
        return tuple(cast("list[object]", example_inputs)), {}
    if isinstance(example_inputs, Mapping):
        named = dict(cast("Mapping[object, object]", example_inputs))
        if all(isinstance(name, str) for name in named):
            return (), cast("dict[str, object]", named)
    raise GraphTypeError(
        "example inputs are a tensor, a tuple of arguments, or a mapping of named ones",
        seen=type(cast("object", example_inputs)).__name__,
    )


def flat_inputs(example_inputs: ExampleInputs) -> list[object]:
    """Return every tensor and number of example inputs, in order."""
    return cast("list[object]", pytree.tree_leaves(arguments_of(example_inputs)))


def export_error(module: torch.nn.Module, error: Exception) -> NotSupportedError:
    """Return the error of a module that PyTorch cannot export: what it says, and the module's own line."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()][:MESSAGE_LINES]
    said = " ".join(lines)[:500]
    what, remedy = explain(error, text)
    return NotSupportedError(
        f"{type(module).__name__}: {what}: {type(error).__name__}: {said}",
        location=users_frame(error),
        remedy=remedy,
    )


def explain(error: Exception, text: str) -> tuple[str, str]:
    """Return why PyTorch cannot export a module, as far as it is known, and what to do."""
    if any(sign in text for sign in PACKED):
        return (
            "its modules were quantised to packed weights, which PyTorch exports to no program",
            "give the module as it was before convert, convert_fx or quantize_dynamic",
        )
    if not any(sign in text or sign in type(error).__name__ for sign in DATA_DEPENDENT):
        return (
            "PyTorch cannot export it",
            "check that the module runs with the example inputs, and with torch.export.export",
        )
    what = "its control flow or a shape depends on data"
    if any(frame.name == LOOKS_AT_MASK for frame in traceback.extract_tb(error.__traceback__)):
        return what, (
            "PyTorch's layer looks whether the mask is causal: say it, with is_causal= of an encoder or tgt_is_causal= "
            "of a decoder; example inputs with names are a mapping"
        )
    return what, (
        "choose with torch.where, or with torch.cond between two functions; the numbers of a tensor cannot be read"
    )


def users_frame(error: Exception) -> Location | None:
    """Return the innermost line of an error that is the user's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename):
            return Location(frame.filename, frame.lineno)
    return None
