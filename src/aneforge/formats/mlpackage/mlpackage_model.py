"""An ML package that was read: its functions, each of them as a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, Location, NotSupportedError, UnknownNameError
from aneforge.formats.mil.binding import bind_inputs, held_type
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.literals import scalar_of
from aneforge.formats.mil.metadata import hints_of
from aneforge.formats.mil.mil_weights import MODEL_PATH, NO_FILE, OUTSIDE, WeightsStore
from aneforge.formats.mil.reader import FunctionReader
from aneforge.formats.mil.syntax import Blob, Tuple, ValueType
from aneforge.formats.mlpackage.flexible import flexible_inputs, list_inputs
from aneforge.formats.mlpackage.messages import messages
from aneforge.formats.mlpackage.mlpackage_files import MOST_MODEL, inside, model_file, read_limited
from aneforge.formats.mlpackage.sizes import check_stated_sizes
from aneforge.formats.mlpackage.translation import translate_program
from aneforge.ops.constant import Dense
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.formats.mil.diagnostics import MilFinding
    from aneforge.formats.mil.syntax import Function, NamedType, Program, Statement
    from aneforge.formats.mlpackage.flexible import Flexibility
    from aneforge.formats.mlpackage.messages import Model
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array

__all__ = ["MlPackage", "from_mlpackage", "load_mlpackage", "parse_model"]

KINDS = {
    "neuralNetwork": "neural network",
    "neuralNetworkClassifier": "neural network",
    "neuralNetworkRegressor": "neural network",
    "pipeline": "pipeline of models",
    "pipelineClassifier": "pipeline of models",
    "pipelineRegressor": "pipeline of models",
}
"""Words for other models than ML programs."""


class MlPackage:
    """An ML program: functions that can be read into graphs.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = af.save_mlpackage(af.input((1, 4), name="x").relu(), Path(folder, "small.mlpackage"))
    ...     package = load_mlpackage(path)
    ...     package, package.graph()
    (<ML program of main<ios16>>, <graph of 2 nodes: x -> y>)
    """

    def __init__(self, model: Model, file: str, root: Path | None, folder: Path | None) -> None:
        kind = model.WhichOneof("Type")
        if kind != "mlProgram":
            raise NotSupportedError(
                "the file is a Core ML model, and has no ML program",
                location=Location(file),
                seen=KINDS.get(kind or "", f"a model of type {kind}") if kind else "no model",
                remedy="convert the original model again, with convert_to='mlprogram'",
            )
        self.file = file
        self.specification_version = model.specificationVersion
        self.syntax, self.source, self.notes = translate_program(model.mlProgram, file)
        described = model.description.defaultFunctionName
        names = list(self.syntax.functions)
        self.default_function = described or ("main" if "main" in names else names[0])
        """The function that is meant where none is named."""
        self.flexible = flexible_inputs(model.description, self.default_function)
        """What the description of the model says about the shapes of inputs, by function and name."""
        try:
            self.weights = WeightsStore(self._weights_files(root, folder))
        except MilError as error:
            self.source.locate(error)
            raise

    @property
    def functions(self) -> Mapping[str, str]:
        """The opsets of the functions, by name."""
        return {name: function.opset for name, function in self.syntax.functions.items()}

    def graph(
        self,
        function: str | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Array] | None = None,
        port_casts: bool = True,
    ) -> Graph:
        """Return a function as a graph; that of the package's choice where none is named.

        Inputs of flexible shapes need `shapes`, by name. Inputs that `values` gives are constants of the graph, which
        makes known what they decide, such as the begin of a slice. Without `port_casts`, inputs of fp32 that are only
        cast to fp16 are inputs of fp16, and outputs that are casts from fp16 to fp32 are outputs of fp16: the host is
        to cast.

        Raises:
            UnknownNameError: There is no such function, or no such input.
            GraphError: An input has an axis of unknown length, and `shapes` does not give it.
            MilError: The function, or its weights, cannot be read.
        """
        return self.read_function(function, shapes or {}, values or {}, port_casts=port_casts)[0]

    def findings(
        self,
        function: str | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Array] | None = None,
        port_casts: bool = True,
    ) -> tuple[MilFinding, ...]:
        """Return what the author of a function should know of it, in the order of its operations.

        Raises:
            AneforgeError: As for `graph`.
        """
        return self.read_function(function, shapes or {}, values or {}, port_casts=port_casts)[1]

    def __repr__(self) -> str:
        return f"<ML program of {', '.join(f'{name}<{opset}>' for name, opset in self.functions.items())}>"

    def read_function(
        self,
        name: str | None,
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, Array],
        *,
        port_casts: bool,
    ) -> tuple[Graph, tuple[MilFinding, ...]]:
        """Return the graph of a function, and what reading it found."""
        chosen = self.default_function if name is None else name
        if chosen not in self.syntax.functions:
            raise UnknownNameError.of("function", chosen, self.syntax.functions)
        given = {**{key: np.shape(value) for key, value in values.items()}, **shapes}
        function = self._bound(self.syntax.functions[chosen], given, self.flexible.get(chosen, {}))
        fixed = {port.name: get_fixed_value(port, values[port.name]) for port in function.inputs if port.name in values}
        try:
            hints = hints_of(self.syntax, chosen)
        except MilError as error:
            self.source.locate(error)
            raise
        reader = FunctionReader(function, self.source, self.weights, hints, port_casts=port_casts, fixed=fixed)
        graph = reader.graph()
        return graph, (*map(self.source.finding, self.notes[chosen]), *reader.findings)

    def _bound(
        self, function: Function, shapes: Mapping[str, Sequence[int]], known: Mapping[str, Flexibility]
    ) -> Function:
        """Return a function whose inputs have the shapes that are given, all of them known and allowed."""
        bound = bind_inputs(function, shapes, self.file)
        for before, port in zip(function.inputs, bound.inputs, strict=True):
            if port.name in shapes and port.name in known and not held_type(before).known:
                check_allowed(port, known[port.name], self.file)
        unknown = {port.name: held_type(port) for port in bound.inputs if not held_type(port).known}
        if unknown:
            listed = list_inputs({name: str(kind) for name, kind in unknown.items()}, known)
            example = {
                name: known[name].example(kind.shape) if name in known else kind.shape for name, kind in unknown.items()
            }
            raise GraphError(
                f"inputs have axes of unknown length: {listed}",
                location=Location(self.file),
                remedy=f"give their shapes, such as shapes={example}",
            )
        return bound

    def _weights_files(self, root: Path | None, folder: Path | None) -> dict[str, Path]:
        """Return the weights files that the program names, each checked to be inside of the package and to have room.

        Raises:
            MilError: One is not there, is outside of the package, or is too small for what the program states.
        """
        found: dict[str, Path] = {}
        for blob in blobs_of(self.syntax):
            path = str(scalar_of(blob.path))
            if path in found:
                continue
            found[path] = weights_file(path, blob.at, root, folder)
        check_stated_sizes(blobs_of(self.syntax), found)
        return found


def weights_file(path: str, at: int, root: Path | None, folder: Path | None) -> Path:
    """Return a weights file by the path that the program writes.

    Raises:
        MilError: There is no folder that it could be in, it leaves the package, or it is not there.
    """
    if root is None or folder is None:
        raise NO_FILE.broken(at, name=path, found="a model without a folder")
    relative = folder.relative_to(root).as_posix()
    try:
        return inside(root, f"{relative}/{path.removeprefix(MODEL_PATH)}", "the weights file")
    except GraphError as error:
        rule = OUTSIDE if "not inside" in error.message else NO_FILE
        raise rule.broken(at, name=path, found=error.message) from None


def check_allowed(port: NamedType, flexibility: Flexibility, file: str) -> None:
    """Check that a package allows the shape that an input was given.

    Raises:
        GraphError: It does not.
    """
    shape = held_type(port).shape
    if not flexibility.allows(shape):
        raise GraphError(
            f"input {port.name!r} has a shape that the package does not allow",
            location=Location(file),
            seen=list(shape),
            limit=flexibility,
            remedy="give one of these, or convert the model with others",
        )


def get_fixed_value(port: NamedType, value: Array) -> Dense:
    """Return the constant that stands for an input.

    Raises:
        GraphError: It is not an array of the input's type.
    """
    kind = port.type
    if not isinstance(kind, ValueType):
        raise GraphError(f"input {port.name!r} is not a tensor, and cannot be fixed", seen=kind)
    with np.errstate(all="ignore"):
        array = np.asarray(value).astype(numpy_dtype(kind.dtype))
    if not is_float(kind.dtype) and not np.array_equal(array, value):
        raise GraphError(
            f"input {port.name!r} does not hold the values given for it", seen=np.asarray(value).dtype, limit=kind
        )
    return Dense.owning(np.array(array.reshape(kind.shape)))


def blobs_of(program: Program) -> Iterator[Blob]:
    """Yield every reference into a weights blob."""
    for function in program.functions.values():
        yield from statement_blobs(function.statements)


def statement_blobs(statements: Sequence[Statement]) -> Iterator[Blob]:
    """Yield every reference into a weights blob of some statements and of the blocks inside of them."""
    for statement in statements:
        for argument in (*statement.arguments, *statement.attributes):
            values = argument.value.items if isinstance(argument.value, Tuple) else (argument.value,)
            yield from (value for value in values if isinstance(value, Blob))
        for block in statement.blocks:
            yield from statement_blobs(block.statements)


def load_mlpackage(path: str | os.PathLike[str]) -> MlPackage:
    """Read an ML package, or a bare model file whose weights are in folders next to it.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = af.save_mlpackage(af.input((1, 4), name="x").relu(), Path(folder, "small.mlpackage"))
    ...     load_mlpackage(path).functions
    {'main': 'ios16'}

    Raises:
        MissingPackageError: coremltools is not installed.
        GraphError: It is not a package, a file of it is missing or outside of it, or the model is not an ML program.
        MilError: The program cannot be read.
    """
    given = Path(path)
    messages()
    root = given if given.is_dir() else given.absolute().parent
    file = model_file(given) if given.is_dir() else inside(root, given.name, "the model file")
    content = read_limited(file, MOST_MODEL, "the model file")
    resolved = root.resolve()
    return parse_model(content, str(given), resolved, file.parent)


def parse_model(content: bytes, file: str, root: Path | None = None, folder: Path | None = None) -> MlPackage:
    """Read a model file from its bytes; `root` is the folder that its weights must not leave, `folder` where it is.

    Raises:
        MissingPackageError: coremltools is not installed.
        GraphError: It is not a model file, or has no ML program.
        MilError: The program cannot be read.
    """
    schema = messages()
    try:
        model = schema.model.FromString(content)
    except (schema.decode_error, RecursionError, MemoryError) as error:
        raise GraphError(
            f"the file is not a Core ML model: {str(error).strip() or type(error).__name__}", location=Location(file)
        ) from None
    return MlPackage(model, file, root, folder)


def from_mlpackage(
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Array] | None = None,
    port_casts: bool = True,
) -> Graph:
    """Read a function of an ML package into a graph; `load_mlpackage` gives the whole package.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = af.save_mlpackage(af.input((1, 4), name="x").relu(), Path(folder, "small.mlpackage"))
    ...     from_mlpackage(path)
    <graph of 2 nodes: x -> y>

    Raises:
        AneforgeError: As for `load_mlpackage` and `MlPackage.graph`.
    """
    package = load_mlpackage(path)
    return package.read_function(function, shapes or {}, values or {}, port_casts=port_casts)[0]
