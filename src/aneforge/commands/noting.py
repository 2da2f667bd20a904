"""Notes of the compiler for people: what it says of many operations in the same words is there once, with a count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import IllegalGraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.compiler.ir.program import Program
    from aneforge.errors import AneforgeError
    from aneforge.report.model import Node

__all__ = ["fold_lines", "merge_notes", "program_notes", "refusal_text"]


def merge_notes(notes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return texts in the order in which they come first, each with the operation that it is about, if it has one.

    A text that several operations share is reported once, with the first of them and how many there are.

    >>> merge_notes([("folded", "a"), ("cut", "b"), ("folded", "c"), ("chained", "")])
    ("folded (2 times, first at 'a')", "cut (at 'b')", 'chained')
    """
    places: dict[str, list[str]] = {}
    for text, place in notes:
        places.setdefault(text, []).append(place)
    return tuple(count_places(text, found) for text, found in places.items())


def count_places(text: str, places: Sequence[str]) -> str:
    """Return a text with how often it came, and where first."""
    first = next((place for place in places if place), "")
    if len(places) > 1:
        return f"{text} ({len(places)} times{f', first at {first!r}' if first else ''})"
    return f"{text} (at {first!r})" if first else text


def program_notes(
    program: Program, nodes: Sequence[Node], carried: Mapping[str, tuple[int, ...]]
) -> Iterable[tuple[str, str]]:
    """Yield the notes of a program, each with the name of the model's operation that its layer carries out."""
    for note in program.notes:
        numbers = carried.get(note.layer, ())
        yield note.text, nodes[numbers[0]].name if numbers else ""


def refusal_text(refusal: AneforgeError) -> str:
    """Return why a graph cannot run; a finding that many operations have is reported once.

    >>> from aneforge.errors import IllegalGraphError
    >>> print(refusal_text(IllegalGraphError.of("it", ["ANE-1 reject: relu at a on it: no."] * 3)))
    on it: the graph cannot run, 3 findings:
      ANE-1 reject: relu at a on it: no. And 2 more such operations.
    """
    if not isinstance(refusal, IllegalGraphError) or not refusal.findings:
        return str(refusal)
    head = str(refusal).partition("\n")[0]
    return "\n  ".join((head, *fold_lines(refusal.findings, refusal.target or "")))


def fold_lines(findings: Sequence[str], target: str) -> tuple[str, ...]:
    """Return findings, those that differ only in their place reported once, with a count of the others.

    A finding is its rule, its severity, the operation, the place, the target, and what is wrong:
    `ANE-… reject: relu at … on …: …`. Values that were seen are in the last part, so that none is hidden.

    >>> widths = {"a": 7, "b": 7, "c": 9}
    >>> fold_lines([f"ANE-1 reject: relu at {name} on it: width {width}." for name, width in widths.items()], "it")
    ('ANE-1 reject: relu at a on it: width 7. And 1 more such operation.', 'ANE-1 reject: relu at c on it: width 9.')
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for line in findings:
        before, _, wrong = line.partition(f" on {target}: ")
        alike.setdefault((*before.split()[:3], wrong) if wrong else (line,), []).append(line)
    return tuple(f"{found[0]}{more_such(len(found) - 1)}" for found in alike.values())


def more_such(count: int) -> str:
    """Return how many more operations there are.

    >>> more_such(0), more_such(1), more_such(2)
    ('', ' And 1 more such operation.', ' And 2 more such operations.')
    """
    return "" if count == 0 else f" And {count} more such operation{'s' if count > 1 else ''}."
