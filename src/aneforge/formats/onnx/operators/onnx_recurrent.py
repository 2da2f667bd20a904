"""Recurrent layers, one direction at a time: the op table's own where it has the form, else unrolled.

Unrolled, the products with the inputs are made for all steps at once, the rest step by step. A sequence that is shorter
than the others keeps its state from its end on, and gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.formats.shared.emitter import Emitter

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
ALPHAS = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "HardSigmoid": 0.2, "Elu": 1.0, "Affine": 1.0, "ScaledTanh": 1.0}
"""Defaults of the activations' first number; ONNX names those of the operators of the same names."""
BETAS = {"HardSigmoid": 0.5, "Affine": 0.0, "ScaledTanh": 1.0}
PLAIN = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softsign": "softsign", "Softplus": "softplus"}

OWN_GATES = {"RNN": (0,), "GRU": (1, 2, 0), "LSTM": (0, 2, 1, 3)}
"""The op table's order of gates, in places of ONNX's."""
OWN_ACTIVATIONS = {
    "RNN": ("activation",),
    "GRU": ("recurrent_activation", "activation"),
    "LSTM": ("recurrent_activation", "cell_activation", "activation"),
}
"""What the op table calls the activations, in ONNX's order."""
OWN_FUNCTIONS = frozenset({"relu", "tanh", "sigmoid"})

Activation = Callable[["Value"], "Value"]
Form = tuple[str, Mapping[str, float]]
"""An operation, and its attributes."""


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a layer."""

    call: Call
    weight: Value
    """For the inputs, [gates · hidden, features]."""
    recurrent: Value
    """For the state, [gates · hidden, hidden]."""
    bias: tuple[Value, Value] | None
    """For both, [gates · hidden] each."""
    peephole: Value | None
    forms: tuple[Form, ...]
    reverse: bool
    parts: dict[tuple[int, int, int], Value] = field(default_factory=dict["tuple[int, int, int]", "Value"])
    """Rows of weights by what they are of, the first gate and the number of gates: all steps read the same ones."""

    @property
    def emit(self) -> Emitter:
        """What makes operations."""
        return self.call.emit

    @property
    def hidden(self) -> int:
        """Length of the state."""
        return self.recurrent.type.shape[1]

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The activations, in ONNX's order."""
        return tuple(partial(self.emit.unary, op, **attributes) for op, attributes in self.forms)

    def gate(self, value: Value, place: int) -> Value:
        """Return the part of a row that is one gate's."""
        return self.emit.part(value, -1, place * self.hidden, (place + 1) * self.hidden)

    def rows(self, value: Value, place: int, count: int = 1) -> Value:
        """Return the rows of weights that are some gates'."""
        key = id(value), place, count
        if key not in self.parts:
            self.parts[key] = self.emit.part(value, 0, place * self.hidden, (place + count) * self.hidden)
        return self.parts[key]

    def clipped(self, value: Value) -> Value:
        """Return a value within the bounds that the node sets, if it sets any."""
        if not self.call.has("clip"):
            return value
        edge = self.call.number("clip")
        return self.emit.unary("clip", value, alpha=-edge, beta=edge)

    def times(self, state: Value, weight: Value) -> Value:
        """Return the product of a state with weights."""
        return self.emit.matmul(state, weight, transpose_y=True)


Step = Callable[[Direction, "Value", tuple["Value", ...]], tuple["Value", ...]]


def rnn_step(one: Direction, projected: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the state after a step: activation(W · x + R · h + b)."""
    emit = one.emit
    total = emit.add(projected, one.times(states[0], one.recurrent))
    if one.bias is not None:
        total = emit.add(total, one.bias[1])
    return (one.activations[0](one.clipped(total)),)


def gru_step(one: Direction, projected: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the state after a step: gates z and r, then the candidate, in ONNX's order of rows z, r, h."""
    emit, (h,) = one.emit, states
    gate, activate = one.activations[:2]
    both = emit.add(emit.part(projected, -1, 0, 2 * one.hidden), one.times(h, one.rows(one.recurrent, 0, 2)))
    if one.bias is not None:
        both = emit.add(both, one.rows(one.bias[1], 0, 2))
    gates = gate(one.clipped(both))
    update, reset = one.gate(gates, 0), one.gate(gates, 1)
    weight = one.rows(one.recurrent, 2)
    bias = None if one.bias is None else one.rows(one.bias[1], 2)
    if one.call.flag("linear_before_reset"):
        inner = one.times(h, weight)
        own = emit.mul(reset, inner if bias is None else emit.add(inner, bias))
    else:
        inner = one.times(emit.mul(reset, h), weight)
        own = inner if bias is None else emit.add(inner, bias)
    candidate = activate(one.clipped(emit.add(one.gate(projected, 2), own)))
    kept = emit.mul(update, h)
    return (emit.add(emit.mul(emit.binary("sub", emit.number(1, update), update), candidate), kept),)


def lstm_step(one: Direction, projected: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return state and cell after a step: gates in ONNX's order of rows i, o, f, c."""
    emit, (h, c) = one.emit, states
    gate, candidate, activate = one.activations[:3]
    total = emit.add(projected, one.times(h, one.recurrent))
    if one.bias is not None:
        total = emit.add(total, one.bias[1])
    parts = [one.gate(total, place) for place in range(4)]
    if one.peephole is not None:
        parts[0] = emit.add(parts[0], emit.mul(one.rows(one.peephole, 0), c))
        parts[2] = emit.add(parts[2], emit.mul(one.rows(one.peephole, 2), c))
    enters = gate(one.clipped(parts[0]))
    coupled = one.call.flag("input_forget")
    stays = emit.binary("sub", emit.number(1, enters), enters) if coupled else gate(one.clipped(parts[2]))
    cell = emit.add(emit.mul(stays, c), emit.mul(enters, candidate(one.clipped(parts[3]))))
    leaves = parts[1]
    if one.peephole is not None:
        leaves = emit.add(leaves, emit.mul(one.rows(one.peephole, 1), cell))
    return emit.mul(gate(one.clipped(leaves)), activate(cell)), cell


STEPS: dict[str, Step] = {"RNN": rnn_step, "GRU": gru_step, "LSTM": lstm_step}


@operator("RNN", "GRU", "LSTM", since=7)
def recurrent(call: Call) -> tuple[Value, ...]:
    """Convert a recurrent layer."""
    emit = call.emit
    if call.value(0).type.rank != 3 or call.value(1).type.rank != 3 or call.value(2).type.rank != 3:
        raise GraphError(
            "sequence and weights must have three axes", seen=f"{call.value(0).type}, {call.value(1).type}"
        )
    batch_first = "layout" in call.rules.attributes and call.flag("layout")
    x = emit.transpose(call.value(0), (1, 0, 2)) if batch_first else call.value(0)
    count = check_shapes(call, x)
    cells = 2 if call.operator == "LSTM" else 1
    rows: list[Value] = []
    finals: list[list[Value]] = [[] for _ in range(cells)]
    for number in range(count):
        one = direction(call, number, count)
        starts = tuple(start(call, place, number, x, one, batch_first=batch_first) for place in (5, 6)[:cells])
        outputs, states = own_layer(call, one, x, starts) or run(call, one, x, starts)
        rows.append(outputs)
        for values, state in zip(finals, states, strict=True):
            values.append(state)
    sequence = emit.apply("stack", {"values": tuple(rows)}, axis=1)  # [steps, directions, batch, hidden]
    last = [emit.apply("stack", {"values": tuple(values)}, axis=0) for values in finals]
    if batch_first:
        return (emit.transpose(sequence, (2, 0, 1, 3)), *(emit.transpose(value, (1, 0, 2)) for value in last))
    return (sequence, *last)


def check_shapes(call: Call, x: Value) -> int:
    """Return the number of directions, the shapes of sequence and weights checked.

    Raises:
        GraphError: They do not fit one another.
    """
    weight, recurrent_weight, gates = call.value(1), call.value(2), GATES[call.operator]
    count = 2 if call.choice("direction", "forward", "reverse", "bidirectional") == "bidirectional" else 1
    hidden = recurrent_weight.type.shape[-1]
    fits = (
        x.type.rank == 3
        and weight.type.shape == (count, gates * hidden, x.type.shape[2])
        and recurrent_weight.type.shape == (count, gates * hidden, hidden)
    )
    if not fits or not x.type.size:
        raise GraphError(
            "sequence and weights do not fit one another",
            seen=f"{x.type}, {weight.type}, {recurrent_weight.type}",
            limit=f"[steps, batch, features], [{count}, {gates} · hidden, features or hidden]",
        )
    if call.has("hidden_size") and call.integer("hidden_size") != hidden:
        raise GraphError("hidden_size is not that of the weights", seen=call.integer("hidden_size"), limit=hidden)
    return count


def direction(call: Call, number: int, count: int) -> Direction:
    """Return one direction of a layer."""
    emit, gates = call.emit, GATES[call.operator]
    weight, recurrent_weight = (one_of(emit, call.value(place), number) for place in (1, 2))
    bias = call.optional(3)
    both = None
    if bias is not None:
        row = one_of(emit, bias, number)
        size = gates * recurrent_weight.type.shape[1]
        if row.type.shape != (2 * size,):
            raise GraphError("the bias does not fit the weights", seen=list(bias.type.shape), limit=[count, 2 * size])
        both = emit.part(row, 0, 0, size), emit.part(row, 0, size, 2 * size)
    peephole = call.optional(7) if call.operator == "LSTM" else None
    backward = number == 1 or call.text("direction") == "reverse"
    return Direction(
        call,
        weight,
        recurrent_weight,
        both,
        None if peephole is None else one_of(emit, peephole, number),
        activation_forms(call, number),
        backward,
    )


def one_of(emit: Emitter, value: Value, number: int) -> Value:
    """Return one entry of the first axis."""
    return emit.reshape(emit.part(value, 0, number, number + 1), value.type.shape[1:])


def start(call: Call, place: int, number: int, x: Value, one: Direction, *, batch_first: bool) -> Value:
    """Return the state before the first step: given, or 0."""
    emit = call.emit
    given = call.optional(place)
    if given is None:
        return emit.filled((x.type.shape[1], one.hidden), 0, x.type.dtype)
    turned = emit.transpose(given, (1, 0, 2)) if batch_first else given
    return one_of(emit, turned, number)


def own_layer(
    call: Call, one: Direction, x: Value, states: tuple[Value, ...]
) -> tuple[Value, tuple[Value, ...]] | None:
    """Return what the op table's own layer gives in every step, and its final states; None where it has none."""
    numbers = [part for part in (one.weight, one.recurrent, *(one.bias or ()), one.peephole) if part is not None]
    plain = all(not attributes and op in OWN_FUNCTIONS for op, attributes in one.forms)
    coupled = call.operator == "LSTM" and call.flag("input_forget")
    if not plain or coupled or call.has("clip") or call.optional(4) is not None:
        return None
    if not all(isinstance(part, Constant) and part.type.dtype == x.type.dtype for part in numbers):
        return None
    emit, gates = call.emit, OWN_GATES[call.operator]
    emit.budget.take_nodes(x.type.shape[0])
    operands: dict[str, Value | None] = {
        "x": x,
        **dict(zip(("initial_h", "initial_c"), states, strict=False)),
        "weight_ih": reorder(emit, one.weight, gates),
        "weight_hh": reorder(emit, one.recurrent, gates),
    }
    if one.bias is not None and call.operator == "GRU":
        operands["input_bias"], operands["bias"] = (reorder(emit, part, gates) for part in one.bias)
    elif one.bias is not None:
        operands["bias"] = reorder(emit, emit.add(*one.bias), gates)
    if one.peephole is not None:
        operands["peephole"] = reorder(emit, one.peephole, gates[:3])
    attributes: dict[str, object] = dict(zip(OWN_ACTIVATIONS[call.operator], (op for op, _ in one.forms), strict=True))
    if call.operator == "GRU":
        attributes["reset_after"] = call.flag("linear_before_reset")
    direction = "reverse" if one.reverse else "forward"
    outputs, *last = emit.apply_all(
        call.operator.lower(), operands, direction=direction, output_sequence=True, **attributes
    )
    return outputs, tuple(last)


def reorder(emit: Emitter, value: Value, order: Sequence[int]) -> Value:
    """Return constant rows of gates in another order of the gates."""
    assert isinstance(value, Constant)  # noqa: S101 - the caller has looked
    rows = value.dense()
    blocks = rows.reshape(len(order), -1, *rows.shape[1:])[list(order)]
    return emit.constant(blocks.reshape(rows.shape), value.type.dtype)


def run(call: Call, one: Direction, x: Value, states: tuple[Value, ...]) -> tuple[Value, tuple[Value, ...]]:
    """Return what a direction gives in every step, [steps, batch, hidden], and its final states."""
    emit = call.emit
    steps, batch, _ = x.type.shape
    emit.budget.take_nodes(steps)
    projected = emit.matmul(x, one.weight, transpose_y=True)
    if one.bias is not None:
        projected = emit.add(projected, one.bias[0])
    lengths = call.optional(4)
    rows = list(emit.apply_all("split", {"x": projected}, num_splits=steps, axis=0)) if steps > 1 else [projected]
    outputs: list[Value] = [x] * steps
    for place in reversed(range(steps)) if one.reverse else range(steps):
        row = emit.reshape(rows[place], projected.type.shape[1:])
        news = STEPS[call.operator](one, row, states)
        outputs[place] = news[0]
        if lengths is not None:
            inside = emit.binary("greater", emit.expand(emit.cast(lengths, "int32"), -1), place)
            outputs[place] = emit.select(inside, news[0], emit.filled((batch, one.hidden), 0, x.type.dtype))
            news = tuple(emit.select(inside, new, old) for new, old in zip(news, states, strict=True))
        states = news
    return emit.apply("stack", {"values": tuple(outputs)}, axis=0), states


def activation_forms(call: Call, number: int) -> tuple[Form, ...]:
    """Return the activations of one direction as operations.

    Raises:
        GraphError: There are too few, or one is not known.
    """
    defaults = DEFAULTS[call.operator]
    given = (
        [name.decode(errors="replace") for name in call.attribute("activations").strings]
        if call.has("activations")
        else list(defaults) * 2
    )
    count = len(defaults)
    names = given[number * count : (number + 1) * count] or given[:count]
    if len(names) != count:
        raise GraphError("there is not an activation for each gate", seen=", ".join(given), limit=count)
    alphas, betas = (
        list(call.attribute(name).floats) if call.has(name) else [] for name in ("activation_alpha", "activation_beta")
    )
    # Both lists hold numbers only for those activations that take one, in order.
    before = given[: number * count] if len(given) > count else []
    alpha_at = sum(name in ALPHAS for name in before)
    beta_at = sum(name in BETAS for name in before)
    found: list[Form] = []
    for name in names:
        alpha = alphas[alpha_at] if name in ALPHAS and alpha_at < len(alphas) else ALPHAS.get(name, 0.0)
        beta = betas[beta_at] if name in BETAS and beta_at < len(betas) else BETAS.get(name, 0.0)
        alpha_at, beta_at = alpha_at + (name in ALPHAS), beta_at + (name in BETAS)
        found.append(activation_form(name, alpha, beta))
    return tuple(found)


def activation_form(name: str, alpha: float, beta: float) -> Form:
    """Return an activation as an operation.

    Raises:
        GraphError: It is not known.
    """
    numbers: dict[str, Form] = {
        **{known: (op, {}) for known, op in PLAIN.items()},
        "LeakyRelu": ("leaky_relu", {"alpha": alpha}),
        "ThresholdedRelu": ("thresholded_relu", {"alpha": alpha}),
        "Elu": ("elu", {"alpha": alpha}),
        "HardSigmoid": ("sigmoid_hard", {"alpha": alpha, "beta": beta}),
        "Affine": ("linear_activation", {"alpha": alpha, "beta": beta}),
        "ScaledTanh": ("scaled_tanh", {"alpha": alpha, "beta": beta}),
    }
    if name not in numbers:
        raise GraphError("an activation is not known", seen=name[:60], limit=", ".join(numbers))
    return numbers[name]
