"""Time to schedule a program and to plan its memory, verification included; growth with the number of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.schedule import schedule
from aneforge.targets import Family, resolve
from shared.timing import seconds

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

BUDGET = 5.0
"""Seconds for ten thousand layers."""
SIZES = (1_000, 10_000)
RUNS = 3
CHANNELS, SIDE = 32, 80


def blocks(count: int) -> af.Graph:
    """Return a network of blocks in which branches meet, parts are joined and large tensors end partitions."""
    draw = np.random.default_rng(0)
    wide = (draw.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 20).astype(np.float16)
    narrow = (draw.standard_normal((CHANNELS, CHANNELS, 1, 1)) / 6).astype(np.float16)
    joining = (draw.standard_normal((CHANNELS, 2 * CHANNELS, 1, 1)) / 8).astype(np.float16)
    y = af.input((1, CHANNELS, SIDE, SIDE), name="x")
    for number in range(count):
        left = af.conv(y, wide, pad=1).relu()
        right = af.conv(y, narrow).sigmoid()
        joined = af.conv(af.concat([left, right], axis=1), joining)
        pooled = af.conv(y, narrow).max_pool(3, stride=1, pad=1)
        y = (joined.softmax(1) * pooled + y).tanh()
        if number % 8 == 0:
            y = y.reshape(1, CHANNELS, SIDE * SIDE).transpose(0, 2, 1).transpose(0, 2, 1).reshape(*left.shape)
    return af.Graph({"y": y})


def chain(count: int) -> af.Graph:
    """Return many small operations one after another, all of which read the input too."""
    x = af.input((1, 8, 4, 4), name="x")
    y = x
    for _ in range(count):
        y = (y + x).tanh()
    return af.Graph({"y": y})


def report(name: str, program: Program) -> float:
    """Print and return the time for one program."""
    scheduling = seconds(lambda: schedule(program), RUNS)
    made = schedule(program)
    planning = seconds(lambda: plan(program, made), RUNS)
    cuts, pairs = len(made.partitions), len(made.chained) + len(made.coissued)
    print(
        f"{name}: {len(program.layers)} layers; schedule {scheduling * 1e3:.0f} ms, plan {planning * 1e3:.0f} ms; "
        f"{cuts} partitions, {pairs} pairs"
    )
    return scheduling + planning


def main() -> None:
    """Print every line."""
    target = resolve(Family.A13)
    for name, network, layers in (("blocks", blocks, 11.25), ("chain", chain, 2.0)):
        taken: list[float] = []
        for size in SIZES:
            program = lower(network(round(size / layers)), target)
            taken.append(report(f"{name} {size}", program) / len(program.layers))
        print(f"  time per layer at {SIZES[-1]} over that at {SIZES[0]}: {taken[-1] / taken[0]:.2f}")
        share = taken[-1] * SIZES[-1] / BUDGET
        print(f"  {SIZES[-1]} layers: {share:.0%} of the budget of {BUDGET:.0f} s")


if __name__ == "__main__":
    main()
