"""Fuzzes rescaling: a rescaled graph is never worse on inputs that nobody saw, and means the same.

    python tools/fuzz_rescaling.py --seed 1 --trials 500

Draws networks of kinds that the strategies of the tests do not draw (residual networks, small transformers, attention
over long sequences, grouped and transposed convolutions, norms of small and large tensors, channels of zeros and
outliers, weights from subnormal to huge), rescales each by samples, by ranges or by nothing, and holds the errors of
both graphs on fresh inputs of the same distribution against float64. A trial is worse where the error of an output,
over all fresh inputs, grew by more than the luck of rounding allows; with declared ranges also where it doubled on
inputs far smaller than those, or grew on the mean of them; and with samples where it grew on the mean of inputs of an
eighth to a 64th, unless the error on samples came down to a small part. Prints every such trial with its seed, and the
figures.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import aneforge as af
from aneforge.errors import AneforgeError
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from aneforge.optimise.rescaling import error_changes
from aneforge.optimise.rescaling.engine_errors import LOST, GraphErrors, evaluate_exactly
from aneforge.optimise.rescaling.power_exponents import RESULT_STEP
from aneforge.optimise.rescaling.rescale_graph import rescale_graph
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.optimise.rescaling.sample_inputs import fit_inputs
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from aneforge.optimise.rescaling.rescaling_report import Rescaled

    Array = npt.NDArray[Any]
    Kind = Callable[["Draw"], dict[str, af.Tensor]]

Option = TypeVar("Option")
Drawn = TypeVar("Drawn", bound="Callable[[Draw], object]")
TARGETS = ("h13", "h14", "h15", "h16", "h17", "h18g")
FRESH = 8
"""Sets of inputs that nobody saw."""
LUCK = 1.02
"""An error over all fresh inputs that grew by less is how roundings happened to fall."""
MEANING = 1e-9
SMALL_BITS = 17
"""Inputs of declared ranges are tried as small as 2^-16 of what they are."""
QUIET_BITS = (3, 7)
"""Inputs of samples are tried from an eighth to a 64th of what they are."""
TOLD_AFTER = 100
"""Trials after which the figures so far are printed."""


@dataclass
class Draw:
    """What is drawn of one trial: sizes, weights, and the distribution of inputs."""

    random: np.random.Generator
    deviations: dict[str, float] = field(default_factory=dict[str, float])
    outliers: dict[str, bool] = field(default_factory=dict[str, bool])

    def pick(self, *options: Option) -> Option:
        """Choose one of some options."""
        return options[int(self.random.integers(len(options)))]

    def chance(self, part: float) -> bool:
        """Return true so often."""
        return bool(self.random.random() < part)

    def input(self, *shape: int, deviation: float | None = None) -> af.Tensor:
        """Return an input of a drawn size."""
        name = f"x{len(self.deviations)}"
        size = (
            self.pick(1.0, 1.0, 0.3, shape[-1] ** -0.5, 0.02, 0.002, 8.0, 60.0, 400.0)
            if deviation is None
            else deviation
        )
        self.deviations[name] = float(size)
        self.outliers[name] = self.chance(0.15)
        return af.input(shape, name=name)

    def values(self, graph: af.Graph) -> dict[str, Array]:
        """Draw a set of inputs; one channel of one that has outliers is thirty times as large."""
        found: dict[str, Array] = {}
        for name, node in graph.inputs.items():
            array = self.random.standard_normal(node.types[0].shape) * self.deviations[name]
            if self.outliers[name]:
                array[..., 0] *= 30.0
            found[name] = array
        return fit_inputs(graph, found)

    def weight(self, *shape: int, rows: int = 0) -> Array:
        """Draw weights of one of the kinds that networks have, and some that they should not."""
        depth = max(math.prod(shape) // shape[rows], 1)
        drawn = self.random.standard_normal(shape) / math.sqrt(depth)
        along = [1] * len(shape)
        along[rows] = shape[rows]
        match self.pick("plain", "plain", "small", "spread", "zero", "outlier", "subnormal", "huge", "constant"):
            case "small":
                drawn *= self.pick(0.1, 0.01, depth**-0.5)
            case "spread":
                drawn *= 2.0 ** self.random.uniform(-9, 3, along)
            case "zero":
                drawn *= self.random.random(along) < 0.6
            case "outlier":
                drawn[self.random.random(shape) < 0.01] *= 100.0
            case "subnormal":
                return (drawn * 2.0**-15).astype(np.float32)
            case "huge":
                drawn *= 300.0
            case "constant":
                drawn = np.full(shape, self.pick(0.001, -0.03, 0.3)) / math.sqrt(depth)
            case _:
                pass
        return drawn.astype(self.pick(np.float16, np.float16, np.float32))

    def bias(self, count: int) -> Array | None:
        """Draw a bias, or none."""
        if self.chance(0.4):
            return None
        return (self.random.standard_normal(count) * self.pick(0.01, 0.3, 3.0)).astype(np.float16)

    def affine(self, width: int) -> tuple[Array, Array]:
        """Draw the scale and shift of a norm."""
        gamma = 1 + 0.2 * self.random.standard_normal(width)
        return gamma.astype(np.float16), (0.1 * self.random.standard_normal(width)).astype(np.float16)

    def activation(self, x: af.Tensor) -> af.Tensor:
        """Add an activation, or none."""
        name = self.pick("relu", "gelu", "silu", "tanh", "sigmoid", "")
        return x.apply(name, {"x": x}) if name else x


def scaled_by(draw: Draw, x: af.Tensor) -> af.Tensor:
    """Perhaps add a factor, which goes into the gain slot of what is before it."""
    return x * draw.pick(0.125, 2.0**-6, 3.0, 64.0) if draw.chance(0.3) else x


def perceptron(draw: Draw) -> dict[str, af.Tensor]:
    """Draw linear layers after one another."""
    x = draw.input(draw.pick(1, 3, 8), draw.pick(16, 64, 256, 1024))
    for _ in range(draw.pick(1, 2, 3)):
        outputs = draw.pick(1, 8, 32, 64)
        x = scaled_by(draw, draw.activation(x.linear(draw.weight(outputs, x.shape[1]), draw.bias(outputs))))
    return {"y": x}


def residual(draw: Draw) -> dict[str, af.Tensor]:
    """Draw a residual network with batch norms, the middle of it an output too."""
    channels, width = draw.pick(4, 8, 16), draw.pick(1, 4, 7, 8)
    x = draw.input(1, channels, width, width)
    outputs: dict[str, af.Tensor] = {}
    for number in range(draw.pick(1, 2, 3)):
        y = x
        for _ in range(2):
            y = af.conv(y, draw.weight(channels, channels, 3, 3), pad=1, bias=draw.bias(channels))
            gamma, beta = draw.affine(channels)
            mean, variance = draw.random.standard_normal(channels) * 0.1, draw.random.uniform(0.01, 4.0, channels)
            y = af.batch_norm(y, gamma, beta, mean.astype(np.float16), variance.astype(np.float16)).relu()
        x = x + scaled_by(draw, y)
        if draw.chance(0.3):
            outputs[f"middle{number}"] = x
    return {**outputs, "y": x}


def grouped(draw: Draw) -> dict[str, af.Tensor]:
    """Draw depthwise, grouped, strided, dilated and transposed convolutions after one another."""
    channels, width = draw.pick(4, 8, 12), draw.pick(5, 8, 11)
    x = draw.input(draw.pick(1, 2), channels, width, width)
    for _ in range(draw.pick(1, 2, 3)):
        groups = draw.pick(1, 2, channels)
        kernel = draw.pick(1, 3)
        if draw.chance(0.35):
            weight = draw.weight(channels, channels // groups, 2, 2)
            x = af.conv_transpose(x, weight, stride=draw.pick(1, 2), groups=groups, bias=draw.bias(channels))
        else:
            weight = draw.weight(channels, channels // groups, kernel, kernel)
            stride, dilation = draw.pick((1, 1), (2, 1), (1, 2))
            pad = kernel - 1
            x = af.conv(x, weight, stride, pad, dilation, groups, draw.bias(channels))
        x = scaled_by(draw, draw.activation(x))
    return {"y": x, "z": x.mean(1)} if draw.chance(0.3) else {"y": x}


def transformer(draw: Draw) -> dict[str, af.Tensor]:
    """Draw a small transformer, with layer norms or root mean square norms, before or after."""
    length, width = draw.pick(4, 16, 48), draw.pick(16, 32, 64)
    x = draw.input(length, width)
    by_length, first = draw.chance(0.4), draw.chance(0.6)

    def norm(y: af.Tensor) -> af.Tensor:
        gamma, beta = draw.affine(width)
        return y.rms_norm(gamma) if by_length else y.layer_norm(gamma, beta)

    def attended(y: af.Tensor) -> af.Tensor:
        weights = [one for _ in range(4) for one in (draw.weight(width, width), draw.bias(width))]
        held = [np.zeros(width, np.float16) if one is None else one for one in weights]
        return af.mha(y, *held, n_heads=draw.pick(1, 2, 4))

    def projected(y: af.Tensor) -> af.Tensor:
        hidden = draw.activation(y.linear(draw.weight(2 * width, width), draw.bias(2 * width)))
        return hidden.linear(draw.weight(width, 2 * width), draw.bias(width))

    for _ in range(draw.pick(1, 2)):
        for step in (attended, projected):
            x = x + step(norm(x)) if first else norm(x + step(x))
    return {"y": norm(x) if first and draw.chance(0.5) else x}


def attention(draw: Draw) -> dict[str, af.Tensor]:
    """Draw attention of few queries over a long sequence, built from products."""
    queries, keys, width = draw.pick(1, 4, 16), draw.pick(64, 256, 1024, 2048), draw.pick(8, 16, 32)
    query, memory = draw.input(1, 1, queries, width, deviation=1.0), draw.input(1, 1, keys, width)
    key, value = (memory.linear(draw.weight(width, width)) for _ in range(2))
    scores = (query @ key.transpose(0, 1, 3, 2)) * width**-0.5
    return {"y": scores.softmax(-1) @ value}


def live(draw: Draw) -> dict[str, af.Tensor]:
    """Draw products of two tensors of inputs, one of them with other readers."""
    depth = draw.pick(16, 128, 512)
    x, y = draw.input(1, 2, 4, depth), draw.input(1, 2, depth, 8)
    z = draw.activation(x) @ y
    return {"z": z, "w": y.abs()} if draw.chance(0.4) else {"z": scaled_by(draw, z)}


def shared(draw: Draw) -> dict[str, af.Tensor]:
    """Draw one weight in several layers, several outputs of one tensor, and a join."""
    width = draw.pick(16, 64, 256)
    weight, x = draw.weight(width, width), draw.input(4, width)
    first = x.linear(weight)
    second = draw.activation(first).linear(weight, draw.bias(width))
    head = second.linear(draw.weight(5, width))
    return {"first": first, "joined": af.concat([second, x], axis=1), "head": head}


def normed(draw: Draw) -> dict[str, af.Tensor]:
    """Draw norms of tensors of any size after products."""
    channels, width = draw.pick(4, 8), draw.pick(4, 8)
    x = draw.input(1, channels, width, width)
    y = af.conv(x, draw.weight(channels, channels, 3, 3), pad=1)
    match draw.pick("instance", "group", "channel", "length"):
        case "instance":
            z = af.instance_norm(y, *draw.affine(channels))
        case "group":
            z = y.group_norm(*draw.affine(channels), 2)
        case "channel":
            z = y.reshape(1, channels, 1, width * width).channel_layer_norm(*draw.affine(channels))
        case _:
            z = y.reshape(channels, width * width).l2_norm()
    return {"z": z, "y": y} if draw.chance(0.3) else {"z": z}


def quiet(draw: Draw) -> dict[str, af.Tensor]:
    """Draw a residual network without norms of small activations, whose tables are off near zero."""
    channels, width = draw.pick(4, 8, 16), draw.pick(4, 8, 12)
    x = draw.input(1, channels, width, width, deviation=draw.pick(1.0, 0.1, 0.02, 0.005))
    name = draw.pick("silu", "gelu", "tanh")
    for _ in range(draw.pick(1, 2, 3)):
        weights = [draw.random.standard_normal((channels, channels, 3, 3)) * draw.pick(0.01, 0.03) for _ in range(2)]
        inner, outer = (one.astype(np.float16) for one in weights)
        y = af.conv(x, inner, pad=1)
        x = x + af.conv(y.apply(name, {"x": y}), outer, pad=1)
    return {"y": x}


def encoded(draw: Draw) -> dict[str, af.Tensor]:
    """Draw linear layers after one another whose weights are encoded."""
    x = draw.input(draw.pick(1, 3, 8), draw.pick(16, 64, 256, 1024))
    for _ in range(draw.pick(1, 2)):
        outputs, inputs = draw.pick(4, 8, 32, 64), x.shape[1]
        size = draw.pick(1.0, 1.0, 0.1, 2.0**-12) / math.sqrt(inputs)
        whole = draw.random.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        scales = (draw.random.uniform(0.5, 2.0, outputs) * size / 64).astype(np.float16)
        weights = draw.pick(
            Int8Affine(whole, scales),
            Int8Affine(whole, scales[:1]),
            Blockwise(whole, np.repeat(scales.reshape(-1, 1), 2, 1)),
            Blockwise(whole, scales[:2].reshape(2, 1)),
            Palette(whole.astype(np.uint8) & 15, (draw.random.standard_normal(16) * size).astype(np.float16), bits=4),
            Sparse(whole > 64, (draw.random.standard_normal(int((whole > 64).sum())) * size).astype(np.float16)),
        )
        bias = draw.bias(outputs)
        operands = {"x": x, "weight": weights} | ({} if bias is None else {"bias": Dense(bias)})
        x = draw.activation(x.apply("linear", operands))
    return {"y": x}


def kernels(draw: Draw) -> dict[str, af.Tensor]:
    """Draw a convolution whose kernel is an input, alone or computed."""
    channels, kernel = draw.pick(4, 8), draw.pick(1, 3)
    x, weight = draw.input(1, channels, 9, 9), draw.input(channels, channels, kernel, kernel)
    y = af.dynamic_conv(draw.activation(x), scaled_by(draw, draw.activation(weight)))
    return {"y": scaled_by(draw, y)}


def fused_attention(draw: Draw) -> dict[str, af.Tensor]:
    """Draw attention that is one operation, with any mask; its values may be the keys, an input, or an output too."""
    causal, width, count = draw.chance(0.25), draw.pick(8, 16, 32), draw.pick(1, 2)
    keys = draw.pick(16, 64, 128) if causal else draw.pick(16, 64, 256, 500)
    queries = keys if causal else draw.pick(1, 4, 16)
    memory = draw.input(1, count, keys, width)
    x = memory if causal else draw.input(1, count, queries, width, deviation=1.0)
    query, key = x.linear(draw.weight(width, width)), memory.linear(draw.weight(width, width))
    match draw.pick("made", "made", "made", "keys", "given"):
        case "made":
            value = draw.activation(memory.linear(draw.weight(width, width), draw.bias(width)))
        case "keys":
            value = key
        case _:
            value = memory
    hidden = np.where(draw.random.random((1, 1, queries, keys)) < 0.3, draw.pick(-30.0, -10000.0, -np.inf), 0.0)
    hidden[..., 0] = 0.0  # a query that may see no key has no attention
    mask = hidden.astype(np.float16) if not causal and draw.chance(0.4) else None
    y = scaled_by(draw, af.sdpa(query, key, value, draw.pick(None, 0.1, 1.0), causal, mask))
    if draw.chance(0.5):
        y = y.linear(draw.weight(width, width), draw.bias(width))
    return {"y": y, "value": value} if value is not memory and draw.chance(0.2) else {"y": y}


KINDS: tuple[Kind, ...] = (
    perceptron, residual, grouped, transformer, attention, live, shared, normed, quiet, encoded, kernels,
    fused_attention,
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What one trial showed."""

    kind: str
    rescaled: bool
    worst: float
    """The largest growth of an output's error over all fresh inputs: below 1 it fell."""
    sets_worse: int
    """Sets of fresh inputs on which some output was worse, by however little."""
    small: float = 1.0
    """By how much the error of an output grew on inputs far smaller than declared ranges."""
    mean: float = 1.0
    """By how much it grew on the mean of all smaller inputs."""

    @property
    def is_worse(self) -> bool:
        """An error grew by more than the luck of rounding."""
        return max(self.worst, self.mean) > LUCK or self.small > policy().small_rows.worse


def together(errors: Sequence[float], sizes: Sequence[float]) -> float:
    """Return the error of all sets as one tensor; infinite as soon as one is.

    An output of few numbers is near zero on some inputs, where any error is a large share of it.
    """
    squares = sum((error * (size or 1.0)) ** 2 for error, size in zip(errors, sizes, strict=True))
    return math.sqrt(squares) / (math.hypot(*sizes) or 1.0)


def growth(before: float, after: float) -> float:
    """Return by how much an error grew; a 64th of a rounding is none."""
    return error_changes.ErrorChange(before, after, RESULT_STEP * policy().loss.quiet).growth


def rescaled_as_drawn(draw: Draw, graph: af.Graph, target: str) -> Rescaled:
    """Rescale by samples, by ranges, or by nothing."""
    match draw.pick("inputs", "inputs", "several", "ranges", "nothing"):
        case "inputs":
            return rescale_graph(graph, target, [draw.values(graph)])
        case "several":
            return rescale_graph(graph, target, [draw.values(graph) for _ in range(3)])
        case "ranges":
            ends = {name: 160.0 * size if draw.outliers[name] else 5.5 * size for name, size in draw.deviations.items()}
            return af.rescale(graph, ranges={name: ends[name] for name in graph.inputs}, target=target)
        case _:
            for name in draw.deviations:
                draw.deviations[name], draw.outliers[name] = 1.0, False
            return rescale_graph(graph, target)


def judge(seed: int, kind: Kind) -> Verdict | None:
    """Run one trial; nothing where the graph does not run on the target.

    Raises:
        AssertionError: The rescaled graph means something else.
    """
    draw = Draw(np.random.default_rng(seed))
    graph = af.Graph(kind(draw))
    target = str(draw.pick(*TARGETS))
    try:
        found = rescaled_as_drawn(draw, graph, target)
    except AneforgeError as error:
        say(f"seed {seed} {kind.__name__} on {target} refused: {error.message}")
        return None
    if found.graph == graph:
        return Verdict(kind.__name__, rescaled=False, worst=1.0, sets_worse=0)
    sets = [draw.values(graph) for _ in range(FRESH)]
    exact = [evaluate_exactly(graph, one) for one in sets]
    for one, wanted in zip(sets, exact, strict=True):
        for name, value in evaluate_exactly(found.graph, one).items():
            if not np.allclose(value, wanted[name], rtol=MEANING, atol=MEANING * np.abs(wanted[name]).max(initial=0)):
                raise AssertionError(f"seed {seed}: {name} means something else")
    before, after = (GraphErrors.measure(one, resolve(target), sets, exact).errors for one in (graph, found.graph))
    sizes = {name: [float(np.linalg.norm(one[name])) for one in exact] for name in before}
    totals = {name: (together(before[name], sizes[name]), together(after[name], sizes[name])) for name in before}
    pairs = [(before[name], after[name]) for name in before]
    worst = max(growth(*pair) for pair in totals.values())
    worse = [any(second[place] > first[place] for first, second in pairs) for place in range(FRESH)]
    if worst > 1 or any(worse):
        say(f"seed {seed} {kind.__name__} on {target}, bounds {found.source}: times {worst:.4f}, {sum(worse)} sets")
        say("; ".join(f"{name}: {first:.4%} -> {second:.4%}" for name, (first, second) in totals.items()))
        say("; ".join(str(one) for one in found.applied))
    left = max((growth(*totals[name]) for name in before if before[name] != after[name]), default=1.0)
    if found.source == "declared":  # inputs may fill their ranges, though these do not
        filling = [growth(one.before, one.after) for one in found.outputs if one.before != one.after]
        left = min(left, max(filling, default=1.0))
    small, mean = small_growth(draw, graph, found, left)
    if small > policy().small_rows.worse or mean > LUCK:
        say(
            f"seed {seed} {kind.__name__} on {target}, bounds {found.source}: small inputs {small:.4f}, mean {mean:.4f}"
        )
        say("; ".join(str(one) for one in found.applied))
    return Verdict(kind.__name__, rescaled=True, worst=worst, sets_worse=sum(worse), small=small, mean=mean)


def small_growth(draw: Draw, graph: af.Graph, found: Rescaled, left: float) -> tuple[float, float]:
    """Return by how much the error of an output grew on small inputs, at most and on the mean; one rounding is none.

    Samples say how small inputs get, where rescaling leaves little of errors on them (`left`). A range says nothing of
    it: little that is left pays for errors that double on the mean, and no more. An infinite error that is mended is
    worth bits of small inputs in any case.
    """
    declared = found.source == "declared"
    before_after = [(one.before, one.after) for one in found.outputs]
    before_after += [(one.fresh_before, one.fresh_after) for one in found.outputs]
    mended = any(math.isinf(first) and not math.isinf(second) for first, second in before_after)
    paid = left <= 2 * (policy().small_rows if declared else policy().less).unless
    if mended or (paid and not declared):
        return 1.0, 1.0
    sets = [
        fit_inputs(graph, {name: value * 2.0**-bits for name, value in draw.values(graph).items()})
        for bits in draw.random.integers(*((1, SMALL_BITS) if declared else QUIET_BITS), FRESH)
    ]
    exact = [evaluate_exactly(graph, one) for one in sets]
    before, after = (
        GraphErrors.measure(one, resolve(found.target), sets, exact).errors for one in (graph, found.graph)
    )
    outputs = error_changes.pair_errors(before, after, exact).values()
    mean = max(map(error_changes.average_growth, outputs))
    if paid:
        return mean, 1.0
    grown = [change.growth for output in outputs for change in output if change.before < LOST]
    return (max(grown, default=1.0) if declared else 1.0), mean


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_trials(
    description: str | None,
    kinds: Sequence[Drawn],
    trial: Callable[[int, Drawn], None],
    told: Callable[[], str],
) -> None:
    """Run as many trials as the command line asks for, kind after kind, and print the figures so far now and then."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--kind", choices=[kind.__name__ for kind in kinds])
    options = parser.parse_args()
    chosen = [kind for kind in kinds if options.kind in (None, kind.__name__)]
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    for number in range(options.trials):
        trial(options.seed * 1_000_000 + number, chosen[number % len(chosen)])
        if number % TOLD_AFTER == TOLD_AFTER - 1 or number == options.trials - 1:
            say(f"{number + 1} trials, {time.perf_counter() - start:.0f} s: {told()}")


def main() -> None:
    """Run trials, and print what they showed; fail where one was worse."""
    found: list[Verdict] = []

    def trial(seed: int, kind: Kind) -> None:
        verdict = judge(seed, kind)
        found.extend([] if verdict is None else [verdict])

    def told() -> str:
        return figures(found)

    run_trials(__doc__, KINDS, trial, told)
    sys.exit(any(one.is_worse for one in found))


def figures(found: Sequence[Verdict]) -> str:
    """Return what trials showed, in one line."""
    changed = [one for one in found if one.rescaled]
    worse, luck = sum(one.is_worse for one in changed), sum(1 < one.worst <= LUCK for one in changed)
    sets = sum(one.sets_worse for one in changed)
    kinds = Counter(one.kind for one in changed)
    return (
        f"{len(changed)} of {len(found)} rescaled ({dict(kinds)}), {worse} worse, {luck} by luck of rounding; "
        f"{sets} of {len(changed) * FRESH} sets with an output that is worse by anything"
    )


if __name__ == "__main__":
    main()
