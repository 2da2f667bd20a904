"""Batches of the sweeps over verdicts, here where processes that are spawned find them by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tabulate import tabulate

from proof_cases import Case, draw_batch
from proof_tools import KNOWN, MET, judge
from verdict_tools import ask, disagreements, draw_graph, target_of


@dataclass
class Tally:
    """What came of some cases."""

    origins: Counter[str] = field(default_factory=Counter[str])
    met: Counter[str] = field(default_factory=Counter[str])
    targets: Counter[str] = field(default_factory=Counter[str])
    wrong: dict[str, str] = field(default_factory=dict[str, str])
    """The classes of contradictions that are not known, each with the first case that has it."""

    def add(self, case: Case) -> None:
        """Judge one case."""
        try:
            found = judge(case)
        except Exception as error:  # noqa: BLE001 - the others are judged all the same
            self.wrong.setdefault(f"{type(error).__name__}: {str(error)[:200]}", str(case))
            return
        self.origins[case.origin] += 1
        self.targets.update(case.targets)
        self.met.update(found.met)
        for one in found.contradictions:
            if one.what not in KNOWN:
                self.wrong.setdefault(one.what, str(case))

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.origins + other.origins,
            self.met + other.met,
            self.targets + other.targets,
            {**other.wrong, **self.wrong},
        )

    def __str__(self) -> str:
        head = (
            f"{self.origins.total()} cases on {len(self.targets)} targets and chips: "
            f"{len(self.wrong)} classes of contradictions that are not known, {len(KNOWN)} that are"
        )
        origins = tabulate(sorted(self.origins.items()), ("graphs", "cases"), tablefmt="github")
        met = tabulate([(name, self.met[name]) for name in MET], ("what they have", "cases"), tablefmt="github")
        listed = "".join(f"- {what}: {case}\n" for what, case in sorted(self.wrong.items()))
        listed += "".join(f"- known: {what}: {reason}\n" for what, reason in sorted(KNOWN.items()))
        return f"{head}\n\n{origins}\n\n{met}\n" + (f"\n{listed}" if listed else "")


def judge_batch(number: int) -> Tally:
    """Judge the cases of one number."""
    tally = Tally()
    for case in draw_batch(number):
        tally.add(case)
    return tally


def ask_batch(first: int, count: int) -> tuple[Counter[tuple[str, str]], dict[str, int]]:
    """Ask about some graphs: count them by row and origin, and name the first graph of every disagreement."""
    rows: Counter[tuple[str, str]] = Counter()
    wrong: dict[str, int] = {}
    for seed in range(first, first + count):
        origin, graph = draw_graph(seed)
        found = ask(graph, target_of(seed))
        rows[found.row, origin.split()[0]] += 1
        for one in disagreements(found):
            wrong.setdefault(one, seed)
    return rows, wrong
