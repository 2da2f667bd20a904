"""Figures that real chips printed, reproduced to the digits that their references allow."""

import pytest

import fingerprints
from aneforge.targets import chip


@pytest.mark.parametrize("figure", fingerprints.fingerprints(), ids=lambda figure: figure.name)
def test_figure(figure: fingerprints.Fingerprint) -> None:
    assert fingerprints.disagreement(figure) <= figure.tolerance


@pytest.mark.parametrize("figure", fingerprints.open_figures(), ids=lambda figure: figure.name)
def test_an_open_figure_is_as_near_as_on_record(figure: fingerprints.Fingerprint) -> None:
    off = fingerprints.disagreement(figure)
    assert off <= figure.tolerance
    assert off > 1e-6, "this would be a discovery: move it to the figures that the model reproduces"


def test_every_chip_is_known_and_every_recipe_is_used() -> None:
    figures = fingerprints.fingerprints() + fingerprints.open_figures()
    assert all(chip(name).name == name for figure in figures for name in figure.chips)
    assert {figure.workload for figure in figures} == set(fingerprints.WORKLOADS)


def test_the_other_form_of_a_convolution_misses_the_figure() -> None:
    (figure,) = [one for one in fingerprints.fingerprints() if one.name.endswith("16 to 64 channels, Winograd")]
    assert abs(fingerprints.conv_relu(figure, "m4") / figure.error - 1) > 0.1
