"""`Tensor`: the value that users hold, with an operation for every method."""

from __future__ import annotations

from aneforge.graph.methods.arithmetic_methods import ArithmeticMethods
from aneforge.graph.methods.function_methods import FunctionMethods
from aneforge.graph.methods.layer_methods import LayerMethods
from aneforge.graph.methods.shape_methods import ShapeMethods
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared

__all__ = ["Tensor"]


class Tensor(ArithmeticMethods, FunctionMethods, ShapeMethods, LayerMethods):
    """A value of a graph: lazy, immutable, of known shape.

    >>> import aneforge as af
    >>> x = af.input((1, 4))
    >>> y = (x * 2.0 + 1.0).relu()
    >>> y.shape, y.op, y.srcs[0].op
    ((1, 4), 'relu', 'adds')
    """

    __slots__ = ()

    @property
    def op(self) -> str:
        """Name of the operation that makes it."""
        return self.node.op.name

    @property
    def srcs(self) -> tuple[Tensor, ...]:
        """The tensors that the operation reads."""
        return tuple(
            source if isinstance(source, Tensor) else Tensor(source.node, source.index)
            for source in self.node.sources()
        )

    @property
    def attrs(self) -> dict[str, object]:
        """The operation's attributes, and its constants by the names of their operands, as arrays.

        A weight without values is not there.
        """
        constants = {
            name: value.dense()
            for name, value in self.node.values()
            if isinstance(value, Constant) and not isinstance(value, Declared)
        }
        return {**self.node.attributes, **constants}

    def __repr__(self) -> str:
        return f"<tensor {self.type} of {self.op}>"
