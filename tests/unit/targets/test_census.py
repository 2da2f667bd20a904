"""The census of target names, checked against the published tables written down again here."""

from collections import Counter

import pytest

from aneforge.errors import NoDataError
from aneforge.targets import Family, Kind, LegalityFamily, database, resolve

# name: legality index, hardware version, cpusubtype, descriptor generation, engines at 0x238, engines of devices
CENSUS = """
h11   0  1   1   5   4   8
h12   1  3   3   6   -   8
m9    -  -   -   -   1   2
t0    -  -   2   4   -   -
h13   2  4   4   7   4  16
h13g  2  4   4   7   8  16
t1    2  4   4   7   4  16
h14   3  5   5  11   4  16
h14g  3  5   5  11   8  16
h14c  3  5   5  11  32  16
h15   4  6   6   8   4  16
h15g  4  6   6   8   8  16
h15c  4  6   6   8  32  16
h16   4  8   7  17   4  16
h16g  4  8   7  17   8  16
h16s  4  8   7  17  16  16
h16c  4  8   7  17  32  16
h17   5  7   9  19   4  16
h17a  5  7   9  19   4  16
h17g  5  7   9  19   8  16
h17s  6  9   9  19  16  16
h17c  5  7   9  19  32  16
h17d  5  7   9  19  64  16
h18   6 10  10  20   4  16
h18g  6  -  11  24   -  16
h19   6  -  11  24   -  16
m11   4  -   8  10   1   -
m12   -  -  17  26   -   -
u1    -  -  15   -   4   -
u2    -  -  18   -   4   -
u3    -  -  19   -   4   -
u4    -  -  20   -   -   -
"""

NAMES_WITHOUT_PARAMETERS = ["h18c", "h18d", "h18s", "h19c", "h19g", "h19s", "h20", "h20c", "h20g", "h21"]
H15_STRINGS_WITHOUT_CONSTRUCTOR = ["h15m", "h15p", "h15s", "h15d"]
TARGETS_OF_BUILD_9_509 = """
h11 h12 m9 t0 h13 h13g t1 h14 h14g h14c h15 h15g h15c h16 h16g h16s h16c
h17 h17a h17g h17s h17c h17d h18 m11 u1 u2 u3
"""


def number(text: str) -> int | None:
    return None if text == "-" else int(text)


@pytest.mark.parametrize("row", CENSUS.strip().splitlines())
def test_row(row: str) -> None:
    name, *cells = row.split()
    legality, version, subtype, descriptor, engines_hal, engines_device = map(number, cells)
    target = resolve(name)
    assert target.legality == (None if legality is None else LegalityFamily(legality))
    assert target.hardware_version == version
    assert target.cpu_subtype == subtype
    assert target.descriptor_generation == descriptor
    assert target.ne_count_hal == engines_hal
    assert target.ne_count_device == engines_device


def test_every_name_is_there_and_no_other() -> None:
    rows = [row.split()[0] for row in CENSUS.strip().splitlines()]
    assert set(database().targets) == {*rows, *NAMES_WITHOUT_PARAMETERS, *H15_STRINGS_WITHOUT_CONSTRUCTOR}


def test_the_28_targets_of_the_decoded_build() -> None:
    names = TARGETS_OF_BUILD_9_509.split()
    assert len(names) == 28
    assert {name for name in names if "9.509" in resolve(name).builds} == set(names)


def test_the_newer_build_knows_36_names_and_compiles_for_26_of_them() -> None:
    targets = database().targets.values()
    known = {target.name for target in targets if "10.26.6" in target.builds}
    results = {target.name: target.fact("compile_result").value for target in targets if target.name in known}
    assert Counter(results.values()) == {"compiles": 26, "returns 22: no parameters": 10}
    assert {name for name, result in results.items() if result != "compiles"} == set(NAMES_WITHOUT_PARAMETERS)


@pytest.mark.parametrize(
    ("names", "result", "kind"),
    [("m9 t0", "returns 1", "measured"), ("h11 h12 h14c h15c", "constructor only", "decoded")],
)
def test_names_of_the_older_build_in_the_newer_one(names: str, result: str, kind: str) -> None:
    for name in names.split():
        assert resolve(name).builds == ("9.509",)
        assert resolve(name).fact("compile_result").value == result
        assert resolve(name).evidence("compile_result").kind == kind


@pytest.mark.parametrize("name", [*NAMES_WITHOUT_PARAMETERS, *H15_STRINGS_WITHOUT_CONSTRUCTOR])
def test_a_name_without_data_is_an_answer_of_its_own(name: str) -> None:
    target = resolve(name)
    assert target.kind is Kind.NAME_ONLY
    assert not target.has_data
    assert target.family is None


def test_known_parameters_that_nobody_published() -> None:
    assert [resolve(name).has_data for name in ("m12", "u4")] == [False, False]


@pytest.mark.parametrize(
    ("family", "names"),
    [
        (Family.OLDER, "h11 h12 m9 t0"),
        (Family.A13, "h13 h13g t1"),
        (Family.A14, "h14 h14g h14c"),
        (Family.A15, "h15 h15g h15c m11"),
        (Family.A16, "h16 h16g h16s h16c h17 h17a h17g h17s h17c h17d h18 h18g h19"),
    ],
)
def test_families(family: Family, names: str) -> None:
    assert {target.name for target in database().targets.values() if target.family == family} == set(names.split())


def test_hardware_versions_and_their_two_collisions() -> None:
    table = {version: int(family) for version, family in database().hardware_versions.items()}
    assert table == {1: 0, 3: 1, 4: 2, 5: 3, 6: 4, 8: 4, 7: 5, 9: 6, 10: 6}
    assert table[6] == table[8] == LegalityFamily.A15
    assert table[9] == table[10] == LegalityFamily.A17


def test_parser_keys_are_the_little_endian_characters() -> None:
    keys = database().parser_keys
    assert keys == {"h1": 0x3168, "t0": 0x3074, "m9": 0x396D, "m1": 0x316D}
    for characters, key in keys.items():
        assert int.from_bytes(characters.encode("ascii"), "little") == key


def test_descriptor_generations_name_the_targets_that_use_them() -> None:
    by_generation = {number: set(entry.targets) for number, entry in database().descriptors.items()}
    for number, names in by_generation.items():
        used_by = {name for name, target in database().targets.items() if target.descriptor_generation == number}
        assert names == used_by


@pytest.mark.parametrize(
    ("generation", "offset"),
    [(7, 0x200), (8, 0x224), (10, 0x12C), (11, 0x21C), (17, 0x23C), (19, 0x248), (20, 0x26C), (24, None)],
)
def test_patch_width_offsets(generation: int, offset: int | None) -> None:
    assert database().descriptors[generation].patch_width_offset == offset


def test_a_patch_width_offset_says_how_it_is_known() -> None:
    for generation in database().descriptors.values():
        assert (generation.patch_width_evidence is None) == (generation.patch_width_offset is None)
    assert [number for number, generation in database().descriptors.items() if generation.defect] == [7]


def test_live_compiles_confirm_the_family_and_not_the_version() -> None:
    for name, chip in (("h13", "M1"), ("h17s", "M5 Pro")):
        assert resolve(name).evidence("legality").on == (chip,)
        assert resolve(name).evidence("hardware_version").kind == "inferred"
    assert resolve("h13g").evidence("legality").kind == "inferred"


@pytest.mark.parametrize(
    ("column", "conflict", "names"),
    [
        ("hardware_version", "C2", "h16 h16g h16s h16c h17 h17a h17g h17s h17c h17d h18"),
        ("legality", "C2", "h16 h16g h16s h16c h17 h17a h17g h17s h17c h17d h18"),
        (
            "descriptor_generation",
            "S4",
            "h14 h14g h14c h15 h15g h15c h16 h16g h16s h16c h17 h17a h17g h17s h17c h17d h18 m11",
        ),
    ],
)
def test_only_disputed_targets_carry_the_dispute(column: str, conflict: str, names: str) -> None:
    targets = database().targets.values()
    disputed = {one.name for one in targets if column in one.facts and one.evidence(column).conflict == conflict}
    assert disputed == set(names.split())


def test_every_column_answers_for_itself() -> None:
    m4 = resolve("m4")
    values = {name: m4.fact(name).value for name in ("kind", "tier", "family", "clock", "cost_curve", "image_formats")}
    assert values == {
        "kind": "silicon",
        "tier": "a16",
        "family": Family.A16,
        "clock": (504, 2364),
        "cost_curve": "h16s",
        "image_formats": 14,
    }
    assert (m4.evidence("tier").kind, m4.evidence("tier").source) == ("decoded", "guide ch. 34")
    assert m4.evidence("family").source == "aneforge targets table"
    assert resolve("m6").evidence("family").kind == "inferred"


@pytest.mark.parametrize(("name", "value"), [("u1", "family"), ("h20", "tier"), ("h12", "clock"), ("m1", "palette8")])
def test_a_column_that_no_source_fills_says_so(name: str, value: str) -> None:
    with pytest.raises(NoDataError, match=f"'{value}' is unknown here: no published source gives it"):
        resolve(name).fact(value)


def test_the_m4s_target_has_limits_of_a16_and_legality_of_a15() -> None:
    target = resolve("h16")
    assert target.legality is LegalityFamily.A15
    assert target.limits.integer("max_tensor_dim") == 65536


CURVES = """
h11 4 32 1 6 348 1260 1260
h13 4 64 1 10 396 1428 1428
h13g 8 64 1 12 432 1464 1464
t1 16 64 1 10 396 1428 1428
h14 4 64 1 9 528 1938 1452
h15 4 64 1 20 408 2064 1524
h15c 32 64 2 7 708 2364 1776
h16 4 64 1 29 372 2160 1620
h16s 16 64 1 25 744 2364 1788
h17 4 64 1 30 396 2172 1644
h17s 16 64 1 25 744 2364 1788
h17c 32 64 1 25 744 2364 1788
h17d 64 64 1 25 744 2364 1788
m11 1 16 1 1 500 500 500
"""


@pytest.mark.parametrize("row", CURVES.strip().splitlines())
def test_clock_curves(row: str) -> None:
    name, *cells = row.split()
    cores, divisor, multiplier, count, least, most, paired = map(int, cells)
    clock = database().clocks[name]
    assert (clock.cores, clock.divisor, clock.multiplier) == (cores, divisor, multiplier)
    assert (clock.count, clock.least, clock.most) == (count, least, most)
    assert len(clock.points) == len(clock.paired) == count
    assert (clock.points[0], clock.points[-1], clock.paired[-1]) == (least, most, paired)
    assert list(clock.points) == sorted(clock.points)


@pytest.mark.parametrize(
    ("name", "count", "least", "most", "paired", "dram_levels"),
    [
        ("h16g", 26, 504, 2364, 1776, "732 1467 2133 2733 3200 3733"),
        ("h18", 30, 396, 2172, 1644, "732 1536 2133 2733 3200 3750"),
        ("h18g", 32, 804, 2508, 1812, "732 1464 2124 2748 3192 3744 4260 4800 5328"),
        ("h19", 29, 591, 2130, 1609, "733 1467 2133 2733 3200 3733 4267 4800 5300"),
    ],
)
def test_clocks_of_the_newer_build(name: str, count: int, least: int, most: int, paired: int, dram_levels: str) -> None:
    clock = resolve(name).clock
    assert clock is not None
    assert len(clock.points) == len(clock.paired) == clock.count == count
    assert (
        (clock.points[0], clock.points[-1], clock.paired[-1])
        == (clock.least, clock.most, paired)
        == (
            least,
            most,
            paired,
        )
    )
    assert list(clock.points) == sorted(clock.points)
    assert clock.dram_levels == tuple(map(int, dram_levels.split()))


@pytest.mark.parametrize(
    ("target", "curve"),
    [("h14g", "h14"), ("h15g", "h15"), ("h16g", "h16s"), ("h17a", "h16s"), ("h18", "h16s"), ("h17d", "h17d")],
)
def test_borrowed_cost_curves_say_so(target: str, curve: str) -> None:
    fact = resolve(target).fact("cost_curve")
    assert fact.value == curve
    assert (fact.evidence.kind == "inferred") == (target != curve)


@pytest.mark.parametrize(
    ("tier", "count", "named"),
    [
        ("h12", 0, ()),
        ("h13", 3, ("&BGA", "&L0h", "&L16")),
        ("h14", 13, ("&RhA",)),
        ("h15", 16, ("&8f0", "&8v0")),
        ("h16", 14, ()),
        ("m11", 16, ()),
        ("u1", 0, ()),
    ],
)
def test_image_formats(tier: str, count: int, named: tuple[str, ...]) -> None:
    formats = resolve(tier).image_formats
    assert formats is not None
    assert formats.count == count
    assert set(named) <= set(formats.named)


def test_yuv_420_is_gone_after_a15() -> None:
    for name in ("h16", "h17", "h18"):
        formats = resolve(name).image_formats
        assert formats is not None
        assert not {"&8f0", "&8v0"} & set(formats.named)
