"""Operations of which MIL has other conventions than the op table: what programs mean by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.program import parse_mil
from aneforge.graph.reference import evaluate
from mil_cases import call, const, program

if TYPE_CHECKING:
    from aneforge.ops.types import Array


def answer(text: str, value: Array) -> Array:
    """Return the one output of a program."""
    (result,) = af.reference(parse_mil(text).graph(), [value]).values()
    return result


PARAMETERS = {
    "softplus_parametric": ("alpha", "beta"),
    "prelu": ("alpha",),
}
POINTS = np.array([[[-1.0, 0.5], [2.0, -3.0]]])


def activation(op: str, of_input: str, of_parameters: str) -> str:
    """Return a program of an activation with a parameter per channel."""
    numbers = {"alpha": "[0.5, 2.0]", "beta": "[1.0, 0.25]"}
    consts = [
        const(f"tensor<{of_parameters}, [2]>", name, f"tensor<{of_parameters}, [2]>({numbers[name]})")
        for name in PARAMETERS[op]
    ]
    given = ", ".join(f"{name} = {name}" for name in PARAMETERS[op])
    kind = f"tensor<{of_input}, [1, 2, 2]>"
    return program(*consts, call(f"{op}({given}, x = x)", f"{kind} y"), inputs=f"{kind} x")


@pytest.mark.parametrize("op", PARAMETERS)
@pytest.mark.parametrize("dtypes", [("fp16", "fp16"), ("fp32", "fp16"), ("fp16", "fp32")])
def test_parameters_of_an_activation_may_be_of_another_type(op: str, dtypes: tuple[str, str]) -> None:
    graph = parse_mil(activation(op, *dtypes)).graph()
    assert graph.outputs["y"].type.dtype == dtypes[0]
    alpha, beta = np.array([0.5, 2.0])[:, None], np.array([1.0, 0.25])[:, None]
    wanted = {
        "softplus_parametric": alpha * np.log1p(np.exp(beta * POINTS)),
        "prelu": np.where(POINTS < 0, alpha * POINTS, POINTS),
    }
    found = af.reference(graph, [POINTS])["y"]
    np.testing.assert_allclose(found, wanted[op], rtol=1e-12)


def test_a_product_of_two_types_is_computed_in_the_wider() -> None:
    weight = const("tensor<fp32, [1, 2]>", "w", "tensor<fp32, [1, 2]>([1.0, 0.0009765626])")
    kind = "tensor<fp16, [1, 2]> x"
    graph = parse_mil(program(weight, call("linear(weight = w, x = x)", "tensor<fp16, [1, 1]> y"), inputs=kind)).graph()
    assert [node.op.name for node in graph.nodes] == ["input", "cast", "linear", "cast"]
    assert af.reference(graph, [np.array([[0.0, 1024.0]])])["y"].tolist() == [[np.float32(0.0009765626) * 1024.0]]


@pytest.mark.parametrize(
    ("extent", "count", "places"),
    [(2, 3, [0, 1, 1]), (2, 4, [0, 0, 1, 1]), (5, 3, [0, 2, 3]), (6, 3, [0, 2, 4]), (4, 4, [0, 1, 2, 3])],
)
def test_a_resize_takes_the_nearest_element_as_packages_do(extent: int, count: int, places: list[int]) -> None:
    op = (
        'resize(interpolation_mode = string("NEAREST_NEIGHBOR"), resized_dims = uint32(1), '
        f'sampling_mode = string("DEFAULT"), shape = tensor<int32, [1]>([{count}]), x = x)'
    )
    text = program(call(op, f"tensor<fp16, [1, {count}]> y"), inputs=f"tensor<fp16, [1, {extent}]> x", opset="ios17")
    assert answer(text, np.arange(extent)[None]).tolist() == [places]


def test_volumes_are_normalised_as_images() -> None:
    kind = "tensor<fp16, [1, 2, 2, 2, 2]>"
    parts = [
        const("tensor<fp16, [2]>", name, f"tensor<fp16, [2]>({value})")
        for name, value in (("beta", "[0.0, 1.0]"), ("gamma", "[1.0, 2.0]"))
    ]
    op = "instance_norm(beta = beta, epsilon = fp16(0x0p+0), gamma = gamma, x = x)"
    x = np.random.default_rng(0).normal(size=(1, 2, 2, 2, 2))
    mean, deviation = (measure(x, axis=(2, 3, 4), keepdims=True) for measure in (np.mean, np.std))
    gamma, beta = (np.array(numbers).reshape(1, 2, 1, 1, 1) for numbers in ([1.0, 2.0], [0.0, 1.0]))
    found = af.reference(parse_mil(program(*parts, call(op, f"{kind} y"), inputs=f"{kind} x")).graph(), [x])["y"]
    np.testing.assert_allclose(found, (x - mean) / deviation * gamma + beta, rtol=1e-9, atol=1e-12)


def test_an_image_norm_of_no_input_is_missing_it() -> None:
    with pytest.raises(MilError, match="MIL-PARAM"):
        parse_mil(program(call("instance_norm(epsilon = fp16(0x0p+0))"))).graph()


def test_numbers_without_axes_are_put_into_a_list() -> None:
    reads = "tensor<int32, []> s = reduce_sum(axes = tensor<int32, [1]>([0]), keep_dims = bool(false), x = x)"
    text = program(
        f'{reads}[name = string("s")];',
        call("concat(axis = int32(0), interleave = bool(false), values = (int32(7), s))", "tensor<int32, [2]> y"),
        inputs="tensor<int32, [3]> x",
    )
    assert answer(text, np.array([1, 2, 4], np.int32)).tolist() == [7, 7]


def test_lists_are_put_together_as_they_are() -> None:
    text = program(
        call("concat(axis = int32(0), interleave = bool(false), values = (x, x))", "tensor<fp16, [4]> y"),
        inputs="tensor<fp16, [2]> x",
    )
    assert answer(text, np.array([1.0, 2.0])).tolist() == [1.0, 2.0, 1.0, 2.0]


def test_a_recurrent_layer_in_reverse_gives_its_outputs_in_the_order_of_steps() -> None:
    def text(direction: str) -> str:
        parts = [
            const(kind, name, f"{kind}({value})")
            for kind, name, value in (
                ("tensor<fp16, [1, 1]>", "wi", "[[1.0]]"),
                ("tensor<fp16, [1, 1]>", "wh", "[[0.5]]"),
                ("tensor<fp16, [1, 1]>", "h", "[[0.0]]"),
            )
        ]
        op = (
            f'rnn(activation = string("relu"), direction = string("{direction}"), initial_h = h, '
            "output_sequence = bool(true), weight_hh = wh, weight_ih = wi, x = x)"
        )
        results = "tensor<fp16, [3, 1, 1]> y, tensor<fp16, [1, 1]> last"
        return program(*parts, call(op, results), inputs="tensor<fp16, [3, 1, 1]> x")

    steps = np.array([1.0, 2.0, 4.0]).reshape(3, 1, 1)
    forward = evaluate(parse_mil(text("forward")).graph(), {"x": steps[::-1]})[0]["y"]
    reverse = evaluate(parse_mil(text("reverse")).graph(), {"x": steps})[0]["y"]
    assert reverse.reshape(-1).tolist() == forward.reshape(-1).tolist() == [4.0, 4.0, 3.0]


def test_images_are_counted_as_the_documentation_counts_them() -> None:
    blocks = "block_shape = tensor<int32, [2]>([1, 2])"
    parted = program(
        call(
            f"space_to_batch({blocks}, paddings = tensor<int32, [2, 2]>([[0, 0], [0, 0]]), x = x)",
            "tensor<fp16, [4, 1, 1, 1]> y",
        ),
        inputs="tensor<fp16, [2, 1, 1, 2]> x",
    )
    joined = program(
        call(
            f"batch_to_space({blocks}, crops = tensor<int32, [2, 2]>([[0, 0], [0, 0]]), x = x)",
            "tensor<fp16, [2, 1, 1, 2]> y",
        ),
        inputs="tensor<fp16, [4, 1, 1, 1]> x",
    )
    images = np.arange(4.0).reshape(2, 1, 1, 2)
    assert answer(parted, images).reshape(-1).tolist() == [0.0, 2.0, 1.0, 3.0]
    assert answer(joined, np.array([0.0, 2.0, 1.0, 3.0]).reshape(4, 1, 1, 1)).reshape(-1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("regions", ["[1, 1, 5, 1, 1]", "[1, 1, 4, 1, 1]"])
def test_the_older_form_of_boxes_gives_five_axes(regions: str) -> None:
    numbers = [1.0, 0.0, 0.0, 1.0, 1.0] if "5" in regions else [0.0, 0.0, 1.0, 1.0]
    count = len(numbers)
    nested = "[[" + "[" + ", ".join(f"[[{number}]]" for number in numbers) + "]" + "]]"
    roi = const(f"tensor<fp16, [1, 1, {count}, 1, 1]>", "roi", f"tensor<fp16, [1, 1, {count}, 1, 1]>({nested})")
    images = 1 if count == 5 else 2
    op = (
        'crop_resize(box_coordinate_mode = string("CORNERS_HEIGHT_FIRST"), normalized_coordinates = bool(false), '
        'roi = roi, sampling_mode = string("ALIGN_CORNERS"), spatial_scale = fp16(0x1p+0), target_height = int32(2), '
        "target_width = int32(2), x = x)"
    )
    kind = f"tensor<fp16, [1, {images}, 1, 2, 2]> y"
    text = program(roi, call(op, kind), inputs="tensor<fp16, [2, 1, 2, 2]> x", opset="ios16")
    found = answer(text, np.arange(8.0).reshape(2, 1, 2, 2))
    wanted = np.arange(8.0).reshape(2, 1, 2, 2)[1:] if images == 1 else np.arange(8.0).reshape(2, 1, 2, 2)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_a_normalisation_gives_the_type_that_is_stated() -> None:
    kind = "tensor<fp16, [1, 4]>"
    gamma = const("tensor<fp32, [4]>", "gamma", "tensor<fp32, [4]>([1.0, 1.0, 1.0, 1.0])")
    op = "layer_norm(axes = tensor<int32, [1]>([1]), epsilon = fp32(0x1p-10), gamma = gamma, x = x)"
    graph = parse_mil(program(gamma, call(op, f"{kind} y"), inputs=f"{kind} x")).graph()
    assert graph.outputs["y"].type.dtype == "fp16"
