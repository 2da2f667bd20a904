"""Hardware fields, limits, streams and datapath switches, against the published tables written down again here."""

import pytest

from aneforge.errors import NoDataError, UnknownNameError
from aneforge.targets import FP16_SLICE_SAT, Family, database, has_texture_engine, limit, native_streams, resolve

COLUMNS = ["h11", "h13", "h14", "h15", "h16", "h17", "h18"]

# offset in build 9.509: a flag for H11, H13, H14, H15, H16, H17, H18
CAPABILITY_BYTES = """
0x48b 0 0 0 0 0 0 0
0x48f 0 1 1 1 1 1 1
0x494 0 0 1 1 1 1 1
0x4a4 0 0 0 0 0 0 0
0x4a9 0 0 0 1 1 1 1
0x4f2 0 1 1 1 1 1 1
0x520 0 0 0 1 1 1 1
0x523 0 0 0 1 1 1 1
0x533 0 0 0 1 1 1 1
0x539 0 0 0 1 1 1 1
0x528 0 0 1 1 1 1 1
0x532 0 0 1 1 1 1 1
0x537 0 0 1 1 1 1 1
0x529 ? 1 1 1 1 1 1
0x52c ? ? ? ? ? ? ?
0x52d 0 0 0 0 0 0 1
0x55c 0 0 1 1 1 1 1
0x563 0 0 0 0 0 0 1
0x564 0 0 1 1 1 1 0
0x687 0 0 0 1 1 1 0
0x814 ? 1 1 1 1 1 1
0x815 0 1 1 1 1 1 1
0x816 0 1 1 1 1 1 1
0x818 ? ? ? ? ? ? ?
0x81a ? 1 1 1 1 1 1
0x81d 0 0 1 1 1 1 1
0x8bc ? ? ? ? ? ? ?
"""

# offset in build 9.509: a number for H11, H13, H14, H15, H16, H17, H18
SCALARS = """
0x0c 8 8 8 8 8 8 8
0x70 1 16 16 16 16 16 16
0x138 16384 16384 16384 16384 65536 65536 65536
0x158 1 16384 16384 16384 65536 65536 65536
0x1b8 2097152 2097152 2097152 2097152 2097152 2097152 2097152
0x1c0 16 16 16 16 16 16 16
0x1c8 64 64 64 64 64 64 64
0x1f0 0 0 0 32768 262144 262144 262144
0x200 65536 65536 65536 65536 65536 65536 65536
0x210 ? 16777216 16777216 16777216 16777216 16777216 16777216
0x218 256 256 16 16 16 16 16
0x228 32 64 64 64 64 64 64
0x230 64 64 64 64 64 64 64
0x288 0 0 0 0 0 0 0
0x3f0 ? 192 192 384 384 384 384
0x468 0 16384 16384 16384 65536 65536 65536
0x470 0 16384 16384 16384 65536 65536 65536
0x668 0 3 13 16 14 14 14
"""


@pytest.mark.parametrize("row", [*CAPABILITY_BYTES.strip().splitlines(), *SCALARS.strip().splitlines()])
def test_hardware_field(row: str) -> None:
    offset, *cells = row.split()
    for target, cell in zip(COLUMNS, cells, strict=True):
        hal = resolve(target).hal
        name = hal.name_at(int(offset, 16))
        assert hal.get(name) == (None if cell == "?" else int(cell)), (target, name)


@pytest.mark.parametrize(
    ("older_offset", "newer_offset"),
    [
        (0x0C, 0x14), (0x70, 0x78), (0x138, 0x158), (0x158, 0x178), (0x1B8, 0x1D8), (0x1C0, 0x1E0), (0x1C8, 0x1E8),
        (0x1F0, 0x210), (0x200, 0x220), (0x210, 0x230), (0x218, 0x240), (0x228, 0x250), (0x3F0, 0x470), (0x668, 0x720),
    ],
)  # fmt: skip
def test_both_builds_name_the_same_field(older_offset: int, newer_offset: int) -> None:
    hal = resolve("h13").hal
    assert hal.name_at(older_offset) == hal.name_at(newer_offset, "10.26.6")
    assert hal.at(older_offset) == hal.at(newer_offset, build="10.26.6")


def test_an_offset_means_different_fields_in_the_two_builds() -> None:
    hal = resolve("h13").hal
    assert hal.name_at(0x158) != hal.name_at(0x158, "10.26.6")
    assert (hal.at(0x0C), hal.at(0x0C, "10.26.6")) == (8, 16)


@pytest.mark.parametrize(
    ("offset", "target", "value"),
    [
        (0x72C, "h16", False), (0x72C, "h17", True), (0x72B, "h17", True), (0x55D, "h17", False), (0x55D, "h18", True),
        (0x5C7, "h18", False), (0x00C, "h13", 16), (0x00C, "m9", 2), (0x00C, "h12", 8), (0x888, "h18g", 2097152),
    ],
)  # fmt: skip
def test_fields_of_the_newer_build(offset: int, target: str, value: int) -> None:
    assert resolve(target).hal.at(offset, build="10.26.6") == value


def test_single_targets_differ_from_their_tier() -> None:
    assert resolve("m9").hal.integer("max_operand_bytes") == 1048576
    assert [resolve(name).hal.get("cross_die_addressing") for name in ("m11", "u1", "u2", "u3")] == [
        True,
        False,
        True,
        True,
    ]


def test_stride_factors() -> None:
    assert resolve("h13").hal.integers("stride_factors") == (2, 3, 4, 8)


# name: A13 A14 A15 A16
LIMITS = """
max_tensor_dim 16384 16384 16384 65536
channel_extent 65536 65536 65536 65536
transpose_extent 8388607 8388607 8388607 16777215
conv_kw_max 13 13 13 15
reduction_route_threshold 192 192 384 384
max_rank 5 5 5 5
avg_pool_window 29 31 31 31
conv_kernel_width_large_fp16 13 16 16 16
conv_kernel_width_large_default 29 32 32 32
conv_kernel_width_small_default 15 16 16 16
conv_kernel_height_large 29 32 32 32
conv_kernel_height_small 15 16 16 16
conv_kernel_depth_large 16 16 16 16
conv_kernel_depth_small 8 8 8 8
patch_width_max 28 31 31 31
patch_depth_max 15 15 15 15
tensor_batch 65536 65536 65536 65536
group_conv_decompose 2048 2048 2048 2048
activation_lut_budget 86 86 86 86
kernel_memory_budget 65536 65536 65536 65536
group_norm_extent 16384 16384 16384 65536
"""


@pytest.mark.parametrize("row", LIMITS.strip().splitlines())
def test_limit(row: str) -> None:
    name, *cells = row.split()
    assert [limit(name, family) for family in (2, 3, 4, 5)] == [int(cell) for cell in cells]


@pytest.mark.parametrize(
    ("name", "target", "value"),
    [
        ("conv_kernel_width_large_fp16", "m11", 15),
        ("tensor_batch", "h12", 4096),
        ("tensor_depth", "h12", 1),
        ("activation_lut_budget", "h11", 150),
        ("context_switch_live_tensors", "h13", 2),
        ("loaded_programs", "h13", 128),
        ("in_flight_requests", "h17", 127),
        ("arg_reduction_extent", "h13", 2048),
    ],
)
def test_limits_of_single_targets(name: str, target: str, value: int) -> None:
    assert limit(name, target) == value


def test_an_unknown_limit_names_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="unknown limit field 'max_tensor_dims'; nearest: max_tensor_dim"):
        limit("max_tensor_dims", Family.A13)


def test_a_limit_that_is_no_number_says_so() -> None:
    with pytest.raises(TypeError, match="not a whole number"):
        limit("engine_dtypes", Family.A13)


def test_a_limit_that_no_source_gives_says_so() -> None:
    with pytest.raises(NoDataError, match="no published source gives its value"):
        limit("slice_saturation_magnitude", Family.A16)


def test_a_target_without_data_says_so() -> None:
    with pytest.raises(
        NoDataError, match="on h20: HAL field 'texture_engine' is unknown here: the compiler knows the name"
    ):
        _ = resolve("h20").hal.texture_engine


def test_an_unknown_offset_names_near_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no HAL field at offset 0x81e of build '9.509'; nearest: 0x81d \(texture_engine\)"
    ):
        resolve("h13").hal.at(0x81E)


@pytest.mark.parametrize(
    ("family", "encodings"),
    [(2, "int4 sparse"), (3, "int4 int8 sparse"), (4, "blockwise int4 int8 sparse"), (5, "blockwise int4 int8 sparse")],
)
def test_native_streams(family: int, encodings: str) -> None:
    assert sorted(native_streams(family)) == encodings.split()


def test_no_stream_is_claimed_below_the_floor() -> None:
    assert native_streams(Family.OLDER) == frozenset()


def test_measured_gains() -> None:
    assert resolve("m1").streams["int4"].gain == (2.37, 2.37)
    assert resolve("m5-pro").streams["int4"].gain == (1.6, 1.8)
    assert resolve("m3").streams["int4"].gain is None


def test_texture_engine_and_slice_saturation() -> None:
    assert [has_texture_engine(family) for family in Family] == [False, False, True, True, True]
    assert FP16_SLICE_SAT == 4094.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("width_slice_crop_x16", {"m1": True, "m2": True, "m3": False, "m4": False, "m5": False, "m6": False}),
        ("winograd_on_width", {"m1": False, "m2": False, "m4": False, "m5": True, "m5-pro": True, "m6": True}),
        ("reduction_order", {"m1": "early", "m2": "early", "m4": "late", "m5": "late"}),
        ("activation_tables", {"m1": "knots33", "m6": "knots33"}),
        ("accumulator", {"m1": "q15.16", "m3": "q15.16", "m6": "q15.16"}),
    ],
)
def test_datapath(name: str, expected: dict[str, object]) -> None:
    assert {chip: resolve(chip).datapath.get(name) for chip in expected} == expected


def test_what_was_not_measured_is_not_called_measured() -> None:
    for name in database().datapath:
        assert resolve("m3").evidence(name).kind != "measured"


def test_every_value_answers_for_itself() -> None:
    evidence = resolve("m1").evidence("texture_engine")
    assert (evidence.kind, evidence.on) == ("measured", ("M1",))
    assert resolve("m2").evidence("width_slice_crop_x16").conflict == "C1"
    assert resolve("m4").evidence("int4").kind == "decoded"
    with pytest.raises(UnknownNameError, match="unknown value 'texture_engin'; nearest: texture_engine"):
        resolve("m1").evidence("texture_engin")
    with pytest.raises(NoDataError, match="'hardware_version' is unknown here"):
        resolve("m11").evidence("hardware_version")


def test_typed_reading_refuses_the_wrong_type() -> None:
    hal = resolve("h13").hal
    for read, name in ((hal.integer, "texture_engine"), (hal.flag, "max_tensor_width"), (hal.text, "texture_engine")):
        with pytest.raises(TypeError, match=name):
            read(name)
    for read in (hal.words, hal.integers):
        with pytest.raises(TypeError, match="not a list"):
            read("texture_engine")
    assert hal.text("cost_policy") == "Simple"
    assert resolve("h13").limits.words("program_input_dtypes") == ("fp16", "uint8")
