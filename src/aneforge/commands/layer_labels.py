"""How sure the engine is of every layer, told from types and attributes alone.

It is what `runtime.exactness` tells of a program that is ready to run, without getting it ready: the weights of
products, nearly all bytes of a model, decide no label before a value goes in, so they are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.calls import call_of_layer
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.exactness import worst
from aneforge.engine.execution.epilogue import stages_of
from aneforge.engine.execution.labels import static_label
from aneforge.engine.execution.layers import Constants, step_of, typed_operands
from aneforge.engine.execution.products import PRODUCT_KINDS, product_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.engine.exactness import Label

__all__ = ["labels_of"]


def labels_of(program: Program) -> Mapping[str, Label]:
    """Return how sure every layer is, by its name.

    >>> import aneforge as af
    >>> labels = labels_of(af.build_program(af.input((1, 4)).relu(), af.targets.Family.A13))
    >>> [str(label.exactness) for label in labels.values()]
    ['exact']
    """
    constants = Constants()
    return {layer.name: label_of(layer, program, constants) for layer in program.layers}


def label_of(layer: Layer, program: Program, constants: Constants) -> Label:
    """Return how sure one layer is."""
    call = call_of_layer(layer)
    if call is None or layer.kind.name not in PRODUCT_KINDS:
        return step_of(layer, program, constants).labels.known
    product = product_of(layer, call, program.target)
    stages = stages_of(product.stages, layer.core_types[0], program.target)
    found = arithmetic(call.op, program.target)
    return worst([static_label(found, typed_operands(layer, call), call), *product.labels, *stages.labels])
