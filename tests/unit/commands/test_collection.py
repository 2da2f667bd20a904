"""Collections of facts: what is in them and what is not, the reader of files from strangers, and the comparison."""

from __future__ import annotations

import io
import plistlib
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from msgspec import structs

from aneforge.analysis.cost import cost
from aneforge.cli import main
from aneforge.commands import collecting, collection
from aneforge.commands.collecting import (
    Plan,
    collect,
    doors,
    full_plan,
    macos_version,
    manifest,
    program_graph,
    quick_plan,
    without_names,
)
from aneforge.commands.collection import CONTENTS, Collection, collection_to_bytes, read_collection
from aneforge.commands.collection_comparison import Verdict, compare_collection
from aneforge.errors import GraphError, UnknownTargetError
from aneforge.runtime import backends
from aneforge.runtime.dispatch.library import PATH, library_path
from aneforge.runtime.executables import SoftwareEngine
from aneforge.targets import resolve
from aneforge.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.runtime.executables import Executable

USER, HOST, HOME = "jane.doe", "janes-laptop", "/Users/jane.doe"
SMALL = Plan(
    tuple(one for one in full_plan().figures if one.workload == "conv_relu"),
    full_plan().programs[:2],
    full_plan().reductions[:2],
    runs=2,
)


@dataclass(frozen=True)
class FakeDevice:
    """A backend that reaches a device: the software engine, and a failure for programs with a softmax."""

    name: str = "fake"
    title: str = "a device of this test"
    refused: str | None = None

    def obstacle(self) -> str | None:
        """Return why it cannot run."""
        return self.refused

    def load(self, program: Program, graph: Graph | None) -> Executable:
        """Make a program ready."""
        assert graph is not None
        if any(layer.kind.name == "softmax" for layer in program.layers):
            raise RuntimeError(f"cannot open {HOME}/Library/x.mil\nfor {USER} on {HOST}.local (/private/var/a b)")
        return SoftwareEngine(program)


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine one that has a user and a name, and a device."""
    refused = FakeDevice("closed", refused=f"no library at {HOME}/.cache/aneforge/lib.dylib, {USER}")
    found = (*backends.list_known_backends(), FakeDevice(), refused)
    monkeypatch.setattr(backends, "list_known_backends", lambda: found)
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("USER", USER)
    monkeypatch.setattr("platform.node", lambda: f"{HOST}.local")
    monkeypatch.setattr("platform.release", lambda: f"6.1-{USER}")


def files_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.usefixtures("private")
def test_a_collection_names_nobody_and_two_runs_give_the_same_bytes_but_for_times(tmp_path: Path) -> None:
    softmax = tuple(one for one in full_plan().reductions if one.workload == "softmax")[:1]
    plan = replace(SMALL, reductions=(*SMALL.reductions, *softmax))
    first, second = (files_of(collection_to_bytes(collect(plan))) for _ in range(2))
    assert list(first) == [one.name for one in CONTENTS]
    del second["latencies.json"]
    assert first | second == first
    everything = b"".join(first.values()).lower()
    for word in (USER, HOST, HOME, str(Path.cwd()), sys.prefix, "/private", str(tmp_path)):
        assert word.lower().encode() not in everything, word
    assert b"cannot open <path> for <name> on <name>" in everything
    assert b"no library at <path>, <name>" in everything


@pytest.mark.usefixtures("private")
def test_clients_are_measured_and_failures_are_kept() -> None:
    softmax = tuple(one for one in full_plan().reductions if one.workload == "softmax")[:1]
    timed = tuple(one for one in full_plan().programs if one.workload == "softmax")[:1]
    told: list[str] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append(f"{what} {done}/{total}")

    found = collect(replace(SMALL, figures=(), programs=timed, reductions=softmax), runs=1, progress=tell)
    assert told == ["measuring fake: time of softmax 0/2", "measuring fake: softmax 1/2"]
    assert [one.name for one in found.doors if one.measured] == ["fake"]
    assert [one.available for one in found.doors if one.name == "closed"] == [False]
    assert found.failures == 4
    assert [(one.runs, one.median) for one in found.latencies] == [(0, 0.0)]
    assert all(one.output is None and one.failure.startswith("RuntimeError: ") for one in found.reductions)


@pytest.mark.usefixtures("private")
def test_only_clients_on_macos_reach_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(one.reaches_device for one in doors(frozenset()))
    monkeypatch.setattr(sys, "platform", "darwin")
    reaching = {one.name: one.reaches_device for one in doors(frozenset())}
    assert (reaching["fake"], reaching["closed"], reaching["software"]) == (True, False, False)


@pytest.mark.skipif(not PATH.exists(), reason="the dispatch library is not built")
def test_a_client_of_the_dispatch_library_gives_the_bits_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_DYLIB", str(library_path()))
    monkeypatch.setenv("ANEFORGE_ENGINE_PYTHON", sys.executable)
    monkeypatch.setenv("ANEFORGE_TARGET", "m5")
    found = collect(SMALL)
    assert [one.name for one in found.doors if one.measured] == ["e5rt"]
    assert found.failures == 0
    verdicts = {one.verdict for one in compare_collection(found).readings}
    assert verdicts == {Verdict.EQUAL, Verdict.NOT_COMPARED}


def test_the_plans_are_as_large_as_documented() -> None:
    assert len(full_plan().programs) == len(set(full_plan().programs)) == 40
    assert [one.size for one in quick_plan().figures][:1] == [512]
    assert {one.workload for one in quick_plan().programs} == {one.workload for one in full_plan().programs}


def test_the_manifest_says_what_machine_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = resolve("h16g")
    assert manifest(Host(cpu_brand="Apple M4 Pro"), target).chip == "m4-pro"
    sources = [manifest(host, target).target_from for host in (Host(cpu_brand="Apple M4"), Host(override="m4"), Host())]
    assert sources == ["machine", "ANEFORGE_TARGET", "assumed"]
    about = tmp_path / "SystemVersion.plist"
    about.write_bytes(plistlib.dumps({"ProductVersion": "26.5", "ProductBuildVersion": "25F70"}))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert macos_version(about) == "26.5 25F70"
    monkeypatch.setattr(sys, "platform", "linux")
    assert macos_version() == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at C:\\Users\\x\\a.mil", "at <path>"),
        ("e5rt/Espresso 1/2, ~/a", "e5rt/Espresso 1/2, <path>"),
        ("one\x1b[31m\ntwo", "one [31m two"),
    ],
)
def test_texts_lose_paths_and_control_characters(text: str, shown: str) -> None:
    assert without_names(text) == shown


# Reading.


@pytest.fixture(scope="module")
def small() -> Collection:
    return collect(SMALL)


def archive_of(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def with_manifest(files: dict[str, bytes], **changed: object) -> bytes:
    held: dict[str, object] = msgspec.json.decode(files["manifest.json"])
    return archive_of(files | {"manifest.json": msgspec.json.encode(held | changed)})


def damaged(files: dict[str, bytes]) -> bytes:
    whole = bytearray(archive_of(files, zipfile.ZIP_STORED))
    whole[whole.index(b'"format"') + 1] ^= 1  # the checksum does not hold
    return bytes(whole)


def encrypted(files: dict[str, bytes]) -> bytes:
    whole = bytearray(archive_of(files))
    whole[6] |= 1
    whole[whole.index(b"PK\x01\x02") + 8] |= 1
    return bytes(whole)


HOSTILE: dict[str, tuple[Callable[[dict[str, bytes]], bytes], str]] = {
    "text": (lambda _: b"not an archive", "this is not a collection of aneforge"),
    "cut": (lambda files: archive_of(files)[:-30], "this is not a collection of aneforge"),
    "checksum": (damaged, "this is not a collection of aneforge .*Bad CRC-32"),
    "encrypted": (encrypted, "this is not a collection of aneforge .*encrypted"),
    "traversal": (lambda files: archive_of(files | {"../doors.json": b"[]"}), "and no other .*'../doors.json'"),
    "missing": (lambda files: archive_of({"manifest.json": files["manifest.json"]}), "each once, and no other"),
    "bomb": (lambda files: archive_of(files | {"doors.json": bytes(9 << 20)}), "doors.json is too large"),
    "large": (lambda files: archive_of(files) + bytes(9 << 20), "the file is too large for a collection"),
    "version": (lambda files: with_manifest(files, version=2), r"has another version \(got 2, limit 1\)"),
    "format": (lambda files: with_manifest(files, format="other\x1b"), r"another format \(got 'other\\x1b'"),
    "field": (lambda files: with_manifest(files, host="here"), "manifest.json is damaged .*unknown field `host`"),
    "control": (lambda files: with_manifest(files, kernel="\x1b[2J"), "manifest.json is damaged"),
    "deep": (
        lambda files: archive_of(files | {"manifest.json": b'{"a":' + b"[" * 100_000}),
        "manifest.json is damaged",
    ),
    "type": (lambda files: archive_of(files | {"doors.json": b"[1]"}), "doors.json is damaged"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_not_exactly_a_collection_is_refused(case: str, small: Collection, tmp_path: Path) -> None:
    build, message = HOSTILE[case]
    path = tmp_path / "facts.zip"
    path.write_bytes(build(files_of(collection_to_bytes(small))))
    with pytest.raises(GraphError, match=message):
        read_collection(path)


def test_a_file_that_is_there_twice_is_refused(small: Collection, tmp_path: Path) -> None:
    files = files_of(collection_to_bytes(small))
    stream = io.BytesIO(archive_of(files))
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("doors.json", b"[]")
    path = tmp_path / "facts.zip"
    path.write_bytes(stream.getvalue())
    with pytest.raises(GraphError, match=r"each once, and no other \(got 6 files"):
        read_collection(path)


def test_what_is_written_is_read(small: Collection, tmp_path: Path) -> None:
    path = tmp_path / "facts.zip"
    path.write_bytes(collection_to_bytes(small))
    assert read_collection(path) == small
    output = small.reductions[0].output
    assert output is not None
    assert output.values.shape == (8,)
    assert collection.bits_of(np.arange(100, dtype=">f4").reshape(10, 10)).values.tolist() == list(range(64))


# Comparing.


def test_predictions_agree_with_themselves_and_times_of_the_software_engine_are_not_compared(small: Collection) -> None:
    found = compare_collection(small)
    assert {key: dict(counts) for key, counts in found.counts.items()} == {
        ("software", "fingerprints"): {Verdict.EQUAL: 1},
        ("software", "latencies"): {Verdict.NOT_COMPARED: 2},
        ("software", "reductions"): {Verdict.EQUAL: 6},
    }
    assert not found.products_differ


def test_other_bits_and_other_programs_are_found(small: Collection) -> None:
    (figure,) = small.fingerprints
    (output,) = figure.outputs
    flipped = structs.replace(output, sha256="0" * 64, first="ffff" + output.first[4:])
    sums = small.reductions
    changed = replace(
        small,
        fingerprints=(
            structs.replace(figure, outputs=(flipped,)),
            structs.replace(figure, size=17),
            structs.replace(figure, failure="no"),
        ),
        reductions=(structs.replace(sums[0], input_sha256="0" * 64), structs.replace(sums[1], shape=(10**9, 10**9))),
    )
    told: list[int] = []
    found = compare_collection(changed, progress=lambda _, done, total: told.append(total - done))
    assert [(one.verdict, one.detail) for one in found.readings if one.part != "latencies"] == [
        (Verdict.DIFFERENT, "of the first 64 elements 63 have the same value"),
        (Verdict.NOT_COMPARED, "this version has no such program"),
        (Verdict.FAILED, "no"),
        (Verdict.NOT_COMPARED, "its numbers were drawn by another version of NumPy, and differ"),
        (Verdict.NOT_COMPARED, "this version has no such program"),
    ]
    assert found.products_differ
    assert told == [7, 6, 5, 4, 3, 2, 1]


def test_times_are_held_against_the_interval_of_the_chip(small: Collection) -> None:
    (first, second) = small.latencies
    predicted = cost(program_graph(SMALL.programs[0]), "m1-max")
    times = (predicted.low - 1, predicted.microseconds, predicted.high + 1)
    changed = replace(
        small,
        manifest=structs.replace(small.manifest, chip="m1-max", target_from="machine"),
        doors=tuple(structs.replace(one, reaches_device=True) for one in small.doors),
        fingerprints=(),
        reductions=(),
        latencies=(
            *(structs.replace(first, median=one) for one in times),
            structs.replace(second, shape=(3,)),
            structs.replace(second, failure="no"),
        ),
    )
    found = compare_collection(changed)
    assert [one.verdict for one in found.readings] == [
        Verdict.FASTER,
        Verdict.INSIDE,
        Verdict.SLOWER,
        Verdict.NOT_COMPARED,
        Verdict.FAILED,
    ]
    assert found.place == "m1-max"
    with pytest.raises(UnknownTargetError):
        compare_collection(replace(small, manifest=structs.replace(small.manifest, target="h99")))


# The command.


def test_the_command_lists_writes_and_compares(
    small: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collecting, "quick_plan", lambda: SMALL)
    path = tmp_path / "facts.zip"
    assert main.run(["doctor", "--collect", str(path), "--quick", "--runs", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.index("will hold: manifest.json") < shown.index("Nothing is sent.") < shown.index("wrote ")
    assert "1 fingerprints, 2 latencies, 6 reductions; 0 failed" in shown
    assert [one.name for one in tmp_path.iterdir()] == ["facts.zip"]
    assert [one.runs for one in read_collection(path).latencies] == [1, 1]
    assert main.run(["doctor", "--compare", str(path)]) == 0
    assert "software, reductions: 6 equal bits" in capsys.readouterr().out
    (figure,) = small.fingerprints
    outputs = (structs.replace(figure.outputs[0], sha256="0" * 64),)
    path.write_bytes(
        collection_to_bytes(replace(small, fingerprints=(structs.replace(figure, outputs=outputs),), reductions=()))
    )
    assert main.run(["doctor", "--compare", str(path)]) == 1
    assert "software: conv_relu 16, batch 1: different bits: of the first 64" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--collect", "a.zip", "--compare", "b.zip"], "--collect and --compare cannot be used together"),
        (["--quick"], "--quick and --runs need --collect"),
        (["--runs", "3"], "--quick and --runs need --collect"),
        (["--collect", "missing/a.zip"], "the file cannot be written"),
        (["--compare", "missing.zip"], "the collection cannot be read"),
    ],
)
def test_arguments_are_checked_before_anything_is_measured(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["doctor", *arguments]) == 2
    shown = capsys.readouterr()
    assert message in " ".join(shown.err.split())
    assert shown.out == ""
