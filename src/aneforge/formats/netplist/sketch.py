"""Network descriptions put together by hand, key by key: for tests, examples and fuzzing.

Nothing is checked here, so that a sketch can also be wrong on purpose.
"""

from __future__ import annotations

import plistlib
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.netplist.schema import DIMENSIONS, layer_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.ops.types import Array

__all__ = ["Plain", "Sketch", "one_unit"]

Plain = bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"]
"""What a property list holds."""


class Sketch:
    """A description of one network and one procedure, with its weights files.

    >>> from aneforge.formats.netplist.reading import parse_netplist
    >>> sketch = Sketch()
    >>> sketch.input("x", {"channel": 3, "width": 4})
    >>> sketch.unit("u", "Neuron", ["x"], {"Type": "ReLU"})
    >>> sketch.output("y", "u")
    >>> [node.op.name for node in parse_netplist(sketch.data(), sketch.weights).nodes]
    ['input', 'relu']
    """

    def __init__(self, network: str = "net") -> None:
        self.name = network
        self.network: dict[str, Plain] = {"Units": [], "Weights": ["weights.0", "weights.1"]}
        self.inputs: list[Plain] = []
        self.outputs: list[Plain] = []
        self.procedure: dict[str, Plain] = {
            "Name": "main",
            "InputList": self.inputs,
            "OperationList": [{"NetworkName": network, "OperationName": "op0"}],
            "OutputList": self.outputs,
        }
        self.root: dict[str, Plain] = {
            "Version": layer_table().version,
            "Networks": [network],
            "ProcedureList": [self.procedure],
            network: self.network,
        }
        self.payload = bytearray()

    @property
    def weights(self) -> dict[str, bytes]:
        """The weights files by name."""
        return {"weights.0": b"", "weights.1": bytes(self.payload)}

    @property
    def units(self) -> list[Plain]:
        """The names of the units, in order."""
        return cast("list[Plain]", self.network["Units"])

    def input(self, symbol: str, extents: Mapping[str, int] | None = None, element_type: str = "Float16") -> None:
        """Add an input; extents by the names of dimensions, and 1 where none is given."""
        given = extents or {}
        keys: dict[str, Plain] = {
            entry.extent: given.get(name.lower(), 1) for name, entry in layer_table().dimensions.items()
        }
        names: dict[str, Plain] = {"InputName": symbol, "Name": symbol, "OperationName": "op0"}
        self.inputs.append({**keys, **names, "InputInterleave": 1, "InputType": element_type})

    def constant(self, symbol: str, values: Array, **others: Plain) -> None:
        """Add a constant of five axes: batch, channel, depth, height, width."""
        batch, channel, depth, height, width = values.shape
        names = {"float16": "Float16", "uint16": "UInt16", "uint8": "UInt8", "int8": "Int8"}
        constants = cast("list[Plain]", self.network.setdefault("Constants", []))
        constants.append(symbol)
        self.network[symbol] = {
            "ConstantBatchSize": batch,
            "ConstantByteOffset": self.put(values),
            "ConstantChannels": channel,
            "ConstantDepth": depth,
            "ConstantHeight": height,
            "ConstantIndex": 1,
            "ConstantInterleave": 1,
            "ConstantName": symbol,
            "ConstantType": names[values.dtype.name],
            "ConstantWidth": width,
            **others,
        }

    def put(self, values: Array) -> int:
        """Append an array to the weights file, and return where it begins."""
        offset = len(self.payload)
        self.payload += np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
        return offset

    def unit(
        self, name: str, kind: str, bottoms: Sequence[str], params: Mapping[str, Plain] | None = None, **others: Plain
    ) -> None:
        """Add a unit; other keys of it are given by name."""
        self.units.append(name)
        self.network[name] = {
            "Name": name,
            "Type": kind,
            "Bottom": list(bottoms),
            "Params": dict(params or {}),
            "OutputType": "Float16",
            **others,
        }

    def output(self, symbol: str, bottom: str, element_type: str = "Float16") -> None:
        """Add an output of the network and of the procedure."""
        self.network[symbol] = {"Bottom": bottom, "OutputName": symbol, "OutputType": element_type}
        self.outputs.append({"Name": symbol, "OperationName": "op0", "OutputName": symbol, "OutputType": element_type})

    def data(self, *, binary: bool = False) -> bytes:
        """Return the description as a property list."""
        return plistlib.dumps(self.root, fmt=plistlib.FMT_BINARY if binary else plistlib.FMT_XML)


def one_unit(
    kind: str,
    tensors: Mapping[str, Sequence[int]],
    params: Mapping[str, Plain] | None = None,
    *,
    constants: Mapping[str, Array] | None = None,
    kernel: Array | None = None,
    **others: Plain,
) -> Sketch:
    """Return a sketch of one unit that reads inputs of five extents, then constants.

    >>> [unit for unit in one_unit("Softmax", {"x": (1, 3, 1, 1, 4)}, {"Dimension": "Width"}).units]
    ['u']
    """
    sketch = Sketch()
    for symbol, shape in tensors.items():
        sketch.input(symbol, {name.lower(): extent for name, extent in zip(DIMENSIONS, shape, strict=True)})
    given = constants or {}
    for symbol, values in given.items():
        sketch.constant(symbol, values)
    own = dict(params or {})
    if kernel is not None:
        own |= {"KernelIndex": 1, "KernelOffset": sketch.put(kernel)}
    types: list[Plain] = ["Float16" for _ in tensors]
    types += ["UInt16" if values.dtype == np.uint16 else "Float16" for values in given.values()]
    sketch.unit("u", kind, [*tensors, *given], own, **{"InputType": types, **others})
    sketch.output("y", "u", str(others.get("OutputType", "Float16")))
    return sketch
