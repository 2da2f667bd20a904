"""The cache on disk: found again, bounded, safe under several processes, a kill, and damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, ProgramFileError
from aneforge.ops.constant import Constant, Dense, Int8Affine
from aneforge.runtime import building
from aneforge.runtime import compile as compiling
from aneforge.runtime.options import Options
from aneforge.runtime.saved import cache
from aneforge.runtime.saved.cache import ProgramCache, key_of, program_cache

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.graph.graph import Graph
    from aneforge.runtime.building import Built
    from aneforge.targets import Place

SAMPLE = np.arange(64).reshape(1, 64) / 64


def network(seed: int = 0) -> af.Tensor:
    weight = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float16)
    return af.input((1, 64)).linear(weight).relu()


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "programs").glob("*.aneprg"))


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the compiles that really happen."""
    counted: list[str] = []

    def build(graph: Graph, place: Place, options: Options) -> Built:
        counted.append(place.target.name)
        return building.build(graph, place, options)

    monkeypatch.setattr(compiling, "build", build)
    return counted


def test_a_second_compile_is_read(cache_folder: Path, builds: list[str]) -> None:
    first = af.compile(network(), target="h13")
    second = af.compile(network(), target="h13")
    assert builds == ["h13"]
    assert len(entries(cache_folder)) == 1
    assert str(first) == str(second)
    assert np.array_equal(first(SAMPLE), second(SAMPLE))


def test_weights_targets_and_options_tell_entries_apart(cache_folder: Path, builds: list[str]) -> None:
    af.compile(network(), target="h13")
    af.compile(network(1), target="h13")
    af.compile(network(), target="h14")
    af.compile(network(), target="h13", opt=0)
    af.compile(network(), target="h13", compress="int8")
    af.compile(network(), target="h13", compress="int8", compress_atol=0.5)
    assert len(builds) == len(entries(cache_folder)) == 6


def test_warnings_come_from_the_cache_too() -> None:
    out = af.input((1, 4, 8, 16)).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8])
    for _ in range(2):
        with pytest.warns(af.SliceSaturationWarning):
            model = af.compile(out, target="h13")
        assert len(model.warnings) == 2


def test_what_rules_say_of_encoded_weights_comes_from_the_cache_too(builds: list[str]) -> None:
    for _ in range(2):
        with pytest.warns(af.PrecisionWarning, match="scale per block") as caught:
            af.compile(network(), target="h16g", compress="blockwise")
        assert len([one for one in caught if one.category is af.PrecisionWarning]) == 1
    assert builds == ["h16g"]


def test_reports_of_compression_come_from_the_cache_too(builds: list[str]) -> None:
    with pytest.warns(af.SaturationWarning, match="with int8 weights"):
        first, second = (af.compile(network(), target="h16g", compress="int8") for _ in range(2))
    assert second.warnings == first.warnings
    assert builds == ["h16g"]
    assert second.weights == first.weights != ()


@pytest.mark.parametrize("part", ["start", "header", "end", "cut", "empty"])
def test_a_damaged_entry_is_made_again(part: str, cache_folder: Path, builds: list[str]) -> None:
    wanted = af.compile(network(), target="h13")(SAMPLE)
    (entry,) = entries(cache_folder)
    whole = entry.read_bytes()
    damaged = {
        "start": b"X" + whole[1:],
        "header": whole[:60] + b"?" + whole[61:],
        "end": whole[:-1] + bytes([whole[-1] ^ 1]),
        "cut": whole[: len(whole) // 2],
        "empty": b"",
    }[part]
    entry.write_bytes(damaged)
    model = af.compile(network(), target="h13")
    assert np.array_equal(model(SAMPLE), wanted)
    assert len(builds) == 2
    assert "a damaged entry of the cache was made again" in model.remarks[0]
    assert entry.read_bytes() == whole
    assert af.compile(network(), target="h13").remarks == ()


def test_an_entry_leaves_out_the_weights_of_the_graph(cache_folder: Path, builds: list[str]) -> None:
    weight = Dense(np.random.default_rng(0).standard_normal((2048, 256)).astype(np.float16))
    programs = [af.compile(af.input((1, 256)).linear(weight), target=target).program for target in ("m1", "m1", "m4")]
    assert len(builds) == 2
    assert sum(entry.stat().st_size for entry in entries(cache_folder)) < weight.nbytes / 50
    for program in programs:
        large = [one for one in program.constants.values() if one.nbytes > 1000]
        assert sum(one.nbytes for one in large) == weight.nbytes
        assert all(np.shares_memory(one.dense(), weight.values) for one in large)


def test_an_entry_leaves_out_the_codes_of_the_graph(cache_folder: Path, builds: list[str]) -> None:
    codes = np.random.default_rng(0).integers(-127, 128, (64, 256)).astype(np.int8)
    weight = Int8Affine(codes, np.full(64, 2**-8, np.float16))
    for _ in range(2):
        program = af.compile(af.input((1, 256), max_abs=1.0).linear(weight), target="m4").program
        (held,) = (one for one in program.constants.values() if isinstance(one, Int8Affine))
        assert np.shares_memory(held.quantized, weight.quantized)
    assert len(builds) == 1
    assert entries(cache_folder)[0].stat().st_size < codes.nbytes


def test_programs_that_are_found_share_what_the_compiler_made_of_weights(builds: list[str]) -> None:
    codes = np.random.default_rng(0).integers(-127, 128, (64, 256)).astype(np.int8)
    weight = Int8Affine(codes, np.full(64, 2**-8, np.float16))

    def folded(rows: int) -> Constant:
        program = af.compile(af.input((rows, 256), max_abs=1.0).linear(weight), target="m1").program
        (held,) = (one for one in program.constants.values() if one.nbytes > 1000)
        assert isinstance(held, Dense)
        return held

    assert [folded(rows).nbytes for rows in (1, 2)] == [2 * codes.size] * 2
    first, second = folded(1), folded(2)
    assert np.shares_memory(first.dense(), second.dense())
    assert len(builds) == 2


def test_an_entry_is_no_program_for_who_does_not_have_the_weights(cache_folder: Path) -> None:
    af.compile(network(), target="h13")
    with pytest.raises(ProgramFileError, match=r"array 'values' is not in it.*Remedy: compile and save it again"):
        af.load_program(entries(cache_folder)[0])


def test_the_bound_holds_and_the_oldest_go(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        af.compile(network(seed), target="h13")
    sizes = [entry.stat().st_size for entry in entries(cache_folder)]
    for age, seed in enumerate((1, 2, 0)):  # the entry of seed 1 is the oldest
        key = key_of_network(seed)
        os.utime(program_cache().place(key), (1000 + age, 1000 + age))
    monkeypatch.setenv("ANEFORGE_CACHE_BYTES", str(max(sizes) * 3))
    af.compile(network(3), target="h13")
    left = {entry.stem for entry in entries(cache_folder)}
    assert left == {key_of_network(seed) for seed in (0, 2, 3)}


def key_of_network(seed: int) -> str:
    return key_of([af.Graph({"y": network(seed)}).text, "h13", Options().key])


def test_reading_makes_an_entry_young(cache_folder: Path) -> None:
    af.compile(network(), target="h13")
    (entry,) = entries(cache_folder)
    os.utime(entry, (1000, 1000))
    af.compile(network(), target="h13")
    assert entry.stat().st_mtime > 1000


def test_an_entry_larger_than_the_bound_does_not_stay(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_CACHE_BYTES", "100")
    model = af.compile(network(), target="h13")
    assert model(SAMPLE).shape == (1, 64)
    assert entries(cache_folder) == []


def test_the_cache_can_be_switched_off(cache_folder: Path, monkeypatch: pytest.MonkeyPatch, builds: list[str]) -> None:
    monkeypatch.setenv("ANEFORGE_CACHE_BYTES", "0")
    for _ in range(2):
        af.compile(network(), target="h13")
    assert len(builds) == 2
    assert not cache_folder.exists()


@pytest.mark.parametrize("bound", ["many", "-1", "1e9", "²"])
def test_a_bound_that_is_no_number(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_CACHE_BYTES", bound)
    with pytest.raises(GraphError, match="ANEFORGE_CACHE_BYTES is not a number of bytes"):
        af.compile(network(), target="h13")


def test_a_folder_that_cannot_be_used_is_remarked(cache_folder: Path) -> None:
    cache_folder.write_text("a file is in the way")
    model = af.compile(network(), target="h13")
    assert [remark.partition(":")[0] for remark in model.remarks] == [
        "the cache cannot be read",
        "the cache cannot be written",
    ]
    assert model(SAMPLE).shape == (1, 64)


def test_the_folder_is_this_systems_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANEFORGE_CACHE_DIR")
    found = program_cache()
    assert found.folder.parts[-2:] == ("aneforge", "programs")
    assert found.most_bytes == cache.DEFAULT_BYTES


def test_another_build_of_the_package_has_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(["graph"])
    monkeypatch.setattr(cache, "build", lambda: "another build")
    assert key_of(["graph"]) != before
    assert key_of(["a", "b"]) != key_of(["ab"]) != key_of(["a", "b", ""])


def test_what_a_killed_process_left_goes_after_a_while(tmp_path: Path) -> None:
    fresh, old = tmp_path / ".a.aneprg.1.unfinished", tmp_path / ".b.aneprg.2.unfinished"
    other = tmp_path / "notes.txt"
    for file in (fresh, old, other):
        file.write_bytes(b"x")
    os.utime(old, (1000, 1000))
    os.utime(other, (1000, 1000))
    ProgramCache(tmp_path, 1).shrink()
    assert sorted(file.name for file in tmp_path.iterdir()) == [fresh.name, other.name]
    ProgramCache(tmp_path).clear()
    assert list(tmp_path.iterdir()) == [other]


# Several processes

COMPILE_OFTEN = """
import sys, warnings
import numpy as np
import aneforge as af
from aneforge.runtime.saved.cache import program_cache
warnings.simplefilter("ignore")
first, rounds = int(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(rounds):
    seed = (first + turn) % 4
    weight = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float16)
    model = af.compile(af.input((1, 64)).linear(weight).relu(), target=af.targets.Family.A13)
    wanted = np.maximum(np.ones(64) @ weight.T.astype(np.float64), 0)
    assert np.abs(model(np.ones((1, 64))) - wanted).max() < 0.1, turn
    assert not [remark for remark in model.remarks if "damaged" in remark], model.remarks
    model.release()
print("done", flush=True)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_use_one_folder(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_CACHE_BYTES", "4000")  # about three entries: they evict one another all the time
    with start(COMPILE_OFTEN, "0", "20") as one, start(COMPILE_OFTEN, "1", "20") as other:
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        results = [process.communicate(timeout=120) for process in (one, other)]
    assert results == [("done\n", "")] * 2
    assert sum(entry.stat().st_size for entry in entries(cache_folder)) <= 4000


WRITE_SLOWLY = """
import sys, time, warnings
import numpy as np
import aneforge as af
from aneforge.runtime.saved import files
warnings.simplefilter("ignore")
written = files.pad

calls = []

def slow(file):
    written(file)
    file.flush()
    calls.append(file.tell())
    if len(calls) == int(sys.argv[1]):
        print("writing", flush=True)
        time.sleep(60)

files.pad = slow
weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
af.compile(af.input((1, 64)).linear(weight).relu(), target=af.targets.Family.A13, compress="int8")
"""


@pytest.mark.parametrize("section", ["1", "2"])
def test_a_kill_in_the_middle_of_a_write(section: str, cache_folder: Path) -> None:
    with start(WRITE_SLOWLY, section) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
    (left,) = (cache_folder / "programs").iterdir()
    assert left.name.endswith(".unfinished")
    assert entries(cache_folder) == []
    model = af.compile(network(), target="h13")
    assert model.remarks == ()
    assert model(SAMPLE).shape == (1, 64)
    assert len(entries(cache_folder)) == 1
    old = time.time() - 2 * cache.ABANDONED_SECONDS
    os.utime(left, (old, old))
    af.compile(network(1), target="h13")
    assert not left.exists()
