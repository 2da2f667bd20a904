"""The plan of a language model as a page that needs no other file."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from aneforge.llm.planning import VERIFIED
from aneforge.packages import expect_package
from aneforge.report.headline import in_shop_words
from aneforge.report.html.page import digest
from aneforge.report.numbers import bytes_text, energy_text, time_text

if TYPE_CHECKING:
    from aneforge.llm.planning import DecoderPlan
    from aneforge.llm.pricing import RunPrice

__all__ = ["plan_html"]

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,td:first-child{text-align:left}.illegal{color:#b00020}.split{color:#9a6700}small{color:#777}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}th,td{border-color:#444}"
    ".illegal{color:#ff7b8b}.split{color:#e3b341}}"
)


def plan_html(plan: DecoderPlan) -> str:
    """Return a plan as one page.

    Raises:
        MissingPackageError: The package jinja2 is not installed.
    """
    expect_package("jinja2")
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - loaded when a page is written

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (files("aneforge.commands") / "data" / "language_plan.html.jinja").read_text(encoding="utf-8")
    page = environment.from_string(text).render(
        plan=plan,
        verified=VERIFIED,
        style=STYLE,
        style_hash=digest(STYLE).removeprefix("sha256-"),
        bytes=bytes_text,
        time=time_text,
        energy=energy_text,
        times=interval_text,
        share=share_text,
        named=in_shop_words,
    )
    # Half of a surrogate pair, which a name can hold, has no UTF-8; it becomes a character reference.
    return page.encode("utf-8", "xmlcharrefreplace").decode("utf-8")


def interval_text(run: RunPrice | None) -> str:
    """Return a time and its interval; a dash where there is none."""
    if run is None:
        return "-"
    return f"{time_text(run.microseconds)} ({time_text(run.low)} to {time_text(run.high)})"


def share_text(part: float, run: RunPrice) -> str:
    """Return a part of the time of a run."""
    return f"{part / run.microseconds:.0%}"
