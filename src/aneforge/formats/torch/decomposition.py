"""Which operators are taken apart before a program is read: everything that has no converter of its own.

PyTorch's table brings a program down to the core of ATen. What the op table has as a whole (attention, linear layers,
normalisations, activations, resizing) is left out of that table, so that it comes here in one piece.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch import _decomp, library
from torch._subclasses.fake_tensor import FakeTensor

from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.torch.quiet import quiet_loggers
from aneforge.formats.torch.registry import converter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from torch._ops import OpOverload
    from torch.library import Library

    Table = dict[object, Callable[..., object]]

__all__ = ["decompose_program"]

FURTHER = (
    "embedding_dense_backward",
    "max_pool2d_with_indices_backward",
    "native_group_norm_backward",
    "native_layer_norm_backward",
)
"""Operators that are core, and that PyTorch can still take apart."""


MASKED = (
    "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)
"""Operators that PyTorch runs without data only by running them with data, which it does not do for a file."""


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


def decompose_program(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program of operators that are core, or have a converter.

    Raises:
        NotSupportedError: A constant of it is sparse, or has no data.
        GraphError: PyTorch cannot run its operators without data; a file may hold a program that it never traced.
    """
    check_constants(program)
    run = cast("Callable[[Table], torch.export.ExportedProgram]", getattr(program, "run_decompositions"))  # noqa: B009 - untyped
    try:
        with warnings.catch_warnings(), quiet_loggers(), declare_masked_results(program), plain_ranges(program):
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, of its tree specifications
            warnings.simplefilter("ignore", DeprecationWarning)
            return run(decompositions())
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise GraphError(
            f"PyTorch {torch.__version__} cannot take the program apart: {type(error).__name__}: {said}",
            remedy="check that the program runs, and export it again",
        ) from error


def check_constants(program: torch.export.ExportedProgram) -> None:
    """Check that the tensors of a program are dense ones with numbers: PyTorch takes no others apart.

    Raises:
        NotSupportedError: One is sparse, or has no data.
    """
    stored = cast("dict[str, object]", {**program.state_dict, **program.constants})
    for name, tensor in stored.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout is not torch.strided:
            raise NotSupportedError(
                f"{name!r} is a sparse tensor constant" if "sparse" in str(tensor.layout) else f"{name!r} is not dense",
                seen=f"layout {tensor.layout}",
                limit="dense tensors",
                remedy="make it dense with to_dense() before the module is exported",
            )
        if not has_data(tensor):
            raise NotSupportedError(
                f"{name!r} is a constant without data: PyTorch kept only its shape when it traced the module",
                seen=f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}",
                remedy="compute gradients by hand instead of with torch.func.grad inside of the module, and export it "
                "outside of FakeTensorMode",
            )


def has_data(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has memory; what is on another device is reported where its numbers are read.

    Of other classes than PyTorch's plain ones it takes the parts apart itself.
    """
    if isinstance(tensor, FakeTensor):
        return False
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return True
    try:
        tensor.data_ptr()
    except RuntimeError:
        return False
    return True


@contextmanager
def declare_masked_results(program: torch.export.ExportedProgram) -> Generator[None]:
    """Tell PyTorch of what types the results of MASKED are, for a while, if a program has such operators."""
    graphs = [one.graph for one in program.graph_module.modules() if isinstance(one, torch.fx.GraphModule)]
    if not any("fake_quantize" in str(node.target) for graph in graphs for node in graph.nodes):
        yield
        return
    scoped = cast("Callable[[str, str], AbstractContextManager[Library]]", getattr(library, "_scoped_library"))  # noqa: B009 - untyped
    with scoped("aten", "IMPL") as registered:
        for name in MASKED:
            form = cast("OpOverload", getattr(torch.ops.aten, name).default)
            if not form.has_kernel_for_dispatch_key(torch.DispatchKey.Meta):
                registered.impl(name, build_masked_result, "Meta")  # pyright: ignore[reportUnknownMemberType] - untyped
        yield


def build_masked_result(x: torch.Tensor, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tensors of the types of a result and its mask."""
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


@contextmanager
def plain_ranges(program: torch.export.ExportedProgram) -> Generator[None]:
    """Take the ranges of derived lengths (`2*s0`) out of the ranges of symbols for a while.

    PyTorch puts them there when it reads a file, and fails when it comes across one; what they say follows from the
    range of the symbol.
    """
    ranges = symbol_ranges(program)
    derived = {length: ranges.pop(length) for length in list(ranges) if not getattr(length, "is_Symbol", True)}
    try:
        yield
    finally:
        ranges.update(derived)


def symbol_ranges(program: torch.export.ExportedProgram) -> dict[object, object]:
    """Return the ranges of the symbols of a program, to be changed; none where its lengths are all plain."""
    for node in program.graph_module.graph.nodes:
        mode = cast("object", getattr(node.meta.get("val"), "fake_mode", None))
        environment = cast("object", getattr(mode, "shape_env", None))
        if environment is not None:
            return cast("dict[object, object]", getattr(environment, "var_to_range", {}))
    return {}
