"""Fuzzes the ONNX importer: whatever the bytes, the answer is a graph or one of aneforge's own errors.

    pip install atheris
    python tools/fuzz_onnx.py CORPUS -max_total_time=900 -rss_limit_mb=4096 -timeout=30

Arguments are libFuzzer's. Without a corpus folder that has files, the conformance cases of the onnx package are put
there first. A model is changed in its bytes, or in its parts: numbers, names, operators, attributes, dimensions. A
converter that meets what it did not expect is counted as a crash too, unless ONNX_FUZZ_LENIENT is set.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx.backend.test.loader import load_model_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

UNEXPECTED = "its converter cannot read it"
STRICT = "ONNX_FUZZ_LENIENT" not in os.environ
NUMBERS = (-(2**63), -(2**31), -5, -2, -1, 0, 1, 2, 3, 4, 7, 8, 64, 255, 2**16, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
SEED_MOST_BYTES = 20_000
FIXED_MOST = 64
"""Numbers of an input that is fixed because the importer asks for it."""


class Fuzzer(Protocol):
    """What is used of atheris."""

    def Setup(  # noqa: N802 - atheris' own name
        self,
        arguments: Sequence[str],
        target: Callable[[bytes], None],
        *,
        custom_mutator: Callable[[bytes, int, int], bytes],
    ) -> None:
        """Prepare a run."""
        ...

    def instrument_imports(self, *, include: Sequence[str]) -> AbstractContextManager[object]:
        """Return what lets lines be seen in what is imported meanwhile."""
        ...

    def Fuzz(self) -> None:  # noqa: N802 - atheris' own name
        """Run."""
        ...

    def Mutate(self, data: bytes, size: int) -> bytes:  # noqa: N802 - atheris' own name
        """Return bytes changed as libFuzzer changes them."""
        ...


def instrumented() -> AbstractContextManager[object]:
    """Return what lets atheris see which lines are run, in what is imported meanwhile; only if this is the program."""
    if __name__ != "__main__":
        return nullcontext()
    return cast("Fuzzer", importlib.import_module("atheris")).instrument_imports(include=["aneforge"])


with instrumented():
    from aneforge.errors import AneforgeError
    from aneforge.formats.onnx.binding import description
    from aneforge.formats.onnx.conversion import graph_of
    from aneforge.formats.onnx.registry import converters
    from aneforge.formats.shared.findings import ImportFindings
    from aneforge.formats.shared.shapes import Input
    from aneforge.ops.types import numpy_dtype

    converters()  # imports the modules of the operators


def import_any(data: bytes) -> None:
    """Import a model; inputs that the importer asks for are fixed once.

    Raises:
        RuntimeError: A converter met what it did not expect.
    """
    try:
        graph_of(data, None, None)
    except AneforgeError as error:
        check_expected(error)
        asked = {name for finding in getattr(error, "findings", ()) for name in finding.inputs}
        values = fixed_values(data, asked) if asked else {}
        if values:
            import_fixed(data, values)


def import_fixed(data: bytes, values: dict[str, object]) -> None:
    """Import a model with inputs fixed."""
    try:
        graph_of(data, None, values)
    except AneforgeError as error:
        check_expected(error)


def check_expected(error: AneforgeError) -> None:
    """Check that no converter met what it did not expect.

    Raises:
        RuntimeError: One did.
    """
    if STRICT and isinstance(error, ImportFindings) and UNEXPECTED in str(error):
        raise RuntimeError(str(error))


def fixed_values(data: bytes, names: set[str]) -> dict[str, object]:
    """Return small arrays for inputs whose shapes are known."""
    found: dict[str, object] = {}
    for value in onnx.ModelProto.FromString(data).graph.input:
        described = description(value) if value.name in names else None
        if not isinstance(described, Input) or described.lengths is None:
            continue
        shape = [length if isinstance(length, int) else 1 for length in described.lengths]
        if int(np.prod(shape)) <= FIXED_MOST:
            found[value.name] = np.ones(shape, numpy_dtype(described.dtype))
    return found


def mutator(fuzzer: Fuzzer) -> Callable[[bytes, int, int], bytes]:
    """Return what changes a model: its parts mostly, its bytes else."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chooser = random.Random(seed)  # noqa: S311 - for tests
        if chooser.random() < 0.2:
            return fuzzer.Mutate(data, most)
        try:
            model = onnx.ModelProto.FromString(data)
        except DecodeError:
            return fuzzer.Mutate(data, most)
        for _ in range(chooser.randint(1, 4)):
            with suppress(UnicodeError):  # names that are no text cannot be written back
                chooser.choice(CHANGES)(model, chooser)
        changed = model.SerializeToString()
        return changed if len(changed) <= most else data

    return mutate


def change_attribute(model: onnx.ModelProto, chooser: random.Random) -> None:
    """Change the numbers of an attribute, or take it away."""
    node = some_node(model, chooser)
    if node is None or not node.attribute:
        return
    attribute = chooser.choice(list(node.attribute))
    if chooser.random() < 0.15:
        node.attribute.remove(attribute)
    elif attribute.ints:
        change_list(attribute.ints, chooser)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = chooser.choice([0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5])
    else:
        attribute.i = chooser.choice(NUMBERS)


def change_list(numbers: Sequence[int], chooser: random.Random) -> None:
    """Change one of a list of numbers, or its length."""
    listed = list(numbers)
    place = chooser.randrange(len(listed))
    match chooser.randrange(3):
        case 0:
            listed[place] = chooser.choice(NUMBERS)
        case 1:
            del listed[place]
        case _:
            listed.append(chooser.choice(NUMBERS))
    target = cast("list[int]", numbers)
    del target[:]
    target.extend(listed)


def change_operator(model: onnx.ModelProto, chooser: random.Random) -> None:
    """Put another operator in the place of one."""
    node = some_node(model, chooser)
    if node is not None:
        node.domain, node.op_type = chooser.choice(OPERATORS)
        if node.domain not in {one.domain for one in model.opset_import}:
            model.opset_import.add(domain=node.domain, version=1)


def change_inputs(model: onnx.ModelProto, chooser: random.Random) -> None:
    """Let a node read something else, more or less."""
    node = some_node(model, chooser)
    if node is None:
        return
    names = ["", *(value.name for value in model.graph.input), *(tensor.name for tensor in model.graph.initializer)]
    if node.input and chooser.random() < 0.6:
        node.input[chooser.randrange(len(node.input))] = chooser.choice(names)
    elif node.input and chooser.random() < 0.5:
        node.input.pop()
    else:
        node.input.append(chooser.choice(names))


def change_dimension(model: onnx.ModelProto, chooser: random.Random) -> None:
    """Change a length, a rank or an element type of an input."""
    if not model.graph.input:
        return
    kind = chooser.choice(list(model.graph.input)).type.tensor_type
    match chooser.randrange(4):
        case 0:
            kind.elem_type = chooser.randrange(27)
        case 1:
            kind.shape.dim.add().dim_value = chooser.choice([0, 1, 2, 5])
        case 2 if kind.shape.dim:
            del kind.shape.dim[-1]
        case _ if kind.shape.dim:
            chooser.choice(list(kind.shape.dim)).dim_value = chooser.choice([0, 1, 2, 3, 7, *NUMBERS])
        case _:
            pass


def change_weight(model: onnx.ModelProto, chooser: random.Random) -> None:
    """Make an input a weight of small integers, or change a weight's shape."""
    if model.graph.initializer and chooser.random() < 0.5:
        tensor = chooser.choice(list(model.graph.initializer))
        tensor.dims.append(chooser.choice(NUMBERS))
        return
    if model.graph.input:
        name = chooser.choice(list(model.graph.input)).name
        listed = [chooser.choice(NUMBERS) for _ in range(chooser.randrange(5))]
        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.INT64, dims=[len(listed)], int64_data=listed)
        model.graph.initializer.append(tensor)


def change_version(model: onnx.ModelProto, chooser: random.Random) -> None:
    """Use another version of the operator set."""
    if model.opset_import:
        model.opset_import[0].version = chooser.randrange(1, 30)


def some_node(model: onnx.ModelProto, chooser: random.Random) -> onnx.NodeProto | None:
    """Return a node, of a graph within another one too."""
    nodes = list(model.graph.node)
    for node in list(nodes):
        nodes += [inner for attribute in node.attribute for inner in attribute.g.node]
    return chooser.choice(nodes) if nodes else None


CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    change_attribute,
    change_operator,
    change_inputs,
    change_dimension,
    change_weight,
    change_version,
)
OPERATORS = sorted({("", schema.name) for schema in onnx.defs.get_all_schemas()} | set(converters()))
"""Domain and name: ONNX's own operators, and whatever else the importer converts."""


def write_seeds(folder: Path) -> None:
    """Put the models of the conformance cases into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in cases:
        contents = case.model.SerializeToString() if case.model is not None else b""
        if 0 < len(contents) <= SEED_MOST_BYTES:
            (folder / case.name).write_bytes(contents)


def main() -> None:
    """Run the fuzzer."""
    fuzzer = cast("Fuzzer", importlib.import_module("atheris"))
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    if folders and not (folders[0].is_dir() and any(folders[0].iterdir())):
        write_seeds(folders[0])
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    fuzzer.Setup(sys.argv, import_any, custom_mutator=mutator(fuzzer))
    fuzzer.Fuzz()


if __name__ == "__main__":
    main()
