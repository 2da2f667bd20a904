"""The table of packages that only some functions need."""

from __future__ import annotations

import importlib.util
import tomllib
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from aneforge.errors import AneforgeError, MissingPackageError
from aneforge.packages import PACKAGES, expect_package, is_installed

if TYPE_CHECKING:
    from pathlib import Path


def test_every_extra_brings_the_package_that_it_is_named_for(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for name, use in PACKAGES.items():
        if use.extra:
            assert name in {Requirement(line).name for line in extras[use.extra]}, f"{use.extra} does not bring {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_that_is_not_installed_is_one_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    assert not is_installed(package)
    with pytest.raises(MissingPackageError, match=f"needs the package {package}. Remedy: pip install ") as caught:
        expect_package(package)
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, AneforgeError)
