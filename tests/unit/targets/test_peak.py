"""The documented projection of peak throughput, number by number, and a stated substitute where there is no curve."""

import pytest

from aneforge.errors import NoDataError, UnknownTargetError
from aneforge.targets import database
from aneforge.targets.peak import curve_of, project_peak

DOCUMENTED = {
    "h11": (1.5882, 0.8824, 4, 1.0080),
    "h13": (1.8, 1.0, 4, 1.1424),
    "h13g": (3.6908, 2.0504, 8, 1.1712),
    "t1": (7.2, 4.0, 16, 1.1424),
    "h14": (1.8233, 1.0130, 4, 1.5504),
    "h14c": (1.8233, 1.0130, 4, 1.5504),
    "h15": (1.8983, 1.0546, 4, 1.6512),
    "h15c": (18.1328, 10.0738, 32, 1.8912),
    "h16": (2.1063, 1.1702, 4, 1.7280),
    "h16g": (8.8956, 4.9420, 16, 1.8912),
    "h17": (2.0864, 1.1591, 4, 1.7376),
    "h17s": (8.8956, 4.9420, 16, 1.8912),
    "h17c": (17.7913, 9.8840, 32, 1.8912),
    "h17d": (35.5825, 19.7681, 64, 1.8912),
    "h18": (8.8956, 4.9420, 16, 1.8912),
    "m11": (0.1970, 0.1094, 1, 0.4),
}
CENSUS = [name for name, target in database().targets.items() if "9.509" in target.builds and target.has_data]


@pytest.mark.parametrize("arch", DOCUMENTED)
def test_the_projection_is_the_documented_one(arch: str) -> None:
    found = project_peak(arch)
    assert (round(found["tflops"], 4), round(found["rel_m1"], 4), found["cores"], found["ghz"]) == DOCUMENTED[arch]


def test_every_target_of_the_census_has_a_projection() -> None:
    assert len(CENSUS) == 28
    assert all(project_peak(name)["tflops"] > 0 for name in CENSUS)


def test_a_substitute_is_stated_and_only_where_there_is_one() -> None:
    stated = {name: curve_of(name).substitute for name in CENSUS}
    without = {name for name in CENSUS if database().targets[name].cost_curve is None}
    assert {name for name, why in stated.items() if why} == without == {"h12", "m9", "t0", "u1", "u2", "u3"}
    assert (
        stated["u2"] == "no curve is published for u2; that of h13, the anchor, since the target belongs to no family"
    )
    assert curve_of("h18g").substitute == (
        "no curve is published for h18g; that of h18, of the latest tier before it that has one"
    )


def test_a_substitute_keeps_the_cores_of_its_own_target() -> None:
    assert project_peak("m9")["cores"] == 1


def test_unknown_names_and_names_without_data_are_key_errors() -> None:
    with pytest.raises(UnknownTargetError) as unknown:
        project_peak("h99")
    with pytest.raises(NoDataError, match="its clock is unknown") as without:
        project_peak("h20")
    assert isinstance(unknown.value, KeyError)
    assert isinstance(without.value, KeyError)
