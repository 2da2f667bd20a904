"""The rule engine itself: declaration, discovery, order, texts."""

import re
import types
from collections.abc import Iterator

import pytest

from aneforge.errors import Location, NoDataError, UnknownNameError
from aneforge.rules import (
    Operation,
    Relation,
    Rule,
    Seen,
    Severity,
    Subject,
    TensorType,
    check,
    explain,
    rule,
    rules,
    rules_in,
)
from aneforge.rules.facts import fact, facts
from aneforge.targets import database
from aneforge.targets.target import CENSUS_COLUMNS
from golden_text import Golden


def make_rule(rule_id: str = "ANE-TEST-001") -> Rule:
    @rule(rule_id, Severity.WARN, bound="max_rank", relation=Relation.AT_MOST)
    def example(subject: Subject) -> Iterator[Seen]:
        """{op} has {seen}; {target} takes {limit}.

        Remedy: do less.

        This is why.
        """
        yield Seen(len(subject.results))

    return example


def module_with(**contents: object) -> types.ModuleType:
    module = types.ModuleType("checks")
    vars(module).update(contents)
    return module


def test_the_docstring_is_message_remedy_and_explanation() -> None:
    declared = make_rule()
    assert declared.message == "{op} has {seen}; {target} takes {limit}."
    assert declared.remedy == "do less."
    assert declared.explanation == "This is why."


def test_a_finding_reads_as_one_sentence() -> None:
    results = tuple(TensorType((1,)) for _ in range(6))
    operation = Operation("split", results=results, location=Location("model.py", 3))
    finding = make_rule().check(operation, database().targets["h13"])
    expected = "ANE-TEST-001 warn: split at model.py:3 on h13: split has 6; h13 takes 5. Remedy: do less."
    assert str(finding) == expected


def test_a_declared_rule_is_found_once() -> None:
    declared = make_rule()
    assert rules_in([module_with(a=declared, b=declared), module_with(c=declared, d=3)]) == {"ANE-TEST-001": declared}


def test_two_rules_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two rules have the id ANE-TEST-001"):
        rules_in([module_with(a=make_rule(), b=make_rule())])


def test_ids_are_well_formed_and_bounds_exist() -> None:
    for known in rules().values():
        assert re.fullmatch(r"ANE-[A-Z]+-\d{3}", known.id)
        assert (known.bound in {*database().properties, *database().streams, *CENSUS_COLUMNS}) is (
            known.facts is None
        ), known.id
        assert known.message.endswith("."), known.id
        assert known.remedy, known.id


def test_every_fact_is_believed_for_a_reason_and_used() -> None:
    chips, tiers = {chip.name for chip in database().chips.values()}, {*database().tiers, "all"}
    assert set(facts()) == {known.bound for known in rules().values() if known.facts is not None}
    for name, known in facts().items():
        assert known.summary.endswith("."), name
        assert set(known.facts) <= tiers, name
        for one in known.facts.values():
            assert one.evidence.source.split()[0] in database().sources, name
            assert set(one.evidence.on) <= chips, name
    with pytest.raises(UnknownNameError, match="unknown fact 'ring_bufer'; nearest: ring_buffer"):
        fact("ring_bufer")


def test_the_factors_that_rules_divide_out_are_those_of_the_database() -> None:
    for name in ("tile_factors", "space_to_batch_factors", "stride_factors"):
        assert {known.value for known in database().properties[name].facts.values()} == {(2, 3, 4, 8)}, name
    assert fact("channel_to_space_factors").facts["all"].value == (2, 3, 4, 8)


def test_findings_come_worst_first() -> None:
    operation = Operation(
        "conv",
        results=(TensorType((1, 8, 0, 17_000)),),
        attributes={"kernel_sizes": (40, 3)},
    )
    severities = [finding.severity for finding in check(operation, "m1")]
    assert severities == [Severity.REJECT, Severity.OVERSIZE, Severity.OVERSIZE]


def test_a_target_without_data_is_an_error() -> None:
    with pytest.raises(NoDataError, match=r"relu on h20: the compiler knows this name and no source gives data"):
        check(Operation("relu"), "h20")
    with pytest.raises(NoDataError):
        explain("ANE-RANK-001").check(Operation("relu", results=(TensorType((1,)),)), database().targets["h20"])


def test_explain_takes_any_case_and_names_near_rules() -> None:
    assert explain("ane-rank-001").id == "ANE-RANK-001"
    with pytest.raises(UnknownNameError, match="unknown rule 'ANE-RANK-9'; nearest: ANE-RANK-001"):
        explain("ANE-RANK-9")


@pytest.mark.parametrize(
    ("relation", "seen", "bound"),
    [
        (Relation.AT_MOST, "wide", 3),
        (Relation.AT_LEAST, "wide", 3),
        (Relation.AT_MOST, 3, "wide"),
        (Relation.ONE_OF, 3, 3),
        (Relation.PRESENT, 1, 1),
    ],
)
def test_a_bound_of_the_wrong_type_is_a_type_error(relation: Relation, seen: int | str, bound: int | str) -> None:
    with pytest.raises(TypeError, match="cannot be"):
        relation.holds(seen, bound)


def test_every_message(golden: Golden) -> None:
    texts = [
        f"{known.id} {known.severity}\n  {known.message}\n  Remedy: {known.advice()}" for known in rules().values()
    ]
    golden("\n".join(texts) + "\n")
