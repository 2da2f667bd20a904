"""MIL text and its weights, made from graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.mil.blob import BlobWriter
from aneforge.formats.mil.constants import ConstantForms
from aneforge.formats.mil.literals import quote_text
from aneforge.formats.mil.metadata import BUILD_INFO
from aneforge.formats.mil.printing import program_text
from aneforge.formats.mil.syntax import Program, RawAttribute
from aneforge.formats.mil.writer import FunctionWriter
from aneforge.graph.convert import Converted
from aneforge.graph.graph import Graph, as_graph, expect_values
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.retarget import Retargeted
    from aneforge.formats.mil.syntax import Function
    from aneforge.graph.graph import GraphLike

__all__ = ["MilText", "mil_text", "text_beside", "to_mil"]

VERSION = "1.3"
COMPILERS = {"coremlc-component-MIL": "3520.4.1", "coremlc-version": "3520.5.1"}
"""The versions that programs state which are known to be taken (ANEForge 0.4.0)."""
WEIGHTS_PATH = "@model_path/weights.bin"


@dataclass(frozen=True, slots=True)
class MilText:
    """A program and its weights, which are not copied until they are written."""

    program: Program
    weights: BlobWriter

    @property
    def text(self) -> str:
        """The text of the program."""
        return program_text(self.program)

    def __str__(self) -> str:
        return self.text


def mil_text(
    source: GraphLike | Retargeted | Mapping[str, Graph | Retargeted],
    *,
    port_casts: bool = False,
    rounded: bool = False,
    alignment: int = 1,
) -> MilText:
    """Return a graph as MIL text with its weights; several graphs by name become functions of one program.

    With `port_casts` the ports of the program are fp32 where those of the graph are fp16, with casts, as Core ML
    requires. With `rounded` a number in the text is rounded to its element type; otherwise it keeps all digits, so that
    reading the text gives the graph's meaning back exactly. Blobs begin at multiples of `alignment`.

    >>> import aneforge as af
    >>> print(mil_text(af.input((1, 4), name="x").relu()).text.splitlines()[4].strip())
    tensor<fp16, [1, 4]> y = relu(x = x)[name = string("y")];

    Raises:
        NotSupportedError: An operation or a constant has no form in MIL.
        GraphTypeError: It is not a graph.
    """
    return text_beside(source, WEIGHTS_PATH, port_casts=port_casts, rounded=rounded, alignment=alignment)


def text_beside(
    source: GraphLike | Retargeted | Mapping[str, Graph | Retargeted],
    weights_path: str,
    *,
    port_casts: bool = False,
    rounded: bool = False,
    alignment: int = 1,
) -> MilText:
    """Return the same, with the weights in a file of another name than weights.bin."""
    blob, graphs = BlobWriter(alignment), graphs_of(source)
    forms = ConstantForms(blob, weights_path, shared=len(graphs) > 1)
    functions: dict[str, Function] = {}
    info = dict(COMPILERS)
    for name, graph in graphs.items():
        writer = FunctionWriter(name, graph, forms, port_casts=port_casts, rounded=rounded)
        functions[name] = writer.function()
        info |= writer.hints().entries(name)
    return MilText(Program(VERSION, (build_info_attribute(info),), functions), blob)


def build_info_attribute(info: Mapping[str, str]) -> RawAttribute:
    """Return build info as an attribute of a program."""
    pairs = ", ".join(f"{{{quote_text(key)}, {quote_text(value)}}}" for key, value in info.items())
    return RawAttribute(BUILD_INFO, f"dict<string, string>({{{pairs}}})")


def graphs_of(source: object) -> dict[str, Graph]:
    """Return the graphs that are to be written, by the names of their functions.

    Raises:
        GraphTypeError: It is not a graph.
        GraphError: A name is not a valid function name.
    """
    found = cast("Mapping[str, object]", source) if isinstance(source, Mapping) else dict[str, object]()
    if not any(isinstance(one, Graph | Converted) for one in found.values()):
        return {"main": write_graph(cast("object", source))}
    for name in found:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphError(f"{name!r} is not a valid function name", limit="letters, digits and underscores")
    return {name: write_graph(one) for name, one in found.items()}


def write_graph(source: object) -> Graph:
    """Return one graph whose weights have values.

    Raises:
        GraphError: A weight has none.
    """
    graph = graph_of(source)
    expect_values(graph, "a program in MIL")
    return graph


def graph_of(source: object) -> Graph:
    """Return one graph.

    Raises:
        GraphTypeError: It is none.
        NotSupportedError: It was made for the direct route, which has no MIL.
    """
    if not isinstance(source, Converted):
        return as_graph(cast("GraphLike", source))
    if source.route != "mil":
        raise NotSupportedError(
            "the direct route has no MIL programs", target=source.target, remedy="write a network description"
        )
    return source.graph


to_mil = mil_text
"""The public face's name."""
