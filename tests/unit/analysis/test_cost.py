"""Costs of compiled programs: what they are made of, what they say, and that no target is left out."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.cost import Bound, price
from aneforge.analysis.files import machines_file, model
from aneforge.analysis.machine import Basis, machine_of
from aneforge.analysis.work import work_of
from aneforge.compiler.compile import Compiled, compile_graph
from aneforge.errors import AneforgeError, GraphTypeError, IllegalGraphError, NoDataError, UnknownTargetError
from aneforge.evidence import EvidenceKind
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.targets import database, supports_mil
from resnet18 import resnet18

if TYPE_CHECKING:
    from types import FrameType

CENSUS = [name for name, target in database().targets.items() if "9.509" in target.builds and target.has_data]
COMPILED_FOR = [
    name for name in CENSUS if (family := database().targets[name].family) is not None and supports_mil(family)
]
CHIPS = ("m1", "m1-max", "m2-pro", "m4", "m5", "m5-pro")


def convolution(channels: int = 64, side: int = 32, kernel: int = 3) -> af.Tensor:
    weights = np.ones((channels, channels, kernel, kernel), np.float16)
    return af.conv(af.input((1, channels, side, side)), weights, pad=kernel // 2)


def product(rows: int, inner: int, columns: int) -> af.Tensor:
    return af.input((rows, inner)) @ np.zeros((inner, columns), np.float16)


@pytest.mark.parametrize("target", COMPILED_FOR)
def test_every_target_that_runs_programs_has_a_cost(target: str) -> None:
    found = af.cost(convolution(16, 16), target)
    assert 10 < found.microseconds < 10_000
    assert found.low < found.microseconds < found.high
    provenance = af.estimate_provenance(target)
    assert provenance["target"] == target
    assert provenance["rates"] == {rate.name: rate.basis for rate in found.machine.rates}
    assert provenance["measured"] == (provenance["basis"] == "silicon")


@pytest.mark.parametrize("target", sorted(set(CENSUS) - set(COMPILED_FOR)))
def test_what_compile_refuses_has_no_estimate(target: str) -> None:
    with pytest.raises(AneforgeError) as refused:
        af.compile(convolution(16, 16), target=target)
    for door in (af.estimate, af.cost):
        with pytest.raises(type(refused.value)) as told:
            door(convolution(16, 16), target)
        assert str(told.value).splitlines()[0] == str(refused.value).splitlines()[0]


def test_a_name_without_data_is_one_error() -> None:
    with pytest.raises(NoDataError):
        af.estimate(convolution(), target="h20")
    with pytest.raises(UnknownTargetError):
        af.estimate(convolution(), target="h99")
    with pytest.raises(UnknownTargetError):
        af.estimate_provenance("h99")


def test_what_cannot_run_there_is_refused_as_the_compiler_does() -> None:
    with pytest.raises(IllegalGraphError, match="topk"):
        af.estimate(af.topk(af.input((1, 128)), 5), target="m1")


@pytest.mark.parametrize("chip", CHIPS)
def test_parts_add_up_to_the_whole(chip: str) -> None:
    found = af.cost(resnet18(), chip)
    assert math.isclose(sum(found.by_engine.values()), found.microseconds)
    assert found.by_engine["NE"] > found.by_engine["PE"] > 0
    for layer in found.layers:
        longest = max(layer.compute, layer.stream, layer.on_chip)
        parts = longest + layer.activations + layer.elements + layer.fixed
        assert math.isclose(layer.microseconds, parts)


def test_work_is_counted_from_the_program() -> None:
    work = work_of(compile_graph(resnet18(), "m4"))
    assert work.macs == resnet18().work().macs
    weights = sum(layer.weight_bytes for layer in work.layers)
    assert 0.95 < weights / (2 * 11_689_512) < 1.2, "packed blocks are padded, and batch norms folded"


def multiplying_graphs() -> list[af.Tensor]:
    x, plane = af.input((1, 32, 14, 14)), af.input((4, 16, 32))
    return [
        af.conv(x, np.ones((32, 1, 3, 3), np.float16), pad=1, groups=32),
        af.conv(x, np.ones((64, 16, 3, 3), np.float16), groups=2, stride=2),
        af.conv_transpose(x, np.ones((32, 8, 2, 2), np.float16), stride=2),
        plane @ plane.transpose(0, 2, 1),
        af.input((5, 64)) @ np.ones((64, 10), np.float16),
    ]


@pytest.mark.parametrize("number", range(len(multiplying_graphs())))
def test_multiplies_of_a_layer_are_those_of_its_operation(number: int) -> None:
    graph = multiplying_graphs()[number]
    counted = work_of(compile_graph(graph, "m4")).macs
    assert counted >= af.Graph({"y": graph}).work().macs > 0
    assert counted <= 1.01 * af.Graph({"y": graph}).work().macs


def test_a_state_is_not_copied_by_the_host() -> None:
    x, kept = af.input((1, 64)), af.state("kept", (1, 64))
    graph = af.Graph({"y": x + kept}, {"kept": x * 2.0})
    (segment,) = work_of(compile_graph(graph, "m4")).segments
    assert (segment.bytes_in, segment.bytes_out) == (128, 128)


def test_a_large_product_reads_its_activations_again() -> None:
    small, large = (work_of(compile_graph(product(side, side, side), "m5-pro")) for side in (512, 2048))
    assert sum(layer.reread_bytes for layer in small.layers) == 0
    # Weights fill kernel memory eight times; the input is read for each filling but the first.
    assert sum(layer.reread_bytes for layer in large.layers) == 7 * 2 * 2048 * 2048


def test_a_large_product_inside_a_network_reads_again_as_it_does_alone() -> None:
    x, weights = af.input((2048, 2048)), np.zeros((2048, 2048), np.float16)
    first, second = (layer for layer in work_of(compile_graph(x @ weights @ weights, "m5-pro")).layers if layer.macs)
    assert first.reread_bytes == second.reread_bytes > 0
    assert (first.chip_bytes, second.chip_bytes) == (2 * 2048 * 2048, 2 * 2048 * 2048)


def test_a_split_product_reads_as_often_as_a_streamed_one() -> None:
    works = [work_of(compile_graph(product(2048, 2048, 2048), chip)) for chip in ("m1", "m5-pro")]
    again, again_streamed = (sum(layer.reread_bytes for layer in work.layers) for work in works)
    assert len(works[0].layers) > len(works[1].layers)
    assert again == again_streamed


def test_a_slice_reads_what_it_writes() -> None:
    x = af.input((1, 256, 64, 64))
    (layer,) = work_of(compile_graph(x.slice_by_size((0, 0, 8, 0), (1, 256, 4, 64)), "m4")).layers
    assert layer.dram_bytes + layer.chip_bytes == 2 * 2 * 256 * 4 * 64


def test_winograd_divides_the_multiplies_where_the_target_has_it() -> None:
    (direct,) = af.cost(convolution(256), "m4").layers
    (winograd,) = af.cost(convolution(256), "m5-pro").layers
    rates = [machine_of(chip).macs for chip in ("m4", "m5-pro")]
    gain = direct.compute * rates[0] / (winograd.compute * rates[1])
    assert math.isclose(gain, model().winograd_gain.value)


def test_winograd_that_nobody_measured_is_said() -> None:
    found = af.cost(convolution(16, 15), "m5-pro")
    assert any("may run as Winograd" in note for note in found.notes)


def test_a_vector_product_is_bound_by_its_weights() -> None:
    layers = af.cost(product(1, 4096, 4096), "m5-pro").layers
    assert {layer.bound for layer in layers if layer.macs} == {Bound.WEIGHTS}


def test_few_pixels_leave_the_array_idle() -> None:
    assert all(0 < layer.utilisation <= 1 for layer in af.cost(resnet18(), "m4").layers)
    (busy,) = {layer.utilisation for layer in af.cost(product(1, 64, 64), "m4").layers if layer.macs}
    assert busy < 0.1


def test_a_layer_of_its_own_cuts_the_program() -> None:
    q = af.input((1, 8, 64, 64))
    whole, cut = (
        af.cost((q.relu() * 2.0).tanh(), "m5-pro"),
        af.cost(af.sdpa(q.relu(), q, q, native=True).tanh(), "m5-pro"),
    )
    assert [program.bridge for program in cut.programs] == [None, "sdpa", None]
    assert len(whole.programs) == 1
    assert cut.microseconds > whole.microseconds + 2 * cut.machine.dispatch
    assert sum(layer.microseconds for layer in cut.layers if layer.kind == "sdpa") == 0, (
        "its program was measured whole"
    )
    assert any("measured on one chip" in note for note in cut.notes)


def test_a_chip_has_its_own_bandwidth() -> None:
    base, largest = machine_of("m4"), machine_of("m4-max")
    assert base.target == largest.target
    assert (base.stream, largest.stream) == (64_200, 118_900)
    # Two channels serve weights that are read once; what is read again comes over one.
    assert (base.restream, largest.restream) == (64_200, 59_450)
    assert base.measured
    assert not largest.measured
    assert largest.spread > base.spread


def test_the_call_of_a_chip_without_measurements_stands_between_its_neighbours() -> None:
    older, between, newer = machine_of("m2-pro"), machine_of("m3"), machine_of("m4")
    assert between.anchors == ("M2 Pro", "M4", "M1 Max")
    assert math.isclose(between.dispatch, math.sqrt(older.dispatch * newer.dispatch))
    assert machine_of("m11").anchors == ("M2 Pro", "M4", "M1 Max"), "an embedded target is of its family's generation"
    assert machine_of("h11").anchors == ("M1", "M1 Max")
    assert machine_of("m6").anchors == ("M5 Pro", "M5")


def test_host_copies_come_from_the_nearest_tier_before_and_not_from_exceptions() -> None:
    lent = machine_of("m1-max")
    for chip in ("m2", "m3", "m2-max"):
        assert (machine_of(chip).host_in, machine_of(chip).host_out) == (lent.host_in, lent.host_out), chip
        assert machine_of(chip).element_nanoseconds == lent.element_nanoseconds
    # A bare target stands for its measured chip, exception or not.
    assert machine_of("h14g").host_out == machine_of("m2-pro").host_out
    assert machine_of("m4-max").host_in == machine_of("m4").host_in


def test_a_call_that_networks_tell_belongs_to_their_chip_alone() -> None:
    for chip, call in machines_file().calls.items():
        machine = machine_of(f"soc:{chip}")
        assert math.isclose(machine.dispatch, call.dispatch)
        assert not machine.measured
        assert machine.basis_of("dispatch") is Basis.FITTED
        assert machine.basis[0] == (
            f"dispatch: fitted, to {call.rows} whole programs measured on {database().chips[chip].name}"
        )
    assert machine_of("h13").dispatch == machine_of("m1").dispatch


def test_what_stays_inside_a_program_moves_with_the_multiplies() -> None:
    x = af.input((1, 64, 64, 64))
    first, second = af.cost((x * 2.0).tanh().avg_pool(2).max_pool(2), "m1-max").layers[:2]
    assert first.activations > 0 == second.activations
    assert second.on_chip > 0
    assert second.bound is Bound.ON_CHIP
    assert math.isclose(second.microseconds, second.on_chip + second.fixed)


def test_what_another_program_reads_leaves_the_chip() -> None:
    q = af.input((1, 8, 64, 64))
    work = work_of(compile_graph(af.sdpa(q.relu(), q, q, native=True).tanh(), "m5-pro"))
    assert [layer.dram_bytes > 0 for layer in work.layers] == [True] * len(work.layers)
    assert all(layer.alone for layer in work.layers)


def test_a_norm_costs_the_array_inside_a_network_and_the_chip_alone() -> None:
    def softmax(x: af.Tensor) -> float:
        (found,) = (layer for layer in af.cost(x.softmax(-1), "m1").layers if layer.kind == "softmax")
        return found.elements

    x, weights = af.input((128, 256)), np.zeros((256, 256), np.float16)
    alone, inside = softmax(x), softmax(x.linear(weights))
    machine = machine_of("m1")
    assert math.isclose(alone / inside, machine.element_nanoseconds["softmax"] / machine.inside_nanoseconds["softmax"])
    assert alone > 5 * inside


def test_error_bars_of_networks_are_those_of_networks_that_were_measured() -> None:
    one, many = af.cost(convolution(), "m5-pro"), af.cost(resnet18(), "m5-pro")
    assert one.spread == one.machine.spread
    assert many.spread == machines_file().spread.network > one.spread


def test_a_chip_without_measurements_widens_the_bars_by_the_share_of_the_host() -> None:
    network, elementwise = af.cost(resnet18(), "m4-max"), af.cost((af.input((2048, 4096)) * 2.0).sigmoid(), "m4-max")
    spreads = machines_file().spread
    assert spreads.network < network.spread < elementwise.spread <= spreads.other_chip
    host = (network.dispatch + network.copies) / network.microseconds
    assert math.isclose(network.spread, spreads.network + host * (spreads.other_chip - spreads.network))


@pytest.mark.parametrize(("target", "faster"), [("h13", False), ("h16", True)])
def test_int8_makes_an_estimate_smaller_where_weights_stream(target: str, *, faster: bool) -> None:
    weight = np.random.default_rng(0).standard_normal((2048, 2048)).astype(np.float16)
    y = af.input((1, 2048)).linear(weight)
    assert (af.estimate(y, target, int8=True) < af.estimate(y, target)) is faster


def test_energy_is_there_where_power_was_measured_and_labelled() -> None:
    measured, other = af.cost(convolution(256, 64), "m1"), af.cost(convolution(256, 64), "m4-max")
    assert measured.energy is not None
    assert measured.energy.evidence.kind is EvidenceKind.INFERRED
    assert "fitted to the engine power of 8 measured calls" in str(measured.energy.evidence)
    assert measured.energy.low < measured.energy.microjoules < measured.energy.high
    assert math.isclose(measured.energy.watts * measured.microseconds, measured.energy.microjoules)
    assert other.energy is None
    assert "no energy: the power of this chip was not measured" in other.notes


class Loaded:
    """What a loaded model shows of itself, and no more."""

    def __init__(self, compiled: Compiled) -> None:
        self.program, self.schedule, self.plan = compiled.program, compiled.schedule, compiled.plan


def test_what_was_compiled_is_priced_as_it_is() -> None:
    compiled = compile_graph(convolution(), "m4")
    assert af.cost(compiled).microseconds == af.cost(convolution(), "h16g").microseconds
    assert af.cost(compiled, "m4-max").machine.name == "m4-max"
    assert af.cost(Loaded(compiled)).microseconds == af.cost(compiled).microseconds
    with pytest.raises(GraphTypeError, match=r"it was compiled for h16g \(got h13\)\. Remedy: give the graph"):
        af.cost(compiled, "m1")


@pytest.mark.parametrize("chip", ["m1", "h17c"])
def test_a_graph_without_layers_costs_nothing(chip: str) -> None:
    out = af.input((1, 8))
    found = af.cost(out, chip)
    assert (found.microseconds, found.low, found.high, found.spread, found.energy) == (0.0, 0.0, 0.0, 0.0, None)
    assert "nothing to run" in str(found)
    assert isinstance(af.estimate(out, target=chip), float)
    assert af.placement(out, chip, path="direct").operations == ()


def test_the_text_says_where_its_numbers_come_from() -> None:
    text = str(af.cost(convolution(), "m4-max"))
    assert "on m4-max" in text
    assert "as on M4, of the same target" in text
    assert "fitted to 2 whole programs measured on M4 Max" in text
    assert "by e5rt" in text


def test_the_text_of_a_large_program_stays_short() -> None:
    found = af.cost(resnet18(), "m1")
    text = str(found)
    assert f"and {sum(layer.microseconds > 0 for layer in found.layers) - 20} faster layers" in text
    assert "energy of the engine:" in text
    assert len(text.splitlines()) < 36


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(CHIPS),
    st.integers(1, 6).map(lambda n: 16 * n),
    st.integers(1, 5).map(lambda n: 8 * n),
    st.booleans(),
)
def test_more_work_never_costs_less(chip: str, channels: int, side: int, wider: bool) -> None:  # noqa: FBT001 - drawn
    less = af.estimate(convolution(channels, side), target=chip)
    more = af.estimate(convolution(2 * channels if wider else channels, side if wider else 2 * side), target=chip)
    assert more >= less


def calls_of(layers: int) -> int:
    """Count the calls that pricing a chain of layers makes, compilation left out."""
    y = af.input((1, 8, 4, 4))
    for _ in range(layers):
        y = (y + y).tanh()
    compiled, machine = compile_graph(y, "m4"), machine_of("m4")
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        price(work_of(compiled), machine)
    finally:
        sys.setprofile(None)
    return count


def test_pricing_is_linear_in_layers() -> None:
    few, many = calls_of(200), calls_of(800)
    assert many < 4.4 * few


def test_a_transposed_convolution_of_a_constant_has_its_work() -> None:
    image, kernel = np.ones((2, 2, 3, 4), np.float16), np.ones((2, 1, 2, 3), np.float16)
    given = {"x": Dense(image), "weight": Dense(kernel), "bias": af.input((1,))}
    made = compile_graph(Tensor(build("conv_transpose", given, {})), "h16g")
    assert sum(layer.macs for layer in work_of(made).layers) == image.size * 1 * 6
