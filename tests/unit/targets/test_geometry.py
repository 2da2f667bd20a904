"""Widths, sizes and rates outside the blob, against the published figures written down again here."""

import pytest

from aneforge.errors import NoDataError
from aneforge.targets import resolve

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("macs_per_core_cycle_fp16", {"m1": 256, "m6": 256}),
        ("macs_per_core_cycle_int8", {"m4": 512, "m6": 512, "m1": None}),
        ("engines_per_die", {"m1-max": 1, "m2": 1, "m4": 1, "a18-pro": 1, "m6": 2, "m3": None}),
        ("work_unit_pixels_fp16", {"m6": (128, 256)}),
        ("work_unit_pixels_int8", {"m6": (256, 512)}),
        ("layer_overhead_cycles", {"m1": 44, "m6": None}),
        ("candidate_splits", {"m1": (1, 4, 16)}),
        ("l2_bank_width", {"m1": 16, "m6": 16}),
        (
            "system_cache_bytes",
            {"h13": 16 * MIB, "h16g": 16 * MIB, "h17s": 24 * MIB, "h18g": 16 * MIB, "h19": 36 * MIB, "h13g": None},
        ),
        ("memcache_option_bytes", {"h13g": 4 * MIB, "h13": None}),
        ("throughput_knee_bytes", {"m1": (2_280_000, 2_340_000), "m5-pro": (4_720_000, 4_720_000)}),
        ("dram_channels", {"h13": 4, "h16g": 8, "h17s": 16, "h18g": 8, "h19": 4}),
        ("dram_bandwidth", {"m1": 85}),
        ("weight_bandwidth", {"m1": 51, "m5-pro": 145, "m6": 150}),
        ("activation_bandwidth", {"m5-pro": (24, 24), "m6": (35, 40), "m1": None}),
        ("transpose_bandwidth", {"m6": 60}),
        ("palette_widths", {"m1": (4, 8), "m2": (2, 4, 6, 8), "h18": (2, 3, 4, 6, 8)}),
        ("palette_vector_sizes", {"m1": (1, 2, 4, 5)}),
        ("kernel_format_range", {"m1": (1, 31)}),
        ("palette_format_range", {"m1": (7, 27)}),
        ("unity_format_range", {"m1": (28, 30)}),
    ],
)
def test_geometry(name: str, expected: dict[str, object]) -> None:
    assert {target: resolve(target).geometry.get(name) for target in expected} == expected


def test_vector_sizes_are_the_bits_of_the_published_mask() -> None:
    assert sum(1 << size for size in resolve("m1").geometry.integers("palette_vector_sizes")) == 0x36


def test_preconditions_of_streaming() -> None:
    conditions = resolve("m1").geometry.words("streaming_preconditions")
    assert conditions == ("immutable weight", "unit stride", "no dilation", "no tile overlap")


def test_the_blobs_own_geometry_is_not_repeated_here() -> None:
    m6 = resolve("m6")
    names = ("l2_bank_count", "l2_fetch_bytes", "planar_engine_work_unit", "max_operand_bytes", "memory_energy")
    assert [m6.fact(name).value for name in names] == [64, 128, 64, 2 * MIB, (10, 50)]
    assert not any(m6.geometry.knows(name) for name in names)


def test_a_rate_that_nobody_measured_is_unknown() -> None:
    with pytest.raises(NoDataError, match="on h15: geometry field 'weight_bandwidth' is unknown here"):
        resolve("m3").fact("weight_bandwidth")
