"""ML packages that are read: what they mean, what is kept, and what can be chosen."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mlpackage.mlpackage_model import MlPackage, from_mlpackage, load_mlpackage
from aneforge.graph.node import build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from unit.formats.mlpackage.package_files import MODEL, bare, changed, operation, saved

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.formats.mlpackage.messages import MilBlock, MilPort, MilValue, Model
    from aneforge.ops.constant import Constant

pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes read packages, is not installed")


def small() -> af.Graph:
    x = af.input((1, 4), name="x")
    return af.Graph({"y": (x * 2.0 + 0.1).relu()})


def tensor(port: MilPort, name: str, dtype: int, *extents: int) -> None:
    """Fill in a port of a program."""
    port.name = name
    port.type.tensorType.dataType = dtype
    port.type.tensorType.rank = len(extents)
    for extent in extents:
        port.type.tensorType.dimensions.add().constant.size = extent


def test_a_package_gives_its_graph_back(tmp_path: Path) -> None:
    path = saved(small(), tmp_path)
    package = load_mlpackage(path)
    assert isinstance(package, MlPackage)
    assert bare(package.graph()) == bare(small())
    assert package.functions == {"main": "ios16"}
    assert (package.default_function, package.specification_version) == ("main", 7)
    assert repr(package) == "<ML program of main<ios16>>"
    assert package.findings() == ()


def test_reading_does_not_load_coremltools(tmp_path: Path) -> None:
    path = saved(small(), tmp_path)
    code = f"import sys, aneforge as af; print(af.from_mlpackage({str(path)!r})); print('coremltools' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False"
    assert run.stderr == ""


WEIGHTS = np.linspace(-1, 1, 12).reshape(3, 4)
QUANTISED = (np.arange(12) - 6).reshape(3, 4).astype(np.int8)
SCALE = np.array([[0.5], [0.25], [2]], np.float16)
ENCODED: dict[str, Constant] = {
    "affine": Int8Affine(QUANTISED, np.array([0.5, 0.25, 2], np.float16), np.array([1, 0, -1], np.int8), 0),
    "palette": Palette(np.arange(12, dtype=np.uint8).reshape(3, 4) % 4, np.array([0, 1, -2, 3], np.float16), 2),
    "sparse": Sparse(WEIGHTS > 0, WEIGHTS[WEIGHTS > 0].astype(np.float16)),
    "blocks": Blockwise(QUANTISED, SCALE, None),
    "blocks with offset": Blockwise(QUANTISED, SCALE, np.array([[1], [2], [3]], np.int8)),
}


@pytest.mark.parametrize("name", ENCODED)
def test_compressed_weights_stay_compressed(name: str, tmp_path: Path) -> None:
    constant = ENCODED[name]
    x = af.input((1, 4), name="x")
    graph = af.Graph({"y": x.linear(constant)})
    read = from_mlpackage(saved(graph, tmp_path))
    (found,) = read.constants.values()
    assert type(found) is type(constant)
    assert found == constant
    assert bare(read) == bare(graph)


def test_a_state_is_read_and_written(tmp_path: Path) -> None:
    x = af.input((1, 4), name="x")
    total = af.state("total", (1, 4)) + x
    graph = af.Graph({"y": total * 2.0}, {"total": total})
    package = load_mlpackage(saved(graph, tmp_path))
    assert package.functions == {"main": "ios18"}
    read = package.graph()
    start = {"total": np.full((1, 4), 3.0)}
    outputs, states = evaluate(read, [np.ones((1, 4))], start)
    assert outputs["y"].tolist() == [[8.0] * 4]
    assert states["total"].tolist() == [[4.0] * 4]


def test_functions_are_chosen_by_name(tmp_path: Path) -> None:
    x = af.input((1, 4), name="x")
    path = saved({"first": af.Graph({"y": x.relu()}), "second": af.Graph({"y": x.tanh()})}, tmp_path)
    package = load_mlpackage(path)
    assert package.functions == {"first": "ios18", "second": "ios18"}
    assert package.default_function == "first"
    assert [node.op.name for node in package.graph().nodes] == ["input", "relu"]
    assert [node.op.name for node in from_mlpackage(path, function="second").nodes] == ["input", "tanh"]
    with pytest.raises(UnknownNameError, match="unknown function 'third'; "):
        package.graph("third")


def test_a_bare_model_file_is_read_with_the_weights_beside_it(tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4), name="x").linear(WEIGHTS.astype(np.float16))})
    package = saved(graph, tmp_path)
    assert bare(from_mlpackage(package / MODEL)) == bare(graph)


def flexible(model: Model) -> None:
    """Make the last axis of the input and of every result one of unknown length."""
    function = model.mlProgram.functions["main"]
    (opset,) = function.block_specializations
    for port in (
        *function.inputs,
        *(one for op in function.block_specializations[opset].operations for one in op.outputs),
    ):
        if len(port.type.tensorType.dimensions):
            port.type.tensorType.dimensions[0].unknown.variadic = False


def test_flexible_inputs_need_their_shapes(tmp_path: Path) -> None:
    path = changed(saved(af.input((2, 4), name="x").relu(), tmp_path), flexible)
    with pytest.raises(GraphError, match=r"inputs have axes of unknown length: x tensor<fp16, \[\?, 4\]>") as raised:
        from_mlpackage(path)
    assert "shapes={'x': (2, 4)}" in str(raised.value)
    assert from_mlpackage(path, shapes={"x": (7, 4)}).outputs["y"].type.shape == (7, 4)
    with pytest.raises(GraphError, match="input 'x' has another shape"):
        from_mlpackage(path, shapes={"x": (7, 5)})
    with pytest.raises(GraphTypeError, match="the shape of input 'x' is not a list of lengths"):
        from_mlpackage(path, shapes={"x": 7})  # pyright: ignore[reportArgumentType] - the wrong sort is what is tested
    with pytest.raises(UnknownNameError, match="unknown input 'z'"):
        from_mlpackage(path, shapes={"z": (7, 4)})


def test_inputs_become_constants_by_their_values(tmp_path: Path) -> None:
    x = af.input((4, 4), name="x")
    cut = Tensor(build("slice_by_size", {"x": x}, {"begin": (1, 0), "size": (2, 2)}))
    path = saved(af.Graph({"y": cut}), tmp_path)

    def change(model: Model) -> None:
        function = model.mlProgram.functions["main"]
        tensor(function.inputs.add(), "place", 23, 2)
        operation(model, "slice_by_size").inputs["begin"].arguments[0].name = "place"

    changed(path, change)
    with pytest.raises(MilError, match="Parameter begin is not known when the program is compiled"):
        from_mlpackage(path)
    graph = from_mlpackage(path, values={"place": np.array([1, 0])})
    assert list(graph.inputs) == ["x"]
    with pytest.raises(GraphError, match="input 'place' does not hold the values given for it"):
        from_mlpackage(path, values={"place": np.array([0.5, 0])})


def with_condition(model: Model, predicate: str) -> None:
    """Put a condition after the program: its branches negate and double."""
    function = model.mlProgram.functions["main"]
    (opset,) = function.block_specializations
    block = function.block_specializations[opset]
    condition = block.operations.add()
    condition.type = "cond"
    condition.inputs["pred"].arguments.add().name = predicate
    for number, op in enumerate(("exp", "tanh")):
        branch = condition.blocks.add()
        inner = branch.operations.add()
        inner.type = op
        inner.inputs["x"].arguments.add().name = block.outputs[0]
        tensor(inner.outputs.add(), f"branch{number}", 10, 1, 4)
        branch.outputs.append(f"branch{number}")
    tensor(condition.outputs.add(), "chosen", 10, 1, 4)
    block.outputs.append("chosen")


def test_a_condition_is_both_branches_or_the_one_that_is_known(tmp_path: Path) -> None:
    x = af.input((1, 4), name="x")
    path = saved(x.relu(), tmp_path)

    def change(model: Model) -> None:
        flag = model.mlProgram.functions["main"].inputs.add()
        tensor(flag, "flag", 1)
        with_condition(model, "flag")

    changed(path, change)
    graph = from_mlpackage(path)
    assert "cond" in [node.op.name for node in graph.nodes]
    values = np.array([[0.0, 1, 2, 3]])
    for flag, function in ((True, np.exp), (False, np.tanh)):
        results = af.reference(graph, {"x": values, "flag": np.array(flag)})
        np.testing.assert_allclose(results["chosen"], function(values))
    known = from_mlpackage(path, values={"flag": np.zeros((), np.bool_)})
    assert [node.op.name for node in known.nodes] == ["input", "relu", "tanh"]


def add_loop(block: MilBlock, count: int) -> None:
    """Put a loop after a program that doubles a value some times."""
    for name, value in (("zero", 0), ("one", 1), ("turns", count)):
        const = block.operations.add()
        const.type = "const"
        tensor(const.outputs.add(), name, 23)
        held = const.attributes["val"]
        held.type.tensorType.dataType = 23
        held.immediateValue.tensor.ints.values.append(value)
    loop = block.operations.add()
    loop.type = "while_loop"
    for name in ("zero", block.outputs[0]):
        loop.inputs["loop_vars"].arguments.add().name = name
    condition, body = loop.blocks.add(), loop.blocks.add()
    for part, suffix in ((condition, "c"), (body, "b")):
        tensor(part.inputs.add(), f"i{suffix}", 23)
        tensor(part.inputs.add(), f"v{suffix}", 10, 1, 4)
    less = condition.operations.add()
    less.type = "less"
    less.inputs["x"].arguments.add().name, less.inputs["y"].arguments.add().name = "ic", "turns"
    tensor(less.outputs.add(), "going", 1)
    condition.outputs.append("going")
    for op, first, second, name, shape in (("add", "ib", "one", "next", ()), ("add", "vb", "vb", "twice", (1, 4))):
        step = body.operations.add()
        step.type = op
        step.inputs["x"].arguments.add().name, step.inputs["y"].arguments.add().name = first, second
        tensor(step.outputs.add(), name, 10 if shape else 23, *shape)
        body.outputs.append(name)
    tensor(loop.outputs.add(), "last", 23)
    tensor(loop.outputs.add(), "result", 10, 1, 4)
    block.outputs.append("result")


@pytest.mark.parametrize("count", [0, 3])
def test_a_loop_of_a_known_count_is_written_out(count: int, tmp_path: Path) -> None:
    path = saved(af.input((1, 4), name="x").relu(), tmp_path)

    def change(model: Model) -> None:
        function = model.mlProgram.functions["main"]
        (opset,) = function.block_specializations
        add_loop(function.block_specializations[opset], count)

    changed(path, change)
    results = af.reference(from_mlpackage(path), [np.array([[1.0, 2, 3, 4]])])
    assert results["result"].tolist() == [[2.0**count * value for value in (1, 2, 3, 4)]]


def test_an_endless_loop_stops(tmp_path: Path) -> None:
    path = saved(af.input((1, 4), name="x").relu(), tmp_path)

    def change(model: Model) -> None:
        function = model.mlProgram.functions["main"]
        (opset,) = function.block_specializations
        add_loop(function.block_specializations[opset], 2**31 - 1)

    with pytest.raises(MilError, match="more than 4096 iterations"):
        from_mlpackage(changed(path, change))


def test_numbers_that_half_precision_does_not_hold_come_back(tmp_path: Path) -> None:
    graph = af.Graph({"y": af.input((1, 4), name="x") + 0.1})
    path = saved(graph, tmp_path)
    assert bare(from_mlpackage(path)) == bare(graph)

    def forget(model: Model) -> None:
        model.mlProgram.attributes["buildInfo"].immediateValue.dictionary.SetInParent()
        pairs = model.mlProgram.attributes["buildInfo"].immediateValue.dictionary.values
        pairs[0].value.immediateValue.tensor.strings.values[0] = "0x1p+0"  # pyright: ignore[reportIndexIssue] - a field

    with pytest.raises(MilError, match="a number that rounds to the const's"):
        from_mlpackage(changed(path, forget))


def test_port_casts_can_be_left_to_the_host(tmp_path: Path) -> None:
    path = af.save_mlpackage(small(), tmp_path / "casts.mlpackage", port_casts=True)
    assert load_mlpackage(path).functions == {"main": "ios15"}
    assert from_mlpackage(path).outputs["y"].dtype == "fp32"
    assert bare(from_mlpackage(path, port_casts=False)) == bare(small())


def test_a_weight_that_is_not_compressed_is_dense(tmp_path: Path) -> None:
    read = from_mlpackage(saved(af.input((1, 4), name="x").linear(WEIGHTS.astype(np.float16)), tmp_path))
    (constant,) = read.constants.values()
    assert isinstance(constant, Dense)


@pytest.mark.parametrize(
    ("extent", "count", "places"),
    [
        (2, 3, [0, 1, 1]),
        (2, 4, [0, 0, 1, 1]),
        (2, 6, [0, 0, 1, 1, 1, 1]),
        (5, 3, [0, 2, 3]),
        (6, 3, [0, 2, 4]),
        (4, 4, [0, 1, 2, 3]),
        (1, 3, [0, 0, 0]),
        (3, 1, [0]),
    ],
)
def test_a_resize_takes_the_nearest_element(extent: int, count: int, places: list[int], tmp_path: Path) -> None:
    linear = Tensor(build("resize", {"x": af.input((1, extent), name="x")}, {"shape": (count,), "resized_dims": 1}))
    package = saved(af.Graph({"y": linear}), tmp_path)

    def change(model: Model) -> None:
        mode = operation(model, "resize").inputs["interpolation_mode"].arguments[0].name
        texts = const(model, mode).immediateValue.tensor.strings.values
        texts[0] = "NEAREST_NEIGHBOR"  # pyright: ignore[reportIndexIssue] - protobuf's lists are written to

    graph = from_mlpackage(changed(package, change))
    assert af.reference(graph, [np.arange(extent)[None]])["y"].tolist() == [places]


def const(model: Model, name: str) -> MilValue:
    """Return the value of a const by its name."""
    (block,) = (
        function.block_specializations[key]
        for function in [model.mlProgram.functions["main"]]
        for key in function.block_specializations
    )
    return next(one.attributes["val"] for one in block.operations if one.outputs[0].name == name)


def in_opset(model: Model, opset: str) -> None:
    """State another opset for the only function."""
    function = cast("Any", model.mlProgram.functions["main"])
    (before,) = function.block_specializations
    function.block_specializations[opset].CopyFrom(function.block_specializations[before])
    del function.block_specializations[before]
    function.opset = opset


def test_an_operation_that_is_newer_than_the_opset_is_refused(tmp_path: Path) -> None:
    x = af.input((1, 2, 4, 8), name="x")
    y = Tensor(build("sdpa", {"query": x, "key": x, "value": x}))
    path = saved(af.Graph({"y": y}), tmp_path)
    assert load_mlpackage(path).findings() == ()
    changed(path, lambda model: in_opset(model, "CoreML7"))
    for read in (from_mlpackage, af.load_model):
        with pytest.raises(MilError, match=r"MIL-OP-004.*came in this form with opset ios18.*ios17"):
            read(path)


def test_a_linear_layer_of_four_axes_is_noted(tmp_path: Path) -> None:
    path = saved(af.Graph({"y": af.input((1, 3, 2), name="x").linear(np.ones((4, 2)))}), tmp_path)
    assert load_mlpackage(path).findings() == ()

    def four_axes(model: Model) -> None:
        port, result = model.mlProgram.functions["main"].inputs[0], operation(model, "linear").outputs[0]
        for one, last in ((port, 2), (result, 4)):
            dtype = one.type.tensorType.dataType
            del cast("Any", one.type.tensorType.dimensions)[:]
            tensor(one, one.name, dtype, 1, 1, 3, last)

    changed(path, four_axes)
    (finding,) = load_mlpackage(path).findings()
    assert (finding.rule, finding.seen) == ("MIL-LINEAR-002", "4 axes")
    assert from_mlpackage(path).outputs["y"].type.shape == (1, 1, 3, 4)
