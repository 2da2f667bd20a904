"""Runs that differ in nothing that should matter give the same verdicts, changes, files and results, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import everything_written


def written(folder: Path, seed: str, threads: str, environment: dict[str, str]) -> dict[str, bytes]:
    """Return the files that a process writes, by name; each has a cache of its own."""
    (folder / "files").mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-W", "ignore", everything_written.__file__, threads],
        cwd=folder / "files",
        env=environment
        | {
            "ANEFORGE_CACHE_DIR": str(folder / "cache"),
            "OPENBLAS_NUM_THREADS": threads,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        check=True,
    )
    paths = sorted(path for path in folder.glob("files/**/*") if path.is_file())
    return {path.relative_to(folder / "files").as_posix(): path.read_bytes() for path in paths}


def test_neither_hash_seeds_nor_threads_change_a_byte(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    one = written(tmp_path / "one", "1", "1", clean_environment)
    two = written(tmp_path / "two", "2", "2", clean_environment)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    for form in everything_written.EMITTERS:
        assert any(f"/emitted.{form}" in name for name in one)
