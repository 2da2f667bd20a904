"""Clients on a Mac, over fake frameworks: skipped where there is no C compiler, or no dispatch library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.runtime.breaker import reset_compile_breaker
from aneforge.runtime.dispatch import library
from apple_fakes import Fakes, Way
from dispatch_tools import COMPILER

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS = ("library", "e5rt", "path_a")


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fakes]:
    """Build the fake frameworks."""
    if COMPILER is None:
        pytest.skip("there is no C compiler for the fake frameworks")
    if not library.PATH.exists():
        pytest.skip("the dispatch library is not built")
    assert library.record_interpreter() is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_ENGINE_LIBRARY", str(library.PATH))
        yield Fakes.build(tmp_path_factory.mktemp("frameworks"))


@pytest.fixture(autouse=True)
def one_target(monkeypatch: pytest.MonkeyPatch, no_host_override: None) -> None:
    """Let the machine, and with it what is before the engine, be one target."""
    del no_host_override  # it comes first
    monkeypatch.setenv("ANEFORGE_TARGET", "h16g")
    reset_compile_breaker()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, fakes: Fakes) -> Iterator[Way]:
    """Give one way to the engine after the other; at the end nothing of it may be left."""
    chosen = fakes.ways()[request.param]
    yield chosen
    assert chosen.leaks() == 0
