"""Prints how well compiled programs are read, written, executed and emitted: one row per yardstick.

    python tools/hwx_oracles.py FOLDER

FOLDER has compiled containers (`*.hwx`) and oracles (`*.json`: `generation`, and `tds`, the words of each task in hex),
itself or in `fixtures` and `oracles`; `manifest.json` next to the containers says what each computes. It exits with 1
where a row misses its bar.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from tabulate import tabulate

from aneforge import hwx
from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.codec import decode_task, encode_tasks
from aneforge.formats.hwx.descriptors.disassembly import disassemble
from aneforge.formats.hwx.descriptors.meaning import TaskOperation, meaning
from aneforge.formats.hwx.descriptors.task_lint import lint_tasks
from aneforge.formats.hwx.emission.activation_tables import table_bytes, tables
from aneforge.formats.hwx.read_hwx import read_bytes
from aneforge.formats.hwx.write_hwx import write_bytes
from aneforge.targets import database
from hwx_emitter import Comparison, EmitterOracle, compare, summarise
from hwx_fixtures import SEEDS, Fixture, has_own_section, hostile_files, runs_as_described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from aneforge.formats.hwx.descriptors.codec import Words
    from aneforge.formats.hwx.descriptors.task import Task

CUT = 64
"""Bytes between the places at which files are cut."""
FLIPS = 10_000
"""Bits that are flipped, one at a time, over all files."""


class OracleFile(msgspec.Struct):
    """A program of Apple's compiler, as its file has it."""

    id: str
    generation: str
    tds: list[list[str]]


@dataclass(frozen=True, slots=True)
class Oracle:
    """A program of Apple's compiler."""

    name: str
    generation: int
    tasks: tuple[tuple[int, ...], ...]
    described: EmitterOracle | None
    """What it computes; None where the file does not say."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a folder has."""

    containers: dict[str, bytes]
    oracles: tuple[Oracle, ...]
    fixtures: tuple[Fixture, ...] = ()
    """What a manifest says of the containers."""


@dataclass(frozen=True, slots=True)
class Row:
    """One yardstick: what was measured, and whether it reaches the bar."""

    measure: str
    bar: str
    result: str
    reached: bool | None
    """None where nothing was measured."""


def read_material(folder: Path) -> Material:
    """Read containers and oracles of a folder."""
    containers = {path.stem: path.read_bytes() for path in files(folder, "fixtures", "*.hwx")}
    found = [oracle_of(path) for path in files(folder, "oracles", "*.json")]
    manifests = [msgspec.json.decode(path.read_bytes(), type=list[Fixture]) for path in manifests_of(folder)]
    described = tuple(one for manifest in manifests for one in manifest if one.name in containers)
    return Material(containers, tuple(one for one in found if one is not None), described)


def manifests_of(folder: Path) -> Iterator[Path]:
    """Yield the manifests of containers."""
    return (path for path in (folder / "manifest.json", folder / "fixtures" / "manifest.json") if path.is_file())


def files(folder: Path, inner: str, pattern: str) -> Iterator[Path]:
    """Yield files of a kind, in the folder and in the inner one."""
    yield from sorted(folder.glob(pattern))
    yield from sorted((folder / inner).glob(pattern))


def oracle_of(path: Path) -> Oracle | None:
    """Return the oracle of a file; None where it is another JSON file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=OracleFile)
    except msgspec.ValidationError:
        return None
    words = tuple(tuple(int(word, 16) for word in task) for task in found.tds)
    return Oracle(path.stem, generation_of(found.generation), words, described_oracle(path))


def described_oracle(path: Path) -> EmitterOracle | None:
    """Return what a file says of its operation; None where it says nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EmitterOracle)
    except msgspec.ValidationError:
        return None


def generation_of(target: str) -> int:
    """Return the generation of descriptors that a target's programs have.

    Raises:
        SystemExit: No generation is known for the target.
    """
    for number, known in database().descriptors.items():
        if target in known.targets:
            return number
    raise SystemExit(f"no generation of task descriptors is known for target {target!r}")


def counted(measure: str, bar: str, wrong: Sequence[str], total: int) -> Row:
    """Return a row about things that are all right or not."""
    if not total:
        return Row(measure, bar, "the folder has none", None)
    named = f"; first wrong: {wrong[0]}" if wrong else ""
    return Row(measure, bar, f"{total - len(wrong)} of {total}{named}", not wrong)


def container_row(material: Material) -> Row:
    """Return how many containers are written back byte for byte."""
    wrong = [name for name, content in material.containers.items() if not is_written_back(content)]
    return counted("write(read(f)) == f", "all fixtures", wrong, len(material.containers))


def is_written_back(content: bytes) -> bool:
    """Tell whether a container can be read and is written back byte for byte."""
    try:
        return write_bytes(read_bytes(content)) == content
    except HwxError:
        return False


def descriptor_row(material: Material) -> Row:
    """Return how many programs of the folder have descriptors that are written back word for word, and how many."""
    wrong: list[str] = []
    total = 0
    for name, words, tasks in programs(material):
        total += max(len(tasks), 1)
        wrong += [] if tasks and is_encoded_back(tasks, np.asarray(words, dtype=np.uint32)) else [name]
    return counted("encode(decode(words)) == words", "every descriptor", wrong, total)


def is_encoded_back(tasks: Sequence[Task], words: NDArray[np.uint32]) -> bool:
    """Tell whether tasks give the words of their section; between them are zeros, before them perhaps a frame's 1."""
    between = np.ones(len(words), dtype=bool)
    for task in tasks:
        between[task.offset // 4 : task.offset // 4 + task.size] = False
    made = encode_tasks(tasks, np.where(between, words, 0).astype(np.uint32))
    return np.array_equal(made, words) and bool(np.all(words[between] <= 1))


def programs(material: Material) -> Iterator[tuple[str, Words, Sequence[Task]]]:
    """Yield name, words and tasks of every program; no tasks where it cannot be decoded."""
    for oracle in material.oracles:
        try:
            tasks = decoded(oracle)
        except HwxError:
            tasks = ()
        yield oracle.name, [word for words in oracle.tasks for word in words], tasks
    for name, content in material.containers.items():
        try:
            container = read_bytes(content)
            yield name, container.words, hwx.tasks_of(container)
        except HwxError:
            yield name, (), ()


def decoded(oracle: Oracle) -> tuple[Task, ...]:
    """Return the tasks of an oracle, one after the other."""
    starts = itertools.accumulate((4 * len(words) for words in oracle.tasks), initial=0)
    pairs = zip(oracle.tasks, starts, strict=False)
    return tuple(decode_task(words, oracle.generation, start) for words, start in pairs)


def understood_row(material: Material) -> Row:
    """Return how many tasks have a meaning."""
    tasks = [(name, task) for name, _, several in programs(material) for task in several]
    wrong = [name for name, task in tasks if not is_understood(task)]
    return counted("tasks whose operation is understood", "every descriptor", wrong, len(tasks))


def is_understood(task: Task) -> bool:
    """Tell whether the operation of a task is known."""
    try:
        return meaning(task).operation is not TaskOperation.UNKNOWN
    except HwxError:
        return False


def lint_row(material: Material) -> Row:
    """Return how many programs break no rule; the parts of a program that stands in several files are left out."""
    whole = [(name, tasks) for name, _, tasks in programs(material) if tasks and ".td" not in name]
    wrong = [f"{name}: {found[0].rule}" for name, tasks in whole if (found := lint_tasks(tasks))]
    return counted("programs that break no rule of descriptors", "all", wrong, len(whole))


def hostile_row(material: Material) -> Row:
    """Return how damaged files end: as typed errors or as other files, how long the slowest took, and the memory."""
    measure = f"hostile files: cut at every {CUT} bytes, {FLIPS} bit flips, lengths, overlaps, cycles"
    wrong: list[str] = []
    total, slowest, before = 0, 0.0, peak_memory()
    for name, content in damaged(material.containers):
        total += 1
        start = time.perf_counter()
        try:
            disassemble(hwx.tasks_of(read_bytes(content)))
        except HwxError:
            pass
        except Exception as error:  # noqa: BLE001 - any other error is what is counted
            wrong.append(f"{name}: {type(error).__name__}")
        slowest = max(slowest, time.perf_counter() - start)
    row = counted(measure, "typed error", wrong, total)
    grown = (peak_memory() - before) / 1e6
    return (
        Row(row.measure, row.bar, f"{row.result}; slowest {slowest:.2f} s, {grown:.0f} MB more memory", row.reached)
        if total
        else row
    )


def peak_memory() -> int:
    """Return the most bytes that the process had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def is_read(content: bytes) -> bool:
    """Tell whether a file is a container: one that is not is damaged already."""
    try:
        read_bytes(content)
    except HwxError:
        return False
    return True


def damaged(containers: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield files that are cut, have lengths, places or links that cannot be, or one bit flipped."""
    for name, content in containers.items():
        yield from ((f"{name} cut at {end}", content[:end]) for end in range(0, len(content), CUT))
        if is_read(content):
            yield from ((f"{name}, {what}", changed) for what, changed in hostile_files(content))
    chance = np.random.default_rng(22)
    names = sorted(containers)
    for flip in range(FLIPS if names else 0):
        name = names[flip % len(names)]
        changed = bytearray(containers[name])
        place = int(chance.integers(len(changed)))
        changed[place] ^= 1 << int(chance.integers(8))
        yield f"{name} bit flipped at {place}", bytes(changed)


def compared(material: Material) -> list[Comparison]:
    """Return every program whose operation is described, next to what is emitted for it."""
    return [compare(one.described, one.generation, one.name) for one in material.oracles if one.described]


def rule_row(material: Material) -> Row:
    """Return how many words and programs of the families that follow rules are equal."""
    measure, bar = "emitter, rule families: varying words equal / programs exact", "≥ 96 % / ≥ 62 of 66"
    found = summarise([one for one in compared(material) if one.generation == FIRST and not one.structural])
    if not found.programs:
        return Row(measure, bar, "the folder has none", None)
    result = f"{found.varying_share:.2%} of {found.varying[1]} / {found.exact} of {found.programs}"
    reached = found.varying_share >= 0.96 and found.exact >= found.programs * 62 / 66
    return Row(measure, bar, result + found.refused, reached)


def structural_row(material: Material) -> Row:
    """Return how many programs of the structural families have as many tasks, and how many of their words are equal."""
    measure, bar = "emitter, structural families: same tasks / varying words equal", "14 / ≥ 85 %"
    found = summarise([one for one in compared(material) if one.generation == FIRST and one.structural])
    if not found.programs:
        return Row(measure, bar, "the folder has none", None)
    result = f"{found.same_tasks} of {found.programs} / {found.varying_share:.2%} of {found.varying[1]}"
    return Row(measure, bar, result + found.refused, found.same_tasks == found.programs and found.varying_share >= 0.85)


def later_row(material: Material) -> Row:
    """Return how many words of elementwise programs of later generations are equal."""
    measure, bar = "emitter, later generations, elementwise: words equal", "≥ 98 %"
    found = summarise([one for one in compared(material) if one.generation != FIRST and one.elementwise])
    if not found.programs:
        return Row(measure, bar, "the folder has none", None)
    result = f"{found.share:.2%} of {found.words[1]} in {found.programs} programs"
    return Row(measure, bar, result + found.refused, found.share >= 0.98)


def constants_row(material: Material) -> Row:
    """Return how many activation tables and sections of constants have the hash of those that were read."""
    measure = "activation tables and constant sections by SHA-256"
    wrong = [name for name, one in tables().items() if sha256(table_bytes(name)).hexdigest() != one.sha256]
    sections = [(one.name, has_own_section(one, material.containers[one.name])) for one in material.fixtures]
    wrong += [name for name, equal in sections if equal is False]
    edited = sum(equal is None for _, equal in sections)
    total = len(tables()) + len(sections) - edited if material.oracles or sections else 0
    row = counted(measure, "all", wrong, total)
    parts = f"{len(tables())} tables, {len(sections) - edited} sections; {edited} edited by others left out"
    text = f"{row.result}: {parts}"
    return Row(row.measure, row.bar, text, row.reached) if total else row


def executed_row(material: Material) -> Row:
    """Return how many containers give the outputs of the operation that their manifest names."""
    wrong = [one.name for one in material.fixtures if not runs(one, material.containers[one.name])]
    measure = f"fixtures executed on {SEEDS} inputs: outputs equal the graph engine's"
    return counted(measure, "all", wrong, len(material.fixtures))


def runs(fixture: Fixture, content: bytes) -> bool:
    """Tell whether a container runs and gives the outputs of its operation."""
    try:
        return runs_as_described(fixture, content)
    except (HwxError, ValueError):
        return False


FIRST = "h13"
"""The target of which programs of every family are known."""


ROWS: tuple[Callable[[Material], Row], ...] = (
    container_row,
    descriptor_row,
    understood_row,
    lint_row,
    rule_row,
    structural_row,
    later_row,
    constants_row,
    executed_row,
    hostile_row,
)


def measure_folder(folder: Path) -> tuple[Row, ...]:
    """Return every yardstick on a folder."""
    material = read_material(folder)
    return tuple(row(material) for row in ROWS)


def table_of(rows: Sequence[Row]) -> str:
    """Return the yardsticks as a table."""
    marks = {True: "yes", False: "NO", None: "-"}
    cells = [(row.measure, row.bar, row.result, marks[row.reached]) for row in rows]
    return tabulate(cells, headers=("measure", "bar", "result", "reached"), tablefmt="github")


def main() -> int:
    """Print the table of a folder."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("usage: python tools/hwx_oracles.py FOLDER\n")
        return 2
    rows = measure_folder(Path(sys.argv[1]))
    sys.stdout.write(table_of(rows) + "\n")
    return 0 if all(row.reached is not False for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
