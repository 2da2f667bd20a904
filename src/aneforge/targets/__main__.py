"""`python -m aneforge.targets`: the database at the command line. It prints what the library returns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from aneforge.errors import AneforgeError
from aneforge.evidence import EvidenceKind
from aneforge.targets import GROUPS, Properties, Target, database, group, resolve
from aneforge.targets.audit import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.evidence import Evidence

app = typer.Typer(
    help="Families, compiler targets, chips and their parameters, each with its evidence.",
    no_args_is_help=True,
)
console = Console(soft_wrap=False)

USAGE_ERROR = 2
GROUP_HELP = "; ".join(f"{name}: {text}" for name, text in GROUPS.items())
LIST_LEGEND = (
    "extent: longest spatial axis; texture, random: units of the engine; ×16: width slices clamp above 4,094; "
    "folds: weight encodings that become dense fp16; ?: no source says"
)


@app.command("list")
def list_targets(
    which: Annotated[str, typer.Argument(metavar="[all|families|known]", help=GROUP_HELP)] = "all",
) -> None:
    """Print the targets of a group, one line each."""
    shown = group(which)
    table = Table(title=f"{len(shown)} targets: {GROUPS[which]}", title_justify="left", box=None, pad_edge=False)
    table.add_column("target")
    table.add_column("chips", ratio=1)
    for heading in ("family", "legality", "extent", "texture", "random", "×16"):
        table.add_column(heading, no_wrap=True)
    table.add_column("folds")
    for target in shown:
        table.add_row(*target_row(target))
    console.print(table)
    console.print(LIST_LEGEND, style="dim")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A target, a chip or a family: h17s, m4-pro, family:a14.")],
) -> None:
    """Print everything known of one target, with the evidence for each value."""
    target = resolve(name)
    chips = ", ".join(chips_of(target)) or "no chip"
    console.print(f"[bold]{target.name}[/]  {target.kind}, {chips}: {target.summary}")
    if not target.has_data:
        console.print("The compiler knows this name; no source gives data for it.")
    table = Table(box=None, pad_edge=False)
    for heading in ("value", "is", "conflicts", "evidence"):
        table.add_column(heading, overflow="fold")
    for label, field, value, evidence in list_known_values(target):
        conflicts = " ".join(conflict.id for conflict in target.conflicts(field))
        table.add_row(label, value, conflicts, str(evidence))
    console.print(table)


@app.command("audit")
def print_audit() -> None:
    """Count what the database holds, and how it is known."""
    result = audit()
    kinds = ", ".join(f"{number} {kind}" for kind, number in result.targets_by_kind.items())
    names = sum(result.targets_by_kind.values())
    console.print(f"{names} target names ({kinds}); {result.targets_with_data} with data; {result.tiers} tiers")
    table = Table(box=None, pad_edge=False)
    table.add_column("what")
    for heading in ("entries", "values", *EvidenceKind):
        table.add_column(heading, justify="right")
    for count in result.counts:
        table.add_row(
            count.what,
            str(count.entries),
            str(count.values),
            *(str(count.evidence[kind]) for kind in EvidenceKind),
        )
    totals = result.evidence
    table.add_section()
    table.add_row("all values", "", str(sum(totals.values())), *(str(totals[kind]) for kind in EvidenceKind))
    console.print(table)
    console.print(f"{result.conflicts} conflicts between sources decided; {result.sources} sources")


def target_row(target: Target) -> tuple[str, ...]:
    """Return the cells of one line of the list."""
    return (
        target.name,
        ", ".join(chips_of(target)),
        "-" if target.family is None else target.family.name,
        "-" if target.legality is None else target.legality.name,
        cell(target.limits, "max_tensor_dim"),
        cell(target.hal, "texture_engine"),
        cell(target.hal, "random_block"),
        cell(target.datapath, "width_slice_crop_x16"),
        " ".join(name for name, stream in target.streams.items() if not stream.streams) if target.streams else "?",
    )


def cell(properties: Properties, name: str) -> str:
    """Return a value as a table shows it; `?` where no source gives it."""
    match properties.get(name):
        case None:
            return "?"
        case bool() as flag:
            return "yes" if flag else "no"
        case value:
            return str(value)


def chips_of(target: Target) -> list[str]:
    """Return the shop names of the chips that a target stands for."""
    return [chip.name for chip in database().chips.values() if chip.target == target.name]


def list_known_values(target: Target) -> Iterator[tuple[str, str, str, Evidence]]:
    """Yield everything known of a target: how a line calls it, its name, its value and why it is believed."""
    for name, fact in target.facts.items():
        yield name, name, str(fact.value), fact.evidence
    for prefix, properties in target.groups.items():
        for name in properties:
            fact = properties.fact(name)
            yield f"{prefix}.{name}", name, str(fact.value), fact.evidence
    for name, stream in target.streams.items():
        yield f"stream.{name}", name, "streams" if stream.streams else "folds", stream.evidence


def main() -> None:
    """Run the command line; an error of the user's is one message and exit code 2."""
    try:
        app()
    except AneforgeError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        sys.exit(USAGE_ERROR)


if __name__ == "__main__":
    main()
