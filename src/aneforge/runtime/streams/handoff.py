"""Passing a program to another process: what a compiled bundle may do there, and tensors that both processes see.

The real runtime binds a bundle to the identity that compiled it: a child that was spawned from the same binary loads
it, another binary compiles again, and a forked child cannot use the runtime at all. Here a bundle is a saved program
with the identity of the process that made it, and tensors are in files that both processes map into memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aneforge._version import __version__
from aneforge.analysis.routes import Measures, one_time
from aneforge.errors import GraphError, RuntimeStateError
from aneforge.formats.mil.program import load_mil
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass
from aneforge.runtime.backends import choose_backend
from aneforge.runtime.processes import check_process, note_use
from aneforge.runtime.program import LoadedProgram
from aneforge.runtime.saved.files import read_program_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend

__all__ = ["HANDOFF_RULES", "Handoff", "HandoffRule", "SharedTensor", "identity"]

RECOMPILE = "ANE model load has failed: another identity compiled the bundle. Must re-compile the E5 bundle"
"""In the real runtime's words."""


@dataclass(frozen=True, slots=True)
class HandoffRule:
    """What another process may or may not do with a bundle or a tensor."""

    action: str
    allowed: bool
    cost: str
    """As the source states it; it names no chip."""
    why: str


HANDOFF_RULES = (
    HandoffRule(
        "load a bundle in a spawned child of the same binary",
        allowed=True,
        cost=one_time("e5rt", Measures.WARM_LOAD),
        why="one identity",
    ),
    HandoffRule(
        "load a bundle in a forked child",
        allowed=False,
        cost="",
        why="the frameworks under the runtime do not survive it",
    ),
    HandoffRule(
        "load a bundle in another binary",
        allowed=False,
        cost=(
            f"compiles again: {one_time('e5rt', Measures.COLD_COMPILE)}, "
            f"{one_time('e5rt', Measures.WARM_LOAD)} from a warm cache"
        ),
        why="another identity",
    ),
    HandoffRule(
        "pass a tensor to another process",
        allowed=True,
        cost=f"{one_time('e5rt', Measures.TENSOR_HANDOFF)} for a surface, no copy",
        why="both map the surface",
    ),
)
"""Source: aneforge docs, dispatch backends; the costs are figures of the route."""


def identity() -> str:
    """Return what stands for the identity of this process: the interpreter's binary, its version, the package's.

    >>> len(identity())
    64
    """
    binary = str(Path(sys.executable).resolve())
    return hashlib.sha256(f"{binary}\0{platform.python_version()}\0{__version__}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """A tensor in a file that several processes map into memory, so that it is never copied.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shared = SharedTensor.create(f"{folder}/x", (2,), "fp16")
    ...     shared.open()[:] = [1, 2]
    ...     shared.open().tolist()
    [1.0, 2.0]
    """

    path: str
    shape: tuple[int, ...]
    dtype: str = "fp16"

    @classmethod
    def create(cls, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: str = "fp16") -> SharedTensor:
        """Make a tensor of zeros.

        Raises:
            UnknownNameError: There is no such element type.
            GraphError: The tensor has no elements.
            FileExistsError: There is a file of that name: it may be another process's tensor.
            OSError: The file cannot be made.
        """
        if any(extent < 1 for extent in shape):
            raise GraphError("a shared tensor has no elements", seen=list(shape))
        nbytes = numpy_dtype(dtype).itemsize * math.prod(shape)
        with Path(path).open("xb") as file:
            file.truncate(nbytes)
        return cls(os.fspath(path), tuple(shape), dtype)

    def open(self) -> Array:
        """Return the tensor itself; what one process writes the others read.

        Raises:
            GraphError: The file does not have the size of the tensor.
            OSError: The file cannot be mapped.
        """
        wanted = numpy_dtype(self.dtype).itemsize * math.prod(self.shape)
        seen = Path(self.path).stat().st_size
        if seen != wanted:
            raise GraphError(f"{self.path} does not hold the tensor", seen=f"{seen} bytes", limit=f"{wanted} bytes")
        return np.asarray(np.memmap(self.path, numpy_dtype(self.dtype), mode="r+", shape=self.shape))


@dataclass(frozen=True, slots=True)
class Handoff:
    """A saved program for another process: its creator, its path, and tensors for its ports.

    >>> handoff = Handoff.of("model.aneprg")
    >>> Handoff.loads(handoff.dumps()) == handoff, handoff.process == os.getpid()
    (True, True)
    """

    program: str
    identity: str
    process: int
    tensors: tuple[tuple[str, SharedTensor], ...] = ()
    """A tensor for a port, by the port's name."""
    mil: str | None = None
    """The folder of the same program as MIL, which a device compiles again; None where there is none."""

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        tensors: Mapping[str, SharedTensor] | None = None,
        mil: str | os.PathLike[str] | None = None,
    ) -> Handoff:
        """Return what to hand over of a program that was saved at a path.

        `mil` is a folder to which `af.save_mil` wrote the model's graph: a device compiles that, and loads no bundle
        that another process compiled.

        Raises:
            RuntimeStateError: This process was forked from one that had used the runtime.
        """
        note_use()
        folder = None if mil is None else os.fspath(mil)
        return cls(os.fspath(path), identity(), os.getpid(), tuple((tensors or {}).items()), folder)

    def dumps(self) -> str:
        """Return it as text, for a pipe or an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Handoff:
        """Return what `dumps` wrote.

        Raises:
            GraphError: The text is something else.
        """
        try:
            held = json.loads(text)
            tensors = tuple(
                (str(name), SharedTensor(str(one["path"]), tuple(int(n) for n in one["shape"]), str(one["dtype"])))
                for name, one in held["tensors"]
            )
            mil = None if held["mil"] is None else str(held["mil"])
            return cls(str(held["program"]), str(held["identity"]), int(held["process"]), tensors, mil)
        except (ValueError, KeyError, TypeError) as error:
            raise GraphError(f"this is not a hand-off of a program: {error}", seen=f"{text[:60]!r}") from None

    def load(self, *, backend: str | Backend | None = None) -> LoadedProgram:
        """Load the program here, with the tensors bound to its ports; on the software engine unless a backend is given.

        Raises:
            RuntimeStateError: The identity of this process differs from that of the one that handed over, or it was
                forked from one that had used the runtime.
            ProgramFileError: The file is not a program, or damaged.
            GraphError: A tensor does not fit its port.
            MilError: The MIL program cannot be read.
            NotSupportedError: The backend is a device, and no MIL program was handed over.
            UnknownNameError: The program has no such port, or no backend has the name.
            BackendUnavailableError: The backend cannot run here.
        """
        chosen = choose_backend(backend)
        check_process("load a program that was handed over")
        if self.identity != identity():
            raise RuntimeStateError(
                RECOMPILE,
                operation="load",
                seen=f"identity {identity()[:12]}",
                limit=f"identity {self.identity[:12]} of process {self.process}",
                remedy="compile the graph in this process, or pass the program to a child that was spawned",
            )
        note_use()
        program, _ = read_program_file(self.program)
        graph = None if self.mil is None else load_mil(self.mil).graph()
        loaded = LoadedProgram(program, chosen.load(program, graph))
        try:
            for name, tensor in self.tensors:
                loaded.bind(name, tensor.open())
        except BaseException:
            loaded.release()
            raise
        return loaded
