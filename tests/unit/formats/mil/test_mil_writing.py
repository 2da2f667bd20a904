"""The text that is written, and the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import run
from aneforge.errors import GraphError, GraphTypeError
from aneforge.formats.mil import mil_files
from aneforge.formats.mil.blob import BlobFile
from aneforge.formats.mil.dialect import mil_dialect
from aneforge.formats.mil.mil_files import write_mil
from aneforge.formats.mil.names import Namer
from aneforge.formats.mil.program import load_mil, parse_mil
from aneforge.formats.mil.text import mil_text
from aneforge.graph.convert import convert
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from mil_cases import PORT, blob, call, const, program, weights

if TYPE_CHECKING:
    from pathlib import Path

    from golden_text import Golden


def in_mil_form(graph: af.Graph) -> af.Graph:
    """Return a graph in the dialect of MIL text."""
    return convert(graph, mil_dialect()).graph


def small_network() -> af.Graph:
    generator = np.random.default_rng(0)
    x = af.input((1, 3, 8, 8), name="image")
    kernel, scale = generator.standard_normal((4, 3, 3, 3)), generator.standard_normal(16)
    hidden = af.conv(x, kernel, pad=1).relu()
    first, second = af.split(hidden, 2, axis=1)
    joined = af.concat([second.gelu(), (first * 0.5 + 1.0).log()], axis=1)
    flat = joined.reshape(1, 16, 16).transpose(0, 2, 1)
    normed = af.Tensor(build("rms_norm", {"x": flat, "gamma": Dense(scale.astype(np.float16))}))
    return af.Graph({"features": normed, "flat": flat})


def test_the_text(golden: Golden) -> None:
    golden(mil_text(small_network()).text)


def test_the_text_with_port_casts_and_states(golden: Golden) -> None:
    total = af.state("total", (1, 4))
    x = af.input((1, 4), name="x")
    graph = af.Graph({"sum": total + x, "x": x}, states={"total": total + x})
    golden(mil_text(graph, port_casts=True).text)


@pytest.mark.parametrize("target", ["m1", "m4"])
def test_what_compiling_makes_of_a_fill_is_written_with_its_bits(target: str, tmp_path: Path) -> None:
    x = af.input((4, 1), name="x")
    wide = af.Tensor(build("broadcast", {"x": x}, {"shape": (2, 4, 3)}))
    graph = af.Graph({"y": wide + af.Tensor(build("fill", {}, {"shape": (4, 3), "value": 0.1}))})
    compiled = compile_graph(graph, target)
    read = load_mil(write_mil(compiled.graph, tmp_path)).graph()
    given = {"x": np.array([[1.0], [-2.5], [1000.0], [0.1]])}
    again = compile_graph(read, target)
    assert np.array_equal(run(compiled.program, given).outputs["y"], run(again.program, given).outputs["y"])


def test_the_form_of_every_composite() -> None:
    x = af.input((1, 4, 1, 6), name="x")
    gamma, beta = (Dense(np.ones(4, np.float32)) for _ in range(2))
    row = Dense(np.ones(6, np.float16))
    wide = {"x": x, "gamma": gamma, "beta": beta}
    forms = {
        "l2_norm": (build("l2_norm", {"x": x}), "reduce_l2_norm threshold real_div"),
        "rms_norm": (
            build("rms_norm", {"x": x, "gamma": row}),
            "reduce_l2_norm threshold real_div mul",
        ),
        "channel_layer_norm": (
            build("channel_layer_norm", wide),
            "reduce_mean sub mul reduce_mean adds rsqrt mul mul add",
        ),
        "group_norm": (
            build("group_norm", wide, {"num_groups": 2}),
            "reshape reduce_mean sub mul reduce_mean adds rsqrt mul reshape mul add",
        ),
        "sdpa": (
            build("sdpa", {"query": x, "key": x, "value": x}, {"scale": 0.5}),
            "transpose matmul muls softmax matmul",
        ),
        "layer_norm": (
            build("layer_norm", {"x": x, "gamma": row, "beta": Dense(np.ones(6, np.float32))}, {"axes": (3,)}),
            "layer_norm",
        ),
    }
    for name, (node, expected) in forms.items():
        rebuilt = in_mil_form(af.Graph({"y": af.Tensor(node)}))
        assert " ".join(one.op.name for one in rebuilt.nodes if one.op.name != "input") == expected, name


def test_parameters_of_different_types_meet_in_the_widest() -> None:
    x = af.input((1, 4, 6), name="x")
    gamma, beta = Dense(np.full(6, 0.1, np.float16)), Dense(np.full(6, 0.1, np.float32))
    graph = af.Graph({"y": af.Tensor(build("layer_norm", {"x": x, "gamma": gamma, "beta": beta}, {"axes": (2,)}))})
    node = in_mil_form(graph).outputs["y"].node
    assert {value.type.dtype for name, value in node.values() if name != "x"} == {"fp32"}
    feed = [np.random.default_rng(0).standard_normal((1, 4, 6))]
    assert np.array_equal(af.reference(graph, feed)["y"], af.reference(in_mil_form(graph), feed)["y"])


def test_a_graph_that_is_in_form_is_not_rebuilt() -> None:
    graph = af.Graph({"y": af.input((2,)).relu()})
    assert in_mil_form(graph) is graph


def test_names_are_given_once() -> None:
    namer = Namer()
    names = [namer.new(wish) for wish in ("x", "x", "x_1", "x", "", "", "9", "fp16", "ünicode")]
    assert names == ["x", "x_1", "x_1_1", "x_2", "_", "__1", "_9", "fp16_", "_nicode"]


def test_many_equal_names_take_linear_time() -> None:
    namer = Namer()
    names = {namer.new("x") for _ in range(20_000)}
    assert len(names) == 20_000


@pytest.mark.parametrize("name", ["", "a b", "0", "f-1", "é", 7])
def test_names_of_functions_are_checked(name: object) -> None:
    with pytest.raises(GraphError, match="is not a valid function name"):
        mil_text({name: af.Graph({"y": af.input((1,))})})  # type: ignore[dict-item] - the error for it is the subject


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(GraphTypeError, match="a graph is made of tensors"):
        mil_text(7)  # type: ignore[arg-type] - the error for it is the subject


# Files.


def test_a_graph_in_a_folder(tmp_path: Path) -> None:
    graph = small_network()
    path = write_mil(graph, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "model.mil"
    assert sorted(one.name for one in path.parent.iterdir()) == ["model.mil", "weights.bin"]
    made = mil_text(graph)
    assert path.read_text() == made.text
    assert (path.parent / "weights.bin").read_bytes() == made.weights.tobytes()
    assert mil_text(load_mil(path).graph()).text == made.text


def test_blobs_are_aligned_where_that_is_asked_for(tmp_path: Path) -> None:
    write_mil(small_network(), tmp_path, alignment=64)
    offsets = [entry.offset for entry in BlobFile.open(tmp_path / "weights.bin").entries()]
    assert len(offsets) == 2
    assert all(offset % 64 == 0 for offset in offsets)
    load_mil(tmp_path).graph()


def test_a_graph_is_written_over_the_files_that_it_was_read_from(tmp_path: Path) -> None:
    write_mil(small_network(), tmp_path)
    text, data = (tmp_path / "model.mil").read_bytes(), (tmp_path / "weights.bin").read_bytes()
    for _ in range(2):
        write_mil(load_mil(tmp_path).graph(), tmp_path)
        assert ((tmp_path / "model.mil").read_bytes(), (tmp_path / "weights.bin").read_bytes()) == (text, data)


def test_a_program_keeps_its_text_and_its_weights(tmp_path: Path) -> None:
    path = "@model_path/weights/weight.bin"
    text = program(
        const(PORT, "w", blob(PORT, 64, path)),
        const("fp16", "unused", "fp16(1e-5)"),
        'tensor<fp16,[2,4]> z=add(y=w,x=x)[name=string("z")];',
        call("relu(x = z)"),
    )
    read = parse_mil(text, {path: weights()})
    write_mil(read, tmp_path)
    assert (tmp_path / "weights" / "weight.bin").read_bytes() == weights()
    written = (tmp_path / "model.mil").read_text()
    assert written == str(read) == str(load_mil(tmp_path))
    assert "".join(written.split()) == "".join(text.split()), "only spaces differ"


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mil(small_network(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def failing(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(mil_files, "write_text", failing)
    with pytest.raises(OSError, match="the disk is full"):
        write_mil(af.input((1,)), tmp_path)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after == before, "nothing temporary is left, and the weights are those of the text"


def test_a_program_without_weights_has_an_empty_blob(tmp_path: Path) -> None:
    write_mil(af.input((1,)).relu(), tmp_path)
    assert BlobFile.open(tmp_path / "weights.bin").count == 0
