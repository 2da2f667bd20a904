"""A network description and its weights files as a loaded program with ports of bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from aneforge.compiler.compile import compile_graph, route_to
from aneforge.errors import Location, UnknownNameError
from aneforge.formats.netplist.plist import parse_plist
from aneforge.formats.netplist.reading import graph_of, map_file, port_names, read_description, readable
from aneforge.formats.netplist.schema import layer_table
from aneforge.formats.netplist.structure import document_of
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass
from aneforge.runtime.dispatch.invoker_stages import InvokerError, Stage, during
from aneforge.runtime.dispatch.invoker_surfaces import Surface, dims_of
from aneforge.runtime.executables import SoftwareEngine
from aneforge.runtime.program import LoadedProgram
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from aneforge.compiler.compile import Compiled
    from aneforge.engine.exactness import Exactness
    from aneforge.formats.netplist.document import Document, Procedure
    from aneforge.formats.netplist.netplist_weights import Buffer
    from aneforge.targets import Target

__all__ = ["LoadedNetwork", "load_network"]

ONE_BYTE_FLAGS = "RadiusSearch"
"""The layer that writes one-byte flags. Inferred from tests that run on devices; see its entry in layers.toml."""


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network description that is ready to run."""

    loaded: LoadedProgram
    inputs: Mapping[str, Surface]
    """By symbol; those that no output depends on are among them."""
    outputs: Mapping[str, Surface]
    compile_ms: float
    load_ms: float

    @property
    def exactness(self) -> Exactness:
        """How sure the outputs of the last execution are."""
        return (self.loaded.label or self.loaded.executable.label).exactness

    def set_input(self, symbol: str, data: bytes) -> None:
        """Put the bytes of an input into its port; what no output depends on has none."""
        if symbol in self.loaded.inputs:
            self.loaded.input_view(symbol)[...] = self.inputs[symbol].decode(data)

    def execute(self) -> float:
        """Run once, and return the microseconds that it took.

        Raises:
            InvokerError: The engine refused to compute.
        """
        begin = time.perf_counter()
        with during(Stage.EVAL):
            self.loaded.execute()
        return (time.perf_counter() - begin) * 1e6

    def output(self, symbol: str) -> bytes:
        """Return the bytes of an output of the last execution."""
        return self.outputs[symbol].encode(self.loaded.output_view(symbol))

    def raw_output(self, symbol: str, nbytes: int | None = None) -> bytes:
        """Return the bytes of an output's surface.

        Raises:
            InvokerError: It has no such surface.
        """
        return self.outputs[symbol].encode_raw(self.loaded.output_view(symbol), nbytes)

    def check_symbols(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Check that ports exist, and that no input of the program is left without a value.

        Raises:
            InvokerError: One does not, or one is.
        """
        with during(Stage.SYMBOL):
            for what, symbols, known in (("input", inputs, self.inputs), ("output", outputs, self.outputs)):
                for symbol in symbols:
                    if symbol not in known:
                        raise UnknownNameError.of(f"{what} symbol", symbol, known)
        missing = [repr(symbol) for symbol in self.inputs if symbol in self.loaded.inputs and symbol not in inputs]
        if missing:
            raise InvokerError(Stage.SYMBOL, f"every input must have a value; missing: {', '.join(missing)}")


def load_network(description: Path, weights: Sequence[Path]) -> LoadedNetwork:
    """Compile the first procedure of a description for the target of this process, and load it.

    Raises:
        InvokerError: A step failed; the error has the step.
    """
    with during(Stage.ARGUMENTS):
        target = resolve(None)
    with during(Stage.READ):
        data = read_description(description)
        files = map_weights(weights)
    with during(Stage.DESCRIPTOR):
        plist = parse_plist(data, str(description))
    begin = time.perf_counter()
    with during(Stage.COMPILE):
        document = document_of(plist, str(description))
        compiled = compile_document(document, files, target, Location(str(description)))
    compiled_at = time.perf_counter()
    with during(Stage.LOAD):
        engine = SoftwareEngine(compiled.program)
        loaded = LoadedProgram(compiled.program, engine, compiled.supplied)
        engine.ready  # noqa: B018 - constants are decoded now, so that the first execution takes no longer than others
        inputs, outputs = surfaces_of(document, loaded)
    loaded_at = time.perf_counter()
    return LoadedNetwork(loaded, inputs, outputs, (compiled_at - begin) * 1e3, (loaded_at - compiled_at) * 1e3)


def map_weights(paths: Sequence[Path]) -> dict[str, Buffer]:
    """Return weights files by their names, which is how a description refers to them.

    Raises:
        InvokerError: Two have one name.
        GraphError: One cannot be read.
    """
    files: dict[str, Buffer] = {}
    for path in paths:
        if path.name in files:
            raise InvokerError(Stage.ARGUMENTS, f"two weights files have one name: {path.name}")
        place = Location(str(path))
        with readable(path, place):
            files[path.name] = map_file(path, place)
    return files


def compile_document(document: Document, files: Mapping[str, Buffer], target: Target, place: Location) -> Compiled:
    """Return the first procedure of a description, compiled as it is: the request of the runtime names number 0.

    Raises:
        AneforgeError: It is not a network that the target runs.
    """
    graph = graph_of(document, files, document.procedures[0].name, place)
    return compile_graph(graph, target, route=route_to(target))


def surfaces_of(document: Document, loaded: LoadedProgram) -> tuple[dict[str, Surface], dict[str, Surface]]:
    """Return the input and output ports of a loaded description, by symbol."""
    procedure = document.procedures[0]
    names = port_names("input", procedure.inputs, procedure)
    inputs: dict[str, Surface] = {}
    for entry in procedure.inputs:
        symbol = names[entry.operation, entry.symbol]
        inputs[symbol] = Surface(symbol, entry.dims, element_of(entry.type), entry.interleave)
    names, flags = port_names("output", procedure.outputs, procedure), outputs_of_flags(document, procedure)
    outputs: dict[str, Surface] = {}
    for entry in procedure.outputs:
        place = entry.operation, entry.symbol
        symbol = names[place]
        dims = dims_of(loaded.outputs[symbol].type.shape)
        outputs[symbol] = Surface(symbol, dims, element_of(entry.type), entry.interleave, place in flags)
    return inputs, outputs


def element_of(stated: str) -> np.dtype[Any]:
    """Return the element type that a description calls by a name."""
    return numpy_dtype(layer_table().element_types[stated].dtype)


def outputs_of_flags(document: Document, procedure: Procedure) -> set[tuple[str, str]]:
    """Return the outputs, by operation and symbol, that show the flags of a layer as it writes them."""
    networks = {network.name: network for network in document.networks}
    return {
        (operation.name, shown.symbol)
        for operation in procedure.operations
        for shown in networks[operation.network].outputs
        for unit in networks[operation.network].units
        if unit.name == shown.bottom and unit.type == ONE_BYTE_FLAGS
    }
