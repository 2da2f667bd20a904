"""How sure a program's arithmetic is, told from its layers alone, before any value goes in.

A run may be less sure than this: sums that can pass the edge of the accumulator and infinite operands are seen in
values only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.engine.exactness import Label, worst
from aneforge.engine.execution.run import NOTHING_COMPUTED, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.engine.execution.run import Executable

__all__ = ["label_of_prepared", "labels_of_layers"]


def labels_of_layers(program: Program) -> Mapping[str, Label]:
    """Return how sure every layer is, by its name."""
    return {step.layer.name: step.labels.known for step in prepare(program).steps}


def label_of_prepared(ready: Executable) -> Label:
    """Return how sure a whole program is: the least sure of its layers."""
    return worst(step.labels.known for step in ready.steps) if ready.steps else NOTHING_COMPUTED
