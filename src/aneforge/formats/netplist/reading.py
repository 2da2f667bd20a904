"""Network descriptions as graphs: files in, the graph of one procedure out."""

from __future__ import annotations

import mmap
import stat
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import AneforgeError, GraphError, Location
from aneforge.formats.netplist.keys import unknown_name
from aneforge.formats.netplist.layer import warn_of_channels
from aneforge.formats.netplist.netplist_weights import WeightFiles
from aneforge.formats.netplist.plist import MOST_BYTES, quote_value
from aneforge.formats.netplist.schema import layer_table
from aneforge.formats.netplist.structure import parse_document
from aneforge.formats.netplist.wiring import Wiring
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from os import PathLike

    from aneforge.formats.netplist.document import Document, InputEntry, OutputEntry, Procedure
    from aneforge.formats.netplist.netplist_weights import Buffer
    from aneforge.graph.node import Value

DESCRIPTION_FILE = "net.plist"
"""What a description is called in a folder of its own."""

__all__ = [
    "graph_of",
    "load_netplist",
    "map_file",
    "parse_netplist",
    "plain_size",
    "port_names",
    "read_description",
    "readable",
]


def parse_netplist(
    data: bytes, weights: Mapping[str, Buffer] | None = None, *, procedure: str | None = None, file: str | None = None
) -> Graph:
    """Return the graph of a network description, XML or binary; `weights` gives its weights files by name.

    A description with several procedures has several graphs: `procedure` names the one that is meant. `file` is the
    name that errors give. A tensor of depth 1 has the axes [N, C, H, W], any other [N, C, D, H, W].

    >>> import aneforge as af
    >>> from aneforge.formats.netplist.writing import netplist
    >>> written = netplist(af.input((1, 3, 4, 4), name="image").relu())
    >>> graph = parse_netplist(written.data(), written.weights)
    >>> [node.op.name for node in graph.nodes], graph.inputs["image"].types[0].shape
    (['input', 'relu'], (1, 3, 4, 4))

    Raises:
        GraphError: It is not a network description, or its parts do not fit together; the error names the unit and,
            in an XML file, the line.
        UnknownNameError: A key, a layer type, an element type or a symbol is unknown.
        NotSupportedError: No source says what a layer or a parameter means.
    """
    document = parse_document(data, file)
    return graph_of(document, {} if weights is None else weights, procedure, Location(file))


def load_netplist(path: str | PathLike[str], *, procedure: str | None = None) -> Graph:
    """Return the graph of a network description; its weights files are in the same folder, and are mapped into memory.

    The path is that of the description, or of the folder in which it is called net.plist.

    >>> import tempfile
    >>> import aneforge as af
    >>> from aneforge.formats.netplist.writing import save_netplist
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     graph = load_netplist(save_netplist(af.input((1, 8)).tanh(), folder))
    >>> [node.op.name for node in graph.nodes]
    ['input', 'tanh']

    Raises:
        GraphError: The file cannot be read, is not a network description, or its parts do not fit together.
        UnknownNameError: A key, a layer type, an element type or a symbol is unknown.
        NotSupportedError: No source says what a layer or a parameter means.
    """
    description = Path(path)
    with readable(description, Location(str(description))):
        if description.is_dir():
            description /= DESCRIPTION_FILE
    place = Location(str(description))
    document = parse_document(read_description(description), str(description))
    names = dict.fromkeys(name for network in document.networks for name in network.weights)
    return graph_of(document, map_files(description.parent, names, place), procedure, place)


def read_description(path: Path) -> bytes:
    """Return the bytes of a description.

    Raises:
        GraphError: The file cannot be read, or is larger than any description.
    """
    place = Location(str(path))
    with readable(path, place):
        if plain_size(path, place) > MOST_BYTES:
            raise GraphError("the description is too large", location=place, limit=f"{MOST_BYTES} bytes")
        return path.read_bytes()


@contextmanager
def readable(path: Path, place: Location) -> Generator[None]:
    """Turn an error of the system about a file into one of ours.

    Raises:
        GraphError: The file cannot be read.
    """
    try:
        yield
    except GraphError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphError(f"the file cannot be read: {reason}", location=place, seen=quote_value(path.name)) from None


def plain_size(path: Path, place: Location) -> int:
    """Return the size of a plain file; anything else might never end.

    Raises:
        GraphError: It is something else.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise GraphError("it is not a plain file", location=place, seen=quote_value(path.name))
    return found.st_size


def map_files(folder: Path, names: Iterable[str], place: Location) -> Mapping[str, Buffer]:
    """Return the weights files of a folder that are there, mapped into memory; what is in others says so.

    Raises:
        GraphError: A name leads out of the folder, or is not a regular file that can be read.
    """
    files: dict[str, Buffer] = {}
    for name in names:
        if not name or name in (".", "..") or any(character in name for character in "/\\\0"):
            raise GraphError(
                "the name of a weights file is not that of a file next to the description",
                location=place,
                seen=quote_value(name),
                limit="a name without slashes",
            )
        path = folder / name
        with readable(path, place), suppress(FileNotFoundError):
            files[name] = map_file(path, place)
    return files


def map_file(path: Path, place: Location) -> Buffer:
    """Return a file mapped into memory.

    Raises:
        GraphError: It is not a regular file.
        OSError: It cannot be read.
    """
    size = plain_size(path, place)
    with path.open("rb") as opened:  # an empty file cannot be mapped
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def graph_of(
    document: Document, weights: Mapping[str, Buffer], procedure: str | None = None, place: Location | None = None
) -> Graph:
    """Return the graph of one procedure of a description.

    Raises:
        GraphError: Its parts do not fit together.
        UnknownNameError: There is no such procedure.
        NotSupportedError: No source says what a layer means.
    """
    chosen = choose_procedure(document, procedure, place)
    files = WeightFiles(weights)
    names, shown_names = port_names("input", chosen.inputs, chosen), port_names("output", chosen.outputs, chosen)
    inputs: dict[str, dict[str, Tensor]] = {operation.name: {} for operation in chosen.operations}
    for entry in chosen.inputs:
        inputs[entry.operation][entry.symbol] = placeholder(entry, names, place)
    networks = {network.name: network for network in document.networks}
    shown_symbols: dict[tuple[str, str], Tensor] = {}
    for operation in chosen.operations:
        wiring = Wiring(networks[operation.network], inputs[operation.name], files)
        for symbol, value in wiring.outputs().items():
            shown_symbols[operation.name, symbol] = value
    files.check_overlaps()
    outputs: dict[str, Tensor] = {}
    for entry in chosen.outputs:
        value = shown_symbols.get((entry.operation, entry.symbol))
        if value is None:
            known = [symbol for name, symbol in shown_symbols if name == entry.operation]
            raise unknown_name("output symbol", entry.symbol, known, chosen.location)
        check_port_type(entry.type, value, f"output {quote_value(entry.symbol)}", chosen.location)
        warn_of_channels(f"output {quote_value(entry.symbol)}", entry.channels, value)
        outputs[shown_names[entry.operation, entry.symbol]] = value
    graph = name_graph(outputs, chosen)
    warn_unread(graph, chosen, names)
    return graph


def choose_procedure(document: Document, name: str | None, place: Location | None) -> Procedure:
    """Return the procedure that is meant.

    Raises:
        UnknownNameError: There is none of that name.
        GraphError: There are several, and none was named.
    """
    known = [procedure.name for procedure in document.procedures]
    if name is not None and name not in known:
        raise unknown_name("procedure", name, known, place)
    if name is None and len(known) > 1:
        raise GraphError(
            "the description has several procedures, and each one is a graph",
            location=place,
            seen=", ".join(map(quote_value, known[:8])),
            remedy="name the one that is meant with procedure=",
        )
    return document.procedures[0 if name is None else known.index(name)]


def port_names(
    what: str, ports: Sequence[InputEntry | OutputEntry], procedure: Procedure
) -> dict[tuple[str, str], str]:
    """Return the names of ports in the graph: their symbols, with the operation where two are alike.

    Raises:
        GraphError: Two are alike still.
    """
    counts = Counter(port.symbol for port in ports)
    names: dict[tuple[str, str], str] = {}
    for port in ports:
        alone = counts[port.symbol] == 1
        names[port.operation, port.symbol] = port.symbol if alone else f"{port.operation}/{port.symbol}"
    for name, count in Counter(names.values()).items():
        if count > 1:
            raise GraphError(f"{count} {what}s have one name", location=procedure.location, seen=quote_value(name))
    return names


def placeholder(entry: InputEntry, names: Mapping[tuple[str, str], str], place: Location | None) -> Tensor:
    """Return the input of a graph for a port."""
    dtype = layer_table().element_types[entry.type].dtype
    attributes = {"shape": entry.dims.shape, "dtype": dtype, "name": names[entry.operation, entry.symbol]}
    return Tensor(build("input", {}, attributes, Location(place.file if place else None, node=entry.symbol)))


def check_port_type(stated: str, value: Value, what: str, location: Location | None) -> None:
    """Check that a port says the element type that its tensor has.

    Raises:
        GraphError: It says another.
    """
    dtype = layer_table().element_types[stated].dtype
    if value.type.dtype != dtype:
        raise GraphError(f"{what} is of another element type", location=location, seen=stated, limit=value.type.dtype)


def name_graph(outputs: Mapping[str, Tensor], procedure: Procedure) -> Graph:
    """Return a graph; the location of an error is that of the procedure."""
    try:
        return Graph(outputs)
    except AneforgeError as error:
        error.location = error.location or procedure.location
        raise


def warn_unread(graph: Graph, procedure: Procedure, names: Mapping[tuple[str, str], str]) -> None:
    """Warn of ports that nothing reads: the graph does not have them."""
    unread = [port.symbol for port in procedure.inputs if names[port.operation, port.symbol] not in graph.inputs]
    if unread:
        message = (
            f"procedure {procedure.name!r}: no output depends on {', '.join(map(quote_value, unread[:8]))}; left out"
        )
        warn(message, UserWarning)
