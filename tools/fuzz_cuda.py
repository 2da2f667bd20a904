"""Fuzzes the GPU engine: operations against the golden model, programs against the CPU's kernels, bit for bit.

    python tools/fuzz_cuda.py --seed 1 --seconds 400 --log benchmarks/results/cuda_fuzz.tsv

Draws calls of every operation of the table on several targets, products of larger matrices and windows, and whole
networks of the kinds of `fuzz_predictions.py`; values are ordinary, tiny, huge, powers of two whose products are
dropped or not by a hair, odd multiples of half of the grid, zeros of both signs, infinities, not-a-numbers, or any
bits at all. Several samples run at a time. Prints every difference with its seed and the figures, and appends a line to
a log: the date, the device, its driver, the seed, what ran, what ran on the host, and how many differed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.compile import build_program
from aneforge.engine.cuda.executable import DeviceExecutable
from aneforge.engine.cuda.single import run_operation
from aneforge.engine.cuda.tensors import UnsuitedError
from aneforge.engine.dispatch import arithmetic, is_real, runs
from aneforge.engine.execution.given import hand_over
from aneforge.engine.execution.run import engine_element, prepare
from aneforge.errors import AneforgeError
from aneforge.ops.sampling import RandomChooser
from aneforge.ops.signature import OperandKind
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import is_float
from aneforge.targets import resolve
from fuzz_predictions import KINDS as PROGRAMS
from fuzz_predictions import inputs_of
from fuzz_rescaling import Draw, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.cuda.device import Device
    from aneforge.ops.op import Op
    from aneforge.ops.sampling import Fill
    from aneforge.ops.signature import AttributeValue

    Array = npt.NDArray[Any]
    Operand = Array | tuple[Array, ...] | None
    Trial = Callable[[Device, int, "Figures"], None]

SAMPLES = 2
RANDOM = {"dropout", "random", "random_uniform", "matrix_decomposition"}
"""Operations whose numbers are drawn, or that have no meaning."""
NEVER_COMPUTED = {"bias"}
"""Operands that are constants in every program: the compiler adds a computed bias after its product."""
OPERATIONS = [name for name, op in ops().items() if runs(op) and op.operands and name not in RANDOM]
TARGETS = ("h13", "h14", "h15", "h16", "h17")


@dataclass
class Figures:
    """What trials showed."""

    operations: Counter[str] = field(default_factory=Counter[str])
    programs: int = 0
    on_host: Counter[str] = field(default_factory=Counter[str])
    refused: int = 0
    different: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.operations.total()} operations of {len(self.operations)} kinds, {self.programs} programs, "
            f"{self.on_host.total()} steps on the host ({len(self.on_host)} kinds), {self.refused} refused by the "
            f"compiler, {len(self.different)} different"
        )


# Values.


def drawn_halves(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw fp16 numbers, of one sort or of several."""
    sorts = [ordinary, ordinary, tiny, powers, halves_of_grid, huge, any_bits, specials]
    first, second = (sorts[int(generator.integers(len(sorts)))] for _ in range(2))
    one = first(shape, generator)
    if generator.random() < 0.5:
        return one
    rare = generator.random(shape) < generator.choice([0.5, 0.05])
    return np.where(rare, second(shape, generator), one)


def ordinary(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw normal numbers of some size."""
    return to_half(generator.standard_normal(shape) * 2.0 ** generator.integers(-6, 5))


def tiny(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw subnormal numbers and the least normal ones."""
    return as_half(generator.integers(0, 0x0C00, shape) | generator.integers(0, 2, shape) << 15)


def powers(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw numbers with exponents at which products are dropped or not, near powers of two on both sides."""
    exponents = generator.integers(-12, -4, shape) + generator.choice([0, 0, 3])
    mantissas = generator.choice([1.0, 1.0 + 2**-10, 2.0 - 2**-10, 1.5], shape)
    return to_half(mantissas * 2.0**exponents * generator.choice([-1, 1], shape))


def halves_of_grid(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw odd multiples of powers of two, whose products are ties of the grid."""
    return to_half((2 * generator.integers(-40, 40, shape) + 1) * 2.0 ** generator.integers(-11, -6))


def huge(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw large numbers, whose sums pass the edge."""
    return to_half(generator.standard_normal(shape) * 2.0 ** generator.integers(5, 15))


def any_bits(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw any numbers at all."""
    return as_half(generator.integers(0, 65536, shape))


def specials(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw zeros of both signs, infinities, NaN and ends of the range."""
    return as_half(generator.choice([0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7BFF, 1, 0x8001, 0x3C00], shape))


def as_half(bits: Array) -> Array:
    """Return bits as fp16."""
    return bits.astype(np.uint16).view(np.float16)


def to_half(values: Array) -> Array:
    """Return numbers in fp16."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16)


# Operations.


def filled(fill: Fill, generator: np.random.Generator) -> Array:
    """Draw values of an operand: adversarial where any number will do, else in its range."""
    if fill.exact is not None or not is_float(fill.type.dtype):
        return fill.values(generator)
    if generator.random() < 0.3:
        return to_half(fill.values(generator))
    return drawn_halves(fill.type.shape, generator)


def try_operation(device: Device, seed: int, figures: Figures) -> None:
    """Draw a call of an operation and compare it."""
    generator = np.random.default_rng(seed)
    op = find_op(OPERATIONS[seed % len(OPERATIONS)])
    if all(operand.kind is OperandKind.CONSTANT for operand in op.operands):
        return  # the compiler computes it
    sample = op.sample(RandomChooser(generator))
    fixed: dict[str, bool] = {
        operand.name: operand.kind is OperandKind.CONSTANT
        or operand.name in NEVER_COMPUTED
        or (operand.kind is OperandKind.EITHER and generator.random() < 0.5)
        for operand in op.operands
    }
    names = [name for name, fill in sample.operands.items() if fill is not None]
    if all(fixed[name] for name in names):
        fixed[names[0]] = False
    constants: dict[str, Operand] = {}
    given: dict[str, Operand] = {}
    for name in names:
        fill = sample.operands[name]
        fills = fill if isinstance(fill, tuple) else (cast("Fill", fill),)
        drawn = [[half_of(filled(one, generator)) for _ in range(1 if fixed[name] else SAMPLES)] for one in fills]
        arrays = tuple(one[0] if fixed[name] else np.stack(one) for one in drawn)
        (constants if fixed[name] else given)[name] = arrays if isinstance(fill, tuple) else arrays[0]
    compare_operation(
        device, op, TARGETS[int(generator.integers(len(TARGETS)))], given, constants, sample.attributes, seed, figures
    )


def half_of(array: Array) -> Array:
    """Return real numbers in fp16, all others as they are."""
    return to_half(array) if array.dtype.kind == "f" else array


def try_product(device: Device, seed: int, figures: Figures) -> None:
    """Draw a product of larger matrices or windows than the table's own samples have."""
    generator = np.random.default_rng(seed)

    def integer(least: int, most: int) -> int:
        return int(generator.integers(least, most + 1))

    name = str(generator.choice(["matmul", "matmul", "linear", "conv", "conv", "conv_transpose"]))
    fixed = generator.random() < 0.5
    attributes: dict[str, AttributeValue] = {}
    if name in ("matmul", "linear"):
        rows, depth, columns = integer(1, 200), integer(1, 260), integer(1, 200)
        x = np.stack([drawn_halves((rows, depth), generator) for _ in range(SAMPLES)])
        shape = (columns, depth) if name == "linear" else (depth, columns)
        first, second = "x", "weight" if name == "linear" else "y"
        if name == "matmul" and generator.random() < 0.4:
            attributes["transpose_y"], shape = True, shape[::-1]
        fixed = fixed or name == "linear"
    else:
        groups = integer(1, 2)
        inner, outer = integer(1, 10) * groups, integer(1, 20) * groups
        window, extents = (integer(1, 4), integer(1, 4)), (integer(6, 16), integer(6, 16))
        shape = (inner, outer // groups, *window) if name == "conv_transpose" else (outer, inner // groups, *window)
        if generator.random() < 0.3 and name == "conv":
            shape, groups = (outer, inner, 3, 3), 1  # Winograd's, where the target has it
        plain = shape[2:] == (3, 3) and generator.random() < 0.7
        attributes = {
            "strides": (1, 1) if plain else (integer(1, 2), integer(1, 2)),
            "dilations": (1, 1) if plain else (integer(1, 2), 1),
            "pad_type": "custom",
            "pad": tuple(integer(0, min(shape[2:]) - 1) for _ in range(4)),
            "groups": groups,
        }
        x = np.stack([drawn_halves((integer(1, 1), inner, *extents), generator) for _ in range(SAMPLES)])
        first, second = "x", "weight"
    weight = drawn_halves(shape, generator)
    given: dict[str, Operand] = {first: x}
    constants: dict[str, Operand] = {}
    if fixed:
        constants[second] = weight
    else:
        given[second] = np.stack([weight, *(drawn_halves(shape, generator) for _ in range(SAMPLES - 1))])
    if name != "matmul" and generator.random() < 0.5:
        count = shape[0] if name != "conv_transpose" else shape[1] * int(cast("int", attributes["groups"]))
        constants["bias"] = drawn_halves((count,), generator)
    compare_operation(
        device,
        find_op(name),
        TARGETS[int(generator.integers(len(TARGETS)))],
        given,
        constants,
        attributes,
        seed,
        figures,
    )


def compare_operation(  # noqa: PLR0913, PLR0917 - a call, and where it is told
    device: Device,
    op: Op,
    target_name: str,
    given: Mapping[str, Operand],
    constants: Mapping[str, Operand],
    attributes: Mapping[str, AttributeValue],
    seed: int,
    figures: Figures,
) -> None:
    """Run an operation on the device and by the golden model, for every sample, and compare bits."""
    target = resolve(target_name)
    complete = op.complete(attributes)
    found = arithmetic(op.name, target)
    samples = next(len(one[0] if isinstance(one, tuple) else one) for one in given.values() if one is not None)
    wanted: list[tuple[Array, ...]] = []
    try:
        for sample in range(samples):
            single = {
                name: tuple(one[sample] for one in value) if isinstance(value, tuple) else cast("Array", value)[sample]
                for name, value in given.items()
            }
            wanted.append(found.golden_results({**constants, **single}, complete))
    except AneforgeError:
        figures.refused += 1
        return
    try:
        results = run_operation(device, op.name, target, given, constants, complete)
    except UnsuitedError as error:
        figures.on_host[f"{op.name}: {error}"] += 1
        return
    figures.operations[op.name] += 1
    for place, got in enumerate(results):
        for sample in range(samples):
            want = np.asarray(wanted[sample][place])
            want = to_half(want) if is_real(want) else want
            if np.ascontiguousarray(want).tobytes() != np.ascontiguousarray(got[sample]).tobytes():
                line = f"{op.name} on {target_name}, seed {seed}, result {place}, sample {sample}"
                figures.different.append(line)
                say(f"DIFFERENT {line}")
                return


# Programs.


def try_program(device: Device, seed: int, figures: Figures) -> None:
    """Draw a network and compare outputs, states and labels of several samples with the CPU's."""
    draw = Draw(np.random.default_rng(seed))
    kind = PROGRAMS[seed % len(PROGRAMS)]
    target = resolve(TARGETS[int(draw.random.integers(len(TARGETS)))])
    try:
        graph = kind(draw)
        program = build_program(graph, target)
    except AneforgeError:
        figures.refused += 1
        return
    ready = prepare(program)
    machine = DeviceExecutable(ready, device)
    adversarial = draw.chance(0.4)
    known = set(graph.inputs) <= set(draw.deviations)
    sets: list[dict[str, Array]] = []
    for number in range(SAMPLES + 1):
        drawn = draw.values(graph) if known and draw.chance(0.5) else inputs_of(graph, draw.random, number)
        given: dict[str, Array] = {}
        for port in program.inputs:
            kind_of = port.value.type
            value = (
                drawn_halves(kind_of.shape, draw.random)
                if adversarial and is_float(kind_of.dtype)
                else np.asarray(drawn.get(port.name, np.ones(kind_of.shape)))
            )
            given[port.name] = hand_over(port.name, value.reshape(kind_of.shape), kind_of, engine_element(kind_of))
        sets.append(given)
    states = {state.name: np.zeros(state.read.type.shape, engine_element(state.read.type)) for state in program.states}
    got = machine.run_many({name: np.stack([one[name] for one in sets]) for name in sets[0]}, states)
    figures.programs += 1
    for step in machine.on_host:
        figures.on_host[step.partition(" ")[2]] += 1
    for sample, given in enumerate(sets):
        want = ready.run(given, states)
        states = dict(want.states)
        for name, array in want.outputs.items():
            if half_of(np.asarray(array)).tobytes() != got.outputs[name][sample].tobytes():
                line = f"program {kind.__name__} on {target.name}, seed {seed}, output {name}, sample {sample}"
                figures.different.append(line)
                say(f"DIFFERENT {line}")
                return
        if dict(want.labels) != dict(got.labels[sample]):
            layer = next(name for name, label in want.labels.items() if got.labels[sample][name] != label)
            line = f"label of {layer} in {kind.__name__} on {target.name}, seed {seed}: {got.labels[sample][layer]}"
            figures.different.append(line)
            say(f"DIFFERENT {line}")
            return
    machine.release()


TRIALS: Mapping[str, Trial] = {"operations": try_operation, "products": try_product, "programs": try_program}


def fuzz(device: Device, seed: int, kinds: list[str], seconds: float, trials: int) -> Figures:
    """Run trials of some kinds until the time or the number is up."""
    figures = Figures()
    end = time.perf_counter() + seconds
    for number in range(trials):
        if time.perf_counter() > end:
            break
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            TRIALS[kinds[number % len(kinds)]](device, seed * 1_000_000 + number, figures)
    return figures


def main() -> None:
    """Run a slice, print what it showed, and append to the log; fail where something differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="at most 480")
    parser.add_argument("--trials", type=int, default=10**9)
    parser.add_argument("--kind", choices=list(TRIALS), action="append")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    from aneforge.engine.cuda.device import CudaDevice, device_facts  # noqa: PLC0415 - asks for a GPU

    kinds = options.kind or list(TRIALS)
    figures = fuzz(CudaDevice(), options.seed, kinds, min(options.seconds, 480.0), options.trials)
    say(f"seed {options.seed}: {figures}")
    for name, count in figures.on_host.most_common(40):
        say(f"  on the host {count} times: {name}")
    if options.log is not None:
        facts = device_facts()
        line = [
            datetime.now(UTC).strftime("%Y-%m-%d"),
            facts["device"],
            facts["driver"],
            facts["cupy"],
            str(options.seed),
            "+".join(kinds),
            str(figures.operations.total()),
            str(figures.programs),
            str(figures.on_host.total()),
            str(len(figures.different)),
        ]
        with options.log.open("a", encoding="utf-8") as file:
            file.write("\t".join(line) + "\n")
    sys.exit(bool(figures.different))


if __name__ == "__main__":
    main()
