"""Which operators are taken apart before a program is read: everything that has no converter of its own.

PyTorch's table brings a program down to the core of ATen. What the op table has as a whole (attention, linear layers,
normalisations, activations, resizing) is left out of that table, so that it comes here in one piece.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch import _decomp

from aneforge.errors import GraphError
from aneforge.importers.torch_export.quiet import quiet_loggers
from aneforge.importers.torch_export.registry import converter_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Table = dict[object, Callable[..., object]]

__all__ = ["decomposed"]

FURTHER = (
    "embedding_dense_backward",
    "max_pool2d_with_indices_backward",
    "native_group_norm_backward",
    "native_layer_norm_backward",
)
"""Operators that are core, and that PyTorch can take apart all the same."""


@cache
def decompositions() -> Table:
    """Return PyTorch's decompositions without those of operators that have a converter."""
    table = cast("Table", torch.export.default_decompositions())
    for target in list(table):
        name, form = str(target).removeprefix("aten.").partition(".")[::2]
        if str(target).startswith("aten.") and converter_of(name, form) is not None:
            table.pop(target)
    forms = [getattr(torch.ops.aten, name).default for name in FURTHER]
    further = cast("Callable[[list[object]], Table]", getattr(_decomp, "get_decompositions"))  # noqa: B009 - untyped
    return {**further(forms), **table}


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program of operators that are core, or have a converter.

    Raises:
        GraphError: PyTorch cannot run its operators without data; a file may hold a program that it never traced.
    """
    run = cast("Callable[[Table], torch.export.ExportedProgram]", getattr(program, "run_decompositions"))  # noqa: B009 - untyped
    try:
        with warnings.catch_warnings(), quiet_loggers():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, of its tree specifications
            warnings.simplefilter("ignore", DeprecationWarning)
            return run(decompositions())
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise GraphError(
            f"PyTorch {torch.__version__} cannot take the program apart: {type(error).__name__}: {said}",
            remedy="check that the program runs, and export it again",
        ) from error
