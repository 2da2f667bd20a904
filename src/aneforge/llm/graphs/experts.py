"""Mixtures of experts on rows [tokens, width]: every expert is computed, and those that were not chosen weigh nothing.

The choice needs no top-k layer: the row's maximum is taken off as often as experts are chosen. Two experts with the
same logit in fp16 are taken together. The sum over experts is that of the last product, whose contraction runs over all
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aneforge as af
from aneforge.llm.graphs.decoder_blocks import activate, project
from aneforge.ops.numbers import FP16_MAX

if TYPE_CHECKING:
    from aneforge.llm.architecture import ExpertsSpec
    from aneforge.llm.graphs.decoder_blocks import LayerWeights

__all__ = ["mix_experts"]

TAKEN = -FP16_MAX
"""What the logit of an expert becomes once it is chosen: less than any other."""


def mix_experts(x: af.Tensor, spec: ExpertsSpec, weights: LayerWeights, longest_axis: int) -> af.Tensor:
    """Return the weighted sum of the experts' results, and of the shared expert's; no axis is longer than it may be."""
    shares = choose_experts(project(x, weights, "router"), spec)
    size = max(1, longest_axis // spec.hidden)
    groups = [(start, min(start + size, spec.experts)) for start in range(0, spec.experts, size)]
    total = None if not spec.shared_hidden else build_shared_expert(x, spec, weights)
    for group in groups:
        part = expert_group(x, shares, spec, weights, group)
        total = part if total is None else total + part
    assert total is not None  # noqa: S101 - there is at least one group
    return total


def choose_experts(logits: af.Tensor, spec: ExpertsSpec) -> af.Tensor:
    """Return the shares [tokens, experts]: the best probabilities, and 0 for all others.

    Logits are compared, not their probabilities: rounding those once more would make more of them equal.
    """
    rest = logits
    for _ in range(spec.chosen):
        rest = af.select(rest.greater_equal(rest.amax(-1)), TAKEN, rest)
    shares = af.select(rest.less(logits), logits.softmax(-1), 0.0)
    return shares * shares.sum(-1).inverse() if spec.renormalised else shares


def expert_group(
    x: af.Tensor, shares: af.Tensor, spec: ExpertsSpec, weights: LayerWeights, group: tuple[int, int]
) -> af.Tensor:
    """Return what some experts add to rows."""
    tokens, count, rows = x.shape[0], group[1] - group[0], (group[0] * spec.hidden, group[1] * spec.hidden)
    hidden = activate(x.linear(weights("experts.gate.weight", rows)), spec.activation)
    hidden = hidden * x.linear(weights("experts.up.weight", rows))
    mine = shares
    if count < spec.experts:
        # A slice that begins inside the width is not safe on every engine, so that experts become rows first.
        mine = shares.transpose(1, 0).slice_by_size((group[0], 0), (count, tokens)).transpose(1, 0)
    weighed = hidden.reshape(tokens, count, spec.hidden) * mine.reshape(tokens, count, 1)
    return weighed.reshape(tokens, count * spec.hidden).linear(weights("experts.down.weight", rows))


def build_shared_expert(x: af.Tensor, spec: ExpertsSpec, weights: LayerWeights) -> af.Tensor:
    """Return what the expert that sees every token adds, after its own gate."""
    mine = weights.part("shared")
    hidden = activate(project(x, mine, "gate"), spec.activation) * project(x, mine, "up")
    return project(hidden, mine, "down") * project(x, mine, "router").sigmoid()
