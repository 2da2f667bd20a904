"""The one-way data flow, read from the real import graph by import-linter."""

import re
import shutil
import subprocess
import sys
import tomllib
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


def test_hypothesis_is_imported_in_one_room_that_wheels_leave_out(repository: Path) -> None:
    package = repository / "src" / "aneforge"
    users = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if re.search(r"^\s*(from|import) hypothesis", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == {"testing"}
    settings = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    assert "src/aneforge/testing" in settings["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]


def test_an_import_of_the_strategies_is_caught(repository: Path, tmp_path: Path) -> None:
    checkout = copy_checkout(repository, tmp_path)
    with (checkout / "src/aneforge/cli/entry.py").open("a") as module:
        module.write("\nimport aneforge.testing\n")
    result = lint_imports(checkout)
    assert result.returncode != 0
    assert "aneforge.cli is not allowed to import aneforge.testing" in result.stdout


def test_strategies_say_what_they_need() -> None:
    program = "import sys; sys.modules['hypothesis'] = None; import aneforge.testing.graphs"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.stderr.rstrip().endswith("ImportError: aneforge.testing needs Hypothesis: pip install '.[test]'")
