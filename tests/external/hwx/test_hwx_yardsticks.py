"""The yardsticks of compiled programs on third-party data, and the table of them that is committed: figures alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import hwx_oracles
from aneforge.formats.hwx.emission import draft
from aneforge.targets import work_units
from hwx_tools import REASON, hwx_data

RESULTS = Path(__file__).parent / "yardsticks.md"
EMITTER = "emitter, "
FIRST = 7
"""The generation of which programs of every family are known."""


def test_every_yardstick_reaches_its_bar(request: pytest.FixtureRequest) -> None:
    folder = hwx_data()
    if folder is None:
        pytest.skip(REASON)
    material = hwx_oracles.read_material(folder)
    if request.config.getoption("--refresh-results"):
        every = [row(material) for row in hwx_oracles.ROWS]
        RESULTS.write_text(hwx_oracles.table_of(every) + "\n", encoding="utf-8")
    # Damaged files take a minute: their row is made when the table is.
    rows = [row(material) for row in hwx_oracles.ROWS if row is not hwx_oracles.hostile_row]
    assert [row.measure for row in rows if row.reached is False] == []
    assert cells(RESULTS.read_text(encoding="utf-8"))[: len(rows) + 2] == cells(hwx_oracles.table_of(rows))


def cells(table: str) -> list[list[str]]:
    """Return the texts of a table's cells; lines are of any length."""
    return [[cell.strip(" -") for cell in line.split("|")] for line in table.splitlines()]


def forget_places() -> None:
    """Forget places that were found with another constant."""
    for one in (
        work_units.convolution_place,
        work_units.resident_place,
        work_units.pass_place,
        work_units.planar_place,
    ):
        one.cache_clear()


def test_a_fitted_constant_is_right_for_the_program_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit the number of banks, and the bytes of a cycle, on all programs but one; the one left out must agree."""
    folder = hwx_data()
    if folder is None:
        pytest.skip(REASON)
    oracles = [one for one in hwx_oracles.read_material(folder).oracles if one.generation == FIRST and one.described]
    for module, name, choices, register in (
        (work_units, "BANKS", (32, 64, 128), "l2.source1_l2_row"),
        (draft, "BYTES_PER_CYCLE", (32_000, 34_000, 36_000), "header.cycles"),
    ):
        fitting: dict[int, list[int]] = {}
        for choice in choices:
            monkeypatch.setattr(module, name, choice)
            forget_places()
            found = [hwx_oracles.compare(one.described, FIRST, one.name) for one in oracles if one.described]
            fitting[choice] = [
                sum(one.ours.get(place) == word for place, word in one.theirs.items() if place[1] == register)
                for one in found
            ]
        monkeypatch.undo()
        forget_places()
        for left_out in range(len(oracles)):
            best = max(choices, key=lambda choice: sum(fitting[choice]) - fitting[choice][left_out])
            assert best == getattr(module, name), oracles[left_out].name


def test_the_recorded_figures() -> None:
    lines = [line for line in RESULTS.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {EMITTER}")]
    assert len(lines) == 3
    assert all(row[-2] == "yes" for row in cells(RESULTS.read_text(encoding="utf-8"))[2:])
