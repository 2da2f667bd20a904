"""Fuzzes the reader of MIL programs: it reads what it is given, or raises one error of the package's own.

    python tools/fuzz_mil.py --corpus folder            write programs to begin with: the examples, every operation
    python tools/fuzz_mil.py folder -max_total_time=600 fuzz with atheris (`pip install atheris`)

What atheris finds becomes a test in `tests/unit/formats/mil/test_fuzz_findings.py`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from aneforge.errors import AneforgeError
from aneforge.formats.mil.program import parse_mil
from aneforge.formats.mil.text import mil_text
from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.sampling import RandomChooser
from aneforge.ops.signature import OperandKind
from aneforge.ops.table import ops
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aneforge.graph.node import Argument, Value
    from aneforge.ops.op import Op
    from aneforge.ops.sampling import Fill


class Fuzzer(Protocol):
    """What is needed of atheris here, typed."""

    def instrument_all(self) -> None:
        """Watch every function that is loaded."""
        ...

    def Setup(self, arguments: list[str], check: Callable[[bytes], None]) -> object:  # noqa: N802 - its own name
        """Take the options and the function to call."""
        ...

    def Fuzz(self) -> None:  # noqa: N802 - its own name
        """Run."""
        ...


SEPARATOR = b"\0weights\0"
"""Stands between the text of a program and its weights blob."""
EXAMPLES = Path(__file__).parent.parent / "examples" / "mil"
LONGEST_MESSAGE = 4000


def check(data: bytes) -> None:
    """Read a program and, if it is one, write it and read it again.

    Raises:
        AssertionError: What was written is not what was read, or an error is no sentence.
    """
    source, _, blob = data.partition(SEPARATOR)
    try:
        program = parse_mil(source.decode("utf-8", "replace"), blob)
    except AneforgeError as error:
        check_message(error)
        return
    printed = str(program)
    if str(parse_mil(printed, blob)) != printed:
        raise AssertionError("a program does not print as it was read")
    for function in program.functions:
        try:
            graph = program.graph(function)
        except AneforgeError as error:
            check_message(error)
            continue
        check_graph(graph)


def check_message(error: AneforgeError) -> None:
    """Check that an error says something, and not too much."""
    if not 10 < len(str(error)) < LONGEST_MESSAGE:
        raise AssertionError(f"an error of {len(str(error))} characters")


def check_graph(graph: Graph) -> None:
    """Check that a graph that was read can be written, and that reading it back changes nothing any more."""
    try:
        first = mil_text(graph)
    except AneforgeError as error:
        check_message(error)
        return
    second = mil_text(parse_mil(first.text, first.weights.tobytes()).graph())
    third = mil_text(parse_mil(second.text, second.weights.tobytes()).graph())
    if (second.text, second.weights.tobytes()) != (third.text, third.weights.tobytes()):
        raise AssertionError("a graph changes each time it is written and read")


def corpus(samples: int = 3) -> Iterator[tuple[str, bytes]]:
    """Yield programs to begin with: the examples, and some of every operation."""
    for path in sorted(EXAMPLES.glob("*/model.mil")):
        weights = path.with_name("weights.bin")
        yield path.parent.name, path.read_bytes() + SEPARATOR + (weights.read_bytes() if weights.exists() else b"")
    generator = np.random.default_rng(0)
    for name, op in ops().items():
        for number in range(samples):
            try:
                made = mil_text(one_operation(op, generator))
            except AneforgeError:
                continue  # what has no form in MIL is not a program
            yield f"{name}_{number}", made.text.encode() + SEPARATOR + made.weights.tobytes()


def one_operation(op: Op, generator: np.random.Generator) -> Graph:
    """Return a graph of one operation."""
    sample = op.sample(RandomChooser(generator))
    operands: dict[str, Argument | None] = {}
    for operand in op.operands:
        fill = sample.operands.get(operand.name)
        if isinstance(fill, tuple):
            operands[operand.name] = tuple(value_of(one, operand.kind, generator) for one in fill)
        elif fill is not None:
            operands[operand.name] = value_of(fill, operand.kind, generator)
    node = build(op, operands, sample.attributes)
    return Graph({f"y{index}": Tensor(node, index) for index in range(len(node.types))})


def value_of(fill: Fill, kind: OperandKind, generator: np.random.Generator) -> Value:
    """Return a constant where one is needed, else an input."""
    if kind is OperandKind.CONSTANT:
        return Dense(fill.values(generator).astype(numpy_dtype(fill.type.dtype)))
    return Tensor(build(INPUT, {}, {"shape": fill.type.shape, "dtype": fill.type.dtype}))


def main() -> None:
    """Write the corpus, or fuzz."""
    if sys.argv[1:2] == ["--corpus"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in corpus():
            (folder / name).write_bytes(data)
        return
    atheris = cast("Fuzzer", importlib.import_module("atheris"))  # needed here alone, and without types
    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
