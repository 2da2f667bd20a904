"""Independent implementations of state: torch for contents, loops for circular buffers."""

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor, torch_unary


def write_state(state: Array, data: Array) -> Array:
    return array(tensor(state).copy_(tensor(data)))


def circular_read(buffer: Array, *, offset: int, axis: int) -> Array:
    length = buffer.shape[axis]
    return np.stack([buffer.take((offset + i) % length, axis) for i in range(length)], axis)


def circular_write(buffer: Array, x: Array, *, offset: int, axis: int) -> Array:
    length = buffer.shape[axis]
    lines = {(offset + i) % length: x.take(i, axis) for i in range(x.shape[axis])}
    return np.stack([lines.get(i, buffer.take(i, axis)) for i in range(length)], axis)


ORACLES: dict[str, Oracle] = {
    "read_state": torch_unary(torch.clone),
    "write_state": write_state,
    "tensor_buffer_to_tensor": torch_unary(torch.clone),
    "tensor_to_tensor_buffer": torch_unary(torch.clone),
    "circular_buffer_to_tensor": circular_read,
    "tensor_to_circular_buffer": circular_write,
}
