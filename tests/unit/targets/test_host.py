"""Which engine a machine has, on machines that are not there."""

import warnings
from pathlib import Path

import pytest

from aneforge.errors import NoDataError, UnknownTargetError
from aneforge.targets import Family, Host, detect_family, detect_target, host, resolve


@pytest.mark.parametrize(
    ("brand", "target"),
    [
        ("Apple M1", "h13"),
        ("Apple M1 Ultra", "h13g"),
        ("Apple M2", "h14g"),
        ("Apple M3 Max", "h15g"),
        ("Apple M4 Pro", "h16g"),
        ("Apple M5", "h17"),
        ("Apple M5 Pro", "h17s"),
        ("Apple M6", "h18g"),
        ("Apple A18 Pro", "h17"),
    ],
)
def test_the_cpu_brand_names_the_chip(brand: str, target: str) -> None:
    assert detect_target(Host(cpu_brand=brand)).name == target


@pytest.mark.parametrize(
    ("part", "target"),
    [
        ("t8103", "h13"),
        ("t6001", "h13g"),
        ("t8112", "h14g"),
        ("t6022", "h14g"),
        ("t8122", "h15"),
        ("t6034", "h15g"),
        ("t8152", "h18g"),
    ],
)
def test_a_linux_device_tree_names_the_chip(part: str, target: str) -> None:
    compatible = ("apple,j293", f"apple,{part}", "apple,arm-platform")
    assert detect_target(Host(compatible=compatible)).name == target


def test_the_environment_comes_first() -> None:
    machine = Host(override="h16s", cpu_brand="Apple M1", compatible=("apple,t8112",))
    assert detect_target(machine).name == "h16s"
    assert detect_family(machine) is Family.A16


def test_the_brand_comes_before_the_device_tree() -> None:
    assert detect_target(Host(cpu_brand="Apple M4", compatible=("apple,t8103",))).name == "h16g"


@pytest.mark.parametrize("override", ["h99", "a99"])
def test_a_wrong_override_is_an_error_that_names_the_variable(override: str) -> None:
    with pytest.raises(UnknownTargetError, match=r"^ANEFORGE_TARGET: "):
        detect_target(Host(override=override))


@pytest.mark.parametrize("override", ["h20", "u1"])
def test_an_override_without_a_family_is_not_taken_for_the_floor(override: str) -> None:
    assert detect_target(Host(override=override)).name == override
    with pytest.raises(NoDataError, match=rf"ANEFORGE_TARGET: '{override}' belongs to no documented family"):
        detect_family(Host(override=override))


@pytest.mark.parametrize(
    "machine",
    [
        Host(),
        Host(cpu_brand="Apple M9 Ultra"),
        Host(cpu_brand="VirtualApple @ 2.50GHz"),
        Host(cpu_brand="Intel(R) Core(TM) i7"),
        Host(compatible=("raspberrypi,4-model-b",)),
        Host(compatible=("apple,t8015", "apple,arm-platform")),
    ],
)
def test_an_unknown_machine_is_the_floor_with_one_warning(machine: Host) -> None:
    with pytest.warns(UserWarning, match=r"Neural Engine is not known .* assuming h13"):
        assert detect_target(machine).name == "h13"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert detect_family(machine) is Family.A13


def test_a_new_variant_of_a_known_chip_is_its_family_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"Apple M6 Ultra is not in the chip table: assuming M6's h18g"):
        assert detect_target(Host(cpu_brand="Apple M6 Ultra")).name == "h18g"


def test_resolving_nothing_asks_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "m5-pro")
    assert resolve(None).name == "h17s"
    assert resolve().family is Family.A16


def test_an_empty_override_is_no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "")
    assert Host.this_machine().override is None


def test_the_device_tree_is_split_at_its_zeros(tmp_path: Path) -> None:
    (tmp_path / "compatible").write_bytes(b"apple,j274\0apple,t8103\0apple,arm-platform\0")
    assert host.read_device_tree(tmp_path / "compatible") == ("apple,j274", "apple,t8103", "apple,arm-platform")
    assert host.read_device_tree(tmp_path / "missing") == ()


def test_the_brand_is_read_on_macos_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert host.read_cpu_brand() is None


def test_a_mac_without_sysctl_has_no_brand(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("subprocess.run", refuse)
    assert host.read_cpu_brand() is None
