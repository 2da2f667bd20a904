"""What one run of a decoder costs on a chip, from the graphs of single layers with weights that have no values.

All layers of one kind are one graph, priced once: a run is so many times its layer, the head, and the calls of as many
programs as the weights need. What the host hands to the cache stays there, so the ports of the cache are not copied.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.analysis.cost import price, spread_of, step_factor
from aneforge.analysis.energy import microjoules
from aneforge.analysis.files import model
from aneforge.analysis.machine import INTERVAL, machine_of
from aneforge.analysis.work import work_of
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.passes.kernels import STREAMS
from aneforge.llm.chunks import split_layers
from aneforge.llm.declared_weights import DeclaredWeights
from aneforge.llm.graphs.decoder import DecoderPart, prefill_graph, split_vocabulary, step_graph
from aneforge.llm.prompt_lengths import LONGEST_VERIFIED, split_prompt, split_verified
from aneforge.ops.declared import Declared
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import aneforge as af
    from aneforge.analysis.cost import Cost
    from aneforge.analysis.machine import Machine
    from aneforge.analysis.work import ProgramWork
    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.program import Program
    from aneforge.llm.architecture import DecoderConfig
    from aneforge.llm.chunks import Chunk
    from aneforge.targets import Place

__all__ = ["ChipPricing", "DecoderGraphs", "Energy", "RunPrice", "TimeSplit"]

MIXERS = ("query.weight", "key.weight", "value.weight")
"""Ends of the roles of weights after which attention begins, up to the one that ends it."""
EXPERTS = ".experts."
LEAVES_ATTENTION = "output.weight"
WRITTEN_BACK = "_next"
"""Ends of the names of outputs that are written into the buffer of the input of that name."""
PLACEMENT = "placement"
HALF = 2
"""Bytes of a number in fp16."""


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Where the time of a run goes, in microseconds; the parts add up to it."""

    weights: float
    """Layers that read weights, in all but the head."""
    attention: float
    """What is between the projections of queries, keys and values and that of the result: positions, cache, softmax."""
    other: float
    """Norms, activations and residuals."""
    head: float
    dispatch: float
    copies: float
    """What the host copies to and from the engine's memory."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.attention + self.other + self.head + self.dispatch + self.copies


@dataclass(frozen=True, slots=True)
class Energy:
    """What the engine draws for one run, in millijoules; the rest of the chip is not included."""

    millijoules: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RunPrice:
    """One run of the whole decoder."""

    tokens: int
    microseconds: float
    low: float
    high: float
    """The interval that should hold eight of ten measurements."""
    split: TimeSplit
    programs: int
    peak: int
    """Most bytes that are on chip at a time."""
    energy: Energy | None
    """None where the power of the chip was not measured."""
    tokens_per_second: float
    tokens_per_second_low: float
    tokens_per_second_high: float


@dataclass(frozen=True, slots=True)
class GraphPrice:
    """One graph that was compiled and priced."""

    cost: Cost
    work: ProgramWork
    peak: int
    weights: float
    attention: float
    other: float
    bytes_in: int
    bytes_out: int
    """What the host copies, without the ports of the cache."""

    @property
    def inside(self) -> float:
        """Microseconds of all layers."""
        return self.weights + self.attention + self.other


class DecoderGraphs:
    """The graphs of single layers and of a tile of the head, each made once for all chips."""

    def __init__(self, config: DecoderConfig, encoding: str = "dense") -> None:
        self.config = config
        self.weights = DeclaredWeights(config, encoding)
        self.made: dict[tuple[object, ...], af.Graph] = {}

    def layer(
        self, number: int, tokens: int, context: int, *, prompt: bool = False, verified: bool = False
    ) -> af.Graph:
        """Return one layer: of a whole prompt, or of a step against a cache, whose tokens may be `verified`."""
        verified = verified and tokens > 1
        key = ("layer", number, tokens, 0 if prompt else context, prompt, verified)
        if key not in self.made:
            part = DecoderPart(self.config, self.weights, context, number, number + 1, head=False, vocabulary_tile=1)
            made = prefill_graph(part, tokens) if prompt else step_graph(part, tokens, verified=verified)
            self.made[key] = made
        return self.made[key]

    def head(self, tokens: int, rows: int, *, prompt: bool = False) -> af.Graph:
        """Return the head with so many rows of the vocabulary: of a prompt's last token, or of all tokens of a step."""
        key = ("head", tokens, rows, prompt)
        if key not in self.made:
            config, count = replace(self.config, vocabulary=rows), len(self.config.layers)
            part = DecoderPart(config, self.weights, tokens, count, count, head=True, vocabulary_tile=rows)
            self.made[key] = prefill_graph(part, tokens) if prompt else step_graph(part, tokens)
        return self.made[key]

    @cached_property
    def kinds(self) -> Mapping[int, int]:
        """The first layer of every kind, and how many there are of it."""
        counts = Counter(self.config.layers)
        return {self.config.layers.index(layer): count for layer, count in counts.items()}


class ChipPricing:
    """Prices of one decoder on one chip, in one encoding of its weights."""

    def __init__(self, graphs: DecoderGraphs, place: Place, dense: ChipPricing | None = None) -> None:
        """Prepare for a chip; `dense` has the prices of fp16 weights there, which other encodings share in part."""
        self.graphs, self.place = graphs, place
        self.heads: dict[tuple[object, ...], GraphPrice] = {} if dense is None else dense.heads
        """The head is in fp16 whatever the encoding."""
        self.config, self.weights = graphs.config, graphs.weights
        limits = place.target.limits
        self.chunk_bytes = limits.integer("program_constant_bytes")
        self.tiles = split_vocabulary(self.config.vocabulary, limits.integer("max_tensor_dim"))
        """The vocabulary as the outputs of the head have it."""
        self.priced: dict[tuple[object, ...], GraphPrice] = {}
        if dense is not None and self.folds:
            self.priced = dense.priced

    @property
    def folds(self) -> bool:
        """The encoding is decoded on the way to the engine, which then reads fp16 at the price of dense weights."""
        stream = self.place.target.streams.get(STREAMS.get(self.weights.encoding, self.weights.encoding))
        return stream is not None and not stream.streams

    @cached_property
    def machine(self) -> Machine:
        """The rates of the chip."""
        return machine_of(self.place)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Layers as programs hold them."""
        return split_layers(self.config, self.chunk_bytes, self.weights.share)

    @property
    def tile(self) -> int:
        """Rows of the longest tile of the vocabulary; the others have one less at most."""
        return max(end - begin for begin, end in self.tiles)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights that the engine reads: layers, last norm, head; the host keeps the embeddings."""
        head = self.config.vocabulary * self.config.width * HALF
        final = sum(self.weights(role).nbytes for role in self.weights.shapes if role.startswith("final_norm."))
        return sum(self.weights.layer_bytes(number) for number in range(len(self.config.layers))) + final + head

    def step(self, tokens: int, context: int) -> RunPrice:
        """Return the price of a token against a cache, or of several that are verified, in runs as they are made.

        Raises:
            IllegalGraphError: An operation cannot run on the chip.
        """
        lengths = Counter(split_verified(tokens))
        runs = [(self.run(one, context, prompt=False), count) for one, count in lengths.items()]
        return runs[0][0] if tokens <= LONGEST_VERIFIED else add_runs(runs)

    def prefill(self, tokens: int, context: int) -> RunPrice:
        """Return the price of a prompt, of all tokens at once.

        Raises:
            IllegalGraphError: An operation cannot run on the chip.
        """
        return self.run(tokens, context, prompt=True)

    def pieces(self, tokens: int, context: int) -> RunPrice:
        """Return the price of a prompt in the pieces that layers with a memory take.

        Raises:
            IllegalGraphError: An operation cannot run on the chip.
        """
        lengths = Counter(length for _, length in split_prompt(tokens, context))
        return add_runs(
            [(self.run(one, context, prompt=False, last_row=True), count) for one, count in lengths.items()]
        )

    def cache_bytes(self, context: int) -> int:
        """Return the bytes of what all layers keep between two tokens."""
        kinds = self.graphs.kinds
        return sum(count_held_bytes(self.graphs.layer(number, 1, context)) * count for number, count in kinds.items())

    def run(self, tokens: int, context: int, *, prompt: bool, last_row: bool = False) -> RunPrice:
        """Return the price of a prompt, of a step, or with `last_row` of a piece of a prompt against the cache."""
        found: dict[int, GraphPrice] = {}
        one_row = prompt or last_row
        verified = not one_row and tokens > 1
        for number in self.graphs.kinds:
            key = (number, tokens, 0 if prompt else context, prompt, verified)
            if key not in self.priced:
                graph = self.graphs.layer(number, tokens, context, prompt=prompt, verified=verified)
                self.priced[key] = price_graph(graph, self.place, self.machine)
            found[number] = self.priced[key]
        last = ("head", tokens, one_row)
        if last not in self.heads:
            graph = self.graphs.head(tokens, self.tile, prompt=one_row)
            self.heads[last] = price_graph(graph, self.place, self.machine)
        sure_to = 1.0 if prompt else step_factor(self.place.target)
        return self.whole(tokens, self.graphs.kinds, found, self.heads[last], sure_to)

    def whole(
        self,
        tokens: int,
        layers: Mapping[int, int],
        found: Mapping[int, GraphPrice],
        head: GraphPrice,
        sure_to: float = 1.0,
    ) -> RunPrice:
        """Return the price of a run of all layers and the head, in as many programs as there are chunks.

        `sure_to` is the least factor of its interval.
        """
        machine, tiles = self.machine, len(self.tiles)
        many = [(found[number], count) for number, count in layers.items()]
        rows = tokens * self.config.width * HALF
        # Between two layers of one program the residual stays on chip, where a graph of one layer reads and writes it.
        joints = len(self.config.layers) - sum(one.last > one.first for one in self.chunks)
        kept = min(2 * joints * rows / machine.activation, sum(one.other * count for one, count in many))
        # Every program is given the residual, and what says where tokens are.
        places = max(one.bytes_in for one, _ in many)
        bytes_in = places * len(self.chunks)
        between = rows * (len(self.chunks) - 1)
        bytes_out = sum((one.bytes_out - rows) * count for one, count in many) + head.bytes_out * tiles + between
        cuts = sum((len(one.cost.programs) - 1) * count for one, count in many)
        programs = len(self.chunks) + cuts
        own = sum((one.cost.dispatch - machine.dispatch) * count for one, count in many)
        split = TimeSplit(
            weights=sum(one.weights * count for one, count in many),
            attention=sum(one.attention * count for one, count in many),
            other=sum(one.other * count for one, count in many) - kept,
            head=head.inside * tiles,
            dispatch=len(self.chunks) * machine.dispatch + own,
            copies=bytes_in / machine.host_in + bytes_out / machine.host_out,
        )
        total = split.total
        width = max(sure_to, math.exp(INTERVAL * spread_of(machine, (split.dispatch + split.copies) / total)))
        width = max(width, model().experts_factor.value) if self.config.mixture else width
        peak = max(head.peak, *(one.peak for one, _ in many))
        works = [*((one.work, count) for one, count in many), (head.work, tiles)]
        rate = tokens * 1e6 / total
        return RunPrice(
            tokens=tokens,
            microseconds=total,
            low=total / width,
            high=total * width,
            split=split,
            programs=programs,
            peak=peak,
            energy=energy_of(machine, total, works),
            tokens_per_second=rate,
            tokens_per_second_low=rate / width,
            tokens_per_second_high=rate * width,
        )


def add_runs(runs: Sequence[tuple[RunPrice, int]]) -> RunPrice:
    """Return the price of runs one after the other, each so many times; they miss their times all alike."""

    def total(value: Callable[[RunPrice], float]) -> float:
        return sum(value(one) * count for one, count in runs)

    tokens, microseconds = sum(one.tokens * count for one, count in runs), total(lambda one: one.microseconds)
    low, high = total(lambda one: one.low), total(lambda one: one.high)
    energies = [(one.energy, count) for one, count in runs if one.energy is not None]
    drawn = [sum(getattr(one, name) * count for one, count in energies) for name in ("millijoules", "low", "high")]
    return RunPrice(
        tokens=tokens,
        microseconds=microseconds,
        low=low,
        high=high,
        split=TimeSplit(
            weights=total(lambda one: one.split.weights),
            attention=total(lambda one: one.split.attention),
            other=total(lambda one: one.split.other),
            head=total(lambda one: one.split.head),
            dispatch=total(lambda one: one.split.dispatch),
            copies=total(lambda one: one.split.copies),
        ),
        programs=max(one.programs for one, _ in runs),
        peak=max(one.peak for one, _ in runs),
        energy=Energy(*drawn) if energies else None,
        tokens_per_second=tokens * 1e6 / microseconds,
        tokens_per_second_low=tokens * 1e6 / high,
        tokens_per_second_high=tokens * 1e6 / low,
    )


def energy_of(machine: Machine, microseconds: float, works: list[tuple[ProgramWork, int]]) -> Energy | None:
    """Return the energy of so much time and work, where the power of the chip was measured."""
    if machine.power is None:
        return None
    macs = sum(work.macs * count for work, count in works)
    moved = sum(work.dram_bytes * count for work, count in works)
    value = microjoules(machine.power, microseconds, macs, moved) / 1e3
    factor = math.exp(INTERVAL * machine.power.spread)
    return Energy(value, value / factor, value * factor)


def price_graph(graph: af.Graph, place: Place, machine: Machine) -> GraphPrice:
    """Compile a graph, price it, and share its time out.

    Raises:
        IllegalGraphError: An operation cannot run on the chip.
    """
    compiled = compile_graph(graph, place)
    work = work_of(compiled)
    cost = price(work, machine)
    roles, attention = roles_of(compiled), attention_layers(compiled)
    times = {"weights": 0.0, "attention": 0.0, "other": 0.0}
    for layer in cost.layers:
        role = roles.get(layer.name, "")
        part = "weights" if role else "attention" if layer.name in attention else "other"
        times[part] += layer.microseconds * (model().experts_slower.value if EXPERTS in role else 1)
    program = compiled.program
    held = cache_ports(program)
    bytes_in, bytes_out = (
        sum(port.value.type.nbytes for port in ports if port.name.removesuffix(WRITTEN_BACK) not in held)
        for ports in (program.inputs, program.outputs)
    )
    return GraphPrice(cost, work, compiled.plan.peak, **times, bytes_in=bytes_in, bytes_out=bytes_out)


def cache_ports(program: Program) -> set[str]:
    """Return the inputs that a program writes again: they stay in their buffers and are not copied."""
    written = {port.name for port in program.outputs}
    return {port.name for port in program.inputs if f"{port.name}{WRITTEN_BACK}" in written}


def count_held_bytes(graph: af.Graph) -> int:
    """Return the bytes of what a graph keeps between two runs."""
    held = {name for name in graph.inputs if f"{name}{WRITTEN_BACK}" in graph.outputs}
    return sum(graph.inputs[name].types[0].nbytes for name in held)


def roles_of(compiled: Compiled) -> dict[str, str]:
    """Return the matrix that each layer reads, by the role of the weight; vectors are norms and biases."""
    return {
        layer.name: constant.name
        for layer in compiled.program.layers
        for _, constant in layer.constants()
        if isinstance(constant, Declared) and constant.type.rank > 1 and constant.name
    }


def attention_layers(compiled: Compiled) -> set[str]:
    """Return the layers between the projections of queries, keys and values and that of the result."""
    roles, inside, found = roles_of(compiled), set[str](), set[str]()
    held = {*cache_ports(compiled.program), PLACEMENT}
    inside |= {port.value.name for port in compiled.program.inputs if port.name in held}
    for layer in compiled.program.layers:
        role = roles.get(layer.name, "")
        if role.endswith(LEAVES_ATTENTION):
            continue
        if role.endswith(MIXERS):
            inside |= {value.name for value in layer.results}
        elif any(value.name in inside for value in layer.bottoms):
            inside |= {value.name for value in layer.results}
            found.add(layer.name)
    return found
