"""Makes the page: a Jinja template, one style sheet, the scripts in order, and the blocks of data.

What a model calls its operations never becomes markup. It travels in base64 and the scripts set it as text; the name of
the model in the title is escaped; and a content security policy lets nothing run or load but what the page began with.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from aneforge.packages import expect_package
from aneforge.report.html.blocks import blocks_of

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from jinja2 import Template

    from aneforge.report.model import Report

__all__ = ["SCRIPTS", "html"]

SCRIPTS = (
    "dom",
    "format",
    "data",
    "state",
    "table",
    "canvas",
    "cards",
    "chips",
    "findings",
    "layout",
    "graph",
    "graph_drawing",
    "timeline",
    "memory",
    "tasks",
    "divergence",
    "operations",
    "detail",
    "main",
)
"""Scripts in the order in which they are joined; a later one uses names of earlier ones."""
STYLES = ("page", "cards", "table", "charts")


def html(report: Report) -> str:
    """Return a report as a page that needs no other file and no network.

    >>> from aneforge.report.model import Report
    >>> page = html(Report("<b>.onnx", "ONNX", nodes=(), targets=()))
    >>> "<title>&lt;b&gt;.onnx: aneforge report</title>" in page
    True

    Raises:
        MissingPackageError: The package jinja2 is not installed.
    """
    style, script = join("styles", STYLES, "css"), wrap(join("scripts", SCRIPTS, "js"))
    page = template().render(
        title=report.model,
        style=style,
        script=script,
        style_hash=digest(style),
        script_hash=digest(script),
        blocks=blocks_of(report),
    )
    # Half of a surrogate pair, which a name can hold, has no UTF-8; in the title it becomes a character reference.
    return page.encode("utf-8", "xmlcharrefreplace").decode("utf-8")


@cache
def template() -> Template:
    """Return the template of the page."""
    expect_package("jinja2")
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - loaded when a page is written

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string((assets() / "page.html.jinja").read_text(encoding="utf-8"))


def assets() -> Traversable:
    """Return the folder of what the page is made of."""
    return files("aneforge.report.html") / "assets"


@cache
def join(folder: str, names: tuple[str, ...], ending: str) -> str:
    """Return files of one kind, one after the other."""
    return "\n".join((assets() / folder / f"{name}.{ending}").read_text(encoding="utf-8") for name in names)


def wrap(script: str) -> str:
    """Return a script whose names are its own and not the page's."""
    return f'(() => {{\n"use strict";\n{script}\n}})();\n'


def digest(text: str) -> str:
    """Return the name by which a content security policy knows a text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
