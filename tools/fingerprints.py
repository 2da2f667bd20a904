"""Compiles and runs the recipes of published figures for every chip that printed them, and says how close it comes.

`make fingerprints` runs it. A recipe becomes a graph, the graph a program for the chip's target, and the engine runs
that program. The inputs are drawn again from NumPy's own generators, so nothing is downloaded. Figures that the engine
reproduces and figures that are open (sums, softmax, norms: their order is not known) stand in two tables; it is an
error if one of the first is missed, or one of the second by more than is on record. `--write` also writes the page of
the documentation.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from aneforge.commands.fingerprint_recipes import RECIPES, half, read_published, relative_error
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import run
from aneforge.targets import database, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.commands.fingerprint_recipes import Experiment, Fingerprint
    from aneforge.compiler.ir.program import Program
    from aneforge.engine.exactness import Exactness

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "fingerprints.md"
HEADINGS = ("figure", "chip", "target", "published", "computed", "difference", "label")
TITLES = {"fingerprints": "Reproduced", "open": "Open: the order of partial sums is not known"}
INTRODUCTION = """\
<!-- Written by `python tools/fingerprints.py --write`; a test checks it against the figures and the engine. -->

# Published figures

Public benchmarks of ANEForge (MIT) printed these errors on real chips: the relative error of one program against a
reference, Frobenius norm in float64, with up to sixteen digits. Each line is a program, compiled for the chip's target
and run by the engine on the same inputs. *difference* is that of the two errors, relative to the published one.
`make fingerprints` computes the tables again.

A reproduced figure may differ by 1e-12: the references are sums in float64, and their order is not the benchmark's. Two
kinds may differ by more: the rectifier's figure was printed with twelve digits, and GELU's reference has a power
function of its own, which leaves about 1e-10."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the engine gives for a figure on one chip."""

    figure: Fingerprint
    chip: str
    target: str
    error: float
    exactness: Exactness

    @property
    def difference(self) -> float:
        """How far it is from the figure, relative to it."""
        return self.error / self.figure.error - 1

    @property
    def missed(self) -> bool:
        """Whether that is more than the figure allows."""
        return not abs(self.difference) <= self.figure.tolerance

    def cells(self) -> tuple[str, ...]:
        """Return its line of a table."""
        figure, difference = self.figure, f"{self.difference:.1e}" if self.difference else "0"
        return (figure.name, self.chip, self.target, repr(figure.error), repr(self.error), difference, self.exactness)


def readings(figure: Fingerprint) -> Iterator[Reading]:
    """Compile and run a figure's programs for each of its chips.

    Chips whose programs and whose data are the same share a run: what the engine gives is a function of both.
    """
    experiments = RECIPES[figure.workload](figure.size, figure.batch)
    done: dict[tuple[object, ...], tuple[float, Exactness]] = {}
    for name in figure.chips:
        target = resolve(f"soc:{name}")
        programs = [build_program(experiment.graph, target) for experiment in experiments]
        key = (*map(body, programs), *(target.datapath.get(value) for value in database().datapath))
        if key not in done:
            done[key] = measured(experiments, programs)
        yield Reading(figure, name, target.name, *done[key])


def body(program: Program) -> str:
    """Return the text of a program without the line that names its target."""
    return str(program).partition("\n")[2]


def measured(experiments: list[Experiment], programs: list[Program]) -> tuple[float, Exactness]:
    """Run programs and return their mean error, and how sure the least sure of them is."""
    runs = [run(program, {"x": half(one.x)}) for one, program in zip(experiments, programs, strict=True)]
    pairs = zip(runs, experiments, strict=True)
    errors = [relative_error(one.outputs["y"], experiment.reference) for one, experiment in pairs]
    return float(np.mean(errors)), max((one.label.exactness for one in runs), key=lambda level: level.doubt)


def show(console: Console, title: str, lines: list[Reading]) -> None:
    """Print a table."""
    table = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False)
    for heading in (*HEADINGS, "allowed"):
        table.add_column(heading, no_wrap=True)
    for line in lines:
        table.add_row(*line.cells(), f"{line.figure.tolerance:.0e}", style="red" if line.missed else None)
    console.print(table)


def page(tables: dict[str, list[Reading]]) -> str:
    """Return the page of the documentation."""
    parts = [INTRODUCTION]
    for heading, lines in tables.items():
        rows = [HEADINGS, ("---",) * len(HEADINGS), *(line.cells() for line in lines)]
        parts += [f"## {TITLES[heading]}", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print both tables; the exit code tells whether every figure is as near as it should be."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    tables: dict[str, list[Reading]] = {}
    for heading, figures in (("fingerprints", read_published().fingerprints), ("open", read_published().open)):
        tables[heading] = [reading for figure in figures for reading in readings(figure)]
        show(console, TITLES[heading], tables[heading])
    if "--write" in sys.argv[1:]:
        unfinished = PAGE.with_suffix(".unfinished")
        unfinished.write_text(page(tables), encoding="utf-8")
        unfinished.replace(PAGE)
    sys.exit(1 if any(line.missed for lines in tables.values() for line in lines) else 0)


if __name__ == "__main__":
    main()
