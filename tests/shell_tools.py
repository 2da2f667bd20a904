"""Shell commands of pages and of files for CI systems, run as a reader or a runner would run them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["asked_of", "run_shell", "with_command", "with_recorder"]


def put_program(folder: Path, name: str, text: str) -> None:
    """Write a shell program into a folder."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(0o755)


def with_command(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `python` is this interpreter and `aneforge` its command."""
    place = folder / "path"
    for name, module in (("aneforge", " -m aneforge"), ("python", "")):
        put_program(place, name, f'exec "{sys.executable}"{module} "$@"')
    return {**environment, "PATH": f"{place}:{environment['PATH']}", "COLUMNS": "80"}


def with_recorder(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the same, where `python -m pip`, `pip` and `apt-get` write down what they are asked for, and do nothing.

    Tests must not change the environment that they run in. What was asked for is in `asked_of`.
    """
    made = with_command(folder, environment)
    record = f'printf "%s\\n" "$*" >> "{folder / "asked"}"'
    put_program(
        folder / "path",
        "python",
        f'if [ "$1 $2" = "-m pip" ]; then shift 2; {record}; else exec "{sys.executable}" "$@"; fi',
    )
    for name in ("pip", "apt-get"):
        put_program(folder / "path", name, record)
    return made


def asked_of(folder: Path) -> list[str]:
    """Return the arguments of every call that was recorded, in order."""
    return (folder / "asked").read_text(encoding="utf-8").splitlines()


def run_shell(
    shell: str, script: str, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script by a shell, such as `bash -eo pipefail`."""
    command = [*shell.split(), "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
