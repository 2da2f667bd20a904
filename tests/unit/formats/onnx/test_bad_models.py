"""Models that are damaged, or made to do damage: each is one clear error, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aneforge.errors import AneforgeError, GraphError
from aneforge.formats.onnx import interpreter, wire
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.onnx.tensors import constant_of
from aneforge.formats.shared import emitter
from aneforge.formats.shared.findings import InvalidModelError, Reason, TooLargeModelError, UnsupportedModelError
from unit.formats.onnx.onnx_models import made, node, numbers, port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MEMORY_MOST = 64 * 2**20


def relu(shape: Sequence[int | str | None] = (2,)) -> onnx.ModelProto:
    return made([node("Relu", ["x"], ["y"])], {"x": ("fp32", shape)})


def cyclic() -> onnx.ModelProto:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]
    return made(nodes, {"x": ("fp32", [2])})


def self_reading() -> onnx.ModelProto:
    return made([node("Add", ["x", "y"], ["y"])], {"x": ("fp32", [2])})


def made_twice() -> onnx.ModelProto:
    return made([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], {"x": ("fp32", [2])})


def input_made_again() -> onnx.ModelProto:
    return made([node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])], {"x": ("fp32", [2])})


def two_inputs_of_one_name() -> onnx.ModelProto:
    model = relu()
    model.graph.input.append(port("x", ("fp32", [2])))
    return model


def two_weights_of_one_name() -> onnx.ModelProto:
    model = made([node("Add", ["x", "w"], ["y"])], {"x": ("fp32", [2])}, weights={"w": numbers(2)})
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def two_outputs_of_one_name() -> onnx.ModelProto:
    model = relu()
    model.graph.output.append(onnx.ValueInfoProto(name="y"))
    return model


def input_without_a_name() -> onnx.ModelProto:
    model = relu()
    model.graph.input.append(port("", ("fp32", [2])))
    return model


def missing_weight() -> onnx.ModelProto:
    return made([node("Add", ["x", "w"], ["y"])], {"x": ("fp32", [2])})


def missing_output() -> onnx.ModelProto:
    return made([node("Relu", ["x"], ["z"])], {"x": ("fp32", [2])})


def no_output() -> onnx.ModelProto:
    model = relu()
    del model.graph.output[:]
    return model


def weight_of(dims: Sequence[int]) -> onnx.ModelProto:
    model = missing_weight()
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=b"\0" * 8))
    return model


def recursion(*, through: bool) -> onnx.ModelProto:
    def calls(name: str, called: str) -> onnx.FunctionProto:
        body = [node(called, ["a"], ["b"], domain="own")]
        return helper.make_function("own", name, ["a"], ["b"], body, [helper.make_opsetid("own", 1)])

    functions = [calls("F", "G"), calls("G", "F")] if through else [calls("F", "F")]
    return made([node("F", ["x"], ["y"], domain="own")], {"x": ("fp32", [2])}, functions=functions, domains={"own": 1})


def two_functions_of_one_name() -> onnx.ModelProto:
    body = [node("Relu", ["a"], ["b"])]
    one = helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", 20)])
    return made([node("Relu", ["x"], ["y"])], {"x": ("fp32", [2])}, functions=[one, one], domains={"own": 1})


def function_without_its_output() -> onnx.ModelProto:
    body = [node("Relu", ["a"], ["b"])]
    one = helper.make_function("own", "F", ["a"], ["c"], body, [helper.make_opsetid("", 20)])
    return made([node("Relu", ["x"], ["y"])], {"x": ("fp32", [2])}, functions=[one], domains={"own": 1})


STRUCTURE: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "cyclic": (cyclic, "it reads 'b', which node 'Relu_b' computes later.*got a cycle: 'Add_a' reads from 'Rel"),
    "self-reading": (self_reading, "it reads 'y', which node 'Add_y' computes later"),
    "made twice": (made_twice, "it computes 'y', which node"),
    "input made again": (input_made_again, "it computes 'x', which is an input or initialiser too"),
    "two inputs": (two_inputs_of_one_name, "two inputs of the model are called 'x'"),
    "two weights": (two_weights_of_one_name, "two initialisers of the model are called 'w'"),
    "two outputs": (two_outputs_of_one_name, "two outputs of the model are called 'y'"),
    "no name": (input_without_a_name, "an input of the model has no name"),
    "missing weight": (missing_weight, "it reads 'w', which no input, initialiser or node makes"),
    "missing output": (missing_output, "output 'y' is not produced by any node"),
    "no output": (no_output, "no graph with an output"),
    "negative weight": (lambda: weight_of([-2]), "axis of negative length"),
    "long weight": (lambda: weight_of([2**31]), "an axis that is too long"),
    "huge weight": (lambda: weight_of([2**30, 2**30]), "too many elements"),
    "huge and empty weight": (lambda: weight_of([0, 2**31 - 1, 2**31 - 1]), "too many elements"),
    "many axes": (lambda: weight_of([1] * 33), "too many axes"),
    "weight without data": (lambda: weight_of([100, 100]), "data that does not fit its shape"),
    "negative input": (lambda: relu([-1]), "axis of negative length"),
    "long input": (lambda: relu([2**31]), "an axis that is too long"),
    "recursion": (lambda: recursion(through=False), "functions call themselves"),
    "recursion through another": (lambda: recursion(through=True), r"functions call themselves.*got F, G"),
    "two functions": (two_functions_of_one_name, "two functions of the model are called 'F'"),
    "function without output": (function_without_its_output, "output 'c' of function 'F' is not produced by any node"),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_a_damaged_model_is_one_error(name: str) -> None:
    build, message = STRUCTURE[name]
    model = build()
    with pytest.raises(GraphError, match=message):
        from_onnx(model.SerializeToString())


# Bytes.


@pytest.mark.parametrize("size", [0, 1, 10, 50, 200, 8000])
def test_a_truncated_file_is_one_error(size: int) -> None:
    weights = {"w": numbers(64, 64)}
    contents = made([node("MatMul", ["x", "w"], ["y"])], {"x": ("fp32", [1, 64])}, weights=weights).SerializeToString()
    assert size < len(contents)
    with pytest.raises(GraphError, match=r"not an ONNX model|no graph with an output|names no operator set"):
        from_onnx(contents[:size])


@pytest.mark.parametrize(
    "contents",
    [
        b"\x89PNG\r\n\x1a\n" + b"\0" * 64,
        b"PK\x03\x04" + b"\0" * 64,
        b"\xff" * 64,
        b"ir_version: 8",
        b"\x0b" * 32,
        b"\x00\x01",
    ],
)
def test_another_file_is_one_error(contents: bytes) -> None:
    with pytest.raises(GraphError, match=r"not an ONNX model|no graph with an output|names no operator set"):
        from_onnx(contents)


def test_too_many_fields_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FIELDS_MOST", 100)
    with pytest.raises(GraphError, match="too many fields"):
        from_onnx(b"\x0a\x00" * 200)


def names_replaced(old: bytes, new: bytes, model: onnx.ModelProto) -> bytes:
    assert len(old) == len(new)
    contents = model.SerializeToString()
    assert old in contents
    return contents.replace(old, new)


@pytest.mark.parametrize("what", ["value", "node", "operator", "dimension"])
def test_names_that_are_no_text_are_one_error(what: str) -> None:
    nodes = [helper.make_node("Relu", ["value_name"], ["y"], name="node_names")]
    model = made(nodes, {"value_name": ("fp32", ["dimension_"])})
    old = {"value": b"value_name", "node": b"node_names", "operator": b"Relu", "dimension": b"dimension_"}[what]
    contents = names_replaced(old, b"\xff" * len(old), model)
    with pytest.raises(GraphError, match="is not UTF-8"):
        from_onnx(contents, {"value_name": (2,)} if what != "value" else None)


def test_an_attribute_whose_name_is_no_text_is_one_error() -> None:
    model = made([node("LeakyRelu", ["x"], ["y"], {"alpha": 0.5})], {"x": ("fp32", [2])})
    with pytest.raises(InvalidModelError, match="there is no attribute"):
        from_onnx(names_replaced(b"alpha", b"\xff" * 5, model))


def test_an_array_of_objects_is_refused() -> None:
    model = made([node("Reshape", ["x", "s"], ["y"])], {"x": ("fp32", [2]), "s": ("int64", [1])})
    with pytest.raises(AneforgeError, match="does not fit an input of int64"):
        from_onnx(model, values={"s": np.array([object()])})


# What would take the machine.


def bounded(model: onnx.ModelProto) -> AneforgeError:
    """Import a model that must be refused, and return the error; memory is looked at."""
    contents = model.SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(AneforgeError) as caught:
            from_onnx(contents)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MOST
    finally:
        tracemalloc.stop()
    return caught.value


HUGE = np.array([2**30], np.int64)
LARGE = np.array([2**15, 2**15], np.int64)

GREEDY: dict[str, onnx.ModelProto] = {
    "range": made(
        [node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])],
        {"x": ("int64", [1])},
        weights={"a": np.array(0), "b": np.array(2**40), "c": np.array(1)},
    ),
    "window": made([node("HannWindow", ["n"], ["y"])], {}, weights={"n": HUGE[0]}),
    "triangle": made([node("Trilu", ["x"], ["y"])], {"x": ("fp32", [2**20, 2**20])}),
    "eye": made([node("EyeLike", ["x"], ["y"])], {"x": ("fp32", [2**20, 2**20])}),
    "cumulative product": made(
        [node("CumProd", ["x", "a"], ["y"])], {"x": ("fp32", [2**20])}, weights={"a": np.array(0)}, opset=26
    ),
    "reflected": made(
        [node("Pad", ["x", "p"], ["y"], {"mode": "edge"})], {"x": ("fp32", [2])}, weights={"p": np.array([2**30, 0])}
    ),
    "pooled places": made(
        [node("MaxPool", ["x"], ["y", "i"], {"kernel_shape": [3, 3]})], {"x": ("fp32", [64, 64, 512, 512])}, ["i"]
    ),
    "scattered": made(
        [node("ScatterElements", ["x", "i", "u"], ["y"])],
        {"x": ("fp32", [2**14, 2**15]), "i": ("int64", [2**14, 2**14]), "u": ("fp32", [2**14, 2**14])},
    ),
    "resized": made(
        [node("Resize", ["x", "", "", "n"], ["y"], {"mode": "cubic"})],
        {"x": ("fp32", [1, 1, 2**20, 1])},
        weights={"n": np.array([1, 1, 2**20, 2])},
    ),
    "one-hot": made(
        [node("OneHot", ["x", "d", "v"], ["y"])],
        {"x": ("int64", [1])},
        weights={"d": np.array(2**30), "v": np.zeros(2, np.float32)},
    ),
    "causal": made(
        [node("Attention", ["q", "k", "k"], ["y"], {"is_causal": 1})],
        {"q": ("fp32", [1, 1, 2**15, 1]), "k": ("fp32", [1, 1, 2**15, 1])},
    ),
    "columns": made(
        [node("Col2Im", ["x", "i", "b"], ["y"])],
        {"x": ("fp32", [1, 2**14, 1])},
        weights={"i": np.array([2**14]), "b": np.array([2**14])},
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_tables_that_would_take_the_memory_are_refused(name: str) -> None:
    error = bounded(GREEDY[name])
    assert isinstance(error, UnsupportedModelError | InvalidModelError)
    assert "too long" in str(error) or "needs a table of" in str(error) or "too many elements" in str(error)


def test_a_large_fill_stays_an_operation() -> None:
    nodes = [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])]
    graph = from_onnx(made(nodes, {"x": ("fp32", [1])}, weights={"s": LARGE}))
    assert graph.outputs["y"].node.sources()[1].node.op.name == "fill"


def test_what_is_expanded_beyond_measure_stays_an_operation() -> None:
    nodes = [node("Expand", ["w", "s"], ["c"]), node("Add", ["x", "c"], ["y"])]
    graph = from_onnx(made(nodes, {"x": ("fp32", [1])}, weights={"w": numbers(1), "s": LARGE}))
    assert graph.outputs["y"].node.sources()[1].node.op.name == "tile"


def test_a_result_larger_than_any_tensor_is_refused() -> None:
    model = made([node("Tile", ["x", "s"], ["y"])], {"x": ("fp32", [1, 1])}, weights={"s": np.array([2**30, 2**20])})
    assert "larger than any tensor" in str(bounded(model))


def test_folding_has_a_limit_over_the_whole_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "FOLD_SMALL_BYTES", 16)
    emitted = emitter.Emitter(None, emitter.Budget(folded=10_000))
    weight = emitted.constant(numbers(1000), "fp32")
    first = emitted.add(weight, 1.0)
    assert [type(emitted.add(first, 1.0)).__name__ for _ in range(2)] == ["Dense", "Tensor"]


def test_what_grows_has_room_for_the_numbers_that_compute_it() -> None:
    """Concats of a constant with itself came to 3.1 GB in a file of 913 bytes: only the results counted."""

    def doubled(**budget: int) -> object:
        emitted = emitter.Emitter(None, emitter.Budget(folded=10_000, **budget))
        half = emitted.constant(numbers(400), "fp32")
        return emitted.apply("concat", {"values": (half, half)}, axis=0)

    assert type(doubled()).__name__ == "Tensor"
    assert type(doubled(weights=1600)).__name__ == "Dense", "a model's own weights may be widened"
    emitted = emitter.Emitter(None, emitter.Budget(folded=10_000))
    weight = emitted.constant(numbers(30, 40), "fp32")
    assert type(emitted.apply("transpose", {"x": weight}, perm=(1, 0))).__name__ == "Dense", "nothing grows"


def test_many_small_results_count_as_one_large_one_does() -> None:
    """A loop of 50,000 turns, each of which folded 64 KiB, came to 3.2 GB."""
    budget = emitter.Budget()
    folded = sum(2**16 for _ in range(emitter.NODES_MOST) if budget.may_fold(2**16, 0))
    assert folded == emitter.FOLD_ALL_BYTES
    assert budget.may_fold(emitter.FOLD_FREE_BYTES, 0), "shapes are folded to the end"
    assert emitter.NODES_MOST * emitter.FOLD_FREE_BYTES < emitter.FOLD_ALL_BYTES / 8


def looped(turns: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Relu", ["v"], ["w"])],
        "body",
        [port("i", ("int64", [])), port("c", ("bool", [])), port("v", ("fp32", [2]))],
        [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="w")],
    )
    nodes = [node("Loop", ["m", "", "x"], ["y"], {"body": body})]
    return made(nodes, {"x": ("fp32", [2])}, weights={"m": np.array(turns)})


def test_a_loop_of_too_many_turns_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter.Budget, "__init__", small_budget)
    with pytest.raises(TooLargeModelError, match="unrolls to too many operations"):
        from_onnx(looped(2**62))


def small_budget(budget: emitter.Budget, nodes: int = 50, folded: int = 2**20) -> None:
    """Begin with little."""
    budget.nodes, budget.folded = nodes, folded


@pytest.mark.parametrize("read", [True, False])
def test_a_loop_without_work_ends(*, read: bool) -> None:
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"])],
        "body",
        [port("i", ("int64", [])), port("c", ("bool", [])), port("v", ("fp32", [2]))],
        [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="v")],
    )
    nodes = [node("Loop", ["m", "", "x"], ["z"], {"body": body}), node("Relu", ["x"], ["y"])]
    model = made(nodes, {"x": ("fp32", [2])}, ["z" if read else "y"], {"m": np.array(2**62)})
    if read:
        with pytest.raises(AneforgeError, match="unrolls to too many operations"):
            from_onnx(model)
    else:
        assert from_onnx(model).outputs["y"].node.op.name == "relu"


def test_many_findings_are_all_there_and_some_are_shown() -> None:
    nodes = [node("Unique", ["x"], [f"u{place}"]) for place in range(300)]
    model = made(nodes, {"x": ("fp32", [2])}, [f"u{place}" for place in range(300)])
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    assert len(caught.value.findings) == 300
    assert str(caught.value).count("\n") == 41
    assert str(caught.value).endswith("and 260 more")


def test_a_model_nested_beyond_measure_is_one_error() -> None:
    graph = helper.make_graph([node("Relu", ["x"], ["r"])], "inner", [], [onnx.ValueInfoProto(name="r")])
    leaf = graph
    for level in range(28):
        branch = node("If", ["c"], [f"y{level}"], {"then_branch": graph, "else_branch": leaf})
        graph = helper.make_graph([branch], "g", [], [onnx.ValueInfoProto(name=f"y{level}")])
    model = made([], {"x": ("fp32", [2]), "c": ("bool", [])})
    model.graph.node.append(node("If", ["c"], ["y"], {"then_branch": graph, "else_branch": leaf}))
    for source in (model, model.SerializeToString()):
        with pytest.raises(GraphError, match="nested too deeply"):
            from_onnx(source)


def test_a_path_in_external_data_stays_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 8)
    folder = tmp_path / "model"
    folder.mkdir()
    model = weight_of([2])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(GraphError, match="not below the model's folder"):
        from_onnx(path)


# Nodes that break the rules of their operators.

RULES: dict[str, tuple[onnx.NodeProto, str]] = {
    "no input": (node("Relu", [], ["y"]), "wrong number of inputs .got 0, limit 1"),
    "many inputs": (node("Relu", ["x", "x"], ["y"]), "wrong number of inputs"),
    "many outputs": (node("Relu", ["x"], ["y", "z"]), "wrong number of outputs"),
    "left out": (node("Add", ["x", ""], ["y"]), "input 1 is missing"),
    "unknown attribute": (node("Relu", ["x"], ["y"], {"slope": 1.0}), "there is no attribute 'slope'"),
    "wrong attribute": (node("LeakyRelu", ["x"], ["y"], {"alpha": 1}), "of the wrong type .got INT, expected FLOAT"),
    "missing attribute": (node("Cast", ["x"], ["y"]), "attribute 'to' is missing"),
    "wrong element type": (node("Not", ["x"], ["y"]), "element type that the operator does not take"),
    "mixed element types": (node("Add", ["x", "i"], ["y"]), "different element types"),
    "axis": (node("Softmax", ["x"], ["y"], {"axis": 5}), "axis is not an axis"),
    "permutation": (node("Transpose", ["x"], ["y"], {"perm": [0, 0]}), "perm is not an order"),
    "reshape": (node("Reshape", ["x", "five"], ["y"]), "cannot take the shape"),
    "two open lengths": (node("Reshape", ["x", "twice"], ["y"]), "at most one -1"),
    "element type": (node("Cast", ["x"], ["y"], {"to": 77}), "is not an element type"),
    "broadcast": (node("Add", ["x", "w"], ["y"]), "do not broadcast"),
    "choice": (node("Gelu", ["x"], ["y"], {"approximate": "exactly"}), "not one of its choices"),
    "text": (node("Gelu", ["x"], ["y"], {"approximate": b"\xff"}), "is not UTF-8"),
    "index": (node("Gather", ["x", "nine"], ["y"]), "the index is not an axis"),
    "convolution": (node("Conv", ["x", "w"], ["y"]), "must have the same spatial axes"),
    "equation": (node("Einsum", ["x"], ["y"], {"equation": "ij,jk->ik"}), "one term for each operand"),
    "split": (node("Split", ["x", "five"], ["y"]), "do not make up the axis"),
    "twice": (helper.make_node("Relu", ["x"], ["y"], name="Relu_y"), "attribute 'a' comes twice"),
}
RULES["twice"][0].attribute.extend([helper.make_attribute("a", 1), helper.make_attribute("a", 1)])


@pytest.mark.parametrize("name", RULES)
def test_a_node_that_breaks_the_rules_is_told(name: str) -> None:
    broken, message = RULES[name]
    weights = {
        "five": np.array([5]),
        "twice": np.array([-1, -1]),
        "nine": np.array(9),
        "w": numbers(3, 3, 3),
    }
    model = made([broken], {"x": ("fp32", [2, 4]), "i": ("int64", [2, 4])}, list(broken.output), weights)
    with pytest.raises(InvalidModelError, match=message) as caught:
        from_onnx(model)
    assert [finding.reason for finding in caught.value.findings] == [Reason.INVALID]


def test_a_constant_within_a_loop_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def counted(tensor: TensorProto, folder: Path | None) -> object:
        reads.append(tensor.name)
        return constant_of(tensor, folder)

    monkeypatch.setattr(interpreter, "constant_of", counted)
    body = helper.make_graph(
        [
            node("Constant", [], ["k"], {"value": helper.make_tensor("inner", TensorProto.FLOAT, [2], [1.0, 2.0])}),
            node("Add", ["v", "k"], ["s"]),
            node("Add", ["s", "stored"], ["w"]),
            node("Identity", ["c"], ["d"]),
        ],
        "body",
        [port("i", ("int64", [])), port("c", ("bool", [])), port("v", ("fp32", [2]))],
        [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="w")],
        [helper.make_tensor("stored", TensorProto.FLOAT, [2], [3.0, 4.0])],
    )
    nodes = [node("Loop", ["m", "", "x"], ["y"], {"body": body})]
    from_onnx(made(nodes, {"x": ("fp32", [2])}, weights={"m": np.array(50)}))
    assert sorted(reads) == ["inner", "stored"]


def test_nodes_that_a_body_does_not_need_count_in_every_turn() -> None:
    unneeded = [node("Relu", ["v"], [f"u{place}"]) for place in range(1000)]
    inner = helper.make_graph([*unneeded, node("Relu", ["v"], ["r"])], "inner", [], [onnx.ValueInfoProto(name="r")])
    body = helper.make_graph(
        [node("If", ["c"], ["w"], {"then_branch": inner, "else_branch": inner}), node("Identity", ["c"], ["d"])],
        "body",
        [port("i", ("int64", [])), port("c", ("bool", [])), port("v", ("fp32", [2]))],
        [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="w")],
    )
    nodes = [node("Loop", ["m", "", "x"], ["y"], {"body": body})]
    with pytest.raises(TooLargeModelError):
        from_onnx(made(nodes, {"x": ("fp32", [2])}, weights={"m": np.array(10_000)}))
