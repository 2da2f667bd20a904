"""A real Chromium for the pages: Playwright drives the browser that the system has.

Where Playwright or the browser is missing, the tests skip and say which.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from aneforge.commands.outputs import save
from aneforge.report.html.page import html

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

    from aneforge.report.model import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDE = (1440, 900)
Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return the system's browser, started once for each process of the tests."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright: pip install 'aneforge-open[test]'"
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("needs Chromium; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=found)
        yield running
        running.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a report; at the end no page may have complained or asked for anything."""
    complaints: list[str] = []
    pages: list[Page] = []

    def complain(message: ConsoleMessage) -> None:
        complaints.append(f"{message.type}: {message.text}")

    def failed(error: Exception) -> None:
        complaints.append(f"uncaught: {error}")

    def asked(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            complaints.append(f"asked for {request.url}")

    def open_one(report: Report, *, scheme: str = "light", size: tuple[int, int] = WIDE) -> Page:
        path = tmp_path / f"report-{len(pages)}.html"
        save(path, html(report))
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        page.on("console", complain)
        page.on("pageerror", failed)
        page.on("request", asked)
        pages.append(page)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_one
    for page in pages:
        page.close()
    assert complaints == []
