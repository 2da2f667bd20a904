"""Graphs that ask for a verdict, drawn from numbers, and the answers of every door on them.

Shapes are those of real tensors, up to and past the limits of the chips; nothing is computed, so weights are zeros. The
same graph comes through the builder, through MIL text or through ONNX.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.analysis.matrix import compiles
from aneforge.commands.checking import check
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.compiler.splits import OVERSIZE as IS_OVERSIZE
from aneforge.compiler.validators import validate_program
from aneforge.compiler.verdict import is_cut
from aneforge.errors import GraphError, NotSupportedError
from aneforge.graph.precision import to_fp16
from aneforge.ops.sampling import RandomChooser
from aneforge.ops.table import ops
from aneforge.targets import group
from unit.compiler.validators.sample_graphs import sample_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aneforge.compiler.compile import Compiled
    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

TARGETS = tuple(target for target in group("all") if target.limits.flag("mil_programs"))
LONG = (16_383, 16_384, 16_385, 20_000, 40_000, 65_536, 65_537)
ORIGINS = ("builder", "builder", "operation", "mil", "onnx")


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


class Maker:
    """Draws a network of the builder's operations around one tensor."""

    def __init__(self, chooser: RandomChooser) -> None:
        self.chooser = chooser
        self.names = 0

    def extent(self) -> int:
        """Draw a length, one in nine past some limit."""
        return self.chooser.choose([1, 2, 3, 8, 16, 24, 64, 224, self.chooser.choose(LONG)])

    def input(self) -> af.Tensor:
        """Draw an input."""
        rank = self.chooser.choose([4, 4, 4, 3, 2])
        shape = [self.chooser.choose([1, 2, 3, 8, 16]) for _ in range(rank)]
        if rank == 4:
            shape[0] = 1
        for _ in range(self.chooser.integer(0, 2)):
            shape[self.chooser.integer(1 if rank > 2 else 0, rank - 1)] = self.extent()
        while np.prod(shape) > 1 << 24:
            shape[int(np.argmax(shape))] = 8
        self.names += 1
        return af.input(tuple(shape), name=f"x{self.names}")

    def graph(self) -> Graph:
        """Draw a graph of up to four steps."""
        x = self.input()
        made = [x]
        for _ in range(self.chooser.integer(1, 4)):
            step = self.chooser.choose(STEPS)
            source = made[-1] if self.chooser.integer(0, 3) else self.chooser.choose(made)
            try:
                one = step(self, source)
            except GraphError:
                continue  # the builder refuses it
            if one is not None and np.prod(one.shape) <= 1 << 25:
                made.append(one)
        if len(made) == 1:
            made.append(x.relu())
        return af.Graph({"y": made[-1]})

    def single(self, x: af.Tensor) -> af.Tensor:
        """Add a function of single elements."""
        return self.chooser.choose([x.relu, x.sigmoid, x.exp, x.sin, x.abs, x.square])()

    def pair(self, x: af.Tensor) -> af.Tensor:
        """Add a function of pairs."""
        return self.chooser.choose([lambda: x + x.relu(), lambda: x * 2.0, lambda: af.maximum(x, x.sigmoid())])()

    def softmax(self, x: af.Tensor) -> af.Tensor:
        """Add a softmax along any axis."""
        return x.softmax(self.chooser.integer(0, len(x.shape) - 1))

    def reduce(self, x: af.Tensor) -> af.Tensor:
        """Add a sum or mean along any axis."""
        axis = self.chooser.integer(0, len(x.shape) - 1)
        return self.chooser.choose([x.sum, x.mean])(axis)

    def matmul(self, x: af.Tensor) -> af.Tensor | None:
        """Multiply by a constant matrix."""
        outputs = self.extent()
        if x.shape[-1] * outputs > 1 << 22:
            return None
        weight = zeros(x.shape[-1], outputs)
        return x @ weight if self.chooser.integer(0, 1) else x.linear(weight.T)

    def product(self, x: af.Tensor) -> af.Tensor | None:
        """Multiply two matrices that are computed."""
        if len(x.shape) < 2:
            return None
        if x.shape[-2] > 2000 and x.shape[-1] > 2000:
            return None
        axes = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
        return x @ x.relu().transpose(axes)

    def convolution(self, x: af.Tensor) -> af.Tensor | None:
        """Add a convolution of images."""
        if len(x.shape) != 4 or x.shape[1] > 2000 or x.shape[1] * self.names > 1 << 12:
            return None
        kernel = self.chooser.choose([1, 3, 5])
        if min(x.shape[2:]) < kernel:
            kernel = 1
        return af.conv(x, zeros(self.chooser.choose([4, 8]), x.shape[1], kernel, kernel), pad=kernel // 2)

    def pool(self, x: af.Tensor) -> af.Tensor | None:
        """Add a pooling."""
        if len(x.shape) != 4 or min(x.shape[2:]) < 2:
            return None
        return x.max_pool(2)

    def reshape(self, x: af.Tensor) -> af.Tensor:
        """Change the shape."""
        size = int(np.prod(x.shape))
        shapes = [(1, size), (size,), (1, 1, 1, size), (1, *x.shape[1:-2], int(np.prod((x.shape[0], *x.shape[-2:]))))]
        halves = [(2, size // 2)] if size % 2 == 0 else []
        return x.reshape(*self.chooser.choose([*shapes, *halves]))

    def transpose(self, x: af.Tensor) -> af.Tensor:
        """Exchange two neighbouring axes."""
        axes = list(range(len(x.shape)))
        if len(axes) < 2:
            return x.relu()
        first = self.chooser.integer(0, len(axes) - 2)
        axes[first], axes[first + 1] = axes[first + 1], axes[first]
        return x.transpose(axes)

    def concat(self, x: af.Tensor) -> af.Tensor:
        """Join a tensor with what is computed of it."""
        axis = self.chooser.integer(0, len(x.shape) - 1)
        return af.concat([x, x.relu()], axis)

    def half(self, x: af.Tensor) -> af.Tensor:
        """Take the first half of every axis."""
        begin = (0,) * len(x.shape)
        size = tuple(-(-extent // 2) for extent in x.shape)
        return x.slice_by_size(begin, size)

    def norm(self, x: af.Tensor) -> af.Tensor | None:
        """Normalise rows, or groups of channels."""
        if len(x.shape) == 2:
            return x.layer_norm(zeros(x.shape[-1]), zeros(x.shape[-1]))
        if len(x.shape) != 4 or x.shape[0] != 1:
            return None
        groups = self.chooser.choose([one for one in (1, 2, 4) if x.shape[1] % one == 0])
        return x.group_norm(zeros(x.shape[1]), zeros(x.shape[1]), groups)

    def bridge(self, x: af.Tensor) -> af.Tensor | None:
        """Add an operation that needs a program of its own."""
        if x.shape[-1] < 8:
            return None
        return self.chooser.choose([lambda: af.sort(x), lambda: af.topk(x, 5)[0]])()


STEPS: list[Callable[[Maker, af.Tensor], af.Tensor | None]] = [
    Maker.single,
    Maker.single,
    Maker.pair,
    Maker.softmax,
    Maker.reduce,
    Maker.matmul,
    Maker.product,
    Maker.convolution,
    Maker.pool,
    Maker.reshape,
    Maker.transpose,
    Maker.concat,
    Maker.half,
    Maker.norm,
    Maker.bridge,
]


def draw_graph(seed: int) -> tuple[str, Graph]:
    """Return the graph of a number, and where it came from."""
    chooser = RandomChooser(np.random.default_rng(seed))
    origin = chooser.choose(ORIGINS)
    if origin == "operation":
        name = chooser.choose(OPERATIONS)
        return f"operation {name}", sample_graph(ops()[name], seed).graph
    if origin == "onnx":
        return origin, onnx_graph(chooser)
    graph = Maker(chooser).graph()
    return origin, through_mil(graph) if origin == "mil" else graph


OPERATIONS = [name for name in ops() if name not in ("input", "state", "const")]


def through_mil(graph: Graph) -> Graph:
    """Return a graph as a reader of its MIL text has it."""
    if any(is_bridge(node) for node in graph.nodes):
        return graph  # sort has no form in MIL text
    with tempfile.TemporaryDirectory() as folder:
        return af.from_mil(af.save_mil(graph, folder))


def onnx_graph(chooser: RandomChooser) -> Graph:
    """Draw an ONNX model of one or two nodes and return its graph."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - an extra

    shape = [1, chooser.choose([1, 8, 65_537]), chooser.choose([1, 8]), chooser.choose([4, 16, *LONG])]
    if np.prod(shape) > 1 << 24:
        shape[3] = 4
    width = shape[3]
    weight = numpy_helper.from_array(np.zeros((width, 8), np.float32), "w")
    nodes = {
        "Relu": helper.make_node("Relu", ["x"], ["h"]),
        "Softmax": helper.make_node("Softmax", ["x"], ["h"], axis=-1),
        "MatMul": helper.make_node("MatMul", ["x", "w"], ["h"]),
        "Transpose": helper.make_node("Transpose", ["x"], ["h"], perm=[0, 1, 3, 2]),
        "Sin": helper.make_node("Sin", ["x"], ["h"]),
        "Flatten": helper.make_node("Flatten", ["x"], ["h"], axis=1),
        "GlobalAveragePool": helper.make_node("GlobalAveragePool", ["x"], ["h"]),
    }
    first = nodes[chooser.choose(list(nodes))]
    last = helper.make_node(chooser.choose(["Sigmoid", "Exp", "Neg"]), ["h"], ["y"])
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph([first, last], "g", ports, out, [weight]))
    return af.from_onnx(model)


RUNS, SPLIT, OVERSIZE, REJECT, CUT = "runs", "oversize, split", "oversize, no split", "reject", "cut into segments"
ROWS = (RUNS, SPLIT, OVERSIZE, REJECT, CUT)
RULE = re.compile(r"ANE-[A-Z0-9]+-\d+")


@dataclass(frozen=True)
class Answers:
    """What every door says of one graph on one target."""

    ok: bool
    """Preflight's."""
    rules: frozenset[str]
    """The rules by which preflight objects."""
    rejected: bool
    splits: tuple[str, ...]
    segments: int | None
    compiled: Compiled | None
    refusal: NotSupportedError | None
    accepted: bool
    """By the validators, asked with the program alone."""
    cross: bool | None
    """The answer of `cross_compile_check`; None where it raises."""
    checked: tuple[bool, bool, int | None, frozenset[str]]
    """Of `check`: whether it runs as it is, has a program, its segments, the rules by which it objects."""
    matrix: tuple[bool, int, frozenset[str]]
    """Of `compile_matrix`: whether it compiles, its segments, the rules that stop it."""

    @property
    def row(self) -> str:
        """The row of the table."""
        if self.rejected:
            return REJECT
        if not self.ok:
            return SPLIT if self.compiled else OVERSIZE
        return CUT if self.compiled is not None and is_cut(self.compiled) else RUNS


def ask(graph: Graph, target: Target) -> Answers:
    """Ask every door."""
    half = to_fp16(graph).graph
    verdict = af.preflight(graph, target)
    compiled = refusal = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = compile_graph(half, target)
        except NotSupportedError as error:
            refusal = error
        try:
            cross = cross_compile_check(graph, target, host=target)
        except NotSupportedError:
            cross = None
        (report,) = check(graph, target).targets
    entry = compiles(half, target)
    stopping = ("reject", "oversize")
    return Answers(
        ok=verdict.ok,
        rules=frozenset(one.rule for one in verdict.findings if one.severity in stopping),
        rejected=bool(verdict.reject),
        splits=verdict.splits,
        segments=verdict.segments,
        compiled=compiled,
        refusal=refusal,
        accepted=compiled is not None and validate_program(compiled.program).ok,
        cross=cross,
        checked=(
            report.ok,
            report.failure is None,
            report.segments,
            frozenset(one.rule for one in report.findings if one.severity in stopping),
        ),
        matrix=(entry.ok, entry.segments, frozenset(RULE.findall(" ".join(entry.reasons)))),
    )


def disagreements(found: Answers) -> Iterator[str]:
    """Yield the cells in which the doors do not say the same, by class."""
    row, program = found.row, found.compiled
    expected = {RUNS: True, SPLIT: False, OVERSIZE: False, REJECT: False, CUT: None}[row]
    if found.cross is not expected:
        yield f"{row}: cross_compile_check says {found.cross}"
    if (program is None) is (row in (RUNS, SPLIT, CUT)):
        yield f"{row}: compile says {found.refusal}"
    if (program is not None) is not found.accepted:
        yield f"{row}: the validators do not accept the program"
    ok, has_program, segments, rules = found.checked
    if ok is not found.ok or has_program is not (program is not None) or rules != found.rules:
        yield f"{row}: check says {ok}, a program {has_program}, {sorted(rules)}"
    if found.matrix[0] is not (program is not None):
        yield f"{row}: compile_matrix says {found.matrix[0]}"
    if program is None:
        yield from refusals(found)
        return
    count = len(program.program.segments)
    if {segments, found.matrix[1]} != {count} or (row == CUT and found.segments != count):
        yield f"{row}: the number of programs is {count}, {segments}, {found.matrix[1]} or {found.segments}"
    called_oversize = any(change.why == IS_OVERSIZE for change in program.changes)
    if row == SPLIT and not (found.splits and called_oversize):
        yield f"{row}: no split is named"
    if row != SPLIT and called_oversize:
        yield f"{row}: a change says that something is oversize"


def refusals(found: Answers) -> Iterator[str]:
    """Yield what doors that refuse do not say alike."""
    named = frozenset(RULE.findall(str(found.refusal)))
    if not named or not named <= found.rules:
        yield f"{found.row}: compile names {sorted(named)}, preflight {sorted(found.rules)}"
    if found.matrix[2] != named:
        yield f"{found.row}: compile_matrix names {sorted(found.matrix[2])}, compile {sorted(named)}"
    if found.row == OVERSIZE and not any("no split exists" in one for one in found.splits):
        yield f"{found.row}: preflight does not say that there is no split"


def target_of(seed: int) -> Target:
    """Return the target that a graph is asked about."""
    return TARGETS[int(np.random.default_rng([seed, 1]).integers(len(TARGETS)))]
