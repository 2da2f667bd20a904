"""The folder of a run: what the run is, and the bytes of every shard that is done.

A shard appears whole, through a rename, after its bytes have reached the disk; a process that is killed leaves at most
a file under another name, which the next run removes. One process writes into a folder at a time.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import GraphError, Location
from aneforge.evaluation.results import ShardResult, decode
from aneforge.evaluation.running import StoppedError
from aneforge.records import dataclass
from aneforge.typed_decoding import decode_typed
from aneforge.whole_files import UNFINISHED, write_synced

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

__all__ = ["RunFolder", "RunRecord"]

NAME = re.compile(r"shard-(\d+)\.bin")
RECORD, LOCK = "run.json", ".lock"


class RunRecord(msgspec.Struct, frozen=True):
    """What a run is; another run does not go on in its folder."""

    identity: str
    """A hash of the model, the chips, the data and every option that decides a bit of the results."""
    build: str
    model: str
    data: str
    chips: tuple[str, ...]
    shard: int
    """Samples of a shard."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of a run."""

    path: Path

    @contextmanager
    def open_run(self, record: RunRecord) -> Generator[set[int]]:
        """Begin or go on with a run, alone in its folder; yield the numbers of the shards that are done.

        Raises:
            GraphError: Another run is in the folder or writes into it, or the system refuses to write.
        """
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
        with self.alone():
            self.expect_same(record)
            yield self.done()

    def expect_same(self, record: RunRecord) -> None:
        """Write what the run is, or check that it is the one that the folder holds.

        Raises:
            GraphError: It holds another run, or files that are not a run.
        """
        file = self.path / RECORD
        if file.exists():
            try:
                found = decode_typed(file.read_bytes(), RunRecord)
            except msgspec.MsgspecError:
                found = None
            if found is None or found != record:
                raise GraphError(
                    "the folder holds the results of another run",
                    location=Location(str(self.path)),
                    seen=", ".join(differences(found, record)),
                    remedy="choose another folder, or remove this one",
                )
        elif any(one.name != LOCK and not one.name.endswith(UNFINISHED) for one in self.path.iterdir()):
            raise GraphError(
                "the folder is not empty and does not hold a run",
                location=Location(str(self.path)),
                remedy="choose another",
            )
        for left in self.path.glob(f"*{UNFINISHED}"):
            left.unlink(missing_ok=True)
        if not file.exists():
            self.write(RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def done(self) -> set[int]:
        """Return the numbers of the shards that are done."""
        return {int(found[1]) for one in self.path.iterdir() if (found := NAME.fullmatch(one.name))}

    def keep(self, number: int, content: bytes) -> None:
        """Keep the bytes of a shard.

        Raises:
            GraphError: The system refuses: the disk is full, say.
        """
        self.write(f"shard-{number:06}.bin", content)

    def results(self) -> Iterator[ShardResult]:
        """Yield the results of every shard that is done, in the order of the samples.

        Raises:
            GraphError: A file was changed.
        """
        for number in sorted(self.done()):
            file = self.path / f"shard-{number:06}.bin"
            try:
                yield decode(file.read_bytes())
            except msgspec.MsgspecError:
                raise GraphError(
                    "the results of a shard are damaged",
                    location=Location(str(file)),
                    remedy="remove the file; the same command computes it again",
                ) from None

    def clear(self) -> None:
        """Remove the run and its folder; what says which run it is goes last, so that half of one is still known."""
        for one in sorted(self.path.iterdir(), key=lambda file: (file.name in (RECORD, LOCK), file.name == LOCK)):
            one.unlink()
        self.path.rmdir()

    def write(self, name: str, content: bytes) -> None:
        """Write a file that appears whole or not at all."""
        with self.writing():
            write_synced(self.path / name, content)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Turn an error of the system into one sentence."""
        try:
            yield
        except OSError as error:
            raise StoppedError(
                "the results cannot be written",
                location=Location(str(self.path)),
                seen=error.strerror or str(error),
                remedy="the written files are complete: free some space, and the same command continues from there",
            ) from None

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold the folder; the system lets go of it when the process ends, however it ends.

        Raises:
            GraphError: Another process holds it.
        """
        try:
            import fcntl  # noqa: PLC0415 - not on Windows
        except ImportError:
            yield
            return
        with self.writing():
            lock = (self.path / LOCK).open("wb")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise GraphError(
                    "another process writes into the folder of this run",
                    location=Location(str(self.path)),
                    remedy="wait for it, or choose another folder: --out DIR",
                ) from None
            yield


def differences(found: RunRecord | None, record: RunRecord) -> list[str]:
    """Return in what two runs differ, in words."""
    if found is None:
        return ["a record that cannot be read"]
    names = ("model", "data", "chips", "shard", "build")
    named = [f"{name} {getattr(found, name)}" for name in names if getattr(found, name) != getattr(record, name)]
    return named or ["the same names, but other content or options"]
