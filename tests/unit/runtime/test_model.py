"""Models: calls, views, states, release, and what they show of themselves."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError, UnknownNameError
from aneforge.graph.node import build
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from pathlib import Path

    from golden_text import Golden

WEIGHT = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float16)


def two_inputs() -> af.Tensor:
    return af.input((1, 4)) * 2.0 + af.input((1, 4), name="offset")


def test_values_are_fed_in_the_order_of_making_and_come_back_in_float32() -> None:
    model = af.compile(two_inputs(), target="h16g")
    found = model([[1, 2, 3, 4]], np.full((1, 4), 0.5, np.float64))
    assert found.dtype == np.float32
    assert found.tolist() == [[2.5, 4.5, 6.5, 8.5]]
    assert (model.inputs, model.outputs) == (("x0", "offset"), ("y",))


def test_the_host_rounds_ties_to_even_and_large_values_to_infinity() -> None:
    model = af.compile(af.input((1, 2)).relu(), target="h16g")
    with pytest.warns(af.PrecisionWarning, match="input 'x0': 1 of 2 values is infinite in fp16"):
        found = model(np.array([[2049.0, 1e6]]))
    assert found.tolist() == [[2048.0, np.inf]]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_count_is_a_value_error(count: int) -> None:
    model = af.compile(two_inputs(), target="h16g")
    with pytest.raises(ValueError, match=rf"the inputs are 'x0', 'offset' \(got {count} values, limit 2\)"):
        model(*[np.ones((1, 4))] * count)


@pytest.mark.parametrize("shape", [(4,), (1, 3), (1, 4, 1), ()])
def test_another_shape_is_a_value_error(shape: tuple[int, ...]) -> None:
    model = af.compile(two_inputs(), target="h16g")
    with pytest.raises(ValueError, match=r"input 'offset' : .* has the wrong shape"):
        model(np.ones((1, 4)), np.ones(shape))


@pytest.mark.parametrize("value", [np.array([["a"] * 4]), np.full((1, 4), None), np.full((1, 4), 1j), "text"])
def test_what_is_no_number_is_a_type_error(value: object) -> None:
    model = af.compile(two_inputs(), target="h16g")
    with pytest.raises(GraphTypeError, match="takes numbers"):
        model(np.ones((1, 4)), value)


def test_masked_elements_are_no_numbers() -> None:
    model = af.compile(af.input((1, 4)).relu(), target="h16g")
    values = np.ma.masked_array(np.ones((1, 4)), [[False, True, False, False]])
    with pytest.raises(GraphTypeError, match="has masked elements"):
        model(values)
    assert model(np.ma.masked_array(np.ones((1, 4)))).tolist() == [[1] * 4]


def test_what_is_no_array_is_one_error() -> None:
    model = af.compile(af.input((1, 4)).relu(), target="h16g")
    with pytest.raises(GraphError, match=r"the value for input 'x0' .* is not an array"):
        model([[1, 2], [3]])


def test_any_layout_of_numbers_is_taken() -> None:
    model = af.compile(af.input((2, 2)).relu(), target="h16g")
    wide = np.arange(16.0).reshape(4, 4)
    assert model(wide[::2, ::2]).tolist() == [[0, 2], [8, 10]]
    assert model(wide[:2, :2].T).tolist() == [[0, 4], [1, 5]]
    assert model(wide[:2, :2].astype(">f8")).tolist() == [[0, 1], [4, 5]]


def test_a_model_is_not_copied_or_pickled() -> None:
    model = af.compile(af.input((1, 4)).relu(), target="h16g")
    for made in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(GraphTypeError, match=r"a model is not copied or pickled.*af\.load_program"):
            made(model)


def test_a_wrong_value_leaves_the_buffers_alone() -> None:
    model = af.compile(two_inputs(), target="h16g")
    model.input_view("x0")[:] = 7
    with pytest.raises(GraphError):
        model(np.ones((1, 4)), np.ones(3))
    assert model.input_view("x0").tolist() == [[7, 7, 7, 7]]


def test_a_uint8_port_takes_no_real_numbers() -> None:
    model = af.compile(af.image_input((1, 3, 4, 4), scale=1.0), target="h16g")
    image = np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4)
    assert np.array_equal(model(image), image)
    assert np.array_equal(model(image.astype(np.int64)), image)
    for wrong in (image.astype(np.float32), image.astype(np.float16), image.astype(np.bool_)):
        with pytest.raises(TypeError, match="takes only uint8"):
            model(wrong)
    for out_of_range in (image.astype(np.int32) + 250, image.astype(np.int32) - 1):
        with pytest.raises(ValueError, match="out of range"):
            model(out_of_range)


def test_zero_copy() -> None:
    model = af.compile(two_inputs(), target="h16g")
    x, offset, y = model.input_view("x0"), model.input_view("offset"), model.output_view()
    assert (x.dtype, y.dtype) == (np.float16, np.float16)
    assert x.ctypes.data % 64 == y.ctypes.data % 64 == 0
    assert y.tolist() == [[0, 0, 0, 0]]
    x[:], offset[:] = 3, 1
    model.execute()
    assert y.tolist() == [[7, 7, 7, 7]]
    assert model.output_view() is y
    assert model.input_view("x0") is x
    result = model(np.zeros((1, 4)), np.zeros((1, 4)))
    assert y.tolist() == [[0, 0, 0, 0]]
    result[:] = 9  # what a call returns is the caller's own
    assert y.tolist() == [[0, 0, 0, 0]]


def test_views_are_asked_for_by_name() -> None:
    model = af.compile(two_inputs(), target="h16g")
    with pytest.raises(UnknownNameError, match="unknown input 'ofset'; nearest: offset"):
        model.input_view("ofset")
    with pytest.raises(UnknownNameError, match="unknown input 3"):
        model.input_view(cast("Any", 3))
    with pytest.raises(GraphError, match="a name is needed unless there is exactly one input"):
        model.input_view()
    with pytest.raises(UnknownNameError, match="unknown output 'x0'"):
        model.output_view("x0")


def test_use_after_release_is_an_error() -> None:
    model = af.compile(two_inputs(), target="h16g")
    model.release()
    model.release()
    values = [np.ones((1, 4))] * 2
    uses = [
        lambda: model(*values),
        model.execute,
        lambda: model.input_view("x0"),
        model.output_view,
        lambda: model.save("never.aneprg"),
        model.__enter__,
        lambda: model.loaded.bind("x0", np.ones((1, 4), np.float16)),
        lambda: model.loaded.set_input("x0", values[0]),
        lambda: model.loaded.read_output("y"),
        lambda: model.loaded.share_buffer("y", "x0"),
    ]
    for use in uses:
        with pytest.raises(RuntimeStateError, match="the program was released"):
            use()
    assert repr(model).endswith(", released>")


def test_a_with_statement_releases() -> None:
    with af.compile(two_inputs(), target="h16g") as model:
        model(np.ones((1, 4)), np.ones((1, 4)))
    with pytest.raises(RuntimeError, match="released"):
        model.execute()


def test_states_live_from_call_to_call() -> None:
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total + af.input((1, 32))}, {"total": total + 1.0})
    model = af.compile(graph, target="h16g")
    assert isinstance(model, af.Model)
    assert [model(np.zeros((1, 32)))[0, 0] for _ in range(3)] == [0, 1, 2]
    assert model.loaded.read_state("total")[0, 0] == 3
    model.loaded.write_state("total", np.full((1, 32), 10))
    assert model(np.zeros((1, 32)))[0, 0] == 10
    with pytest.raises(UnknownNameError, match="unknown state 'sum'"):
        model.loaded.read_state("sum")
    with pytest.raises(GraphError, match="wrong shape"):
        model.loaded.write_state("total", np.zeros(3))


def test_a_segmented_model() -> None:
    q, k, v = (af.input((1, 2, 16, 8)) for _ in range(3))
    out = af.sdpa(q * 2.0, k, v, native=True).relu()
    model = af.compile(out, target="h16g")
    assert isinstance(model, af.SegmentedModel)
    assert (model.n_netplist, model.n_sdpa, model.n_ops, len(model.segments)) == (1, 1, 2, 3)
    inputs = [np.random.default_rng(place).standard_normal((1, 2, 16, 8)) for place in range(3)]
    wanted = af.run(model.program, {f"x{place}": value for place, value in enumerate(inputs)}).outputs["y"]
    assert np.array_equal(model(*inputs), wanted.astype(np.float32))


def test_random_numbers_are_drawn_by_the_host_from_the_seed_where_the_engine_draws_none(tmp_path: Path) -> None:
    out = af.dropout(af.input((1, 32)), 0.5, seed=5) * 3.0
    sample = np.random.default_rng(0).integers(-8, 9, (1, 32)).astype(np.float32)
    models = [af.compile(out, target=target) for target in ("h13", "h14", "h16g")]
    assert [[one.op for one in model.supplied] for model in models] == [["dropout"], ["dropout"], []]
    loaded = af.load_program(models[0].save(tmp_path / "net.aneprg"))
    assert isinstance(loaded, af.Model)
    wanted = af.reference(out, [sample.astype(np.float64)])["y"]
    for model in (*models, loaded):
        assert np.array_equal(model(sample), wanted)
    other = np.where(np.arange(32) % 2, 2.0, 0.0)[None]
    assert np.array_equal(models[0](np.ones((1, 32)), other), other * 3), "a caller may feed others"
    assert np.array_equal(models[0](sample), wanted), "for one call"
    with pytest.raises(ValueError, match="the inputs are 'x0'"):
        models[0]()


@pytest.mark.filterwarnings("ignore:ANE-QUIRK-007")  # nothing is computed
def test_an_input_that_leaves_unchanged_under_its_own_name() -> None:
    x = af.input((1, 4), name="x")
    model = af.compile(af.Graph({"x": x, "y": x * 2.0}), target="h16g")
    assert isinstance(model, af.MultiModel)
    found = model(np.ones((1, 4)))
    assert (found["x"].tolist(), found["y"].tolist()) == ([[1] * 4], [[2] * 4])
    assert list(model.loaded.ports) == ["x:input", "x:output", "y"]


def test_a_model_shows_each_reason_once() -> None:
    weight = np.ones((8, 8, 3, 3), np.float16)
    x = af.conv(af.input((1, 8, 8, 8)), weight, pad=1).relu()
    model = af.compile(af.conv(x, weight, pad=1), target="m1", backend="software")
    assert model.exactness.reason.count("the sums of a matrix product") == 2, "of two layers, one of them with a relu"
    assert str(model).count("the sums of a matrix product") == 1


def test_what_a_model_shows() -> None:
    model = af.compile(af.conv(af.input((1, 3, 8, 8)), WEIGHT, pad=1).relu(), target="m1")
    assert (model.target, model.backend, model.n_ops, len(model.layers), len(model.segments)) == (
        "h13", "software", 2, 1, 1
    )  # fmt: skip
    assert str(model.exactness.exactness) == "exact"
    assert model.last_label is None
    model(np.ones((1, 3, 8, 8)))
    assert str(cast("Any", model.last_label).exactness) == "exact"
    model(np.full((1, 3, 8, 8), np.inf))
    assert str(cast("Any", model.last_label).exactness) == "modelled"
    assert len(model.schedule.partitions) == 1
    assert model.plan is model.plan


def test_a_model_prints(golden: Golden) -> None:
    with pytest.warns(af.SaturationWarning) as caught:
        model = af.compile(
            (af.input((1, 4, 8, 16), name="image").slice_by_size([0, 0, 0, 4], [1, 4, 8, 8]).sin()), target="h13"
        )
    assert [one.category for one in caught][-2:] == [af.SliceSaturationWarning, af.SaturationWarning]
    whole = ("<", "segments", "constants", "warning")
    lines = [line if line.startswith(whole) else line[:60] for line in str(model).replace(__file__, "here").split("\n")]
    golden(re.sub(r"here:\d+", "here", "\n".join(lines) + "\n"))
    assert "\n" not in repr(model)


def test_one_byte_is_not_bytes() -> None:
    x = af.input((1, 8), name="x")
    chosen = af.Tensor(build("select", {"cond": Dense(np.array([True])), "a": x.relu(), "b": x}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "\nconstants: 1, 1 byte\n" in str(af.compile(chosen, target="m1"))


def test_a_model_has_the_graph_that_other_tools_take(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((8, 64))
    x = af.input((1, 64), name="x", max_abs=10.0)
    model = af.compile(x.linear(weights), compress="int8", target="h17")
    assert [constant.encoding for constant in model.graph.constants.values()] == ["int8"]
    again = af.compile(x.linear(weights), compress="int8", target="h17")
    assert again.graph.constants == model.graph.constants, "from the cache"
    assert "constexpr_affine_dequantize" in af.to_mil(model.graph).text
    with pytest.raises(GraphError, match="read from a file has no graph"):
        _ = af.load_program(model.save(tmp_path / "net.aneprg")).graph
