"""Recurrent layers: torch's own layers with the gates put into MIL's order, errors, and cases worked out by hand."""

from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

from aneforge.errors import GraphError
from aneforge.ops.groups.recurrent import GRU, LSTM, RNN
from aneforge.ops.op import Op
from aneforge.ops.sampling import Fill, RandomChooser
from aneforge.ops.types import Array, TensorType
from oracle_tools import array, tensor

STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
TORCH_LSTM = (0, 1, 3, 2)  # torch has input, forget, cell, output
TORCH_GRU = (0, 2, 1)  # torch has reset, update, new


@pytest.fixture(autouse=True)
def same_weights() -> None:
    """Give torch's layers the same weights in every run."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] - torch types it as unknown


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape)


def reordered(rows: Array, order: tuple[int, ...]) -> Array:
    """Return the rows with the gates in another order."""
    return np.concatenate([np.split(rows, len(order))[gate] for gate in order])


def parameters(layer: nn.RNNBase) -> dict[str, Array]:
    return {name: array(cast("torch.Tensor", value)) for name, value in layer.named_parameters()}


def run(op: Op, operands: dict[str, Array], **attributes: object) -> tuple[Array, ...]:
    return op.evaluate(operands, op.complete({"output_sequence": True, **attributes}))


def test_a_plain_layer_is_torchs() -> None:
    layer = nn.RNN(WIDTH, HIDDEN, dtype=torch.float64)
    x, h = drawn(STEPS, BATCH, WIDTH), drawn(BATCH, HIDDEN)
    weights = parameters(layer)
    expected, last = layer(tensor(x), tensor(h[np.newaxis]))
    output, state = run(
        RNN,
        {
            "x": x,
            "initial_h": h,
            "weight_ih": weights["weight_ih_l0"],
            "weight_hh": weights["weight_hh_l0"],
            "bias": weights["bias_ih_l0"] + weights["bias_hh_l0"],
        },
    )
    np.testing.assert_allclose(output, array(expected), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(state, array(last)[0], rtol=1e-12, atol=1e-14)


def test_a_gated_layer_with_the_reset_after_the_product_is_torchs() -> None:
    layer = nn.GRU(WIDTH, HIDDEN, dtype=torch.float64)
    x, h = drawn(STEPS, BATCH, WIDTH), drawn(BATCH, HIDDEN)
    weights = {name: reordered(value, TORCH_GRU) for name, value in parameters(layer).items()}
    expected, last = layer(tensor(x), tensor(h[np.newaxis]))
    output, state = run(
        GRU,
        {
            "x": x,
            "initial_h": h,
            "weight_ih": weights["weight_ih_l0"],
            "weight_hh": weights["weight_hh_l0"],
            "bias": weights["bias_hh_l0"],
            "input_bias": weights["bias_ih_l0"],
        },
        reset_after=True,
    )
    np.testing.assert_allclose(output, array(expected), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(state, array(last)[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("both", [False, True])
def test_a_layer_with_memory_is_torchs(*, both: bool) -> None:
    layer = nn.LSTM(WIDTH, HIDDEN, bidirectional=both, dtype=torch.float64)
    ways = 2 if both else 1
    x, h, c = drawn(STEPS, BATCH, WIDTH), drawn(ways, BATCH, HIDDEN), -drawn(ways, BATCH, HIDDEN)
    weights = {name: reordered(value, TORCH_LSTM) for name, value in parameters(layer).items()}
    expected, (last_h, last_c) = layer(tensor(x), (tensor(h), tensor(c)))
    operands = {"x": x, "initial_h": np.concatenate(list(h), -1), "initial_c": np.concatenate(list(c), -1)}
    for suffix, theirs in (("", "_l0"), ("_back", "_l0_reverse"))[:ways]:
        operands[f"weight_ih{suffix}"] = weights[f"weight_ih{theirs}"]
        operands[f"weight_hh{suffix}"] = weights[f"weight_hh{theirs}"]
        operands[f"bias{suffix}"] = weights[f"bias_ih{theirs}"] + weights[f"bias_hh{theirs}"]
    output, hidden, cell = run(LSTM, operands, direction="bidirectional" if both else "forward")
    np.testing.assert_allclose(output, array(expected), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(hidden, np.concatenate(list(array(last_h)), -1), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(cell, np.concatenate(list(array(last_c)), -1), rtol=1e-12, atol=1e-14)


SUM = {"initial_h": np.zeros((1, 1)), "weight_ih": np.ones((1, 1)), "weight_hh": np.ones((1, 1))}
NUMBERS = np.array([1.0, 2.0, 4.0]).reshape(3, 1, 1)


def test_time_runs_forward_or_back_and_outputs_stay_in_place() -> None:
    forward, last = run(RNN, {"x": NUMBERS, **SUM}, activation="linear")
    back, first = run(RNN, {"x": NUMBERS, **SUM}, activation="linear", direction="reverse")
    assert forward.ravel().tolist() == [1, 3, 7]
    assert back.ravel().tolist() == [7, 6, 4]
    assert (last.item(), first.item()) == (7, 7)


def test_without_a_sequence_the_output_is_the_last_state() -> None:
    output, h = run(RNN, {"x": NUMBERS, **SUM}, activation="linear", direction="reverse", output_sequence=False)
    assert output.shape == (1, 1, 1)
    assert output.item() == h.item() == 7


def test_the_cell_is_clipped() -> None:
    operands = {
        "x": np.full((5, 1, 1), 10.0),
        "initial_h": np.zeros((1, 1)),
        "initial_c": np.zeros((1, 1)),
        "weight_ih": np.ones((4, 1)),
        "weight_hh": np.zeros((4, 1)),
    }
    assert run(LSTM, operands, clip=1.5)[2].item() == 1.5
    assert run(LSTM, operands)[2].item() > 4


X = TensorType((STEPS, BATCH, WIDTH))
STATE = TensorType((BATCH, HIDDEN))
BOTH_STATES = TensorType((BATCH, 2 * HIDDEN))
IH, HH = TensorType((4 * HIDDEN, WIDTH)), TensorType((4 * HIDDEN, HIDDEN))
OPERANDS = {"x": X, "initial_h": STATE, "initial_c": STATE, "weight_ih": IH, "weight_hh": HH}


def test_the_types_of_both_directions() -> None:
    operands = {
        **OPERANDS,
        "initial_h": BOTH_STATES,
        "initial_c": BOTH_STATES,
        "weight_ih_back": IH,
        "weight_hh_back": HH,
    }
    attributes = LSTM.complete({"direction": "bidirectional", "output_sequence": True})
    assert LSTM.types(operands, attributes) == (
        TensorType((STEPS, BATCH, 2 * HIDDEN)),
        BOTH_STATES,
        BOTH_STATES,
    )
    assert LSTM.work(operands, attributes).macs == 2 * STEPS * BATCH * 4 * HIDDEN * (WIDTH + HIDDEN)


@pytest.mark.parametrize(
    ("changed", "attributes", "text"),
    [
        ({"x": TensorType((STEPS, WIDTH))}, {}, "x of shape .* has the wrong rank"),
        ({"x": X.with_dtype("int32")}, {}, "x must hold floating-point"),
        ({"x": TensorType((0, BATCH, WIDTH))}, {}, "the sequence is empty"),
        ({"weight_ih": TensorType((21, WIDTH))}, {}, "rows of weight_ih is not divisible"),
        ({"weight_ih": TensorType((4 * HIDDEN, 9))}, {}, r"weight_ih has the wrong shape \(got \[20, 9\]"),
        ({"weight_hh": TensorType((4 * HIDDEN, 9))}, {}, r"weight_hh has the wrong shape \(got \[20, 9\]"),
        ({"initial_h": BOTH_STATES}, {}, r"initial_h has the wrong shape \(got \[2, 10\], expected \[2, 5\]\)"),
        ({"initial_c": BOTH_STATES}, {}, "initial_c has the wrong shape"),
        ({"bias": TensorType((HIDDEN,))}, {}, r"bias has the wrong shape \(got \[5\], expected \[20\]\)"),
        ({"peephole": TensorType((HIDDEN,))}, {}, "peephole has the wrong shape"),
        ({"bias": TensorType((4 * HIDDEN,), "fp32")}, {}, "different element types"),
        ({"weight_ih_back": IH}, {}, "weights for the backward direction, and direction is not"),
        ({}, {"direction": "bidirectional"}, "weights of the backward direction are missing"),
        (
            {"weight_ih_back": TensorType((8, WIDTH)), "weight_hh_back": TensorType((8, 2))},
            {"direction": "bidirectional"},
            "different hidden sizes",
        ),
    ],
)
def test_a_layer_that_does_not_fit(changed: dict[str, TensorType], attributes: dict[str, object], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        LSTM.types({**OPERANDS, **changed}, LSTM.complete(attributes))


def test_only_a_layer_with_memory_runs_both_ways() -> None:
    with pytest.raises(GraphError, match="'direction' is not one of its choices"):
        GRU.complete({"direction": "bidirectional"})


def test_the_hard_sigmoid_has_two_names() -> None:
    assert LSTM.complete({"recurrent_activation": "hard_sigmoid"})["recurrent_activation"] == "hard_sigmoid"
    assert GRU.complete({"recurrent_activation": "sigmoid_hard"})["recurrent_activation"] == "sigmoid_hard"
    for op, other in ((LSTM, "sigmoid_hard"), (GRU, "hard_sigmoid"), (RNN, "hard_sigmoid")):
        with pytest.raises(GraphError, match="'activation' is not one of its choices"):
            op.complete({"activation": other})


@pytest.mark.parametrize("op", [RNN, GRU, LSTM], ids=lambda op: op.name)
def test_the_scaled_tanh_is_the_plain_one(op: Op) -> None:
    sample = op.sample(RandomChooser(np.random.default_rng(3)))
    generator = np.random.default_rng(4)
    operands = {name: fill.values(generator) for name, fill in sample.operands.items() if isinstance(fill, Fill)}
    names = ("scaled_tanh", "tanh")
    scaled, plain = (op.evaluate(operands, op.complete({**sample.attributes, "activation": name})) for name in names)
    assert all(np.array_equal(one, two) for one, two in zip(scaled, plain, strict=True))


def test_an_unknown_activation() -> None:
    with pytest.raises(GraphError, match="'activation' is not one of its choices"):
        RNN.complete({"activation": "swish"})
