"""A model as it comes in: a file, bytes or a message, with large weights left where they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from aneforge.callsite import warn
from aneforge.errors import GraphError, GraphTypeError, Location
from aneforge.formats.onnx.interpreter import versions_of
from aneforge.formats.onnx.ordering import find_misplaced_nodes
from aneforge.formats.onnx.rules import newest_version
from aneforge.formats.onnx.structure import check_functions, check_graph
from aneforge.formats.onnx.wire import cut_weights
from aneforge.formats.shared.shapes import in_file
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.onnx.tensors import CutData

__all__ = ["ModelSource", "ReadModel", "read_model"]

ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model whose names hold together."""

    proto: onnx.ModelProto
    file: str | None
    folder: Path | None
    cut: Mapping[int, CutData]
    """Data of initialisers that was not copied into the message, by their place."""
    versions: Mapping[str, int]


def read_model(source: ModelSource) -> ReadModel:
    """Return a model, read and its names checked.

    Raises:
        GraphError: It cannot be read, or its names do not hold together.
        GraphTypeError: The source is of another kind.
    """
    if isinstance(source, onnx.ModelProto):
        return check(source, None, None, {})
    if isinstance(source, bytes | bytearray | memoryview):
        return parse(bytes(source), None, None)
    if isinstance(source, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        path = Path(source)
        return parse(file_contents(path), str(path), path.parent)
    raise GraphTypeError(
        "a model is given by its path, its bytes or a ModelProto",
        seen=type(source).__name__,
        remedy="give one of these",
    )


def file_contents(path: Path) -> memoryview:
    """Return the bytes of a file; memory of NumPy comes in large pages, which halves the time of a large file.

    Raises:
        GraphError: It cannot be read.
    """
    try:
        contents = np.fromfile(path, np.uint8)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphError(f"the model cannot be read: {reason}", location=in_file(str(path))) from None
    contents.flags.writeable = False
    return contents.data


def parse(contents: bytes | memoryview, file: str | None, folder: Path | None) -> ReadModel:
    """Return the model that bytes hold.

    Raises:
        GraphError: They hold none.
    """
    try:
        cut = cut_weights(contents)
        proto = onnx.ModelProto.FromString(cut.rest)
    except DecodeError as error:
        raise GraphError(f"the bytes are not an ONNX model: {error}", location=in_file(file)) from None
    except GraphError as error:
        error.location = in_file(file)
        raise
    return check(proto, file, folder, cut.data)


def check(proto: onnx.ModelProto, file: str | None, folder: Path | None, cut: Mapping[int, CutData]) -> ReadModel:
    """Return a model whose names hold together.

    Raises:
        GraphError: They do not, or the model has no graph or no operator set.
    """
    location = in_file(file)
    if not proto.HasField("graph") or not proto.graph.output:
        raise GraphError("the model has no graph with an output", location=location, remedy="check that it is complete")
    if not proto.opset_import:
        raise GraphError("the model names no operator set", location=location, remedy="export it again")
    versions = versions_of(proto.opset_import)
    for domain, version in versions.items():
        check_version(domain, version, location)
    check_functions(proto.functions, file)
    check_graph(proto.graph, file)
    report_order(proto, file)
    return ReadModel(proto, file, folder, cut, versions)


def report_order(proto: onnx.ModelProto, file: str | None) -> None:
    """Warn of nodes that come before one that they read: ONNX does not allow it, though runtimes put up with it."""
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    early = [name for nodes in bodies for name in find_misplaced_nodes(nodes)]
    if early:
        warn(
            f"the nodes of {file or 'the model'} are not in order, and were sorted: {early[0]!r} reads what a node "
            f"after it makes (nodes that do: {len(early)})"
        )


def check_version(domain: str, version: int, location: Location | None) -> None:
    """Check that an operator set is one that is known.

    Raises:
        GraphError: It is older or newer.
    """
    newest = newest_version(domain)
    if newest and version > newest:
        raise GraphError(
            f"operator set {domain or 'ai.onnx'} {version} is newer than the installed onnx {onnx.__version__} knows",
            location=location,
            seen=version,
            limit=newest,
            remedy="install a newer onnx",
        )
    if version < 1:
        raise GraphError(f"operator set {domain or 'ai.onnx'} has no such version", location=location, seen=version)
