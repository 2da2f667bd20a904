"""What an explanation is: a kind, a name, a sentence, and rows with their evidence and the places to read on."""

from __future__ import annotations

import re
from dataclasses import replace

from aneforge.display import as_html, cut_lines
from aneforge.records import dataclass
from aneforge.targets import database

__all__ = ["Explanation", "Row", "source_links", "thread_link", "with_sources"]

THREAD = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")
"""How a thread of a public repository is named."""


REPOSITORY, PAPER = re.compile(r"[\w.-]+/[\w.-]+"), re.compile(r"arXiv (\S+)")
CITED = re.compile(r"\(([a-z0-9-]+)")
"""How an evidence names its source: the first word in parentheses."""


def thread_link(thread: str) -> str:
    """Return the address of a thread.

    >>> thread_link("microsoft/onnxruntime#14212")
    'https://github.com/microsoft/onnxruntime/issues/14212'
    """
    return THREAD.sub(r"https://github.com/\g<repository>/issues/\g<number>", thread)


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is known, and why."""

    label: str
    value: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of something."""

    kind: str
    name: str
    summary: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        rows = (f"  {row.label}: {row.value}{f' ({row.evidence})' if row.evidence else ''}" for row in self.rows)
        return cut_lines((f"{self.name} ({self.kind})", self.summary, *rows))

    def _repr_html_(self) -> str:
        return as_html(self)


def source_links(where: str) -> str:
    """Return where a source is as addresses, as far as it names a repository or a paper.

    >>> source_links("owner/name, arXiv 2606.22283")
    'https://github.com/owner/name, https://arxiv.org/abs/2606.22283'
    """
    found: list[str] = []
    for part in where.split(", "):
        if REPOSITORY.fullmatch(part):
            found.append(f"https://github.com/{part}")
        elif (paper := PAPER.fullmatch(part)) is not None:
            found.append(f"https://arxiv.org/abs/{paper[1]}")
        else:
            found.append(part)
    return ", ".join(found)


def with_sources(found: Explanation) -> Explanation:
    """Return an explanation with the sources that its evidence names, and where they can be read."""
    known = database().sources
    cited = dict.fromkeys(key for row in found.rows for key in CITED.findall(row.evidence) if key in known)
    rows = (Row(f"source {key}", f"{known[key].title}: {source_links(known[key].where)}") for key in cited)
    return replace(found, rows=(*found.rows, *rows))
