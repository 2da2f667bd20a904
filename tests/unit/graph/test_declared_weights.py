"""Weights without values: what takes them gives what it gives for values, and what needs values refuses them."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.compiler.compile import compile_graph
from aneforge.errors import AneforgeError, GraphError, GraphTypeError
from aneforge.graph.node import build
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.declared import ENCODINGS, Declared, declare
from aneforge.optimise.compress.encodings import blockwise, int4_palette, int8_per_channel
from aneforge.runtime.facts import ModelFacts
from aneforge.runtime.saved.files import write_program_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.analysis.cost import Cost

    Make = Callable[..., Any]
    """Returns a weight of a shape: an array, or one without values."""


def gathered(rows: Constant) -> af.Tensor:
    """Return rows of a table by indices that are fed."""
    indices = af.Tensor(build("input", {}, {"shape": (4,), "dtype": "int32", "name": "indices"}))
    return af.Tensor(build("gather", {"x": rows, "indices": indices}, {"axis": 0}))


def attention(w: Make) -> af.Tensor:
    q, k, v, o = ((w(64, 64), w(64)) for _ in range(4))
    return af.mha(af.input((16, 64)), *q, *k, *v, *o, n_heads=4)


NETWORKS: dict[str, Callable[[Make], af.Tensor]] = {
    "linear": lambda w: af.input((1, 64)).linear(w(128, 64), w(128)),
    "matmul": lambda w: af.input((4, 64)) @ w(64, 128),
    "stack of matrices": lambda w: af.input((4, 8, 16)).bmm_weight(w(4, 16, 32)),
    "oversize rows": lambda w: af.input((1, 64)).linear(w(40000, 64)),
    "conv": lambda w: af.conv(af.input((1, 16, 8, 8)), w(32, 16, 3, 3), pad=1, bias=w(32)).relu(),
    "strided conv": lambda w: af.conv(af.input((1, 3, 32, 32)), w(32, 3, 7, 7), stride=4, pad=1),
    "transposed conv": lambda w: af.conv_transpose(af.input((1, 16, 8, 8)), w(16, 8, 2, 2), stride=2),
    "gain and offset": lambda w: af.input((1, 16, 8, 8)) * w(1, 16, 1, 1) + w(1, 16, 1, 1),
    "gain of a product": lambda w: (af.input((1, 64)).linear(w(128, 64)) * w(128)).relu().linear(w(64, 128)) + w(64),
    "gain after a concat": lambda w: af.concat([af.input((1, 8, 4, 4))] * 2, 1) * w(1, 16, 1, 1),
    "difference from": lambda w: w(1, 16, 1, 1) - af.input((1, 16, 8, 8)),
    "quotient": lambda w: af.input((1, 16, 8, 8)) / w(1, 16, 1, 1),
    "whole operand": lambda w: af.input((4, 64)) + w(4, 64),
    "maximum": lambda w: af.maximum(af.input((4, 64)), w(4, 64)),
    "rms norm": lambda w: af.input((4, 64)).rms_norm(w(64)),
    "layer norm": lambda w: af.input((4, 64)).layer_norm(w(64), w(64)),
    "group norm": lambda w: af.input((1, 16, 8, 8)).group_norm(w(16), w(16), 4),
    "instance norm": lambda w: af.instance_norm(af.input((1, 16, 8, 8)), w(16), w(16)),
    "batch norm": lambda w: af.batch_norm(af.input((1, 16, 8, 8)), *(w(16) for _ in range(4))),
    "prelu": lambda w: af.input((1, 16, 8, 8)).prelu(w(16)),
    "attention": attention,
}
VALUES = np.random.default_rng(0)
COMPRESSED: dict[str, Callable[[Any], Constant]] = {
    "int8": int8_per_channel,
    "palette4": int4_palette,
    "blockwise": blockwise,
}


def random_weight(*shape: int) -> np.ndarray[Any, Any]:
    """Return positive numbers, which are no power of two: a variance among them has a root."""
    return (0.05 + np.abs(VALUES.standard_normal(shape))).astype(np.float16)


def without_values(*shape: int) -> Declared:
    return af.weight(shape)


def layers_of(found: Cost) -> list[tuple[Any, ...]]:
    return [(one.kind, one.engine, one.microseconds, one.macs) for one in found.layers]


@pytest.mark.parametrize("target", ["m1", "m5"])
@pytest.mark.parametrize("name", NETWORKS)
def test_cost_needs_no_values(name: str, target: str) -> None:
    known, absent = (NETWORKS[name](make) for make in (random_weight, without_values))
    assert layers_of(af.cost(absent, target)) == layers_of(af.cost(known, target))
    assert af.preflight(absent, target).findings == af.preflight(known, target).findings


@pytest.mark.parametrize("name", NETWORKS)
def test_memory_plan_and_work_need_no_values(name: str) -> None:
    known, absent = (compile_graph(NETWORKS[name](make), "m4") for make in (random_weight, without_values))
    assert absent.plan == known.plan
    assert absent.graph.work() == known.graph.work()


@pytest.mark.parametrize("target", ["m1", "m4", "m5"])
@pytest.mark.parametrize("encoding", COMPRESSED)
@pytest.mark.parametrize("shape", [(128, 64), (32, 64, 1, 1), (32, 64, 3, 3)])
def test_encodings_have_the_bytes_and_times_of_values(encoding: str, shape: tuple[int, ...], target: str) -> None:
    known, absent = COMPRESSED[encoding](random_weight(*shape)), af.weight(shape, encoding=encoding)
    assert (absent.nbytes, absent.encoding, absent.type) == (known.nbytes, known.encoding, known.type)
    x = af.input((1, 64)) if len(shape) == 2 else af.input((1, 64, 8, 8))
    priced = [af.cost(x.linear(one) if len(shape) == 2 else af.conv(x, one), target) for one in (absent, known)]
    assert layers_of(priced[0]) == layers_of(priced[1])


def test_weights_of_one_shape_are_two_weights() -> None:
    first, second = af.weight((64, 64)), af.weight((64, 64))
    x = af.input((1, 64))
    assert af.Graph({"y": x.linear(first).linear(second)}).work().bytes_weights == 2 * 64 * 64 * 2
    assert af.Graph({"y": x.linear(first).linear(first)}).work().bytes_weights == 64 * 64 * 2


@pytest.mark.parametrize("encoding", [None, "int8", "palette4"])
def test_wide_weights_count_as_fp16(encoding: str | None) -> None:
    wide = af.cast(af.input((1, 64)), "fp32").linear(af.weight((32, 64), "fp32", encoding))
    half = af.to_fp16(wide).graph
    assert [str(one.type) for one in half.constants.values()] == ["fp16[32, 64]"]
    known = af.cost(af.input((1, 64)).linear(af.weight((32, 64), encoding=encoding)), "m4")
    assert af.cost(wide, "m4").microseconds == known.microseconds


def test_tables_of_rows() -> None:
    found = af.preflight(gathered(af.weight((100, 16))), "m4")
    assert found.findings == af.preflight(gathered(declared_as_dense((100, 16))), "m4").findings


def declared_as_dense(shape: tuple[int, ...]) -> Constant:
    return Dense(random_weight(*shape))


@pytest.mark.parametrize(
    ("name", "encoding"), [*((name, None) for name in NETWORKS), *(("linear", one) for one in ENCODINGS)]
)
def test_text_is_read_back_without_constants(name: str, encoding: str | None) -> None:
    def make(*shape: int) -> Declared:
        wanted = encoding if len(shape) > 1 else None
        return af.weight(shape, encoding=wanted, name=f'q "{len(shape)}" \u00e9')

    graph = af.Graph({"y": NETWORKS[name](make)})
    again = af.Graph.parse(graph.text)
    assert again.text == graph.text
    assert [one.nbytes for one in again.constants.values()] == [one.nbytes for one in graph.constants.values()]
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301 - its own pickle


def test_text_names_another_constant() -> None:
    graph = af.Graph({"y": af.input((1, 4)).linear(af.weight((8, 4), name="up"))})
    assert 'constant @c0 : fp16[8, 4] dense without values "up"' in graph.text
    for other in (declared_as_dense((8, 4)), declare((8, 4), name="down"), declare((8, 4), encoding="int8", name="up")):
        with pytest.raises(GraphError, match="constant @c0 is not the one of the text"):
            af.Graph.parse(graph.text, {"c0": other})
    assert af.Graph.parse(graph.text, {"c0": declare((8, 4), name="up")}) == graph
    with pytest.raises(GraphError, match="do not follow from a shape"):
        af.Graph.parse(graph.text.replace("dense without", "sparse without"))
    valued = af.Graph({"y": af.input((1, 4)).linear(random_weight(8, 4))})
    with pytest.raises(GraphError, match="is not the one of the text"):
        af.Graph.parse(valued.text, {"c0": declare((8, 4))})


def test_ranges_are_unknown_until_something_bounds_them() -> None:
    x = af.input((1, 64), name="x", max_abs=1.0)
    product = (x + 1.0).linear(af.weight((32, 64)))
    report = af.ranges({"open": product * af.weight((32,)), "bounded": product.sigmoid() * 2.0}, target="m4")
    by_op = {one.op: one for one in report.layers}
    assert by_op["conv"].unknown
    assert not by_op["sigmoid"].unknown
    assert by_op["sigmoid"].range.high == 2.0
    assert not report.layers[0].unknown
    assert report.layers[0].range.high == 2.0
    assert all(not one.concerns for one in report.layers if one.unknown)
    assert ": unknown" in str(report)
    assert "rest on weights without values" in str(report)
    assert "unknown" not in str(af.ranges(x + 1.0, target="m4"))


def small() -> af.Graph:
    return af.Graph({"y": af.input((1, 64), name="x").linear(af.weight((32, 64), name="up_proj")).relu()})


def write_program(graph: af.Graph, folder: Path) -> object:
    return write_program_file(folder / "model.aneprg", af.build_program(graph, "m4"), ModelFacts(n_ops=2))


REFUSED: dict[str, Callable[[af.Graph, Path], object]] = {
    "compile": lambda graph, _: af.compile(graph, target="m4"),
    "MIL text": lambda graph, _: af.to_mil(graph),
    "MIL files": lambda graph, folder: af.save_mil(graph, folder / "model.mil"),
    "package": lambda graph, folder: af.save_mlpackage(graph, folder / "model.mlpackage"),
    "package of functions": lambda graph, folder: af.save_mlpackage({"main": graph}, folder / "model.mlpackage"),
    "netplist": af.save_netplist,
    "program file": write_program,
    "HWX": lambda graph, _: af.hwx.emit(graph, target="h13"),
    "reference": lambda graph, _: af.reference(graph, [np.zeros((1, 64))]),
    "run": lambda graph, _: af.run(af.build_program(graph, "m4"), {"x": np.zeros((1, 64), np.float16)}),
    "observed ranges": lambda graph, _: af.ranges(graph, inputs={"x": np.zeros((1, 64), np.float16)}, target="m4"),
    "divergence": lambda graph, _: af.divergence(graph, "m1", "m4"),
    "cross-compile check": lambda graph, _: cross_compile_check(graph, "m1", host="m4"),
    "compression": lambda graph, _: af.compressed(graph, "int8", target="m4"),
    "rescaling": lambda graph, _: af.rescale(graph, target="m4"),
}


@pytest.mark.parametrize("action", REFUSED)
def test_what_needs_values_refuses_by_name(action: str, tmp_path: Path) -> None:
    with pytest.raises(AneforgeError, match="'up_proj'") as caught:
        REFUSED[action](small(), tmp_path)
    assert caught.value.remedy is not None
    assert "af.weight" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_large_weights_take_no_memory() -> None:
    def decoder() -> af.Tensor:
        hidden = af.input((1, 4096))
        for _ in range(6):
            inner = hidden.rms_norm(af.weight((4096,))).linear(af.weight((14336, 4096), encoding="int8"))
            hidden = hidden + inner.silu().linear(af.weight((4096, 14336)))
        return hidden.linear(af.weight((128256, 4096)))

    tracemalloc.start()
    found = af.cost(decoder(), "m4")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100e6
    # Every weight is read once: the sum of the bytes at the chip's own rate is a lower bound.
    nbytes = 6 * (14336 * 4096 + 2 * 14336 * 4096) + 2 * 128256 * 4096
    assert sum(one.stream for one in found.layers) > nbytes / found.machine.stream * 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (4, 0)}, "empty axis"),
        ({"shape": (1,) * 6}, "too many axes"),
        ({"shape": (4,), "dtype": "int8"}, "element type"),
        ({"shape": (4,), "encoding": "sparse"}, "do not follow from a shape"),
        ({"shape": (4,), "encoding": "blockwise"}, "needs 2 axes"),
    ],
)
def test_misuse(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        af.weight(**arguments)


def test_misuse_of_types() -> None:
    with pytest.raises(GraphTypeError, match="list of integers"):
        af.weight("4096")  # type: ignore[arg-type]
    with pytest.raises(GraphTypeError, match="name is not a text"):
        af.weight((4,), name=3)  # type: ignore[arg-type]
