"""Several threads that decode into one type, which is new to msgspec, as in a process whose threads compile at once."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

THREADS = """
import sys, threading
from pathlib import Path
import msgspec
from aneforge.targets.schema import read

sys.setswitchinterval(1e-6)
path = Path(sys.argv[1])
for number in range(40):
    parts = [msgspec.defstruct(f"Part{number}_{k}", [("n", "int")]) for k in range(8)]
    whole = msgspec.defstruct(f"Whole{number}", [(f"a{k}", part) for k, part in enumerate(parts)])
    gate = threading.Barrier(8)

    def run() -> None:
        gate.wait()
        assert read(path, whole).a7.n == 1

    threads = [threading.Thread(target=run) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
"""
DIRECT = re.compile(r"msgspec\.(convert\(|(json|toml|msgpack)\.decode\()")


def test_threads_that_read_types_first_at_once(tmp_path: Path) -> None:
    path = tmp_path / "parts.toml"
    path.write_text("\n".join(f"[a{number}]\nn = 1" for number in range(8)), encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", THREADS, path], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_nobody_decodes_beside_the_lock(repository: Path) -> None:
    package = repository / "src" / "aneforge"
    found = {path.name for path in package.rglob("*.py") if DIRECT.search(path.read_text(encoding="utf-8"))}
    assert found == set()
