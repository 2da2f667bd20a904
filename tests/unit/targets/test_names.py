"""What users write, and what it resolves to."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.errors import NoDataError, UnknownTargetError
from aneforge.targets import (
    Family,
    Kind,
    TargetLike,
    arch_for_family,
    chip,
    database,
    family_of_arch,
    group,
    names,
    place_of,
    resolve,
    supports_mil,
)
from aneforge.targets.names import slug


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("h13", "h13"),
        ("H17s", "h17s"),
        (" h17S ", "h17s"),
        ("m1", "h13"),
        ("M1 Max", "h13g"),
        ("m2", "h14g"),
        ("m3", "h15"),
        ("m4", "h16g"),
        ("M4 Pro", "h16g"),
        ("m4-pro", "h16g"),
        ("m4_pro", "h16g"),
        ("m5", "h17"),
        ("m5-pro", "h17s"),
        ("m6", "h18g"),
        ("A18 Pro", "h17"),
        ("a17-pro", "h16"),
        ("soc:a14", "h13"),
        ("SOC:A14", "h13"),
        ("family:a14", "h14"),
        ("family:a18", "h18"),
        ("older", "h12"),
        (Family.A13, "h13"),
        (Family.A16, "h16s"),
        (1, "h12"),
        (5, "h16s"),
    ],
)
def test_resolves(written: TargetLike, name: str) -> None:
    assert resolve(written).name == name


def test_a_target_resolves_to_itself() -> None:
    target = resolve("h13")
    assert resolve(target) is target


@pytest.mark.parametrize(
    ("written", "chip_target", "family_target"),
    [
        ("a13", "h12", "h13"),
        ("a14", "h13", "h14"),
        ("A15", "h14", "h15"),
        ("a16", "h15", "h16s"),
        ("a18", "h17", "h18"),
    ],
)
def test_a_name_of_two_readings_is_the_chip(written: str, chip_target: str, family_target: str) -> None:
    assert resolve(written).name == chip_target
    assert resolve(f"soc:{written}").name == chip_target
    assert resolve(f"family:{written}").name == family_target


def test_a17_alone_names_the_pro_chip() -> None:
    assert resolve("a17") is resolve("a17-pro")


@pytest.mark.parametrize(
    ("written", "chip_name"),
    [
        ("m4pro", "M4 Pro"),
        ("M4-Max", "M4 Max"),
        ("a17pro", "A17 Pro"),
        ("iphone15pro", "A17 Pro"),
        ("iPhone 15 Pro Max", "A17 Pro"),
        ("iphone-15", "A16"),
        ("ipad-pro-m4", "M4"),
        ("iPadProM4", "M4"),
    ],
)
def test_chips_are_named_without_hyphens_and_by_devices(written: str, chip_name: str) -> None:
    place = place_of(written)
    assert place.chip is not None
    assert place.chip.name == chip_name


def test_no_two_chips_have_one_spelling() -> None:
    names = [
        spelling.replace("-", "")
        for known in database().chips.values()
        for spelling in {known.key, *known.aliases, *(slug(device) for device in known.devices)}
    ]
    assert len(names) == len(set(names))
    assert not set(names) & set(database().targets)
    assert all(known.devices_evidence is not None for known in database().chips.values() if known.devices)


@pytest.mark.parametrize("caught", [ValueError, KeyError])
def test_an_unknown_name_is_both_documented_errors_and_prints_cleanly(caught: type[Exception]) -> None:
    with pytest.raises(caught) as error:
        resolve("h17x")
    assert str(error.value).startswith("unknown target 'h17x'; nearest: h17")


@pytest.mark.parametrize(
    "written", ["zzz", "", "h", "m7", "soc:h13", "soc:m9", "family:m1", "h13 g", "🦙", "x" * 100_000]
)
def test_unknown_names_are_refused(written: str) -> None:
    with pytest.raises(UnknownTargetError):
        resolve(written)


@pytest.mark.parametrize("number", [0, 6, -1, 13, True, False])
def test_numbers_that_are_no_family_are_refused(number: int) -> None:
    with pytest.raises(UnknownTargetError, match=r"families are 1 \(OLDER\), 2 \(A13\)"):
        resolve(number)


@given(st.text(max_size=20).filter(lambda text: slug(text) not in names.chip_readings()))
def test_any_other_text_is_a_target_or_refused_by_name(text: str) -> None:
    if slug(text) in database().targets or slug(text) in names.family_readings():
        assert resolve(text).name in database().targets
        return
    with pytest.raises(UnknownTargetError) as error:
        resolve(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16])
def test_a_family_is_named_by_an_integer_of_numpy_too(kind: type[np.integer[Any]]) -> None:
    assert resolve(cast("int", kind(2))) is resolve(Family.A13)
    with pytest.raises(UnknownTargetError, match="unknown target family"):
        resolve(cast("int", kind(9)))


@pytest.mark.parametrize("family", [True, 2.0, np.float32(2), np.bool_(True)], ids=repr)  # noqa: FBT003 - no family
def test_what_is_no_integer_names_no_family(family: object) -> None:
    with pytest.raises(UnknownTargetError, match="unknown target family"):
        resolve(cast("int", family))


def test_a_target_is_described_in_a_line() -> None:
    assert repr(resolve("m4")) == "<Target h16g: silicon, tier A16, family A16>"
    assert repr(resolve("h15m")) == "<Target h15m: name-only, tier none known, family none>"


def test_groups() -> None:
    silicon = group("all")
    assert all(target.kind is Kind.SILICON and target.has_data for target in silicon)
    assert {"h13", "h16g", "h17s", "h18g"} <= {target.name for target in silicon}
    assert not {"m11", "u1", "h20", "h15m", "t1"} & {target.name for target in silicon}
    assert [target.name for target in group("families")] == ["h13", "h14", "h15", "h16s"]
    assert {target.name for target in group("known")} == set(database().targets)


def test_an_unknown_group_lists_the_groups() -> None:
    with pytest.raises(
        UnknownTargetError, match="unknown target group 'everything'; known: all, shipping, families, known"
    ):
        group("everything")


def test_family_of_arch() -> None:
    assert str(family_of_arch("h17s")) == "5"
    assert family_of_arch("H13G") is Family.A13
    assert family_of_arch("m11") is Family.A15


@pytest.mark.parametrize("name", ["u1", "h20", "h15m", "m12"])
def test_a_known_name_without_family_says_so(name: str) -> None:
    with pytest.raises(KeyError) as error:
        family_of_arch(name)
    assert isinstance(error.value, NoDataError)
    assert "belongs to no documented family" in str(error.value)


def test_arch_for_family() -> None:
    assert [arch_for_family(family) for family in (2, 3, Family.A15, 5)] == ["h13", "h14", "h15", "h16s"]
    assert arch_for_family() == ("h13", "h14", "h15", "h16s")
    assert not supports_mil(family_of_arch(arch_for_family(Family.OLDER)))


@pytest.mark.parametrize(
    ("name", "reported", "rule"),
    [
        ("M1 Max", "h13g", "h13"),
        ("M2", "h14g", "h14"),
        ("M4", "h16g", "h16"),
        ("M5", "h17", "h17"),
        ("M6", "h18g", "h18"),
        ("A18 Pro", "h17", None),
        ("M5 Pro", None, "h17"),
        ("M3", None, "h15"),
    ],
)
def test_device_reports_are_kept_apart_from_the_naming_rule(name: str, reported: str | None, rule: str | None) -> None:
    known = chip(name)
    assert known.reported == reported
    assert known.naming_rule == rule
    if reported:
        assert known.target == reported
        assert known.evidence.kind == "measured"


def test_board_types_cores_and_engines() -> None:
    found = {
        name: (chip(name).board_type, chip(name).cores, chip(name).engines) for name in ("M1 Max", "M2", "M4", "M6")
    }
    assert found == {"M1 Max": (96, 16, 1), "M2": (128, 16, 1), "M4": (256, 16, 1), "M6": (None, 16, 2)}


BANDWIDTHS = """
m1 60.9, m1-pro 54.9, m1-max 54.6, m1-ultra 54.7, m2 60.5, m2-max 62.0, m2-ultra 61.7, m3 63.1, m3-max 120.2, m4 64.2,
m4-pro 126.4, m4-max 118.9, m5 70.2
"""


def test_bandwidth_by_chip() -> None:
    expected = {key: float(rate) for key, rate in (row.split() for row in BANDWIDTHS.split(","))}
    found = {key: known.bandwidth for key, known in database().chips.items() if known.bandwidth is not None}
    assert found == expected
    for key in found:
        evidence = database().chips[key].bandwidth_evidence
        assert evidence is not None
        assert evidence.on == (database().chips[key].name,)


@pytest.mark.parametrize(
    ("name", "kind", "source"),
    [
        ("M1 Max", "decoded", "linux"),
        ("M2", "decoded", "linux"),
        ("M4", "decoded", "guide ch. 34"),
        ("M4 Pro", "inferred", "guide ch. 34"),
        ("A16", "inferred", "linux"),
        ("M6", "measured", "m6-study overview"),
    ],
)
def test_part_numbers_say_how_they_are_known(name: str, kind: str, source: str) -> None:
    evidence = chip(name).parts_evidence
    assert evidence is not None
    assert (evidence.kind, evidence.source) == (kind, source)


def test_every_part_number_has_evidence() -> None:
    for known in database().chips.values():
        assert bool(known.soc) == (known.parts_evidence is not None), known.name


def test_an_unknown_chip_lists_near_ones() -> None:
    with pytest.raises(UnknownTargetError, match="unknown chip 'M4 Plus'; nearest: M4 Pro"):
        chip("M4 Plus")


def test_every_chip_resolves_by_name_and_key() -> None:
    for known in database().chips.values():
        assert resolve(f"soc:{known.key}").name == known.target
        assert resolve(f"soc:{known.name}").name == known.target


@pytest.mark.parametrize("wrong", [None, 3.5, ["h13"], b"h13"])
def test_what_is_no_name_is_refused_by_every_question(wrong: object) -> None:
    for question in (family_of_arch, chip):
        with pytest.raises(UnknownTargetError, match="this is not the name of a"):
            question(wrong)  # pyright: ignore[reportArgumentType] - what an untyped caller may pass
    with pytest.raises(UnknownTargetError):
        supports_mil(wrong)  # pyright: ignore[reportArgumentType] - what an untyped caller may pass


def test_a_target_can_be_a_key() -> None:
    assert {resolve("h13"): 1}[resolve("m1")] == 1
