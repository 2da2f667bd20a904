"""`aneforge diff`, `explain`, `targets`, `ops`, `routes` and `doctor`: what is known, and what changed."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the types of parameters
from typing import TYPE_CHECKING, Annotated

import typer

from aneforge.cli import arguments as given

if TYPE_CHECKING:
    from rich.console import Console

    from aneforge.commands.diffing import TargetDiff
    from aneforge.report.model import Counts
    from aneforge.rules.rule import Finding

__all__ = ["diff", "doctor", "explain", "ops", "routes", "targets"]

SHOWN_ROWS = 60


def diff(
    first: Annotated[Path, typer.Argument(metavar="A.json", show_default=False, readable=False)],
    second: Annotated[Path, typer.Argument(metavar="B.json", show_default=False, readable=False)],
    most: Annotated[int, typer.Option(min=0, help="Number of findings to print for each target.")] = 10,
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """Show what changed between two reports; the exit code is 1 where something became worse.

    Operations are matched by what they compute from what, so that other names are not a change.

    Examples:
    aneforge check before.onnx --json a.json; aneforge check after.onnx --json b.json; aneforge diff a.json b.json
    """
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.diffing import diff as changes  # noqa: PLC0415 - as above
    from aneforge.report.written import load_report  # noqa: PLC0415 - as above

    given.refuse_json(json, force=force)
    found = changes(load_report(first), load_report(second))
    if given.write_json(json, "diff", found, ok=not found.worse):
        raise typer.Exit(1 if found.worse else 0)
    out = console()
    print_wrapped(out, f"{found.first} ({found.nodes[0]} operations) and {found.second} ({found.nodes[1]} operations)")
    for name, only in ((first, found.only_first), (second, found.only_second)):
        if only:
            print_wrapped(out, f"only in {name}: {', '.join(only)}")
    for one in found.targets:
        if one.changed:
            show_target_diff(out, one, most)
    if not found.changed:
        renamed = f" ({found.renamed} operations have other names)" if found.renamed else ""
        print_wrapped(out, f"no change{renamed}")
    if found.worse:
        print_wrapped(out, f"worse on {', '.join(one.chip for one in found.targets if one.worse)}")
    raise typer.Exit(1 if found.worse else 0)


def show_target_diff(out: Console, one: TargetDiff, most: int) -> None:
    """Print what changed on one target."""
    from aneforge.cli.terminal import print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.headline import in_shop_words  # noqa: PLC0415 - as above

    counts = "" if one.before == one.after else f"{counts_text(one.before)} -> "
    print_wrapped(out, f"{one.chip} ({one.target}): {counts}{counts_text(one.after)}")
    before, after = one.latency
    if before is not None and after is not None and before != after:
        print_wrapped(out, f"latency {before:.1f} -> {after:.1f} µs ({(after - before) / before:+.1%})", indent=2)
    pairs = {"programs": one.segments, "weight bytes": one.weight_bytes, "peak on chip": one.peak}
    words = {"exactness": one.exactness, "fp16 risk": one.risk}
    for name, (old, new) in (*pairs.items(), *words.items()):
        if old != new:
            print_wrapped(out, f"{name} {old} -> {new}", indent=2)
    for sign, findings in (("+", one.new), ("-", one.gone)):
        for finding in findings[:most]:
            print_wrapped(out, f"{sign} {in_shop_words(finding_text(finding), one.target, one.chip)}", indent=2)
        if len(findings) > most:
            print_wrapped(out, f"{sign} and {len(findings) - most} more", indent=2)


def counts_text(counts: Counts) -> str:
    """Return counts in one short text."""
    return (
        f"{counts.native} native, {counts.decompose} decomposed, {counts.oversize} oversize, {counts.reject} rejected"
    )


def finding_text(finding: Finding) -> str:
    """Return a finding as one line."""
    node = finding.location.node if finding.location is not None and finding.location.node else ""
    subject = node if node.startswith(f"{finding.op} ") else f"{finding.op} {node}".rstrip()
    return f"{finding.rule} {finding.severity}: {subject}: {finding.message}"


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT",
            help=(
                "ANE-… | hal 0x81d | limit NAME | op NAME | target NAME | pass NAME | route NAME | chaining | "
                "chaining NAME | C8 (a conflict) | any WORD that is printed"
            ),
        ),
    ],
    every: Annotated[bool, typer.Option("--all", help="Print all rows of a long table.")] = False,
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """Explain a rule, hardware field, limit, operation, target, pass or route, with the evidence; or a word.

    `see C8` in an answer is a question on which sources disagree; it can be asked for too. WORD is
    anything that is printed: a chip, a target, an operation by our name or that of ONNX, PyTorch or MIL, a hardware
    field, a label, a validator, or a message of Apple's compiler.

    Examples:
    aneforge explain ANE-EXTENT-001

    aneforge explain hal 0x81d

    aneforge explain op softplus

    aneforge explain chaining

    aneforge explain program

    aneforge explain Gemm
    """
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.explaining import explain as explained  # noqa: PLC0415 - as above

    given.refuse_json(json, force=force)
    found = explained(words)
    if given.write_json(json, "explain", found):
        return
    out = console()
    print_wrapped(out, f"{found.name} ({found.kind})", style="bold")
    print_wrapped(out, found.summary)
    shown = found.rows if every else found.rows[:SHOWN_ROWS]
    for row in shown:
        print_wrapped(out, f"{row.label}: {row.value}", indent=2)
        if row.evidence:
            print_wrapped(out, row.evidence, indent=6, style="dim")
    if len(found.rows) > len(shown):
        out.print(f"and {len(found.rows) - len(shown)} more rows (--all prints them)")


def targets(
    which: Annotated[str, typer.Argument(metavar="[all|families|known]", help="Targets to list.")] = "all",
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """List targets and the chips that have them."""
    from aneforge.cli.terminal import console, plain_table, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.listing import list_targets  # noqa: PLC0415 - as above

    given.refuse_json(json, force=force)
    rows = list_targets(which)
    if given.write_json(json, "targets", rows):
        return
    table = plain_table(["target", "family", "tier", "longest axis", "folds", "chips"], ["longest axis"])
    for row in rows:
        extent = "?" if row.extent is None else str(row.extent)
        table.add_row(row.target, row.family or "-", row.tier or "-", extent, " ".join(row.folds), row.chips)
    out = console()
    out.print(table)
    print_wrapped(
        out,
        f"{len(rows)} targets. --target all stands for those that run MIL programs; aneforge targets known lists every "
        "name; aneforge explain target NAME prints all that is known of one.",
        style="dim",
    )


def ops(
    target: given.Targets = None,
    category: Annotated[str | None, typer.Option(help="Only operations of this category.", show_default=False)] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="Only operations with this verdict on some target: native, decompose or reject.", show_default=False
        ),
    ] = None,
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """List operations and what becomes of them on each family, or on the targets that are named."""
    from aneforge.cli.terminal import console, plain_table, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.commands.listing import list_ops  # noqa: PLC0415 - as above
    from aneforge.commands.model_and_targets import parts_of  # noqa: PLC0415 - as above

    names = [part for text in target for part in parts_of(text)] if target else None
    given.refuse_json(json, force=force)
    rows = list_ops(names, category=category, status=status)
    if given.write_json(json, "ops", rows):
        return
    columns = list(rows[0].status) if rows else []
    table = plain_table(["operation", "category", *columns])
    for row in rows:
        table.add_row(row.op, row.category, *(row.status[name] for name in columns))
    out = console()
    out.print(table)
    print_wrapped(out, f"{len(rows)} operations. aneforge explain op NAME prints more of one.", style="dim")


def routes(json: given.Json = None, force: given.Force = False) -> None:
    """List the routes to the engine, and what a call by each was published to take."""
    from aneforge.analysis.routes import get_assumed_route  # noqa: PLC0415 - as above
    from aneforge.cli.terminal import console, plain_table, print_wrapped  # noqa: PLC0415 - as above
    from aneforge.commands.listing import list_routes  # noqa: PLC0415 - as above

    given.refuse_json(json, force=force)
    rows = list_routes()
    if given.write_json(json, "routes", rows):
        return
    table = plain_table(["route", "status", "device", "call µs", "other costs"])
    for row in rows:
        table.add_row(row.route, row.status, row.device, row.calls or "-", row.other_costs or "-")
    out = console()
    out.print(table)
    print_wrapped(
        out,
        f"call: smallest and largest published time of one nearly empty call, on any chip. Predictions assume "
        f"{get_assumed_route()}. aneforge explain route NAME prints every figure with its chip, source and correction.",
        style="dim",
    )


def doctor(
    collect: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.zip",
            help="Measure this machine and write the results to this file, to contribute them. Nothing is sent.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="With --collect: fewer programs and runs, for a quick trial.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="With --collect: runs of each timed program.", show_default=False)
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.zip",
            help="Compare a file of --collect with the predictions of this package.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    json: given.Json = None,
    force: given.Force = False,
) -> None:
    """Say what is installed here, which backends work, and why others do not.

    With --collect or --compare it does that instead. The exit code of --compare is 1 where products have other bits.

    Examples:
    aneforge doctor --collect facts.zip

    aneforge doctor --compare facts.zip
    """
    from aneforge.cli.collected import (  # noqa: PLC0415 - loaded when it is needed
        collect_facts,
        compare_facts,
        refuse_combination,
    )
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - as above
    from aneforge.commands.doctoring import doctor as examined  # noqa: PLC0415 - as above

    refuse_combination(collect, compare, quick=quick, runs=runs)
    if collect is not None:
        collect_facts(collect, quick=quick, runs=runs, force=force)
        return
    if compare is not None:
        raise typer.Exit(compare_facts(compare))
    given.refuse_json(json, force=force)
    found = examined()
    if given.write_json(json, "doctor", found, ok=found.ok):
        raise typer.Exit(0 if found.ok else 1)
    out = console()
    print_wrapped(out, f"aneforge {found.version}, {found.python}")
    print_wrapped(out, f"system: {found.system}")
    print_wrapped(out, f"this machine's engine: {found.host}")
    print_wrapped(out, f"kernels: {found.kernels}; {found.threads} threads")
    if found.gpu:
        print_wrapped(out, f"GPU: {found.gpu}")
    print_wrapped(out, "packages:")
    for one in found.packages:
        state = one.version if one.version is not None else f"not installed: {one.install}"
        print_wrapped(out, f"{one.name}: {state} (for {one.use})", indent=2)
    print_wrapped(out, "backends:")
    for backend in found.backends:
        state = "available" if backend.available else f"not available: {backend.reason}"
        print_wrapped(out, f"{backend.name}: {backend.title}; {state}", indent=2)
        latency = "" if backend.latency is None else f", published latency {backend.latency}"
        advice = f". {backend.recommendation}" if backend.recommendation else ""
        print_wrapped(out, f"{backend.device}; {backend.status}{latency}{advice}", indent=6, style="dim")
    raise typer.Exit(0 if found.ok else 1)
