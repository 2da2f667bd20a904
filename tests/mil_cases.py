"""MIL programs that break one rule each, for the tests of errors and of the documentation, and parts to write more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aneforge.formats.mil.blob import BlobWriter

BUILD_INFO = '[buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]'
PORT = "tensor<fp16, [2, 4]>"
INPUT = f"{PORT} x"
STATE = f"state<{PORT}> s"
RELU = f'{PORT} y = relu(x = x)[name = string("y")];'


def program(
    *statements: str, inputs: str = INPUT, outputs: str = "y", opset: str = "ios18", info: str = BUILD_INFO
) -> str:
    """Return a program of one function."""
    body = "\n".join(f"        {statement}" for statement in statements)
    return f"program(1.3)\n{info}\n{{\n    func main<{opset}>({inputs}) {{\n{body}\n    }} -> ({outputs});\n}}\n"


def call(op: str, result: str = f"{PORT} y") -> str:
    """Return a statement that has a name."""
    return f'{result} = {op}[name = string("y")];'


def const(kind: str, name: str, value: str) -> str:
    """Return a const."""
    return f'{kind} {name} = const()[name = string("{name}"), val = {value}];'


def blob(kind: str, offset: int, path: str = "@model_path/weights.bin") -> str:
    """Return a reference into a weights blob."""
    return f'{kind}(BLOBFILE(path = string("{path}"), offset = uint64({offset})))'


def weights() -> bytes:
    """Return a weights blob of two arrays: eight numbers of fp16 at 64, three of int8 at 144."""
    writer = BlobWriter()
    writer.add(np.arange(8, dtype=np.float16), "fp16")
    writer.add(np.arange(3, dtype=np.int8), "int8")
    return writer.tobytes()


def patched(offset: int, value: bytes) -> bytes:
    """Return the weights blob with some bytes replaced."""
    data = bytearray(weights())
    data[offset : offset + len(value)] = value
    return bytes(data)


@dataclass(frozen=True, slots=True)
class Case:
    """A program that breaks a rule, and its weights."""

    rule: str
    text: str
    at: str
    """What stands where the error points."""
    weights: bytes | None = None
    warns: bool = False


def of_const(kind: str, value: str) -> str:
    """Return a program with a const that is never used."""
    return program(const(kind, "c", value), RELU)


def of_call(op: str, result: str = f"{PORT} y") -> str:
    """Return a program of one call."""
    return program(call(op, result))


def of_blob(kind: str, offset: int) -> str:
    """Return a program with one weight out of a blob."""
    return program(const(kind, "w", blob(kind, offset)), call("add(x = x, y = w)"))


AFFINE = (
    'tensor<fp16, [8]> w = constexpr_affine_dequantize()[axis = int32(0), name = string("w"), '
    "quantized_data = tensor<int8, [8]>([1, 2, 3, 4, 5, 6, 7, 8]), scale = fp16(0.5), zero_point = int8(0)];"
)
RESHAPED = program(AFFINE, call("reshape(shape = tensor<int32, [2]>([2, 4]), x = w)"))
OFFSET = "offset = uint64(64)"
PACKED = (
    f"{PORT} y = constexpr_lut_to_dense()[indices = tensor<uint8, [2]>([27, 0]), "
    'lut = tensor<fp16, [4]>([1, 2, 3, 4]), name = string("y"), shape = tensor<uint32, [2]>([2, 2])];'
)
CAST_NUMBERS = (
    'constexpr_cast(source_val = tensor<fp32, [2, 4]>([1, 2, 3, 4, 5, 6, 7, 8]), output_dtype = string("fp16"))'
)
NORM = program(
    const("tensor<fp16, [4]>", "g", "tensor<fp16, [4]>([1, 1, 1, 1])"),
    call("layer_norm(axes = tensor<int32, [1]>([1]), epsilon = fp32(1e-5), gamma = g, x = x)"),
)
CIRCLE = program('fp16 a = relu(x = b)[name = string("a")];', 'fp16 b = relu(x = a)[name = string("b")];')
OVERLAP = program(
    const("tensor<fp16, [9]>", "w", blob("tensor<fp16, [9]>", 64)),
    const("tensor<int8, [3]>", "v", blob("tensor<int8, [3]>", 144)),
    RELU,
)
WRITE = program(
    'write_state(data = c, input = s)[name = string("w")];', inputs=f"tensor<fp16, [3]> c, {STATE}", outputs=""
)
NINE = "tensor<fp16, [9]>"
OWN_ENTRY = '[buildInfo = dict<string, string>({{"aneforge.colour.main", "red"}})]'
MATRIX = 'tensor<fp16, [1, 2]> w = const()[name = string("w"), val = tensor<fp16, [1, 2]>([[1, 2]])];'
LINEAR = program(
    f"        {MATRIX}",
    call("linear(x = x, weight = w)", "tensor<fp16, [1, 1, 2, 1]> y"),
    inputs="tensor<fp16, [1, 1, 2, 2]> x",
)
SDPA = program(call("scaled_dot_product_attention(key = x, query = x, value = x)"), opset="ios15")
TWICE = program(RELU).removesuffix("}\n") + program(RELU).partition("{\n")[2]

CASES = [
    Case("MIL-SYNTAX-001", of_call("relu(= x)"), "= x)"),
    Case("MIL-SYNTAX-001", program(RELU).replace("func main", "fnc main"), "fnc"),
    Case("MIL-SYNTAX-001", program(RELU).replace("-> (y);", "-> (y z);"), "z);"),
    Case("MIL-SYNTAX-001", program(RELU.removesuffix(";")), "} ->"),
    Case("MIL-SYNTAX-001", program(RELU.removesuffix(";"), RELU.replace("y", "z")), f"{PORT} z"),
    Case("MIL-SYNTAX-001", program(RELU.replace("[2, 4]> y", "[2, -4]> y")), "[2, -4]> y"),
    Case("MIL-SYNTAX-001", program(RELU) + "more", "more"),
    Case("MIL-SYNTAX-001", program(RELU).replace(BUILD_INFO, "[buildInfo]"), "buildInfo]"),
    Case("MIL-SYNTAX-001", program(RELU).replace(BUILD_INFO, f"{BUILD_INFO} 7"), "7\n"),
    Case("MIL-SYNTAX-001", program(RELU).replace("(1.3)", "1.3"), "1.3"),
    Case("MIL-SYNTAX-001", of_call("relu(x = x").replace("[name", ";[name"), ";[name"),
    Case("MIL-SYNTAX-002", program(RELU).removesuffix("}\n"), "\n"),
    Case("MIL-SYNTAX-002", "", ""),
    Case("MIL-SYNTAX-002", "program(1.3", ""),
    Case("MIL-SYNTAX-003", of_call(f"relu(x = {'(' * 40}x{')' * 40})"), "(" * 9 + "x"),
    Case("MIL-SYNTAX-004", of_call("relu(x = x])"), "])"),
    Case("MIL-SYNTAX-004", of_call("relu x = x)"), ")["),
    Case("MIL-SYNTAX-005", program("fp16 y = cond(pred = p) { fp16 z = relu(x = x); };"), "{ fp16"),
    Case("MIL-SYNTAX-006", program(RELU.replace('"y")', '"y)')), '"y)'),
    Case("MIL-SYNTAX-008", program("// a comment", RELU), "//"),
    Case("MIL-SYNTAX-008", program(RELU + " /* a comment */"), "/*"),
    Case("MIL-TEXT-001", of_call(r'gelu(mode = string("EX\qACT"), x = x)'), '"EX'),
    Case("MIL-TEXT-001", of_call(r'gelu(mode = string("\ud800"), x = x)'), '"\\ud'),
    Case("MIL-NAME-001", program(RELU, RELU), 'y = relu(x = x)[name = string("y")];\n    }'),
    Case("MIL-NAME-001", program(RELU, inputs=f"{INPUT}, {INPUT}"), "x) {"),
    Case("MIL-NAME-001", program(RELU, outputs="y, y"), "y);"),
    Case("MIL-NAME-002", program(RELU.replace("x = x", "x = xx")), "xx"),
    Case("MIL-NAME-002", program(RELU, outputs="z"), "z);"),
    Case("MIL-NAME-003", CIRCLE, "b)"),
    Case("MIL-NAME-004", program(f"{PORT} y = relu(x = x);"), "relu"),
    Case("MIL-NAME-004", program(f"{PORT} y = relu(x = x)[];"), "relu"),
    Case("MIL-NAME-005", TWICE, "func"),
    Case("MIL-NAME-006", f"program(1.3)\n{BUILD_INFO}\n{{\n}}\n", "{\n}"),
    Case("MIL-NAME-007", program(RELU, outputs=""), "func"),
    Case("MIL-TYPE-001", program(RELU.replace("[2, 4]> y", "[4, 2]> y")), "tensor<fp16, [4, 2]> y"),
    Case("MIL-TYPE-001", program(RELU.replace("fp16, [2, 4]> y", "fp32, [2, 4]> y")), "tensor<fp32"),
    Case("MIL-TYPE-001", of_const("fp16", "fp32(1.0)"), "fp16 c"),
    Case("MIL-TYPE-002", program(RELU.replace("fp16, [2, 4]> y", "fp17, [2, 4]> y")), "fp17"),
    Case("MIL-TYPE-002", program(RELU, inputs="tensor<float, [2]> x"), "float"),
    Case("MIL-TYPE-003", program(RELU, inputs="tensor<fp16, [?, 4]> x"), "tensor<fp16, [?"),
    Case("MIL-TYPE-003", of_blob("tensor<fp16, [?]>", 64), "tensor<fp16, [?]>(BLOB", weights()),
    Case("MIL-TYPE-004", program(RELU, inputs=f"tensor<fp16, [{'9' * 5000}]> x"), "[99"),
    Case("MIL-TYPE-004", program(RELU, inputs=f"tensor<fp16, [{', '.join(['1'] * 65)}]> x"), "[1, 1"),
    Case("MIL-TYPE-005", of_const("tensor<int32, [2]>", "tensor<int32, [2]>([1, 2, 3])"), "([1"),
    Case("MIL-TYPE-005", of_const("tensor<int32, [2, 2]>", "tensor<int32, [2, 2]>([[1, 2, 3], [4]])"), "([["),
    Case("MIL-TYPE-005", of_const("tensor<int32, [2]>", "tensor<int32, [2]>([1 2])"), "([1"),
    Case("MIL-TYPE-005", of_const("tensor<int32, [3]>", "tensor<int32, [3]>(1)"), "1)]"),
    Case("MIL-TYPE-005", of_const("int32", "int32([1])"), "([1"),
    Case("MIL-TYPE-005", of_const("tensor<string, [2]>", 'tensor<string, [2]>(["a"])'), "tensor<string, [2]>(["),
    Case("MIL-TYPE-005", program(PACKED), "tensor<uint8, [2]>([27"),
    Case("MIL-TYPE-006", program(RELU, inputs="map<fp16, [2]> x"), "map"),
    Case("MIL-TYPE-006", program(RELU, inputs="string x"), "string x"),
    Case("MIL-TYPE-006", program(const("string", "c", 'string("a")'), outputs="c"), "c);"),
    Case("MIL-TYPE-006", of_const("fp16", "fp16(BLOBFILE(path = int32(1), offset = uint64(64)))"), "path"),
    Case("MIL-TYPE-006", of_const("fp16", "state<tensor<fp16, [2]>>([1, 2])"), "state<"),
    Case("MIL-NUMBER-001", of_const("fp16", "fp16(1.2.3)"), "1.2.3"),
    Case("MIL-NUMBER-001", of_const("int32", "int32( 1.0 )"), "1.0"),
    Case("MIL-NUMBER-001", of_const("bool", "bool(1)"), "1)]"),
    Case("MIL-NUMBER-001", of_const("string", "string(EXACT)"), "EXACT"),
    Case("MIL-NUMBER-002", of_const("int8", "int8(128)"), "128"),
    Case("MIL-NUMBER-002", of_const("int32", f"int32({'9' * 5000})"), "999"),
    Case("MIL-NUMBER-002", of_const("fp16", "fp16(1e999)"), "1e999"),
    Case("MIL-NUMBER-002", of_const("fp32", "fp32(0x1p+99999)"), "0x1p"),
    Case("MIL-OP-001", of_call("rellu(x = x)"), "rellu"),
    Case("MIL-OP-002", of_call("while_loop(loop_vars = (x))"), "while_loop"),
    Case("MIL-OP-002", of_call("l2_norm(axes = tensor<int32, [1]>([1]), x = x)"), "axes"),
    Case("MIL-OP-003", of_call("softmax(axis = int32(7), x = x)"), "softmax"),
    Case("MIL-OP-003", of_call("l2_norm(x = x)"), "l2_norm"),
    Case("MIL-OP-003", of_call("pixel_shuffle(upscale_factor = int32(2), x = x)"), "pixel_shuffle"),
    Case("MIL-OP-004", SDPA, "scaled"),
    Case("MIL-OP-005", program(RELU, opset="ios99"), "func main", warns=True),
    Case("MIL-PARAM-001", of_call("relu(x = x, alpha = fp16(0.5))"), "alpha"),
    Case("MIL-PARAM-001", program('fp16 c = const()[name = string("c"), value = fp16(1)];', RELU), "value"),
    Case("MIL-PARAM-001", of_const("fp16", 'fp16(BLOBFILE(file = string("a"), offset = uint64(64)))'), "file"),
    Case("MIL-PARAM-001", program(AFFINE.replace("axis =", "aksis ="), RELU), "aksis"),
    Case("MIL-PARAM-002", of_call("relu()"), "relu"),
    Case("MIL-PARAM-002", of_call("transpose(x = x)"), "transpose"),
    Case("MIL-PARAM-002", program('fp16 c = const()[name = string("c")];', RELU), "const"),
    Case("MIL-PARAM-002", of_const("fp16", "fp16(BLOBFILE(offset = uint64(64)))"), "fp16(BLOB"),
    Case("MIL-PARAM-002", program('write_state(data = x)[name = string("w")];', RELU), "write_state"),
    Case("MIL-PARAM-002", program('fp16 y = constexpr_cast()[name = string("y")];'), "constexpr_cast"),
    Case("MIL-PARAM-003", of_call("relu(x = x, x = x)"), "x = x)["),
    Case("MIL-PARAM-003", of_const("fp16", f"fp16(BLOBFILE({OFFSET}, {OFFSET}))"), f"{OFFSET}))"),
    Case("MIL-PARAM-004", of_call("linear(weight = x, x = x)", "tensor<fp16, [2, 2]> y"), "x, x"),
    Case("MIL-PARAM-004", of_call("softmax(axis = x, x = x)"), "x, x"),
    Case("MIL-PARAM-004", of_call('constexpr_cast(source_val = x, output_dtype = string("fp32"))'), "x, output"),
    Case("MIL-PARAM-005", of_call("relu(x = (x, x))"), "x, x"),
    Case("MIL-PARAM-005", of_call("concat(axis = int32(0), interleave = bool(false), values = x)"), "x)["),
    Case("MIL-PARAM-005", of_call("concat(axis = (x, x), interleave = bool(false), values = (x, x))"), "x, x), inter"),
    Case("MIL-PARAM-005", of_call('softmax(axis = string("last"), x = x)'), 'string("last"'),
    Case("MIL-PARAM-005", of_call('relu(x = string("x"))'), 'string("x")'),
    Case("MIL-PARAM-005", program('fp16 c = const()[name = string("c"), val = x];', RELU), "x]"),
    Case("MIL-PARAM-005", of_call("concat(axis = int32(0), interleave = bool(false), values = ((x)))"), "x))"),
    Case("MIL-PARAM-006", of_call("split(axis = int32(1), num_splits = int32(2), x = x)"), f"{PORT} y"),
    Case("MIL-PARAM-006", program('relu(x = x)[name = string("y")];'), "relu"),
    Case("MIL-BOOL-001", of_call("matmul(transpose_x = int32(1), x = x, y = x)"), "int32(1)"),
    Case("MIL-BOOL-001", of_call('reduce_sum(keep_dims = string("true"), x = x)'), 'string("true")'),
    Case("MIL-SCALAR-001", of_call("concat(axis = tensor<int32, [1]>([0]), values = (x, x))"), "tensor<int32, [1]>"),
    Case("MIL-LIST-001", of_call("transpose(perm = int32(1), x = x)"), "int32(1)"),
    Case("MIL-STATE-001", of_call("read_state(input = x)"), "x)["),
    Case("MIL-STATE-002", program(call("relu(x = s)"), inputs=f"{INPUT}, {STATE}"), "s)["),
    Case("MIL-STATE-002", program(RELU, inputs=f"{INPUT}, {STATE}", outputs="s"), "s);"),
    Case("MIL-STATE-003", WRITE, "c, input"),
    Case("MIL-META-001", program(RELU, info=OWN_ENTRY), "buildInfo"),
    Case("MIL-CONCAT-001", of_call("concat(axis = int32(0), values = (x, x))", "tensor<fp16, [4, 4]> y"), "concat"),
    Case("MIL-EPSILON-001", NORM, "fp32(1e-5)"),
    Case("MIL-EPSILON-002", of_call("log(x = x)"), "log"),
    Case("MIL-LINEAR-001", LINEAR, "x, weight"),
    Case("MIL-GELU-001", of_call("gelu(x = x)"), "gelu"),
    Case("MIL-CONSTEXPR-001", RESHAPED, "w)[", warns=True),
    Case("MIL-CONSTEXPR-002", of_call(CAST_NUMBERS), "constexpr_cast", warns=True),
    Case("MIL-PORT-001", program(RELU, inputs=INPUT).replace("fp16", "fp32"), "tensor<fp32", warns=True),
    Case("MIL-PORT-002", program(RELU, inputs=f"{INPUT}, tensor<fp16, [1]> unused"), "unused", warns=True),
    Case("MIL-BLOB-001", of_blob(PORT, 64), '"@model'),
    Case("MIL-BLOB-003", of_blob(PORT, 64), '"@model', b"short"),
    Case("MIL-BLOB-003", of_blob(PORT, 64), '"@model', patched(4, b"\3")),
    Case("MIL-BLOB-004", of_blob(PORT, 65), "65", weights()),
    Case("MIL-BLOB-004", of_blob(PORT, 2**64 - 1), str(2**64 - 1), weights()),
    Case("MIL-BLOB-004", of_blob(PORT, 0), "0)))", weights()),
    Case("MIL-BLOB-005", of_blob(PORT, 64), "64)))", weights()[:-70]),
    Case("MIL-BLOB-005", of_blob(PORT, 64), "64)))", patched(64 + 16, bytes(8))),
    Case("MIL-BLOB-006", of_blob(PORT, 144), "144", weights()),
    Case("MIL-BLOB-006", of_blob(PORT, 64), "64)))", patched(68, b"\x7f")),
    Case("MIL-BLOB-007", of_blob(NINE, 64), "64)))", weights()),
    Case("MIL-BLOB-007", of_blob(PORT, 64), "64)))", patched(64 + 24, b"\5")),
    Case("MIL-BLOB-008", OVERLAP, "144", patched(72, bytes([18]))),
    Case("MIL-BLOB-009", of_blob("tensor<bool, [2]>", 64), "tensor<bool, [2]>(BLOB", weights()),
]  # fmt: skip
