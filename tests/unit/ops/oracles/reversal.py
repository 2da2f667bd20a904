"""Independent implementations of reversal: torch, and plain loops."""

import torch

from oracle_tools import Array, Oracle, array, tensor


def reverse(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    return array(torch.flip(tensor(x), list(range(x.ndim)) if axes is None else axes))


def reverse_sequence(x: Array, lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    sequences = tensor(x).movedim((batch_axis, seq_axis), (0, 1))
    parts = [
        torch.cat([sequence[:length].flip(0), sequence[length:]])
        for sequence, length in zip(sequences, lengths.tolist(), strict=True)
    ]
    return array(torch.stack(parts).movedim((0, 1), (batch_axis, seq_axis)))


ORACLES: dict[str, Oracle] = {
    "reverse": reverse,
    "reverse_sequence": reverse_sequence,
}
