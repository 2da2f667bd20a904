"""Ports of packages that a graph has in another form: flexible shapes, images, and labels of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mlpackage.messages import messages
from aneforge.formats.mlpackage.mlpackage_model import from_mlpackage, load_mlpackage
from unit.formats.mlpackage.package_files import changed, saved

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.formats.mlpackage.messages import Model

pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes read packages, is not installed")
SHAPE = (1, 3, 8, 8)


def loosen(model: Model, *axes: int) -> None:
    """Make axes of the input, and of every result, ones of unknown length."""
    function = model.mlProgram.functions["main"]
    (opset,) = function.block_specializations
    results = [port for op in function.block_specializations[opset].operations for port in op.outputs]
    for port in (*function.inputs, *results):
        for axis in axes if len(port.type.tensorType.dimensions) else ():
            port.type.tensorType.dimensions[axis].unknown.variadic = False


def ranged(model: Model) -> None:
    """Allow lengths within ranges."""
    loosen(model, 0, 3)
    sizes = cast("Any", model.description.input[0].type.multiArrayType.shapeRange.sizeRanges)
    for least, most in ((1, 4), (3, 3), (8, 8), (2, -1)):
        sizes.add(lowerBound=least, upperBound=most)


def enumerated(model: Model) -> None:
    """Allow shapes of a list."""
    loosen(model, 2, 3)
    shapes = cast("Any", model.description.input[0].type.multiArrayType.enumeratedShapes.shapes)
    for extent in (8, 16):
        shapes.add(shape=(1, 3, extent, extent))


def image(model: Model) -> None:
    """Make the input an image of one of two sizes."""
    loosen(model, 2, 3)
    kind = cast("Any", model.description.input[0].type)
    kind.Clear()
    kind.imageType.width, kind.imageType.height = 10, 6
    for width, height in ((10, 6), (20, 12)):
        kind.imageType.enumeratedSizes.sizes.add(width=width, height=height)


def image_range(model: Model) -> None:
    """Make the input an image whose height and width are within ranges."""
    loosen(model, 2, 3)
    kind = cast("Any", model.description.input[0].type)
    kind.Clear()
    kind.imageType.width, kind.imageType.height = 10, 6
    sizes = kind.imageType.imageSizeRange
    sizes.heightRange.lowerBound, sizes.heightRange.upperBound = 6, 12
    sizes.widthRange.lowerBound, sizes.widthRange.upperBound = 10, -1


CASES = {
    "ranged": (ranged, "[1 to 4, 3, 8, 2 or more]", (1, 3, 8, 8), (4, 3, 8, 99), (5, 3, 8, 8)),
    "enumerated": (enumerated, "[1, 3, 8, 8] or [1, 3, 16, 16]", (1, 3, 8, 8), (1, 3, 16, 16), (1, 3, 8, 16)),
    "image": (image, "[6, 10] or [12, 20]", (1, 3, 6, 10), (1, 3, 12, 20), (1, 3, 10, 6)),
    "image_range": (image_range, "[6 to 12, 10 or more]", (1, 3, 6, 10), (1, 3, 12, 40), (1, 3, 13, 40)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_allowed_is_said_and_checked(name: str, tmp_path: Path) -> None:
    change, allowed, usual, good, bad = CASES[name]
    path = changed(saved(af.input(SHAPE, name="x").relu(), tmp_path), change)
    with pytest.raises(GraphError, match="inputs have axes of unknown length: x tensor<fp16") as raised:
        from_mlpackage(path)
    assert f"({allowed} allowed)" in str(raised.value)
    assert f"shapes={{'x': {usual}}}" in str(raised.value)
    assert from_mlpackage(path, shapes={"x": good}).outputs["y"].type.shape == good
    with pytest.raises(GraphError, match="input 'x' has a shape that the package does not allow") as refused:
        from_mlpackage(path, shapes={"x": bad})
    assert f"got {list(bad)}, expected {allowed}" in str(refused.value)


def classifying(model: Model) -> None:
    """Let a program end with a classification."""
    function = cast("Any", model.mlProgram.functions["main"])
    (opset,) = function.block_specializations
    block = function.block_specializations[opset]
    codes = messages().element_codes
    operation = block.operations.add(type="classify")
    operation.inputs["probabilities"].arguments.add(name="y")
    for name in ("label", "label_probs"):
        operation.outputs.add(name=name)
    operation.outputs[0].type.tensorType.dataType = codes["STRING"]
    pairs = operation.outputs[1].type.dictionaryType
    pairs.keyType.tensorType.dataType, pairs.valueType.tensorType.dataType = codes["STRING"], codes["FLOAT64"]
    del block.outputs[:]
    block.outputs.extend(["label", "label_probs"])


def test_a_classifier_gives_its_probabilities(tmp_path: Path) -> None:
    path = changed(saved(af.input((1, 4), name="x").softmax(), tmp_path), classifying)
    package = load_mlpackage(path)
    graph = package.graph()
    assert list(graph.outputs) == ["label_probs"]
    assert af.reference(graph, [np.zeros((1, 4))])["label_probs"].tolist() == [[0.25] * 4]
    (finding,) = package.findings()
    assert finding.rule == "MIL-PACKAGE-004"
    assert "output label_probs has the probabilities in the order of the labels, and label is left out" in str(finding)


def test_a_classification_of_nothing_is_refused(tmp_path: Path) -> None:
    def change(model: Model) -> None:
        classifying(model)
        function = cast("Any", model.mlProgram.functions["main"])
        (opset,) = function.block_specializations
        function.block_specializations[opset].operations[-1].inputs["probabilities"].arguments[0].name = "nothing"

    with pytest.raises(MilError, match="found dictionary"):
        from_mlpackage(changed(saved(af.input((1, 4), name="x").softmax(), tmp_path), change))


def test_an_output_that_is_given_twice_is_one(tmp_path: Path) -> None:
    def change(model: Model) -> None:
        function = cast("Any", model.mlProgram.functions["main"])
        (opset,) = function.block_specializations
        function.block_specializations[opset].outputs.append("y")

    package = load_mlpackage(changed(saved(af.input((1, 4), name="x").relu(), tmp_path), change))
    assert list(package.graph().outputs) == ["y"]
    assert [finding.rule for finding in package.findings()] == ["MIL-PACKAGE-005"]
