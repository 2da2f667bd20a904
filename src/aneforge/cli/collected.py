"""`aneforge doctor --collect` and `--compare`: facts of a machine, listed before they are written, and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["collect_facts", "compare_facts", "refuse_combination"]


def refuse_combination(collect: Path | None, compare: Path | None, *, quick: bool, runs: int | None) -> None:
    """Refuse options of `doctor` that say nothing together.

    Raises:
        GraphError: Two things are asked for, or an option of --collect is given without it.
    """
    if collect is not None and compare is not None:
        raise GraphError("--collect and --compare cannot be used together", remedy="run one after the other")
    if collect is None and (quick or runs is not None):
        raise GraphError("--quick and --runs need --collect", remedy="add --collect FILE.zip")


def collect_facts(path: Path, *, quick: bool, runs: int | None, force: bool) -> None:
    """Say what will be written, measure, and write it.

    Raises:
        GraphError: The file cannot be written, or is another tool's and `force` is not given.
    """
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.collecting import (  # noqa: PLC0415 - as above
        collect,
        full_plan,
        list_measured_backends,
        quick_plan,
        reaches_device,
    )
    from aneforge.commands.collection import CONTENTS, LEFT_OUT, collection_to_bytes  # noqa: PLC0415 - as above
    from aneforge.commands.outputs import save  # noqa: PLC0415 - as above
    from aneforge.commands.own_files import refuse_output  # noqa: PLC0415 - as above
    from aneforge.report.numbers import bytes_text  # noqa: PLC0415 - as above
    from aneforge.runtime.backends import backends  # noqa: PLC0415 - as above

    refuse_output(path, force=force)
    out = console()
    print_wrapped(out, f"{path} will hold:")
    for one in CONTENTS:
        print_wrapped(out, f"{one.name}: {one.holds}. Why: {one.why}.", indent=2)
    print_wrapped(out, f"It holds no {', '.join(LEFT_OUT[:-1])} or {LEFT_OUT[-1]}. Nothing is sent.")
    print_wrapped(out, f"measured: {', '.join(f'{one.name} ({one.title})' for one in list_measured_backends())}")
    if not any(map(reaches_device, backends())):
        print_wrapped(out, "No device is reached here: bits are a prediction, times are those of this machine.")
    with progress() as tell:
        found = collect(quick_plan() if quick else full_plan(), runs=runs, progress=tell)
    content = collection_to_bytes(found)
    save(path, content)
    readings = (
        f"{len(found.fingerprints)} fingerprints, {len(found.latencies)} latencies, {len(found.reductions)} reductions"
    )
    print_wrapped(out, f"wrote {path}, {bytes_text(len(content))}: {readings}; {found.failures} failed")


def compare_facts(path: Path) -> int:
    """Print how a collection differs from what is predicted, and return the exit code."""
    from aneforge.cli.terminal import console, print_wrapped  # noqa: PLC0415 - loaded when it is needed
    from aneforge.cli.waiting import progress  # noqa: PLC0415 - as above
    from aneforge.commands.collection import read_collection  # noqa: PLC0415 - as above
    from aneforge.commands.collection_comparison import compare_collection  # noqa: PLC0415 - as above

    collection = read_collection(path)
    with progress() as tell:
        found = compare_collection(collection, progress=tell)
    out = console()
    system = collection.manifest.macos or collection.manifest.system
    print_wrapped(out, f"{path}: aneforge {collection.manifest.package} on {system}; predicted for {found.place}")
    for (backend, part), counts in found.counts.items():
        print_wrapped(out, f"{backend}, {part}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    for one in found.readings:
        if not one.verdict.agrees:
            print_wrapped(out, f"{one.backend}: {one.name}: {one.verdict}: {one.detail}", indent=2)
    return 1 if found.products_differ else 0
