"""What can be wrong with a MIL program: rules, each with id, message and remedy, and the error that they raise.

A rule's text is written as that of every rule of the package is: the first paragraph is the message, one that begins
with `Remedy:` is the remedy, the rest explains. `{name}`, `{op}`, `{found}` and `{expected}` are filled in.

Rules about the text itself are declared in `text_rules`, those about weights in `mil_weights`, those about parameters
of operations in `checks`; `mil_rules` lists all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from aneforge.errors import GraphError, Location
from aneforge.records import dataclass
from aneforge.rules.rule import Finding, Severity, split_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MilError", "MilFinding", "MilRule", "excerpt", "list_names", "mil_rules", "position"]

SHOWN = 60
"""Characters of a line that an error shows on each side of the place."""
LONGEST = 120
"""Characters of a value that an error shows."""
LONGEST_MESSAGE = 600
"""Characters of a message of another part of the package that an error repeats."""
PLACEHOLDERS = {"name": "*name*", "op": "*operation*", "found": "*what was found*", "expected": "*what belongs there*"}


@dataclass(frozen=True, slots=True)
class MilRule:
    """One rule about MIL programs."""

    id: str
    severity: Severity
    message: str
    remedy: str
    explanation: str
    found: str = ""
    """What is found where it is broken, if the place says no more."""
    expected: str = ""
    """What belongs there, if the place says no more."""

    @classmethod
    def of(
        cls, rule_id: str, text: str, severity: Severity = Severity.REJECT, *, found: str = "", expected: str = ""
    ) -> Self:
        """Declare a rule by its text."""
        parts = split_text(text)
        return cls(rule_id, severity, parts.message, parts.remedy, parts.explanation, found, expected)

    def broken(
        self,
        at: int,
        *,
        name: str = "",
        op: str | None = None,
        found: object = None,
        expected: object = None,
        suggestion: str = "",
    ) -> MilError:
        """Return the error for a place in the text where the rule is broken; a suggestion stands for the remedy."""
        values = {"name": shorten(name, LONGEST_MESSAGE), "op": shorten(op)}
        values["found"] = shorten(self.found.format(**values) if found is None else found)
        values["expected"] = shorten(self.expected.format(**values) if expected is None else expected)
        return MilError(
            self,
            self.message.format(**values).removesuffix("."),
            at,
            operation=shorten(op) if op else None,
            found=values["found"] or None,
            expected=values["expected"] or None,
            suggestion=suggestion or self.remedy.format(**values),
        )

    def statement(self) -> str:
        """Return the message for the documentation, with words in the places of values."""
        return f"{self.message.format(**PLACEHOLDERS)} {self.explanation}".strip()

    def advice(self) -> str:
        """Return the remedy for the documentation, with words in the places of values."""
        return self.remedy.format(**PLACEHOLDERS)


class MilError(GraphError):
    """A MIL program, or its weights, that cannot be read: the rule, the place, what was expected and what was found."""

    location: Location | None
    line: int | None = None
    column: int | None = None
    shown: str = ""

    def __init__(
        self,
        rule: MilRule,
        message: str,
        at: int,
        *,
        operation: str | None,
        found: str | None,
        expected: str | None,
        suggestion: str,
    ) -> None:
        super().__init__(message, operation=operation, seen=found, limit=expected, remedy=suggestion or None)
        self.rule = rule.id
        self.severity = rule.severity
        self.at = at

    @property
    def found(self) -> str | None:
        """What is there."""
        return None if self.seen is None else str(self.seen)

    @property
    def expected(self) -> str | None:
        """What belongs there."""
        return None if self.limit is None else str(self.limit)

    def locate(self, text: str, file: str) -> None:
        """Find line and column of the place, once."""
        if self.line is not None:
            return
        self.line, self.column, self.shown = position(text, self.at)
        self.location = Location(file, self.line)

    def __str__(self) -> str:
        return describe(self.rule, self.location, self.column, self.operation, self.message, self._details())

    def _details(self) -> list[str]:
        pairs = [("expected", self.expected), ("found", self.found)]
        values = ", ".join(f"{word} {value}" for word, value in pairs if value)
        if self.message == f"Expected {self.expected}, got {self.found}":
            values = ""  # it was just said
        return [line for line in (self.shown, values, remedy_text(self.remedy)) if line]


class MilFinding(Finding, frozen=True, kw_only=True):
    """Something in a program that can be read and that its author should know of."""

    column: int | None = None
    """Place on the line; None where there are no lines."""
    shown: str = ""
    """The line, with a mark below the place."""

    @classmethod
    def of(cls, error: MilError, place: Location, column: int | None = None, shown: str = "") -> MilFinding:
        """Return what an error would have said of a place."""
        return cls(
            rule=error.rule,
            severity=error.severity,
            op=error.operation or "",
            location=place,
            message=error.message,
            seen=error.found,
            limit=error.expected,
            remedy=error.remedy or "",
            evidence=None,
            column=column,
            shown=shown,
        )

    def __str__(self) -> str:
        details = [line for line in (self.shown, remedy_text(self.remedy)) if line]
        return describe(f"{self.rule} {self.severity}", self.location, self.column, self.op, self.message, details)


def remedy_text(remedy: str | None) -> str:
    """Return the last line of an error or a finding."""
    return f"Remedy: {remedy.rstrip('.')}." if remedy else ""


def describe(
    rule: str, location: Location | None, column: int | None, operation: str | None, message: str, details: list[str]
) -> str:
    """Return an error or a finding as text: rule, place and message on one line, the details below."""
    place = f" at {location}{'' if column is None else f':{column}'}" if location is not None else ""
    what = f" {operation}:" if operation else ""
    return "\n".join([f"{rule}{place}:{what} {message}", *details])


def position(text: str, at: int) -> tuple[int, int, str]:
    """Return line and column of a place, counted from 1, and the excerpt that shows it."""
    at = min(max(at, 0), len(text))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end < 0 else end]
    return text.count("\n", 0, at) + 1, at - start + 1, excerpt(line, at - start)


def excerpt(line: str, column: int) -> str:
    r"""Return the surroundings of a column, and a mark below it.

    >>> print(excerpt("fp16 x = relu(", 9))
        fp16 x = relu(
                 ^
    """
    first = max(column - SHOWN, 0)
    shown = line[first : column + SHOWN].replace("\t", " ").rstrip("\r")
    return f"    {shown}\n    {' ' * (column - first)}^"


def shorten(value: object, longest: int = LONGEST) -> str:
    """Return a value as an error shows it.

    >>> shorten("9" * 1000).count("9") < 100
    True
    """
    text = "" if value is None else str(value)
    return text if len(text) <= longest else f"{text[: longest // 3]}… ({len(text)} characters)"


def list_names(words: list[str]) -> str:
    """Return alternatives as a sentence has them.

    >>> list_names(["a", "b", "c"])
    'a, b or c'
    """
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def mil_rules() -> Mapping[str, MilRule]:
    """Return every rule about MIL programs by its id, in the order of ids.

    >>> mil_rules()["MIL-NAME-001"].message
    '{name} is defined twice.'

    Raises:
        ValueError: Two rules have one id.
    """
    from aneforge.formats.mil import checks, mil_weights, text_rules  # noqa: PLC0415 - they declare rules with this module

    found: dict[str, MilRule] = {}
    for value in (value for module in (checks, text_rules, mil_weights) for value in vars(module).values()):
        rule = value.rule if isinstance(value, checks.Check) else value
        if isinstance(rule, MilRule) and found.setdefault(rule.id, rule) is not rule:
            raise ValueError(f"two rules have the id {rule.id}")
    return dict(sorted(found.items()))
