"""Every test of the runtime has a cache folder of its own, and many run over every way to the engine."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from aneforge.runtime import backends
from aneforge.runtime.breaker import reset_compile_breaker
from aneforge.runtime.devices import DeviceBackend
from every_way import SOFTWARE, AimedDevice, ways_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from apple_fakes import Fakes

FIXTURE = "way_to_the_engine"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a test run once for every way."""
    ways = ways_of(metafunc.definition.path, metafunc.function.__name__)
    if len(ways) > 1:
        metafunc.parametrize(FIXTURE, ways, indirect=True)


@pytest.fixture(autouse=True)
def way_to_the_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make one way the default backend; at the end nothing of it may be left."""
    name: str = getattr(request, "param", SOFTWARE)
    if name == SOFTWARE:
        yield name
        return
    fakes: Fakes = request.getfixturevalue("fakes")
    way = fakes.ways()[name]
    backend = DeviceBackend(name, "the engine by one of its ways", AimedDevice(way.device, fakes.library))
    monkeypatch.setattr(backends, "default_backend", lambda: backend)
    reset_compile_breaker()
    before = way.leaks()
    yield name
    if way.leaks() != before:
        gc.collect()  # what refers to itself goes then
    assert way.leaks() == before


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Send the cache of compiled programs to a temporary folder, and return it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(folder))
    monkeypatch.delenv("ANEFORGE_CACHE_BYTES", raising=False)
    return folder
