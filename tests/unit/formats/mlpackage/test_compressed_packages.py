"""Compressed weights in packages: in the form of the lowest opset that has one, and once where functions share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.formats.mlpackage.mlpackage_model import load_mlpackage
from aneforge.ops.composed import Composed, Recipe
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from unit.formats.mlpackage.package_files import WEIGHTS

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.ops.constant import Constant

pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes write packages, is not installed")
SHAPE = (4, 6)
INDICES = np.arange(24, dtype=np.uint8).reshape(SHAPE)


def palette(bits: int) -> Palette:
    """Return weights that look up a table."""
    return Palette(INDICES % min(1 << bits, 24), np.arange(min(1 << bits, 24)).astype(np.float16), bits)


def sparse(count: int) -> Sparse:
    """Return weights of which some are there."""
    return Sparse(count > INDICES, np.arange(1, count + 1).astype(np.float16))


GROUPED = Composed(
    Recipe(
        "constexpr_lut_to_dense",
        {"indices": Dense(INDICES % 2), "lut": Dense(np.arange(8, dtype=np.float16).reshape(4, 1, 2, 1))},
        bits=1,
    )
)
LOWEST: dict[str, tuple[Constant, str]] = {
    **{f"palette{bits}": (palette(bits), "ios16") for bits in (1, 2, 4, 6, 8)},
    "palette3": (palette(3), "ios18"),  # indices of three bits came with ios18
    "sparse": (sparse(5), "ios16"),
    "empty": (sparse(0), "ios18"),  # a mask that keeps nothing
    "int8": (Int8Affine(np.ones(SHAPE, np.int8), np.array([0.5], np.float16)), "ios16"),
    "blockwise": (Blockwise(np.ones(SHAPE, np.int8), np.ones((4, 2), np.float16)), "ios18"),
    "grouped": (GROUPED, "ios18"),
}


@pytest.mark.parametrize("name", LOWEST)
def test_a_compressed_weight_asks_for_the_lowest_opset_that_has_it(name: str, tmp_path: Path) -> None:
    weight, opset = LOWEST[name]
    graph = af.Graph({"y": af.input((1, 6), name="x").linear(weight)})
    package = load_mlpackage(af.save_mlpackage(graph, tmp_path / "a.mlpackage"))
    assert package.functions == {"main": opset}
    (constant,) = package.graph().constants.values()
    assert type(constant) is type(weight)
    assert constant.dense().tolist() == weight.dense().tolist()


def test_a_palette_beside_what_needs_the_newest_opset_has_its_form(tmp_path: Path) -> None:
    x = af.input((1, 6), name="x")
    graph = af.Graph({"y": x.linear(palette(4)) + x.linear(GROUPED)})
    package = load_mlpackage(af.save_mlpackage(graph, tmp_path / "a.mlpackage"))
    assert package.functions == {"main": "ios18"}
    assert {type(constant) for constant in package.graph().constants.values()} == {Palette, Composed}


def test_equal_weights_of_functions_are_stored_once(tmp_path: Path) -> None:
    def function(rows: int) -> af.Graph:
        weight = np.arange(64, dtype=np.float16).reshape(8, 8)
        return af.Graph({"y": af.input((rows, 8), name="x").linear(weight)})

    one = af.save_mlpackage({"first": function(1)}, tmp_path / "one.mlpackage")
    two = af.save_mlpackage({"first": function(1), "second": function(2)}, tmp_path / "two.mlpackage")
    assert (two / WEIGHTS).stat().st_size == (one / WEIGHTS).stat().st_size
    package = load_mlpackage(two)
    for name, rows in (("first", 1), ("second", 2)):
        found = af.reference(package.graph(name), [np.ones((rows, 8))])["y"]
        assert found[0].tolist() == np.arange(64).reshape(8, 8).sum(1).tolist()
