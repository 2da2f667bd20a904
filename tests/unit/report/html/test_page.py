"""The page around the data: self-contained, closed to what models call things, written whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from pathlib import Path

import pytest

from aneforge.errors import MissingPackageError
from aneforge.report.html.page import SCRIPTS, STYLES, assets, html, template
from aneforge.report.model import Report
from report_samples import HOSTILE, sample_report

ASSETS = Path(str(assets()))
NOTHING = Report("a.onnx", "ONNX", nodes=(), targets=())


def policy(text: str) -> str:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    return found[1]


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_every_script_and_style_is_in_the_page() -> None:
    assert {path.stem for path in (ASSETS / "scripts").iterdir()} == set(SCRIPTS)
    assert {path.stem for path in (ASSETS / "styles").iterdir()} == set(STYLES)
    text = html(NOTHING)
    for path in (*(ASSETS / "scripts").iterdir(), *(ASSETS / "styles").iterdir()):
        assert path.read_text(encoding="utf-8").strip() in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    text = (ASSETS / "scripts" / f"{name}.js").read_text(encoding="utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "</script",
        "<!--",
    ):
        assert word not in text, word


def test_nothing_is_fetched() -> None:
    text = html(sample_report(20, 2))
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of SVG is no address"
    assert re.findall(r"<(?:link|script|img|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", text) == ["data:,"]
    assert "@import" not in text
    assert "url(" not in text


def test_the_policy_knows_the_script_and_the_style_and_nothing_else() -> None:
    text = html(NOTHING)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    rules = dict(rule.strip().split(" ", 1) for rule in policy(text).split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'{digest(script)}'"
    assert rules["style-src"] == f"'{digest(style)}'"


@pytest.mark.parametrize("name", [one for one in HOSTILE if one and "\ud800" not in one])
def test_hostile_names_are_not_in_the_text_of_the_page(name: str) -> None:
    report = sample_report(400, 1)
    assert name in {node.name for node in report.nodes}
    assert name not in html(report)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_name_is_escaped(name: str) -> None:
    text = html(Report(name, "ONNX", nodes=(), targets=()))
    assert text.count("<script") == html(NOTHING).count("<script")
    assert text.count("<img") == 0
    assert text.encode("utf-8")


def test_without_jinja_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    template.cache_clear()
    try:
        with pytest.raises(MissingPackageError) as refusal:
            html(NOTHING)
    finally:
        template.cache_clear()
    assert str(refusal.value) == "writing HTML pages needs the package jinja2. Remedy: pip install jinja2"
    assert isinstance(refusal.value, ImportError)


def test_the_page_has_a_heading_for_every_section_and_a_language() -> None:
    text = html(NOTHING)
    assert '<html lang="en">' in text
    for name in re.findall(r'<section id="(\w+)"', text):
        assert f'<h2 id="{name}-title">' in text
        assert f'href="#{name}"' in text
