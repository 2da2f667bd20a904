"""How sure a program's arithmetic is, layer by layer, from types and attributes only: before any value goes in.

A run may be less sure than this: sums that can pass the edge of the accumulator and infinite operands are seen in
values only. Strict compiles and reports have their labels from here; the steps of a prepared program know the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.engine.execution.layers import known_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.engine.exactness import Label

__all__ = ["labels_of_layers"]


def labels_of_layers(program: Program) -> Mapping[str, Label]:
    """Return how sure every layer is, by its name.

    >>> import aneforge as af
    >>> labels = labels_of_layers(af.build_program(af.input((1, 4)).relu(), af.targets.Family.A13))
    >>> [str(label.exactness) for label in labels.values()]
    ['exact']
    """
    return {layer.name: known_label(layer, program) for layer in program.layers}
