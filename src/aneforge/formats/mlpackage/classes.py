"""Classifiers: programs that end with `classify`, which gives the likeliest label and the probabilities by label.

A graph has neither texts nor dictionaries. What it gives are the probabilities, as the tensor that `classify` reads,
under the name of the dictionary; the label is for the host to find, and that is noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.mil.diagnostics import MilRule
from aneforge.formats.mil.syntax import Argument, NamedType, Reference, Statement
from aneforge.records import dataclass
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.mil.diagnostics import MilError
    from aneforge.formats.mil.syntax import Type
    from aneforge.formats.mlpackage.messages import MilOperation

__all__ = ["CLASSIFY", "Classified", "read_classification"]

CLASSIFY = "classify"
PASSED_ON = "identity"
READS = "probabilities"
LABEL_LEFT_OUT = MilRule.of(
    "MIL-PACKAGE-004",
    """The program classifies; output {name} has the probabilities in the order of the labels, and {found} is left out.

    Remedy: find the label on the host, by the place of the largest probability.
    """,
    Severity.INFO,
)


@dataclass(frozen=True, slots=True)
class Classified:
    """A classification: the statement that stands for it, and the label that it would give."""

    statement: Statement
    label: str

    def note(self) -> MilError:
        """Return what the author of the program should know."""
        return LABEL_LEFT_OUT.broken(self.statement.at, name=self.statement.results[0].name, found=self.label)


def read_classification(
    operation: MilOperation, name: Argument, types: Mapping[str, Type], at: int
) -> Classified | None:
    """Return a classification that passes on what it reads; None for one in no form that is known."""
    given = list(operation.inputs[READS].arguments) if READS in operation.inputs else []
    read = given[0].name if len(given) == 1 and given[0].WhichOneof("binding") == "name" else ""
    if len(operation.outputs) != 2 or read not in types:
        return None
    label, by_label = operation.outputs
    result = NamedType(types[read], by_label.name, at, at)
    passed = Statement((result,), PASSED_ON, (Argument("x", Reference(read, at), at),), (name,), at, at)
    return Classified(passed, label.name)
