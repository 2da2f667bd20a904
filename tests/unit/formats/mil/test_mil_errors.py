"""What is wrong with a program is one error: the rule, the place with a caret, expected, found, and a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.errors import AneforgeError, GraphError, GraphTypeError, UnknownNameError
from aneforge.formats.mil import text_rules
from aneforge.formats.mil.checks import Check, checks_of
from aneforge.formats.mil.diagnostics import MilError, MilFinding, MilRule, mil_rules, shorten
from aneforge.formats.mil.program import load_mil, parse_mil
from aneforge.rules.rule import Severity
from mil_cases import CASES, PORT, RELU, Case, blob, call, const, program

if TYPE_CHECKING:
    from pathlib import Path

    from golden_text import Golden

ELSEWHERE = {"MIL-BLOB-002", "MIL-LINEAR-002", "MIL-SYNTAX-007"}
"""Rules about files and packages, which have tests of their own."""


def broken(case: Case) -> MilError | MilFinding:
    """Return what the reader says of a case."""
    try:
        read = parse_mil(case.text, case.weights)
        read.graph()
    except MilError as error:
        return error
    return next(finding for finding in read.findings() if finding.rule == case.rule)


def numbered(cases: list[Case]) -> list[str]:
    """Return a name for every case."""
    return [f"{case.rule}-{number}" for number, case in enumerate(cases)]


@pytest.mark.parametrize("case", CASES, ids=numbered(CASES))
def test_the_rule_and_the_place(case: Case) -> None:
    error = broken(case)
    assert error.rule == case.rule
    assert isinstance(error, MilFinding) == case.warns
    place = error.location
    assert place is not None
    assert place.line is not None
    assert error.column is not None
    lines = case.text.split("\n")
    rest = "\n".join(lines[place.line - 1 :])[error.column - 1 :]
    assert rest.startswith(case.at)
    if not case.at:
        assert rest == ""
    assert error.remedy
    if isinstance(error, MilError):
        assert error.expected
        assert error.found
    shown, caret = error.shown.split("\n")
    assert caret.strip() == "^"
    assert rest[:1].strip() in shown[caret.index("^") :][:1]


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} | ELSEWHERE == set(mil_rules())


def test_every_rule_has_a_message_and_a_remedy() -> None:
    for rule in mil_rules().values():
        assert rule.message.endswith(".") or rule.message.endswith(";"), rule.id
        assert rule.remedy, rule.id
        assert "{" not in rule.statement(), rule.id


def test_the_messages(golden: Golden) -> None:
    firsts = {case.rule: case for case in reversed(CASES)}
    golden("\n\n".join(str(broken(case)) for _, case in sorted(firsts.items())) + "\n")


def test_warnings_are_the_cases_that_can_be_read() -> None:
    warned = {case.rule for case in CASES if case.warns}
    assert warned == {rule.id for rule in mil_rules().values() if rule.severity is Severity.WARN} - ELSEWHERE


def test_an_error_is_a_graph_error_with_its_parts() -> None:
    with pytest.raises(GraphError) as caught:
        parse_mil(program(call("softmax(axis = tensor<int32, [1]>([1]), x = x)")), file="net.mil").graph()
    error = caught.value
    assert isinstance(error, MilError)
    assert (error.rule, error.line, error.column) == ("MIL-SCALAR-001", 5, 49)
    assert (error.operation, error.found, error.expected) == ("softmax", "tensor<int32, [1]>([1])", "int32(…)")
    assert str(error.location) == "net.mil:5"
    assert str(error).splitlines()[0].startswith("MIL-SCALAR-001 at net.mil:5:49: softmax: Parameter axis")


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(MilError, match="Remedy: did you mean relu, relu6 or prelu"):
        parse_mil(program(RELU.replace("relu", "rellu"))).graph()
    with pytest.raises(MilError, match="did you mean alpha"):
        parse_mil(program(call("elu(alpah = fp16(1.0), x = x)"))).graph()
    with pytest.raises(MilError) as caught:
        parse_mil(program(const("fp16", "scale", "fp16(1.0)"), call("mul(x = x, y = scael)"))).graph()
    assert caught.value.expected == "scale"


def test_a_name_that_comes_later_is_told_from_one_that_never_comes() -> None:
    text = program(call("add(x = x, y = later)"), const("fp16", "later", "fp16(1.0)"))
    with pytest.raises(MilError, match="its definition on line 6"):
        parse_mil(text).graph()


def test_long_lines_and_values_are_cut() -> None:
    padding = " " * 5000
    with pytest.raises(MilError) as caught:
        parse_mil(program(RELU.replace("x = x", f"{padding}x = unknown{padding}"))).graph()
    assert len(str(caught.value)) < 500
    assert shorten("a" * 500) == f"{'a' * 40}… (500 characters)"


def test_carriage_returns_and_tabs_keep_the_caret_in_place() -> None:
    text = program(RELU.replace("relu", "\trellu")).replace("\n", "\r\n")
    with pytest.raises(MilError) as caught:
        parse_mil(text).graph()
    shown, caret = caught.value.shown.split("\n")
    assert shown[caret.index("^") :].startswith("rellu")
    assert "\r" not in str(caught.value)


def test_an_unknown_function_names_the_known() -> None:
    with pytest.raises(UnknownNameError, match="unknown function 'mian'; nearest: main"):
        parse_mil(program(RELU)).graph("mian")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(GraphTypeError, match="a MIL program is read from text"):
        parse_mil(b"program(1.3)")  # type: ignore[arg-type] - the error for it is the subject
    with pytest.raises(GraphTypeError, match="weights have a form that is not known"):
        parse_mil(program(RELU), 7)  # type: ignore[arg-type] - the error for it is the subject
    with pytest.raises(GraphTypeError, match="neither a path nor bytes"):
        parse_mil(program(RELU), {"a": {}})  # type: ignore[dict-item] - the error for it is the subject


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.mil").write_bytes(b"\xff\xfe\0")
    with pytest.raises(MilError, match=r"MIL-SYNTAX-007.*not UTF-8") as caught:
        load_mil(tmp_path)
    assert caught.value.found == "byte 0xff at 0"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_mil(tmp_path / "no.mil")


@pytest.mark.parametrize(
    "path", ["../weights.bin", "/etc/passwd", "@model_path/../w.bin", "@model_path/", "a/../../b", r"a\u0000b"]
)
def test_weights_stay_in_the_folder(path: str, tmp_path: Path) -> None:
    text = program(const(PORT, "w", blob(PORT, 64, path)), RELU)
    with pytest.raises(MilError, match=r"MIL-BLOB-002.*leaves the folder"):
        parse_mil(text, tmp_path).graph()


def test_weights_that_are_not_there_name_those_that_are(tmp_path: Path) -> None:
    text = program(const(PORT, "w", blob(PORT, 64)), RELU)
    with pytest.raises(MilError, match=r"found only @model_path/weight.bin"):
        parse_mil(text, {"@model_path/weight.bin": b""}).graph()
    with pytest.raises(MilError, match="No such file"):
        parse_mil(text, tmp_path).graph()
    (tmp_path / "weights.bin").mkdir()
    with pytest.raises(MilError, match="Is a directory"):
        parse_mil(text, tmp_path).graph()


def test_two_rules_with_one_id_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    again = MilRule.of("MIL-NAME-001", "Another.\n\nRemedy: none.")
    monkeypatch.setattr(text_rules, "AGAIN", again, raising=False)
    with pytest.raises(ValueError, match="two rules have the id MIL-NAME-001"):
        mil_rules()


def test_checks_are_found_by_their_operation() -> None:
    (check,) = checks_of("concat", text=True)
    assert isinstance(check, Check)
    assert check.rule.id == "MIL-CONCAT-001"
    assert checks_of("concat", text=False) == []
    assert checks_of("relu", text=True) == []


def test_errors_are_the_packages_own() -> None:
    assert issubclass(MilError, AneforgeError)
