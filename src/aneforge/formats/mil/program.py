"""A MIL program that was read: its functions, each of them as a graph, and its text."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.formats.mil.binding import bind_inputs
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.metadata import build_info, hints_of
from aneforge.formats.mil.mil_weights import WeightsStore
from aneforge.formats.mil.parsing import parse_program
from aneforge.formats.mil.printing import program_text
from aneforge.formats.mil.reader import FunctionReader
from aneforge.formats.mil.source import TextSource
from aneforge.formats.mil.text_rules import NOT_TEXT

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from aneforge.formats.mil.diagnostics import MilFinding
    from aneforge.formats.mil.mil_weights import Weights
    from aneforge.formats.mil.syntax import Program
    from aneforge.graph.graph import Graph

__all__ = ["MilProgram", "from_mil", "load_mil", "parse_mil"]

MODEL_FILE = "model.mil"
UNNAMED_FILE = "MIL text"
ShapeKey = tuple[tuple[str, tuple[int, ...]], ...]
"""Shapes of inputs, by name."""


class MilProgram:
    """A MIL program: functions that can be read into graphs. `str` gives its text, as it was but for spaces.

    >>> program = parse_mil('''program(1.3) { func main<ios18>(tensor<fp16, [2]> x) {
    ...     tensor<fp16, [2]> y = relu(x = x)[name = string("y")];
    ... } -> (y); }''')
    >>> program.graph()
    <graph of 2 nodes: x -> y>
    """

    def __init__(self, syntax: Program, source: str, file: str, weights: WeightsStore) -> None:
        self.syntax = syntax
        self.source = source
        """The text that was read."""
        self.file = file
        self.weights = weights
        self._read: dict[tuple[str, bool, ShapeKey], tuple[Graph, tuple[MilFinding, ...]]] = {}

    @property
    def version(self) -> str:
        """The version that the program states."""
        return self.syntax.version

    @property
    def functions(self) -> Mapping[str, str]:
        """The opsets of the functions, by name."""
        return {name: function.opset for name, function in self.syntax.functions.items()}

    @cached_property
    def build_info(self) -> Mapping[str, str]:
        """What compilers wrote about themselves."""
        try:
            return build_info(self.syntax)
        except MilError as error:
            error.locate(self.source, self.file)
            raise

    def graph(
        self,
        function: str = "main",
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        port_casts: bool = True,
    ) -> Graph:
        """Return a function as a graph.

        Inputs with axes of unknown length, written `?`, need `shapes`, by name. Without `port_casts`, inputs of fp32
        that are only cast to fp16 are inputs of fp16, and outputs that are casts from fp16 to fp32 are outputs of fp16:
        the host is to cast.

        >>> text = '''program(1.3) { func main<ios18>(tensor<fp32, [2]> x) {
        ...     tensor<fp16, [2]> x16 = cast(dtype = string("fp16"), x = x)[name = string("x16")];
        ... } -> (x16); }'''
        >>> [str(one.types[0]) for one in parse_mil(text).graph(port_casts=False).nodes]
        ['fp16[2]']

        Raises:
            UnknownNameError: The program has no such function, or no such input.
            GraphError: An input has a different shape than the one that is given.
            MilError: The function, or its weights, cannot be read.
        """
        return self._reading(function, shapes or {}, port_casts=port_casts)[0]

    def findings(
        self,
        function: str = "main",
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        port_casts: bool = True,
    ) -> tuple[MilFinding, ...]:
        """Return what the author of a function should know of it, in the order of the text.

        Raises:
            AneforgeError: As for `graph`.
        """
        return self._reading(function, shapes or {}, port_casts=port_casts)[1]

    def __str__(self) -> str:
        return program_text(self.syntax)

    def __repr__(self) -> str:
        return f"<MIL program of {', '.join(f'{name}<{opset}>' for name, opset in self.functions.items())}>"

    def _reading(
        self, function: str, shapes: Mapping[str, Sequence[int]], *, port_casts: bool
    ) -> tuple[Graph, tuple[MilFinding, ...]]:
        if function not in self.syntax.functions:
            raise UnknownNameError.of("function", function, self.syntax.functions)
        chosen = bind_inputs(self.syntax.functions[function], shapes, self.file)
        key = function, port_casts, tuple((name, tuple(shape)) for name, shape in sorted(shapes.items()))
        if key not in self._read:
            try:
                hints = hints_of(self.syntax, function)
            except MilError as error:
                error.locate(self.source, self.file)
                raise
            place = TextSource(self.source, self.file)
            reader = FunctionReader(chosen, place, self.weights, hints, port_casts=port_casts)
            self._read[key] = reader.graph(), tuple(reader.findings)
        return self._read[key]


def parse_mil(text: str, weights: Weights = None, *, file: str = UNNAMED_FILE) -> MilProgram:
    """Read a MIL program from its text; `weights` says where its weights are.

    >>> text = '''program(1.3) { func main<ios18>(tensor<fp16, [2]> x) {
    ...     tensor<fp16, [2]> y = mul(x = x, y = fp16(0x1.8p+0))[name = string("y")];
    ... } -> (y); }'''
    >>> import aneforge as af
    >>> af.reference(parse_mil(text).graph(), [[2.0, 4.0]])["y"].tolist()
    [3.0, 6.0]

    Raises:
        MilError: The text is not a program: the error has the rule, line, column, what was expected and what was found.
        GraphTypeError: It is not text, or the weights are in no form that is known.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("a MIL program is read from text", seen=type(text).__name__, remedy="load_mil reads files")
    store = WeightsStore(weights)
    try:
        return MilProgram(parse_program(text), text, file, store)
    except MilError as error:
        error.locate(text, file)
        raise


def load_mil(path: str | os.PathLike[str], weights: Weights = None) -> MilProgram:
    """Read a MIL program from a file, or from a folder that has a model.mil; its weights are next to it unless given.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "model.mil").write_text('''program(1.3) { func main<ios18>(tensor<fp16, [2]> x) {
    ...         tensor<fp16, [2]> y = relu(x = x)[name = string("y")];
    ...     } -> (y); }''')
    ...     load_mil(folder)
    <MIL program of main<ios18>>

    Raises:
        MilError: It is not a program.
        GraphError: The text of a program is given instead of its path.
        OSError: The file cannot be opened.
    """
    expect_path(path)
    file = Path(path)
    if file.is_dir():
        file /= MODEL_FILE
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        fault = NOT_TEXT.broken(0, found=f"byte 0x{error.object[error.start]:02x} at {error.start}", expected="UTF-8")
        fault.locate("", str(file))
        raise fault from None
    return parse_mil(text, file.parent if weights is None else weights, file=str(file))


def expect_path(path: str | os.PathLike[str]) -> None:
    """Check that a path is not the text of a program.

    Raises:
        GraphError: It is.
    """
    if isinstance(path, str) and ("\n" in path or "{" in path) and path.lstrip().startswith("program"):
        raise GraphError(
            "a MIL program is read from a file here, and its text was given",
            seen=f"{path.strip()[:40]!r}…",
            limit="the path of a file or folder",
            remedy="aneforge.formats.mil.program.parse_mil(text).graph() reads a program from its text",
        )


def from_mil(
    path: str | os.PathLike[str],
    weights: Weights = None,
    *,
    function: str = "main",
    shapes: Mapping[str, Sequence[int]] | None = None,
    port_casts: bool = True,
) -> Graph:
    """Read a function of a MIL program into a graph; `load_mil` gives the whole program.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "model.mil").write_text('''program(1.3) { func main<ios18>(tensor<fp16, [2]> x) {
    ...         tensor<fp16, [2]> y = relu(x = x)[name = string("y")];
    ...     } -> (y); }''')
    ...     from_mil(folder)
    <graph of 2 nodes: x -> y>

    Raises:
        MilError: It is not a program, or the function cannot be read.
        UnknownNameError: The program has no such function, or no such input.
        GraphError: The given shape of an input is wrong, or the text of a program is given instead of its path.
        OSError: The file cannot be opened.
    """
    program = load_mil(path, weights)
    return program.graph(function, shapes=shapes, port_casts=port_casts)
