"""How the HTML report looks: contrast, width, and pictures of it for people to look at (in `build/screenshots`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from report_samples import sample_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Open = Callable[..., Page]

WIDE, NARROW = (1440, 900), (390, 800)
READABLE = 4.5
"""Least contrast of text by the Web Content Accessibility Guidelines, level AA."""

CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b]
    .map((one) => one / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
  const after = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !element.checkVisibility() || element.tagName === "SCRIPT") continue;
    const [text, back] = [light(parse(getComputedStyle(element).color)), light(after(element))];
    const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
    found.push([contrast, `${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(open_report: Open, scheme: str) -> None:
    page = open_report(sample_report(160, 5), scheme=scheme)
    page.locator("#findings .name").first.click()
    contrasts: list[tuple[float, str]] = page.evaluate(CONTRASTS)
    assert len(contrasts) > 300
    assert [f"{contrast:.2f} {where}" for contrast, where in contrasts if contrast < READABLE] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_pictures(open_report: Open, repository: Path, scheme: str, size: tuple[int, int]) -> None:
    page = open_report(sample_report(160, 5), scheme=scheme, size=size)
    width: int = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0], "the page itself never scrolls sideways"
    folder = repository / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"report-{scheme}-{'wide' if size == WIDE else 'narrow'}"
    page.screenshot(path=folder / f"{name}.png", full_page=True)
    page.locator("#findings .name").first.click()
    page.screenshot(path=folder / f"{name}-finding.png")
    box = page.locator("#detail").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawings_show_every_verdict(open_report: Open, scheme: str) -> None:
    page = open_report(sample_report(160, 5), scheme=scheme)
    page.locator("#graph").get_by_role("button", name="Show the whole graph").click()
    page.wait_for_timeout(100)
    colours: dict[str, int] = page.evaluate(
        """() => {
          const canvas = document.querySelector("#graph canvas.overview");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const probe = document.createElement("span");
          document.body.append(probe);
          const count = {};
          for (const verdict of ["native", "decompose", "oversize", "reject"]) {
            probe.style.color = `var(--${verdict})`;
            const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
            count[verdict] = 0;
            for (let at = 0; at < data.length; at += 4)
              if (data[at] === r && data[at + 1] === g && data[at + 2] === b) count[verdict] += 1;
          }
          return count;
        }"""
    )
    assert all(colours.values()), colours
