"""The first screen of the HTML report: cards, findings with remedies, names and words, at every width, light and dark.

One test makes the picture of the documentation: `--update-golden` writes it to `docs/images`.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.demo_networks import network
from aneforge.report.cards import cards
from aneforge.report.glossary import find_term
from report_samples import sample_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from aneforge.report.model import Report

    Open = Callable[..., Page]

CHIPS = ("m1", "m2", "m3", "m4", "m4-pro", "m5")
WIDTHS = (1440, 1000, 400)
PICTURE = (1200, 600)
"""Width and height of the picture of the documentation."""

CUT = """width => {
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    if (!one.checkVisibility() || one.closest("script, svg, .skip, option, select")) continue;
    const frame = one.closest(".scroller, nav, .chart");
    const name = `${one.tagName}.${one.className} ${one.textContent.slice(0, 50)}`;
    if (frame === one) {
      if (width >= 1440 && one.scrollWidth > one.clientWidth + 1) found.push(`scrolls sideways: ${name}`);
      continue;
    }
    if (frame === null && one.getBoundingClientRect().right > width + 0.5) found.push(`outside: ${name}`);
    const hides = getComputedStyle(one).overflowX !== "visible";
    if (hides && one !== document.body && one.scrollWidth > one.clientWidth + 1) found.push(`cut: ${name}`);
    if (one.className === "prose" && one.scrollHeight > one.clientHeight + 1) found.push(`cut below: ${name}`);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def spotter() -> Report:
    """Return a real report: a model that some chips reject, some split and some run as it is, in two programs."""
    return replace(
        check(network("keyword-spotter"), CHIPS, CheckOptions(name="keyword-spotter.onnx", tasks=True)), tool=""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_at_any_width(open_report: Open, spotter: Report, scheme: str) -> None:
    page = open_report(spotter, scheme=scheme)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for place in ("0", "1"):  # one without a program, one with two
            page.select_option("#target", place)
            page.locator("#findings .on-target", has_text=("on M1", "on M2")[int(place)]).wait_for()
            page.wait_for_timeout(50)
            inside: list[int] = page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            assert inside[0] <= inside[1], f"{width} pixels"
            assert page.evaluate(CUT, width) == [], f"{width} pixels"
            assert page.locator(".card:visible").count() == len(cards(spotter))


def test_every_distinct_result_has_a_card(open_report: Open, spotter: Report) -> None:
    page = open_report(spotter)
    made = cards(spotter)
    said = page.locator(".card").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert said == [one.headline for one in made]
    folded = next(one for one in made if len(one.places) > 1)
    assert folded.row.chips == "M4/Pro", "chips that fare alike share a card"
    page.locator(".card", has_text="M4/Pro").click()
    page.locator("#findings .on-target", has_text="on M4 (").wait_for()
    assert page.locator(".card[aria-pressed=true] strong").all_inner_texts() == ["M4/Pro"]
    for one, text in zip(made, page.locator(".card").all_inner_texts(), strict=True):
        for part in (one.answer, one.time, one.interval, one.row.reason, f"{len(one.changes)} change"):
            assert part in text


def test_findings_stand_together_with_their_remedies(open_report: Open) -> None:
    report = sample_report(160, 1)
    page = open_report(report)
    findings = report.targets[0].findings
    kinds = dict.fromkeys((one.rule, one.severity) for one in findings)
    groups = page.locator("#findings article")
    assert [tuple(one) for one in groups.evaluate_all(
        "all => all.map(one => [one.querySelector('.mono').textContent, one.dataset.severity])"
    )] == list(kinds)  # fmt: skip
    first = [one for one in findings if one.rule == findings[0].rule]
    assert groups.first.locator(".remedy").inner_text() == f"Remedy: {first[0].remedy}"
    names = groups.first.locator("button.name")
    full = [report.nodes[one.node].name for one in first if one.node is not None][: names.count()]
    assert names.evaluate_all("all => all.map(one => one.title)") == full
    for name, shown in zip(full, names.all_inner_texts(), strict=True):
        begin, cut, end = shown.partition("…")
        assert shown == name or (cut and begin and end and name.startswith(begin) and name.endswith(end))


def test_words_say_what_they_mean_and_no_limit_is_unnamed(open_report: Open, spotter: Report) -> None:
    page = open_report(spotter)
    page.select_option("#target", "1")
    page.locator("#timeline canvas").wait_for()
    for unit in ("NE", "PE", "TE", "DMA", "host"):
        known = find_term(unit)
        assert known is not None
        assert page.locator("#timeline dt", has_text=unit).get_attribute("title") == known[1].text
    entries = page.locator("#timeline .legend li, #memory .legend li")
    assert entries.evaluate_all("all => all.filter(one => !one.title).map(one => one.textContent)") == []
    limits = {text for text in entries.all_inner_texts() if text.startswith("limited by ")}
    assert len(limits) == len({one.bound for one in spotter.targets[1].timeline})
    words = page.inner_text("main").lower()
    assert [word for word in ("something else", "partition", "segment ", "segments") if word in words] == []


def test_chips_with_the_same_figures_share_a_row(open_report: Open) -> None:
    report = sample_report(40, 2)
    first, second = report.targets
    twin = replace(first, target="chip-twin", title="Twin")
    page = open_report(replace(report, targets=(first, twin, second)))
    names = page.locator("#chips tbody th").all_inner_texts()
    assert [name.split()[-2:] for name in names] == [["chip-a", "chip-twin"], ["Pro", "chip-b"]]


SECTIONS = ("timeline", "memory", "graph")


def test_pictures_of_the_sections(
    open_report: Open, spotter: Report, repository: Path, request: pytest.FixtureRequest
) -> None:
    page = open_report(spotter, size=PICTURE)
    page.locator(".card", has_text="M2").first.click()
    page.locator("#findings .on-target", has_text="on M2").wait_for()
    words = (repository / "docs" / "html-report.md").read_text(encoding="utf-8")
    for section in SECTIONS:
        drawing = page.locator(f"#{section} canvas").first
        drawing.scroll_into_view_if_needed()
        page.mouse.move(0, 0)
        page.wait_for_timeout(100)
        picture = drawing.screenshot()
        committed = repository / "docs" / "images" / f"{section}.png"
        if request.config.getoption("--update-golden"):
            committed.write_bytes(picture)
        drawn, shown = (struct.unpack(">II", one[16:24]) for one in (picture, committed.read_bytes()))
        # Fonts differ between systems, so the bytes are not compared.
        assert all(0.8 <= one / other <= 1.25 for one, other in zip(drawn, shown, strict=True)), section
        assert f"images/{section}.png" in words


def test_the_picture_of_the_documentation(
    open_report: Open, spotter: Report, repository: Path, request: pytest.FixtureRequest
) -> None:
    four = tuple(one for one in spotter.targets if one.title != "M2")
    page = open_report(replace(spotter, targets=four), size=PICTURE)
    page.locator(".card", has_text="M3").first.click()
    page.locator("#findings .on-target", has_text="on M3").wait_for()
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    picture = page.screenshot()
    committed = repository / "docs" / "images" / "report.png"
    if request.config.getoption("--update-golden"):
        committed.parent.mkdir(exist_ok=True)
        committed.write_bytes(picture)
    # Fonts differ between systems, so the bytes are not compared: what is drawn is tested above.
    assert struct.unpack(">II", picture[16:24]) == PICTURE
    for name in ("README.md", "docs/html-report.md"):
        assert "images/report.png" in (repository / name).read_text(encoding="utf-8")
    assert struct.unpack(">II", committed.read_bytes()[16:24]) == PICTURE
