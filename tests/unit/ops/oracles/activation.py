"""Independent implementations of activations: torch, scipy, and plain loops."""

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy import special
from torch.nn import functional

from oracle_tools import Array, Oracle, array, tensor, torch_unary


def one_by_one(x: Array, function: Callable[[float], float]) -> Array:
    return np.array([function(float(value)) for value in x.ravel()]).reshape(x.shape)


def by_channel(x: Array, function: Callable[[float, int], float]) -> Array:
    return np.array([function(float(x[place]), place[1]) for place in np.ndindex(x.shape)]).reshape(x.shape)


def leaky_relu(x: Array, *, alpha: float) -> Array:
    return array(functional.leaky_relu(tensor(x), alpha))


def prelu(x: Array, alpha: Array) -> Array:
    return array(functional.prelu(tensor(x), tensor(alpha)))


def clamped_relu(x: Array, *, alpha: float, beta: float) -> Array:
    return array(functional.leaky_relu(tensor(x), alpha).clamp(max=beta))


def thresholded_relu(x: Array, *, alpha: float) -> Array:
    return one_by_one(x, lambda value: 0.0 if value < alpha else value)


def threshold(x: Array, *, alpha: float) -> Array:
    return array(functional.threshold(tensor(x), alpha, alpha))


def clip(x: Array, *, alpha: float, beta: float) -> Array:
    return array(functional.hardtanh(tensor(x), alpha, beta)) if alpha < beta else np.full(x.shape, alpha)


def elu(x: Array, *, alpha: float) -> Array:
    return array(functional.elu(tensor(x), alpha))


def sigmoid_hard(x: Array, *, alpha: float, beta: float) -> Array:
    return one_by_one(x, lambda value: min(max(value * alpha + beta, 0.0), 1.0))


def scaled_tanh(x: Array, *, alpha: float, beta: float) -> Array:
    return one_by_one(x, lambda value: math.tanh(value * beta) * alpha)


def gelu(x: Array, *, mode: str) -> Array:
    if mode == "SIGMOID_APPROXIMATION":
        return one_by_one(x, lambda value: value / (1 + math.exp(-1.702 * value)))
    return array(functional.gelu(tensor(x), approximate="none" if mode == "EXACT" else "tanh"))


def softmax(x: Array, *, axis: int) -> Array:
    return array(torch.softmax(tensor(x), axis))


def softplus_parametric(x: Array, alpha: Array, beta: Array) -> Array:
    return by_channel(
        x, lambda value, channel: float(alpha[channel]) * math.log1p(math.exp(float(beta[channel]) * value))
    )


def linear_activation(x: Array, *, alpha: float, beta: float) -> Array:
    return one_by_one(x, lambda value: math.fsum([value * alpha, beta]))


def expit(x: Array) -> Array:
    return special.expit(x)


ORACLES: dict[str, Oracle] = {
    "relu": torch_unary(torch.relu),
    "relu6": torch_unary(functional.relu6),
    "leaky_relu": leaky_relu,
    "prelu": prelu,
    "clamped_relu": clamped_relu,
    "thresholded_relu": thresholded_relu,
    "threshold": threshold,
    "clip": clip,
    "elu": elu,
    "sigmoid": expit,
    "sigmoid_hard": sigmoid_hard,
    "tanh": torch_unary(torch.tanh),
    "scaled_tanh": scaled_tanh,
    "gelu": gelu,
    "silu": torch_unary(functional.silu),
    "softmax": softmax,
    "softplus": torch_unary(functional.softplus),
    "softplus_parametric": softplus_parametric,
    "softsign": torch_unary(functional.softsign),
    "linear_activation": linear_activation,
}
