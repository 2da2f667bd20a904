"""Into how many tiles the queries of attention are cut: the documented rule of thumb, and what the memory plan says.

The original system timed a few numbers of tiles on the device and remembered the best. Nothing can be timed here. What
tiles are for is memory: scores of all queries at once may not fit on the chip. So each number is compiled and planned,
and the one that puts the fewest bytes of its own tensors into DRAM is the best, the smaller of two.
"""

from __future__ import annotations

import math

from aneforge.compiler.compile import build_program
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.schedule import schedule
from aneforge.errors import GraphError
from aneforge.graph.builder.attention import build_tiled_attention
from aneforge.graph.builder.inputs import input as port
from aneforge.graph.graph import Graph
from aneforge.ops.decompositions.products import count_tiles
from aneforge.records import dataclass
from aneforge.targets import TargetLike, resolve

__all__ = ["AttentionTiling", "TilingOption", "attention_tiles", "tune_attention"]


@dataclass(frozen=True, slots=True)
class TilingOption:
    """A number of tiles, and what the memory plan says of it."""

    tiles: int
    dram_bytes: int
    """Bytes in DRAM of tensors between the operations; inputs and outputs are there anyway."""
    on_chip_peak: int
    """The most bytes on chip at once."""


@dataclass(frozen=True, slots=True)
class AttentionTiling:
    """Numbers of tiles for one attention on one target; `tiles` is the best."""

    target: str
    tiles: int
    rule_of_thumb: int
    options: tuple[TilingOption, ...]


def attention_tiles(queries: int) -> int:
    """Return the number of tiles into which `mha`, `cross_attention` and `sdpa` cut the queries: the documented rule.

    >>> import aneforge as af
    >>> af.attention_tiles(128), af.attention_tiles(2048)
    (1, 4)

    Raises:
        GraphError: The number is not positive.
    """
    positive("queries", queries)
    return count_tiles(queries)


def tune_attention(
    queries: int, keys: int | None = None, heads: int = 1, dim: int = 64, *, target: TargetLike = None
) -> AttentionTiling:
    """Return the number of tiles of queries that attention needs on a target, by the memory plan; nothing is timed.

    The answer is for users who build attention themselves: the builder uses `attention_tiles` on every target, because
    a graph does not depend on a target.

    >>> import aneforge as af
    >>> found = af.tune_attention(64, target=af.targets.Family.A16)
    >>> found.tiles, found.options[0].dram_bytes
    (1, 0)

    Raises:
        GraphError: A number is not positive.
        UnknownTargetError: The target name is unknown.
        IllegalGraphError: The target does not support such attention.
    """
    length = queries if keys is None else keys
    for name, value in (("queries", queries), ("keys", length), ("heads", heads), ("dim", dim)):
        positive(name, value)
    resolved, rule = resolve(target), count_tiles(queries)
    counts = sorted({1, rule, *(2**power for power in range(1, 1 + math.ceil(math.log2(2 * rule))))})
    options: list[TilingOption] = []
    for count in counts:
        if count > queries:
            continue
        q = port((1, heads, queries, dim), name="q")
        k, v = (port((1, heads, length, dim), name=name) for name in "kv")
        program = build_program(Graph({"y": build_tiled_attention(q, k, v, None, None, count)}), resolved)
        made = plan(program, schedule(program))
        ends = {one.value.name for one in (*program.inputs, *program.outputs)}
        outside = [one for one in made.by_value.values() if one.state.in_dram and not {one.value, one.root} & ends]
        options.append(TilingOption(count, sum(one.size for one in outside if one.root == one.value), made.peak))
    best = min(options, key=lambda option: (option.dram_bytes, option.tiles))
    return AttentionTiling(resolved.name, best.tiles, rule, tuple(options))


def positive(name: str, value: object) -> None:
    """Check an extent.

    Raises:
        GraphError: It is not a positive integer.
    """
    if type(value) is not int or value < 1:
        raise GraphError(f"{name} is not a positive integer", seen=repr(value), limit="1 or more")
