"""Recurrent layers: unrolled over their steps, or in the other direction.

Unrolled, every step is a product of the hidden state and a handful of operations on its gates; the products with the
sequence are one for all steps. Tensors keep the three axes of the sequence, one step long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array

__all__ = ["FORWARD", "GRU", "LSTM", "RNN"]

REVERSE, BOTH = "reverse", "bidirectional"
Activation = Callable[["Term"], "Term"]


def hard_sigmoid(x: Term) -> Term:
    """Return 0.2 x + 0.5, kept within 0 and 1."""
    return x.sigmoid_hard(alpha=0.2, beta=0.5)


ACTIVATIONS: Mapping[str, Activation] = {
    "hard_sigmoid": hard_sigmoid,
    "linear": lambda x: x,
    "relu": lambda x: x.relu(),
    "scaled_tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "sigmoid_hard": hard_sigmoid,
    "tanh": lambda x: x.tanh(),
}
"""By MIL's names; `scaled_tanh` has no constants in a recurrent layer, and is the plain one."""


def parts(to: Site, x: Term, count: int, axis: int) -> Sequence[Term]:
    """Return equal parts along an axis."""
    return (x,) if count == 1 else to.several("split", x, num_splits=count, axis=axis)


def joined(to: Site, values: Sequence[Term], axis: int) -> Term:
    """Return tensors side by side along an axis."""
    return values[0] if len(values) == 1 else to.op("concat", tuple(values), axis=axis)


def one_step(to: Site, state: Term) -> Term:
    """Return a state [batch, hidden] as a sequence of one step."""
    if state.known is not None:
        return to.constant(state.known[np.newaxis], state.dtype)
    if state.is_declared:
        return to.derived(state, "one step", (1, *state.shape), state.dtype)
    return state.expand_dims(axes=(0,))


def without_step(state: Term) -> Term:
    """Return a sequence of one step as a state."""
    return state.reshape(shape=state.shape[1:])


def numbers(constant: Term) -> Array:
    """Return the numbers of a constant."""
    assert constant.known is not None  # noqa: S101 - the op table takes only constants
    return constant.known


def scanned(
    to: Site, projected: Term, states: tuple[Term, ...], step: Callable[..., tuple[Term, ...]], *, reverse: bool
) -> tuple[list[Term], tuple[Term, ...]]:
    """Take every step in turn; return the first state after each one, at its place, and the final states."""
    steps = parts(to, projected, projected.shape[0], 0)
    outputs = list(steps)
    order = range(len(steps))
    for place in reversed(order) if reverse else order:
        states = step(steps[place], *states)
        outputs[place] = states[0]
    return outputs, states


def results(to: Site, outputs: Sequence[Term], states: Sequence[Term], *, output_sequence: bool) -> list[Term]:
    """Return all outputs or the last hidden state, and the final states."""
    sequence = joined(to, outputs, 0) if output_sequence else states[0]
    return [sequence, *map(without_step, states)]


def rnn(  # noqa: PLR0913 - the operands and attributes of the operation
    to: Site,
    x: Term,
    initial_h: Term,
    weight_ih: Term,
    weight_hh: Term,
    bias: Term | None,
    *,
    direction: str,
    output_sequence: bool,
    activation: str,
) -> list[Term]:
    """Return a plain recurrent layer, step by step."""
    activate = ACTIVATIONS[activation]

    def step(projected: Term, h: Term) -> tuple[Term]:
        return (activate(projected + h.linear(weight_hh)),)

    projected = x.linear(weight_ih, bias)
    outputs, states = scanned(to, projected, (one_step(to, initial_h),), step, reverse=direction == REVERSE)
    return results(to, outputs, states, output_sequence=output_sequence)


def gru(  # noqa: PLR0913 - the operands and attributes of the operation
    to: Site,
    x: Term,
    initial_h: Term,
    weight_ih: Term,
    weight_hh: Term,
    bias: Term | None,
    input_bias: Term | None,
    *,
    direction: str,
    output_sequence: bool,
    recurrent_activation: str,
    activation: str,
    reset_after: bool,
) -> list[Term]:
    """Return a gated recurrent layer, step by step; rows of the weights are reset, output and update."""
    gate, activate = ACTIVATIONS[recurrent_activation], ACTIVATIONS[activation]
    dtype = weight_hh.dtype
    reset_rows, output_rows, update_rows = np.split(numbers(weight_hh), 3)
    gates = to.constant(np.concatenate([reset_rows, update_rows]), dtype)
    candidate = to.constant(output_rows, dtype)
    gates_bias = candidate_bias = None
    if bias is not None:
        reset_part, output_part, update_part = np.split(numbers(bias), 3)
        gates_bias = to.constant(np.concatenate([reset_part, update_part]), dtype)
        candidate_bias = to.constant(output_part, dtype)

    def step(projected: Term, h: Term) -> tuple[Term]:
        reset_in, output_in, update_in = parts(to, projected, 3, -1)
        reset_of, update_of = parts(to, h.linear(gates, gates_bias), 2, -1)
        reset, update = gate(reset_in + reset_of), gate(update_in + update_of)
        if reset_after:
            recurrent = reset * h.linear(candidate, candidate_bias)
        else:
            recurrent = (reset * h).linear(candidate, candidate_bias)
        return ((-update + 1.0) * activate(output_in + recurrent) + update * h,)

    projected = x.linear(weight_ih, input_bias)
    outputs, states = scanned(to, projected, (one_step(to, initial_h),), step, reverse=direction == REVERSE)
    return results(to, outputs, states, output_sequence=output_sequence)


class LstmCell(TypedDict):
    """What happens in a cell of long short-term memory, whichever way time runs."""

    recurrent_activation: str
    cell_activation: str
    activation: str
    clip: float | None


def lstm(
    to: Site,
    x: Term,
    initial_h: Term,
    initial_c: Term,
    *weights: Term | None,
    direction: str,
    output_sequence: bool,
    **cell: Unpack[LstmCell],
) -> list[Term]:
    """Return a layer with long short-term memory, step by step; both directions are side by side."""
    states = (one_step(to, initial_h), one_step(to, initial_c))
    if direction != BOTH:
        outputs, final = lstm_one_way(to, x, states, weights[:4], reverse=direction == REVERSE, **cell)
        return results(to, outputs, final, output_sequence=output_sequence)
    (h, h_back), (c, c_back) = (parts(to, state, 2, -1) for state in states)
    there, after = lstm_one_way(to, x, (h, c), weights[:4], reverse=False, **cell)
    back, before = lstm_one_way(to, x, (h_back, c_back), weights[4:], reverse=True, **cell)
    final = [joined(to, pair, -1) for pair in zip(after, before, strict=True)]
    if not output_sequence:
        return results(to, (), final, output_sequence=False)
    outputs = joined(to, (joined(to, there, 0), joined(to, back, 0)), -1)
    return results(to, (outputs,), final, output_sequence=True)


def lstm_one_way(
    to: Site,
    x: Term,
    states: tuple[Term, Term],
    weights: Sequence[Term | None],
    *,
    reverse: bool,
    **cell: Unpack[LstmCell],
) -> tuple[list[Term], tuple[Term, ...]]:
    """Return the outputs of every step in one direction, and the final states."""
    weight_ih, weight_hh, bias, peephole = weights
    gate, activate = ACTIVATIONS[cell["recurrent_activation"]], ACTIVATIONS[cell["activation"]]
    candidate, clip = ACTIVATIONS[cell["cell_activation"]], cell["clip"]
    assert weight_ih is not None  # noqa: S101 - the op table takes both weights of a direction or none
    assert weight_hh is not None  # noqa: S101
    looks = () if peephole is None else np.split(numbers(peephole), 3)
    to_input, to_forget, to_output = [to.constant(one, x.dtype) for one in looks] or (None,) * 3

    def seeing(c: Term, gate_in: Term, weight: Term | None) -> Term:
        return gate(gate_in if weight is None else gate_in + c * weight)

    def step(projected: Term, h: Term, c: Term) -> tuple[Term, Term]:
        input_in, forget_in, output_in, cell_in = parts(to, projected + h.linear(weight_hh), 4, -1)
        c = seeing(c, forget_in, to_forget) * c + seeing(c, input_in, to_input) * candidate(cell_in)
        if clip is not None:
            c = c.clip(alpha=-clip, beta=clip)
        return seeing(c, output_in, to_output) * activate(c), c

    return scanned(to, x.linear(weight_ih, bias), states, step, reverse=reverse)


def forward(to: Site, x: Term, *operands: Term | None, direction: str, **attributes: object) -> list[Term]:  # noqa: ARG001 - it is always the reverse one
    """Return the layer forwards on steps in reverse, its outputs turned back to their places."""
    outputs, *states = to.same_several(x.reverse(axes=(0,)), **to.named(operands), direction="forward", **attributes)
    return [outputs.reverse(axes=(0,)), *states]


def unrolled(build: Callable[..., list[Term]]) -> Decomposition:
    """Return the decomposition of a layer into its steps."""
    return Decomposition("steps", "a linear layer and gates for every step", build, SAME_MATHEMATICS)


RNN = unrolled(rnn)
GRU = unrolled(gru)
LSTM = unrolled(lstm)
FORWARD = Decomposition(
    "forward", "the same forwards, between reversals", forward, SAME_MATHEMATICS, same_bits=True, same_operation=True
)
