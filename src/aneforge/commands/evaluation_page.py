"""Evaluations as a page that needs no other file: the chips, how they agree, and the samples that flip, shown."""

from __future__ import annotations

import base64
from importlib.resources import files
from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.packages import expect_package
from aneforge.report.html.page import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.commands.evaluating import Evaluation

__all__ = ["MOST_SHOWN", "evaluations_html", "number_text", "percent", "rate_text"]

MOST_SHOWN = 200
"""Samples of a kind that a page lists."""
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,td:first-child{text-align:left}img{max-width:96px;image-rendering:pixelated}small{color:#777}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}th,td{border-color:#444}}"
)


def evaluations_html(evaluations: Sequence[Evaluation]) -> str:
    """Return evaluations as one page; times are not on it, so that another run gives the same bytes.

    Raises:
        MissingPackageError: The package jinja2 is not installed.
    """
    expect_package("jinja2")
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - loaded when a page is written

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (files("aneforge.commands") / "data" / "evaluation.html.jinja").read_text(encoding="utf-8")
    page = environment.from_string(text).render(
        evaluations=evaluations,
        style=STYLE,
        style_hash=digest(STYLE).removeprefix("sha256-"),
        most=MOST_SHOWN,
        percent=percent,
        number=number_text,
        rates_of=rates_by_chip,
        number_of=number_of,
        pictures_of=encode_pictures,
    )
    # Half of a surrogate pair, which a name can hold, has no UTF-8; it becomes a character reference.
    return page.encode("utf-8", "xmlcharrefreplace").decode("utf-8")


def rates_by_chip(evaluation: Evaluation) -> dict[str, str]:
    """Return the predicted samples a second of every chip; nothing of one on which nothing runs."""
    known = {one.chip: rate_text(one.expected) for one in evaluation.rates}
    return {chip.label: known.get(chip.label, "") for chip in evaluation.summary.chips}


def encode_pictures(evaluation: Evaluation) -> dict[int, str]:
    """Return pictures by sample, as a page holds them."""
    return {one.sample: base64.b64encode(one.png).decode() for one in evaluation.pictures}


def percent(share: float | None) -> str:
    """Return a share in per cent; nothing where there is none.

    >>> percent(0.98765), percent(None)
    ('98.77 %', '')
    """
    return "" if share is None else f"{share:.2%}".replace("%", " %")


def number_text(value: float | None) -> str:
    """Return a number in three digits; nothing where there is none.

    >>> number_text(0.012345), number_text(None)
    ('0.0123', '')
    """
    return "" if value is None else f"{value:.3g}"


def rate_text(rate: float) -> str:
    """Return a number of samples a second in three digits, without an exponent.

    >>> rate_text(12345.6), rate_text(0.456)
    ('12,300', '0.456')
    """
    if rate < 100:
        return f"{rate:.3g}"
    return f"{round(rate, 3 - len(str(int(rate)))):,.0f}"
