"""Clients on a Mac, over fake frameworks: skipped where there is no C compiler, or no dispatch library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.runtime.breaker import reset_compile_breaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apple_fakes import Fakes, Way

WAYS = ("library", "e5rt", "path_a")


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
