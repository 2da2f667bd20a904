"""Independent implementations of recurrent layers: scalar loops over step, line and unit.

`test_recurrent.py` compares the default activations with torch's own layers as well.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from oracle_tools import Array, Oracle

ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "hard_sigmoid": lambda x: min(max(0.2 * x + 0.5, 0.0), 1.0),
    "linear": lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "scaled_tanh": lambda x: 2 / (1 + math.exp(-2 * x)) - 1,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sigmoid_hard": lambda x: min(max(0.2 * x + 0.5, 0.0), 1.0),
    "tanh": math.tanh,
}


def dot(first: Sequence[float], second: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def rows(matrix: Array) -> list[list[float]]:
    return [[float(value) for value in row] for row in matrix]


def steps(count: int, direction: str) -> list[int]:
    return list(range(count))[:: -1 if direction == "reverse" else 1]


def listed(part: Array | None, length: int) -> list[float]:
    return [0.0] * length if part is None else [float(value) for value in part]


def gathered(outputs: dict[int, list[list[float]]], h: list[list[float]], *, output_sequence: bool) -> Array:
    return np.array([outputs[step] for step in range(len(outputs))] if output_sequence else [h])


def rnn(
    x: Array, initial_h: Array, weight_ih: Array, weight_hh: Array, bias: Array | None, **attributes: object
) -> tuple[Array, Array]:
    activate = ACTIVATIONS[str(attributes["activation"])]
    hidden = len(weight_hh[0])
    wide, recurrent, shift = rows(weight_ih), rows(weight_hh), listed(bias, hidden)
    h = rows(initial_h)
    outputs: dict[int, list[list[float]]] = {}
    for step in steps(len(x), str(attributes["direction"])):
        h = [
            [activate(dot(wide[unit], line) + dot(recurrent[unit], old) + shift[unit]) for unit in range(hidden)]
            for line, old in zip(rows(x[step]), h, strict=True)
        ]
        outputs[step] = h
    return gathered(outputs, h, output_sequence=bool(attributes["output_sequence"])), np.array(h)


def gru(
    x: Array, initial_h: Array, weight_ih: Array, weight_hh: Array, *biases: Array | None, **attributes: object
) -> tuple[Array, Array]:
    gate, activate = (ACTIVATIONS[str(attributes[name])] for name in ("recurrent_activation", "activation"))
    hidden = len(weight_hh[0])
    wide, recurrent = rows(weight_ih), rows(weight_hh)
    own, given = (listed(bias, 3 * hidden) for bias in biases)
    h = rows(initial_h)
    outputs: dict[int, list[list[float]]] = {}

    def of(row: int, line: list[float], old: list[float]) -> float:
        return dot(wide[row], line) + given[row] + dot(recurrent[row], old) + own[row]

    def unit_of(unit: int, line: list[float], old: list[float]) -> float:
        reset = [gate(of(one, line, old)) for one in range(hidden)]
        update = gate(of(2 * hidden + unit, line, old))
        row = hidden + unit
        if attributes["reset_after"]:
            back = reset[unit] * (dot(recurrent[row], old) + own[row])
        else:
            back = dot(recurrent[row], [r * o for r, o in zip(reset, old, strict=True)]) + own[row]
        return (1 - update) * activate(dot(wide[row], line) + given[row] + back) + update * old[unit]

    for step in steps(len(x), str(attributes["direction"])):
        h = [[unit_of(unit, line, old) for unit in range(hidden)] for line, old in zip(rows(x[step]), h, strict=True)]
        outputs[step] = h
    return gathered(outputs, h, output_sequence=bool(attributes["output_sequence"])), np.array(h)


def lstm_way(
    x: Array,
    states: tuple[Array, Array],
    weights: Sequence[Array | None],
    direction: str,
    attributes: dict[str, object],
) -> tuple[dict[int, list[list[float]]], list[list[float]], list[list[float]]]:
    gate, candidate, activate = (
        ACTIVATIONS[str(attributes[name])] for name in ("recurrent_activation", "cell_activation", "activation")
    )
    assert weights[0] is not None
    assert weights[1] is not None
    wide, recurrent, hidden = rows(weights[0]), rows(weights[1]), len(weights[1][0])
    shift, peep = listed(weights[2], 4 * hidden), listed(weights[3], 3 * hidden)
    limit = math.inf if attributes["clip"] is None else float(str(attributes["clip"]))
    h, c = rows(states[0]), rows(states[1])
    outputs: dict[int, list[list[float]]] = {}
    for step in steps(len(x), direction):
        new_h: list[list[float]] = []
        for batch, line in enumerate(rows(x[step])):
            old, cells, lines = h[batch], c[batch], [dot(wide[row], line) + shift[row] for row in range(4 * hidden)]
            lines = [one + dot(recurrent[row], old) for row, one in enumerate(lines)]
            new: list[float] = []
            for unit in range(hidden):
                i = gate(lines[unit] + peep[unit] * cells[unit])
                f = gate(lines[hidden + unit] + peep[hidden + unit] * cells[unit])
                cells[unit] = min(max(f * cells[unit] + i * candidate(lines[3 * hidden + unit]), -limit), limit)
                o = gate(lines[2 * hidden + unit] + peep[2 * hidden + unit] * cells[unit])
                new.append(o * activate(cells[unit]))
            new_h.append(new)
        h = new_h
        outputs[step] = h
    return outputs, h, c


def lstm(
    x: Array, initial_h: Array, initial_c: Array, *weights: Array | None, **attributes: object
) -> tuple[Array, Array, Array]:
    direction, sequence = str(attributes["direction"]), bool(attributes["output_sequence"])
    if direction != "bidirectional":
        outputs, h, c = lstm_way(x, (initial_h, initial_c), weights[:4], direction, attributes)
        return gathered(outputs, h, output_sequence=sequence), np.array(h), np.array(c)
    half = initial_h.shape[1] // 2
    first = lstm_way(x, (initial_h[:, :half], initial_c[:, :half]), weights[:4], "forward", attributes)
    back = lstm_way(x, (initial_h[:, half:], initial_c[:, half:]), weights[4:], "reverse", attributes)
    sides = [
        (gathered(outputs, h, output_sequence=sequence), np.array(h), np.array(c)) for outputs, h, c in (first, back)
    ]
    output, h, c = (np.concatenate([sides[0][part], sides[1][part]], axis=-1) for part in range(3))
    return output, h, c


ORACLES: dict[str, Oracle] = {"rnn": rnn, "gru": gru, "lstm": lstm}
