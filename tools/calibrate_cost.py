"""Fits the chips of the cost model to measured latencies, and says how well it predicts what it was not fitted to.

`python tools/calibrate_cost.py` writes `src/aneforge/analysis/data/machines.toml` and prints the figures of the page
"Cost and placement"; `--check` writes nothing. Six numbers of a chip are fitted: dispatch, two rates of host copies,
and three costs for an element; clock, cores, bandwidths and everything else are data of the targets. Each number is
drawn towards the chips nearest to it, so that a chip with five measurements is not fitted to their noise. Of a chip of
which only whole networks were measured, the time of a call is fitted, to the calibration part of `networks.toml`; of
one of which only single programs were, to those of `route_figures.toml` by the route that predictions assume.
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs
from scipy.optimize import least_squares, nnls

from aneforge.analysis.cost import price
from aneforge.analysis.files import (
    DATA,
    CallEntry,
    MachineEntry,
    Measurement,
    NetworkMeasurement,
    PowerEntry,
    SpreadEntry,
    checks,
    lending,
    measurements,
    model,
    networks,
)
from aneforge.analysis.machine import Machine, anchors_of, machine_for, machine_of
from aneforge.analysis.routes import ProgramMeasurement, is_assumed, programs
from aneforge.analysis.work import ProgramWork, work_of
from aneforge.commands.measured_programs import build_measured_program
from aneforge.compiler.compile import compile_graph
from aneforge.targets import Place, chip, resolve
from measured_networks import network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Vector = npt.NDArray[np.float64]

NOISE = 0.12
"""Relative error of one measurement and of the model's form; the pull of the prior is measured against it."""
SCALES = np.array([0.7, 1.0, 1.0, 2.0, 2.0, 2.0])
"""How far a chip's numbers lie from those of its neighbours, as standard deviations of the logarithm: dispatch, the two
host copies, costs for an element. The costs differ most: seventyfold between two chips for relu."""
START = MachineEntry(
    dispatch=120.0,
    host_in=15.0,
    host_out=8.0,
    element_nanoseconds={"relu": 0.05, "softmax": 0.3, "layer_norm": 0.8},
    fitted_classes=(),
    rows=0,
    spread=0.0,
)
"""Where the first fit begins."""
UNKNOWN = SpreadEntry(other_chip=0.0, network=0.0)
"""Error bars, where only the prediction itself is asked for."""
CALL_SCALE = 0.7
"""How far the time of a call may lie from that of other chips, as for `SCALES`."""
PARTS: Mapping[str, bool] = {"calibration": True, "test": False}
"""The parts of the networks, and whether constants are fitted to them."""
EIGHT_IN_TEN = 1.2816
"""Standard deviations on both sides that hold eight in ten of normally distributed errors."""
TRIED_ON_CHIP = (32, 48, 64, 80, 96, 128)
"""Bytes on chip in a cycle for which the report says how well they explain the networks of the calibration part."""
NAMES = ("dispatch", "host_in", "host_out")
CLASSES = ("relu", "softmax", "layer_norm")


def place_of_chip(key: str) -> Place:
    """Return a chip as a place."""
    found = chip(key)
    return Place(resolve(found.target), found)


@cache
def works(row: Measurement | ProgramMeasurement) -> ProgramWork:
    """Return the work of a measured program, compiled for the chip that ran it."""
    return work_of(compile_graph(build_measured_program(row.workload, row.shape), place_of_chip(row.chip).target))


def predicted(row: Measurement, fitted: Mapping[str, MachineEntry]) -> float:
    """Return the latency that the model predicts for a measured call, given the chips that were fitted."""
    return price(works(row), machine_for(place_of_chip(row.chip), fitted, UNKNOWN, {})).microseconds


@cache
def network_works(row: NetworkMeasurement) -> ProgramWork:
    """Return the work of a measured network, compiled for the chip that ran it."""
    return work_of(compile_graph(network(row.network, row.variant), place_of_chip(row.chip).target))


def network_errors(rows: Sequence[NetworkMeasurement], machine: Callable[[str], Machine]) -> Vector:
    """Return the logarithms of predicted over measured for whole networks, given the machine of every chip."""
    predictions = [price(network_works(row), machine(row.chip)).microseconds for row in rows]
    return np.log(np.array(predictions) / np.array([row.microseconds for row in rows]))


def machines(
    fitted: Mapping[str, MachineEntry], calls: Mapping[str, CallEntry], on_chip: float | None = None
) -> Callable[[str], Machine]:
    """Return the machine of every chip, as a function of its key; `on_chip` tries other bytes on chip in a cycle."""

    def found(key: str) -> Machine:
        machine = machine_for(place_of_chip(key), fitted, UNKNOWN, calls)
        factor = 1.0 if on_chip is None else on_chip / model().on_chip_bytes.value
        return replace(machine, on_chip=machine.on_chip * factor)

    return found


def fit_calls(
    rows: Sequence[NetworkMeasurement], fitted: Mapping[str, MachineEntry], on_chip: float | None = None
) -> dict[str, CallEntry]:
    """Return the time of a call of every chip of which nothing but networks was measured."""
    groups: dict[str, list[NetworkMeasurement]] = {}
    for row in rows:
        if row.calibrates and row.chip not in fitted:
            groups.setdefault(row.chip, []).append(row)
    machine = machines(fitted, {}, on_chip)
    return {key: CallEntry(dispatch=fit_call(group, machine(key)), rows=len(group)) for key, group in groups.items()}


def fit_program_calls(rows: Sequence[ProgramMeasurement], fitted: Mapping[str, MachineEntry]) -> dict[str, CallEntry]:
    """Return the time of a call, by the assumed route, of chips of which only single programs were measured."""
    groups: dict[str, list[ProgramMeasurement]] = {}
    for row in rows:
        if row.chip and row.chip not in fitted and is_assumed(row.route) and not row.conflict:
            groups.setdefault(row.chip, []).append(row)
    machine = machines(fitted, {})
    return {key: CallEntry(dispatch=fit_call(group, machine(key)), rows=len(group)) for key, group in groups.items()}


def work_of_row(row: NetworkMeasurement | ProgramMeasurement) -> ProgramWork:
    """Return the work of a measured network or program."""
    return network_works(row) if isinstance(row, NetworkMeasurement) else works(row)


def fit_call(rows: Sequence[NetworkMeasurement] | Sequence[ProgramMeasurement], machine: Machine) -> float:
    """Return the time of a call that explains the programs of one chip best, drawn towards that of other chips."""
    measured = np.array([row.microseconds for row in rows])
    rest = np.array([price(work_of_row(row), machine).microseconds for row in rows]) - machine.dispatch

    def residuals(vector: Vector) -> Vector:
        errors = np.log((np.exp(vector[0]) + rest) / measured) / NOISE
        return np.append(errors, (vector[0] - math.log(machine.dispatch)) / CALL_SCALE)

    return math.exp(float(least_squares(residuals, np.array([math.log(machine.dispatch)]), loss="soft_l1").x[0]))


@dataclass(frozen=True, slots=True)
class Terms:
    """The latencies of measured calls as a sum of what is fitted times how often it is paid, and the rest."""

    counts: Vector
    """For every row: calls, bytes in, bytes out, elements by class, so scaled that the sum is in microseconds."""
    rest: Vector
    measured: Vector

    def errors(self, vector: Vector) -> Vector:
        """Return the logarithms of predicted over measured, given the logarithms of a chip's numbers."""
        dispatch, host_in, host_out, *costs = np.exp(vector)
        return np.log(
            (self.counts @ np.array([dispatch, 1 / host_in, 1 / host_out, *costs]) + self.rest) / self.measured
        )


def machine_by_route(row: ProgramMeasurement) -> Machine:
    """Return the machine of a program; by a route that is not assumed it has the dispatch that its rows ask for."""
    machine = machine_of(row.chip)
    return machine if is_assumed(row.route) else replace(machine, dispatch=route_dispatch(row.chip, row.route))


@cache
def route_dispatch(chip: str, route: str) -> float:
    """Return the dispatch that all programs of a chip by one route ask for."""
    rows = [row for row in programs() if (row.chip, row.route) == (chip, route)]
    return fit_call(rows, machine_of(chip))


def terms_of(rows: Sequence[Measurement]) -> Terms:
    """Return the latencies of rows of one chip as such a sum, taken from the model itself."""
    listed = [row_terms(row) for row in rows]
    counts, rest = np.array([counts for counts, _ in listed]), np.array([rest for _, rest in listed])
    return Terms(counts, rest, np.array([row.microseconds for row in rows]))


@cache
def row_terms(row: Measurement) -> tuple[tuple[float, ...], float]:
    """Return what one row pays how often, and what is not fitted."""
    work, found = works(row), price(works(row), machine_for(place_of_chip(row.chip), {row.chip: START}, UNKNOWN, {}))
    elements = [sum(one.elements for one in work.layers if one.element_class == name) / 1e3 for name in CLASSES]
    bytes_in, bytes_out = (
        sum(each) / 1e3 for each in zip(*((one.bytes_in, one.bytes_out) for one in work.segments), strict=True)
    )
    rest = sum(layer.microseconds - layer.elements for layer in found.layers)
    return (float(len(work.segments)), bytes_in, bytes_out, *elements), rest


def log_errors(rows: Sequence[Measurement], fitted: Mapping[str, MachineEntry]) -> Vector:
    """Return the logarithms of predicted over measured."""
    return np.array([math.log(predicted(row, fitted) / row.microseconds) for row in rows])


def entry_of(vector: Vector, rows: Sequence[Measurement]) -> MachineEntry:
    """Return a chip from the logarithms of its numbers; one without rows is a mean of others."""
    values = [float(value) for value in np.exp(vector)]
    named = dict(zip((*NAMES, *CLASSES), values, strict=True))
    seen = {row.workload for row in rows}
    return MachineEntry(
        dispatch=named["dispatch"],
        host_in=named["host_in"],
        host_out=named["host_out"],
        element_nanoseconds={name: named[name] for name in CLASSES},
        fitted_classes=tuple(name for name in CLASSES if name in seen),
        rows=len(rows),
        spread=0.0,
        lends=not rows or rows[0].chip in lending(),
    )


def vector_of(entry: MachineEntry) -> Vector:
    """Return the logarithms of a chip's numbers."""
    listed = (entry.dispatch, entry.host_in, entry.host_out, *(entry.element_nanoseconds[name] for name in CLASSES))
    return np.log(np.array(listed))


def fit_chip(rows: Sequence[Measurement], prior: MachineEntry) -> MachineEntry:
    """Return the chip that explains its measurements best, drawn towards a prior."""
    expected, terms = vector_of(prior), terms_of(rows)

    def residuals(vector: Vector) -> Vector:
        return np.concatenate([terms.errors(vector) / NOISE, (vector - expected) / SCALES])

    found = least_squares(residuals, expected, loss="soft_l1")
    return entry_of(found.x, rows)


def by_chip(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Return measurements by chip."""
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        found.setdefault(row.chip, []).append(row)
    return found


def prior_of(key: str, fitted: Mapping[str, MachineEntry]) -> MachineEntry:
    """Return what the other chips say about one."""
    others = {name: entry for name, entry in fitted.items() if name != key}
    if not others:
        return START
    anchors = anchors_of(place_of_chip(key), others)
    return entry_of(np.mean([vector_of(others[name]) for name in anchors], axis=0), ())


def with_norms(fitted: dict[str, MachineEntry]) -> dict[str, MachineEntry]:
    """Return chips whose norms nobody measured with a cost for them: it follows the square root of that of softmax."""
    known = [entry.element_nanoseconds for entry in fitted.values() if "layer_norm" in entry.fitted_classes]
    if not known:
        return fitted
    norms, softmax = (
        math.exp(np.mean([math.log(costs[name]) for costs in known])) for name in ("layer_norm", "softmax")
    )
    return {
        key: entry
        if "layer_norm" in entry.fitted_classes
        else with_cost(entry, norms * math.sqrt(entry.element_nanoseconds["softmax"] / softmax))
        for key, entry in fitted.items()
    }


def with_cost(entry: MachineEntry, norms: float) -> MachineEntry:
    """Return a chip with another cost of norms."""
    return structs.replace(entry, element_nanoseconds={**entry.element_nanoseconds, "layer_norm": norms})


def fit_all(rows: Sequence[Measurement]) -> dict[str, MachineEntry]:
    """Return every chip, fitted twice: the second time drawn towards its neighbours of the first."""
    groups = by_chip(rows)
    first = {key: fit_chip(group, START) for key, group in groups.items()}
    return with_norms({key: fit_chip(group, prior_of(key, first)) for key, group in groups.items()})


def leave_one_shape_out(rows: Sequence[Measurement]) -> dict[str, Vector]:
    """Return, for every chip, the errors of its rows, each predicted by a fit without that row."""
    groups = by_chip(rows)
    first = {key: fit_chip(group, START) for key, group in groups.items()}
    found: dict[str, Vector] = {}
    for key, group in groups.items():
        prior = prior_of(key, first)
        errors = [
            log_errors([row], {key: fit_chip([other for other in group if other is not row], prior)})[0]
            for row in group
        ]
        found[key] = np.array(errors)
    return found


def leave_one_workload_out(rows: Sequence[Measurement]) -> dict[str, Vector]:
    """Return, by workload, the errors of its rows on every chip, predicted by fits that saw none of its rows there.

    Workloads with a cost of their own for an element are left in: nothing else could tell it.
    """
    groups = by_chip(rows)
    first = {key: fit_chip(group, START) for key, group in groups.items()}
    found: dict[str, Vector] = {}
    for name in sorted({row.workload for row in rows} - set(CLASSES)):
        errors: list[Vector] = []
        for key, group in groups.items():
            mine = [row for row in group if row.workload == name]
            rest = [row for row in group if row.workload != name]
            if mine:
                errors.append(log_errors(mine, {key: fit_chip(rest, prior_of(key, first))}))
        found[name] = np.concatenate(errors)
    return found


def leave_one_chip_out(rows: Sequence[Measurement]) -> dict[str, Vector]:
    """Return, for every chip, the errors of its rows, predicted by fits of the other chips that saw none of them."""
    found: dict[str, Vector] = {}
    for key, group in by_chip(rows).items():
        found[key] = log_errors(group, fit_all([row for row in rows if row.chip != key]))
    return found


@dataclass(frozen=True, slots=True)
class PowerFit:
    """A chip's energy and the errors of its rows, each predicted by the others."""

    entry: PowerEntry
    errors: Vector


def fit_power(rows: Sequence[Measurement]) -> PowerFit | None:
    """Return the energy of a chip from the rows whose power was measured; None where they are too few."""
    powered = [row for row in rows if row.engine_watts is not None]
    if not powered:
        return None
    coefficients = energy_coefficients(powered)
    errors = np.array([])
    if len(powered) > len(coefficients):
        left = [energy_coefficients([other for other in powered if other is not row]) for row in powered]
        errors = np.array([energy_error(row, each) for row, each in zip(powered, left, strict=True)])
    spread = robust_spread(errors) if len(errors) else model().power_share_unexplained.value
    idle, mac, moved = (float(value) for value in coefficients)
    return PowerFit(PowerEntry(idle, mac * 1e6, moved * 1e6, len(powered), spread), errors)


def energy_row(row: Measurement) -> tuple[Vector, float]:
    """Return time, multiplies and bytes of a call, and its measured energy in microjoules."""
    work = works(row)
    features = np.array([row.microseconds, float(work.macs), float(work.dram_bytes)])
    return features, (row.engine_watts or 0.0) * row.microseconds


def energy_coefficients(rows: Sequence[Measurement]) -> Vector:
    """Return watts, microjoules for a multiply and for a byte, none below zero, by relative error."""
    pairs = [energy_row(row) for row in rows]
    matrix = np.array([features / energy for features, energy in pairs])
    size = np.maximum(np.abs(matrix).max(axis=0), 1e-30)
    solution, _ = nnls(matrix / size, np.ones(len(pairs)))
    return solution / size


def energy_error(row: Measurement, coefficients: Vector) -> float:
    """Return the logarithm of predicted over measured energy."""
    features, energy = energy_row(row)
    return math.log(max(float(features @ coefficients), 1e-9) / energy)


def robust_spread(errors: Vector) -> float:
    """Return the standard deviation of errors, from the size that eight in ten stay below."""
    return float(np.quantile(np.abs(errors), 0.8)) / EIGHT_IN_TEN


def inside_bars_of_others(rows: Sequence[NetworkMeasurement], errors: Vector) -> npt.NDArray[np.bool_]:
    """Return for every row whether it lies inside error bars as wide as the errors of the other networks ask for."""
    names = np.array([row.network for row in rows])
    return np.array(
        [
            abs(error) <= EIGHT_IN_TEN * robust_spread(errors[names != name])
            for name, error in zip(names, errors, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything that `machines.toml` holds."""

    chips: Mapping[str, MachineEntry]
    calls: Mapping[str, CallEntry]
    spread: SpreadEntry


def calibrated(rows: Sequence[Measurement], whole: Sequence[NetworkMeasurement]) -> Calibration:
    """Return every chip with its spread and its energy, calls of other chips, and how far off the rest is."""
    fitted, shapes = fit_all(rows), leave_one_shape_out(rows)
    complete: dict[str, MachineEntry] = {}
    for key, group in by_chip(rows).items():
        power = fit_power(group)
        complete[key] = structs.replace(
            fitted[key], spread=max(robust_spread(shapes[key]), 0.05), power=None if power is None else power.entry
        )
    calls = {**fit_calls(whole, fitted), **fit_program_calls(programs(), fitted)}
    tested = [row for row in whole if not row.calibrates]
    spread = SpreadEntry(
        other_chip=robust_spread(np.concatenate(list(leave_one_chip_out(rows).values()))),
        network=robust_spread(network_errors(tested, machines(fitted, calls))),
    )
    return Calibration(complete, calls, spread)


HEADER = """\
# Fitted by `tools/calibrate_cost.py` to `latencies.toml` and to the calibration part of `networks.toml`; run it instead
# of editing. Rates in GB/s, times in µs.
#
# `spread` is the standard deviation of the logarithm of the error on data that the other numbers were not fitted to:
# shapes, and under `[spread]` chips and the test part of `networks.toml`. `calls` are chips with only rows of networks.

[evidence]
kind = "inferred"
source = "rooflines"
note = "A fit of six numbers for each chip; `fitted_classes` are the costs per element that its own rows determine."

[spread]
"""


def machines_text(found: Calibration) -> str:
    """Return the data file."""
    parts = [HEADER + f"other_chip = {found.spread.other_chip:.3f}\nnetwork = {found.spread.network:.3f}\n"]
    parts += [
        f"[calls.{key}]\ndispatch = {call.dispatch:.1f}\nrows = {call.rows}\n" for key, call in found.calls.items()
    ]
    for key, entry in found.chips.items():
        costs = ", ".join(f"{name} = {value:.4g}" for name, value in entry.element_nanoseconds.items())
        classes = ", ".join(f'"{name}"' for name in entry.fitted_classes)
        lines = [
            f"[chips.{key}]",
            f"dispatch = {entry.dispatch:.1f}",
            f"host_in = {entry.host_in:.4g}",
            f"host_out = {entry.host_out:.4g}",
            f"element_nanoseconds = {{ {costs} }}",
            f"fitted_classes = [{classes}]",
            f"rows = {entry.rows}",
            f"spread = {entry.spread:.3f}",
            *([] if entry.lends else ["lends = false"]),
        ]
        if entry.power is not None:
            power = entry.power
            lines += [
                f"[chips.{key}.power]",
                f"idle_watts = {power.idle_watts:.4g}",
                f"picojoules_per_mac = {power.picojoules_per_mac:.4g}",
                f"picojoules_per_byte = {power.picojoules_per_byte:.4g}",
                f"rows = {power.rows}",
                f"spread = {power.spread:.3f}",
            ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def percent(errors: Vector) -> str:
    """Return the median and the ninth decile of errors in percent."""
    sizes = np.abs(np.expm1(errors)) * 100
    return f"{np.median(sizes):5.1f} %  {np.quantile(sizes, 0.9):5.1f} %"


CHECKED: Mapping[str, frozenset[str]] = {
    "never fitted": frozenset(),
    "of them matmul": frozenset({"matmul"}),
    "of them conv": frozenset({"conv"}),
}
"""Parts of the second set of measurements; the first is all of it."""


def report(rows: Sequence[Measurement]) -> list[str]:
    """Return the figures: how far off the model is on what it was fitted to, and on what it was not."""
    fitted = fit_all(rows)
    shapes, chips = leave_one_shape_out(rows), leave_one_chip_out(rows)
    lines = ["median and ninth decile of |error|   fitted            shape left out    chip left out     energy"]
    for key, group in by_chip(rows).items():
        power = fit_power(group)
        energy = percent(power.errors) if power is not None and len(power.errors) else "too few rows"
        mine = percent(log_errors(group, fitted))
        lines.append(f"{chip(key).name:8} {len(group):3} rows                  {mine}  {percent(shapes[key])}  "
                     f"{percent(chips[key])}  {energy}")  # fmt: skip
    every = [log_errors(rows, fitted), *(np.concatenate(list(each.values())) for each in (shapes, chips))]
    lines.append(f"all      {len(rows):3} rows                  {'  '.join(map(percent, every))}")
    unseen = leave_one_workload_out(rows)
    lines += [f"workload left out: {name:14} {len(each):3} rows  {percent(each)}" for name, each in unseen.items()]
    lines.append(f"workload left out: all of them    {percent(np.concatenate(list(unseen.values())))}")
    for name, workloads in CHECKED.items():
        some = [row for row in checks() if row.workload in workloads or not workloads]
        lines.append(f"checks   {len(some):3} rows, {name:18} {percent(log_errors(some, fitted))}")
    return lines + network_report(networks(), fitted)


def network_report(rows: Sequence[NetworkMeasurement], fitted: Mapping[str, MachineEntry]) -> list[str]:
    """Return the figures of whole networks."""
    found = machines(fitted, fit_calls(rows, fitted))
    parts = {name: [row for row in rows if row.calibrates == chosen] for name, chosen in PARTS.items()}
    lines = [
        f"networks {len(part):3} rows, {name:18} {percent(network_errors(part, found))}" for name, part in parts.items()
    ]
    tested = parts["test"]
    held = inside_bars_of_others(tested, network_errors(tested, found))
    lines.append(f"test rows inside error bars of the other networks: {held.sum()} of {len(held)}")
    for name, part in parts.items():
        for row, error in zip(part, network_errors(part, found), strict=True):
            measured, share = row.microseconds / 1000, math.exp(error)
            lines.append(
                f"  {name:12} {row!s:36} {measured:8.2f} ms, predicted {measured * share:8.2f}  {share - 1:+.0%}"
            )
    return lines + [on_chip_line(parts["calibration"], fitted, tried) for tried in TRIED_ON_CHIP]


def on_chip_line(rows: Sequence[NetworkMeasurement], fitted: Mapping[str, MachineEntry], tried: float) -> str:
    """Return how well a number of bytes on chip in a cycle explains networks, calls fitted anew."""
    errors = network_errors(rows, machines(fitted, fit_calls(rows, fitted, tried), tried))
    return f"  {tried:4} bytes on chip in a cycle: root mean square of the logarithms {np.sqrt(np.mean(errors**2)):.3f}"


def main() -> None:
    """Fit, write and report."""
    parser = argparse.ArgumentParser(description="Fit the chips of the cost model to measured latencies.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    rows = measurements()
    if not arguments.check:
        write(DATA / "machines.toml", machines_text(calibrated(rows, networks())))
    print("\n".join(report(rows)))  # noqa: T201 - the figures are what the tool is for


def write(path: Path, text: str) -> None:
    """Write a file under another name first, then rename it."""
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)  # noqa: PTH105 - Path.replace would do the same


if __name__ == "__main__":
    main()
