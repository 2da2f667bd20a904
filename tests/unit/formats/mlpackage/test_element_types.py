"""Element types that Core ML has not: narrower ones take their place, visibly, and the program means the same."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, NotSupportedError, PrecisionWarning
from aneforge.formats.mlpackage.element_types import (
    SMALL,
    in_package_types,
    is_same_in_whole,
    refuse_operands,
    with_casts,
)
from aneforge.graph.node import build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import ops
from aneforge.ops.types import numpy_dtype, value_range
from fuzz_mil import one_operation
from unit.formats.mlpackage.coreml_loading import check_that_coremltools_loads

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument
    from aneforge.ops.types import Array

pytest.importorskip("coremltools", reason="coremltools, whose protobuf classes write packages, is not installed")
HERE = Path(__file__).name


def port(name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
    return Tensor(build("input", {}, {"name": name, "shape": shape, "dtype": dtype}))


def node(op: str, operands: dict[str, Argument | None], **attributes: object) -> Tensor:
    return Tensor(build(op, operands, attributes))


def whole(*numbers: int, dtype: str = "int64") -> Dense:
    return Dense(np.array(numbers, numpy_dtype(dtype)))


M = port("m", (2, 4), "int64")
X = port("x", (2, 4), "fp32")
PLACES = node("cast", {"x": node("reduce_argmax", {"x": X}, axis=1, keep_dims=True)}, dtype="int64")
BYTES, TRUTH = (node("cast", {"x": X}, dtype=dtype) for dtype in ("uint8", "bool"))
COMPUTED = {
    "cumsum": node("cumsum", {"x": M}, axis=-1),
    "equal": node("cast", {"x": node("equal", {"x": M, "y": Dense(np.array(0))})}, dtype="fp32"),
    "floor_div": node("floor_div", {"x": M, "y": whole(3)}),
    "gather_along_axis": node("gather_along_axis", {"x": X, "indices": PLACES}, axis=1),
    "embedding": node("gather", {"x": Dense(np.arange(24, dtype=np.float32).reshape(8, 3)), "indices": M}, axis=0),
    "reduce_sum": node("reduce_sum", {"x": M}, axes=(1,)),
    "reshape": node("cast", {"x": node("reshape", {"x": M}, shape=(2, 1, 4))}, dtype="fp32"),
    "uint64": node("cast", {"x": node("cast", {"x": M}, dtype="uint64")}, dtype="fp32"),
    "uint32": node("cast", {"x": node("cast", {"x": M}, dtype="uint32")}, dtype="fp32"),
    "minimum": node("minimum", {"x": M, "y": whole(2**63 - 1)}),
    "maximum": node("maximum", {"x": M, "y": whole(-(2**63))}),
    "any": node("cast", {"x": node("reduce_max", {"x": BYTES}, axes=(1,))}, dtype="fp32"),
    "unequal": node("cast", {"x": node("not_equal", {"x": TRUTH, "y": Dense(np.ones((), np.bool_))})}, dtype="fp32"),
    "select": node("select", {"cond": TRUTH, "a": Dense(np.full((), -np.inf)), "b": Dense(np.full(1, 2.0))}),
    "fp64": node("sqrt", {"x": node("cast", {"x": X}, dtype="fp64")}),
}
"""Values whose element types Core ML has not, by what computes with them."""
FED: dict[str, Array] = {
    "m": np.random.default_rng(3).integers(0, 8, (2, 4)),
    "x": np.random.default_rng(4).integers(0, 3, (2, 4)).astype(np.float32),
}


def saved(graph: Graph, path: Path) -> Graph:
    """Return a graph as it is read from the package that it was written to; what is warned of has its own tests."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Core ML has no")
        return af.load_model(af.save_mlpackage(graph, path))


@pytest.mark.parametrize("name", COMPUTED)
def test_wide_numbers_mean_the_same_read_back(name: str, tmp_path: Path) -> None:
    graph = af.Graph({"y": COMPUTED[name]})
    read = saved(graph, tmp_path / "a.mlpackage")
    assert not {kind.dtype for one in read.nodes for kind in one.types} & {"int64", "uint64", "uint32", "fp64"}
    fed = {key: FED[key] for key in graph.inputs}
    assert np.array_equal(af.reference(read, fed)["y"], af.reference(graph, fed)["y"])


def test_coremltools_takes_them(tmp_path: Path) -> None:
    graphs = {name: af.Graph({"y": tensor}) for name, tensor in COMPUTED.items()}
    truth = node("logical_not", {"x": port("t", (2,), "bool")})
    graphs["ports"] = af.Graph({"a": truth, "b": node("reduce_sum", {"x": X}, axes=(0, 1), keep_dims=False)})
    for name, graph in graphs.items():
        saved(graph, tmp_path / f"{name}.mlpackage")
    paths = [str(tmp_path / f"{name}.mlpackage") for name in graphs]
    check_that_coremltools_loads(paths)


def test_what_becomes_narrower_is_warned_of_at_the_users_line(tmp_path: Path) -> None:
    with pytest.warns(PrecisionWarning) as found:
        af.save_mlpackage(af.Graph({"y": COMPUTED["reduce_sum"], "z": X.relu()}), tmp_path / "a.mlpackage")
    assert len(found) == 1
    assert str(found[0].message) == (
        "Core ML has no tensors of fp64, int64, uint32, uint64: taken were 2 of int64 as int32, among them the ports "
        "'m', 'y'"
    )
    assert Path(found[0].filename).name == HERE


def test_constants_alone_are_no_warning(tmp_path: Path) -> None:
    taken = node("gather", {"x": X, "indices": whole(1)}, axis=0)
    read = af.load_model(af.save_mlpackage(taken, tmp_path / "a.mlpackage"))
    assert read.outputs["y"].type.dtype == "fp32"


def test_nothing_is_warned_of_that_was_not_written(tmp_path: Path) -> None:
    unwritable = af.Graph({"y": COMPUTED["cumsum"], "z": node("acosh", {"x": X})})
    with pytest.raises(NotSupportedError, match="not a public operation"):
        af.save_mlpackage(unwritable, tmp_path / "a.mlpackage")
    assert not list(tmp_path.iterdir())


def test_ports_of_truth_values_are_whole_numbers_in_the_same_order(tmp_path: Path) -> None:
    first, second = port("a", (3,), "bool"), port("b", (3,), "fp32")
    graph = af.Graph({"y": node("logical_not", {"x": first}), "z": second.relu(), "w": first})
    path = tmp_path / "a.mlpackage"
    with pytest.warns(UserWarning, match=r"no ports of bool, .*: 'a', 'y', 'w' became int32"):
        af.save_mlpackage(graph, path)
    read = af.load_model(path)
    assert {name: one.types[0].dtype for name, one in read.inputs.items()} == {"a": "int32", "b": "fp32"}
    assert list(read.inputs) == list(graph.inputs)
    found = af.reference(read, {"a": np.array([0, 1, 1]), "b": np.ones(3)})
    assert (found["y"].tolist(), found["w"].tolist()) == ([1, 0, 0], [0, 1, 1])


def test_an_output_can_be_one_number(tmp_path: Path) -> None:
    graph = af.Graph({"y": node("reduce_sum", {"x": X}, axes=(0, 1), keep_dims=False)})
    read = af.load_model(af.save_mlpackage(graph, tmp_path / "a.mlpackage"))
    assert read.outputs["y"].type.shape == ()
    assert af.reference(read, {"x": FED["x"]})["y"] == FED["x"].sum()


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_a_constant_without_room_is_refused_with_its_place(number: int, tmp_path: Path) -> None:
    filled = node("fill", {}, shape=(1,), value=float(number), dtype="int64")
    seen = rf"(add|fill) at .*{HERE}:\d+: .*does not fit \(got {number}(\.0)?, limit -2147483648 to 2147483647\)"
    for y in (whole(number), filled):
        with pytest.raises(NotSupportedError, match=seen):
            af.save_mlpackage(node("add", {"x": M, "y": y}), tmp_path / "a.mlpackage")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("begin", "end", "stride"), [(1, 2**63 - 1, 1), (2**40, -(2**63), -1), (-(2**63), 2**40, 2)])
def test_a_slice_to_the_end_stays_one(begin: int, end: int, stride: int, tmp_path: Path) -> None:
    graph = af.Graph({"y": node("slice_by_index", {"x": X}, begin=(0, begin), end=(2, end), stride=(1, stride))})
    read = saved(graph, tmp_path / "a.mlpackage")
    assert np.array_equal(af.reference(read, {"x": FED["x"]})["y"], FED["x"][:, begin:end:stride])


def test_a_constant_that_is_infinite_in_fp32_is_said(tmp_path: Path) -> None:
    wide = node("add", {"x": node("cast", {"x": X}, dtype="fp64"), "y": Dense(np.array([-1e300]))})
    said = r"2 of fp64 as fp32.*; a constant of add at .* holds -1e\+300, which is infinite in fp32"
    with pytest.warns(PrecisionWarning, match=said):
        af.save_mlpackage(node("cast", {"x": wide}, dtype="fp32"), tmp_path / "a.mlpackage")


def test_errors_name_the_operation_and_its_place_and_what_helps(tmp_path: Path) -> None:
    small = node("cast", {"x": X}, dtype="uint8")
    half = node("relu", {"x": node("cast", {"x": X}, dtype="bf16")})
    inside = node("relu", {"x": port("b", (2,), "bf16")})
    for tensor, message in (
        (node("cumsum", {"x": small}, axis=0), rf"cumsum at .*{HERE}:\d+: Core ML does not take x .*Remedy: cast it$"),
        (half, rf"cast at .*{HERE}:\d+: Core ML does not take a cast .*Remedy: write af\.to_fp16\(graph\)\.graph$"),
        (inside, rf"relu at .*{HERE}:\d+: Core ML does not take x .*Remedy: write af\.to_fp16.*, or cast it$"),
        (
            node("cast", {"x": X}, dtype="int4"),
            r"not take a cast to that type \(got int4, expected bool [^.]*$",
        ),
    ):
        with pytest.raises(NotSupportedError, match=message):
            af.save_mlpackage(tensor, tmp_path / "a.mlpackage")
    saved(af.to_fp16(half).graph, tmp_path / "b.mlpackage")


def numbers(dtype: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw from the whole range of a small element type, its ends among them."""
    least, most = value_range(dtype)
    drawn = generator.integers(least, most + 1, shape)
    drawn.flat[:2] = (least, most)
    return drawn.astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", sorted(SMALL))
def test_small_numbers_mean_the_same_as_whole_ones(dtype: str) -> None:
    generator = np.random.default_rng(7)
    x, y = port("x", (3, 4), dtype), port("y", (3, 4), dtype)
    places = Dense(np.array([[2, 0], [1, 1], [0, 3]], np.int32))
    graphs = [
        node(op, {"x": x, "y": y})
        for op in ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "maximum", "minimum")
        if dtype != "bool" or "equal" in op
    ]
    chosen = node("cast", {"x": port("c", (3, 4), "int32")}, dtype="bool")
    graphs += [
        node("gather", {"x": x, "indices": whole(2, 0, dtype="int32")}, axis=0),
        node("gather_along_axis", {"x": x, "indices": places}, axis=1),
        node("select", {"cond": chosen, "a": x, "b": y}),
        node("tile", {"x": x}, reps=(2, 1)),
        *(node(op, {"x": x}, axes=(1,)) for op in ("reduce_max", "reduce_min") if dtype != "bool"),
        *(node(op, {"x": x}, axis=1) for op in ("reduce_argmax", "reduce_argmin", "argsort") if dtype != "bool"),
    ]
    fed = {name: numbers(dtype, (3, 4), generator) for name in ("x", "y")} | {"c": np.eye(3, 4, dtype=np.int32)}
    rebuilt = 0
    for tensor in graphs:
        graph = af.Graph({"out": tensor})
        taken = with_casts(graph)
        given = {name: fed[name] for name in graph.inputs}
        assert taken.outputs["out"].type == graph.outputs["out"].type
        assert np.array_equal(evaluate(taken, given)[0]["out"], evaluate(graph, given)[0]["out"]), tensor.node.op.name
        assert not any(map(refuse_operands, taken.nodes))
        rebuilt += taken is not graph
    assert rebuilt >= 4


@pytest.mark.parametrize(("mode", "is_cast"), [("add", False), ("mul", False), ("max", True), ("update", True)])
def test_scattered_sums_of_small_numbers_are_left_as_they_are(mode: str, *, is_cast: bool) -> None:
    operands: dict[str, Argument | None] = {
        "data": port("s", (3,), "int8"),
        "indices": whole(0, 2, dtype="int32"),
        "updates": whole(100, 100, dtype="int8"),
    }
    graph = af.Graph({"y": node("scatter", operands, axis=0, mode=mode)})
    taken = with_casts(graph)
    assert (taken is not graph) == is_cast
    start = [np.array([100, -128, 127], np.int8)]
    assert np.array_equal(af.reference(taken, start)["y"], af.reference(graph, start)["y"])


def test_samples_of_all_types_keep_their_meaning() -> None:
    """Types are changed and ports become integers, and every sample of an operation that is taken so agrees."""
    compared = 0
    for op in ops().values():
        for seed in range(12):
            try:
                graph = one_operation(op, np.random.default_rng(seed))
            except AneforgeError:
                break
            if not any(map(is_same_in_whole, graph.nodes)):
                break
            try:
                taken = with_casts(in_package_types(graph).graph)
            except AneforgeError as error:
                assert "no room" in str(error)  # noqa: PT017 - most samples raise nothing
                continue
            fed = {key: np.zeros(one.types[0].shape, np.int32) for key, one in taken.inputs.items()}
            own = {key: fed[key].astype(numpy_dtype(one.types[0].dtype)) for key, one in graph.inputs.items()}
            wanted, found = evaluate(graph, own)[0], evaluate(taken, fed)[0]
            for key, value in wanted.items():
                np.testing.assert_allclose(found[key].astype(float), value.astype(float), rtol=1e-6)
            compared += 1
    assert compared > 150
