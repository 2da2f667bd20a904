"""What was published of sums, slices, eight-bit numbers and attention, through compiled programs where they have it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine import attention, crop, golden, quantised
from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.exactness import Exactness
from aneforge.errors import PrecisionWarning
from aneforge.ops.constant import Int8Affine
from aneforge.targets import resolve
from published_tools import MEASURED, halves, input_of, output_on, run_on

if TYPE_CHECKING:
    from aneforge.targets import Target

EARLY, LATE = ("M1", "M1 Max", "M2", "M2 Pro"), ("M4", "M5", "M5 Pro")
CROPPING, CLEAN = ("M1", "M1 Max", "M2 Pro", "M2 Max"), ("M4", "M4 Max", "M5", "M5 Pro", "M6")
STREAMING = ("M2", "M2 Pro", "M4", "M5", "M5 Pro", "M6")
"""Chips to which int8 weights stream."""

every_chip = pytest.mark.parametrize("chip", MEASURED)


def target_of(chip: str) -> Target:
    return resolve(f"soc:{chip}")


# Sums.


@every_chip
@pytest.mark.parametrize(("first", "total"), [(2041, 2048), (2042, 2050), (-2056, -2050), (93, 100)])
def test_whole_numbers_add_exactly_to_2048(chip: str, first: int, total: int) -> None:
    row = halves([[first, 1, 1, 1, 1, 1, 1, 1]])
    assert output_on(chip, input_of(1, 8).sum(-1), row).item() == total


@pytest.mark.parametrize("chip", EARLY)
def test_the_probes_of_one_chip(chip: str) -> None:
    """Sixteen times [B, −B, 1] is 16 up to 4,090; 4,096 and 1,024 ones are 5,116."""
    for large in (256, 2043, 2050, 4090):
        assert output_on(chip, input_of(1, 48).sum(-1), halves([[large, -large, 1] * 16])).item() == 16
    ones = halves([[4096] + [1] * 1024])
    assert output_on(chip, input_of(1, 1025).sum(-1), ones).item() == 5116


@pytest.mark.parametrize(("large", "given", "seen"), [(2044, 17, 16), (2046, 18, 16), (2048, 21, 16), (4096, 0, 4)])
def test_the_probes_that_the_model_misses(large: int, given: int, seen: int) -> None:
    """If one changes, the notes of `arithmetic.toml` and the page of the arithmetic do too."""
    assert given != seen
    assert output_on("M1", input_of(1, 48).sum(-1), halves([[large, -large, 1] * 16])).item() == given


def test_chips_of_a_group_add_in_one_order() -> None:
    row = halves(np.random.default_rng(3).standard_normal((4, 4096)))
    for group in (EARLY, LATE):
        results = [output_on(chip, input_of(4, 4096).sum(-1), row) for chip in group]
        assert all((one == results[0]).all() for one in results)
        assert len({target_of(chip).datapath.get("reduction_order") for chip in group}) == 1
    orders = {target_of(chip).datapath.get("reduction_order") for chip in EARLY + LATE}
    assert orders == {"early", "late"}


@every_chip
def test_a_mean_is_scaled_once(chip: str) -> None:
    """H(sum · fp32(1 / N)); a sum that is rounded first, or a factor in fp16, would give other numbers."""
    row = halves([[2041, 1, 1, 1, 1, 1, 1, 2]])  # 2049: two fp16 steps would give 256.25
    assert output_on(chip, input_of(1, 8).mean(-1), row).item() == 256.25  # 256.125 is a tie
    thirds = halves([[1000, 1000, 1000]])
    assert output_on(chip, input_of(1, 3).mean(-1), thirds).item() == 1000


def test_an_average_of_positive_numbers_comes_out_too_high() -> None:
    """The mark of ties away from zero in partial sums: a published global average was 6.3e-4 too high."""
    x = halves(np.maximum(np.random.default_rng(0).standard_normal((16, 1024)), 0))
    for chip in ("M1", "M5"):
        means = output_on(chip, input_of(16, 1024).mean(-1), x).astype(np.float64).ravel()
        bias = (means / x.astype(np.float64).mean(axis=1) - 1).mean()
        assert 2e-4 < bias < 1e-3


@every_chip
@pytest.mark.parametrize("name", ["sum", "mean", "softmax"])
def test_sums_and_softmax_are_modelled(chip: str, name: str) -> None:
    function = getattr(af.Tensor, name)
    assert run_on(chip, function(input_of(2, 8)), np.ones((2, 8))).label.exactness is Exactness.MODELLED


def test_softmax_takes_the_largest_off_and_does_not_round_its_sum() -> None:
    """2049 equal elements: the reciprocal is read off its table at 2049, not at the 2050 that fp16 would make of it."""
    found = set(output_on("M1", input_of(1, 2049).softmax(-1), np.full((1, 2049), 1000.0)).ravel().tolist())
    reciprocals = ACTIVATIONS["inverse"](np.array([2049.0, 2050.0])).tolist()
    assert found == {reciprocals[0]}
    assert reciprocals[0] != reciprocals[1]


# Slices.


def width_slice(begin: int) -> af.Tensor:
    return input_of(1, 1, 1, 8).slice_by_size((0, 0, 0, begin), (1, 1, 1, 4))


@pytest.mark.parametrize("sign", [1, -1])
def test_width_slices_pass_4094_and_not_4096_where_there_is_a_crop(sign: int) -> None:
    for value, result in ((4094, 4094.0), (4096, np.inf)):
        x = np.full((1, 1, 1, 8), sign * value)
        for chip in CROPPING:
            assert set(output_on(chip, width_slice(2), x).ravel().tolist()) == {sign * result}
            assert set(output_on(chip, width_slice(0), x).ravel().tolist()) == {sign * value}
        for chip in CLEAN:
            assert set(output_on(chip, width_slice(2), x).ravel().tolist()) == {sign * value}


def test_slices_of_a15_are_decoded_as_clean_and_modelled() -> None:
    found = run_on("M3", width_slice(2), np.full((1, 1, 1, 8), 4096))
    assert set(found.outputs["y"].ravel().tolist()) == {4096.0}
    assert found.label.exactness is Exactness.MODELLED


@pytest.mark.parametrize("chip", CROPPING)
def test_joined_width_slices_return_wrong_elements(chip: str) -> None:
    target = target_of(chip)
    label = crop.label_of_joined([True, True], target)
    assert label is not None
    assert label.exactness is Exactness.UNKNOWN
    assert crop.label_of_joined([True, False], target) is None


def joined_slices() -> af.Tensor:
    x = input_of(1, 1, 1, 8)
    return af.concat([x.slice_by_size((0, 0, 0, begin), (1, 1, 1, 2)) for begin in (2, 5)], axis=-1)


@pytest.mark.parametrize("chip", CROPPING)
def test_a_program_that_joins_width_slices_warns(chip: str) -> None:
    with pytest.warns(PrecisionWarning, match="wrong elements"):
        found = run_on(chip, joined_slices(), np.arange(8.0).reshape(1, 1, 1, 8))
    assert found.label.exactness is Exactness.UNKNOWN


@pytest.mark.parametrize("chip", CLEAN)
def test_joined_width_slices_are_right_elsewhere(chip: str) -> None:
    assert crop.label_of_joined([True, True], target_of(chip)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = output_on(chip, joined_slices(), np.arange(8.0).reshape(1, 1, 1, 8))
    assert found.ravel().tolist() == [2.0, 3.0, 5.0, 6.0]


# Eight bits.


def test_activations_that_meet_int8_weights_pass_the_times_16_encoding() -> None:
    weights = np.ones((2, 1))
    for value, result in ((4094.0, 4094.0), (4096.0, np.inf), (-4096.0, -np.inf)):
        assert quantised.meeting_int8(golden.matmul, halves([[value, 0]]), weights).item() == result
    assert all(target_of(chip).datapath.get("int8_weight_activation_x16") for chip in MEASURED)


@pytest.mark.parametrize("chip", STREAMING)
def test_a_program_with_int8_weights_passes_the_times_16_encoding(chip: str) -> None:
    """Where int8 folds to dense weights before the program is made, the program has no such route."""
    weights = Int8Affine(np.ones((3, 4), np.int8), np.ones(3, np.float16), None, 0)
    graph = input_of(1, 4).linear(weights)
    for value, result in ((4094.0, 4094.0), (4096.0, np.inf)):
        found = output_on(chip, graph, halves([[value, 0, 0, 0]]))
        assert set(found.ravel().tolist()) == {result}


def test_int8_products_add_exactly_in_32_bits_and_leave_up_to_64512() -> None:
    full = np.full((1, 4), 127, np.int8)
    assert quantised.int8_matmul(full, full.T).item() == 64512.0  # 64,516 in fp16
    long = np.full((1, 2**16), 127, np.int8)
    exact = 127 * 127 * 2**16
    assert quantised.int8_matmul(long, long.T, 2.0**-16).item() == float(np.float16(exact * 2.0**-16))
    most = np.full((1, 2**17), -128, np.int8)
    assert quantised.int8_matmul(most, most.T, 2.0**-20).item() == np.inf  # 2^31


# Attention.


@pytest.mark.parametrize(
    ("queries", "keys", "usable"),
    [(1, 2048, True), (511, 2048, True), (512, 512, False), (1, 4096, False), (2048, 511, True), (4096, 1, False)],
)
def test_where_attention_can_be_relied_on(queries: int, keys: int, usable: bool) -> None:  # noqa: FBT001 - a case
    label = attention.label_of_lengths(queries, keys)
    assert (label is None) == usable
    assert usable or (label is not None and label.exactness is Exactness.UNKNOWN)


def test_attention_takes_the_largest_off_first() -> None:
    """Scores of 100 would overflow an exponential that ends at 11.09."""
    rows = halves(np.eye(4)[None, None] * 20)
    names = ("q", "k", "v")
    q, k, v = (input_of(1, 1, 4, 4, name=name) for name in names)
    found = output_on("M4", af.sdpa(q, k, v, native=True), rows, rows, rows)
    np.testing.assert_array_equal(found, rows)


# What the compiler keeps apart, because it was reported to go wrong together.


@every_chip
def test_a_multiplier_behind_a_rounding_stays_a_layer_of_its_own(chip: str) -> None:
    """Together the multiplier is reported lost; the compiler keeps it apart, and the check of a graph warns."""
    graph = input_of(1, 2).floor() * 2.0
    program = build_program(graph, f"soc:{chip}")
    assert [layer.kind.name for layer in program.layers] == ["floor", "gain_offset_control"]
    assert not any(layer.epilogue for layer in program.layers)
    findings = [finding.rule for report in af.preflight(graph, f"soc:{chip}").reports for finding in report.findings]
    assert "ANE-QUIRK-001" in findings
    label = run_on(chip, graph, np.ones((1, 2))).label
    assert label.exactness is Exactness.UNKNOWN
    assert "dropped on a chip" in label.reason
    kept_apart = input_of(1, 2).floor().clip(-100.0, 100.0) * 2.0
    assert run_on(chip, kept_apart, np.ones((1, 2))).label.exactness is not Exactness.UNKNOWN


@every_chip
@pytest.mark.parametrize("width", [64, 65, 128, 193])
def test_a_square_keeps_what_follows_it_out_of_its_slots(chip: str, width: int) -> None:
    """A square with a nonlinearity is reported not to compile where the width mod 128 is above 64."""
    program = build_program(input_of(1, 1, 1, width).square().tanh(), f"soc:{chip}")
    assert [layer.kind.name for layer in program.layers] == ["sqr", "tanh"]


# Whole runs.


@every_chip
def test_results_do_not_depend_on_run_or_place_in_the_batch(chip: str) -> None:
    generator = np.random.default_rng(1)
    one, kernel = halves(generator.standard_normal((1, 3, 4, 6))), halves(generator.standard_normal((4, 3, 3, 3)) / 5)

    def network(batch: int) -> af.Tensor:
        return af.conv(input_of(batch, 3, 4, 6), kernel, pad=1).gelu().mean((2, 3))

    single = output_on(chip, network(1), one)
    several = output_on(chip, network(3), np.concatenate([one, one, one]))
    np.testing.assert_array_equal(several, np.concatenate([single] * 3))
    np.testing.assert_array_equal(several, output_on(chip, network(3), np.concatenate([one, one, one])))
