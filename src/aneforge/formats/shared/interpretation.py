"""The interpreter with which models are read node by node: what a node stands for, and what stops it.

A format has an adapter: it says how nodes are named, what they read, and which function converts them. What is the same
for all is here: a node that has no form is gathered as a finding, its results are lost, and the nodes that read them
are passed over; every node counts against one budget; an output that is not a tensor is a finding.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from aneforge.errors import GraphError
from aneforge.formats.shared.emitter import FOLD_MOST_GROWTH, Budget, Emitter
from aneforge.formats.shared.findings import (
    Gathering,
    ImportProblem,
    Reason,
    TooLargeModelError,
    UnsupportedNodeError,
    message_of,
)
from aneforge.formats.shared.shapes import in_file
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from aneforge.errors import Location

__all__ = ["LOST", "Interpreter", "Lost", "LostValueError", "Place", "expect_whole", "import_modules"]

Results = TypeVar("Results")


class Lost:
    """The result of a node that was reported already; nodes that read it are passed over."""


LOST: Final = Lost()


class LostValueError(Exception):
    """A node needs what was lost: it is passed over, since the reason was reported already."""


def expect_whole(results: tuple[Results, ...]) -> tuple[Results, ...]:
    """Return the results of a graph within a node, none of which is lost.

    Raises:
        LostValueError: One is.
    """
    if any(isinstance(one, Lost) for one in results):
        raise LostValueError
    return results


@dataclass(frozen=True, slots=True)
class Place:
    """A node as findings and errors name it."""

    node: str
    operator: str
    location: Location
    line: str = ""
    """The user's own line, where the format keeps it and a finding shows it."""


@dataclass(slots=True, kw_only=True)
class Interpreter(ABC):
    """Reads the nodes of one model."""

    breach: ClassVar[Reason]
    """Why a node is not taken that breaks a rule of an operation: it is invalid, or the format allows more."""
    file: str | None
    budget: Budget = field(default_factory=Budget)
    gathering: Gathering = field(default_factory=Gathering)

    @abstractmethod
    def no_tensor(self, name: str, held: object) -> ImportProblem:
        """Return the finding of an output of the model that is not a tensor."""

    def guarded(self, place: Place, convert: Callable[[], Results], lost: Results) -> Results:
        """Return what a conversion gives; what stops it is gathered, and its results are lost."""
        try:
            return convert()
        except LostValueError:
            pass
        except TooLargeModelError as error:
            error.location = error.location or place.location
            raise
        except UnsupportedNodeError as error:
            self.report(place, error.reason, error, error.inputs)
        except GraphError as error:
            self.report(place, self.breach, error)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            # A converter relies on what the format promises of a node; one that breaks the promise, or keeps it and
            # still makes no sense, ends here rather than in a traceback.
            problem = GraphError(f"its converter cannot read it: {type(error).__name__}: {error}")
            self.report(place, Reason.INVALID, problem)
        return lost

    def report(self, place: Place, reason: Reason, error: GraphError, inputs: tuple[str, ...] = ()) -> None:
        """Keep what stops a node."""
        message = message_of(error) + place.line
        self.gather(ImportProblem(place.node, place.operator, reason, message, error.remedy or "", inputs))

    def gather(self, finding: ImportProblem) -> None:
        """Keep a finding."""
        self.gathering.findings[finding] = None

    def attempt(self, run: Callable[[], Results]) -> tuple[Results, str]:
        """Return what a run gives, and the text of the first finding that stops it; none is gathered."""
        findings = self.gathering.findings
        before = len(findings)
        results = run()
        new = list(findings)[before:]
        for finding in new:
            del findings[finding]
        return results, str(new[0]) if new else ""

    def emitter(self, location: Location | None = None) -> Emitter:
        """Return what makes operations at a place, by default that of the whole model."""
        return Emitter(location or in_file(self.file), self.budget)

    def allow_growth(self, held: Iterable[object]) -> None:
        """Let folded results be some times as large together as the weights that a model has."""
        weights = sum(one.nbytes for one in held if isinstance(one, Constant))
        self.budget.weights = weights
        self.budget.folded = max(self.budget.folded, FOLD_MOST_GROWTH * weights)

    def output_of(self, name: str, held: object) -> Output | None:
        """Return what an output of the model stands for as a tensor; nothing, and a finding, where it is none."""
        if isinstance(held, Output):
            return held
        if isinstance(held, Constant):
            return self.emitter().output_of(held)
        if not isinstance(held, Lost):
            self.gather(self.no_tensor(name, held))
        return None


def import_modules(package: ModuleType) -> None:
    """Import the modules of a package, so that they register their converters."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
