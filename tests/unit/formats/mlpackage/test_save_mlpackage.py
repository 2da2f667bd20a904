"""Graphs that are written as ML packages: read back they mean the same, and coremltools takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, GraphError, NotSupportedError
from aneforge.formats.mil.opsets import OPSETS, public_operations
from aneforge.formats.mlpackage.messages import messages
from aneforge.formats.mlpackage.mlpackage_dialect import CHECKS
from aneforge.formats.mlpackage.mlpackage_model import load_mlpackage
from aneforge.formats.mlpackage.package import in_package_form, put_in_place
from aneforge.graph.node import build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import ops
from aneforge.ops.types import is_float, numpy_dtype
from fuzz_mil import one_operation
from unit.formats.mlpackage.coreml_loading import check_that_coremltools_loads
from unit.formats.mlpackage.package_files import MODEL, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.mlpackage.messages import Model
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array

pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes write packages, is not installed")
DRAWN = {name for name in ops() if name.startswith("random")}
"""Operations whose numbers are drawn."""
REFUSALS = (
    "not a public operation of Core ML",
    "no form in MIL text",
    "a graph cannot write it",
    "no port of Core ML has",
    "Core ML does not take",
    "it reads a tensor as a list",
)


def feeds(graph: Graph) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {
        name: generator.standard_normal(node.types[0].shape)
        if is_float(node.types[0].dtype)
        else np.zeros(node.types[0].shape, numpy_dtype(node.types[0].dtype))
        for name, node in graph.inputs.items()
    }


def refused(graph: Graph, path: Path) -> str:
    """Write a graph, or return why it cannot be."""
    try:
        af.save_mlpackage(graph, path)
    except NotSupportedError as error:
        return str(error)
    return ""


def model_of(path: Path) -> Model:
    return messages().model.FromString((path / MODEL).read_bytes())


CHANGED_TYPES = "ignore:Core ML has no"
"""Samples of all element types are written; what is warned of has tests of its own."""


@pytest.mark.filterwarnings(CHANGED_TYPES)
@pytest.mark.parametrize("name", sorted(set(ops()) - {"input", "state", "const"}))
def test_every_operation_means_the_same_read_back_or_is_refused(name: str, tmp_path: Path) -> None:
    graph = one_operation(ops()[name], np.random.default_rng(5))
    path = tmp_path / "one.mlpackage"
    refusal = refused(graph, path)
    if refusal:
        assert any(words in refusal for words in REFUSALS), refusal
        assert not list(tmp_path.iterdir())
        return
    read = load_mlpackage(path).graph()
    values = feeds(graph)
    if ops()[name].meaning is None or name in DRAWN:
        return
    fed = {key: values[key] * 1 if values[key].dtype == np.bool_ else values[key] for key in read.inputs}
    wanted, found = evaluate(graph, values)[0], evaluate(read, fed)[0]
    tolerance = ROUNDED.get(name, 1e-9)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=tolerance, atol=1e-12)


ROUNDED: dict[str, float] = dict.fromkeys(("channel_layer_norm", "group_norm", "rms_norm"), 2.0 ** (-10))
"""Operations whose parameters become constants of the tensor's own element type."""
REBUILT = sorted(name for name in CHECKS if not name.startswith("constexpr_") and name != "conv_transpose")
"""Operations that Core ML takes in fewer forms; samples of the one left out have computed weights, which it refuses."""


@pytest.mark.parametrize("name", REBUILT)
def test_what_is_rebuilt_means_the_same(name: str) -> None:
    compared = 0
    for seed in range(40):
        graph = one_operation(ops()[name], np.random.default_rng(seed))
        try:
            rebuilt = in_package_form(graph).graph
        except NotSupportedError as error:
            assert "Core ML does not take" in str(error)  # noqa: PT017 - most samples raise nothing
            continue
        assert rebuilt.inputs.keys() == graph.inputs.keys()
        values = feeds(graph)
        wanted, found = evaluate(graph, values)[0], evaluate(rebuilt, values)[0]
        for key, value in wanted.items():
            seen = ~np.isnan(value.astype(np.float64))  # a query that may see no key has no attention
            np.testing.assert_allclose(found[key][seen], value[seen], rtol=1e-9, atol=1e-12)
        compared += 1
    assert compared > 5


@pytest.mark.filterwarnings(CHANGED_TYPES)
def test_coremltools_takes_what_is_written(tmp_path: Path) -> None:
    generator = np.random.default_rng(11)
    paths: list[str] = []
    for name in ("relu", "linear", "softmax", "concat", "gather", "lstm", "gru", *REBUILT):
        for number in range(6):
            try:
                graph = one_operation(ops()[name], generator)
                path = af.save_mlpackage(graph, tmp_path / f"{name}{number}.mlpackage")
            except AneforgeError:
                continue  # a type that Core ML does not take
            paths.append(str(path))
    x = af.input((1, 4), name="x")
    total = af.state("total", (1, 4)) + x
    paths.append(str(af.save_mlpackage(af.Graph({"y": total}, {"total": total}), tmp_path / "state.mlpackage")))
    check_that_coremltools_loads(paths)
    assert len(paths) > 60


def test_ports_are_described(tmp_path: Path) -> None:
    x, wide = af.input((1, 4), name="x"), af.input((2, 4), name="a/b")
    total = af.state("total", (1, 4)) + x
    path = af.save_mlpackage(af.Graph({"y": total, "z:0": wide.relu()}, {"total": total}), tmp_path / "a.mlpackage")
    description = model_of(path).description
    assert [(one.name, list(one.type.multiArrayType.shape)) for one in description.input] == [
        ("x", [1, 4]),
        ("a_b", [2, 4]),
    ]
    assert {one.type.multiArrayType.dataType for one in description.input} == {messages().array_codes["FLOAT16"]}
    assert [one.name for one in description.output] == ["y", "z_0"]
    assert [one.name for one in description.state] == ["total"]
    assert model_of(path).specificationVersion == 9
    assert set(load_mlpackage(path).graph().inputs) == {"x", "a/b"}


def test_an_output_that_is_an_input_has_a_name_of_its_own(tmp_path: Path) -> None:
    x = af.input((1, 4), name="x")
    path = af.save_mlpackage(af.Graph({"x": x}), tmp_path / "a.mlpackage")
    description = model_of(path).description
    assert [one.name for one in description.input] != [one.name for one in description.output]
    assert list(load_mlpackage(path).graph().outputs) == ["x"]


LOWEST: dict[str, tuple[dict[str, object], str]] = {
    "relu": ({}, "ios16"),
    "gelu": ({}, "ios16"),
    "topk": ({"k": 2}, "ios16"),
    "resize": ({"shape": (8,), "resized_dims": 1}, "ios17"),
}


@pytest.mark.parametrize("op", LOWEST)
def test_the_opset_is_the_lowest_that_has_all(op: str, tmp_path: Path) -> None:
    attributes, opset = LOWEST[op]
    y = Tensor(build(op, {"x": af.input((1, 4), name="x")}, attributes))
    path = af.save_mlpackage(af.Graph({"y": y}), tmp_path / "a.mlpackage")
    assert load_mlpackage(path).functions == {"main": opset}


def test_single_precision_needs_no_more_than_the_first_opset(tmp_path: Path) -> None:
    path = af.save_mlpackage(af.input((1, 4), name="x").relu(), tmp_path / "a.mlpackage", port_casts=True)
    assert load_mlpackage(path).functions == {"main": "ios15"}
    assert model_of(path).specificationVersion == 6


def test_a_package_is_the_same_each_time_and_replaces_the_last(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    graph = af.Graph({"y": af.input((1, 4), name="x").linear(np.ones((2, 4), np.float16))})
    af.save_mlpackage(graph, path)
    before = {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    af.save_mlpackage(graph, path)
    assert before == {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert [one.name for one in tmp_path.iterdir()] == ["a.mlpackage"]
    assert len((path / WEIGHTS).read_bytes()) % 16 == 0
    assert json.loads((path / "Manifest.json").read_text(encoding="utf-8"))["fileFormatVersion"] == "1.0.0"


def test_nothing_else_is_replaced(tmp_path: Path) -> None:
    x = af.input((1, 4), name="x").relu()
    with pytest.raises(GraphError, match=r"the name of an ML package ends with \.mlpackage"):
        af.save_mlpackage(x, tmp_path / "a.mlmodel")
    (tmp_path / "b.mlpackage").mkdir()
    (tmp_path / "c.mlpackage").write_text("mine", encoding="utf-8")
    for name in ("b", "c"):
        with pytest.raises(GraphError, match="the path exists and is not an ML package"):
            af.save_mlpackage(x, tmp_path / f"{name}.mlpackage")
    assert (tmp_path / "c.mlpackage").read_text(encoding="utf-8") == "mine"


def test_what_core_ml_has_no_form_of_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    x = af.input((1, 4), name="x")
    with pytest.raises(NotSupportedError, match=r"port 'y' is of a type that no port .*limit 0 to 5 axes"):
        af.save_mlpackage(built("reshape", {"x": x}, shape=(1, 1, 1, 1, 1, 4)), path)
    with pytest.raises(NotSupportedError, match=r"port 's' is of a type that no port .*limit 1 to 5 axes"):
        af.save_mlpackage(built("relu", {"x": Tensor(build("input", {}, {"name": "s", "shape": ()}))}), path)
    state = Tensor(build("state", {}, {"name": "total", "shape": (1, 4), "dtype": "fp32"})).relu()
    with pytest.raises(
        NotSupportedError, match=r"state 'total' is of a type that Core ML has no states of.*expected fp16.*af\.to_fp16"
    ):
        af.save_mlpackage(af.Graph({"y": x.relu()}, {"total": state}), path)
    count = Tensor(build("state", {}, {"name": "count", "shape": (1,), "dtype": "int32"}))
    more = Tensor(build("add", {"x": count, "y": Dense(np.array([1], np.int32))}, {}))
    with pytest.raises(NotSupportedError, match=r"state 'count'.*or leave the state out of the graph"):
        af.save_mlpackage(af.Graph({"y": x.relu()}, {"count": more}), path)
    assert not list(tmp_path.iterdir())


def test_the_table_of_public_operations_is_in_order() -> None:
    table = public_operations()
    assert set(OPSETS) >= {opset for opsets in table.values() for opset in opsets}
    assert table["constexpr_lut_to_dense"]["ios18"]["indices"].split()[0] == "uint1"


def built(op: str, operands: Mapping[str, object], **attributes: object) -> af.Graph:
    """Return a graph of one operation."""
    return af.Graph({"y": Tensor(build(op, dict(operands), attributes))})  # pyright: ignore[reportArgumentType] - of any op


def test_a_transposed_convolution_with_a_computed_bias_means_the_same() -> None:
    x, bias = af.input((1, 2, 4, 4), name="x"), af.input((3,), name="bias")
    weight = np.linspace(-1, 1, 54).reshape(2, 3, 3, 3).astype(np.float16)
    graph = built("conv_transpose", {"x": x, "weight": Dense(weight), "bias": bias})
    rebuilt = in_package_form(graph).graph
    assert [node.op.name for node in rebuilt.nodes if node.op.name != "input"] == ["conv_transpose", "reshape", "add"]
    values = feeds(graph)
    np.testing.assert_allclose(evaluate(rebuilt, values)[0]["y"], evaluate(graph, values)[0]["y"], rtol=1e-12)


VOLUME = {"kernel_sizes": (2, 2, 2), "strides": (2, 2, 2), "pad_type": "valid", "ceil_mode": True}
UNEVEN = {"kernel_sizes": (3,), "strides": (2,), "pad_type": "custom", "pad": (0, 1), "ceil_mode": True}


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((1, 1, 5, 4, 4), VOLUME, r"Core ML does not take ceil_mode over three axes, .* \(got 3 axes, padding \[\]\)"),
        ((1, 1, 5), UNEVEN, r"with unequal padding \(got 1 axes, padding \[0, 1\]\).*leave ceil_mode out"),
    ],
)
def test_a_last_window_that_core_ml_would_leave_out_is_refused(
    shape: tuple[int, ...], attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(NotSupportedError, match=message):
        in_package_form(built("max_pool", {"x": af.input(shape)}, **attributes))


def test_a_flag_that_changes_nothing_is_left_out() -> None:
    rebuilt = in_package_form(built("max_pool", {"x": af.input((1, 1, 4, 4, 4))}, **VOLUME)).graph
    assert rebuilt.nodes[-1].attributes["ceil_mode"] is False


def test_dilations_of_computed_weights_are_refused() -> None:
    given = {"x": af.input((1, 1, 8, 8)), "weight": af.input((1, 1, 3, 3))}
    with pytest.raises(NotSupportedError, match=r"dilations where the weights are computed \(got \[2, 1\], limit 1\)"):
        in_package_form(built("dynamic_conv", given, dilations=(2, 1)))


@pytest.mark.parametrize("equation", ["ii,ij->j", "ij,ij->"])
def test_diagonals_and_sums_of_everything_are_products_of_matrices(equation: str) -> None:
    graph = built("einsum", {"values": (af.input((2, 2), name="a"), af.input((2, 2), name="b"))}, equation=equation)
    rebuilt = in_package_form(graph).graph
    assert "einsum" not in {node.op.name for node in rebuilt.nodes}
    values = feeds(graph)
    np.testing.assert_allclose(evaluate(rebuilt, values)[0]["y"], evaluate(graph, values)[0]["y"], rtol=1e-12)


@pytest.mark.parametrize("equation", ["nchw,nwhu->nchu", "chw,whr->chr"])
def test_the_equations_that_core_ml_takes_are_kept(equation: str) -> None:
    rank = equation.index(",")
    graph = built("einsum", {"values": (af.input((2,) * rank), af.input((2,) * rank))}, equation=equation)
    assert in_package_form(graph).graph == graph


NEAREST = {"interpolation_mode": "NEAREST_NEIGHBOR", "sampling_mode": "DEFAULT"}


@pytest.mark.parametrize(
    ("shape", "wished", "operation"),
    [
        ((1, 1, 2, 1), (3, 2), "gather"),  # Core ML takes 0, 1, 1 of the two
        ((1, 1, 2, 3), (4, 9), "upsample_nearest_neighbor"),
        ((4, 6), (8, 6), "gather"),  # no image
        ((1, 1, 6, 4), (3, 2), "resize"),  # no place is between two elements
        ((1, 1, 6, 4), (6, 4), "resize"),
    ],
)
def test_no_nearest_element_is_left_to_core_ml(
    shape: tuple[int, ...], wished: tuple[int, ...], operation: str, tmp_path: Path
) -> None:
    graph = built("resize", {"x": af.input(shape, name="x")}, shape=wished, resized_dims=len(wished), **NEAREST)
    assert in_package_form(graph).graph.nodes[-1].op.name == operation
    read = load_mlpackage(af.save_mlpackage(graph, tmp_path / "a.mlpackage")).graph()
    values = feeds(graph)
    assert np.array_equal(evaluate(read, values)[0]["y"], evaluate(graph, values)[0]["y"])


@pytest.mark.parametrize("raised", [OSError, KeyboardInterrupt])
def test_a_package_that_was_there_survives_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    made, target = tmp_path / "new", tmp_path / "net.mlpackage"
    for folder in (made, target):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    rename = Path.rename

    def interrupted(path: Path, to: Path) -> Path:
        if path == made:
            raise raised
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(raised):
        put_in_place(made, target)
    assert (target / "name").read_text() == "net.mlpackage"
    monkeypatch.undo()
    put_in_place(made, target)
    assert (target / "name").read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["net.mlpackage"]
