"""The data files of costs and placement: every number leads to a listed source, and chips are chips of the database."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from aneforge.analysis.files import DATA, ModelFile, machines_file, measurements, model, networks
from aneforge.errors import DataFileError
from aneforge.targets import database
from aneforge.targets.schema import read

FILES = [
    "checks.toml",
    "host_model.toml",
    "latencies.toml",
    "machines.toml",
    "model.toml",
    "networks.toml",
    "segmenter.toml",
]


def sources_in(value: object) -> Iterator[str]:
    """Iterate over every `source` of a file."""
    if not isinstance(value, dict):
        return
    for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType] - a file can hold anything
        if key == "source":
            yield str(inner)  # pyright: ignore[reportUnknownArgumentType] - as above
        yield from sources_in(inner)  # pyright: ignore[reportUnknownArgumentType] - as above


@pytest.mark.parametrize("name", FILES)
def test_every_source_is_listed(name: str) -> None:
    found = list(sources_in(tomllib.loads((DATA / name).read_text(encoding="utf-8"))))
    assert found
    assert {source.split()[0].rstrip(",") for source in found} <= set(database().sources)


def test_chips_are_those_of_the_database() -> None:
    assert {row.chip for row in measurements()} == set(machines_file().chips) <= set(database().chips)
    assert {row.chip for row in networks()} | set(machines_file().calls) <= set(database().chips)


def test_no_network_stands_in_both_parts() -> None:
    parts = [{row.network for row in networks() if row.calibrates is chosen} for chosen in (True, False)]
    assert not parts[0] & parts[1]
    assert len(set(networks())) == len(networks())


def test_tiers_and_classes_are_known_names() -> None:
    assert set(model().activation_bandwidth) <= set(database().tiers)
    assert all(set(entry.element_nanoseconds) == set(model().classes) for entry in machines_file().chips.values())


def test_a_misspelt_key_is_named(tmp_path: Path) -> None:
    text = (DATA / "model.toml").read_text(encoding="utf-8").replace("[layer_cycles]", "[layer_cicles]")
    path = tmp_path / "model.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=r"model\.toml: .*layer_c"):
        read(path, ModelFile)
