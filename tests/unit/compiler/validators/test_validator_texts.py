"""Every literal text of the compiler, once, from a bad layer; and the same layer made good, accepted.

A case is the text as the compiler would print it, what shows it, a target, and what the same target accepts. Most are
layers written by hand; what only the authored form of a layer can be is an operation.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import aneforge.targets as targets_room
from aneforge.compiler.ir.layer import Layer
from aneforge.compiler.validators import Verdict, validate, validate_layer, validators
from aneforge.compiler.validators.catalogue import general_checks
from aneforge.compiler.validators.data import DIRECTIVE
from aneforge.compiler.validators.network import NETWORK
from aneforge.ops.types import TensorType
from aneforge.rules import Operation
from aneforge.targets import Database, resolve
from unit.compiler.validators.layers_by_hand import attention, changed, convolution, fp16, layer, live, zeros

IMAGE = live("x", 1, 8, 16, 16)
POOL = layer("max_pool", {"kernel_sizes": (2, 2), "strides": (2, 2)}, x=IMAGE)
MATMUL = layer("matmul", lhs=live("a", 8, 16), rhs=live("b", 16, 4))
LINEAR = layer("linear", x=live("x", 1, 16), weight=zeros(8, 16))
CONCAT = layer("concat", {"axis": 1}, values=(IMAGE, live("z", 1, 8, 16, 16)))
VIEW = layer("input_view", {"axis": 3, "offset": 2, "size": 4, "step": 1}, x=IMAGE)
SUM = layer("reduce_sum", {"axes": (1,), "keep_dims": True}, x=IMAGE)
ARGMAX = layer("arg_max", {"axis": 1}, x=IMAGE)
SHUFFLE = layer("pixel_shuffle", {"upscale_factor": 2}, x=live("x", 1, 16, 4, 4))
UNSHUFFLE = layer("pixel_unshuffle", {"downscale_factor": 2}, x=IMAGE)
BATCH_TO_SPACE = layer("batch_to_space", {"block_shape": (2, 3)}, x=live("x", 6, 8, 4, 4))
PAD = layer("padding", {"pad": (1, 1, 2, 2)}, x=IMAGE)
BROADCAST = layer("broadcast", {"shape": (1, 4, 2, 4, 4)}, x=live("x", 1, 4, 1, 4, 4))
GATHER = layer("gather_nd", {"batch_dims": 1}, x=live("x", 1, 4, 4, 4), indices=zeros(1, 5, 3, dtype="int32"))
RESAMPLE = layer(
    "resample",
    {
        "sampling_mode": "bilinear",
        "padding_mode": "constant",
        "coordinates_mode": "unnormalized",
        "align_corners": False,
    },
    x=IMAGE,
    coordinates=live("c", 1, 4, 4, 2),
)
RESIZE = layer("resize", {"size": (32, 32), "mode": "LINEAR", "sampling": "DEFAULT"}, input=IMAGE)
CROP = layer("crop_resize", {"target_height": 4, "target_width": 4}, x=IMAGE, boxes=zeros(2, 4))
AFFINE = layer(
    "affine_transform",
    {"output_height": 4, "output_width": 4, "align_corners": False},
    x=IMAGE,
    transform_matrix=zeros(1, 6),
)
RESHAPE = layer("reshape", {"shape": (8, 256)}, x=IMAGE)
SOFTMAX = layer("softmax", {"axis": 1}, x=IMAGE)
DROPOUT = layer("dropout", {"rate": 0.5}, x=IMAGE)
RANDOM = layer("random_uniform", {"shape": (1, 8), "dtype": "fp16"})
INSTANCE_NORM = layer("instance_norm", x=IMAGE)
TRANSPOSE = layer("transpose", {"perm": (0, 2, 3, 1)}, x=IMAGE)
SQUARED = layer("square_after_reduction", {"axes": (1,), "keep_dims": True}, x=IMAGE)
WRITER = layer("ring_buffer_writer", {"axis": 1}, buffer=live("b", 1, 8, 4), x=live("x", 1, 2, 4))
READER = layer("ring_buffer_reader", {"axis": 1}, buffer=live("b", 1, 8, 4))
FP8_SUM = layer("add", x=live("x", 4, dtype="fp8e4m3fn"), y=live("z", 4, dtype="fp8e4m3fn"))
QUANT = layer("quant", {"output_dtype": "int8"}, input=IMAGE, scale=zeros())


def grouped_norm(depth: int) -> Operation:
    x = fp16(1, 8, depth, 4, 4)
    return Operation("group_norm", (x,), (x,), {"num_groups": 2}, arguments={"x": (x,)})


def arg_window(pad: int) -> Operation:
    x = fp16(1, 8, 16, 16)
    attributes = {"axis": 1, "kernel_sizes": (2, 2), "pad": (0, 0, pad, pad)}
    return Operation("argmax", (x,), (x,), attributes, arguments={"x": (x,)})


def authored(op: str, **attributes: int | str | tuple[str, ...]) -> Operation:
    x = fp16(1, 16, 4, 4)
    return Operation(op, (x,), (x,), attributes, arguments={"x": (x,)})


def joined(*layouts: str) -> Operation:
    x = fp16(1, 16, 4, 4)
    attributes = {"axis": 1, "layouts": layouts}
    return Operation("concat", (x, x), (fp16(1, 32, 4, 4),), attributes, arguments={"values": (x, x)})


def network(**attributes: str | int | tuple[str, ...]) -> Operation:
    plain = {"schema": "1.0.10", "engines": 1, "units": ("a", "b"), "unconverted": ()}
    return Operation(NETWORK, attributes={**plain, **attributes})


def output(dtype: str) -> Operation:
    return Operation("output", (TensorType((1, 8), dtype),), attributes={"producer": "relu"})


Shown = Layer | Operation
CASES: list[tuple[str, Shown, str, Shown]] = [
    ("Matrix mult. layer can only have two bottoms", changed(MATMUL, rhs=None), "m1", MATMUL),
    (
        "depth > 1 is not supported for MatMult",
        layer("matmul", lhs=live("a", 1, 1, 2, 8, 16), rhs=live("b", 1, 1, 2, 16, 4)),
        "m2",
        layer("matmul", lhs=live("a", 1, 1, 1, 8, 16), rhs=live("b", 1, 1, 1, 16, 4)),
    ),
    (
        "Some ops are not supported on any of the specified backends",
        layer("matmul", lhs=live("a", 1, 1, 1, 8, 16), rhs=live("b", 1, 1, 1, 16, 4)),
        "m1",
        layer("matmul", lhs=live("a", 1, 1, 8, 16), rhs=live("b", 1, 1, 16, 4)),
    ),
    (
        "can not fit the Kmem",
        layer("matmul", lhs=live("a", 8, 32_769), rhs=live("b", 32_769, 4)),
        "m5",
        layer("matmul", lhs=live("a", 8, 32_768), rhs=live("b", 32_768, 4)),
    ),
    (
        "Invalid conv kernel width = 14, It should be in [1,13]",
        convolution(kernel=(8, 8, 3, 14)),
        "m1",
        convolution(kernel=(8, 8, 3, 13)),
    ),
    (
        "Invalid conv kernel height = 30, It should be in [1,29]",
        convolution(kernel=(8, 8, 30, 3)),
        "m1",
        convolution(kernel=(8, 8, 29, 3)),
    ),
    (
        "Invalid conv kernel depth = 17, It should be in [1,16]",
        convolution((1, 1, 32, 4, 4), (1, 1, 17, 1, 1)),
        "m2",
        convolution((1, 1, 1, 4, 4), (1, 1, 1, 1, 1)),
    ),
    (
        "input/output channels should be divisible by num group",
        changed(convolution(), {"groups": 3}),
        "m1",
        convolution(kernel=(8, 4, 3, 3), groups=2),
    ),
    (
        "KernelChannels (2) != InputChannels (8) / Group (3)",
        changed(convolution(kernel=(8, 2, 3, 3), groups=4), {"groups": 3}),
        "m1",
        convolution(kernel=(8, 2, 3, 3), groups=4),
    ),
    ("Linear layer must have only one single input.", changed(LINEAR, z=live("z", 1, 16)), "m1", LINEAR),
    (
        "ANE cannot support Linear with input rank >= 5",
        layer("linear", x=live("x", 1, 1, 1, 4, 16), weight=zeros(8, 16)),
        "m1",
        layer("linear", x=live("x", 1, 1, 4, 16), weight=zeros(8, 16)),
    ),
    ("4 or 5 bottoms must be present for SDPA", changed(attention(), value=None, attn_mask=None), "m1", attention()),
    (
        "SDPA layer must have only 4 or 5(optional mask) inputs",
        changed(attention(), sink=live("s", 1)),
        "m1",
        changed(attention(), attn_mask=None),
    ),
    (
        "Mask format must be same as Q, K and V",
        changed(attention(), attn_mask=live("mask", 8, 8, dtype="bool")),
        "m1",
        attention(),
    ),
    ("Pool layer must have only one single input.", changed(POOL, z=IMAGE), "m1", POOL),
    (
        'Pooling mode "Median" is not available on this ANE architecture.',
        changed(POOL, {"mode": "Median"}),
        "m1",
        changed(POOL, {"mode": "ChannelMax"}),
    ),
    (
        "This platform doesn't support Neuron sin",
        layer("sin", x=IMAGE),
        "m2",
        layer("relu", x=IMAGE),
    ),
    ("This platform doesn't support Neuron erf", layer("erf", x=IMAGE), "h12", layer("relu", x=IMAGE)),
    ("Reduction layer can only have one bottom", changed(SUM, z=IMAGE), "m1", SUM),
    ("square operation after reduction is not supported", SQUARED, "m1", SUM),
    ("Softmax is not supported by this ANE architecture", SOFTMAX, "h12", POOL),
    ("... does not yet support depth > 1", grouped_norm(2), "m1", grouped_norm(1)),
    ("InstanceNorm layer not supported for this ANE architecture", INSTANCE_NORM, "h12", POOL),
    ("ArgMinMax layer must have one input", changed(ARGMAX, z=IMAGE), "m1", ARGMAX),
    (
        "ArgMinMax left padding value should be smaller than kernel width 2, but 2 is given",
        arg_window(2),
        "m1",
        arg_window(1),
    ),
    ("NE Input Transpose is not supported for this arch", TRANSPOSE, "h12", RESHAPE),
    ("Concat layer must have at least 2 inputs", changed(CONCAT, values=(IMAGE,)), "m1", CONCAT),
    ("ANE Concat supports only supports const positive axis", changed(CONCAT, {"axis": 4}), "m1", CONCAT),
    ("both concat inputs must have the same layout", joined("NCHW", "NHWC"), "m1", joined("NCHW", "NCHW")),
    ("Channel padding is not supported on ANE", changed(PAD, {"pad": (0, 1, 0, 0, 0, 0)}), "m5", PAD),
    ("Architecture does not support padding mode.", changed(PAD, {"mode": "reflect"}), "m1", PAD),
    (
        "Broadcast along depth axis is not supported on this architecture",
        BROADCAST,
        "m1",
        layer("broadcast", {"shape": (1, 4, 1, 4, 4)}, x=live("x", 1, 4, 1, 4, 1)),
    ),
    (
        "Cannot decompose layer on this architecture",
        changed(GATHER, indices=zeros(1, 5, 2, dtype="int32")),
        "m1",
        GATHER,
    ),
    ("returned invalid:", changed(SHUFFLE, {"upscale_factor": 5}), "m1", SHUFFLE),
    ("returned invalid:", changed(UNSHUFFLE, {"downscale_factor": 5}), "m1", UNSHUFFLE),
    (
        "Input batch n = 7 is not divisible by factor x = 3 * factor y = 2",
        changed(BATCH_TO_SPACE, x=live("x", 7, 8, 4, 4)),
        "m1",
        BATCH_TO_SPACE,
    ),
    (
        "ChannelToSpace in z dimension is not supported, current factor.z = 2.",
        authored("channel_to_space", block_size=2, factor_z=2),
        "m1",
        authored("channel_to_space", block_size=2, factor_z=1),
    ),
    (
        "failed to map resize layer on this arch",
        layer("resize", {"size": (16, 16, 16), "mode": "LINEAR", "sampling": "DEFAULT"}, input=live("x", 1, 8, 8, 8)),
        "m1",
        RESIZE,
    ),
    (
        "Resize alignCorners == centerResult == true is not supported on A14-class ANEs.",
        changed(RESIZE, {"sampling": "ALIGN_CORNERS_HALF_PIXELS"}),
        "m1",
        RESIZE,
    ),
    ("Codegen Error: Invalid Texture CropCfg", CROP, "m1", RESIZE),
    ("affine transform is not supported on this architecture", AFFINE, "m1", RESIZE),
    (
        "Channel size in coordinates should be 1 or 2",
        changed(RESAMPLE, coordinates=live("c", 1, 4, 4, 3)),
        "m2",
        changed(RESAMPLE, coordinates=live("c", 1, 4, 4, 1)),
    ),
    ("Dropout layer is not supported on this architecture.", DROPOUT, "m2", POOL),
    ("Random layer is not supported on this architecture.", RANDOM, "m2", POOL),
    ("Circular buffer is not supported on this architecture", WRITER, "m1", POOL),
    ("Circular buffer is not supported on this architecture", READER, "m1", POOL),
    (
        "Cannot reshape a tensor of rank > 5",
        layer("reshape", {"shape": (1, 1, 1, 1, 8, 256)}, x=IMAGE),
        "m1",
        layer("reshape", {"shape": (1, 1, 1, 8, 256)}, x=IMAGE),
    ),
    ("InvalidInputViewDimension", changed(VIEW, {"axis": 4}), "m1", VIEW),
    ("InvalidInputViewOffset", changed(VIEW, {"offset": 16}), "m1", changed(VIEW, {"offset": 15, "size": 1})),
    ("InvalidInputViewSize", changed(VIEW, {"size": 15}), "m1", changed(VIEW, {"size": 14})),
    ("InvalidInputViewStep", changed(VIEW, {"step": 0}), "m1", changed(VIEW, {"step": 2})),
    ("E4M3 is not supported on this architecture", FP8_SUM, "m5", POOL),
    (
        "Zero point is not supported for quant with E4M3 output format",
        changed(QUANT, results=(TensorType((1, 8, 16, 16), "fp8e4m3fn"),), zero_point=zeros(dtype="fp8e4m3fn")),
        "h18",
        changed(QUANT, zero_point=zeros(dtype="int8")),
    ),
    ("Unsupported function output dtype bf16", output("bf16"), "m1", output("fp16")),
    ("Bonded networks are not supported on the target", network(engines=2), "m4", network(engines=1)),
    (
        'ANE internal error: Unit name "a" collision during MIL to ANEC IR conversion.',
        network(units=("a", "b", "a")),
        "m1",
        network(),
    ),
]
"""What a text is shown with, and what is accepted instead; `test_the_others` has the rest."""
ELSEWHERE = {"LRN is not supported on this architecture.", "MIL is only supported for H13+ ANE architectures"}


def verdict_on(shown: Shown, target: str) -> tuple[Verdict, list[str]]:
    found = validate_layer(shown, target) if isinstance(shown, Layer) else validate(shown, target)
    return found.verdict, [text for one in found.findings if one.stops for text in one.texts]


@pytest.mark.parametrize(("text", "bad", "target", "good"), CASES, ids=[case[0][:40] for case in CASES])
def test_the_text_and_the_way_out(text: str, bad: Shown, target: str, good: Shown) -> None:
    verdict, texts = verdict_on(bad, target)
    assert verdict is (Verdict.ACCEPT_THEN_FAIL if text.startswith("Codegen Error") else Verdict.REJECT)
    assert text in texts
    assert not {name for name in DIRECTIVE.findall(" ".join(texts)) if name in " ".join(texts)}
    assert text not in verdict_on(good, target)[1]


def test_every_text_has_a_case() -> None:
    every = Counter(check.text for one in validators().values() for check in one.checks if check.text)
    every.update(check.text for check in general_checks() if check.text)
    for text in every:
        pattern = re.compile(".+".join(re.escape(part) for part in DIRECTIVE.split(text)))
        shown = [case for case in CASES if pattern.fullmatch(case[0])]
        assert shown or text in ELSEWHERE, text


def test_what_is_accepted_instead_is_accepted() -> None:
    for text, _, target, good in CASES:
        if target != "h12":
            verdict, texts = verdict_on(good, target)
            assert verdict is Verdict.ACCEPT, (text, texts)


def test_a_target_without_the_byte_of_local_response_norm(tmp_path: Path) -> None:
    """No source gives a target without the byte, so one is made."""
    data = tmp_path / "data"
    shutil.copytree(Path(targets_room.__file__).parent / "data", data)
    file = data / "hal_bytes.toml"
    text = file.read_text("utf-8")
    assert text.count("[lrn_support.values]\n") == 1
    file.write_text(text.replace("[lrn_support.values]\n", "[lrn_support.values]\nolder = false\n"), "utf-8")
    norm = layer("local_response_norm", x=IMAGE)
    found = validate_layer(norm, Database(data).targets["h12"])
    assert [one.texts for one in found.findings if one.stops] == [("LRN is not supported on this architecture.",)]
    assert validate_layer(norm, resolve("m1")).verdict is Verdict.ACCEPT
