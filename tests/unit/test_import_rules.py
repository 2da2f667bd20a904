"""The one-way data flow, read from the real import graph by import-linter."""

import shutil
import subprocess
import sys
from pathlib import Path

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [str(LINT_IMPORTS), "--config", str(checkout / "pyproject.toml"), "--no-cache"]
    environment = {"PYTHONPATH": str(checkout / "src"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def copy_checkout(repository: Path, folder: Path) -> Path:
    shutil.copytree(repository / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(repository / "pyproject.toml", folder)
    return folder


def test_the_rooms_import_one_way(repository: Path) -> None:
    result = lint_imports(repository)
    assert result.returncode == 0, result.stdout


def test_an_import_against_the_flow_is_caught(repository: Path, tmp_path: Path) -> None:
    checkout = copy_checkout(repository, tmp_path)
    with (checkout / "src/aneforge/targets/family.py").open("a") as module:
        module.write("\nimport aneforge.rules\n")
    result = lint_imports(checkout)
    assert result.returncode != 0
    assert "aneforge.targets is not allowed to import aneforge.rules" in result.stdout


def test_a_room_without_a_place_is_caught(repository: Path, tmp_path: Path) -> None:
    checkout = copy_checkout(repository, tmp_path)
    (checkout / "src/aneforge/utilities").mkdir()
    (checkout / "src/aneforge/utilities/__init__.py").write_text("")
    result = lint_imports(checkout)
    assert result.returncode != 0
    assert "utilities" in result.stdout
