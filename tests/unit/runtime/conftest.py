"""Every test of the runtime has a cache folder of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Send the cache of compiled programs to a temporary folder, and return it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ANEFORGE_CACHE_DIR", str(folder))
    monkeypatch.delenv("ANEFORGE_CACHE_BYTES", raising=False)
    return folder
