"""Weights edited in a compiled program, and whether a kernel may be compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.validators.declare import gate
from aneforge.compiler.validators.exported import objections, sort_worst_first, with_data
from aneforge.compiler.validators.looking import count_stored_bits
from aneforge.compiler.validators.verdict import Validation
from aneforge.rules.rule import own_fact
from aneforge.rules.subject import Operation
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant
    from aneforge.targets import TargetLike

__all__ = ["WEIGHT_EDIT", "is_compressible", "validate_weight_edits"]

WEIGHT_EDIT = "weight_edit"
"""The name under which an edit of a weight is a subject."""


def validate_weight_edits(program: Program, edits: Mapping[str, Constant]) -> tuple[Validation, ...]:
    """Return the verdict on each weight that a procedure would exchange in a program, by the weight's symbol.

    >>> import aneforge as af, numpy as np
    >>> from aneforge.compiler.compile import build_program
    >>> from aneforge.ops.constant import Dense
    >>> graph = af.conv(af.input((1, 3, 8, 8)), np.ones((4, 3, 1, 1), np.float16))
    >>> program = build_program(graph, af.targets.Family.A13)
    >>> found = validate_weight_edits(program, {"t1.weights": Dense(np.zeros((4, 3, 1, 1), np.float16))})
    >>> [str(one.verdict) for one in found]
    ['accept']

    Raises:
        NoDataError: The program's target is a name without data.
    """
    held = program.constants
    found: list[Validation] = []
    for symbol, new in edits.items():
        old = held.get(symbol)
        subject = Operation(
            WEIGHT_EDIT,
            attributes={
                "symbol": symbol,
                "type": None if old is None else str(old.type),
                "new_type": str(new.type),
                "old_encoding": None if old is None else old.encoding,
                "new_encoding": new.encoding,
            },
        )
        target = with_data(program.target, WEIGHT_EDIT)
        found.append(Validation(symbol, WEIGHT_EDIT, None, tuple(sort_worst_first(objections(subject, target)))))
    return tuple(found)


def is_compressible(kernel: Constant, target: TargetLike = None) -> bool:
    """Return whether a kernel may be compressed: it has enough bits to an element (`IsValidForCompression`).

    >>> import numpy as np
    >>> from aneforge.ops.constant import Dense, Palette
    >>> from aneforge.targets import Family
    >>> indices, table = np.zeros((4, 4), np.uint8), np.zeros(16, np.float16)
    >>> is_compressible(Palette(indices, table, 4), Family.A13), is_compressible(Dense(table), Family.A13)
    (False, True)

    Raises:
        NoDataError: The target is a name without data.
    """
    least = own_fact(gate("compressible_kernel_bits"), resolve(target)).value
    return count_stored_bits(kernel) >= int(str(least))
