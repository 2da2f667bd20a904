"""Real compiled containers: third-party files that the repository does not hold, read from a folder outside of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

VARIABLE = "ANEFORGE_HWX_DATA"
REASON = f"{VARIABLE} names no folder with fixtures/manifest.json: third-party .hwx files are not committed"


def hwx_data() -> Path | None:
    """Return the folder of real files: the one that the environment names, or the one beside the checkout."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "hwx"
    folder = Path(os.environ.get(VARIABLE) or beside)
    return folder if (folder / "fixtures" / "manifest.json").is_file() else None


def fixture_names() -> list[str]:
    """Return the names of all real files, for a test of each."""
    folder = hwx_data()
    if folder is None:
        return []
    return [entry["name"] for entry in json.loads((folder / "fixtures" / "manifest.json").read_text(encoding="utf-8"))]


def fixture_path(name: str) -> Path:
    """Return a real file, or skip the test that asks for it."""
    folder = hwx_data()
    if folder is None:
        pytest.skip(REASON)
    return folder / "fixtures" / f"{name}.hwx"


EACH_FIXTURE = pytest.mark.parametrize(
    "name", fixture_names() or [pytest.param("", marks=pytest.mark.skip(reason=REASON))]
)
"""A test of each real file."""
