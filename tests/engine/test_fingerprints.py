"""Figures that real chips printed: compiled and run for each of those chips, to the digits that references allow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import fingerprints
from aneforge.commands.fingerprint_recipes import RECIPES, Fingerprint, read_published
from aneforge.engine.exactness import Exactness
from aneforge.targets import chip
from fingerprints import Reading, readings

REPRODUCED, OPEN = read_published().fingerprints, read_published().open
PAGE = fingerprints.PAGE.read_text(encoding="utf-8")


def name_of(figure: Fingerprint) -> str:
    return figure.name


def lines_of_page() -> dict[tuple[str, str], list[str]]:
    """Return the lines of the page's tables by figure and chip."""
    cells = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return {(line[0], line[1]): line[2:] for line in cells if line[0] not in ("figure", "---")}


def check_page(reading: Reading) -> None:
    """Compare a reading with its line of the page; the last digits depend on how a machine sums the reference."""
    target, published, computed, _, label = lines_of_page()[reading.figure.name, reading.chip]
    assert (target, published, label) == (reading.target, repr(reading.figure.error), reading.exactness)
    assert float(computed) == pytest.approx(reading.error, rel=1e-9)


@pytest.mark.parametrize("figure", REPRODUCED, ids=name_of)
def test_a_figure_is_reproduced_on_every_chip_that_printed_it(figure: Fingerprint) -> None:
    for reading in readings(figure):
        assert not reading.missed, reading
        assert reading.exactness is Exactness.EXACT
        check_page(reading)


@pytest.mark.parametrize("figure", OPEN, ids=name_of)
def test_an_open_figure_is_as_near_as_on_record(figure: Fingerprint) -> None:
    for reading in readings(figure):
        assert not reading.missed, reading
        assert abs(reading.difference) > 1e-6, "a discovery: move it to the figures that the engine reproduces"
        assert reading.exactness is Exactness.MODELLED
        check_page(reading)


def test_the_page_has_every_figure_and_no_other() -> None:
    assert set(lines_of_page()) == {(figure.name, name) for figure in REPRODUCED + OPEN for name in figure.chips}


def test_every_chip_is_known_and_every_recipe_is_used() -> None:
    assert all(chip(name).name == name for figure in REPRODUCED + OPEN for name in figure.chips)
    assert {figure.workload for figure in REPRODUCED + OPEN} == set(RECIPES)
    with pytest.raises(ValueError, match="expected 256, 2048 or 8192 rows, got 3"):
        RECIPES["relu"](3, 1)


def test_the_other_form_of_a_convolution_misses_the_figure() -> None:
    (winograd,) = [one for one in REPRODUCED if one.name.endswith("16 to 64 channels, Winograd")]
    (reading,) = readings(replace(winograd, chips=("M4",)))
    assert reading.missed
    assert abs(reading.difference) > 0.1


def test_a_missed_figure_is_told_from_one_that_is_no_number() -> None:
    figure = replace(REPRODUCED[0], tolerance=0.5)
    assert not Reading(figure, "M1", "h13", figure.error, Exactness.EXACT).missed
    assert Reading(figure, "M1", "h13", float("nan"), Exactness.EXACT).missed
