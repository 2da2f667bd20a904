"""What all tests share: the golden-text helper and the two flags that rewrite committed files."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import native_build
from aneforge.targets import host
from steady_draws import steady_draws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apple_fakes import Fakes
    from golden_text import Golden

steady_draws()
# A busy machine takes longer for a case than a deadline, and no test says anything about time.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")
TESTS = Path(__file__).parent
RESERVED = re.compile(r'[<>:"/\\|?*]')
"""What no file name on Windows may hold."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags that rewrite what is committed."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected texts under tests/golden")
    parser.addoption("--refresh-results", action="store_true", help="rewrite the result tables of the external suites")


def pytest_configure() -> None:
    """Build the C libraries of this checkout anew where they are of other sources than those that are tested.

    One that was never built stays away: what runs without it is tested then.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    for one in native_build.LIBRARIES:
        if one.is_for_this_system and (one.folder / one.file_name).exists():
            native_build.build_library(one)


def pytest_collection_finish() -> None:
    """Keep what importing and collecting made out of garbage collections: it stays, and walking it takes a second."""
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with `tests/golden/<test file>/<test name>.txt`, or rewrite that file when asked to.

    What a file name cannot hold on some system is left out of the test's name.
    """
    path = TESTS / "golden" / request.path.stem / f"{RESERVED.sub('', request.node.name)}.txt"

    def compare(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden text yet: run pytest --update-golden, then read {path}"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(autouse=True)
def no_host_override(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the machine's own ANEFORGE_TARGET and earlier warnings out of every test."""
    monkeypatch.delenv("ANEFORGE_TARGET", raising=False)
    host.warn_once.cache_clear()
    yield
    host.warn_once.cache_clear()


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fakes]:
    """Build the fake frameworks."""
    from apple_fakes import Fakes, why_there_are_none  # noqa: PLC0415 - few tests need them

    reason = why_there_are_none()
    if reason is not None:
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        yield Fakes.build(tmp_path_factory.mktemp("frameworks"), patch)


@pytest.fixture
def repository() -> Path:
    """Return the root of the checkout."""
    return TESTS.parent


@pytest.fixture
def clean_environment() -> dict[str, str]:
    """Return an environment for a child process without colours and without an override of the target."""
    return {key: value for key, value in os.environ.items() if key != "ANEFORGE_TARGET"} | {"NO_COLOR": "1"}
