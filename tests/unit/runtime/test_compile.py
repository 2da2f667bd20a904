"""`af.compile`: the documented options, their order, their warnings and their errors."""

from __future__ import annotations

import gc
import inspect
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge import _compile
from aneforge.errors import (
    GraphError,
    GraphTypeError,
    IllegalGraphError,
    NotSupportedError,
    RuntimeStateError,
    StrictCompileError,
    UnknownNameError,
)
from aneforge.formats.mil.program import load_mil
from aneforge.graph.node import build
from aneforge.optimise.forms import choosing
from aneforge.optimise.forms.choosing import Search
from aneforge.runtime.options import OF_NO_PROGRAM, OPTION_NAMES, Options, check_options
from aneforge.runtime.slots import SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)
SAMPLE = RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)


def small() -> af.Tensor:
    return af.conv(af.input((1, 3, 16, 16)), WEIGHT, pad=1).relu()


def width_slice(max_abs: float | None = None) -> af.Tensor:
    return af.input((1, 4, 8, 16), max_abs=max_abs).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8])


def test_the_signature_is_the_documented_one() -> None:
    documented = ["out", "int8", "build_dir", "opt", "compress", "compress_atol", "block_size", "validate", "target"]
    parameters = inspect.signature(af.compile).parameters
    assert list(parameters)[:9] == documented
    assert [parameters[name].default for name in documented[1:]] == [
        False, None, "routes", None, 0.05, 32, False, None
    ]  # fmt: skip
    own = list(parameters.values())[9:]
    assert [parameter.name for parameter in own] == ["strict", "rescale", "backend"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in own)


def test_compile_multi_is_where_the_documentation_imports_it() -> None:
    assert _compile.compile_multi is af.compile_multi


@pytest.mark.parametrize("opt", [0, None, False, "routes", 1, 2, "max"])
def test_every_level_gives_the_engines_numbers(opt: object) -> None:
    model = af.compile(small(), target="h13", opt=cast("Any", opt))
    program = af.build_program(small(), "h13")
    assert np.array_equal(model(SAMPLE), af.run(program, {"x0": SAMPLE}).outputs["y"].astype(np.float32))


@pytest.mark.parametrize("opt", [True, 3, -1, "fast", 1.0, "Routes", [1]])
def test_another_level_is_a_value_error(opt: object) -> None:
    with pytest.raises(ValueError, match="unknown level of opt: expected 0, None"):
        af.compile(small(), target="h13", opt=cast("Any", opt))


def test_the_options_are_written_once() -> None:
    listed = list(inspect.signature(Options).parameters.values())
    for function in (af.compile, af.compile_multi):
        assert list(inspect.signature(function).parameters.values())[1:] == listed
    with pytest.raises(TypeError, match=r"^compile_multi\(\) got an unexpected keyword argument 'fast'$"):
        cast("Any", af.compile_multi)([af.input((1, 2)).relu()], fast=True)


def test_every_option_that_can_change_a_program_is_in_the_key() -> None:
    others = {"int8": True, "opt": 0, "compress": "int4", "compress_atol": 0.1, "block_size": 16, "rescale": "auto"}
    changed = {name: check_options(replace(Options(), **{name: other})).key for name, other in others.items()}
    assert others.keys() == set(OPTION_NAMES) - OF_NO_PROGRAM
    assert len({Options().key, *changed.values()}) == 1 + len(others)


@pytest.mark.parametrize("opt", [1, 2, "max"])
@pytest.mark.parametrize("options", [{"compress": "int4"}, {"int8": True}])
def test_compression_does_not_go_with_a_choice_of_form(opt: object, options: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match="does not go together with opt"):
        af.compile(small(), target="h13", opt=cast("Any", opt), **options)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"int8": 1}, GraphTypeError, "int8 must be True or False"),
        ({"validate": None}, GraphTypeError, "validate must be True or False"),
        ({"strict": "yes"}, GraphTypeError, "strict must be True or False"),
        ({"compress": "int2"}, UnknownNameError, "unknown way of compressing 'int2'; nearest: int8, int4"),
        ({"compress": 8}, UnknownNameError, "unknown way of compressing 8"),
        ({"int8": True, "compress": "sparse"}, GraphError, 'int8=True means compress="int8"'),
        ({"compress_atol": -1}, GraphError, "compress_atol must be 0 or more"),
        ({"compress_atol": float("nan")}, GraphError, "compress_atol must be 0 or more"),
        ({"compress_atol": "0.1"}, GraphTypeError, "compress_atol is not a number"),
        ({"compress_atol": True}, GraphTypeError, "compress_atol is not a number"),
        ({"block_size": 0}, GraphError, "block_size is not a number of columns"),
        ({"block_size": 2.0}, GraphTypeError, "block_size is not an integer"),
        ({"rescale": "always"}, UnknownNameError, "unknown way of rescaling 'always'"),
        ({"build_dir": 3}, GraphTypeError, "build_dir is not a path"),
        ({"target": "h99"}, UnknownNameError, "unknown target 'h99'"),
        ({"target": 99}, UnknownNameError, "unknown target family 99"),
        ({"backend": "ane"}, UnknownNameError, "unknown backend 'ane'"),
        ({"backend": 3}, GraphTypeError, "backend is neither a name nor a backend"),
    ],
)
def test_a_wrong_option_is_one_clear_error(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        cast("Any", af.compile)(small(), **{"target": "h13", **options})


def test_what_is_no_graph() -> None:
    with pytest.raises(TypeError, match="a graph is made of tensors"):
        af.compile(cast("Any", np.ones(3)), target="h13")


def test_a_graph_without_inputs_is_a_value_error() -> None:
    alone = af.Tensor(build("fill", {}, {"shape": (1, 2), "value": 1.0}, None))
    with pytest.raises(ValueError, match=r"ANE-PORT-001 reject: .* The graph has no inputs"):
        af.compile(alone, target="h13")


def test_an_operation_below_its_floor_is_refused_as_documented() -> None:
    with pytest.raises(NotImplementedError, match="sort") as caught:
        af.compile(af.sort(af.input((1, 1, 1, 16))), target="h13")
    assert isinstance(caught.value, IllegalGraphError)


def test_a_rescaled_model_tells_what_was_done() -> None:
    weights = np.random.default_rng(0).standard_normal((16, 512)) / np.sqrt(512)
    out = af.input((8, 512), max_abs=0.2).linear(weights.astype(np.float32))
    assert af.compile(out, target="h13").remarks == ()
    remarks = af.compile(out, target="h13", rescale="auto").remarks
    assert remarks[0].startswith("rescaled: t1 linear")
    assert "weight times 2^" in remarks[0]


# Warnings


def compiled_with_warnings(out: af.Tensor, target: str, compress: str | None = None) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        af.compile(out, target=target, compress=compress)
    return caught


def test_warnings_come_in_the_documented_order_at_the_users_line() -> None:
    x = af.input((1, 4, 8, 1024))
    out = x.slice_by_size([0, 0, 0, 4], [1, 4, 8, 512]).sum(-1)
    caught = compiled_with_warnings(out, target="h13")
    assert [warning.category.__name__ for warning in caught] == [
        "PrecisionWarning",
        "DispatchFloorWarning",
        "SliceSaturationWarning",
    ]
    assert {Path(warning.filename).name for warning in caught} == {"test_compile.py"}


def test_the_warnings_are_public_and_the_model_keeps_them() -> None:
    assert issubclass(af.SliceSaturationWarning, af.PrecisionWarning)
    assert issubclass(af.CrossChipFP16Warning, UserWarning)
    with pytest.warns(
        af.SliceSaturationWarning,
        match=r"slice_by_size at .*test_compile\.py:\d+ on h13: the slice begins inside the width",
    ):
        model = af.compile(width_slice(), target="h13")
    assert [caution.category for caution in model.warnings] == ["DispatchFloorWarning", "SliceSaturationWarning"]


ROUTES: dict[str, Callable[[af.Tensor], af.Tensor]] = {
    "int8": lambda x: x.linear(np.ones((4, 8)) / 8),
    "sin": lambda x: x.sin(),
    "resize": lambda x: af.resize_nearest_neighbor(x.reshape(1, 1, 2, 4), 4, 8),
    "products": lambda x: x.linear(np.eye(8)),
}


@pytest.mark.parametrize(
    ("route", "compress", "edge", "target"),
    [
        ("int8", "int8", 4094.0, "h16g"),
        ("sin", None, 3234.0, "h13"),
        ("resize", None, 32752.0, "h13"),
        ("products", None, 32752.0, "h16g"),
    ],
)
def test_what_becomes_infinite_is_warned_of_where_promises_do_not_exclude_it(
    route: str, compress: str | None, edge: float, target: str
) -> None:
    """The promise is the edge: at it nothing is warned of and nothing is infinite, one number above it both."""
    above = float(np.nextafter(np.float16(edge), np.float16(np.inf)))
    for most in (edge, above):
        out = ROUTES[route](af.input((1, 8), max_abs=most))
        caught = compiled_with_warnings(out, target=target, compress=compress)
        saturations = [one for one in caught if issubclass(one.category, af.SaturationWarning)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = af.compile(out, target=target, compress=compress)(np.full((1, 8), most))
        assert len(saturations) == (most == above)
        assert all(one.filename == __file__ for one in saturations)
        assert np.isinf(result).any() == (most == above)


def test_what_asks_for_an_encoding_gets_it_with_a_warning_of_its_error() -> None:
    out = af.input((1, 64)).linear(RANDOM.standard_normal((64, 64)).astype(np.float16))
    with pytest.warns(
        af.PrecisionWarning, match=r"1 of 1 weights have a relative error over compress_atol = 0.05, the"
    ):
        model = af.compile(out, target="h16g", compress="int4")
    assert [report.encoding for report in model.weights] == ["int4"]


def test_a_slice_in_a_loop_of_layers_is_one_cause_each() -> None:
    x = af.input((1, 4, 8, 16))
    parts = [x.slice_by_size([0, 0, 0, 4], [1, 4, 8, 4]) + x.slice_by_size([0, 0, 0, 4], [1, 4, 8, 4])]
    caught = compiled_with_warnings(parts[0], target="h13")
    assert sum(warning.category is af.SliceSaturationWarning for warning in caught) == 1


@pytest.mark.parametrize(("target", "warns"), [("h13", True), ("h14", True), ("h15", False), ("h16g", False)])
def test_only_the_fixed_point_crop_is_warned_of(target: str, warns: bool) -> None:  # noqa: FBT001 - a table of cases
    caught = compiled_with_warnings(width_slice(), target=target)
    assert any(warning.category is af.SliceSaturationWarning for warning in caught) is warns


@pytest.mark.parametrize(("most", "warns"), [(4094.0, False), (4095.0, True), (1.0, False)])
def test_a_promise_below_the_edge_needs_no_warning(most: float, warns: bool) -> None:  # noqa: FBT001 - as above
    caught = compiled_with_warnings(width_slice(most), target="h13")
    assert any(warning.category is af.SliceSaturationWarning for warning in caught) is warns


def test_a_bounded_function_before_the_slice_needs_no_warning() -> None:
    out = af.input((1, 4, 8, 16)).sigmoid().slice_by_size([0, 0, 0, 4], [1, 4, 8, 8])
    caught = compiled_with_warnings(out, target="h13")
    assert not any(warning.category is af.SliceSaturationWarning for warning in caught)


def test_the_promise_does_not_outlive_what_grows() -> None:
    x = af.input((1, 4, 8, 16), max_abs=4000.0)
    caught = compiled_with_warnings((x + x).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8]), target="h13")
    assert any(warning.category is af.SliceSaturationWarning for warning in caught)


@pytest.mark.parametrize(("most", "warns"), [(60.0, False), (70.0, True)])
def test_what_ranges_bound_needs_no_warning(most: float, warns: bool) -> None:  # noqa: FBT001 - a table of cases
    x = af.input((1, 4, 8, 16), max_abs=most, name="x")
    out = (x * x).slice_by_size([0, 0, 0, 4], [1, 4, 8, 8])
    caught = compiled_with_warnings(out, target="h13")
    assert any(warning.category is af.SliceSaturationWarning for warning in caught) is warns
    given = af.run(af.build_program(out, "h13"), {"x": np.full((1, 4, 8, 16), most)}).outputs
    assert bool(np.all(np.isfinite(next(iter(given.values()))))) is not warns


@pytest.mark.parametrize("magnitudes", [(60000.0, 1.0), (1.0, 60000.0)])
def test_the_largest_of_joined_tensors_is_warned_of(magnitudes: tuple[float, float]) -> None:
    parts = [af.input((1, 4, 8, 16), max_abs=most) for most in magnitudes]
    caught = compiled_with_warnings(af.concat(parts, axis=1).slice_by_size([0, 0, 0, 4], [1, 8, 8, 8]), target="h13")
    assert any(warning.category is af.SliceSaturationWarning for warning in caught)


@pytest.mark.parametrize(("begin", "size"), [([0, 0, 0, 0], [1, 4, 8, 8]), ([0, 1, 0, 0], [1, 2, 8, 16])])
def test_a_slice_that_begins_elsewhere_is_clean(begin: list[int], size: list[int]) -> None:
    caught = compiled_with_warnings(af.input((1, 4, 8, 16)).slice_by_size(begin, size), target="h13")
    assert not any(warning.category is af.SliceSaturationWarning for warning in caught)


def test_a_large_program_is_no_matter_of_its_dispatch() -> None:
    x = af.input((1, 256, 64, 64))
    out = af.conv(x, np.zeros((256, 256, 3, 3), np.float16), pad=1)
    for target in ("h13", "h14", "h17s"):
        caught = compiled_with_warnings(out, target=target)
        assert not any(warning.category is af.DispatchFloorWarning for warning in caught)
    with pytest.warns(af.DispatchFloorWarning, match=r"of which 201 µs \(186 to 230\) are its dispatch"):
        af.compile(small(), target="h13")


@pytest.mark.parametrize("extent", [255, 256])
def test_long_signed_sums_are_a_risk(extent: int) -> None:
    caught = compiled_with_warnings(af.input((4, extent)).sum(-1), target="h13")
    assert any(warning.category is af.PrecisionWarning for warning in caught) is (extent == 256)
    if extent == 256:
        with pytest.raises(ValueError, match=r"precision is at risk:\n  reduce_sum at .* adds 256 signed numbers"):
            af.compile(af.input((4, extent)).sum(-1), target="h13", validate=True)


def test_validation_sees_what_rules_warn_of_before_and_after_compression() -> None:
    with pytest.raises(ValueError, match=r"precision is at risk:\n  ANE-QUIRK-002 warn: softplus"):
        af.compile(af.input((1, 8)).softplus(), target="h13", validate=True)
    out = af.input((1, 64)).linear(RANDOM.standard_normal((64, 64)).astype(np.float16))
    with pytest.raises(ValueError, match=r"precision is at risk:\n  .*one scale per block"):
        af.compile(out, target="h16g", compress="blockwise", validate=True)


@pytest.mark.parametrize("opt", ["routes", 0])
def test_validation_lets_errors_pass_that_are_bounded(opt: str | int, tmp_path: Path) -> None:
    with pytest.warns(af.PrecisionWarning, match="ANE-QUIRK-008 warn: silu"):
        model = af.compile(af.input((1, 8)).silu(), target="h16g", validate=True, opt=opt)
    (silu,) = (one for one in model.warnings if one.category == "PrecisionWarning")
    assert silu.bounded
    assert silu in af.load_program(model.save(tmp_path / "net.aneprg")).warnings
    with pytest.raises(ValueError, match=r"precision is at risk:\n  ANE-QUIRK-002 warn: softplus") as refusal:
        af.compile(af.input((1, 8)).silu().softplus(), target="h16g", validate=True, opt=opt)
    assert "silu at" not in str(refusal.value)


def test_sums_of_what_is_never_negative_are_none() -> None:
    x = af.input((4, 1024))
    for out in (x.relu().sum(-1), x.square().sum(-1), (x * x).sum(-1), x.softmax(-1).sum(-1)):
        af.compile(out, target="h13", validate=True)


# Strict


def test_strict_lists_everything_in_one_error() -> None:
    x = af.input((1, 4, 8, 16))
    out = x.sin().slice_by_size([0, 0, 0, 4], [1, 4, 8, 8]).softmax(-1)
    with pytest.warns(af.SaturationWarning), pytest.raises(StrictCompileError) as caught:
        af.compile(out, target="h13", strict=True)
    findings = "\n".join(caught.value.findings)
    assert "retarget: sin" in findings
    assert "saturation or precision: slice_by_size at" in findings
    assert "saturation or precision: sin at" in findings
    assert "modelled: " in findings
    assert str(caught.value).count("\n") == len(caught.value.findings)


def test_strict_lets_exact_programs_pass() -> None:
    model = af.compile(small(), target="h13", strict=True)
    assert str(model.exactness.exactness) == "exact"


def test_strict_sees_folded_weights() -> None:
    out = af.input((1, 64)).linear(RANDOM.standard_normal((64, 64)).astype(np.float16))
    with pytest.raises(StrictCompileError, match="fold to dense fp16 here"):
        af.compile(out, target="h13", compress="int8", strict=True)


def test_what_strict_refuses_is_no_loaded_program() -> None:
    gc.collect()
    before = SLOTS.used
    with pytest.raises(StrictCompileError):
        af.compile(af.input((1, 8)).softmax(-1), target="h13", strict=True)
    assert SLOTS.used == before


# Compression, forms, artifacts


def test_weights_are_reported() -> None:
    out = af.input((1, 64), max_abs=4.0).linear(RANDOM.standard_normal((64, 64)).astype(np.float16))
    by_name = af.compile(out, target="h16g", compress="int8")
    by_flag = af.compile(out, target="h16g", int8=True)
    assert [report.encoding for report in by_name.weights] == ["int8"]
    assert by_flag.weights == by_name.weights
    sample = RANDOM.standard_normal((1, 64))
    assert np.array_equal(by_name(sample), by_flag(sample))
    assert not np.array_equal(by_name(sample), af.compile(out, target="h16g")(sample))
    assert "weight: " in str(by_name)


def attention() -> af.Tensor:
    q, k, v = (af.input((1, 2, 16, 8)) for _ in range(3))
    return af.sdpa(q, k, v, is_causal=True, native=True)


@pytest.mark.parametrize("opt", [1, 2])
def test_forms_of_attention_are_chosen_by_cost(opt: int) -> None:
    model = af.compile(attention(), target="h16g", opt=opt)
    assert type(model) is af.Model
    assert "attention of products and softmax" in model.remarks[-1]
    assert "nothing was measured" in model.remarks[-1]
    assert (len(model.remarks) == 3) is (opt == 2)
    inputs = [RANDOM.standard_normal((1, 2, 16, 8)) for _ in range(3)]
    wanted = af.reference(attention(), inputs)["y"]
    assert np.abs(model(*inputs) - wanted).max() < 0.01


@pytest.mark.parametrize("mask", ["none", "array", "tensor"])
def test_masks_survive_the_other_form_of_attention(mask: str) -> None:
    hidden = np.triu(np.full((16, 16), -1e4, np.float32), 1)[None, None]
    q, k, v = (af.input((1, 2, 16, 8)) for _ in range(3))
    given = {"none": None, "array": hidden, "tensor": af.input((1, 1, 16, 16))}[mask]
    out = af.sdpa(q, k, v, scale=0.5, attn_mask=given, native=True)
    inputs = [RANDOM.standard_normal((1, 2, 16, 8)) for _ in range(3)] + ([hidden] if mask == "tensor" else [])
    model = af.compile(out, target="h16g", opt=1)
    assert type(model) is af.Model
    assert np.abs(model(*inputs) - af.reference(out, inputs)["y"]).max() < 0.01


def test_a_form_whose_error_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "Search", partial(Search, most_error=0.0))
    model = af.compile(attention(), target="h16g", opt=2)
    assert isinstance(model, af.SegmentedModel)
    assert "attention of products and softmax: error" in model.remarks[1]
    assert model.remarks[1].endswith(", above 0")


def test_one_form_is_no_choice() -> None:
    remarks = af.compile(small(), target="h13", opt=1).remarks
    assert remarks[-1] == "no faster form of the model is known"
    assert af.compile(af.input((1, 4)).relu(), target="h13", opt=2).remarks == remarks[-1:]


def test_numbers_of_numpy_are_numbers() -> None:
    options: dict[str, Any] = {
        "int8": np.False_,
        "opt": np.int64(1),
        "compress_atol": np.float32(0.1),
        "block_size": np.int8(4),
    }
    made = af.compile(small(), target="h13", **options)
    assert made.remarks[-1] == "no faster form of the model is known"


def test_movements_that_undo_one_another_go() -> None:
    x = af.input((2, 3, 4))
    out = x.transpose(2, 0, 1).transpose(1, 2, 0).reshape(6, 4).reshape(2, 3, 4).relu()
    assert af.compile(out, target="h13").n_ops == 1
    assert af.compile(out, target="h13", opt=0).n_ops == 5


def test_artifacts_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    model = af.compile(small(), target="h13", build_dir=folder)
    assert sorted(file.name for file in folder.iterdir()) == [
        "model.mil",
        "program.anec",
        "program.aneprg",
        "weights.bin",
    ]
    assert (folder / "program.anec").read_text(encoding="utf-8") == str(model.program)
    again = af.load_program(folder / "program.aneprg")
    assert np.array_equal(np.asarray(again(SAMPLE)), model(SAMPLE))
    graph = load_mil(folder).graph()
    assert np.allclose(af.reference(graph, [SAMPLE])["y"], af.reference(small(), [SAMPLE])["y"], atol=1e-2)
    assert model.remarks == (f"artifacts are in {folder}",)


def test_artifacts_without_a_form_in_mil_say_so(tmp_path: Path) -> None:
    out = af.minmax_norm(af.input((4, 8, 8)))
    model = af.compile(out, target="h16g", build_dir=str(tmp_path / "artifacts"))
    assert "MIL is not among them" in model.remarks[0]


# Several outputs


def test_several_outputs_by_name() -> None:
    x = af.input((1, 4))
    given = {"a": x.relu(), "b": x * 2.0}
    for model in (af.compile_multi(given, target="h13"), af.compile(given, target="h13")):
        assert isinstance(model, af.MultiModel)
        found = model(np.array([[-1, 0, 1, 2]]))
        assert list(found) == ["a", "b"]
        assert found["b"].dtype == np.float32
        assert found["b"].tolist() == [[-2, 0, 2, 4]]


def test_one_output_of_compile_multi_is_still_by_name() -> None:
    assert list(af.compile_multi([af.input((1, 4)).relu()], target="h13")(np.ones((1, 4)))) == ["y0"]


def test_compile_multi_refuses_native_layers_as_documented() -> None:
    with pytest.raises(NotImplementedError, match="this layer needs one of its own"):
        af.compile_multi([attention()], target="h16g")


def test_a_graph_of_states_alone_has_nothing_to_give() -> None:
    total = af.state("total", (1, 32))
    with pytest.raises(NotSupportedError, match="the graph has no output"):
        af.compile(af.Graph({}, {"total": total + 1.0}), target="h13")


def test_the_limit_of_loaded_programs() -> None:
    gc.collect()
    before = SLOTS.used
    models: list[object] = []
    with pytest.raises(RuntimeStateError, match="programs are loaded, and this one needs 1") as caught:
        models.extend(af.compile(af.input((1, 2)).relu(), target="h13") for _ in range(200))
    assert isinstance(caught.value, RuntimeError)
    assert SLOTS.used == 128
    models.pop()
    models.append(af.compile(af.input((1, 2)).relu(), target="h13"))
    models.clear()
    gc.collect()
    assert SLOTS.used == before
