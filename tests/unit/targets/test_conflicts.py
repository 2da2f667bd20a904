"""Which disagreements between sources bear on a value of a target."""

from pathlib import Path

import pytest

from aneforge.errors import UnknownNameError
from aneforge.targets import Database, database, resolve


def ids(target: str, name: str) -> list[str]:
    return [conflict.id for conflict in resolve(target).conflicts(name)]


@pytest.mark.parametrize(
    ("target", "name", "expected"),
    [
        ("m2", "width_slice_crop_x16", "C1 S23"),
        ("h14c", "width_slice_crop_x16", "C1 S23"),
        ("h13", "legality", "S3 S10"),
        ("h17s", "legality", "C2 S16"),
        ("h18g", "descriptor_generation", "C4 S4"),
        ("h17", "fill_lower_ne_first_first", "S43"),
        ("h18", "vector_palette_max", "S43"),
        ("m1", "loaded_programs", "S41"),
        ("m1", "sparse", "C18"),
        ("m1", "max_tensor_channels", ""),
        ("h20", "texture_engine", ""),
    ],
)
def test_conflicts_of_a_value(target: str, name: str, expected: str) -> None:
    assert ids(target, name) == expected.split()


def test_another_name_of_a_value_has_the_same_conflicts() -> None:
    assert ids("m1", "num_nes") == ids("m1", "ne_count_field") == ["C3", "S5"]


def test_an_unknown_value_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="unknown value 'width_slice'"):
        resolve("m1").conflicts("width_slice")


def test_a_target_is_read_without_the_conflicts(tmp_path: Path) -> None:
    for path in database().folder.glob("*.toml"):
        if path.stem not in {"conflicts", "cost_blocks", "descriptors", "sources"}:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert Database(tmp_path).targets["h13"].hal.flag("texture_engine") is False
