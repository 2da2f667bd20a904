"""The symbols of a network and what they stand for: inputs, constants and units, each made when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import AneforgeError, GraphError
from aneforge.formats.netplist.keys import unknown_name
from aneforge.formats.netplist.layer import Layer
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.schema import layer_table
from aneforge.formats.netplist.units import READERS
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.document import Network, Unit
    from aneforge.formats.netplist.netplist_weights import WeightFiles
    from aneforge.graph.node import Value

__all__ = ["Wiring"]


class Wiring:
    """A network with values for its inputs."""

    def __init__(self, network: Network, inputs: Mapping[str, Tensor], weights: WeightFiles) -> None:
        self.network = network
        self.weights = weights
        self.units = {unit.name: unit for unit in network.units}
        self.values: dict[str, Value] = dict(inputs)
        for constant in network.constants:
            self.refuse_input(constant.symbol)
            self.values[constant.symbol] = weights.constant(network, constant)
        for unit in network.units:
            self.refuse_input(unit.name)
        self.check_symbols()

    def refuse_input(self, symbol: str) -> None:
        """Check that a symbol is not that of an input as well.

        Raises:
            GraphError: It is.
        """
        if symbol in self.values:
            raise GraphError(
                "an input has the name of a unit or a constant",
                location=self.network.location,
                seen=quote_value(symbol),
            )

    def check_symbols(self) -> None:
        """Check that every symbol that is read stands for something.

        Raises:
            UnknownNameError: One does not.
        """
        readers = [
            *((bottom, unit.location) for unit in self.network.units for bottom in unit.bottoms),
            *((output.bottom, output.location) for output in self.network.outputs),
        ]
        for symbol, location in readers:
            if symbol not in self.values and symbol not in self.units:
                raise unknown_name("symbol", symbol, [*self.values, *self.units], location)

    def outputs(self) -> dict[str, Tensor]:
        """Return what the network shows, by symbol.

        Raises:
            GraphError: Units wait for each other in a circle, or one does not fit its tensors.
        """
        for unit in self.network.units:
            self.make(unit)
        found: dict[str, Tensor] = {}
        for output in self.network.outputs:
            value = self.values[output.bottom]
            dtype = layer_table().element_types[output.type].dtype
            if value.type.dtype != dtype:
                raise GraphError(
                    f"output {quote_value(output.symbol)} is of another element type",
                    location=output.location,
                    seen=output.type,
                    limit=value.type.dtype,
                )
            if not isinstance(value, Tensor):  # a graph shows only tensors
                value = Tensor(build("identity", {"x": value}, {}, output.location))
            found[output.symbol] = value
        return found

    def make(self, unit: Unit) -> None:
        """Make a unit, after all units that it waits for, without recursion.

        Raises:
            GraphError: Units wait for each other in a circle.
        """
        waiting: dict[str, None] = {}
        stack = [unit.name]
        while stack:
            name = stack[-1]
            if name in self.values:
                stack.pop()
                waiting.pop(name, None)
                continue
            missing = [bottom for bottom in self.units[name].bottoms if bottom not in self.values]
            if not missing:
                self.values[name] = self.read(self.units[name])
                continue
            if name in waiting:
                raise self.circle([*waiting], name)
            waiting[name] = None
            stack.extend(missing)

    def circle(self, waiting: list[str], again: str) -> GraphError:
        """Return the error for units that wait for each other."""
        names = waiting[waiting.index(again) :]
        return GraphError(
            "units form a cycle",
            location=self.units[names[0]].location,
            seen=" -> ".join(quote_value(name) for name in names[:8]),
        )

    def read(self, unit: Unit) -> Value:
        """Return the value of a unit; the location of an operation's error is that of the unit.

        Raises:
            GraphError: It does not fit its tensors.
        """
        bottoms = [self.values[bottom] for bottom in unit.bottoms]
        layer = Layer(unit, bottoms, self.network, self.weights)
        for bottom, stated, value in zip(unit.bottoms, unit.input_types, bottoms, strict=True):
            dtype = layer_table().element_types[stated].dtype
            if value.type.dtype != dtype:
                raise layer.error(
                    f"InputType of {quote_value(bottom)} is not what it holds", seen=stated, limit=value.type.dtype
                )
        try:
            return layer.checked(READERS[unit.type](layer))
        except AneforgeError as error:
            error.location = error.location or unit.location
            raise
