"""The umbrella: layers, slots, ports and the network as a whole; graphs before conversion; edits; loading."""

from dataclasses import replace

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.edit import as_stage, new_layer
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.ir.layer import Epilogue, Layer, Value
from aneforge.compiler.ir.program import Port, Program, State
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.validators import (
    CompiledMatrix,
    MatrixForm,
    Plane,
    Stage,
    Verdict,
    is_compressible,
    validate,
    validate_at_load,
    validate_layer,
    validate_module,
    validate_module_creation,
    validate_program,
    validate_weight_edits,
)
from aneforge.compiler.validators.examples import EXAMPLES, PLAIN
from aneforge.errors import GraphError, IllegalGraphError, NoDataError
from aneforge.graph.graph import GraphLike, as_graph
from aneforge.graph.node import build
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.types import numpy_dtype
from aneforge.rules import Operation, Severity
from aneforge.targets import resolve
from unit.compiler.validators.layers_by_hand import convolution, fp16, layer, live, zeros

IMAGE = live("x", 1, 8, 32, 32)


def lowered(graph: GraphLike, target: str) -> Program:
    return lower(as_graph(graph), resolve(target))


def program_of(*layers: Layer, target: str = "m1", inputs: tuple[Value, ...] = (IMAGE,)) -> Program:
    last = layers[-1].result
    ports = tuple(Port(value.name, value) for value in inputs)
    return Program(resolve(target), ports, layers, (Port("out", last),))


def texts_of(program: Program, *, schema: str | None = None, engines: int = 1) -> list[str]:
    found = validate_program(program, schema=schema, engines=engines)
    return [text for one in found.findings if one.stops for text in one.texts]


def relu(name: str = "y") -> Layer:
    return new_layer("relu", {"x": IMAGE}, {}, name, location=None)


def test_a_plain_program_is_accepted() -> None:
    weights = np.zeros((8, 3, 3, 3), np.float16)
    program = lowered(af.conv(af.input((1, 3, 32, 32)), weights, pad=1).relu(), "m1")
    found = validate_program(program)
    assert (found.verdict, found.ok, found.findings, found.target) == (Verdict.ACCEPT, True, (), "h13")
    assert [(one.op, one.validator.name if one.validator else None) for one in found.layers] == [
        ("conv", "Conv"),
        ("relu", "Neuron"),
    ]
    assert [one.op for one in found.ports] == ["input", "output"]


def test_a_layer_that_fails_in_lowering_gives_the_program_that_verdict() -> None:
    values, _ = af.topk(af.input((1, 64)), 5)
    found = validate_program(lowered(values, "m1"))
    assert found.verdict is Verdict.ACCEPT_THEN_FAIL
    assert not found.ok
    (objection,) = [one for one in found.findings if one.stops]
    assert (objection.stage, objection.finding.rule, objection.texts) == (Stage.LOWERING, "ANE-FLOOR-002", ())
    assert validate_program(lowered(values, "m2")).ok


def test_a_rejection_outweighs_a_failure_in_lowering() -> None:
    values, _ = af.topk(af.input((1, 64)), 5)
    found = validate_program(lowered(values.sin(), "m1"))
    assert found.verdict is Verdict.REJECT
    assert {one.verdict for one in found.layers} == {Verdict.ACCEPT_THEN_FAIL, Verdict.REJECT}


@pytest.mark.parametrize(
    ("example", "target", "verdict"),
    [
        ("TopK plain", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("TopK plain", "m2", Verdict.ACCEPT),
        ("TopK k = 3", "m5", Verdict.ACCEPT_THEN_FAIL),
        ("Sort plain", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("Sort plain", "m1-max", Verdict.ACCEPT_THEN_FAIL),
        ("Sort plain", "m2", Verdict.ACCEPT),
        ("DynamicSlice plain", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("DynamicSlice plain", "m2", Verdict.ACCEPT),
        ("CropResize plain", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("CropResize plain", "m2", Verdict.ACCEPT),
        ("LRN 16 channels", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("Conv three-dimensional", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("Conv three-dimensional", "m6", Verdict.ACCEPT_THEN_FAIL),
        ("Conv three-dimensional", "m11", Verdict.ACCEPT_THEN_FAIL),
        ("Conv three-dimensional", "h12", Verdict.REJECT),
        ("Conv three-dimensional", "u1", Verdict.REJECT),
        ("Unflatten plain", "h12", Verdict.ACCEPT_THEN_FAIL),
        ("Unflatten plain", "m1", Verdict.ACCEPT_THEN_FAIL),
        ("Unflatten plain", "m6", Verdict.ACCEPT_THEN_FAIL),
        ("Unflatten plain", "u1", Verdict.ACCEPT_THEN_FAIL),
        ("NMS plain", "m6", Verdict.ACCEPT_THEN_FAIL),
        ("Softmax plain", "h12", Verdict.REJECT),
        ("Softmax plain", "m1", Verdict.ACCEPT),
        ("InstanceNorm plain", "h12", Verdict.REJECT),
        ("Dropout plain", "m2", Verdict.REJECT),
        ("Dropout plain", "m3", Verdict.ACCEPT),
        ("Random plain", "m2", Verdict.REJECT),
        ("Random plain", "m3", Verdict.ACCEPT),
        ("AffineTransform plain", "m1", Verdict.REJECT),
        ("AffineTransform plain", "m2", Verdict.ACCEPT),
        ("Resample plain", "m1", Verdict.REJECT),
        ("Pad reflected", "m1", Verdict.REJECT),
        ("Pad reflected", "m2", Verdict.ACCEPT),
        ("DynamicGOC plain", "m9", Verdict.REJECT),
        ("DynamicGOC plain", "h12", Verdict.ACCEPT),
        ("ElementWise fp8 (E4M3)", "m5", Verdict.REJECT),
        ("ElementWise fp8 (E4M3)", "h18", Verdict.ACCEPT),
        ("GlobalArgMinMax plain", "h12", Verdict.REJECT),
        ("GlobalArgMinMax plain", "m1", Verdict.ACCEPT),
        ("Gather coordinates of three axes, batch 1", "m1", Verdict.ACCEPT),
        ("Gather coordinates of two axes", "m1", Verdict.REJECT),
        ("Gather coordinates of two axes", "m2", Verdict.ACCEPT),
        ("Concat one input", "m6", Verdict.REJECT),
        ("Pad of the channels", "m1", Verdict.REJECT),
        ("Linear five axes", "m6", Verdict.REJECT),
        ("MatrixMult five axes", "m1", Verdict.REJECT),
        ("MatrixMult rows of 32,769 elements", "m5", Verdict.REJECT),
        ("Transpose of the batch of five axes", "m4", Verdict.REJECT),
    ],
)
def test_cells_of_the_support_table(example: str, target: str, verdict: Verdict) -> None:
    (found,) = [one for one in EXAMPLES if f"{one.validator} {one.form}" == example]
    assert found.on(target).verdict is verdict


def test_every_example_is_checked_by_the_validator_that_it_shows() -> None:
    for one in EXAMPLES:
        checked_by = one.on("m1").validator
        assert checked_by is not None
        assert checked_by.name == one.validator, one.form


def test_every_named_validator_has_one_plain_example_and_forms_have_names_of_their_own() -> None:
    from aneforge.compiler.validators import validators  # noqa: PLC0415 - only here

    plain = [one.validator for one in EXAMPLES if one.form == PLAIN]
    assert sorted(plain) == sorted(name for name, one in validators().items() if one.symbol)
    assert len({(one.validator, one.form) for one in EXAMPLES}) == len(EXAMPLES)


def test_a_newer_schema_is_refused() -> None:
    program = program_of(relu())
    assert validate_program(program, schema="1.0.10").ok
    assert validate_program(program, schema="1.0.9").ok
    found = validate_program(program, schema="1.1")
    assert found.verdict is Verdict.REJECT
    (objection,) = found.network.findings
    assert (objection.finding.rule, objection.finding.seen, objection.finding.limit) == (
        "ANE-NETWORK-001",
        "1.1",
        "1.0.10",
    )


@pytest.mark.parametrize("schema", ["", "one", "1.", "1.0.10.2.3", "1.0.٣", "-1", "1" * 4000, 1.0])
def test_a_schema_that_is_no_version(schema: str) -> None:
    with pytest.raises(GraphError, match="the schema of a network description is not a version"):
        validate_program(program_of(relu()), schema=schema)


@pytest.mark.parametrize("engines", [0, -1, True, 1.0, "2"])
def test_a_number_of_engines_that_is_none(engines: int) -> None:
    with pytest.raises(GraphError, match="a network runs on one engine or more"):
        validate_program(program_of(relu()), engines=engines)


def test_a_bonded_network_runs_where_there_are_as_many_engines() -> None:
    text = "Bonded networks are not supported on the target"
    for one in ("m1", "m4"):
        assert texts_of(program_of(relu(), target=one), engines=2) == [text]
    assert texts_of(program_of(relu(), target="m6"), engines=2) == []
    assert texts_of(program_of(relu(), target="m6"), engines=3) == [text]
    unknown = validate_program(program_of(relu(), target="h15"), engines=2)
    assert unknown.ok
    assert unknown.network.undecided


def test_two_units_of_one_name_collide() -> None:
    program = program_of(relu("a"), relu("b"), relu("a"))
    text = 'ANE internal error: Unit name "a" collision during MIL to ANEC IR conversion.'
    assert texts_of(program) == [text]
    assert texts_of(program_of(relu("a"), relu("b"))) == []


def test_a_layer_of_a_kind_that_nobody_converts() -> None:
    strange = replace(relu(), kind=replace(relu().kind, name="mystery"))
    found = validate_program(program_of(strange))
    (objection,) = found.network.findings
    assert objection.finding.rule == "ANE-NETWORK-004"
    assert "Layer y has no conversion record" in objection.finding.message


def test_ports_are_checked() -> None:
    bf16 = replace(relu(), results=(Value("y", IMAGE.type.with_dtype("bf16")),))
    assert "Unsupported function output dtype bf16" in texts_of(program_of(bf16))
    wide = live("w", 4, dtype="int32")
    cast = new_layer("cast", {"x": wide}, {"dtype": "fp16"}, "y", location=None)
    found = validate_program(program_of(cast, inputs=(wide,)))
    assert "ANE-DTYPE-001" in {one.finding.rule for one in found.ports[0].findings}


def test_what_leaves_without_a_cast_is_refused_and_with_one_accepted() -> None:
    compared = af.input((4,)).greater(af.input((4,)))
    assert not validate_program(lowered(compared, "m1")).ok
    assert validate_module_creation(compared, "m1").ok


def test_an_index_may_be_cast() -> None:
    _, places = af.topk(af.input((4, 8)), 2)
    assert validate_module_creation(places, "m2").ok
    assert all(one.verdict is Verdict.ACCEPT for one in validate_module(places.cast("fp16"), "m2"))


def test_a_state_is_a_port() -> None:
    x = live("x", 1, 8, 4)
    state = State("cache", live("s", 1, 8, 4), None)
    add = new_layer("add", {"x": x, "y": state.read}, {}, "y", location=None)
    program = replace(program_of(add, inputs=(x,)), states=(state,))
    assert [(one.name, one.op) for one in validate_program(program).ports] == [
        ("x", "input"),
        ("cache", "state"),
        ("out", "output"),
    ]


def test_a_ring_buffer_is_a_state() -> None:
    x, buffer = live("x", 1, 2, 32), live("b", 1, 8, 32)
    first = new_layer("ring_buffer_writer", {"buffer": buffer, "x": x}, {"axis": 1}, "w1", location=None)
    second = new_layer("ring_buffer_writer", {"buffer": first.result, "x": x}, {"axis": 1}, "w2", location=None)
    free = program_of(first, second, target="m2", inputs=(x, buffer))
    stopping = {one.finding.rule for one in validate_program(free).findings if one.stops}
    assert stopping == {"ANE-RINGBUFFERWRITER-002"}
    kept = replace(program_of(first, second, target="m2", inputs=(x,)), states=(State("ring", buffer, second.result),))
    assert validate_program(kept).ok


def test_a_graph_knows_its_states_too() -> None:
    x = af.input((1, 2, 4))
    ring = af.Tensor(build("state", {}, {"name": "ring", "shape": (1, 8, 4), "dtype": "fp16"}))
    held = af.Tensor(build("read_state", {"input": ring}))
    once = af.Tensor(build("tensor_to_circular_buffer", {"buffer": held, "x": x}, {"axis": 1}))
    twice = af.Tensor(build("tensor_to_circular_buffer", {"buffer": once, "x": x}, {"axis": 1}))
    found = validate_module(twice, "m2")
    assert [one.verdict for one in found if one.op == "tensor_to_circular_buffer"] == [Verdict.ACCEPT] * 2
    loose = af.Tensor(build("tensor_to_circular_buffer", {"buffer": af.input((1, 8, 4)), "x": x}, {"axis": 1}))
    assert Verdict.REJECT in {one.verdict for one in validate_module(loose, "m2")}


def test_what_fills_a_slot_is_checked_by_its_own_validator() -> None:
    sine = as_stage(new_layer("sin", {"x": IMAGE}, {}, "s", location=None))
    plain = convolution()
    fused = replace(plain, epilogue=Epilogue(post_activation=sine))
    found = validate_layer(fused, "m1")
    assert found.verdict is Verdict.REJECT
    (objection,) = [one for one in found.findings if one.stops]
    assert objection.slot is Slot.POST_ACTIVATION
    assert objection.texts == ("This platform doesn't support Neuron sin",)
    assert "(slot post_activation)" in str(objection)
    assert validate_layer(fused, "m3").verdict is Verdict.ACCEPT


def test_a_slot_reads_what_the_one_before_gives() -> None:
    quantise = as_stage(
        new_layer("quant", {"input": IMAGE, "scale": zeros()}, {"output_dtype": "int8"}, "q", location=None)
    )
    relu_stage = as_stage(relu())
    fused = replace(
        convolution(),
        epilogue=Epilogue(post_activation=relu_stage, quantise=quantise),
        results=(Value("y", convolution().result.type.with_dtype("int8")),),
    )
    assert validate_layer(fused, "m1").verdict is Verdict.ACCEPT


def test_a_wide_transpose_is_accepted_with_what_feeds_it() -> None:
    half = af.input((1, 4, 1, 10_000))
    wide = af.concat([half, half], axis=3)
    assert validate_program(lowered(wide.transpose(0, 1, 3, 2), "m1")).ok
    assert not validate_program(lowered(wide.relu(), "m1")).ok


def test_an_internal_routine_is_a_validator_without_an_export() -> None:
    turned = layer("reverse", {"axes": (1,)}, x=IMAGE)
    found = validate_layer(turned, "m1")
    assert found.verdict is Verdict.ACCEPT
    assert found.validator is not None
    assert (found.validator.name, found.validator.symbol) == ("Reverse", None)


def test_a_kind_without_a_validator_is_judged_by_the_rules_alone() -> None:
    cast = layer("cast", {"dtype": "int32"}, x=IMAGE)
    found = validate_layer(cast, "m1")
    assert found.validator is None
    assert found.verdict is Verdict.REJECT
    assert {one.finding.rule for one in found.findings} == {"ANE-DTYPE-003"}


def test_the_units_do_not_matter() -> None:
    pool = layer("max_pool", {"kernel_sizes": (2, 2)}, x=IMAGE)
    assert {validate_layer(replace(pool, engine=engine), "m1").verdict for engine in Engine} == {Verdict.ACCEPT}


def test_a_target_without_data_is_an_error() -> None:
    with pytest.raises(NoDataError, match="relu on h20: the compiler knows this name"):
        validate_layer(relu(), "h20")
    with pytest.raises(NoDataError, match="network on h20"):
        validate_program(program_of(relu(), target="h20"))
    with pytest.raises(NoDataError, match="unflatten on h20"):
        validate(Operation("unflatten"), "h20")
    with pytest.raises(NoDataError, match="matrix on h20"):
        validate_at_load([CompiledMatrix("a", ())], "h20")


def test_an_objection_reads_as_one_sentence() -> None:
    found = validate_layer(layer("softmax", {"axis": 1}, x=IMAGE), "h12")
    (objection,) = [one for one in found.findings if one.stops]
    assert str(objection) == (
        "ANE-GATE-004 reject: softmax on h12: Softmax is not supported by h12: its support byte is off. Remedy: choose "
        "a target of the A13 family or a later one. "
        'The compiler says "Softmax is not supported by this ANE architecture".'
    )


def test_findings_come_worst_first() -> None:
    found = validate_layer(convolution(kernel=(8, 8, 3, 14)), "h12")
    ranks = [one.finding.severity.rank for one in found.findings]
    assert ranks == sorted(ranks)
    assert found.findings[-1].finding.severity is Severity.INFO
    assert found.undecided


# A graph before its conversion.


def test_below_the_floor_of_mil_every_operation_says_so() -> None:
    found = validate_module(af.input((1, 4)).relu(), af.targets.Family.OLDER)
    texts = {text for one in found for objection in one.findings for text in objection.texts}
    assert texts == {"MIL is only supported for H13+ ANE architectures"}
    assert {one.verdict for one in found if one.op != "output"} == {Verdict.REJECT}


def test_what_the_conversion_rebuilds_is_accepted_and_said() -> None:
    found = validate_module(af.input((1, 4)).sin(), "m1")
    (sine,) = [one for one in found if one.op == "sin"]
    assert sine.verdict is Verdict.ACCEPT
    assert [one.stage for one in sine.findings] == [Stage.CONVERSION]


def test_a_graph_that_cannot_be_retargeted_is_refused_there() -> None:
    values, _ = af.topk(af.input((1, 64)), 5)
    with pytest.raises(IllegalGraphError, match="ANE-FLOOR-002"):
        validate_module_creation(values, "m1")


# Weights that are edited, and compressed.


def test_edits_of_weights() -> None:
    palette = Palette(np.zeros((8, 8, 3, 3), np.uint8), np.zeros(16, np.float16), 4)
    held = new_layer(
        "convolution",
        {"input": IMAGE, "weights": palette},
        dict(convolution().attributes),
        "p",
        location=None,
    )
    program = program_of(convolution(), held)
    same, other = zeros(8, 8, 3, 3), zeros(8, 8, 3, 4)
    edits = {"y.weights": same, "z.weights": same, "p.weights": same}
    found = {one.name: {each.finding.rule for each in one.findings} for one in validate_weight_edits(program, edits)}
    assert found == {"y.weights": set(), "z.weights": {"ANE-MUTABLE-001"}, "p.weights": {"ANE-MUTABLE-003"}}
    (typed,) = validate_weight_edits(program, {"y.weights": other})
    assert typed.verdict is Verdict.REJECT
    assert typed.findings[0].finding.message == "The new weight is fp16[8, 8, 3, 4], the old one fp16[8, 8, 3, 3]."
    (encoded,) = validate_weight_edits(program, {"y.weights": palette})
    assert [one.finding.what for one in encoded.findings] == ["new"]
    assert validate_weight_edits(program, {}) == ()


@pytest.mark.parametrize(
    ("kernel", "compressible"),
    [
        (zeros(4, 4), True),
        (zeros(4, 4, dtype="int4"), False),
        (Palette(np.zeros((2, 2), np.uint8), np.zeros(16, np.float16), 8), True),
        (Palette(np.zeros((2, 2), np.uint8), np.zeros(16, np.float16), 6), False),
        (Int8Affine(np.zeros((2, 2), np.int8), np.ones(1, np.float16)), True),
        (Sparse(np.ones((2, 2), np.bool_), np.ones(4, np.float16)), True),
        (Sparse(np.ones((2, 2), np.bool_), np.ones(4, numpy_dtype("int4"))), False),
        (Blockwise(np.zeros((2, 2), np.int8), np.ones((1, 1), np.float16)), True),
        (Blockwise(np.zeros((2, 2), numpy_dtype("int4")), np.ones((1, 1), np.float16)), False),
    ],
)
def test_kernels_of_eight_bits_or_more_are_compressible(kernel: Dense, *, compressible: bool) -> None:
    assert is_compressible(kernel, "m1") is compressible


def test_a_sparse_kernel_of_few_bits_is_warned_of_and_accepted() -> None:
    weight = Sparse(np.ones((8, 16), np.bool_), np.ones(128, numpy_dtype("int4")))
    linear = replace(
        layer("linear", x=live("x", 1, 16), weight=zeros(8, 16)), operands={"x": live("x", 1, 16), "weight": weight}
    )
    found = validate_layer(linear, "m1")
    assert found.verdict is Verdict.ACCEPT
    assert [(one.finding.rule, one.finding.severity) for one in found.findings] == [
        ("ANE-COMPRESSION-001", Severity.WARN)
    ]


def test_an_fp8_kernel_needs_the_byte_too() -> None:
    fused = replace(convolution(), operands={"input": IMAGE, "weights": zeros(8, 8, 3, 3, dtype="fp8e4m3fn")})
    found = validate_layer(fused, "m5")
    assert [one.texts for one in found.findings if one.stops] == [("E4M3 is not supported on this architecture",)]
    assert validate_layer(fused, "h18").verdict is Verdict.ACCEPT


def test_a_constant_wider_than_the_engine_is_rounded_and_no_finding() -> None:
    offset = layer("gain_offset_control", {"axis": 1}, input=IMAGE, offset=Dense(np.zeros(8)))
    assert validate_layer(offset, "m1").findings == ()


# A compiled program when it is loaded.


def test_the_four_forms_of_matrices() -> None:
    one, two = (Plane(8, 4, 16),), (Plane(8, 4, 16), Plane(4, 2, 8))
    forms = [CompiledMatrix("m", planes, compressed).form for planes in (one, two) for compressed in (False, True)]
    assert forms == list(MatrixForm)


def test_matrices_at_load() -> None:
    tiled = Plane(32, 32, 64, tile=16)
    matrices = [
        CompiledMatrix("plain", (Plane(8, 4, 16),)),
        CompiledMatrix("tiled", (tiled, tiled), compressed=True),
        CompiledMatrix("none", ()),
        CompiledMatrix("short", (Plane(8, 4, 15),)),
        CompiledMatrix("odd", (replace(tiled, tile=24),), compressed=True),
        CompiledMatrix("stray", (tiled,)),
    ]
    found = {one.name: [each.finding.rule for each in one.findings] for one in validate_at_load(matrices, "m1")}
    assert found == {
        "plain": [],
        "tiled": [],
        "none": ["ANE-LOAD-001"],
        "short": ["ANE-LOAD-002"],
        "odd": ["ANE-LOAD-003"],
        "stray": ["ANE-LOAD-004"],
    }


def test_fp16_by_hand_is_what_it_says() -> None:
    assert str(fp16(1, 2)) == "fp16[1, 2]"
