"""Write a small ONNX model of the guides, broken or repaired: `python small_models.py NAME FILE.onnx`.

The page docs/how-to/dead-ends.md and the guides show what a check says of each, and what it costs before and after.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Shape = Sequence[int | str]

ROWS, FEATURES = 64, 32
STEPS, HIDDEN = 40, 64
IMAGE, PATCH, WIDTH = 64, 16, 64
PATCHES = IMAGE // PATCH

drawn = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    """Return drawn weights that keep the size of what they multiply."""
    return (drawn.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    constants: Mapping[str, np.ndarray],
) -> bytes:
    """Return a model; inputs whose names end in `index` are integers."""

    def port(name: str, shape: Shape) -> ValueInfoProto:
        return helper.make_tensor_value_info(
            name, TensorProto.INT64 if name.endswith("index") else TensorProto.FLOAT, shape
        )

    graph = helper.make_graph(
        list(nodes),
        "dead_end",
        [port(name, shape) for name, shape in inputs.items()],
        [port(name, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


def attend(cache: str) -> list[NodeProto]:
    """Return attention of one query over a cache."""
    return [
        helper.make_node("Transpose", [cache], ["keys"], name="keys", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["query", "keys"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["shares"], name="shares", axis=-1),
        helper.make_node("MatMul", ["shares", cache], ["y"], name="mixed"),
    ]


def cache_by_scatter() -> bytes:
    """Return a cache that takes one row at every step, written by its index."""
    write = helper.make_node("ScatterElements", ["cache", "index", "row"], ["new_cache"], name="write", axis=1)
    one, whole = [1, 1, FEATURES], [1, ROWS, FEATURES]
    inputs = {"query": one, "row": one, "cache": whole, "index": one}
    return model([write, *attend("new_cache")], inputs, {"y": one, "new_cache": whole}, {})


def cache_by_mask() -> bytes:
    """Return the same cache, written by a mask that is 1 in the row to write: cache · (1 − here) + row · here."""
    nodes = [
        helper.make_node("Sub", ["one", "here"], ["elsewhere"], name="elsewhere"),
        helper.make_node("Mul", ["cache", "elsewhere"], ["kept"], name="kept"),
        helper.make_node("Mul", ["row", "here"], ["written"], name="written"),
        helper.make_node("Add", ["kept", "written"], ["new_cache"], name="write"),
    ]
    one, whole = [1, 1, FEATURES], [1, ROWS, FEATURES]
    inputs = {"query": one, "row": one, "cache": whole, "here": [1, ROWS, 1]}
    constants = {"one": np.ones((1, 1, 1), np.float32)}
    return model([*nodes, *attend("new_cache")], inputs, {"y": one, "new_cache": whole}, constants)


def recurrent_weights() -> dict[str, np.ndarray]:
    """Return the weights of an LSTM."""
    return {"W": weights(1, 4 * HIDDEN, FEATURES), "R": weights(1, 4 * HIDDEN, HIDDEN)}


def lstm_sequence() -> bytes:
    """Return an LSTM over a whole sequence."""
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y"], name="lstm", hidden_size=HIDDEN)
    return model([node], {"x": [STEPS, 1, FEATURES]}, {"y": [STEPS, 1, 1, HIDDEN]}, recurrent_weights())


def lstm_step() -> bytes:
    """Return one step of it: what is remembered goes in and comes out."""
    node = helper.make_node(
        "LSTM", ["x", "W", "R", "", "", "h", "c"], ["", "new_h", "new_c"], name="lstm", hidden_size=HIDDEN
    )
    kept = [1, 1, HIDDEN]
    inputs = {"x": [1, 1, FEATURES], "h": kept, "c": kept}
    return model([node], inputs, {"new_h": kept, "new_c": kept}, recurrent_weights())


def convolutions() -> bytes:
    """Return dilated convolutions, which compute all steps at once."""
    nodes = list[NodeProto]()
    constants, channels = dict[str, np.ndarray](), FEATURES
    for layer in range(5):
        wide = 2**layer
        constants[f"w{layer}"] = weights(HIDDEN, channels, 3)
        nodes.append(
            helper.make_node(
                "Conv", [f"x{layer}" if layer else "x", f"w{layer}"], [f"c{layer}"],
                name=f"conv_{layer}", dilations=[wide], pads=[2 * wide, 0],
            )
        )  # fmt: skip
        nodes.append(helper.make_node("Tanh", [f"c{layer}"], [f"x{layer + 1}" if layer < 4 else "y"], name=f"t{layer}"))
        channels = HIDDEN
    return model(nodes, {"x": [1, FEATURES, STEPS]}, {"y": [1, HIDDEN, STEPS]}, constants)


def patches_by_convolution() -> bytes:
    """Return patches of 16×16 pixels, as vision transformers begin: a convolution whose stride is its kernel."""
    node = helper.make_node("Conv", ["image", "w"], ["y"], name="patches", strides=[PATCH, PATCH])
    shapes = {"image": [1, 3, IMAGE, IMAGE]}, {"y": [1, WIDTH, PATCHES, PATCHES]}
    return model([node], *shapes, {"w": weights(WIDTH, 3, PATCH, PATCH)})


def patches_by_blocks() -> bytes:
    """Return the same patches: blocks of pixels become channels, then a convolution of one pixel."""
    kernel = weights(WIDTH, 3, PATCH, PATCH).transpose(0, 2, 3, 1).reshape(WIDTH, -1, 1, 1)
    nodes = [
        helper.make_node("SpaceToDepth", ["image"], ["blocks"], name="blocks", blocksize=PATCH),
        helper.make_node("Conv", ["blocks", "w"], ["y"], name="patches"),
    ]
    shapes = {"image": [1, 3, IMAGE, IMAGE]}, {"y": [1, WIDTH, PATCHES, PATCHES]}
    return model(nodes, *shapes, {"w": kernel})


def open_length() -> bytes:
    """Return attention over a number of tokens that the file leaves open."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["keys"], name="keys", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["shares"], name="shares", axis=-1),
        helper.make_node("MatMul", ["shares", "x"], ["y"], name="mixed"),
    ]
    return model(nodes, {"x": [1, "tokens", FEATURES]}, {"y": [1, "tokens", FEATURES]}, {})


def waveform() -> bytes:
    """Return the front end of an audio network over two seconds of samples, 16,000 a second, on one axis."""
    node = helper.make_node("Conv", ["samples", "w"], ["frames"], name="frames", strides=[160])
    gate = helper.make_node("Relu", ["frames"], ["y"], name="gate")
    return model([node, gate], {"samples": [1, 1, 32_000]}, {"y": [1, HIDDEN, 200]}, {"w": weights(HIDDEN, 1, 160)})


def waveform_in_frames() -> bytes:
    """Return the same front end where the host gives frames of 160 samples, which are channels."""
    kernel = weights(HIDDEN, 1, 160).reshape(HIDDEN, 160, 1)
    node = helper.make_node("Conv", ["samples", "w"], ["frames"], name="frames")
    gate = helper.make_node("Relu", ["frames"], ["y"], name="gate")
    return model([node, gate], {"samples": [1, 160, 200]}, {"y": [1, HIDDEN, 200]}, {"w": kernel})


def image_classifier() -> bytes:
    """Return a small classifier of images: convolutions with hard swish, a mean over all pixels, a linear layer."""
    nodes = list[NodeProto]()
    constants, channels, value = dict[str, np.ndarray](), 3, "image"
    for layer, wide in enumerate((32, 64, 128)):
        constants[f"w{layer}"] = weights(wide, channels, 3, 3)
        nodes += [
            helper.make_node(
                "Conv", [value, f"w{layer}"], [f"c{layer}"], name=f"conv_{layer}", strides=[2, 2], pads=[1, 1, 1, 1]
            ),
            helper.make_node("HardSwish", [f"c{layer}"], [f"h{layer}"], name=f"swish_{layer}"),
        ]
        channels, value = wide, f"h{layer}"
    constants |= {"classes": weights(channels, 10), "bias": np.zeros(10, np.float32)}
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["mean"], name="mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "classes", "bias"], ["scores"], name="scores"),
    ]
    return model(nodes, {"image": [1, 3, 128, 128]}, {"scores": [1, 10]}, constants)


MODELS: dict[str, Callable[[], bytes]] = {
    "cache-by-scatter": cache_by_scatter,
    "cache-by-mask": cache_by_mask,
    "lstm-sequence": lstm_sequence,
    "lstm-step": lstm_step,
    "convolutions": convolutions,
    "patches-by-convolution": patches_by_convolution,
    "patches-by-blocks": patches_by_blocks,
    "open-length": open_length,
    "waveform": waveform,
    "waveform-in-frames": waveform_in_frames,
    "image-classifier": image_classifier,
}


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in MODELS:
        sys.exit(f"usage: python small_models.py NAME FILE.onnx; NAME is one of {', '.join(MODELS)}")
    path = Path(sys.argv[2])
    path.write_bytes(MODELS[sys.argv[1]]())
    print(f"wrote {path}")
