"""Fuzzes divergence and ranges: no difference that was called none, and no value outside its range.

    python tools/fuzz_predictions.py --seed 1 --trials 500

Draws networks of the kinds of `fuzz_rescaling.py` and of kinds with quantised weights, states, several outputs, slices
at the edges, axes of one element, long reductions and inputs of bytes; compiles each for two of all targets; and runs
both programs on inputs of every size, with infinite and not-a-number elements among them. It is a defect where bits
differ and the answer was none, or where a value of a program leaves its range. Prints every defect with its seed, and
the figures.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import aneforge as af
from aneforge.analysis.divergence.graphs import Strength, divergence
from aneforge.analysis.ranges.interval import of_values
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import prepare
from aneforge.errors import AneforgeError
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.targets import database
from fuzz_rescaling import KINDS as NETWORKS
from fuzz_rescaling import Draw, run_trials, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.execution.run import Executable, Run

    Array = npt.NDArray[Any]
    Kind = Callable[[Draw], af.Graph]

RUNS = 5
"""Sets of inputs of a trial."""
MODES = ("int8", "int4", "sparse", "blockwise")


def network(draw: Draw) -> af.Graph:
    """Draw one of the networks that rescaling is fuzzed with."""
    return af.Graph(draw.pick(*NETWORKS)(draw))


def quantised(draw: Draw) -> af.Graph:
    """Draw a network with its weights encoded."""
    graph = network(draw)
    return af.compressed(graph, str(draw.pick(*MODES)), atol=1.0, target=draw.pick("h13", "h16", "h17")).graph


def stateful(draw: Draw) -> af.Graph:
    """Draw a cache that is read, moved on and written."""
    width, length = draw.pick(32, 64), draw.pick(1, 4, 16)
    held = af.state("held", (1, 1, length, width))
    x = draw.input(1, 1, 1, width)
    now = af.concat([held, x.linear(draw.weight(width, width))], axis=2)
    kept = now.slice_by_size((0, 0, 1, 0), (1, 1, length, width))
    scores = (x @ kept.transpose(0, 1, 3, 2)).softmax(-1)
    return af.Graph({"y": scores @ kept}, {"held": kept})


def sliced(draw: Draw) -> af.Graph:
    """Draw slices that begin and end at any place, some of them joined, added or multiplied after."""
    shape = (1, draw.pick(1, 3, 8), draw.pick(1, 2, 5), draw.pick(1, 2, 5, 17, 64))
    x = draw.activation(draw.input(*shape))
    parts: list[af.Tensor] = []
    for _ in range(draw.pick(1, 2, 3)):
        begin = [int(draw.random.integers(extent)) for extent in shape]
        begin[:3] = [0, 0, 0] if draw.chance(0.6) else begin[:3]
        size = [int(draw.random.integers(1, extent - first + 1)) for extent, first in zip(shape, begin, strict=True)]
        part = x.slice_by_size(begin, size)
        parts.append(draw.pick(part, part.relu(), part * 2.0, part.sum(-1), part.square()))
    alike = [part for part in parts if part.shape[:3] == parts[0].shape[:3]]
    joined = {"joined": af.concat(alike, axis=3)} if len(alike) > 1 else {}
    return af.Graph({**{f"y{number}": part for number, part in enumerate(parts)}, **joined})


def reduced(draw: Draw) -> af.Graph:
    """Draw long reductions, and what is made of their results."""
    shape = (1, draw.pick(1, 4), draw.pick(1, 3), draw.pick(1, 2, 64, 65, 1000, 4099))
    x = draw.input(*shape)
    axis = int(draw.pick(3, 3, 2, 1))
    y = draw.pick(x.sum, x.mean, x.amax, x.amin, x.l1_norm, x.sum_square, x.reduce_log_sum_exp, x.softmax)(axis)
    z = draw.pick(y, y.square(), y * 0.1, y.sqrt(), y.exp(), y.inverse(), (x - y if y.shape == shape else y).abs())
    return af.Graph({"z": z, "y": y} if draw.chance(0.5) else {"z": z})


def narrow(draw: Draw) -> af.Graph:
    """Draw convolutions and pools of images of one row, one column, or one place."""
    height, width = draw.pick((1, 1), (1, 9), (9, 1), (2, 2), (3, 4))
    channels = draw.pick(1, 3, 8)
    x = draw.input(1, channels, height, width)
    kernel = draw.pick((1, 1), (3, 3), (1, 3), (3, 1))
    weight = draw.weight(draw.pick(1, 4, 8), channels, *kernel)
    pad = (kernel[0] // 2, kernel[0] // 2, kernel[1] // 2, kernel[1] // 2)
    y = draw.activation(af.conv(x, weight, pad=pad, bias=draw.bias(weight.shape[0])))
    if draw.chance(0.4):
        y = y.upsample(2)
    if draw.chance(0.3):
        y = af.resize_bilinear(y, draw.pick(1, 3, 8), draw.pick(1, 3, 8))
    return af.Graph({"y": y, "z": y.max_pool(1)} if draw.chance(0.3) else {"y": y})


def typed(draw: Draw) -> af.Graph:
    """Draw an input of bytes, the one other type that programs take, cast and computed with."""
    shape = (draw.pick(1, 4), draw.pick(1, 8, 33))
    y = af.input(shape, dtype="uint8", name="typed").cast("fp16")
    y = draw.pick(y, y * 0.25, y + 1000.0, y.square(), y.linear(draw.weight(4, shape[1])))
    return af.Graph({"y": draw.activation(y)})


def saturating(draw: Draw) -> af.Graph:
    """Draw chains that pass the edges of fp16 and come back."""
    x = draw.input(1, 4, 3, draw.pick(1, 5, 16))
    y = x * draw.pick(1000.0, 60000.0, 1e-6, -3000.0)
    for _ in range(draw.pick(1, 2, 3)):
        y = draw.pick(
            y.square(), y.exp(), y + 60000.0, y * y, y.inverse(), y.sqrt(), y.log(), y - x, af.maximum(y, x), y.tanh(),
            y.clip(-4000.0, 4095.0), y.gelu(), y.silu(), y.softplus(), y.elu(), y.abs(), y.sum(-1), y.softmax(1),
            y.slice_by_size((0, 0, 0, y.shape[-1] // 2), (1, 4, 3, y.shape[-1] - y.shape[-1] // 2)),
        )  # fmt: skip
        if y.shape[-1] != x.shape[-1]:
            break
    return af.Graph({"y": y})


KINDS: tuple[Kind, ...] = (network, quantised, stateful, sliced, reduced, narrow, typed, saturating)


def inputs_of(graph: af.Graph, random: np.random.Generator, number: int) -> dict[str, Array]:
    """Draw inputs and states of moderate, small, large or mixed sizes, some elements of which are no finite numbers."""

    def drawn(shape: tuple[int, ...]) -> Array:
        low, high = ((-1, 1), (-24, -6), (8, 16), (-16, 16), (0, 4))[number % RUNS]
        values = np.ldexp(random.uniform(-1, 1, shape), random.integers(low, high, shape))
        if random.random() < 0.3:
            special = random.choice([np.inf, -np.inf, np.nan, 65504.0, 0.0, 2.0**-24, 4094.0, 4096.0], shape)
            values = np.where(random.random(shape) < 0.1, special, values)
        return values

    found: dict[str, Array] = {}
    for name, node in {**graph.inputs, **graph.state_placeholders}.items():
        kind = node.types[0]
        if is_float(kind.dtype):
            found[name] = drawn(kind.shape).astype(numpy_dtype(kind.dtype))
            continue
        ends = np.iinfo(numpy_dtype(kind.dtype))
        most = int(random.choice([2, 100, ends.max]))
        found[name] = random.integers(max(ends.min, -most), min(most, ends.max), kind.shape, endpoint=True)
        found[name] = found[name].astype(numpy_dtype(kind.dtype))
    return found


def parted(values: Mapping[str, Array], graph: af.Graph) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the values of inputs and those of states."""
    inputs, states = graph.inputs, graph.state_placeholders
    return {name: values[name] for name in inputs}, {name: values[name] for name in states}


def bits_of(ran: Run) -> dict[str, bytes]:
    """Return outputs and states as bytes."""
    everything = {**ran.outputs, **{f"state {name}": value for name, value in ran.states.items()}}
    return {name: value.tobytes() for name, value in everything.items()}


def outside(ready: Executable, ran: Run, inputs: Mapping[str, Array]) -> str | None:
    """Return the first value of a run that leaves its range."""
    with np.errstate(over="ignore"):
        handed = {n: value.astype(np.float16) if value.dtype.kind == "f" else value for n, value in inputs.items()}
    program = ready.program
    names = [*(port.name for port in program.inputs), *(state.name for state in program.states)]
    found = flow(program, {name: of_values(handed[name]) for name in names})
    for layer in program.layers:
        for result in layer.results:
            values, bound = ran.values[result.name], found.ranges[result.name]
            seen = of_values(values)
            if values.size and not (bound.low <= seen.low and seen.high <= bound.high):
                return f"{layer.kind.name} {result.name}: {seen} outside {bound}"
    return None


def judge(seed: int, kind: Kind, tally: Counter[str]) -> list[str]:
    """Run one trial, and return its defects."""
    draw = Draw(np.random.default_rng(seed))
    try:
        graph = kind(draw)
        pair = [str(draw.pick(*TARGETS)) for _ in range(2)]
        programs = [build_program(graph, name) for name in pair]
        found = divergence(graph, *pair)
    except AneforgeError:
        tally["refused"] += 1
        return []
    ready = [prepare(program) for program in programs]
    differs, defects = False, list[str]()
    for number in range(RUNS):
        inputs = inputs_of(graph, draw.random, number)
        try:
            ran = [one.run(*parted(inputs, graph), keep=True) for one in ready]
        except AneforgeError:
            tally["no mathematics"] += 1
            return []
        differs |= bits_of(ran[0]) != bits_of(ran[1])
        for one, result in zip(ready, ran, strict=True):
            left = outside(one, result, inputs)
            defects += [] if left is None else [f"range on {one.program.target.name}: {left}"]
    if differs and found.verdict is Strength.NONE:
        defects.append(f"bits differ between {pair} and the answer was none")
    tally[f"{'none' if found.verdict is Strength.NONE else 'flagged'}, {'differs' if differs else 'alike'}"] += 1
    tally["values in ranges"] += RUNS * sum(len(one.steps) for one in ready)
    return list(dict.fromkeys(defects))


def compiling() -> list[str]:
    """Return the targets that programs can be built for."""
    found: list[str] = []
    for name in database().targets:
        try:
            build_program(af.input((1, 8)).relu(), name)
        except AneforgeError:
            continue
        found.append(name)
    return found


TARGETS = compiling()


def main() -> None:
    """Run trials, and print what they showed; fail where there was a defect."""
    tally: Counter[str] = Counter()
    np.seterr(all="ignore")
    say(f"{len(TARGETS)} targets")

    def trial(seed: int, kind: Kind) -> None:
        defects = judge(seed, kind, tally)
        tally["with defects"] += bool(defects)
        for one in defects:
            say(f"seed {seed} {kind.__name__}: {one}")

    def told() -> str:
        return str(dict(tally))

    run_trials(__doc__, KINDS, trial, told)
    sys.exit(bool(tally["with defects"]))


if __name__ == "__main__":
    main()
