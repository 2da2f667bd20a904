"""What stops an import: findings, gathered over the whole model, and the two errors that carry them.

An operator that is not supported here is not a reason to stop reading: the other nodes are looked at as well, and one
error lists everything. A file that cannot be read at all, or a graph whose names do not hold together, is one
`GraphError` at once.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from aneforge.display import number_of
from aneforge.errors import GraphError, NotSupportedError, describe_values
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Gathering",
    "ImportFindings",
    "ImportProblem",
    "InvalidModelError",
    "Reason",
    "TooLargeModelError",
    "UnsupportedModelError",
    "UnsupportedNodeError",
    "message_of",
]

SHOWN = 40
"""Findings that a message lists; the error carries all."""


class Reason(StrEnum):
    """Why a node is not in the graph."""

    STRING = "strings"
    SEQUENCE = "sequences"
    OPTIONAL = "optionals"
    MAP = "maps"
    DATA_SHAPE = "data-dependent shapes"
    CONTROL = "data-dependent control flow"
    HOST = "not an engine operation"
    """It belongs before or after a network: tables of classical models, counts of words, lists of tensors."""
    TRAINING = "training"
    DTYPE = "element types without a meaning here"
    LAYOUT = "sparse or nested layouts"
    OPERATOR = "unknown operators"
    """No operator set that is known here has it."""
    FORM = "forms that the op table cannot express"
    LIMIT = "limits of the importer"
    INVALID = "invalid models"
    """The node breaks the rules of its own operator."""


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """One node that could not be taken over."""

    node: str
    operator: str
    reason: Reason
    message: str
    workaround: str = ""
    inputs: tuple[str, ...] = ()
    """Inputs of the model whose values would have to be known; an importer says how they are given."""

    def __str__(self) -> str:
        text = f"{self.operator} {self.node!r}: {self.message}"
        return f"{text}. Workaround: {self.workaround}" if self.workaround else text


class UnsupportedNodeError(NotSupportedError):
    """One node is not supported here; the importer gathers these into findings."""

    reason: Reason
    inputs: tuple[str, ...]

    def __init__(
        self, reason: Reason, message: str, *, workaround: str = "", inputs: tuple[str, ...] = (), seen: object = None
    ) -> None:
        super().__init__(message, remedy=workaround or None, seen=seen)
        self.reason = reason
        self.inputs = inputs


class TooLargeModelError(NotSupportedError):
    """A model that would take more than an import may make; it ends the import at once."""


class ImportFindings:
    """What the two errors of an import share: the findings."""

    findings: tuple[ImportProblem, ...] = ()


class UnsupportedModelError(ImportFindings, NotSupportedError):
    """A model with nodes that are not supported here; `findings` has all of them."""

    @classmethod
    def of(cls, findings: Iterable[ImportProblem]) -> Self:
        """Build the error that lists findings.

        >>> print(UnsupportedModelError.of([ImportProblem("n0", "Unique", Reason.DATA_SHAPE, "its size is not known")]))
        the model cannot be expressed as a graph, 1 finding:
          Unique 'n0': its size is not known
        """
        listed = tuple(findings)
        error = cls(listing("the model cannot be expressed as a graph", listed))
        error.findings = listed
        return error


class InvalidModelError(ImportFindings, GraphError):
    """A model with nodes that break the rules of their operators; `findings` has all that stops the import."""

    @classmethod
    def of(cls, findings: Iterable[ImportProblem]) -> Self:
        """Build the error that lists findings.

        >>> print(InvalidModelError.of([ImportProblem("n0", "Relu", Reason.INVALID, "it has no input")]))
        the model is not valid, 1 finding:
          Relu 'n0': it has no input
        """
        listed = tuple(findings)
        error = cls(listing("the model is not valid", listed))
        error.findings = listed
        return error


def listing(title: str, findings: tuple[ImportProblem, ...]) -> str:
    """Return a title and findings, one a line."""
    count = number_of(len(findings), "finding")
    more = [f"and {len(findings) - SHOWN} more"] if len(findings) > SHOWN else []
    return "\n  ".join([f"{title}, {count}:", *map(str, findings[:SHOWN]), *more])


@dataclass(slots=True)
class Gathering:
    """Findings as they come up."""

    findings: dict[ImportProblem, None] = field(default_factory=dict[ImportProblem, None])
    """In the order in which they came up; a loop's body finds the same in every iteration."""

    def raise_if_any(self) -> None:
        """Raise the one error of all findings.

        Raises:
            InvalidModelError: A node breaks the rules of its operator.
            UnsupportedModelError: Nodes are not supported here, and none is invalid.
        """
        if any(finding.reason is Reason.INVALID for finding in self.findings):
            raise InvalidModelError.of(self.findings)
        if self.findings:
            raise UnsupportedModelError.of(self.findings)


def message_of(error: GraphError) -> str:
    """Return the message of an error with what was seen and what is allowed.

    >>> message_of(GraphError("it is too long", seen=5, limit=4))
    'it is too long (got 5, limit 4)'
    """
    listed = describe_values(error.seen, error.limit)
    return error.message + (f" ({listed})" if listed else "")
