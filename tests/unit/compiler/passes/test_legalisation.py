"""Legalisation as a whole: order, meaning on random graphs, unknown data, determinism, data as the difference."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.decisions import decisions
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.passes.base import Phase
from aneforge.compiler.pipeline import FUSION, LEGALISATION, Pipeline
from aneforge.errors import GraphError, NotSupportedError
from aneforge.graph.graph import as_graph
from aneforge.targets import Database, database, group
from aneforge.testing.graphs import DrawnGraph, graphs
from legalisation_tools import (
    assert_round_trip,
    assert_same_meaning,
    changed,
    constant,
    convolution,
    layer,
    legalised,
    program_of,
    results,
    value,
)
from program_tools import anonymous, kinds_of, lowered

if TYPE_CHECKING:
    from aneforge.targets import Target

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TIGHT = {
    "max_tensor_dim": 4,
    "channel_extent": 5,
    "tensor_height": 3,
    "dense_kernel_memory": 24,
    "streamed_kernel_memory": 48,
    "nes_per_ane": 2,
    "max_transpose_height": 3,
    "max_transpose_width": 2,
    "conv_kw_max": 2,
    "conv_kernel_height_large": 2,
    "avg_pool_window": 2,
    "group_conv_decompose": 3,
    "conv_stride_native": 1,
    "max_rank": 4,
    "transpose_trailing_axes": 3,
}
"""Limits so small that random graphs meet them."""
TARGETS = [
    changed("h13", **TIGHT),
    changed("h14", **TIGHT),
    changed("h17s", **TIGHT),
    changed("h13", **TIGHT, upsample_1x1_fast_path=True, width_slice_crop_x16=False),
    *(af.targets.resolve(name) for name in ("h13", "h16g", "m11", "u1", "h12")),
]
COMMON = (
    *("conv", "relu", "add", "mul", "batch_norm", "transpose", "reshape", "matmul", "linear", "gelu", "concat", "silu"),
    *("slice_by_index", "avg_pool", "softmax", "reduce_mean", "pad", "resize_bilinear", "quantize", "split"),
)


def network() -> af.Graph:
    """Return a graph that most passes have something to do with."""
    x = af.input((1, 3, 64, 64), name="image")
    y = af.conv(x, weights(32, 3, 8, 8), stride=4).relu()
    y = af.conv(y, weights(512, 32, 3, 3), pad=1, groups=1).tanh()
    y = af.conv(af.resize_bilinear(y, 20, 22), weights(512, 512, 1, 1)).relu()
    y = y.slice_by_size((0, 0, 0, 2), (1, 512, 20, 20)).reshape(1, 512, 400).transpose(0, 2, 1)
    return af.Graph({"y": y.mean((-1,)).reshape(1, 400).linear(weights(9, 400), weights(9))})


def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    """Return small numbers that no generator draws."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    return ((places * 37 % 101 - 50) / 512).astype(np.float16)


def test_the_order() -> None:
    assert [one.name for one in LEGALISATION] == [
        "legalise-rank",
        "legalise-gather",
        "legalise-resize",
        "factor-strides",
        "split-windows",
        "split-groups",
        "legalise-transpose",
        "split-matmul",
        "split-extents",
        "choose-weight-stream",
        "split-kernel-memory",
        "choose-output-groups",
        "choose-winograd",
        "choose-slice-route",
        "choose-reduction-route",
        "cut-segments",
    ]
    assert {one.phase for one in LEGALISATION} == {Phase.LEGALISATION}
    for one in LEGALISATION:
        text = type(one).__doc__ or ""
        assert "Before:\n" in text, one.name
        assert "After:\n" in text, one.name


@pytest.mark.parametrize("fused", [False, True])
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(drawn=graphs(most=6), number=st.integers(0, len(TARGETS) - 1))
def test_random_graphs_mean_the_same(drawn: DrawnGraph, number: int, *, fused: bool) -> None:
    check(drawn, TARGETS[number], fused=fused)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(drawn=graphs(most=8, among=COMMON), number=st.integers(0, len(TARGETS) - 1))
def test_common_graphs_mean_the_same(drawn: DrawnGraph, number: int) -> None:
    check(drawn, TARGETS[number], fused=True)


def check(drawn: DrawnGraph, target: Target, *, fused: bool) -> None:
    """Check that a graph keeps its meaning through all passes, and that each pass has nothing to do twice."""
    try:
        before = lowered(drawn.graph, target)
        results(before, drawn.inputs)
    except GraphError:
        return  # an operation without layers, or without a meaning of its own
    program = Pipeline(FUSION).run(before) if fused else before
    for one in LEGALISATION:
        after = legalised(program, [one])
        if after is None:
            return
        assert not one(after).modified, one.name
        program = after
    assert_same_meaning(before, program, drawn.inputs)
    if target is af.targets.resolve(target.name):
        assert_round_trip(program)


@pytest.mark.parametrize("target", [target.name for target in group("known") if target.has_data])
def test_every_target_with_data_makes_layers_legal_that_need_none(target: str) -> None:
    x = value("x", 1, 4, 8, 8)
    first = convolution(x, constant(4, 4, 3, 3), name="a", explicit_padding=(1, 1, 1, 1))
    second = layer("reduce_sum", {"x": first.result}, "b", axes=(2, 3), keep_dims=True)
    program = legalised(program_of(target, first, second), LEGALISATION)
    assert program is not None
    assert kinds_of(program) == ["convolution", "reduce_sum"]


@pytest.mark.parametrize("name", ["h20", "h19c"])
def test_a_name_without_data_leaves_everything_unknown(name: str) -> None:
    x = value("x", 1, 4, 8, 8)
    layers = [
        convolution(x, constant(4, 4, 3, 3), name="a", strides=(5, 5)),
        layer("transpose", {"x": x}, "b", perm=(0, 2, 3, 1)),
        layer("resize", {"input": x}, "c", size=(16, 16)),
        layer("slice", {"input": x}, "d", begin=(0, 0, 0, 1), size=(1, 4, 8, 7)),
        layer("reduce_sum", {"x": x}, "e", axes=(-1,)),
    ]
    program = legalised(program_of(name, *layers), LEGALISATION)
    assert program is not None
    chosen = [next(iter(one.choices.items())) for one in program.layers]
    assert chosen[0] == ("stride", "unknown")
    assert [dict(one.choices).get("route") for one in program.layers] == [None, "unknown", None, "crop", "unknown"]
    assert program.layers[2].choices["strategy"] == "unknown"
    assert program.layers[3].choices["format"] == "unknown"


def test_one_changed_line_of_a_data_file_changes_the_route(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(database().folder, tmp_path / "data"))
    file = folder / "hal_bytes.toml"
    table, _, rest = file.read_text("utf-8").partition("[texture_engine.values]")
    old = next(line for line in rest.splitlines() if line.startswith("a13 = "))
    file.write_text(f"{table}[texture_engine.values]{rest.replace(old, 'a13 = true', 1)}", "utf-8")
    one = layer("resize", {"input": value("x", 1, 4, 4, 4)}, "y", size=(8, 8), mode="NEAREST")
    for data, kinds in ((database(), ["deconvolution"]), (Database(folder), ["resize"])):
        program = legalised(program_of(data.targets["h13"], one), LEGALISATION)
        assert program is not None
        assert kinds_of(program) == kinds


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from test_legalisation import network
from aneforge.compiler.pipeline import FUSION
from aneforge.compiler.pipeline import LEGALISATION
from aneforge.compiler.compile import build_program
from aneforge.compiler.pipeline import Pipeline
for target in ("h13", "h14", "h17s"):
    sys.stdout.write(str(build_program(network(), target, pipeline=Pipeline((*FUSION, *LEGALISATION)))))
"""


def test_the_same_bytes_for_every_hash_seed() -> None:
    here = Path(__file__).parent
    script = SCRIPT.format(paths=[str(here), str(here.parents[2])])
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    (text,) = texts
    assert text.count("program for ") == 3


def test_a_network_is_legal_on_every_family() -> None:
    pipeline = Pipeline((*FUSION, *LEGALISATION))
    for target in ("h13", "h14", "h15", "h16g", "h17s", "h18"):
        program = anonymous(build_program(network(), target, pipeline=pipeline))
        inputs = {"image": np.random.default_rng(0).normal(size=(1, 3, 64, 64))}
        assert_same_meaning(lowered(network(), target), program, inputs)


def test_every_decision_is_read_somewhere(repository: Path) -> None:
    source = "".join(path.read_text("utf-8") for path in (repository / "src" / "aneforge" / "compiler").rglob("*.py"))
    named = {name: re.sub(r"_rank_\d$", "_rank_", name) for name in decisions()}
    assert [name for name, word in named.items() if f'"{word}' not in source] == []


def test_an_operation_that_cannot_be_made_legal_is_one_clear_error_at_the_users_place() -> None:
    graph = as_graph(af.conv(af.input((1, 3, 64, 64)), weights(8, 3, 3, 3), stride=5))
    with pytest.raises(NotSupportedError, match="a stride must be at most 3") as caught:
        Pipeline(LEGALISATION).run(lower(graph, af.targets.resolve("h13")))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert "\n" not in str(caught.value)
