"""Labels against the evidence, read from the data files without the code that the engine reads them with.

A label is the least of what every step can claim on one target: the arithmetic of the operation, every value of the
datapath that it rests on (measured on a chip of that very target, or not), every slot after it, and every value that
goes in.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.exactness import labels_of_layers
from aneforge.engine.dispatch import arithmetic
from aneforge.errors import AneforgeError, IllegalGraphError
from aneforge.graph.node import build

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(af.__file__).parent
ORDER = ["exact", "modelled", "unknown"]


def table(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


DATAPATH = table("targets/data/datapath.toml")
TARGETS = {name: entry for name, entry in table("targets/data/targets.toml")["targets"].items() if "tier" in entry}
TARGET_OF_CHIP = {chip["name"]: chip["target"]["value"] for chip in table("targets/data/chips.toml")["chips"].values()}
ARITHMETIC = {
    op: entry for entry in table("engine/data/arithmetic.toml")["arithmetics"].values() for op in entry["ops"]
}


def claim_of_switch(name: str, target: str) -> str:
    """Return what a value of the datapath lets a step claim on a target."""
    values: dict[str, Any] = DATAPATH[name].get("values", {})
    tier = TARGETS[target]["tier"]
    value = values.get(target, values.get(tier if isinstance(tier, str) else tier["value"], values.get("all")))
    if value is None:
        return "unknown"
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    chips: list[str] = known.get("on", []) if known.get("kind") == "measured" else []
    return "exact" if target in {TARGET_OF_CHIP[chip] for chip in chips} else "modelled"


def claim(step: str, target: str) -> str:
    """Return what an operation, or a value of the datapath, can claim on a target."""
    if step in DATAPATH:
        return claim_of_switch(step, target)
    entry = ARITHMETIC[step]
    return least(entry["exactness"], *(claim_of_switch(name, target) for name in entry.get("switches", ())))


def least(*claims: str) -> str:
    return max(claims, key=ORDER.index)


@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_claims_what_the_evidence_allows(target: str) -> None:
    claimed = {op: str(arithmetic(op, af.targets.resolve(target)).exactness) for op in ARITHMETIC}
    assert claimed == {op: claim(op, target) for op in ARITHMETIC}


@pytest.mark.parametrize("chip", ["soc:a15", "soc:a17", "a20", "m3"])
def test_chips_that_nobody_measured_claim_nothing_that_rounds(chip: str) -> None:
    target = af.targets.resolve(chip)
    rounding = [op for op, entry in ARITHMETIC.items() if entry.get("switches") and not entry.get("copies")]
    assert {str(arithmetic(op, target).exactness) for op in rounding} <= {"modelled", "unknown"}


def image(*shape: int) -> af.Tensor:
    return af.input(shape, name="x")


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return np.full(shape, 0.5, np.float16)


PROGRAMS: dict[str, tuple[Callable[[], af.Tensor], list[str]]] = {
    "product with a number": (lambda: image(1, 4) * 3.0, ["muls"]),
    "sum with a number": (lambda: image(1, 4) + 3.0, ["adds"]),
    "number, then a table": (lambda: af.Tensor.tanh(image(1, 4) * 3.0), ["muls", "tanh"]),
    "convolution and a rectifier": (lambda: af.conv(image(1, 4, 6, 6), weights(4, 4, 1, 1)).relu(), ["conv", "relu"]),
    "convolution and a table": (lambda: af.conv(image(1, 4, 6, 6), weights(4, 4, 1, 1)).gelu(), ["conv", "gelu"]),
    "convolution and a bias": (
        lambda: af.conv(image(1, 4, 6, 6), weights(4, 4, 1, 1), bias=np.ones(4)),
        ["conv", "bias_starts_sum"],
    ),
    "linear and a table": (lambda: image(2, 4).linear(weights(4, 4)).silu(), ["linear", "silu"]),
    "sum of two, and a rectifier": (lambda: af.Tensor.relu(image(1, 4) + af.input((1, 4))), ["add", "relu"]),
    "largest and a number": (lambda: image(1, 4).amax(-1) * 2.0, ["reduce_max", "muls"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_claims_the_least_of_its_steps_slots_included(name: str) -> None:
    build, steps = PROGRAMS[name]
    for target in ("h13", "h13g", "h14", "h14g", "h15", "h16", "h16g", "h17", "h17s", "h18", "h18g", "h19"):
        try:
            program = af.build_program(build(), target)
        except IllegalGraphError:
            continue
        claims = [str(label.exactness) for label in labels_of_layers(program).values()]
        assert least(*claims) == least(*(claim(step, target) for step in steps)), target


REBUILT: dict[str, Callable[[], af.Tensor]] = {
    "patches": lambda: af.conv(image(1, 3, 32, 32), weights(8, 3, 8, 8), stride=8),
    "every eighth place": lambda: af.conv(image(1, 8, 32, 32), weights(8, 8, 1, 1), stride=8),
    "large groups": lambda: af.conv(image(1, 1024, 4, 4), weights(8, 512, 1, 1), groups=2),
    "resize": lambda: made("upsample_bilinear", scale_factor_height=1.5, scale_factor_width=1.5),
}
"""What our passes rebuild as convolutions of 1×1: MIL has the convolution or the resize as it was asked for."""


def made(op: str, **attributes: float) -> af.Tensor:
    return af.Tensor(build(op, {"x": image(1, 4, 8, 8)}, attributes))


@pytest.mark.parametrize("name", REBUILT)
def test_what_passes_rebuild_claims_no_more_than_what_was_asked_for(name: str) -> None:
    program = af.build_program(REBUILT[name](), "h13")
    labels = labels_of_layers(program)
    rebuilt = [layer for layer in program.layers if layer.kind.name == "convolution"]
    assert rebuilt
    assert {layer.integers("kernel_sizes") for layer in rebuilt} == {(1, 1)}
    assert {str(labels[layer.name].exactness) for layer in rebuilt} == {"modelled"}


@pytest.mark.parametrize("side", [1, 3])
def test_figures_are_of_constant_kernels(side: int) -> None:
    """Whether a computed kernel is in the form of Winograd is not known either, and the program says so."""
    computed = af.dynamic_conv(image(1, 4, 6, 6), af.input((4, 4, side, side), name="w"), pad=side // 2)
    constant = af.conv(image(1, 4, 6, 6), weights(4, 4, side, side), pad=side // 2)
    for target in ("h13", "h16g", "h17", "h18g"):
        for graph, expected in ((computed, "modelled"), (constant, "exact")):
            program = af.build_program(graph, target)
            assert {str(label.exactness) for label in labels_of_layers(program).values()} == {expected}


def test_what_the_mil_text_says_itself_is_labelled_as_it_is() -> None:
    program = af.build_program(af.conv(image(1, 3, 28, 28), weights(8, 3, 14, 14), stride=14), "h13")
    (conv,) = (layer for layer in program.layers if layer.kind.name == "convolution")
    assert str(labels_of_layers(program)[conv.name].exactness) == "exact"


def label_of(graph: af.Tensor, target: str, *values: Any) -> str:  # noqa: ANN401 - arrays or lists of numbers
    program = af.build_program(graph, target)
    given = {port.name: np.asarray(value, np.float16) for port, value in zip(program.inputs, values, strict=True)}
    return str(af.run(program, given).label.exactness)


WILD: list[tuple[Callable[[af.Tensor], af.Tensor], list[float], list[float]]] = [
    (lambda x: (x * 2.0).erf(), [0.5, 0.25], [0.5, 1.5]),
    (lambda x: x * 2.0, [0.5, 65504], [0.5, np.inf]),
    (lambda x: x + 2.0, [0.5, 1], [0.5, np.nan]),
    (lambda x: (x * 2.0).tanh(), [0.5, 1], [0.5, 60000]),
    (lambda x: x.relu(), [0.0, 1], [-0.0, 1]),
    (lambda x: (x * -1.0).relu(), [-1.0, 1], [0.0, 1]),
    (lambda x: x.clip(0.0, 1.0), [0.0, 1], [-0.0, 1]),
    (lambda x: x.amax(-1), [0.0, 1], [0.0, -0.0]),
    (lambda x: (x + x).relu(), [1.0, 2], [60000, 2]),
]


@pytest.mark.parametrize(("build", "tame", "wild"), WILD)
def test_values_in_slots_and_zeros_of_both_signs_make_a_result_modelled(
    build: Callable[[af.Tensor], af.Tensor], tame: list[float], wild: list[float]
) -> None:
    graph = build(image(1, 2))
    assert label_of(graph, "m6", [tame]) == "exact"
    assert label_of(graph, "m6", [wild]) == "modelled"


def test_the_larger_of_zeros_of_both_signs_is_modelled() -> None:
    graph = af.maximum(image(1, 2), af.input((1, 2), name="y"))
    assert label_of(graph, "m6", [[0.0, -0.0]], [[0.0, -0.0]]) == "exact"
    assert label_of(graph, "m6", [[0.0, 1.0]], [[-0.0, 1.0]]) == "modelled"


def test_strict_does_not_let_a_product_with_a_number_pass_on_an_unmeasured_chip() -> None:
    y = image(1, 64) * 3.0
    with pytest.raises(AneforgeError, match="planar_rounding was not measured for this target"):
        af.compile(y, target="m3", strict=True)


def test_products_of_integers_are_computed_as_mathematics_and_modelled() -> None:
    """Only a network description brings them to a target, below the floor of MIL."""
    shapes = {"x": (2, 3), "y": (3, 2)}
    inputs = {
        name: af.Tensor(build("input", {}, {"shape": shape, "dtype": "int32", "name": name}))
        for name, shape in shapes.items()
    }
    program = af.build_program(af.Graph({"y": af.Tensor(build("matmul", inputs, {}))}), "h12", route="direct")
    values = {"x": np.arange(6, dtype=np.int32).reshape(2, 3), "y": np.arange(6, dtype=np.int32).reshape(3, 2)}
    found = af.run(program, values)
    assert found.outputs["y"].tolist() == (values["x"] @ values["y"]).tolist()
    assert str(found.label.exactness) != "exact"
