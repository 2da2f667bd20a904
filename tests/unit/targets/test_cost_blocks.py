"""The compiler's device cost table, against the published rows written down again here."""

import pytest

from aneforge.errors import NoDataError
from aneforge.targets import LegalityFamily, database

A11, A12, A13, A14, A15, A16, A17, A18 = LegalityFamily


@pytest.mark.parametrize(
    ("family", "clamps", "setup"),
    [
        (A11, (34.1, 68.2), (1.84, 13.57)),
        (A12, (50, 100, 200, 400, 800), (1.84, 14.72)),
        (A13, (50, 100, 200, 400, 800), (1.84, 7.36)),
        (A14, (34.1, 68.2), (1.84, 13.57)),
        (A16, (62.5, 125, 250, 500), (1.84, 7.36)),
        (A17, (62.5, 125, 250, 500), (1.84, 7.36)),
    ],
)
def test_row(family: LegalityFamily, clamps: tuple[float, ...], setup: tuple[float, float]) -> None:
    row = database().cost_blocks.row(family)
    assert (row.clamps, row.setup) == (clamps, setup)
    assert row.complete == (family not in {A11, A14})


@pytest.mark.parametrize("family", [A15, A18])
def test_a_family_without_a_published_row_says_so(family: LegalityFamily) -> None:
    with pytest.raises(NoDataError, match=f"known to hold for {family.name}"):
        database().cost_blocks.row(family)


def test_the_thresholds_tell_the_dies_apart() -> None:
    blocks = database().cost_blocks
    assert blocks.thresholds == (6, 10, 20, 40)
    assert [blocks.bucket(cores) for cores in (4, 8, 16, 32, 64)] == [0, 1, 2, 3, 4]


def test_the_structure() -> None:
    blocks = database().cost_blocks
    assert blocks.constant == 0.0008
    assert sorted(blocks.offsets.values()) == [0x8, 0xC, 0x14, 0x18, 0x20, 0x30]
    assert (blocks.offsets["constant"], blocks.offsets["bandwidth_clamp"]) == (0x30, 0x20)


def test_disputed_parts_name_their_conflict() -> None:
    blocks = database().cost_blocks
    assert blocks.thresholds_evidence.conflict == "C22"
    assert {row.name: row.evidence.conflict for row in blocks.rows} == {
        "a12": "S10",
        "a13": "S10",
        "a16": "S10",
        "default": "S1",
    }
