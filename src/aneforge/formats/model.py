"""One front door for every model file: what it is, is found in its content, whatever its name ends with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, GraphTypeError, Location
from aneforge.formats.detection import ModelFormat, detect_format
from aneforge.graph.graph import Graph
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.formats.shared.shapes import Shapes
    from aneforge.ops.types import Array
    from aneforge.rules.rule import Finding

__all__ = ["LoadedGraph", "Remarked", "load_model"]


@dataclass(frozen=True, slots=True)
class Remarked:
    """A graph that was read, and what the author of its file should know."""

    graph: Graph
    findings: tuple[Finding, ...]


class LoadedGraph(Graph):
    """A graph that was read from a model file; it says which one, of which format, and what its author should know."""

    format: ModelFormat
    path: str
    findings: tuple[Finding, ...]

    def __init__(self, read: Graph | Remarked, found: ModelFormat, path: str) -> None:
        graph, findings = (read.graph, read.findings) if isinstance(read, Remarked) else (read, ())
        super().__init__(graph.outputs, graph.states)
        object.__setattr__(self, "format", found)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "findings", findings)

    def __repr__(self) -> str:
        return f"<{self.format} {self.path}: {super().__repr__().strip('<>')}>"


def load_model(
    path: str | os.PathLike[str],
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
    function: str | None = None,
) -> LoadedGraph:
    """Read a model of any known format into a graph; `format` of the graph names the format.

    The formats are ONNX, ML packages and bare Core ML model files, MIL text, network descriptions in XML or binary
    form, programs that `torch.export.save` wrote, and compiled containers whose tasks are all understood. `shapes`
    sets the shapes of inputs with flexible shapes (and the lengths of symbolic dimensions), `values` makes inputs
    constants, and `function` selects one of several, each if the format supports it.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = af.save_mil(af.input((1, 4), name="x").relu(), folder)
    ...     graph = af.load_model(path)
    >>> print(graph.format)
    MIL text
    >>> [node.op.name for node in graph.nodes]
    ['input', 'relu']

    Raises:
        GraphError: There is no model, its format is not known, or it cannot be read.
        HwxError: A container is damaged, or a task of it is not understood; the error names the task and the register.
        ImportError: A package that the format needs is not installed; the message has the line that installs it.
    """
    if not isinstance(path, str) and not hasattr(path, "__fspath__"):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError(
            "a model is loaded from a path",
            seen=type(path).__name__,
            remedy="af.from_torch(module, (example,)) reads a module of PyTorch; af.compile takes a graph as it is",
        )
    file = Path(path)
    found = detect_format(file)
    options = {"shapes": shapes, "values": values, "function": function}
    given = {name: option for name, option in options.items() if option is not None}
    takes, read = READERS[found]
    for name in given:
        if name not in takes:
            raise GraphError(
                f"{name}= cannot be used with a file of this format",
                location=Location(str(file)),
                seen=f"{found}",
                limit=", ".join(takes) or "no options",
            )
    return LoadedGraph(read(file, given), found, str(file))


def read_onnx(file: Path, given: Mapping[str, object]) -> Graph:
    """Read an ONNX model."""
    from aneforge.formats.onnx.onnx_model import from_onnx  # noqa: PLC0415 - it needs onnx

    shapes, values = cast("Shapes | None", given.get("shapes")), cast("Mapping[str, Array] | None", given.get("values"))
    return from_onnx(file, shapes, values=values)


def read_package(file: Path, given: Mapping[str, object]) -> Remarked:
    """Read an ML package, or a Core ML model file."""
    from aneforge.formats.mlpackage.mlpackage_model import load_mlpackage  # noqa: PLC0415 - loaded when it is needed

    return Remarked(
        *load_mlpackage(file).read_function(
            cast("str | None", given.get("function")),
            cast("Mapping[str, Sequence[int]] | None", given.get("shapes")) or {},
            cast("Mapping[str, Array] | None", given.get("values")) or {},
            port_casts=True,
        )
    )


def read_mil(file: Path, given: Mapping[str, object]) -> Remarked:
    """Read MIL text."""
    from aneforge.formats.mil.program import load_mil  # noqa: PLC0415 - loaded when it is needed

    program = load_mil(file)
    named = cast("str | None", given.get("function"))
    function = named or ("main" if "main" in program.functions else next(iter(program.functions)))
    shapes = cast("Mapping[str, Sequence[int]] | None", given.get("shapes"))
    return Remarked(program.graph(function, shapes=shapes), program.findings(function, shapes=shapes))


def read_netplist(file: Path, given: Mapping[str, object]) -> Graph:
    """Read a network description."""
    from aneforge.formats.netplist.reading import load_netplist  # noqa: PLC0415 - loaded when it is needed

    return load_netplist(file, procedure=cast("str | None", given.get("function")))


def read_exported(file: Path, given: Mapping[str, object]) -> Graph:
    """Read a program that torch.export.save wrote."""
    from aneforge.formats.torch.torch_model import from_torch  # noqa: PLC0415 - it needs torch

    return from_torch(file, shapes=cast("Shapes | None", given.get("shapes")))


def read_container(file: Path, given: Mapping[str, object]) -> Graph:
    """Read a compiled container; it has fixed shapes and takes no options."""
    from aneforge.formats.hwx.interpreter.lifting import from_hwx  # noqa: PLC0415 - loaded when it is needed

    del given
    return from_hwx(file)


READERS: Mapping[ModelFormat, tuple[tuple[str, ...], Callable[[Path, Mapping[str, object]], Graph | Remarked]]] = {
    ModelFormat.ONNX: (("shapes", "values"), read_onnx),
    ModelFormat.ML_PACKAGE: (("shapes", "values", "function"), read_package),
    ModelFormat.ML_MODEL: (("shapes", "values", "function"), read_package),
    ModelFormat.MIL: (("shapes", "function"), read_mil),
    ModelFormat.NETPLIST: (("function",), read_netplist),
    ModelFormat.EXPORTED: (("shapes",), read_exported),
    ModelFormat.HWX: ((), read_container),
}
"""The options that each format takes, and its reader."""
