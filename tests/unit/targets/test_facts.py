"""Hardware fields, limits, streams and datapath switches, against the published tables written down again here."""

from collections import Counter
from operator import attrgetter

import pytest

from aneforge.errors import NoDataError, PropertyTypeError, UnknownNameError
from aneforge.ops.table import find_op, ops
from aneforge.targets import FP16_SLICE_SAT, Family, database, has_texture_engine, limit, native_streams, resolve

COLUMNS = ["h11", "h13", "h14", "h15", "h16", "h17", "h18"]

# offset in build 9.509: a flag for H11, H13, H14, H15, H16, H17, H18; ? where no source gives it
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
0x814 1 1 1 1 1 1 1
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
0x3f0 none 192 192 384 384 384 384
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
        assert hal.get(name) == expected(cell), (target, name)


def expected(cell: str) -> int | str | None:
    if cell == "?":
        return None
    return int(cell) if cell.isdecimal() else cell


# offset in build 9.509: what the study of the newer build finds for the 2026 baseline at the shifted offset
BASELINE = {
    0x0C: 8, 0x70: 16, 0x138: 65536, 0x158: 65536, 0x1B8: 2097152, 0x1C0: 16, 0x1C8: 64, 0x1F0: 262144, 0x200: 65536,
    0x210: 16777216, 0x218: 16, 0x228: 64, 0x3F0: 384, 0x668: 14,
}  # fmt: skip


@pytest.mark.parametrize("offset", BASELINE)
def test_the_2026_baseline_has_the_fields_of_both_builds(offset: int) -> None:
    hal = resolve("h18g").hal
    assert hal.at(offset) == BASELINE[offset]
    assert hal.fact(hal.name_at(offset)).evidence.kind != "inferred"


def test_the_baselines_image_formats_are_counted_and_not_guessed() -> None:
    assert resolve("h18g").evidence("image_formats").kind == "decoded"


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
        (0x5C8, "h18", 0), (0x5C8, "h18g", 16), (0x730, "h17", 0), (0x730, "h18", 4), (0x730, "h18g", 4),
        (0x1A8, "h18g", 0xFFFFFFFF), (0x668, "h18g", (32, 32, 32, 32)), (0x688, "h18g", (32, 32, 32, 32)),
        (0x8A0, "h17", 13), (0x8A0, "h18g", 21),
    ],
)  # fmt: skip
def test_fields_of_the_newer_build(offset: int, target: str, value: object) -> None:
    assert resolve(target).hal.at(offset, build="10.26.6") == value


def test_single_targets_differ_from_their_tier() -> None:
    assert resolve("m9").hal.integer("max_operand_bytes") == 1048576
    assert [resolve(name).hal.get("cross_die_addressing") for name in ("m11", "u1", "u2", "u3")] == [
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "offset", [0x72B, 0x72C, 0x820, 0x55A, 0x55C, 0x55D, 0x5A0, 0x5A8, 0x5FB, 0x5FF, 0x600, 0x60A, 0x64B, 0x72F, 0x838]
)
def test_what_the_study_compared_is_decoded_on_the_baseline(offset: int) -> None:
    hal = resolve("h18g").hal
    assert hal.fact(hal.name_at(offset, "10.26.6")).evidence.kind == "decoded"


def test_stride_factors_stand_at_every_word_of_the_list_but_one() -> None:
    hal = resolve("h13").hal
    assert hal.integers("stride_factors") == (2, 3, 4, 8)
    assert {hal.name_at(offset) for offset in (0x730, 0x738, 0x740, 0x750)} == {"stride_factors"}
    assert hal.name_at(0x748) == "gather_texture_descriptor_pointer"


# name: A13 A14 A15 A16
LIMITS = """
max_tensor_dim 16384 16384 16384 65536
channel_extent 65536 65536 65536 65536
transpose_extent 8388607 8388607 8388607 16777215
conv_kw_max 13 13 13 15
reduction_transpose_extent 192 192 384 384
reduction_route_threshold 192 192 384 384
transpose_width 16384 16384 16384 65536
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
        ("program_constant_bytes", "h13", 1600000000),
        ("in_flight_requests", "h17", 127),
        ("arg_reduction_extent", "h13", 2048),
        ("linear_resident_weight_bytes", "m9", 1048576),
        ("reduction_transpose_extent", "m11", 384),
    ],
)
def test_limits_of_single_targets(name: str, target: str, value: int) -> None:
    assert limit(name, target) == value


def test_an_unknown_limit_names_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="unknown limit field 'max_tensor_dims'; nearest: max_tensor_dim"):
        limit("max_tensor_dims", Family.A13)


def test_a_limit_that_is_no_number_says_so() -> None:
    with pytest.raises(TypeError, match="not an integer"):
        limit("engine_dtypes", Family.A13)
    with pytest.raises(TypeError, match="on h13: HAL field 'texture_engine' is False, not an integer"):
        limit("texture_engine", Family.A13)


@pytest.mark.parametrize(
    ("name", "target", "word"),
    [
        ("reduction_transpose_extent", "h12", "none"),
        ("patch_width_floor", "h12", "none"),
        ("patch_width_cap", "h12", "none"),
        ("patch_width_floor_log2", "h12", "none"),
        ("patch_width_cap_log2", "h12", "none"),
        ("context_switch_live_tensors", "h14", "unbounded"),
        ("context_switch_live_tensors", "m6", "unbounded"),
        ("slice_saturation_magnitude", "m3", "unbounded"),
        ("slice_saturation_magnitude", "m6", "unbounded"),
    ],
)
def test_no_limit_is_a_value_and_not_an_unknown(name: str, target: str, word: str) -> None:
    assert resolve(target).fact(name).value == word
    with pytest.raises(PropertyTypeError, match=f"{name!r} is {word!r}, not an integer"):
        limit(name, target)


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (0x30, "target.limits.conv_kernel_width_small_default"),
        (0x50, "target.limits.conv_kernel_width_large_fp16"),
        (0x658, "target.image_formats.named"),
        (0x75C, "target.clock.multiplier"),
        (0x760, "target.clock.points"),
        (0x778, "target.clock.rates"),
        (0x790, "target.clock.dram_levels"),
        (0x7A8, "target.clock.paired"),
        (0x7B8, "target.clock.count"),
    ],
)
def test_a_field_whose_value_stands_elsewhere_says_where(offset: int, place: str) -> None:
    hal = resolve("h13").hal
    with pytest.raises(NoDataError, match=f"see .*{place}"):
        hal.at(offset)


def test_every_place_that_a_field_points_to_exists() -> None:
    places = {place for known in database().properties.values() for place in known.see.split(", ") if place}
    assert places
    for place in places:
        assert attrgetter(place.removeprefix("target."))(resolve("h13"))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("num_nes", "ne_count_field"),
        ("l2_bank_align", "l2_bank_count"),
        ("max_large_conv_kernel_dim_z", "max_large_conv_kernel_depth"),
        ("MemCacheSize", "max_operand_bytes"),
        ("pe_min_patch_width_log2", "patch_width_floor_log2"),
    ],
)
def test_the_compilers_own_names_answer_too(alias: str, name: str) -> None:
    h13 = resolve("h13")
    assert getattr(h13.hal, alias) == h13.hal.get(name)
    assert h13.fact(alias) == h13.fact(name)
    assert alias in h13.hal
    assert alias not in list(h13.hal)


def test_a_limit_that_no_source_gives_says_so() -> None:
    with pytest.raises(NoDataError, match="no published source gives its value"):
        limit("matmul_max_rank", Family.A16)


def test_a_target_without_data_says_so() -> None:
    with pytest.raises(
        NoDataError, match="on h20: no published source describes this target: compilers know only its name"
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
    assert native_streams(Family.OLDER) == native_streams("m9") == frozenset()


@pytest.mark.parametrize("name", ["h20", "u1", "m12"])
def test_streams_of_a_name_without_data_are_not_none_but_unknown(name: str) -> None:
    with pytest.raises(NoDataError, match=f"on {name}: no published source says which weight encodings stream"):
        native_streams(name)


def test_measured_gains() -> None:
    assert resolve("m5-pro").streams["blockwise"].gain == (1.0, 1.0)
    assert resolve("m5-pro").streams["sparse"].gain == (1.6, 1.93)
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


@pytest.mark.parametrize(
    ("name", "target", "kind", "chips"),
    [
        ("int8_weight_activation_x16", "m1", "inferred", ()),
        ("int8_weight_activation_x16", "m5-pro", "inferred", ()),
        ("height_slice_crop_x16", "m1", "measured", ("M1",)),
        ("height_slice_crop_x16", "m5-pro", "inferred", ()),
        ("winograd_on_width", "m2", "measured", ("M2",)),
        ("reduction_order", "m2", "measured", ("M2 Pro",)),
        ("activation_tables", "m5", "measured", ("M5",)),
        ("concat_of_width_slices_wrong", "m2", "inferred", ()),
        ("square_after_reduction", "m1", "decoded", ()),
        ("loaded_programs", "m1", "inferred", ()),
        ("blockwise", "m4", "inferred", ()),
        ("blockwise", "h18", "inferred", ()),
        ("dram_alignment", "m11", "inferred", ()),
        ("m_class_secondary", "m9", "inferred", ()),
        ("m_class_secondary", "m11", "inferred", ()),
        ("dynamic_gain_offset", "h12", "inferred", ()),
        ("weight_constant_dtypes", "m1", "inferred", ()),
        ("builder_conv_kw_max", "m1", "inferred", ()),
    ],
)
def test_evidence_claims_no_more_than_the_source(name: str, target: str, kind: str, chips: tuple[str, ...]) -> None:
    evidence = resolve(target).evidence(name)
    assert (evidence.kind, evidence.on) == (kind, chips)


def test_priority_weights() -> None:
    assert resolve("m1").limits.integers("firmware_priority_weights") == (1, 2, 3, 4, 5, 6, 30, 31)


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


def test_the_counts_of_floors_can_be_asked_and_fit_the_op_table() -> None:
    """Of the highest floors there are few enough to be named; the table has more operations, which are made of them."""
    target = resolve("m1")
    by_floor: dict[int, int] = dict(
        zip((0, 2, 3, 4), target.limits.integers("compute_operations_by_floor"), strict=True)
    )
    assert sum(by_floor.values()) == 88
    assert target.limits.integers("floor_instantiations") == (29, 45)
    named = {3: ("crop_resize", "resample"), 4: ("cos", "global_arg_min_max", "sin")}
    assert {floor: len(found) for floor, found in named.items()} == {floor: by_floor[floor] for floor in named}
    assert all(find_op(name).support.floor == floor for floor, found in named.items() for name in found)
    floors = Counter(op.support.floor for op in ops().values())
    assert all(floors[floor] >= count for floor, count in by_floor.items())
