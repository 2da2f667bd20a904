"""Independent implementations of the compiler's own layers: torch."""

from collections.abc import Callable

import torch

from oracle_tools import Array, Oracle, array, tensor, torch_unary

MODES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "mult": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}


def elementwise(x: Array, y: Array, *, mode: str) -> Array:
    return array(MODES[mode](tensor(x), tensor(y)))


def scaled(x: Array, y: Array, *, mode: str, scale: float) -> Array:
    result = MODES[mode](tensor(x), tensor(y))
    return array(result if mode == "mult" else torch.mul(result, scale))


def gain_offset(x: Array, gain: Array | None, offset: Array | None) -> Array:
    """Batch normalisation with mean 0 and variance 1 is a gain and an offset per channel."""
    channels = x.shape[1]
    return array(
        torch.nn.functional.batch_norm(
            tensor(x),
            torch.zeros(channels, dtype=torch.float64),
            torch.ones(channels, dtype=torch.float64),
            weight=None if gain is None else tensor(gain),
            bias=None if offset is None else tensor(offset),
            eps=0.0,
        )
    )


def broadcast(x: Array, *, shape: tuple[int, ...]) -> Array:
    return array(tensor(x).expand(shape))


ORACLES: dict[str, Oracle] = {
    "pe_elementwise": elementwise,
    "pe_goc": gain_offset,
    "ne_bypass": torch_unary(torch.clone),
    "dynamic_goc": gain_offset,
    "broadcast": broadcast,
    "scaled_elementwise": scaled,
}
