"""Made-up reports of any size for tests and benchmarks of the HTML page: every part of a report is in them.

Nothing in them was computed. Names are what an adversary would call operations; targets are called by letters.
"""

from __future__ import annotations

from bisect import bisect

import numpy as np

from aneforge.errors import Location
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.report.model import (
    Allocated,
    Counts,
    Difference,
    Divergence,
    Emission,
    EmittedTask,
    Latency,
    Memory,
    Node,
    Placed,
    Placement,
    RefusedLayer,
    Report,
    Rescaling,
    Step,
    TargetReport,
    Timed,
)
from aneforge.rules import Finding, Severity

__all__ = ["HOSTILE", "sample_report"]

HOSTILE = (
    "</script><script>window.broken = 1</script>",
    '"><img src=x onerror="window.broken = 2">',
    "<!--<script>",
    "{{ 7 * 7 }} {% raw %}",
    "javascript:window.broken = 3",
    "\ud800 half of a pair",
    "\u202e right to left",
    "",
)
"""Names that would break a page which took them for markup, template or address."""

OPS = ("conv", "relu", "add", "matmul", "softmax", "slice_by_size", "layer_norm", "gelu", "concat", "transpose")
STATES = ("resident", "streamed", "chained", "dependent", "in_place", "in_place_dependent", "ring")
STRENGTHS = ("saturation", "approximation", "roundings", "round1", "ulp1")
VERDICTS = ("native", "decompose", "oversize", "reject")
BOUNDS = ("compute", "weights", "activations", "elements", "nothing")
NO_PROGRAM = "softmax: the axis is too long (got 70000, limit 65536)"
SEEN_ONCE = Evidence(EvidenceKind.MEASURED, "a made-up table", ("Chip A",), "seen once")
BLOCK = 24
"""Operations between two places where a value is added that was made a block before."""


def sample_report(operations: int = 120, targets: int = 3, *, segments: int = 3) -> Report:
    """Return a report with that many operations; each target has its own times and findings.

    >>> report = sample_report(50, 2)
    >>> len(report.nodes), len(report.targets), len(report.divergences)
    (50, 2, 1)
    """
    nodes = tuple(node(number) for number in range(operations))
    names = [f"chip-{chr(97 + number % 26)}{number // 26 or ''}" for number in range(targets)]
    reports = tuple(target(name, number, nodes, segments) for number, name in enumerate(names))
    return Report(
        model="sample <network> & co.onnx",
        format="ONNX",
        nodes=nodes,
        targets=reports,
        divergences=tuple(divergence(names[0], name, number, nodes) for number, name in enumerate(names) if number),
        notes=("the model's floating-point tensors were taken as fp16", HOSTILE[0]),
        tool="0.0-sample",
    )


def node(number: int) -> Node:
    """Return one operation; it reads the one before, and at the end of a block what the block began with."""
    hostile = number % 40 == 3
    name = (
        HOSTILE[number // 40 % len(HOSTILE)]
        if hostile
        else f"model/encoder/layer.{number // BLOCK}/{OPS[number % 10]}_{number}"
    )
    inputs = () if number == 0 else (number - 1,)
    if number % BLOCK == 0 and number:
        inputs = (number - 1, number - BLOCK)
    if number % BLOCK == 5:
        inputs = (number - 2,)
    return Node(
        name=name,
        op="input" if number == 0 else "add" if len(inputs) == 2 else OPS[number % 10],
        dtype="fp16",
        shape=(1, 8 + number % 7 * 8, 32, 32),
        inputs=inputs,
        place=Location("models/sample/network.py", 10 + number, None) if number % 3 else Location(None, None, name),
    )


def target(name: str, number: int, nodes: tuple[Node, ...], segments: int) -> TargetReport:
    """Return a report of one target; the last of several has no program."""
    if number and number % 5 == 4:
        verdicts = tuple("native" if place % 7 else "reject" for place in range(len(nodes)))
        return TargetReport(
            name, "A chip without a program", ok=False, counts=counted(verdicts), native_fraction=0.86,
            verdicts=verdicts, findings=findings(verdicts, nodes, name), failure=NO_PROGRAM,
        )  # fmt: skip
    random = np.random.default_rng(number)
    verdicts = tuple(VERDICTS[bisect((0.9, 0.96, 0.98), random.random())] for _ in nodes)
    timeline = layers(nodes, random, segments)
    end = max((one.start + one.duration for one in timeline), default=0.0)
    counts = counted(verdicts)
    return TargetReport(
        target=name,
        title=f"Chip {name[-1].upper()}, Chip {name[-1].upper()} Pro",
        ok=not counts.reject,
        counts=counts,
        native_fraction=counts.native / max(1, len(nodes)),
        verdicts=verdicts,
        findings=findings(verdicts, nodes, name),
        layers=len(timeline),
        segments=segments,
        partitions=2 * segments,
        latency=Latency(end, end * 0.7, end * 1.4, EvidenceKind.INFERRED),
        weight_bytes=23_400_000 + number,
        activation_bytes=3_500_000,
        risk="saturation",
        risk_reason="possible for some finite inputs: first in conv",
        exactness="modelled",
        exactness_reason="the order of partial sums is not known bit for bit",
        timeline=timeline,
        memory=memory(timeline, random),
        notes=tuple(f"{one.op} {one.name} was rewritten" for one in nodes[:9]),
        placement=Placement(
            "coreml", EvidenceKind.INFERRED, 0.97,
            (Placed("ANE", tuple(range(len(nodes))), end), Placed("CPU", (1,), 3.5)), 12.0,
            ("join the two halves",), ("a model of the scheduler",),
        ),
        rescaling=Rescaling("saturation", "none", "3 values scaled by 2^-4"),
        emission=emission(timeline, number),
    )  # fmt: skip


def emission(timeline: tuple[Timed, ...], number: int) -> Emission:
    """Return tasks of every layer but each ninth, which has none; of every third target no tasks are known."""
    if number % 3 == 2:
        return Emission(failure="ANE-EMIT-010: no program of this generation is known")
    layers = [one for one in timeline if one.nodes]
    tasks = [
        EmittedTask(
            0, place, one.layer, "NE" if place % 2 else "PE", f"{one.kind}: 1×1×1×8", "tile of 8 rows", one.nodes
        )
        for place, one in enumerate(layers)
        if place % 9
    ]
    refused = [
        RefusedLayer(one.layer, one.kind, "ANE-EMIT-001", f"no program is known {HOSTILE[0]}", one.nodes)
        for one in layers[::9]
    ]
    return Emission(tuple(tasks), tuple(refused), ("t-idle",))


def counted(verdicts: tuple[str, ...]) -> Counts:
    """Return how often each verdict is there."""
    return Counts(*(verdicts.count(one) for one in VERDICTS))


def findings(verdicts: tuple[str, ...], nodes: tuple[Node, ...], name: str) -> tuple[Finding, ...]:
    """Return a finding for each operation that is not native, the worst first, and one for the whole model."""
    found = [
        Finding(
            rule=f"ANE-SAMPLE-{VERDICTS.index(verdict):03}",
            severity=Severity(verdict),
            op=nodes[place].op,
            node=place,
            location=nodes[place].place,
            message=f"{nodes[place].op} of {nodes[place].name} is too wide for {name}",
            seen=float("inf") if place % 11 == 0 else 17_000 + place,
            limit=16_384,
            remedy="cut the tensor in two along its width",
            evidence=SEEN_ONCE if place % 2 else None,
            threads=("https://example.org/thread/1", "javascript:window.broken = 4"),
        )
        for place, verdict in enumerate(verdicts)
        if verdict != "native"
    ]
    found.sort(key=worst_first)
    whole = Finding(
        rule="ANE-SAMPLE-900",
        severity=Severity.INFO,
        op="graph",
        location=None,
        message="many small programs",
        seen=2**60,
        limit="few",
        remedy="join them",
        evidence=None,
    )
    return (*found, whole)


def worst_first(finding: Finding) -> int:
    """Return the place of a finding in the order of severities."""
    return -VERDICTS.index(finding.severity)


def layers(nodes: tuple[Node, ...], random: np.random.Generator, segments: int) -> tuple[Timed, ...]:
    """Return a layer for each operation: some on two engines at once, each segment after a call of the host."""
    found: list[Timed] = []
    now, segment = 0.0, -1
    for place, one in enumerate(nodes):
        if place * segments // len(nodes) != segment:
            segment = place * segments // len(nodes)
            found.append(
                Timed(f"call {segment}", "dispatch", "host", segment, 2 * segment, now, 12.0, (), "host", "exact")
            )
            now += 12.0
        engine = ("NE", "NE", "PE", "NE", "DMA", "TE")[place % 6]
        length = round(float(random.exponential(4.0)) + 0.1, 3)
        partition = 2 * segment + int(place * segments * 2 // len(nodes) % 2)
        found.append(
            Timed(f"t{place}", one.op, engine, segment, partition, round(now, 3), length, (place,),
                  BOUNDS[place % 5], ("exact", "modelled")[place % 2])
        )  # fmt: skip
        now += 0.0 if engine == "PE" else length
    return tuple(found)


def memory(timeline: tuple[Timed, ...], random: np.random.Generator) -> Memory:
    """Return a plan in which the values of six layers lie on chip at once."""
    sizes = random.integers(1, 16, len(timeline)) * 16_384
    last = len(timeline) - 1
    allocations = tuple(
        Allocated(
            value=one.layer,
            state=STATES[step % 7],
            memory="DRAM" if step % 7 == 1 else "L2",
            offset=step % 6 * 262_144,
            size=int(sizes[step]),
            first=step,
            last=min(last, step + 5),
        )
        for step, one in enumerate(timeline)
    )
    steps = tuple(
        Step(step, int(sizes[max(0, step - 5) : step + 1].sum()), 65_536 * (step % 3)) for step in range(len(timeline))
    )
    return Memory(2_097_152, max((one.buffers + one.windows for one in steps), default=0), steps, allocations)


def divergence(first: str, second: str, number: int, nodes: tuple[Node, ...]) -> Divergence:
    """Return a comparison in which every seventh operation differs; every third comparison finds nothing."""
    if number % 3 == 2:
        return Divergence(first, second, "none", ())
    places = range(number % 7, len(nodes), 7)
    found = [
        Difference(
            place,
            f"t{place}",
            nodes[place].op,
            STRENGTHS[place % 5],
            "order of sums",
            None if place % 2 else 0.125,
            "made up",
        )
        for place in places
    ]
    found.sort(key=strongest_first)
    return Divergence(first, second, found[0].strength if found else "none", tuple(found))


def strongest_first(difference: Difference) -> int:
    """Return the place of a difference in the order of strengths."""
    return STRENGTHS.index(difference.strength)
