"""Operators without a form here, computed by PyTorch where all of their operands are known.

A special function or a decomposition of a constant matrix has no form in the op table, but its result is a constant
like any other. PyTorch computes it when the program is read, floating point in double precision, and the result is
rounded to the element type that the program gives it.

A file may name any of PyTorch's operators, so those that are run are listed: they are functions of only their operands
whose time and memory the size of these bounds, and double precision brings their results nearer to the truth. What
takes the parts of a decomposition (pivots, reflectors) is not among them, since LAPACK trusts such parts; nor is what
depends on the precision itself, as neighbouring numbers and the cut of a pseudoinverse do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from aneforge.errors import GraphError
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.tensors import stored_of
from aneforge.formats.torch.torch_values import Complex
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.formats.torch.schemas import Schema
    from aneforge.formats.torch.torch_values import Held

__all__ = ["ELEMENTS_MOST", "evaluate_by_torch", "is_evaluated"]

ELEMENTS_MOST = 2**20
"""Elements of all operands together, and of all results: a matrix of a thousand rows is decomposed within seconds."""
FUNCTIONS = frozenset({
    "digamma", "erfinv", "frexp", "gcd", "i0", "igamma", "igammac", "lcm", "lgamma", "polygamma",
    "special_airy_ai", "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1",
    "special_erfcx", "special_i0e", "special_i1", "special_i1e", "special_log_ndtr", "special_modified_bessel_i0",
    "special_modified_bessel_i1", "special_modified_bessel_k0", "special_modified_bessel_k1", "special_ndtri",
    "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1", "special_spherical_bessel_j0",
    "special_zeta",
})  # fmt: skip
"""Functions of single elements. Polynomials of a degree that is an operand are left out: their time has no bound."""
SETS = frozenset({"_unique2", "mode", "nanmedian", "unique_consecutive", "unique_dim", "unique_dim_consecutive"})
"""Functions of how often elements come, and of their order."""
MATRICES = frozenset({
    "_linalg_check_errors", "_linalg_det", "_linalg_eigh", "_linalg_eigvals", "_linalg_slogdet", "_linalg_solve_ex",
    "_linalg_svd", "cholesky", "cholesky_inverse", "cholesky_solve", "linalg_cholesky_ex", "linalg_eig",
    "linalg_eigvals", "linalg_inv_ex", "linalg_lu", "linalg_lu_factor_ex", "linalg_matrix_exp", "linalg_qr",
    "linalg_solve_triangular",
})  # fmt: skip
"""Functions of matrices; their elements must be finite."""


def is_evaluated(schema: Schema) -> bool:
    """Return whether PyTorch may compute an operator."""
    return schema.space == "aten" and schema.name in FUNCTIONS | SETS | MATRICES


def evaluate_by_torch(
    target: Callable[..., object],
    schema: Schema,
    positional: Sequence[Held],
    named: Mapping[str, Held],
    types: Sequence[torch.dtype | None],
    shapes: Sequence[tuple[int, ...] | None],
) -> Held:
    """Return the results of an operator on constants, in the element types that the program gives them.

    Raises:
        UnsupportedNodeError: An operand is computed at run time, or operands or results are too large.
        GraphError: PyTorch cannot compute it, as of a matrix that is singular.
    """
    operands = [one for held in (*positional, *named.values()) for one in flatten(held)]
    if any(isinstance(one, Output | Complex) for one in operands):
        raise UnsupportedNodeError(
            Reason.FORM,
            "the op table has no form of it, and its operands are not constants",
            workaround="end the program before it, and do the rest elsewhere",
        )
    constants = [one for one in operands if isinstance(one, Constant)]
    elements = max(
        sum(one.type.size for one in constants), sum(math.prod(shape) for shape in shapes if shape is not None)
    )
    if elements > ELEMENTS_MOST:
        raise UnsupportedNodeError(
            Reason.LIMIT,
            f"it is computed when the program is read, and has {elements} elements, where {ELEMENTS_MOST} are the most",
            workaround="compute it before, and make the result a constant of the module",
        )
    if schema.name in MATRICES and not all(np.all(np.isfinite(one.dense().astype(np.float64))) for one in constants):
        raise GraphError("it is computed when the program is read, and a matrix has elements that are not finite")
    arguments = [in_double(one) for one in positional]
    keywords = {name: in_double(one) for name, one in named.items()}
    try:
        with torch.no_grad():
            found = target(*arguments, **keywords)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        raise GraphError(f"PyTorch cannot compute it: {' '.join(str(error).split())[:300]}") from None
    if isinstance(found, torch.Tensor):
        return rounded(found, types[0])
    if found is None:
        return None
    several = cast("Sequence[torch.Tensor]", found)
    return tuple(rounded(one, kind) for one, kind in zip(several, types, strict=True))


def flatten(held: Held) -> list[Held]:
    """Return what a list holds, or what is none by itself."""
    return [one for part in held for one in flatten(part)] if isinstance(held, tuple) else [held]


def in_double(held: Held) -> object:
    """Return an operand as PyTorch takes it, floating point in double precision."""
    if isinstance(held, tuple):
        return [in_double(one) for one in held]
    if not isinstance(held, Constant):
        return held
    numbers = held.dense()
    wide = numbers.astype(np.float64) if is_float(held.type.dtype) else np.array(numbers)
    return torch.from_numpy(wide)  # pyright: ignore[reportUnknownMemberType] - PyTorch has no type of it


def rounded(result: torch.Tensor, kind: torch.dtype | None) -> Held:
    """Return a result in its element type."""
    return stored_of(result if kind is None else result.to(kind), copied=True)
