"""The third layer of validation: a compiled program, checked again when it is loaded.

The kernel goes over the matrices of a compiled program, single-plane and multi-plane, uncompressed and
tiled-compressed. `containers` finds those of a real container.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.compiler.validators.exported import objections, sort_worst_first, with_data
from aneforge.compiler.validators.verdict import Validation
from aneforge.records import dataclass
from aneforge.rules.subject import Operation
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.targets import TargetLike

__all__ = ["MATRIX", "CompiledMatrix", "MatrixForm", "Plane", "validate_at_load"]

MATRIX = "matrix"
"""The name under which a matrix of a compiled program is a subject."""


class MatrixForm(StrEnum):
    """The four forms that the kernel's routines are named after: planes times storage."""

    SINGLE_PLANE_UNCOMPRESSED = "single-plane, uncompressed"
    SINGLE_PLANE_TILED_COMPRESSED = "single-plane, tiled-compressed"
    MULTI_PLANE_UNCOMPRESSED = "multi-plane, uncompressed"
    MULTI_PLANE_TILED_COMPRESSED = "multi-plane, tiled-compressed"


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane of a matrix."""

    width: int
    height: int
    row_bytes: int
    element_bits: int = 16
    tile: int = 0
    """Side of a tile; 0 where there is none."""


@dataclass(frozen=True, slots=True)
class CompiledMatrix:
    """A matrix of a compiled program."""

    name: str
    planes: tuple[Plane, ...]
    compressed: bool = False

    @property
    def form(self) -> MatrixForm:
        """Which of the kernel's routines it goes to."""
        if len(self.planes) > 1:
            tiled, plain = MatrixForm.MULTI_PLANE_TILED_COMPRESSED, MatrixForm.MULTI_PLANE_UNCOMPRESSED
        else:
            tiled, plain = MatrixForm.SINGLE_PLANE_TILED_COMPRESSED, MatrixForm.SINGLE_PLANE_UNCOMPRESSED
        return tiled if self.compressed else plain


def validate_at_load(matrices: Iterable[CompiledMatrix], target: TargetLike = None) -> tuple[Validation, ...]:
    """Return the verdict on each matrix of a compiled program.

    >>> from aneforge.targets import Family
    >>> good, bad = CompiledMatrix("a", (Plane(8, 4, 64),)), CompiledMatrix("b", (Plane(64, 4, 64),))
    >>> [str(one.verdict) for one in validate_at_load([good, bad], Family.A13)]
    ['accept', 'reject']

    Raises:
        NoDataError: The target is a name without data.
    """
    resolved = resolve(target)
    found: list[Validation] = []
    for matrix in matrices:
        subject = subject_of_matrix(matrix)
        judged = sort_worst_first(objections(subject, with_data(resolved, MATRIX)))
        found.append(Validation(matrix.name, MATRIX, None, tuple(judged)))
    return tuple(found)


def subject_of_matrix(matrix: CompiledMatrix) -> Operation:
    """Return a matrix as rules see it."""
    return Operation(
        MATRIX,
        attributes={
            "form": str(matrix.form),
            "compressed": matrix.compressed,
            "widths": tuple(plane.width for plane in matrix.planes),
            "bits": tuple(plane.element_bits for plane in matrix.planes),
            "row_bytes": tuple(plane.row_bytes for plane in matrix.planes),
            "tiles": tuple(plane.tile for plane in matrix.planes),
        },
    )
