"""A glance at compiled programs: whatever the full comparison finds, it finds too, and nearly nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.divergence.glance import Glance
from aneforge.analysis.divergence.graphs import Divergence, Strength, divergence
from aneforge.commands.demo_networks import network
from aneforge.compiler.compile import compile_graph
from aneforge.graph.graph import read_promises
from aneforge.testing.networks import networks
from divergence_tools import PAIRS, SLOW

if TYPE_CHECKING:
    from aneforge.testing.graphs import DrawnGraph


def glanced(graph: af.Graph, pair: tuple[str, str]) -> Divergence:
    """Return what a glance at the programs of two targets finds."""
    glance = Glance(read_promises(graph))
    made = [compile_graph(graph, target) for target in pair]
    first, second = (glance.side(one.graph, one.retargeted.changes, one.program) for one in made)
    return glance.between(first, second)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(networks(most=8), st.sampled_from(PAIRS))
def test_nothing_that_can_differ_is_missed(drawn: DrawnGraph, pair: tuple[str, str]) -> None:
    try:
        proven = divergence(drawn.graph, *pair)
    except af.errors.GraphError:
        return
    found = glanced(drawn.graph, pair)
    assert found.verdict.rank >= proven.verdict.rank
    assert set(found.outputs) >= set(proven.outputs)


@pytest.mark.parametrize("name", ["resnet18", "transformer", "unet"])
@pytest.mark.parametrize("target", ["h14", "h15", "h16g", "h17s"])
def test_ordinary_networks_are_judged_as_by_the_proof(name: str, target: str) -> None:
    graph = network(name)
    found, proven = glanced(graph, ("h13", target)), divergence(graph, "h13", target)
    assert [(one.layer, one.cause, one.strength) for one in found.findings] == [
        (one.layer, one.cause, one.strength) for one in proven.findings
    ]


def test_a_promise_rules_the_crop_out() -> None:
    for most, verdict in ((4094.0, Strength.NONE), (4096.0, Strength.SATURATION), (None, Strength.SATURATION)):
        cut = af.input((1, 4, 8, 16), max_abs=most).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8])
        assert glanced(af.Graph({"y": cut}), ("h13", "h17s")).verdict is verdict


def test_a_function_hides_the_crop() -> None:
    cut = af.input((1, 4, 8, 16)).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8])
    for most, verdict in ((4094.0, Strength.NONE), (5000.0, Strength.SATURATION)):
        assert glanced(af.Graph({"y": cut.clip(-most, most)}), ("h13", "h17s")).verdict is verdict


def test_functions_behind_crops_are_computed_once() -> None:
    graph = af.Graph({"y": af.input((1, 4, 8, 16)).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8]).tanh()})
    glance = Glance(read_promises(graph))
    counts: list[int] = []
    for target in ("h13", "h14", "h13g"):
        made = compile_graph(graph, target)
        glance.side(made.graph, made.retargeted.changes, made.program)
        counts.append(len(glance.numbering.hiding.found))
    assert counts[0] > 0
    assert len(set(counts)) == 1


def test_constants_are_not_read() -> None:
    weight = np.zeros((4, 4, 3, 3), np.float16)
    found = glanced(af.Graph({"y": af.conv(af.input((1, 4, 8, 8)), weight, pad=1)}), ("h13", "h17s"))
    assert [str(one.cause) for one in found.findings] == ["Winograd on width"]
