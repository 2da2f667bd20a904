# ruff: noqa: D401 - a rule's docstring is its message
"""What the rule engine has for validators: bounds that a rule brings, more relations, limits of the subject's own."""

from collections.abc import Iterator

import pytest

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.rules import Operation, Relation, Rule, Seen, Severity, Subject, TensorType, rule
from aneforge.targets import Fact, Property, Value, resolve

EVIDENCE = Evidence(EvidenceKind.DECODED, "guide ch. 22")


def bound(**values: Value) -> Property:
    return Property("a bound", "For a test.", {name: Fact(value, EVIDENCE) for name, value in values.items()}, {})


def about_rank(relation: Relation, facts: Property, limit: Value | None = None) -> Rule:
    @rule("ANE-TEST-001", Severity.REJECT, bound=facts, relation=relation)
    def example(subject: Subject) -> Iterator[Seen]:
        """The {what} has {seen}; {target} takes {limit}.

        Remedy: do less.
        """
        for result in subject.results:
            yield Seen(result.rank, "result", limit, (result.dtype, 7))

    return example


THREE = Operation("relu", results=(TensorType((1, 2)), TensorType((1, 2, 3))))


def test_a_bound_that_is_brought_is_found_by_target_tier_or_all() -> None:
    known = about_rank(Relation.AT_MOST, bound(all=2, a14=3, h15=4))
    assert known.bound == "a bound"
    limits = [found.limit if (found := known.check(THREE, resolve(name))) else None for name in ("h13", "h14", "h15")]
    assert limits == [2, None, None]


def test_a_bound_that_is_not_known_somewhere_decides_nothing_there() -> None:
    finding = about_rank(Relation.AT_MOST, bound(a14=1)).check(THREE, resolve("h13"))
    assert finding is not None
    assert (finding.severity, finding.evidence, finding.limit) == (Severity.INFO, None, None)
    assert finding.message == "cannot be decided: 'a bound' is unknown here: no published source gives it"


def test_a_finding_has_the_limit_the_place_and_the_details_that_were_seen() -> None:
    finding = about_rank(Relation.NEVER, bound(all="fewer"), limit=2).check(THREE, resolve("h13"))
    assert finding is not None
    assert (finding.limit, finding.what, finding.details, finding.evidence) == (2, "result", ("fp16", 7), EVIDENCE)
    assert finding.message == "The result has 2; h13 takes 2."
    worded = about_rank(Relation.NEVER, bound(all="fewer")).check(THREE, resolve("h13"))
    assert worded is not None
    assert worded.limit == "fewer"


@pytest.mark.parametrize(
    ("relation", "seen", "limit", "holds"),
    [
        (Relation.BELOW, 0.5, 1.0, True),
        (Relation.BELOW, 1.0, 1.0, False),
        (Relation.BELOW, 1, 2, True),
        (Relation.NONE_OF, 3, (3, 4), False),
        (Relation.NONE_OF, 5, (3, 4), True),
        (Relation.ONE_OF, 5, (3, 4), False),
        (Relation.NEVER, 5, "anything", False),
    ],
)
def test_relations(relation: Relation, seen: float, limit: Value, *, holds: bool) -> None:
    assert relation.holds(seen, limit) is holds


@pytest.mark.parametrize(
    ("relation", "seen", "limit"),
    [(Relation.BELOW, "a", 1.0), (Relation.BELOW, 1, "a"), (Relation.NONE_OF, 1, 1), (Relation.NEVER, 1, 1)],
)
def test_relations_between_what_has_none(relation: Relation, seen: float | str, limit: Value) -> None:
    with pytest.raises(TypeError, match="cannot be"):
        relation.holds(seen, limit)


def test_of_numbers_below_a_bound_the_largest_decides() -> None:
    finding = about_rank(Relation.BELOW, bound(all=3)).check(THREE, resolve("h13"))
    assert finding is not None
    assert finding.seen == 3


def test_a_subject_written_by_hand_names_no_operands() -> None:
    assert (THREE.arguments, THREE.constants) == ({}, {})
