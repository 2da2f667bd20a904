"""What a program means: each of its functions as a graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.errors import GraphError
from aneforge.formats.mil.blob import BlobWriter
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.dialect import mil_dialect
from aneforge.formats.mil.program import load_mil, parse_mil
from aneforge.graph.convert import convert
from aneforge.graph.reference import evaluate
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from aneforge.rules.preflight import preflight
from aneforge.targets import resolve
from mil_cases import INPUT, PORT, RELU, STATE, blob, call, const, program, weights

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.ops.constant import Constant

Array = npt.NDArray[Any]
X = np.arange(8.0).reshape(2, 4)


def ops_of(graph: af.Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def answer(text: str, *values: Array, data: bytes | None = None) -> Array:
    (result,) = af.reference(parse_mil(text, data).graph(), list(values)).values()
    return result


def test_operations_keep_their_names_and_places() -> None:
    graph = parse_mil(program(RELU), file="net.mil").graph()
    node = graph.outputs["y"].node
    assert (node.op.name, str(node.location)) == ("relu", "node 'y' of net.mil:5")
    assert str(graph.inputs["x"].location) == "node 'x' of net.mil:4"


def test_a_number_is_an_operation_of_its_own() -> None:
    text = program(const("fp16", "k", "fp16(1e-5)"), call("mul(x = x, y = k)"))
    node = parse_mil(text).graph().outputs["y"].node
    assert node.op.name == "muls"
    assert node.attributes["k"] == 1e-5, "a number keeps what the text says"


@pytest.mark.parametrize(
    ("statement", "op"),
    [
        ("add(x = x, y = fp16(2.0))", "adds"),
        ("mul(x = x, y = tensor<fp16, []>(2.0))", "muls"),
        ("mul(x = x, y = x)", "mul"),
        ("mul(x = fp16(2.0), y = x)", "mul"),
        ("mul(x = x, y = tensor<fp16, [1]>([2.0]))", "mul"),
        ("sub(x = x, y = fp16(2.0))", "sub"),
    ],
)
def test_which_sums_and_products_are_with_a_number(statement: str, op: str) -> None:
    assert ops_of(parse_mil(program(call(statement))).graph())[-1] == op


def test_other_spellings_of_the_same_program() -> None:
    old = program(RELU).replace("program(1.3)", "program(1.0)").replace('string("y")', 'tensor<string, []>("y")')
    spaced = program(RELU).replace("tensor<fp16, [2, 4]>", "tensor < fp16 ,\n [ 2 ,4 ] >").replace(" = ", "=")
    expected = ops_of(parse_mil(program(RELU)).graph())
    for text in (old, spaced, program(RELU, info="")):
        assert ops_of(parse_mil(text).graph()) == expected


def test_a_text_in_place_of_a_path_is_told_of() -> None:
    text = program(RELU)
    with pytest.raises(GraphError, match="its text was given") as error:
        af.from_mil(text)
    assert "parse_mil(text).graph()" in str(error.value)
    assert parse_mil(text).graph().outputs
    with pytest.raises(FileNotFoundError):
        af.from_mil("program.mil")


def test_several_functions_share_weights() -> None:
    first = program(const(PORT, "w", blob(PORT, 64)), call("add(x = x, y = w)"))
    second = program(const(PORT, "w", blob(PORT, 64)), call("sub(x = x, y = w)")).partition("{\n")[2]
    text = first.removesuffix("}\n") + second.replace("main", "other").replace("ios18", "ios17")
    read = parse_mil(text, weights())
    assert read.functions == {"main": "ios18", "other": "ios17"}
    assert repr(read) == "<MIL program of main<ios18>, other<ios17>>"
    main, other = read.graph(), read.graph("other")
    assert next(iter(main.constants.values())) is next(iter(other.constants.values()))
    assert read.graph() is main


def test_build_info_and_version() -> None:
    read = parse_mil(program(RELU))
    assert (read.version, read.build_info) == ("1.3", {"coremlc-version": "3520.5.1"})
    assert parse_mil(program(RELU, info="")).build_info == {}
    old = '[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"a", "b"}})]'
    assert parse_mil(program(RELU, info=old)).build_info == {"a": "b"}
    with pytest.raises(MilError, match="MIL-SYNTAX-001"):
        _ = parse_mil(program(RELU, info="[buildInfo = 7]")).build_info


def test_other_attributes_are_kept_as_text() -> None:
    flexible = (
        '[FlexibleShapeInformation = tuple<tuple<string, dict<string, tensor<int32, [?]>>>>((("a", {{"x", [1]}})))]'
    )
    text = program(RELU).replace(") {", f") {flexible} {{")
    assert flexible in str(parse_mil(text))
    assert str(parse_mil(program(RELU).replace(") {", ") [ ] {"))) == str(parse_mil(program(RELU)))


# Ports.

CASTS = program(
    const("string", "half", 'string("fp16")'),
    f'{PORT} a = cast(dtype = half, x = x)[name = string("a")];',
    f'{PORT} b = relu(x = a)[name = string("b")];',
    'tensor<fp32, [2, 4]> y = cast(dtype = string("fp32"), x = b)[name = string("y")];',
    inputs=INPUT.replace("fp16", "fp32"),
)


def test_casts_at_the_ports_are_kept_or_left_to_the_host() -> None:
    read = parse_mil(CASTS)
    assert ops_of(read.graph()) == ["input", "cast", "relu", "cast"]
    assert [finding.rule for finding in read.findings()] == ["MIL-PORT-001", "MIL-PORT-001"]
    bare = read.graph(port_casts=False)
    assert ops_of(bare) == ["input", "relu"]
    assert {str(node.types[0]) for node in bare.nodes} == {"fp16[2, 4]"}
    assert read.findings(port_casts=False) == ()
    assert np.array_equal(af.reference(read.graph(), [X - 4])["y"], af.reference(bare, [X - 4])["y"])


def test_the_verdict_on_a_program_with_and_without_port_casts() -> None:
    read = parse_mil(CASTS)
    family = af.targets.Family.A16
    assert {finding.rule for finding in preflight(read.graph(), resolve(family)).reject[0].findings} == {
        "ANE-DTYPE-001"
    }
    assert af.preflight(read.graph(port_casts=False), family).ok


@pytest.mark.parametrize(
    "text",
    [
        CASTS.replace("-> (y)", "-> (y, x)"),  # the input leaves as it came
        CASTS.replace("relu(x = a)", "relu(x = a)")
        .replace("-> (y)", "-> (a)")
        .replace("fp32, [2, 4]> x", "int32, [2, 4]> x"),
        program(RELU.replace("fp16", "fp32"), inputs=INPUT.replace("fp16", "fp32")),  # nothing is cast
    ],
)
def test_other_casts_stay(text: str) -> None:
    read = parse_mil(text)
    kept = [str(node.types[0]) for node in read.graph(port_casts=False).placeholders]
    assert kept == [str(node.types[0]) for node in read.graph().placeholders]


def test_the_type_of_a_cast_that_is_left_to_the_host_is_checked() -> None:
    text = CASTS.replace("tensor<fp32, [2, 4]> y", "tensor<fp32, [4, 2]> y")
    for casts in (True, False):
        with pytest.raises(MilError, match="MIL-TYPE-001"):
            parse_mil(text).graph(port_casts=casts)


def test_an_output_that_is_read_inside_keeps_its_cast() -> None:
    text = program(
        'tensor<fp32, [2, 4]> y = cast(dtype = string("fp32"), x = x)[name = string("y")];',
        'tensor<fp32, [2, 4]> z = relu(x = y)[name = string("z")];',
        outputs="y, z",
    )
    assert ops_of(parse_mil(text).graph(port_casts=False)) == ["input", "cast", "relu"]


def test_the_older_form_of_crop_resize_is_of_older_opsets() -> None:
    """The value of its padding came with the second of them."""
    text = program(
        const(
            "tensor<fp16, [1, 1, 4, 1, 1]>", "roi", "tensor<fp16, [1, 1, 4, 1, 1]>([[[[[0]], [[0]], [[1]], [[1]]]]])"
        ),
        const("int32", "two", "int32(2)"),
        call(
            "crop_resize(x = x, roi = roi, target_height = two, target_width = two, pad_value = fp16(0.0))",
            "tensor<fp16, [1, 1, 1, 2, 2]> y",
        ),
        inputs="tensor<fp16, [1, 1, 4, 4]> x",
        opset="ios15",
    )
    with pytest.raises(MilError, match="MIL-OP-004"):
        parse_mil(text).graph()
    for opset in ("ios16", "ios18"):
        assert parse_mil(text.replace("ios15", opset)).findings() == ()


def test_a_linear_layer_of_four_axes_is_refused_and_written_as_rows() -> None:
    weight = "tensor<fp16, [3, 2]>([[1, 2], [3, 4], [5, 6]])"
    text = program(
        f'    tensor<fp16, [3, 2]> w = const()[name = string("w"), val = {weight}];',
        call("linear(x = x, weight = w)", "tensor<fp16, [1, 1, 2, 3]> y"),
        inputs="tensor<fp16, [1, 1, 2, 2]> x",
    )
    with pytest.raises(MilError, match="MIL-LINEAR-001"):
        parse_mil(text).graph()
    y = af.input((2, 1, 3, 2), name="x").linear(np.arange(6.0).reshape(3, 2))
    written = convert(af.Graph({"y": y}), mil_dialect()).graph
    assert [node.op.name for node in written.nodes] == ["input", "reshape", "linear", "reshape"]


def test_an_operation_that_is_newer_than_the_opset_is_refused(tmp_path: Path) -> None:
    attend = "scaled_dot_product_attention(key = x, query = x, value = x)"
    text = program(call(attend, f"{PORT} a"), call(attend), opset="ios17")
    (tmp_path / "model.mil").write_text(text)
    for read in (af.from_mil, af.load_model):
        with pytest.raises(MilError, match=r"MIL-OP-004.*came in this form with opset ios18"):
            read(tmp_path / "model.mil")
    with pytest.raises(MilError, match=r"MIL-OP-004.*the function states ios17"):
        parse_mil(text.replace("ios17", "CoreML7")).graph()
    for opset in ("ios18", "ios26", "CoreML8"):
        assert parse_mil(text.replace("ios17", opset)).findings() == ()
    for opset in ("ios99", "macos15", "ios18x", "CoreML99"):
        (found,) = parse_mil(text.replace("ios17", opset)).findings()
        assert (found.rule, found.seen, found.severity) == ("MIL-OP-005", opset, "warn")


# States.


def test_a_state_is_what_it_was_last_written() -> None:
    text = program(
        f'{PORT} before = read_state(input = s)[name = string("before")];',
        f'{PORT} sum = add(x = before, y = x)[name = string("sum")];',
        'write_state(data = sum, input = s)[name = string("w1")];',
        f'{PORT} middle = read_state(input = s)[name = string("middle")];',
        f'{PORT} twice = add(x = middle, y = middle)[name = string("twice")];',
        f'{PORT} given = write_state(data = twice, input = s)[name = string("w2")];',
        inputs=f"{INPUT}, {STATE}",
        outputs="before, middle, given",
    )
    graph = parse_mil(text).graph()
    outputs, states = evaluate(graph, [X], {"s": np.ones((2, 4))})
    assert outputs["before"].tolist() == np.ones((2, 4)).tolist()
    assert outputs["middle"].tolist() == (X + 1).tolist()
    assert outputs["given"].tolist() == states["s"].tolist() == (2 * X + 2).tolist()


def test_a_state_that_is_written_and_never_read() -> None:
    text = program('write_state(data = x, input = s)[name = string("w")];', RELU, inputs=f"{INPUT}, {STATE}")
    outputs, states = evaluate(parse_mil(text).graph(), [X])
    assert states["s"].tolist() == X.tolist() == outputs["y"].tolist()


def test_a_constant_is_written_to_a_state_and_returned() -> None:
    text = program(
        const(PORT, "w", blob(PORT, 64)),
        'write_state(data = w, input = s)[name = string("w0")];',
        inputs=STATE,
        outputs="w",
    )
    outputs, states = evaluate(parse_mil(text, weights()).graph(), [])
    assert outputs["w"].tolist() == states["s"].tolist() == X.tolist()


def test_a_state_that_nothing_touches_is_noted() -> None:
    read = parse_mil(program(RELU, inputs=f"{INPUT}, {STATE}"))
    assert list(read.graph().state_placeholders) == []
    assert [(finding.rule, finding.message) for finding in read.findings()] == [
        ("MIL-PORT-002", "Input s is never used; the graph does not have it")
    ]


# Weights.


def test_weights_in_every_form(tmp_path: Path) -> None:
    text = program(const(PORT, "w", blob(PORT, 64)), call("add(x = x, y = w)"))
    (tmp_path / "weights.bin").write_bytes(weights())
    (tmp_path / "model.mil").write_text(text)
    forms: list[Any] = [
        weights(),
        memoryview(weights()),
        bytearray(weights()).__buffer__(0) if hasattr(bytearray, "__buffer__") else memoryview(bytearray(weights())),
        tmp_path,
        str(tmp_path / "weights.bin"),
        {"@model_path/weights.bin": weights()},
        {"weights.bin": tmp_path / "weights.bin"},
    ]
    for form in forms:
        assert af.reference(parse_mil(text, form).graph(), [X])["y"].tolist() == (X + X).tolist()
    for path in (tmp_path, tmp_path / "model.mil", str(tmp_path)):
        assert af.reference(load_mil(path).graph(), [X])["y"].tolist() == (X + X).tolist()


def test_weights_look_into_the_file(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(weights())
    text = program(const(PORT, "w", blob(PORT, 64)), call("add(x = x, y = w)"))
    (constant,) = parse_mil(text, tmp_path).graph().constants.values()
    assert isinstance(constant, Dense)
    assert not constant.values.flags.owndata


def test_one_blob_is_one_constant() -> None:
    text = program(
        const(PORT, "w", blob(PORT, 64)),
        const(PORT, "v", blob(PORT, 64)),
        const("tensor<fp16, [8]>", "u", blob("tensor<fp16, [8]>", 64)),
        call("add(x = w, y = v)"),
    )
    node = parse_mil(text, weights()).graph().outputs["y"].node
    assert node.operands["x"] is node.operands["y"]


def constexpr(op: str, **parts: str) -> str:
    inside = ", ".join(f"{name} = {value}" for name, value in sorted({**parts, "name": 'string("w")'}.items()))
    return f"{PORT} w = {op}()[{inside}];"


def encoded(*statements: str, data: bytes | None = None) -> Constant:
    graph = parse_mil(program(*statements, call("mul(x = x, y = w)")), data).graph()
    (constant,) = graph.constants.values()
    return constant


EIGHT = "tensor<int8, [2, 4]>([[1, 2, 3, 4], [5, 6, 7, 8]])"
VALUES = np.arange(1.0, 9).reshape(2, 4)


def test_affine_weights() -> None:
    one = encoded(
        constexpr("constexpr_affine_dequantize", quantized_data=EIGHT, scale="fp16(0.5)", zero_point="int8(0)")
    )
    assert isinstance(one, Int8Affine)
    assert (one.zero_point, one.axis) == (None, 0)
    assert one.dense().tolist() == (VALUES / 2).tolist()
    many = encoded(
        constexpr(
            "constexpr_affine_dequantize",
            axis="int32(-1)",
            quantized_data=EIGHT,
            scale="tensor<fp16, [4]>([1, 2, 3, 4])",
            zero_point="tensor<int8, [4]>([1, 0, 0, 0])",
        )
    )
    assert many.dense().tolist() == ((VALUES - [1, 0, 0, 0]) * [1, 2, 3, 4]).tolist()


def test_palettes() -> None:
    table = "tensor<fp16, [1, 1, 4, 1]>([5, 6, 7, 8])"
    one = encoded(
        const("tensor<uint2, [2, 4]>", "i", "tensor<uint2, [2, 4]>([0, 1, 2, 3, 3, 2, 1, 0])"),
        const("tensor<fp16, [1, 1, 4, 1]>", "t", table),
        f'{PORT} w = constexpr_lut_to_dense(indices = i, lut = t)[name = string("w")];',
    )
    assert isinstance(one, Palette)
    assert (one.bits, one.dense().tolist()) == (2, [[5, 6, 7, 8], [8, 7, 6, 5]])


def test_the_packed_forms_of_older_opsets() -> None:
    palette = encoded(
        constexpr(
            "constexpr_lut_to_dense",
            indices="tensor<uint8, [2]>([228, 27])",
            lut="tensor<fp16, [4]>([5, 6, 7, 8])",
            shape="tensor<uint32, [2]>([2, 4])",
        )
    )
    assert palette.dense().tolist() == [[5, 6, 7, 8], [8, 7, 6, 5]]
    sparse = encoded(
        constexpr(
            "constexpr_sparse_to_dense",
            mask="tensor<uint8, [1]>([129])",
            nonzero_data="tensor<fp16, [2]>([3, 4])",
            shape="tensor<uint32, [2]>([2, 4])",
        )
    )
    assert isinstance(sparse, Sparse)
    assert sparse.dense().tolist() == [[3, 0, 0, 0], [0, 0, 0, 4]]


def test_older_forms_raise_no_warning_about_their_opset() -> None:
    statement = constexpr(
        "constexpr_sparse_to_dense",
        mask="tensor<uint8, [1]>([129])",
        nonzero_data="tensor<fp16, [2]>([3, 4])",
        shape="tensor<uint32, [2]>([2, 4])",
    )
    assert parse_mil(program(statement, call("mul(x = x, y = w)"), opset="ios16")).findings() == ()


def test_blocks_and_the_sum_that_feeds_them() -> None:
    blocks = constexpr("constexpr_blockwise_shift_scale", data=EIGHT, scale="tensor<fp16, [2, 2]>([[1, 2], [3, 4]])")
    for zero in ("", "-0x0p+0", "0x0p+0"):
        feed = f'{PORT} v = add(x = w, y = fp16({zero}))[name = string("v")];' if zero else ""
        text = program(blocks, *([feed] if feed else []), call(f"mul(x = x, y = {'v' if feed else 'w'})"))
        graph = parse_mil(text).graph()
        assert isinstance(next(iter(graph.constants.values())), Blockwise)
        assert ("adds" in ops_of(graph)) == (zero == "0x0p+0"), "+0 would change a −0"
        assert answer(text, np.ones((2, 4))).tolist() == [[1, 2, 6, 8], [15, 18, 28, 32]]


def test_a_vector_table_is_bounded() -> None:
    writer = BlobWriter()
    indices = writer.add(np.zeros(2**20, np.uint8), "uint8")
    table = writer.add(np.zeros(2**20, np.float16), "fp16")
    text = program(
        const("tensor<uint8, [1048576]>", "i", blob("tensor<uint8, [1048576]>", indices)),
        const("tensor<fp16, [1, 1, 1048576]>", "t", blob("tensor<fp16, [1, 1, 1048576]>", table)),
        call("constexpr_lut_to_dense(indices = i, lut = t, vector_axis = int32(0))", "tensor<fp16, [1099511627776]> w"),
        RELU,
    )
    with pytest.raises(MilError, match="MIL-TYPE-004"):
        parse_mil(text, writer.tobytes()).graph()


# Forms that differ from the op table's.


@pytest.mark.parametrize(
    ("statement", "kind", "expected"),
    [
        ("fill(shape = tensor<int32, [2]>([1, 2]), value = int32(7))", "tensor<int32, [1, 2]>", [[7, 7]]),
        ("fill(shape = tensor<int32, [1]>([2]))", "tensor<fp32, [2]>", [0.0, 0.0]),
        ("fill_like(ref_tensor = tensor<fp16, [2]>([1, 2]), value = bool(true))", "tensor<bool, [2]>", [True, True]),
        ("range_1d(start = int32(1), end = int32(7), step = int32(3))", "tensor<int32, [2]>", [1, 4]),
        (
            "one_hot(indices = tensor<int32, [1]>([1]), one_hot_vector_size = int32(3), on_value = fp16(2.0))",
            "tensor<fp16, [1, 3]>",
            [[0.0, 2.0, 0.0]],
        ),
        ('cast(dtype = string("int32"), x = tensor<fp16, [2]>([1.5, -1.5]))', "tensor<int32, [2]>", [1, -1]),
        (
            (
                "upsample_nearest_neighbor(scale_factor_height = int32(1), scale_factor_width = int32(2), "
                "x = tensor<fp16, [1, 1, 1]>([3]))"
            ),
            "tensor<fp16, [1, 1, 2]>",
            [[[3.0, 3.0]]],
        ),
        (
            "reshape(shape = tensor<int32, [2]>([-1, 1]), x = tensor<fp16, [1, 2]>([1, 2]))",
            "tensor<fp16, [2, 1]>",
            [[1.0], [2.0]],
        ),
        (
            (
                "space_to_batch(block_shape = tensor<int32, [2]>([1, 2]), "
                "paddings = tensor<int32, [2, 2]>([[0, 0], [0, 0]]), x = tensor<fp16, [1, 1, 1, 2]>([1, 2]))"
            ),
            "tensor<fp16, [2, 1, 1, 1]>",
            [[[[1.0]]], [[[2.0]]]],
        ),
        (
            "list_gather(indices = tensor<int32, [2]>([2, 0]), ls = tensor<fp16, [3]>([1, 2, 3]))",
            "tensor<fp16, [2]>",
            [3.0, 1.0],
        ),
    ],
)
def test_forms(statement: str, kind: str, expected: object) -> None:
    assert answer(program(call(statement, f"{kind} y"), inputs="")).tolist() == expected


def test_lists_are_tensors_of_their_elements() -> None:
    text = program(
        'list<tensor<fp16, [2]>, 3> l = make_list(dtype = string("fp16"), dynamic_length = bool(false), '
        'elem_shape = (int32(2)), init_length = int32(3))[name = string("l")];',
        "list<tensor<fp16, [2]>, ?> m = list_write(index = int32(1), ls = l, "
        'value = tensor<fp16, [2]>([5, 6]))[name = string("m")];',
        call("list_read(index = int32(1), ls = m)", "tensor<fp16, [2]> y"),
        inputs="",
    )
    assert answer(text).tolist() == [5, 6]


def test_the_l2_norm_of_mil() -> None:
    image = np.arange(1.0, 9).reshape(1, 2, 2, 2)
    port = "tensor<fp16, [1, 2, 2, 2]>"
    text = program(call("l2_norm(epsilon = fp16(0.5), x = x)", f"{port} y"), inputs=f"{port} x")
    np.testing.assert_allclose(answer(text, image), image / math.sqrt(np.square(image).sum() + 0.5), rtol=1e-14)


def test_an_unknown_length_of_a_result_is_found() -> None:
    text = program(call("relu(x = x)", "tensor<fp16, [?, 4]> y"))
    assert parse_mil(text).graph().outputs["y"].shape == (2, 4)


def test_names_of_attributes_of_operations_that_several_share() -> None:
    attend = "scaled_dot_product_attention(attn_mask = x, key = k, query = q, value = k)"
    inputs = f"{INPUT}, tensor<fp16, [2, 3]> q, tensor<fp16, [4, 3]> k"
    text = program(call(attend, "tensor<fp16, [2, 3]> y"), inputs=inputs)
    assert ops_of(parse_mil(text).graph())[-1] == "sdpa"


def test_build_info_of_our_own_names_ports_and_promises() -> None:
    info = (
        '[buildInfo = dict<string, string>({{"aneforge.name.main.x", "in:0"}, {"aneforge.name.main.y", "out put"}, '
        '{"aneforge.max_abs.main.x", "0x1p+3"}, {"aneforge.name.other.x", "z"}})]'
    )
    graph = parse_mil(program(RELU, info=info)).graph()
    assert (list(graph.inputs), list(graph.outputs)) == (["in:0"], ["out put"])
    assert graph.inputs["in:0"].attributes["max_abs"] == 8.0
    with pytest.raises(MilError, match="MIL-NUMBER-001"):
        parse_mil(program(RELU, info=info.replace("0x1p+3", "much"))).graph()
