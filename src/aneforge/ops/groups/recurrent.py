"""Recurrent layers over a sequence [steps, batch, features].

The rows of the weights are blocks of one hidden size per gate, in MIL's order: input, forget, output, cell for an LSTM;
reset, output, update for a GRU. What a step gives is at its own place in the sequence, whichever way time runs.

Activations have MIL's names, which spell the hard sigmoid `hard_sigmoid` for an LSTM and `sigmoid_hard` for the others.
`scaled_tanh` takes no constants in a recurrent layer, and its documentation does not say which it has there; the
operator tests that coremltools ships expect those of 1 of Core ML (`TestLSTM`), with which it is the plain tanh.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from aneforge.arrays import np, numpy_function
from aneforge.errors import GraphError
from aneforge.ops import decompositions
from aneforge.ops.arithmetic import logistic, rectify, return_unchanged
from aneforge.ops.common import DECOMPOSED
from aneforge.ops.gradient import through
from aneforge.ops.op import Category, Op
from aneforge.ops.sampling import FLOATS, Chooser, Fill, Sample
from aneforge.ops.shapes import common_dtype, divisible, expect_float, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand, OperandKind
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = Category.RECURRENT
CONSTANT = OperandKind.CONSTANT
SEQUENCE = (Operand("x"), Operand("initial_h"))
WEIGHTS = (
    Operand("weight_ih", CONSTANT),
    Operand("weight_hh", CONSTANT),
    Operand("bias", CONSTANT, optional=True),
)
ONE_WAY = ("forward", "reverse")


def hard_sigmoid(x: Array) -> Array:
    """Return 0.2 x + 0.5, kept within 0 and 1."""
    return np.clip(0.2 * x + 0.5, 0, 1)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "hard_sigmoid": hard_sigmoid,
    "linear": return_unchanged,
    "relu": rectify,
    "scaled_tanh": numpy_function("tanh"),
    "sigmoid": logistic,
    "sigmoid_hard": hard_sigmoid,
    "tanh": numpy_function("tanh"),
}
PLAIN_ACTIVATIONS = ("relu", "tanh", "scaled_tanh", "sigmoid", "sigmoid_hard", "linear")
LSTM_ACTIVATIONS = ("relu", "tanh", "scaled_tanh", "sigmoid", "hard_sigmoid", "linear")

ACTIVATION = Attribute("activation", AttributeKind.TEXT, "tanh", choices=PLAIN_ACTIVATIONS)
RECURRENT_ACTIVATION = Attribute("recurrent_activation", AttributeKind.TEXT, "sigmoid", choices=PLAIN_ACTIVATIONS)
OUTPUT_SEQUENCE = Attribute("output_sequence", AttributeKind.FLAG, default=False)
DIRECTION = Attribute("direction", AttributeKind.TEXT, "forward", choices=ONE_WAY)


def hidden_size(x: TensorType, weight_ih: TensorType, weight_hh: TensorType, gates: int) -> int:
    """Return the hidden size, sequence and weights checked.

    Raises:
        GraphError: They do not fit one another.
    """
    expect_float(x)
    expect_rank(x, 3)
    expect_rank(weight_ih, 2, what="weight_ih")
    expect_rank(weight_hh, 2, what="weight_hh")
    common_dtype(x, weight_ih, weight_hh)
    if not x.size:
        raise GraphError("the sequence is empty", seen=list(x.shape))
    hidden = divisible("the number of rows of weight_ih", weight_ih.shape[0], gates)
    expect_part("weight_ih", weight_ih, x, (gates * hidden, x.shape[2]))
    expect_part("weight_hh", weight_hh, x, (gates * hidden, hidden))
    return hidden


def expect_part(what: str, part: TensorType | None, x: TensorType, shape: tuple[int, ...]) -> None:
    """Check a weight, a bias or a state, where it is given.

    Raises:
        GraphError: It has a different element type than x, or a different shape than the layer's.
    """
    common_dtype(x, part)
    if part is not None and part.shape != shape:
        raise GraphError(f"{what} has the wrong shape", seen=list(part.shape), limit=list(shape))


def result_types(x: TensorType, width: int, states: int, *, output_sequence: bool) -> tuple[TensorType, ...]:
    """Return the types of the output, of all steps or of only the last, and of the final states."""
    steps, batch, _ = x.shape
    return (x.with_shape(steps if output_sequence else 1, batch, width), *[x.with_shape(batch, width)] * states)


def biased(weight: Array, x: Array, bias: Array | None) -> Array:
    """Return the product of a weight with every line, the bias added."""
    product = x @ weight.T
    return product if bias is None else product + bias


def scanned(
    inputs: Array, states: tuple[Array, ...], step: Callable[..., tuple[Array, ...]], *, reverse: bool
) -> tuple[Array, ...]:
    """Take every step in turn; return the first state after each one, at its place, and the final states."""
    outputs = [states[0]] * len(inputs)
    order = range(len(inputs))
    for place in reversed(order) if reverse else order:
        states = step(inputs[place], *states)
        outputs[place] = states[0]
    return np.stack(outputs), *states


def shortened(outputs: Array, h: Array, *, output_sequence: bool) -> Array:
    """Return all outputs, or the last hidden state as one of length 1."""
    return outputs if output_sequence else h[np.newaxis]


class RnnAttributes(TypedDict):
    """The attributes of a plain recurrent layer."""

    direction: str
    output_sequence: bool
    activation: str


class GruAttributes(RnnAttributes):
    """The attributes of a gated recurrent layer."""

    recurrent_activation: str
    reset_after: bool


class LstmAttributes(RnnAttributes):
    """The attributes of a layer with long short-term memory."""

    recurrent_activation: str
    cell_activation: str
    clip: float | None


def rnn_types(
    x: TensorType,
    initial_h: TensorType,
    weight_ih: TensorType,
    weight_hh: TensorType,
    bias: TensorType | None,
    **attributes: Unpack[RnnAttributes],
) -> tuple[TensorType, ...]:
    """Return the types of output and hidden state."""
    hidden = hidden_size(x, weight_ih, weight_hh, 1)
    expect_part("initial_h", initial_h, x, (x.shape[1], hidden))
    expect_part("bias", bias, x, (hidden,))
    return result_types(x, hidden, 1, output_sequence=attributes["output_sequence"])


def rnn(
    x: Array,
    initial_h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None,
    **attributes: Unpack[RnnAttributes],
) -> tuple[Array, ...]:
    """Run a plain recurrent layer."""
    activate = ACTIVATIONS[attributes["activation"]]

    def step(projected: Array, h: Array) -> tuple[Array]:
        return (activate(projected + h @ weight_hh.T),)

    outputs, h = scanned(biased(weight_ih, x, bias), (initial_h,), step, reverse=attributes["direction"] == "reverse")
    return shortened(outputs, h, output_sequence=attributes["output_sequence"]), h


def gru_types(
    x: TensorType,
    initial_h: TensorType,
    weight_ih: TensorType,
    weight_hh: TensorType,
    *biases: TensorType | None,
    **attributes: Unpack[GruAttributes],
) -> tuple[TensorType, ...]:
    """Return the types of output and hidden state."""
    hidden = hidden_size(x, weight_ih, weight_hh, 3)
    expect_part("initial_h", initial_h, x, (x.shape[1], hidden))
    for what, bias in zip(("bias", "input_bias"), biases, strict=True):
        expect_part(what, bias, x, (3 * hidden,))
    return result_types(x, hidden, 1, output_sequence=attributes["output_sequence"])


def gru(
    x: Array,
    initial_h: Array,
    weight_ih: Array,
    weight_hh: Array,
    *biases: Array | None,
    **attributes: Unpack[GruAttributes],
) -> tuple[Array, ...]:
    """Run a gated recurrent layer; `bias` is the hidden state's own where the reset comes after its product."""
    hidden = weight_hh.shape[1]
    zero = np.zeros(3 * hidden)
    bias, input_bias = (zero if one is None else one for one in biases)
    gate, activate = ACTIVATIONS[attributes["recurrent_activation"]], ACTIVATIONS[attributes["activation"]]
    to_reset, to_output, to_update = np.split(weight_hh, 3)
    reset_bias, output_bias, update_bias = np.split(bias, 3)

    def step(projected: Array, h: Array) -> tuple[Array]:
        reset_in, output_in, update_in = np.split(projected, 3, axis=-1)
        reset = gate(reset_in + h @ to_reset.T + reset_bias)
        update = gate(update_in + h @ to_update.T + update_bias)
        if attributes["reset_after"]:
            recurrent = reset * (h @ to_output.T + output_bias)
        else:
            recurrent = (reset * h) @ to_output.T + output_bias
        return ((1 - update) * activate(output_in + recurrent) + update * h,)

    projected = biased(weight_ih, x, input_bias)
    outputs, h = scanned(projected, (initial_h,), step, reverse=attributes["direction"] == "reverse")
    return shortened(outputs, h, output_sequence=attributes["output_sequence"]), h


def lstm_types(
    x: TensorType,
    initial_h: TensorType,
    initial_c: TensorType,
    *weights: TensorType | None,
    **attributes: Unpack[LstmAttributes],
) -> tuple[TensorType, ...]:
    """Return the types of output, hidden state and cell state."""
    forward, back = weights[:4], weights[4:]
    hidden = one_way_hidden_size(x, forward, "")
    ways = 2 if attributes["direction"] == "bidirectional" else 1
    if ways == 2 and hidden != one_way_hidden_size(x, back, "_back"):
        raise GraphError("the two directions have different hidden sizes", limit=hidden)
    if ways == 1 and any(weight is not None for weight in back):
        raise GraphError(
            "there are weights for the backward direction, and direction is not 'bidirectional'",
            seen=repr(attributes["direction"]),
            remedy="set direction to 'bidirectional'",
        )
    for what, state in (("initial_h", initial_h), ("initial_c", initial_c)):
        expect_part(what, state, x, (x.shape[1], ways * hidden))
    return result_types(x, ways * hidden, 2, output_sequence=attributes["output_sequence"])


def one_way_hidden_size(x: TensorType, weights: tuple[TensorType | None, ...], suffix: str) -> int:
    """Return the hidden size of one direction, its weights checked.

    Raises:
        GraphError: Weights are missing, or do not fit the sequence.
    """
    weight_ih, weight_hh, bias, peephole = weights
    if weight_ih is None or weight_hh is None:
        raise GraphError(
            "the weights of the backward direction are missing", remedy="give weight_ih_back and weight_hh_back"
        )
    hidden = hidden_size(x, weight_ih, weight_hh, 4)
    expect_part(f"bias{suffix}", bias, x, (4 * hidden,))
    expect_part(f"peephole{suffix}", peephole, x, (3 * hidden,))
    return hidden


def lstm(
    x: Array, initial_h: Array, initial_c: Array, *weights: Array | None, **attributes: Unpack[LstmAttributes]
) -> tuple[Array, ...]:
    """Run a layer with long short-term memory, one way or both; both directions are side by side."""
    if attributes["direction"] != "bidirectional":
        outputs, h, c = one_way(x, (initial_h, initial_c), weights[:4], attributes)
        return shortened(outputs, h, output_sequence=attributes["output_sequence"]), h, c
    ways: list[tuple[Array, ...]] = []
    for number, direction in enumerate(ONE_WAY):
        states = (np.split(initial_h, 2, axis=1)[number], np.split(initial_c, 2, axis=1)[number])
        ways.append(one_way(x, states, weights[4 * number : 4 * number + 4], {**attributes, "direction": direction}))
    outputs, h, c = (np.concatenate(parts, axis=-1) for parts in zip(*ways, strict=True))
    return shortened(outputs, h, output_sequence=attributes["output_sequence"]), h, c


def one_way(
    x: Array, states: tuple[Array, Array], weights: tuple[Array | None, ...], attributes: LstmAttributes
) -> tuple[Array, ...]:
    """Run one direction; return all outputs, the hidden state and the cell state."""
    weight_ih, weight_hh, bias, peephole = weights
    if weight_ih is None or weight_hh is None:
        raise GraphError("the weights for a direction are missing")
    recurrent, hidden = weight_hh, weight_hh.shape[1]
    gate, activate = ACTIVATIONS[attributes["recurrent_activation"]], ACTIVATIONS[attributes["activation"]]
    candidate, clip = ACTIVATIONS[attributes["cell_activation"]], attributes["clip"]
    to_input, to_forget, to_output = np.split(np.zeros(3 * hidden) if peephole is None else peephole, 3)

    def step(projected: Array, h: Array, c: Array) -> tuple[Array, Array]:
        input_in, forget_in, output_in, cell_in = np.split(projected + h @ recurrent.T, 4, axis=-1)
        cell = gate(forget_in + to_forget * c) * c + gate(input_in + to_input * c) * candidate(cell_in)
        if clip is not None:
            cell = np.clip(cell, -clip, clip)
        return gate(output_in + to_output * cell) * activate(cell), cell

    return scanned(biased(weight_ih, x, bias), states, step, reverse=attributes["direction"] == "reverse")


def one_way_macs(
    x: TensorType, initial_h: TensorType, weight_ih: TensorType, weight_hh: TensorType, *_: object, **__: object
) -> int:
    """Count the products with both weights, for every step and line."""
    del initial_h
    return x.shape[0] * x.shape[1] * (weight_ih.size + weight_hh.size)


def lstm_macs(
    x: TensorType, initial_h: TensorType, initial_c: TensorType, *weights: TensorType | None, **_: object
) -> int:
    """Count the products with the weights of every direction, for every step and line."""
    del initial_h, initial_c
    matrices = (weights[place] for place in (0, 1, 4, 5))
    return x.shape[0] * x.shape[1] * sum(matrix.size for matrix in matrices if matrix is not None)


def draw_layer(chooser: Chooser, gates: int) -> tuple[dict[str, Fill | None], dict[str, AttributeValue]]:
    """Draw what all recurrent layers take, for one direction."""
    dtype = chooser.choose(FLOATS)
    steps, batch, width, hidden = (chooser.integer(1, 4) for _ in range(4))
    bias = Fill(TensorType((gates * hidden,), dtype), -1, 1)
    operands: dict[str, Fill | None] = {
        "x": Fill(TensorType((steps, batch, width), dtype)),
        "initial_h": Fill(TensorType((batch, hidden), dtype), -1, 1),
        "weight_ih": Fill(TensorType((gates * hidden, width), dtype), -1, 1),
        "weight_hh": Fill(TensorType((gates * hidden, hidden), dtype), -1, 1),
        "bias": chooser.choose([None, bias]),
    }
    attributes: dict[str, AttributeValue] = {
        "direction": chooser.choose(ONE_WAY),
        "output_sequence": chooser.choose([True, False]),
        "activation": chooser.choose(["tanh", "relu", "linear", "scaled_tanh"]),
    }
    return operands, attributes


def sample_rnn(chooser: Chooser) -> Sample:
    """Draw a plain recurrent layer."""
    return Sample(*draw_layer(chooser, 1))


def sample_gru(chooser: Chooser) -> Sample:
    """Draw a gated recurrent layer."""
    operands, attributes = draw_layer(chooser, 3)
    weight = operands["weight_ih"]
    rows = weight.type.with_shape(weight.type.shape[0]) if weight else TensorType(())
    operands["input_bias"] = chooser.choose([None, Fill(rows, -1, 1)])
    attributes["recurrent_activation"] = chooser.choose(["sigmoid", "sigmoid_hard"])
    attributes["reset_after"] = chooser.choose([True, False])
    return Sample(operands, attributes)


def sample_lstm(chooser: Chooser) -> Sample:
    """Draw a layer with long short-term memory, one way or both."""
    operands, attributes = draw_layer(chooser, 4)
    attributes["direction"] = chooser.choose([*ONE_WAY, "bidirectional"])
    attributes["recurrent_activation"] = chooser.choose(["sigmoid", "hard_sigmoid"])
    attributes["cell_activation"] = chooser.choose(["tanh", "sigmoid"])
    attributes["clip"] = chooser.choose([None, 0.5])
    state = operands["initial_h"]
    batch, hidden = state.type.shape if state else (0, 0)
    dtype = state.type.dtype if state else "fp16"
    peephole = Fill(TensorType((3 * hidden,), dtype), -1, 1)
    operands["peephole"] = chooser.choose([None, peephole])
    if attributes["direction"] == "bidirectional":
        for name in ("weight_ih", "weight_hh"):
            operands[f"{name}_back"] = operands[name]
        operands["bias_back"] = chooser.choose([None, Fill(TensorType((4 * hidden,), dtype), -1, 1)])
        operands["peephole_back"] = chooser.choose([None, peephole])
        hidden *= 2
    states = TensorType((batch, hidden), dtype)
    return Sample({**operands, "initial_h": Fill(states, -1, 1), "initial_c": Fill(states, -1, 1)}, attributes)


RNN = Op(
    name="rnn",
    category=CATEGORY,
    summary="hₜ = activation(W · xₜ + R · hₜ₋₁ + b)",
    operands=(*SEQUENCE, *WEIGHTS),
    attributes=(DIRECTION, OUTPUT_SEQUENCE, ACTIVATION),
    infer=rnn_types,
    meaning=rnn,
    macs=one_way_macs,
    sample=sample_rnn,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.recurrent.RNN, decompositions.recurrent.FORWARD),
    in_mil=True,
    gradient=lambda: through("steps", "through its steps"),
)
GRU = Op(
    name="gru",
    category=CATEGORY,
    summary="hₜ = (1 − z) · activation(W · xₜ + R · (r · hₜ₋₁) + b) + z · hₜ₋₁, r and z gates of xₜ and hₜ₋₁; "
    "rows r, o, z",
    operands=(*SEQUENCE, *WEIGHTS, Operand("input_bias", CONSTANT, optional=True)),
    attributes=(
        DIRECTION,
        OUTPUT_SEQUENCE,
        RECURRENT_ACTIVATION,
        ACTIVATION,
        Attribute("reset_after", AttributeKind.FLAG, default=False),
    ),
    infer=gru_types,
    meaning=gru,
    macs=one_way_macs,
    sample=sample_gru,
    opset="ios18",
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.recurrent.GRU, decompositions.recurrent.FORWARD),
    in_mil=True,
    gradient=lambda: through("steps", "through its steps"),
)
LSTM = Op(
    name="lstm",
    category=CATEGORY,
    summary="cₜ = f · cₜ₋₁ + i · g, hₜ = o · activation(cₜ), gates i, f, o and candidate g of xₜ and hₜ₋₁; "
    "rows i, f, o, g",
    operands=(
        *SEQUENCE,
        Operand("initial_c"),
        *WEIGHTS,
        Operand("peephole", CONSTANT, optional=True),
        Operand("weight_ih_back", CONSTANT, optional=True),
        Operand("weight_hh_back", CONSTANT, optional=True),
        Operand("bias_back", CONSTANT, optional=True),
        Operand("peephole_back", CONSTANT, optional=True),
    ),
    attributes=(
        Attribute("direction", AttributeKind.TEXT, "forward", choices=(*ONE_WAY, "bidirectional")),
        OUTPUT_SEQUENCE,
        replace(RECURRENT_ACTIVATION, choices=LSTM_ACTIVATIONS),
        Attribute("cell_activation", AttributeKind.TEXT, "tanh", choices=LSTM_ACTIVATIONS),
        replace(ACTIVATION, choices=LSTM_ACTIVATIONS),
        Attribute("clip", AttributeKind.NUMBER, None, least=0),
    ),
    infer=lstm_types,
    meaning=lstm,
    macs=lstm_macs,
    sample=sample_lstm,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.recurrent.LSTM, decompositions.recurrent.FORWARD),
    in_mil=True,
    gradient=lambda: through("steps", "through its steps"),
)
