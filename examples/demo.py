"""The main job on embedded models: will this network run on these chips, and if not, why and what to do.

python examples/demo.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import aneforge as af

sys.path.insert(0, str(Path(__file__).parent / "networks"))

from resnet18 import resnet18
from transformer import encoder

CHIPS = ("m1", "m2", "m3", "m4", "m5", "m6")
console = Console()


def keyword_spotter() -> af.Graph:
    """Return a small audio network that falls off the older chips: a long window, a sine, a ranking."""
    x = af.input((1, 8, 1, 20_000), name="window")
    weights = np.random.default_rng(0).standard_normal((16, 8, 1, 14)).astype(np.float16)
    features = af.conv(x, weights, stride=2).relu().sin()
    pooled = features.mean((2, 3)).reshape(1, 16)
    values, _ = af.topk(pooled, 5)
    return af.Graph({"best": values})


def verdicts(name: str, graph: af.Graph) -> None:
    """Print what becomes of a network on every chip."""
    console.print(f"[bold]{name}[/]: {graph.summary()}")
    table = Table(box=None, pad_edge=False)
    for heading in ("chip", "target", "runs", "native", "decomposed", "oversize", "rejected"):
        table.add_column(heading)
    for chip in CHIPS:
        verdict = af.preflight(graph, chip)
        lists = (verdict.native, verdict.decompose, verdict.oversize, verdict.reject)
        runs = "yes" if verdict.ok else "no"
        table.add_row(chip.upper(), verdict.target, runs, *(str(len(reports)) for reports in lists))
    console.print(table)


def main() -> None:
    """Print the verdicts on three networks, and the reasons for the first chip that one of them falls off."""
    verdicts("ResNet-18", resnet18())
    verdicts("transformer encoder", encoder())
    spotter = keyword_spotter()
    verdicts("keyword spotter", spotter)
    console.print("[bold]Why not on the M1?[/]")
    for finding in af.preflight(spotter, "m1").findings:
        console.print(f"{finding.rule} {finding.severity}: {finding.op}: {finding.message}", markup=False)
        console.print(f"  remedy: {finding.remedy}\n  evidence: {finding.evidence}", markup=False, style="dim")


if __name__ == "__main__":
    main()
