"""There is one class of findings and one of evidence; what other records of a room are is said by their names."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

import aneforge
from aneforge.evidence import Evidence
from aneforge.rules import Finding

SOURCES = Path(aneforge.__file__).parent


def classes_named(name: str) -> list[str]:
    """Return the files that define a class of that name."""
    return [
        path.relative_to(SOURCES).as_posix()
        for path in sorted(SOURCES.rglob("*.py"))
        if f"class {name}" in (text := path.read_text(encoding="utf-8"))
        and any(isinstance(one, ast.ClassDef) and one.name == name for one in ast.walk(ast.parse(text)))
    ]


def test_one_finding_and_one_evidence() -> None:
    assert classes_named("Finding") == ["rules/rule.py"]
    assert classes_named("Evidence") == ["evidence.py"]


def test_both_are_written_and_read_by_msgspec() -> None:
    text = (
        b'{"rule":"ANE-X-001","severity":"reject","op":"relu","node":3,"place":{"file":"a.py","line":2,"node":null},'
        b'"message":"It is wide.","seen":7,"limit":"fp16, uint8","remedy":"","evidence":{"kind":"measured",'
        b'"source":"a table","on":["M1"],"note":"","conflict":null},"threads":[],"target":"h13","what":"axis 3",'
        b'"details":[1.5,"x"],"share":0.25}'
    )
    finding = msgspec.json.decode(text, type=Finding)
    assert finding.evidence == msgspec.json.decode(msgspec.json.encode(finding.evidence), type=Evidence)
    assert msgspec.json.encode(finding) == text
