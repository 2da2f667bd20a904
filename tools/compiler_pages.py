"""Pages about the compiler: its layers, its passes, and what was decided where no source says."""

from __future__ import annotations

import inspect
import textwrap

from tabulate import tabulate

from aneforge.compiler.decisions import decisions
from aneforge.compiler.ir.catalogue import kinds
from aneforge.compiler.ir.kind import DIALECT, Kind, Slot
from aneforge.compiler.pipeline import PIPELINE

__all__ = ["decisions_page", "layers_page", "passes_page"]

PASSES_INTRODUCTION = (
    "The pipeline in order. A pass verifies the program before and after it; `PIPELINE.until(name)` stops after one, "
    "`PIPELINE.dump(program, folder)` writes the program after each that changed it."
)
DECISIONS_INTRODUCTION = (
    "Decisions for which there is no published source. A later discovery changes one value of one file."
)


def layers_page() -> str:
    """Return the page of the kinds of layers."""
    rows = [
        (
            f"`{DIALECT}.{name}`",
            " or ".join(kind.engines),
            f"`{kind.op}`" if kind.op else "a form of its own",
            operands_text(kind),
            "all" if len(kind.hosts) == len(Slot) else ", ".join(slot for slot in Slot if slot in kind.hosts),
            ", ".join(kind.fills),
            "yes" if kind.bridge else "",
            f"{kind.evidence.kind}: {kind.evidence.note} ({kind.evidence.source})",
        )
        for name, kind in kinds().items()
    ]
    headings = (
        "layer",
        "unit",
        "meaning of",
        "operands",
        "slots after it",
        "slots it fills",
        "own program",
        "evidence",
    )
    return "\n\n".join([
        "# Layers",
        f"{len(rows)} kinds. The first unit is the usual one. The seven slots are, in order: {', '.join(Slot)}.",
        tabulate(rows, headings, tablefmt="github"),
    ])  # fmt: skip


def operands_text(kind: Kind) -> str:
    """Return the operands of a kind, optional ones in brackets."""
    return ", ".join(f"[{one.name}]" if one.optional else one.name for one in kind.operands)


def passes_page() -> str:
    """Return the page of passes, each with its own description."""
    parts = ["# Passes", PASSES_INTRODUCTION]
    for number, one in enumerate(PIPELINE.passes, 1):
        heading, _, body = inspect.cleandoc(type(one).__doc__ or "").partition("\n")
        parts += [f"## {number}. {one.name}", f"*{one.phase}.* {heading}", fenced(body.strip("\n"))]
    return "\n\n".join(parts)


def fenced(text: str) -> str:
    """Return a docstring with its indented texts of programs as blocks of code."""
    blocks: list[str] = []
    for paragraph in text.split("\n\n"):
        heading, _, rest = paragraph.partition("\n")
        if heading in ("Before:", "After:"):
            blocks.append(f"{heading}\n\n```text\n{textwrap.dedent(rest)}\n```")
        else:
            blocks.append(paragraph)
    return "\n\n".join(blocks)


def decisions_page() -> str:
    """Return the page of decisions."""
    rows = [
        (f"`{name}`", one.summary, one.value, f"{one.evidence.kind} ({one.evidence.source})", one.evidence.note)
        for name, one in decisions().items()
    ]
    return "\n\n".join([
        "# Decisions of the compiler",
        DECISIONS_INTRODUCTION,
        tabulate(rows, ("decision", "what", "value", "evidence", "reason"), tablefmt="github"),
    ])  # fmt: skip
