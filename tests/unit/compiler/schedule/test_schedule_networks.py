"""The example networks: partitions, peak bytes, chained and co-issued pairs, on the first and on a later family."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from aneforge.compiler.compile import build_program
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.print_schedule import partition_line
from aneforge.compiler.schedule.schedule import Schedule, schedule
from aneforge.targets import Family
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder, vision_transformer
from unet import unet
from unit.compiler.memory.memory_machine import Machine, least_on_chip

if TYPE_CHECKING:
    from collections.abc import Callable

    import aneforge as af
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.memory.plan import MemoryPlan
    from golden_text import Golden

NETWORKS: dict[str, Callable[[], af.Graph]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "unet": unet,
    "encoder": encoder,
    "vision_transformer": vision_transformer,
    "llama_block": llama_block,
}


def summary(made: Schedule, planned: MemoryPlan) -> str:
    """Return what a change of the scheduler would change, in a few lines."""
    states = Counter(int(one.state) for one in planned.allocations)
    lines = [
        f"{len(made.order)} layers in {len(made.steps)} steps, {len(planned.idle)} of them without a task",
        *(partition_line(made, partition).strip() for partition in made.partitions),
        f"peak {planned.peak} bytes",
        f"states {', '.join(f'{state}: {count}' for state, count in sorted(states.items()))}",
        *(f"DRAM {space.home}: {space.size} bytes" for space in planned.spaces),
        f"weights {sum(packed.total_bytes for packed in planned.weights)} bytes",
        *(f"chained %{pair.first} %{pair.second}" for pair in made.chained),
        *(f"co-issued %{pair.first} %{pair.second}" for pair in made.coissued),
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("family", [Family.A13, Family.A16], ids=["first", "later"])
def test_networks(network: str, family: Family, golden: Golden) -> None:
    program = build_program(NETWORKS[network](), family)
    made = schedule(program)
    planned = plan(program, made)
    Machine(program, made, planned).run()
    assert least_on_chip(program, made, planned) <= planned.peak <= planned.on_chip_bytes
    golden(summary(made, planned))


def kinds(program: Program) -> dict[str, str]:
    return {layer.name: layer.kind.name for layer in program.layers}


@pytest.mark.parametrize("network", ["encoder", "vision_transformer"])
def test_every_attention_block_runs_its_softmax_with_the_product_that_makes_its_values(network: str) -> None:
    program = build_program(NETWORKS[network](), Family.A13)
    made = schedule(program)
    kind = kinds(program)
    softmaxes = [name for name in kind if kind[name] == "softmax"]
    partners = {pair.first: pair.second for pair in made.coissued}
    assert len(softmaxes) == 12
    for softmax in softmaxes:
        assert kind[partners[softmax]] == "convolution", "the product with constant weights is a resident convolution"
        (reader,) = program.consumers[softmax]
        assert reader.kind.name == "matmul"
        assert reaches(program, partners[softmax], reader.name), "the values are the other side of the product"


def reaches(program: Program, first: str, last: str) -> bool:
    """Return whether what a layer makes gets to another one."""
    reached = {first}
    for layer in program.layers:
        if any(value.name in reached for value in layer.bottoms):
            reached.add(layer.name)
    return last in reached


def test_a_masked_softmax_is_chained_and_so_not_co_issued() -> None:
    program = build_program(llama_block(), Family.A13)
    made = schedule(program)
    kind = kinds(program)
    (softmax,) = [name for name in kind if kind[name] == "softmax"]
    assert softmax in {pair.second for pair in made.chained}
    assert all(softmax not in (pair.first, pair.second) for pair in made.coissued)
