"""The invokers: network descriptions through files and pipes, bit for bit what the engine gives for the same graph."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.cli import main as command_line
from aneforge.errors import InternalError
from aneforge.formats.netplist.sketch import Sketch, one_unit
from aneforge.formats.netplist.writing import netplist
from aneforge.graph.graph import as_graph
from aneforge.runtime.dispatch import invoker_networks
from aneforge.runtime.dispatch.invoker_scripts import install_invokers
from aneforge.runtime.dispatch.invoker_stages import Stage
from aneforge.runtime.dispatch.invokers import INVOKERS, run
from aneforge.runtime.program import LoadedProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from aneforge.graph.graph import GraphLike
    from aneforge.ops.types import Array

TARGET = "h16s"


@pytest.fixture(autouse=True)
def chosen_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", TARGET)


def tensor(name: str, *shape: int) -> af.Tensor:
    return af.input(shape, name=name)


def attention(queries: int, *, masked: bool = False, causal: bool = False) -> af.Tensor:
    q, k, v = tensor("q", 1, 4, queries, 16), tensor("k", 1, 4, 8, 16), tensor("v", 1, 4, 8, 16)
    mask = tensor("mask", 1, 1, queries, 8) if masked else None
    return af.sdpa(q, k, v, attn_mask=mask, is_causal=causal, native=True)


GRAPHS: dict[str, Callable[[], GraphLike]] = {
    "sdpa": lambda: attention(8),
    "sdpa masked": lambda: attention(8, masked=True),
    "sdpa causal": lambda: attention(8, causal=True),
    "sdpa decode": lambda: attention(1),
    "lrn": lambda: af.lrn(tensor("x", 5, 2, 3)),
    "minmax": lambda: af.minmax_norm(tensor("x", 3, 2, 8)),
    "scaled add": lambda: af.scaled_elementwise(tensor("x", 1, 3, 2, 8), tensor("z", 1, 3, 2, 8), "Add", 0.5),
    "scaled max": lambda: af.scaled_elementwise(tensor("x", 1, 3, 2, 8), tensor("z", 1, 3, 2, 8), "Max", 2.0),
    "argmax": lambda: af.argmax(tensor("x", 3, 16)),
    "topk": lambda: {"y": af.topk(tensor("x", 3, 16), 5)[0]},
    "topk places": lambda: {"y": af.topk(tensor("x", 3, 16), 5)[1].cast("fp16")},
    "sort": lambda: af.sort(tensor("x", 1, 3, 1, 16), descending=True),
    "constants": lambda: tensor("x", 1, 8) * np.linspace(-2, 2, 8) + 1.0,
}


@dataclass(frozen=True)
class Answer:
    """What an invoker said."""

    code: int
    last: dict[str, Any]
    rest: bytes
    """What followed the line."""


def invoke(name: str, *arguments: object, sent: bytes = b"") -> Answer:
    """Run an invoker in this process."""
    answers = io.BytesIO()
    code = run(name, [str(one) for one in arguments], io.BytesIO(sent), answers)
    line, _, rest = answers.getvalue().partition(b"\n")
    return Answer(code, json.loads(line), rest)


@dataclass(frozen=True)
class Case:
    """A description on disk with values for its inputs."""

    folder: Path
    inputs: Mapping[str, bytes]

    @property
    def network(self) -> list[object]:
        """The options that name its files."""
        weights = sorted(self.folder.glob("weights.*"))
        return ["--net-plist", self.folder / "net.plist", *(["--weights", *weights] if weights else [])]

    @property
    def files(self) -> list[object]:
        """The options that name the files of its inputs."""
        return [word for name in self.inputs for word in ("--input", f"{name}={self.folder / name}.bin")]

    def invoke(self, name: str, *arguments: object) -> Answer:
        """Run an invoker on it."""
        return invoke(name, *self.network, *self.files, *arguments)


def saved(folder: Path, data: bytes, weights: Mapping[str, bytes], values: Mapping[str, Array]) -> Case:
    folder.mkdir(exist_ok=True)
    (folder / "net.plist").write_bytes(data)
    for name, content in weights.items():
        (folder / name).write_bytes(content)
    inputs = {name: value.astype(value.dtype.newbyteorder("<")).tobytes() for name, value in values.items()}
    for name, content in inputs.items():
        (folder / f"{name}.bin").write_bytes(content)
    return Case(folder, inputs)


def drawn(graph: GraphLike, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        name: random.standard_normal(node.types[0].shape).astype(np.float16)
        for name, node in as_graph(graph).inputs.items()
    }


def written(folder: Path, graph: GraphLike, *, binary: bool = False) -> Case:
    made = netplist(graph)
    return saved(folder, made.data(binary=binary), made.weights, drawn(graph))


def sketched(folder: Path, sketch: Sketch, **values: Array) -> Case:
    return saved(folder, sketch.data(), sketch.weights, values)


def engine_bytes(graph: GraphLike, values: Mapping[str, Array]) -> bytes:
    with af.compile(graph, target=TARGET) as model:
        (output,) = model.loaded.eval(*(values[name] for name in model.inputs)).values()
    return output.astype("<f2").tobytes()


def relu_case(folder: Path) -> Case:
    return written(folder, tensor("x", 1, 3, 2, 8).relu())


# One call


@pytest.mark.parametrize("form", GRAPHS)
def test_every_form_gives_the_bits_of_the_engine(form: str, tmp_path: Path) -> None:
    graph = GRAPHS[form]()
    case = written(tmp_path / "net", graph, binary="sdpa" in form)
    name = "sdpa_invoker" if "sdpa" in form else "layer_invoker"
    out, raw = tmp_path / "y.bin", tmp_path / "raw.bin"
    answer = case.invoke(name, "--output", f"y={out}", "--raw-output", f"y={raw}", "--repeats", 2, "--warmup", 1)
    assert (answer.code, answer.last["status"], answer.last["target"]) == (0, "ok", TARGET)
    expected = engine_bytes(graph, drawn(graph))
    assert out.read_bytes() == raw.read_bytes() == expected
    ranked = case.invoke("rank_invoker", "--output-raw", f"y={raw}", "--output-bytes", 65536)
    assert ranked.last["status"] == "ok"
    assert raw.read_bytes() == expected.ljust(65536, b"\0")
    names = list(case.inputs)
    sent = (2).to_bytes(4, "little") + 2 * b"".join(case.inputs.values())
    served = invoke("persistent_worker", *case.network, "--input", *names, "--output", "y", sent=sent)
    assert (served.code, served.last["status"], served.rest) == (0, "ready", expected * 2)
    assert served.last["input_elems"] == [len(case.inputs[name]) // 2 for name in names]
    assert served.last["output_elems"] == [len(expected) // 2]


def test_an_answer_has_times_and_ports(tmp_path: Path) -> None:
    answer = relu_case(tmp_path).invoke("layer_invoker", "--qos", 21)
    port = {"Batches": 1, "Channels": 3, "Depth": 1, "Height": 2, "Width": 8}
    strides = {"BatchStride": 96, "PlaneStride": 32, "DepthStride": 32, "RowStride": 16}
    assert answer.last["live_inputs"] == [{"Symbol": "x", **port, **strides}]
    assert answer.last["live_outputs"] == [{"Symbol": "y", **port, **strides}]
    assert answer.last["exactness"] == "modelled"
    assert all(answer.last[key] > 0 for key in ("compile_ms", "load_ms", "eval_us"))


def test_elements_with_a_depth_are_in_the_order_of_the_wire(tmp_path: Path) -> None:
    values = np.arange(-8, 8, dtype=np.float16).reshape(1, 2, 2, 2, 2)
    case = sketched(tmp_path, one_unit("Neuron", {"x": values.shape}, {"Type": "ReLU"}), x=values)
    answer = case.invoke("sdpa_invoker", "--output", f"y={tmp_path / 'y'}")
    assert (tmp_path / "y").read_bytes() == np.maximum(values, 0).tobytes()
    assert [answer.last["live_outputs"][0][key] for key in ("PlaneStride", "DepthStride", "RowStride")] == [16, 8, 4]


def test_nan_and_subnormal_bits_are_passed_on(tmp_path: Path) -> None:
    bits = np.array([0x0001, 0x83FF, 0x7C00, 0xFC00, 0x8000, 0x7BFF], np.uint16)
    sketch = one_unit("Transpose", {"x": (1, 6, 1, 1, 1)}, {"TransposeDimensions": turned("Channel", "Width")})
    case = sketched(tmp_path, sketch, x=bits.view(np.float16))
    case.invoke("sdpa_invoker", "--output", f"y={tmp_path / 'y'}")
    assert (tmp_path / "y").read_bytes() == bits.tobytes()


def turned(first: str, second: str) -> Any:  # noqa: ANN401 - a value of a property list
    return [
        {"TransposeSourceDimension": first, "TransposeDestinationDimension": second},
        {"TransposeSourceDimension": second, "TransposeDestinationDimension": first},
    ]


def test_attention_in_the_layout_of_the_layer_with_channels_that_do_not_bind(tmp_path: Path) -> None:
    sketch = Sketch()
    shapes = {"query": (1, 1, 1, 4, 16), "key": (1, 8, 1, 4, 16), "value": (1, 8, 1, 4, 16)}
    for name, shape in shapes.items():
        sketch.input(name, {"channel": shape[1], "height": 4, "width": 16})
    sketch.constant("scale", np.full((1, 1, 1, 1, 1), 0.25, np.float16))
    sketch.unit("att", "SDPA", ["query", "key", "value", "scale"], {"SubtractMax": True}, OutputChannels=8)
    sketch.output("y", "att")
    cast("dict[str, Any]", sketch.outputs[0])["OutputChannels"] = 1
    random = np.random.default_rng(1)
    values = {name: random.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}
    case = sketched(tmp_path / "net", sketch, **values)
    answer = case.invoke("sdpa_invoker", "--output", f"y={tmp_path / 'y'}")
    assert answer.last["live_outputs"][0]["Channels"] == 1
    by_heads = {name[0]: value[:, :, 0].transpose(0, 2, 1, 3) for name, value in values.items()}
    graph = af.sdpa(tensor("q", 1, 4, 1, 16), tensor("k", 1, 4, 8, 16), tensor("v", 1, 4, 8, 16), 0.25, native=True)
    assert (tmp_path / "y").read_bytes() == engine_bytes(graph, by_heads)


def test_several_entries_of_one_input_are_one_input(tmp_path: Path) -> None:
    sketch = one_unit("ElementWise", {"x": (1, 1, 1, 1, 4)}, {"Type": "Add"})
    cast("dict[str, Any]", sketch.network["u"]).update(Bottom=["x", "x"], InputType=["Float16"])
    sketch.inputs.append({**cast("dict[str, Any]", sketch.inputs[0]), "Name": "second"})
    case = sketched(tmp_path, sketch, x=np.array([1, 2, 3, 4], np.float16))
    answer = case.invoke("layer_invoker", "--output", f"y={tmp_path / 'y'}")
    assert [port["Symbol"] for port in answer.last["live_inputs"]] == ["x"]
    assert np.frombuffer((tmp_path / "y").read_bytes(), np.float16).tolist() == [2, 4, 6, 8]


def test_the_first_of_several_procedures_runs(tmp_path: Path) -> None:
    x = tensor("x", 1, 4)
    made = netplist({"first": af.Graph({"y": x + 1.0}), "second": af.Graph({"y": x + 2.0})})
    case = saved(tmp_path, made.data(), made.weights, {"x": np.zeros((1, 4), np.float16)})
    assert case.invoke("sdpa_invoker", "--output", f"y={tmp_path / 'y'}").code == 0
    assert np.frombuffer((tmp_path / "y").read_bytes(), np.float16).tolist() == [1, 1, 1, 1]


def test_flags_of_a_radius_search_are_single_bytes_at_the_front_of_a_row(tmp_path: Path) -> None:
    sketch = one_unit("RadiusSearch", {"c": (1, 3, 1, 1, 2), "p": (1, 3, 1, 1, 3)}, {"Radius": 1.5}, OutputChannels=1)
    centroids = np.array([[0, 10], [0, 0], [0, 0]], np.float16)
    points = np.array([[0, 1, 10], [0, 0, 0], [0, 1, 1]], np.float16)
    case = sketched(tmp_path, sketch, c=centroids, p=points)
    case.invoke("sdpa_invoker", "--output", f"y={tmp_path / 'y'}")
    rows = np.frombuffer((tmp_path / "y").read_bytes(), np.uint8).reshape(3, 4)
    assert rows.tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    case.invoke("rank_invoker", "--output-raw", f"y={tmp_path / 'y'}", "--output-bytes", 16)
    assert (tmp_path / "y").read_bytes() == rows.tobytes() + bytes(4)


def test_places_leave_as_the_integers_that_a_description_states(tmp_path: Path) -> None:
    params = {"Type": "Max", "Dimension": "Width"}
    sketch = one_unit("GlobalArgMinMax", {"x": (1, 2, 1, 1, 2048)}, params, OutputType="UInt16")
    values = np.zeros((2, 2048), np.float16)
    values[0, 2047] = values[1, 2046] = 1
    case = sketched(tmp_path, sketch, x=values)
    case.invoke("rank_invoker", "--output-raw", f"y={tmp_path / 'y'}", "--output-bytes", 4)
    assert np.frombuffer((tmp_path / "y").read_bytes(), np.uint16).tolist() == [2047, 2046]


def test_an_input_that_no_output_depends_on_may_be_given_or_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sketch = one_unit("Neuron", {"x": (1, 1, 1, 1, 2)}, {"Type": "ReLU"})
    sketch.input("unread", {"width": 3})
    case = sketched(tmp_path, sketch, x=np.ones(2, np.float16), unread=np.ones(3, np.float16))
    answer = case.invoke("layer_invoker")
    assert (answer.code, [port["Symbol"] for port in answer.last["live_inputs"]]) == (0, ["x", "unread"])
    assert capsys.readouterr().err == "warning: procedure 'main': no output depends on 'unread'; left out\n"
    assert invoke("layer_invoker", *case.network, "--input", f"x={tmp_path / 'x.bin'}").code == 0


def test_an_output_file_that_a_client_holds_open_is_written_in_place(tmp_path: Path) -> None:
    case = relu_case(tmp_path)
    with (tmp_path / "y").open("w+b") as held:
        held.write(b"an older and longer content of the file" * 9)
        held.flush()
        case.invoke("layer_invoker", "--output", f"y={tmp_path / 'y'}")
        held.seek(0)
        assert len(held.read()) == 96


def test_a_target_below_mil_runs_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "h12")
    answer = relu_case(tmp_path).invoke("layer_invoker")
    assert (answer.code, answer.last["target"]) == (0, "h12")


# What fails


def expect(answer: Answer, stage: Stage, error: str) -> None:
    assert (answer.code, answer.last["status"]) == (stage.code, stage.status)
    assert error in answer.last["error"]


def test_the_exit_codes_are_those_of_the_protocol() -> None:
    assert [stage.code for stage in Stage] == [1, 2, 3, 4, 5, 6, 7, 8, 11]
    assert Stage.COMPILE.status == "compile_failed"


def test_the_page_lists_every_exit_code(repository: Path) -> None:
    page = (repository / "docs" / "dispatch.md").read_text(encoding="utf-8")
    assert [f"| {stage.code} | `{stage.status}` | " in page for stage in Stage] == [True] * len(Stage)


@pytest.mark.parametrize("missing", ["net.plist", "weights.1", "x.bin"])
def test_a_missing_file(missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = relu_case(tmp_path)
    arguments = [*case.network, "--weights", tmp_path / "weights.1", *case.files]
    (tmp_path / missing).unlink(missing_ok=True)
    expect(invoke("sdpa_invoker", *arguments), Stage.READ, "the file cannot be read: No such file or directory")
    assert capsys.readouterr().err.startswith("sdpa_invoker: at ")


def test_a_file_that_is_not_one(tmp_path: Path) -> None:
    answer = invoke("sdpa_invoker", "--net-plist", "/dev/zero")
    expect(answer, Stage.READ, "it is not a plain file (got 'zero')")
    case = relu_case(tmp_path)
    expect(invoke("sdpa_invoker", *case.network, "--input", "x=/dev/zero"), Stage.READ, "it is not a plain file")


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    answer = relu_case(tmp_path).invoke("layer_invoker", "--output", f"y={tmp_path / 'none' / 'y'}")
    expect(answer, Stage.READ, f"{tmp_path / 'none' / 'y'}: No such file or directory")


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("sdpa_invoker", [], "the following arguments are required: --net-plist"),
        ("sdpa_invoker", ["--net-plist", "n", "--net", "n"], "unrecognized arguments: --net n"),
        ("sdpa_invoker", ["--net-plist", "n", "--input", "x"], "argument --input: expected SYM=FILE, got 'x'"),
        ("sdpa_invoker", ["--net-plist", "n", "--output", "=f"], "argument --output: expected SYM=FILE, got '=f'"),
        ("sdpa_invoker", ["--net-plist", "n", "--repeats", "0"], "must be an integer of 1 or more, got '0'"),
        ("sdpa_invoker", ["--net-plist", "n", "--warmup", "-1"], "must be an integer of 0 or more, got '-1'"),
        ("sdpa_invoker", ["--net-plist", "n", "--qos", "9" * 5000], "must be an integer of 0 or more, got '999"),
        ("sdpa_invoker", ["--net-plist", "n", "--input", "x=a", "x=b"], "input 'x' is given twice"),
        ("rank_invoker", ["--net-plist", "n", "--output-bytes", "1.5"], "must be an integer of 1 or more, got '1.5'"),
        ("rank_invoker", ["--net-plist", "n", "--repeats", "2"], "unrecognized arguments: --repeats 2"),
        ("persistent_worker", ["--net-plist", "n", "--input", "q", "q"], "input 'q' is given twice"),
    ],
)
def test_a_wrong_command_line(name: str, arguments: list[str], error: str) -> None:
    expect(invoke(name, *arguments), Stage.ARGUMENTS, error)


def test_two_weights_files_of_one_name(tmp_path: Path) -> None:
    case = written(tmp_path, GRAPHS["constants"]())
    answer = case.invoke("sdpa_invoker", "--weights", tmp_path / "weights.1")
    expect(answer, Stage.ARGUMENTS, "two weights files have one name: weights.1")


def test_an_unknown_target_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "h17z")
    answer = relu_case(tmp_path).invoke("sdpa_invoker")
    expect(answer, Stage.ARGUMENTS, "ANEFORGE_TARGET: unknown target 'h17z'; nearest: h17")


@pytest.mark.parametrize("content", [b"", b"program(1.3)", b"<plist><dict>", b"bplist00\xff\xff", b"\0" * 64])
def test_a_file_that_is_not_a_property_list(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.plist").write_bytes(content)
    answer = invoke("sdpa_invoker", "--net-plist", tmp_path / "net.plist")
    expect(answer, Stage.DESCRIPTOR, str(tmp_path / "net.plist"))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b"Neuron", b"Neurone", "unknown layer type 'Neurone'; nearest: Neuron"),
        (b"ReLU", b"Relu", "unknown Type 'Relu'; nearest: ReLU"),
        (b"Bottom", b"Bottoms", "key 'Bottom'"),
        (b"<key>InputList</key>", b"<key>Inputs</key>", "key 'InputList'"),
    ],
)
def test_a_description_that_does_not_compile(old: bytes, new: bytes, error: str, tmp_path: Path) -> None:
    case = relu_case(tmp_path)
    data = (tmp_path / "net.plist").read_bytes()
    assert old in data
    (tmp_path / "net.plist").write_bytes(data.replace(old, new))
    expect(case.invoke("sdpa_invoker"), Stage.COMPILE, error)


def test_a_description_that_the_target_does_not_run(tmp_path: Path) -> None:
    case = sketched(tmp_path, one_unit("Softmax", {"x": (1, 1, 1, 1, 400_000)}, {"Dimension": "Width"}))
    expect(case.invoke("sdpa_invoker"), Stage.COMPILE, f"on {TARGET}: the graph cannot run, 1 finding:")


def test_a_description_without_inputs_and_one_without_its_weights_do_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch = one_unit("Neuron", {}, {"Type": "ReLU"}, constants={"c": np.ones((1, 1, 1, 1, 4), np.float16)})
    case = sketched(tmp_path, sketch)
    for target in (TARGET, "h12"):
        monkeypatch.setenv("ANEFORGE_TARGET", target)
        expect(case.invoke("sdpa_invoker"), Stage.COMPILE, "no inputs")
    alone = invoke("sdpa_invoker", "--net-plist", tmp_path / "net.plist")
    expect(alone, Stage.COMPILE, "constant 'c' is in a weights file that is missing")
    (tmp_path / "weights.1").write_bytes(b"\0" * 7)
    expect(case.invoke("sdpa_invoker"), Stage.COMPILE, "constant 'c' passes the end of 'weights.1'")


def test_a_program_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aneforge.runtime.ports.physical_bytes", lambda: 16)
    answer = relu_case(tmp_path).invoke("sdpa_invoker")
    expect(answer, Stage.LOAD, "the tensors of the program are larger than the memory of this machine")


def test_symbols_that_are_not_there(tmp_path: Path) -> None:
    case = relu_case(tmp_path)
    expect(case.invoke("sdpa_invoker", "--output", "z=f"), Stage.SYMBOL, "unknown output symbol 'z'; known: y")
    other = case.invoke("sdpa_invoker", "--input", f"xx={tmp_path / 'x.bin'}")
    expect(other, Stage.SYMBOL, "unknown input symbol 'xx'; nearest: x")
    expect(invoke("rank_invoker", *case.network), Stage.SYMBOL, "every input must have a value; missing: 'x'")
    expect(invoke("persistent_worker", *case.network), Stage.SYMBOL, "every input must have a value; missing: 'x'")


@pytest.mark.parametrize("size", [0, 95, 98])
def test_an_input_of_another_size(size: int, tmp_path: Path) -> None:
    case = relu_case(tmp_path)
    (tmp_path / "x.bin").write_bytes(bytes(size))
    answer = case.invoke("sdpa_invoker", "--output", f"y={tmp_path / 'y'}")
    expect(answer, Stage.MAP, f"{tmp_path / 'x.bin'}: input 'x' must have 96 bytes, got {size}")
    assert not (tmp_path / "y").exists()


def test_what_cannot_be_computed(tmp_path: Path) -> None:
    sketch = one_unit("MatrixDecomposition", {"x": (1, 9, 1, 1, 2)}, {"Type": "NonQRGivens"})
    case = sketched(tmp_path, sketch, x=np.ones(18, np.float16))
    expect(case.invoke("sdpa_invoker"), Stage.EVAL, "matrix_decomposition")
    sent = (1).to_bytes(4, "little") + case.inputs["x"]
    served = invoke("persistent_worker", *case.network, "--input", "x", "--output", "y", sent=sent)
    assert (served.code, served.last["status"], served.rest) == (Stage.EVAL.code, "ready", b"")


def test_a_mistake_of_ours_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: LoadedProgram) -> None:
        raise KeyError(str(self.released))

    monkeypatch.setattr(LoadedProgram, "execute", fail)
    expect(relu_case(tmp_path).invoke("sdpa_invoker"), Stage.EVAL, "internal error: KeyError: 'False'")
    assert "Traceback" in capsys.readouterr().err


def test_a_mistake_of_the_compiler_is_an_answer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InternalError("a pass left something undone")

    monkeypatch.setattr(invoker_networks, "compile_graph", fail)
    answer = relu_case(tmp_path).invoke("sdpa_invoker")
    expect(answer, Stage.COMPILE, "internal error: a pass left something undone")


def test_a_surface_that_is_too_small(tmp_path: Path) -> None:
    answer = relu_case(tmp_path).invoke("rank_invoker", "--output-raw", f"y={tmp_path / 'y'}", "--output-bytes", 95)
    expect(answer, Stage.SURFACE, "output 'y' must have a surface of 96 bytes or more, got 95")


def test_a_surface_whose_layout_is_unknown(tmp_path: Path) -> None:
    made = netplist(tensor("x", 1, 4, 1, 2).relu(), interleave=2)
    case = saved(tmp_path, made.data(), made.weights, {"x": np.arange(8, dtype=np.float16)})
    assert case.invoke("layer_invoker", "--output", f"y={tmp_path / 'y'}").code == 0
    assert (tmp_path / "y").read_bytes() == case.inputs["x"]
    answer = case.invoke("layer_invoker", "--raw-output", f"y={tmp_path / 'y'}")
    expect(answer, Stage.SURFACE, "output 'y' interleaves 2 channels: the layout of its surface is unknown")


# The worker


ONE = (1).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("sent", "stage", "error"),
    [
        (bytes(4), Stage.ARGUMENTS, "a request must have 1 input set or more, got 0"),
        (ONE[:3], Stage.READ, "the request ends too early: expected 1 more bytes, got 0"),
        (ONE, Stage.READ, "the request ends too early: expected 96 more bytes, got 0"),
        (ONE + bytes(95), Stage.READ, "the request ends too early: expected 96 more bytes, got 95"),
        (b"\xff" * 4 + bytes(97), Stage.READ, "the request ends too early: expected 96 more bytes, got 1"),
    ],
)
def test_a_request_that_is_not_whole_is_not_answered(
    sent: bytes, stage: Stage, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = relu_case(tmp_path)
    whole = ONE + case.inputs["x"]
    expected = engine_bytes(tensor("x", 1, 3, 2, 8).relu(), drawn(tensor("x", 1, 3, 2, 8).relu()))
    served = invoke("persistent_worker", *case.network, "--input", "x", "--output", "y", sent=whole + sent)
    assert (served.code, served.last["status"], served.rest) == (stage.code, "ready", expected)
    assert capsys.readouterr().err == f"persistent_worker: {error}\n"


def test_sets_are_in_the_order_of_the_command_line(tmp_path: Path) -> None:
    x, z = tensor("x", 1, 2), tensor("z", 1, 2)
    case = written(tmp_path, {"difference": x - z, "sum": x + z})
    sets = [np.array(one, np.float16) for one in ([[1, 2], [3, 4]], [[5, 6], [8, 8]])]
    sent = (2).to_bytes(4, "little") + b"".join(one.tobytes() for one in sets)
    order = ["--input", "z", "--input", "x", "--output", "sum", "difference"]
    served = invoke("persistent_worker", *case.network, *order, sent=sent)
    found = np.frombuffer(served.rest, np.float16).reshape(2, 2, 2)
    assert found.tolist() == [[[4, 6], [2, 2]], [[13, 14], [3, 2]]]


def test_requests_that_end_shut_the_worker_down(tmp_path: Path) -> None:
    case = relu_case(tmp_path)
    served = invoke("persistent_worker", *case.network, "--input", "x", "--output", "y")
    assert (served.code, served.last["status"], served.rest) == (0, "ready", b"")


# Installed executables


@pytest.fixture
def foreign_client(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a client in which our name is that of another package, and everything points at it."""
    package = tmp_path / "foreign" / "aneforge"
    package.mkdir(parents=True)
    for path in (package / "__init__.py", package.parent / "numpy.py", package.parent / "sitecustomize.py"):
        path.write_text("raise SystemExit('the client was imported')\n", encoding="utf-8")
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(package.parent),
        "PYTHONHOME": str(package.parent),
        "PYTHONSTARTUP": str(package / "__init__.py"),
        "VIRTUAL_ENV": str(package.parent),
    }


def interpreter_far_away(folder: Path) -> Path:
    """Return an interpreter whose path has spaces and quotes, and is longer than a first line may be."""
    path = folder / "a folder's name" / ("long " * 40) / ("longer " * 30) / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def test_installed_invokers_need_nothing_of_the_client(
    tmp_path: Path, foreign_client: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(interpreter_far_away(tmp_path)))
    folder = tmp_path / "the client's cache" / "bin"
    begin = time.time() - 1
    installed = install_invokers(folder, "h17s")
    assert [path.name for path in installed] == list(INVOKERS)
    assert set(folder.iterdir()) == set(installed)
    assert all(path.stat().st_mode & stat.S_IXUSR and path.stat().st_mtime >= begin for path in installed)
    case = relu_case(tmp_path / "net")
    working = tmp_path / "foreign"
    expected = engine_bytes(tensor("x", 1, 3, 2, 8).relu(), drawn(tensor("x", 1, 3, 2, 8).relu()))

    without_input = ["/bin/sh", "-c", 'exec "$@" <&-', "sh"]
    command = [*without_input, installed[0], *case.network, *case.files, "--output", "y=y.bin"]
    done = subprocess.run([*map(str, command)], cwd=working, env=foreign_client, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["status"], answer["target"]) == ("ok", "h17s")
    assert (working / "y.bin").read_bytes() == expected

    command = [installed[3], *case.network, "--input", "x", "--output", "y"]
    environment = {**foreign_client, "ANEFORGE_TARGET": "h13"}
    many = 2000
    with subprocess.Popen(
        [*map(str, command)], cwd=working, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        ready = json.loads(worker.stdout.readline())
        assert (ready["status"], ready["target"], ready["input_elems"]) == ("ready", "h13", [48])
        for count in (1, many):  # more than the pipes hold: a client sends all before it reads
            worker.stdin.write(count.to_bytes(4, "little") + case.inputs["x"] * count)
            worker.stdin.flush()
            assert worker.stdout.read(len(expected) * count) == expected * count
        worker.stdin.close()
        assert worker.stdout.read() == b""
        assert worker.wait() == 0


def test_an_engine_that_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    (script, *_) = install_invokers(tmp_path / "bin")
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, "engine_missing")
    assert done.stderr.endswith("; run aneforge invoker install again\n")


def test_the_command_installs_over_older_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "bin"
    for options in ([], ["-t", "m5"]):
        assert command_line.run(["invoker", "install", str(folder), *options]) == 0
    assert len(list(folder.iterdir())) == len(INVOKERS)
    assert "ANEFORGE_TARGET=${ANEFORGE_TARGET:-h17}\n" in (folder / "rank_invoker").read_text(encoding="utf-8")
    assert "".join(capsys.readouterr().out.split()).count("wrote") == 2 * len(INVOKERS)


def test_the_command_refuses_a_target_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["invoker", "install", str(tmp_path / "bin"), "-t", "h99z"]) == 2
    assert "unknown target 'h99z'" in capsys.readouterr().err
    assert not (tmp_path / "bin").exists()
