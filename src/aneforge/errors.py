"""Every error that aneforge raises on purpose.

One small hierarchy under `AneforgeError`. An error a user can act on carries what a good report needs: the
operation, the place in the user's own file, the value seen, the limit, the target and the remedy; `str(error)`
puts them into one message that prints cleanly wherever it ends up.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AmbiguousTargetError",
    "AneforgeError",
    "BackendUnavailableError",
    "ChainingError",
    "CheckpointError",
    "CompileBackoffError",
    "CrossChipFP16Warning",
    "DataFileError",
    "DeadlockError",
    "DispatchFloorWarning",
    "GraphError",
    "GraphTypeError",
    "HwxError",
    "IllegalGraphError",
    "InternalError",
    "Location",
    "NoDataError",
    "NotSupportedError",
    "OversizeWarning",
    "PrecisionWarning",
    "ProgramFileError",
    "RaceError",
    "RuntimeStateError",
    "SaturationWarning",
    "SliceSaturationWarning",
    "StrictCompileError",
    "UnknownNameError",
    "UnknownTargetError",
    "nearest_names",
]

LISTED = 8
"""Known names that an error lists where none is like the one that was given."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's own material: a line of a file, a named node of an imported model, or both.

    >>> str(Location(file="model.py", line=12))
    'model.py:12'
    >>> str(Location(file="resnet.onnx", node="Conv_3"))
    "node 'Conv_3' of resnet.onnx"
    """

    file: str | None = None
    line: int | None = None
    node: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        if self.node is None:
            return place or "unknown place"
        return f"node {self.node!r}" + (f" of {place}" if place else "")


class AneforgeError(Exception):
    """Base of all errors raised on purpose.

    >>> print(AneforgeError("the kernel is too wide", operation="conv", seen=14, limit=13, location=Location("a.py")))
    conv at a.py: the kernel is too wide (seen 14, limit 13)
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        location: Location | None = None,
        seen: object = None,
        limit: object = None,
        target: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation
        self.location = location
        self.seen = seen
        self.limit = limit
        self.target = target
        self.remedy = remedy

    def __str__(self) -> str:
        where = [
            self.operation,
            f"at {self.location}" if self.location else None,
            f"on {self.target}" if self.target else None,
        ]
        values = [
            f"seen {self.seen}" if self.seen is not None else None,
            f"limit {self.limit}" if self.limit is not None else None,
        ]
        prefix = " ".join(part for part in where if part)
        suffix = ", ".join(part for part in values if part)
        text = f"{prefix}: {self.message}" if prefix else self.message
        text += f" ({suffix})" if suffix else ""
        return f"{text}. Remedy: {self.remedy}" if self.remedy else text


class UnknownNameError(AneforgeError, ValueError, KeyError):
    """A name that is in no table; the message lists the nearest names that are.

    It is a `KeyError` and a `ValueError` because the documented API promises one for some calls and the other
    for the rest. `KeyError` would print its message quoted; `AneforgeError.__str__` comes first and does not.
    """

    @classmethod
    def of(cls, what: str, name: object, known: Iterable[str], *, remedy: str | None = None) -> Self:
        """Build the error for `name`, which is no known `what`.

        >>> print(UnknownNameError.of("limit", "max_tensor_dims", ["max_tensor_dim", "rank"]))
        unknown limit 'max_tensor_dims'; nearest: max_tensor_dim
        """
        candidates = list(known)
        close = nearest_names(str(name), candidates)
        more = f" and {len(candidates) - LISTED} more" if len(candidates) > LISTED else ""
        suggestion = f"nearest: {', '.join(close)}" if close else f"known: {', '.join(candidates[:LISTED])}{more}"
        return cls(f"unknown {what} {name!r}; {suggestion}", remedy=remedy)


class UnknownTargetError(UnknownNameError):
    """A target, chip or family name that no table knows."""


class AmbiguousTargetError(UnknownTargetError):
    """A name with two readings. None is left: a name that a chip and a family have is the chip's."""


class NoDataError(AneforgeError, ValueError, KeyError):
    """A name that is known and about which no source says what was asked."""


class PropertyTypeError(AneforgeError, TypeError):
    """A property of a target that is of another type than was asked for, such as the word `none` for a number."""


class GraphError(AneforgeError, ValueError):
    """An operation was given something that it cannot take: a shape, a value, an attribute."""


class GraphTypeError(GraphError, TypeError):
    """An operation was given the wrong sort of thing, such as an array where it needs a tensor."""


class NotSupportedError(GraphError, NotImplementedError):
    """An operation makes sense and has no form here; the message says which form there is."""

    layer: str | None = None
    """The layer of the program that is refused, where a pass of the compiler refuses one."""
    obstacle: str | None = None
    """Why that layer cannot be made legal."""


class IllegalGraphError(NotSupportedError):
    """A graph that cannot run on a target: the message lists every operation that stops it, with reason and remedy."""

    findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: str, findings: Iterable[str]) -> Self:
        """Build the error for a graph that several findings stop.

        >>> print(IllegalGraphError.of("the target", ["relu is too wide", "sin is missing"]))
        on the target: the graph cannot run, 2 findings:
          relu is too wide
          sin is missing
        """
        listed = tuple(findings)
        count = "1 finding" if len(listed) == 1 else f"{len(listed)} findings"
        error = cls("\n  ".join([f"the graph cannot run, {count}:", *listed]), target=target)
        error.findings = listed
        return error


class StrictCompileError(NotSupportedError):
    """A graph that compiles, but not as strictly as was asked: the message lists everything that was not let pass."""

    findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: str, findings: Iterable[str]) -> Self:
        """Build the error for a graph in which a strict compile found something.

        >>> print(StrictCompileError.of("the target", ["decomposition: sin became a polynomial"]))
        on the target: a strict compile lets none of this pass, 1 finding:
          decomposition: sin became a polynomial
        """
        listed = tuple(findings)
        count = "1 finding" if len(listed) == 1 else f"{len(listed)} findings"
        error = cls("\n  ".join([f"a strict compile lets none of this pass, {count}:", *listed]), target=target)
        error.findings = listed
        return error


class InternalError(AneforgeError, RuntimeError):
    """The compiler made something that is not a program: a mistake of aneforge, whatever the model was.

    It is no `GraphError`, so nothing that asks whether a graph can run takes it for an answer.
    """

    reproducer: str | None = None
    """The file that holds what is needed to see it again."""

    @classmethod
    def of(cls, stage: str, error: AneforgeError) -> Self:
        """Build the error for what a stage of the compiler, such as a pass, did wrong.

        >>> print(InternalError.of("collapse-layout", GraphError("%t4 reads %t1 before it is written")))
        collapse-layout: %t4 reads %t1 before it is written. This is a mistake of aneforge, not of the model
        """
        return cls(f"{error}. This is a mistake of aneforge, not of the model", operation=stage)


class RuntimeStateError(AneforgeError, RuntimeError):
    """A model, program or stream was used in a state that does not allow it, such as after its release."""


class ChainingError(RuntimeStateError):
    """A call of the chaining model that ends as it ended in the study: in the system's words, and with the cause."""

    system: str = ""
    """What the system said: an error, or the selector that an object did not have."""
    code: int | None = None
    """The code of the system's error; None where it was an exception."""
    experiments: tuple[str, ...] = ()
    """The experiments that saw it."""


class DeadlockError(RuntimeStateError):
    """Chained requests that can never run: each cause is named, a cycle with every wait in it."""

    causes: tuple[str, ...] = ()


class RaceError(RuntimeStateError):
    """Chained requests whose result depends on their order, which nothing determines: every pair is named."""

    races: tuple[str, ...] = ()


class BackendUnavailableError(AneforgeError, RuntimeError):
    """A backend that was chosen cannot run here; the message says why. There is no fallback to another one."""


class CompileBackoffError(AneforgeError, RuntimeError):
    """A device failed to compile a moment ago, and is left alone for a while before anything is tried again."""


class ProgramFileError(AneforgeError, ValueError):
    """A saved program cannot be read: it is not such a file, damaged, of another version or for another target."""


class CheckpointError(AneforgeError, ValueError):
    """A checkpoint of a training run cannot be loaded: it is not such a file, damaged, or of another network."""


class HwxError(AneforgeError, ValueError):
    """A compiled container (HWX, or a file of the Linux driver) is damaged, or has a form that is not known."""

    offset: int | None = None
    """Bytes from the start of the file to what is wrong; None where it is missing."""

    @classmethod
    def at(cls, offset: int, message: str, *, seen: object = None, limit: object = None) -> Self:
        """Build the error for a place in a file.

        >>> print(HwxError.at(0x14, "the commands must end within the file", seen=4096, limit=512))
        offset 0x14: the commands must end within the file (seen 4096, limit 512)
        """
        error = cls(f"offset {offset:#x}: {message}", seen=seen, limit=limit)
        error.offset = offset
        return error


class DataFileError(AneforgeError):
    """One of the package's data files is not in the form that its reader expects."""


class PrecisionWarning(UserWarning):
    """Something is computed, and loses more of its value than a user would expect."""


class SaturationWarning(PrecisionWarning):
    """Finite values can become infinite on the target where the mathematics of an operation keeps them finite."""


class SliceSaturationWarning(SaturationWarning):
    """A slice passes a fixed-point copy on the target, which makes large magnitudes infinite."""


class CrossChipFP16Warning(UserWarning):
    """The same graph gives other fp16 values on another target: a numeric heads-up, never a rejection."""


class OversizeWarning(UserWarning):
    """A tensor is longer than the target takes: the compiler splits what computes on it, at a cost."""


class DispatchFloorWarning(UserWarning):
    """A program is so small that the cost of dispatching it outweighs what it computes."""


def nearest_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names most like `name`, best first, compared without regard to case.

    >>> nearest_names("Max_Rank", ["min_rank", "max_rank", "extent"])
    ['max_rank', 'min_rank']
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=0.5)]
