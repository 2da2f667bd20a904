"""Graphs as network descriptions: the document, its weights files, and the folder that they are saved in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, cast

from aneforge.errors import GraphError
from aneforge.formats.netplist.document import Document
from aneforge.formats.netplist.draft import PAYLOAD_FILE, Payload
from aneforge.formats.netplist.lowering import lower
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.reading import DESCRIPTION_FILE, graph_of
from aneforge.formats.netplist.written_plist import document_bytes
from aneforge.graph.convert import Converted
from aneforge.graph.graph import Graph, as_graph, check_name, expect_values
from aneforge.records import dataclass
from aneforge.whole_files import write_together

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from aneforge.compiler.retarget import Retargeted
    from aneforge.formats.netplist.document import Network, Procedure
    from aneforge.graph.convert import Change
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Node

__all__ = ["Described", "Netplist", "describe_graph", "netplist", "save_netplist"]

PROCEDURE = "main"
NO_NAMES = ("Version", "Networks", "ProcedureList")


@dataclass(frozen=True)
class Netplist:
    """A network description, with the weights files that it names."""

    document: Document
    changes: tuple[Change, ...] = ()
    """Where the description differs from the graph: what was built from other layers, and numbers that were rounded."""
    payload: Payload = field(default_factory=Payload, repr=False)

    @cached_property
    def weights(self) -> Mapping[str, bytes]:
        """The weights files by name."""
        names = dict.fromkeys(name for network in self.document.networks for name in network.weights)
        return MappingProxyType({name: b"".join(self.chunks(name)) for name in names})

    def chunks(self, name: str) -> Iterable[bytes | memoryview]:
        """Return a weights file in parts; the first one is empty, as the runtime expects it."""
        return self.payload.chunks if name == PAYLOAD_FILE else ()

    def data(self, *, binary: bool = False) -> bytes:
        """Return the description as a property list, XML or binary.

        >>> import aneforge as af
        >>> netplist(af.input((1, 8)).relu()).data()[:5], netplist(af.input((1, 8)).relu()).data(binary=True)[:6]
        (b'<?xml', b'bplist')

        Raises:
            GraphError: A name has a character that XML does not have.
        """
        return document_bytes(self.document, binary=binary)

    def save(self, directory: str | PathLike[str], *, binary: bool = False) -> Path:
        """Write the description and its weights files into a folder, and return the path of the description.

        All files are written under other names and renamed together, the description last.

        >>> import tempfile
        >>> import aneforge as af
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     netplist(af.input((1, 8)).relu()).save(folder).name
        'net.plist'

        Raises:
            GraphError: A name has a character that XML does not have.
            OSError: The folder cannot be written to.
        """
        data = self.data(binary=binary)
        folder = Path(directory)
        names = dict.fromkeys(name for network in self.document.networks for name in network.weights)
        description = folder / DESCRIPTION_FILE
        write_together(
            {
                **{folder / name: partial(write_chunks, self.chunks(name)) for name in names},
                description: partial(write_chunks, [data]),
            }
        )
        return description


def netplist(
    graph: GraphLike | Retargeted | Mapping[str, Graph],
    *,
    interleave: int | Mapping[str, int] = 1,
    subtract_max: bool = True,
) -> Netplist:
    """Return the network description of a graph, of one for a target, or of several graphs as procedures by name.

    `interleave` is how many channels of a port are side by side in memory: for all ports, or by their names. Without
    `subtract_max` the attention of the engine overflows in fp16, and there is a warning.

    A tensor of fewer axes than four is along the last of batch, channel, height and width. Operations without a layer
    are built from others where that means the same; `changes` of the result says which.

    >>> import aneforge as af
    >>> written = netplist(af.input((1, 8)).silu())
    >>> [unit.type for unit in written.document.networks[0].units], written.changes[0].detail
    (['Neuron', 'ElementWise'], 'x · sigmoid(x)')

    Raises:
        NotSupportedError: A description cannot express an operation; the error names the nearest form.
        GraphError: A number has no fp16, a tensor is empty, or a port or procedure has no such name.
    """
    payload = Payload()
    networks: list[Network] = []
    procedures: list[Procedure] = []
    changes: list[Change] = []
    for name, one in name_graphs(graph).items():
        expect_values(one, "a network description")
        made = lower(one, name, payload, subtract_max=subtract_max)
        networks.append(made.network)
        procedures.append(made.procedure)
        changes += made.changes
    document = with_interleave(Document(tuple(networks), tuple(procedures)), interleave)
    return Netplist(document, tuple(changes), payload)


@dataclass(frozen=True, slots=True)
class Described:
    """A graph as a network description says it, before it is written."""

    graph: Graph
    """What a reader of the description gets."""
    written: Graph
    """The operations that its units were written for."""
    changes: tuple[Change, ...]
    sources: Mapping[int, Node] = field(repr=False)

    def source(self, node: Node) -> Node | None:
        """Return the operation that a node of the graph was written for; an input is written for none."""
        return self.sources.get(id(node.location))


def describe_graph(graph: Graph) -> Described:
    """Return what the network description of a graph says: four axes, broadcasts and views as units of their own.

    >>> import aneforge as af
    >>> made = describe_graph(af.Graph({"y": af.input((2, 3), name="x").softmax()}))
    >>> [str(node.types[0]) for node in made.graph.nodes if made.source(node) is not None]
    ['fp16[1, 1, 2, 3]']

    Raises:
        NotSupportedError: A description cannot express an operation; the error names the nearest form.
        GraphError: A number has no fp16, or a tensor is empty.
    """
    payload = Payload()
    made = lower(graph, PROCEDURE, payload, subtract_max=True)
    document = Document((made.network,), (made.procedure,))
    read = graph_of(document, Netplist(document, payload=payload).weights)
    return Described(read, made.graph, made.changes, made.sources)


def save_netplist(
    graph: GraphLike | Retargeted | Mapping[str, Graph],
    directory: str | PathLike[str],
    binary: bool = False,  # noqa: FBT001, FBT002 - the documented signature
) -> Path:
    """Write the network description of a graph and its weights files into a folder, and return the description's path.

    >>> import tempfile
    >>> import aneforge as af
    >>> from aneforge.formats.netplist.reading import load_netplist
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     graph = load_netplist(save_netplist(af.input((1, 8), name="x").relu(), folder, binary=True))
    >>> list(graph.inputs)
    ['x']

    Raises:
        NotSupportedError: A description cannot express an operation; the error names the nearest form.
        GraphError: A number cannot be fp16, a tensor is empty, or a name has a character that is not allowed in XML.
        OSError: The folder cannot be written to.
    """
    return netplist(graph).save(directory, binary=binary)


def name_graphs(given: GraphLike | Retargeted | Mapping[str, Graph]) -> Mapping[str, Graph]:
    """Return graphs by the names of their procedures; a single one is called main.

    Raises:
        GraphError: A procedure has the name of a key of a description.
    """
    if isinstance(given, Converted):
        return {PROCEDURE: given.graph}
    if isinstance(given, Mapping) and given and all(isinstance(value, Graph) for value in given.values()):
        graphs = cast("Mapping[str, Graph]", given)
        for name in graphs:
            check_name("procedure", name)
            if name in NO_NAMES:
                raise GraphError("a procedure has the name of a key of a description", seen=quote_value(name))
        return graphs
    return {PROCEDURE: as_graph(cast("GraphLike", given))}


def with_interleave(document: Document, interleave: int | Mapping[str, int]) -> Document:
    """Return a document whose ports interleave channels.

    Raises:
        GraphError: There is no such port, or the number is none.
    """
    ports = [port for procedure in document.procedures for port in (*procedure.inputs, *procedure.outputs)]
    names = {port.symbol for port in ports}
    factors = dict(interleave) if isinstance(interleave, Mapping) else dict.fromkeys(names, interleave)
    for name, factor in factors.items():
        if name not in names:
            raise GraphError(f"there is no port {quote_value(name)}", limit=", ".join(map(quote_value, sorted(names))))
        if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphError(
                f"the interleave of port {quote_value(name)} is not an integer number of channels",
                seen=quote_value(factor),
            )
    procedures = tuple(
        replace(
            procedure,
            inputs=tuple(replace(port, interleave=factors.get(port.symbol, 1)) for port in procedure.inputs),
            outputs=tuple(replace(port, interleave=factors.get(port.symbol, 1)) for port in procedure.outputs),
        )
        for procedure in document.procedures
    )
    networks = tuple(
        replace(
            network,
            outputs=tuple(replace(output, interleave=factors.get(output.symbol, 1)) for output in network.outputs),
        )
        for network in document.networks
    )
    return replace(document, networks=networks, procedures=procedures)


def write_chunks(chunks: Iterable[bytes | memoryview], file: BinaryIO) -> None:
    """Write a file in parts."""
    file.writelines(chunks)
