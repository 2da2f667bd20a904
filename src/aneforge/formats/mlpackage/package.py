"""An ML package: the model file with its description, the weights blob, and the manifest that names them.

The folder has the layout that coremltools writes. It appears whole or not at all: everything is written into a folder
next to it, which is renamed at the end.
"""

from __future__ import annotations

import json
import secrets
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from aneforge.callsite import warn
from aneforge.errors import GraphError, Location, NotSupportedError, PrecisionWarning
from aneforge.formats.mil.blob import BlobWriter
from aneforge.formats.mil.constants import ConstantForms
from aneforge.formats.mil.opsets import OPSETS, STATES
from aneforge.formats.mil.syntax import StateType, ValueType
from aneforge.formats.mil.text import graphs_of
from aneforge.formats.mil.writer import FunctionWriter
from aneforge.formats.mlpackage.element_types import in_package_types, with_casts
from aneforge.formats.mlpackage.messages import messages
from aneforge.formats.mlpackage.mlpackage_dialect import COREML
from aneforge.formats.mlpackage.mlpackage_files import DATA, MANIFEST, MODEL_FOLDER
from aneforge.formats.mlpackage.opsets import find_needed_opset, for_opset
from aneforge.formats.mlpackage.written_messages import round_numbers, write_build_info, write_function
from aneforge.graph.convert import convert
from aneforge.graph.graph import Graph
from aneforge.ops.constant import Palette, Sparse
from aneforge.ops.types import is_float
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from aneforge.compiler.retarget import Retargeted
    from aneforge.formats.mil.syntax import Function, Type
    from aneforge.formats.mlpackage.messages import ArrayFeature, Model, Ports
    from aneforge.graph.convert import Converted
    from aneforge.graph.graph import GraphLike

__all__ = ["save_mlpackage"]

SUFFIX = ".mlpackage"
MODEL_FILE = "model.mlmodel"
WEIGHTS_FILE = "weights/weight.bin"
SPECIFICATION = {"ios15": 6, "ios16": 7, "ios17": 8, "ios18": 9}
"""Versions of the specification by opset."""
ALIGNMENT = 64
"""Places of blobs are multiples of it, as coremltools' writer has them."""
PORT_CODES = {"fp16": "FLOAT16", "fp32": "FLOAT32", "int32": "INT32"}
"""Element types that ports of a package can have, and the schema's names for them."""
STATE_REMEDIES = {
    True: "write af.to_fp16(graph).graph, or cast what is written to the state and what is read from it",
    False: "cast what is written to the state and what is read from it, or leave the state out of the graph",
}
"""What helps a state of another element type, by whether that is a floating one."""
MOST_AXES = 5
"""Axes of a tensor at a port of Core ML."""
ITEMS = {
    MODEL_FILE: ("CoreML Model Specification", MODEL_FILE),
    "weights": ("CoreML Model Weights", "weights"),
}
"""What a manifest lists: descriptions and names, by path inside of the model's folder."""
NAMESPACE = uuid.UUID("6f0c9f0e-2f0b-5d67-9c5b-3d1f0a8b7e11")
"""Identifiers of a manifest are made in it, so that a package that is written twice is the same."""
ROOT_IDENTIFIER = str(uuid.uuid5(NAMESPACE, MODEL_FILE))
"""The identifier of the model of every package that is written here; those of other tools are drawn."""


def save_mlpackage(
    source: GraphLike | Retargeted | Mapping[str, Graph | Retargeted],
    path: str | os.PathLike[str],
    *,
    port_casts: bool = False,
) -> Path:
    """Write a graph as an ML package and return its path; several graphs by name become functions of one package.

    The opset is the lowest that has all used operations, from ios15 to ios18. With `port_casts` the ports of the
    package are fp32 where those of the graph are fp16, with casts. An existing package is replaced.

    Core ML has no tensors of 64 bits: integers become int32 and fp64 becomes fp32. Its ports cannot be booleans
    or small integers either: those become int32. A warning says so.

    >>> import tempfile
    >>> import aneforge as af
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_mlpackage(af.input((1, 4), name="x").relu(), Path(folder, "small.mlpackage"))
    ...     sorted(one.relative_to(path).as_posix() for one in path.rglob("*.*"))
    ['Data/com.apple.CoreML', 'Data/com.apple.CoreML/model.mlmodel', 'Data/com.apple.CoreML/weights/weight.bin', \
'Manifest.json']

    Raises:
        MissingPackageError: coremltools is not installed.
        NotSupportedError: An operation, a constant or a port has no form in Core ML.
        GraphError: The path cannot hold a package.
        OSError: A file cannot be written.
    """
    target = Path(path)
    check_target(target)
    taken = {name: in_package_types(given) for name, given in graphs_of(unwrap(source)).items()}
    model, blob = model_of({name: one.graph for name, one in taken.items()}, port_casts=port_casts)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        write_files(temporary, model, blob)
        put_in_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for text in dict.fromkeys(one.narrowed for one in taken.values() if one.narrowed):
        warn(text, PrecisionWarning)
    for text in dict.fromkeys(one.ports for one in taken.values() if one.ports):
        warn(text)
    return target


def check_target(target: Path) -> None:
    """Check that a package can be written to a path: Core ML asks for its ending, and nothing else is replaced.

    Raises:
        GraphError: It cannot.
    """
    if target.suffix != SUFFIX:
        raise GraphError(f"the name of an ML package ends with {SUFFIX}", seen=repr(target.name))
    if target.is_symlink() or (target.exists() and not (target / MANIFEST).is_file()):
        raise GraphError(
            "the path exists and is not an ML package", location=Location(str(target)), remedy="choose another path"
        )


def model_of(given: Mapping[str, Graph], *, port_casts: bool) -> tuple[Model, BlobWriter]:
    """Return the model file's message, and the weights that it refers to.

    Raises:
        NotSupportedError: An operation, a constant or a port has no form in Core ML.
    """
    graphs = {name: in_package_form(graph).graph for name, graph in given.items()}
    packed = any(isinstance(one, Palette | Sparse) for graph in graphs.values() for one in graph.constants.values())
    made = functions_of(graphs, port_casts=port_casts, packed=packed)
    if packed and made.opset == STATES:  # which has no packed form
        made = functions_of(graphs, port_casts=port_casts, packed=False)
    model = messages().model()
    model.specificationVersion = SPECIFICATION[made.opset]
    model.mlProgram.version = 1
    for name, function in made.functions.items():
        write_function(model.mlProgram.functions[name], for_opset(function, made.opset))
    if made.info:
        write_build_info(model.mlProgram, made.info)
    describe(model, made.functions)
    return model, made.blob


def in_package_form(graph: Graph) -> Converted:
    """Return a graph in element types of Core ML in the operations that it takes, and casts where it asks for them.

    Raises:
        NotSupportedError: Core ML has no form of an operation or of a constant.
    """
    made = convert(graph, COREML)
    return replace(made, graph=with_casts(made.graph))


def package_graph(graph: Graph) -> Converted:
    """Return what the ML package of a graph says.

    >>> import aneforge as af
    >>> made = package_graph(af.Graph({"y": af.input((1, 4), name="x").cast("bool")}))
    >>> print(made.graph.outputs["y"].type)
    int32[1, 4]

    Raises:
        NotSupportedError: Core ML has no form of an operation or of a constant.
    """
    return in_package_form(in_package_types(graph).graph)


@dataclass(frozen=True, slots=True)
class Made:
    """Functions of a package with all that belongs to them."""

    functions: dict[str, Function]
    opset: str
    info: dict[str, str]
    blob: BlobWriter


def functions_of(graphs: Mapping[str, Graph], *, port_casts: bool, packed: bool) -> Made:
    """Return graphs as functions, their compressed weights in the form of opsets before ios18 or of that one.

    Raises:
        NotSupportedError: An operation or a constant has no form in Core ML.
    """
    blob = BlobWriter(ALIGNMENT)
    forms = ConstantForms(blob, f"@model_path/{WEIGHTS_FILE}", packed=packed, shared=len(graphs) > 1)
    info: dict[str, str] = {}
    functions: dict[str, Function] = {}
    needed = [STATES if list(graphs) != ["main"] else OPSETS[0]]
    for name, graph in graphs.items():
        writer = FunctionWriter(name, graph, forms, port_casts=port_casts, rounded=False, for_package=True)
        functions[name] = writer.function()
        hints = replace(writer.hints(), numbers=round_numbers(functions[name]))
        info |= hints.entries(name)
        needed.append(find_needed_opset(functions[name], writer.places))
    return Made(functions, max(needed), info, blob)


def unwrap(source: object) -> object:
    """Return the graph of a compiled model, and anything else as it is."""
    graph = getattr(source, "graph", None)
    return graph if isinstance(graph, Graph) else source


def describe(model: Model, functions: Mapping[str, Function]) -> None:
    """Describe the ports: those of the one function, or of each of several."""
    if list(functions) == ["main"]:
        describe_ports(cast("Ports", model.description), functions["main"])
        return
    model.description.defaultFunctionName = "main" if "main" in functions else next(iter(functions))
    for name, function in functions.items():
        ports = model.description.functions.add()
        ports.name = name
        describe_ports(ports, function)


def describe_ports(ports: Ports, function: Function) -> None:
    """Describe the ports of a function.

    Raises:
        NotSupportedError: Core ML has no port of that type.
    """
    kinds: dict[str, Type] = {
        result.name: result.type for statement in function.statements for result in statement.results
    }
    kinds |= {port.name: port.type for port in function.inputs}
    for port in function.inputs:
        if isinstance(port.type, StateType):
            feature = ports.state.add()
            array = feature.type.stateType.arrayType
            if port.type.held.dtype != "fp16":
                raise NotSupportedError(
                    f"state {port.name!r} is of a type that Core ML has no states of",
                    seen=port.type.held,
                    limit="fp16",
                    remedy=STATE_REMEDIES[is_float(port.type.held.dtype)],
                )
        else:
            feature = ports.input.add()
            array = feature.type.multiArrayType
        feature.name = port.name
        describe_array(array, port.name, port.type, least_axes=1)
    for output in function.outputs:
        feature = ports.output.add()
        feature.name = output.name
        describe_array(feature.type.multiArrayType, output.name, kinds[output.name], least_axes=0)


def describe_array(array: ArrayFeature, name: str, kind: Type, *, least_axes: int) -> None:
    """Describe an array at a port; an output may be one number, whose shape coremltools leaves empty.

    Raises:
        NotSupportedError: Core ML has no port of that type.
    """
    held = kind.held if isinstance(kind, StateType) else kind
    tensor = isinstance(held, ValueType) and least_axes <= held.rank <= MOST_AXES and 0 not in held.shape
    if not isinstance(held, ValueType) or not tensor or held.dtype not in PORT_CODES:
        raise NotSupportedError(
            f"port {name!r} is of a type that no port of Core ML has",
            seen=held,
            limit=f"{least_axes} to {MOST_AXES} axes, none empty, of {', '.join(PORT_CODES)}",
            remedy="cast or reshape it inside of the graph",
        )
    array.shape.extend(list(held.shape))
    array.dataType = messages().array_codes[PORT_CODES[held.dtype]]


def write_files(folder: Path, model: Model, blob: BlobWriter) -> None:
    """Write the files of a package."""
    inner = folder / DATA / MODEL_FOLDER
    weights = inner / WEIGHTS_FILE
    weights.parent.mkdir(parents=True)
    content = model.SerializeToString(deterministic=True)
    (inner / MODEL_FILE).write_bytes(content)
    with weights.open("xb") as file:
        blob.write_to(file)
    identifiers = {name: str(uuid.uuid5(NAMESPACE, name)) for name in ITEMS}
    manifest = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": {
            identifiers[name]: {
                "author": MODEL_FOLDER,
                "description": description,
                "name": shown,
                "path": f"{MODEL_FOLDER}/{name}",
            }
            for name, (description, shown) in ITEMS.items()
        },
        "rootModelIdentifier": ROOT_IDENTIFIER,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=4) + "\n", encoding="utf-8")


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a written package to its path; one that was there is moved aside first, and back if that is not done."""
    if not target.exists():
        temporary.rename(target)
        return
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    target.rename(aside)
    try:
        temporary.rename(target)
    except BaseException:  # an interrupt too must not lose what was there
        if not target.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside)
