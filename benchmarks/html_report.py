"""Size of HTML reports of 20,000 operations, and the time that Chromium takes to open them, against their budgets.

One report is of a network that is really checked; the other is made up so that nothing in it repeats: every target has
its own program, times and findings.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge as af
from aneforge.report import CheckOptions, check, save, written_form

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from aneforge.report.model import Report

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from report_samples import sample_report

OPERATIONS = 20_000
CHECKED = ("m1", "m4-pro", "m5")
BUDGET_BYTES = 15_000_000
BUDGET_SECONDS = 3.0
RUNS = 5
BLANK = "<!doctype html><html data-ready><title>blank</title></html>"


def network() -> af.Graph:
    """Return a network of residual blocks with parts that chips judge differently."""
    x = af.input((1, 16, 8, 8), name="x")
    y = x
    for number in range((OPERATIONS - 1) // 4):
        branch = (y * 1.5).tanh()
        y = (branch + y).relu() if number % 5 else (branch + x).softmax(-1)
    return af.Graph({"y": y})


def opening(browser: Browser, path: Path) -> float:
    """Return the median time from the address to a page that stands, each time in a fresh profile."""
    times: list[float] = []
    for _ in range(RUNS):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        times.append(time.perf_counter() - start)
        context.close()
    return statistics.median(times)


def measure(name: str, report: Report, folder: Path, browser: Browser | None) -> None:
    """Write a report, open it, print both."""
    path = folder / f"{name.partition(' ')[0]}.html"
    start = time.perf_counter()
    save(path, written_form("html", report))
    written = time.perf_counter() - start
    size = path.stat().st_size
    print(f"{name}: {len(report.nodes)} operations, {len(report.targets)} targets; written in {written:.2f} s")
    print(f"  {size / 1e6:.2f} MB, {size / BUDGET_BYTES:.0%} of the budget of {BUDGET_BYTES / 1e6:.0f} MB")
    if browser is not None:
        taken = opening(browser, path)
        print(f"  opened in {taken:.2f} s, {taken / BUDGET_SECONDS:.0%} of the budget of {BUDGET_SECONDS:.0f} s")


def measure_all(folder: Path, browser: Browser | None) -> None:
    """Print every line."""
    if browser is not None:
        blank = folder / "blank.html"
        blank.write_text(BLANK, encoding="utf-8")
        print(f"a page with nothing in it opens in {opening(browser, blank):.2f} s")
    measure("checked network", check(network(), CHECKED, CheckOptions(name="network")), folder, browser)
    every = len(list(af.targets.group("all")))
    measure("made-up report", sample_report(OPERATIONS, every), folder, browser)


def main() -> None:
    """Print every line; without a browser, the sizes alone."""
    if find_spec("jinja2") is None:
        print("not measured, it needs jinja2: pip install '.[bench]'")
        return
    executable = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name:
        if executable is None or find_spec("playwright") is None:
            print("opening is not measured: apt-get install chromium; pip install '.[bench]'")
            measure_all(Path(name), None)
            return
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable)
            measure_all(Path(name), browser)
            browser.close()


if __name__ == "__main__":
    main()
