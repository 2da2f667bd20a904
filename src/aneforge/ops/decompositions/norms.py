"""Normalisations in means, lengths and products.

The mean of a group is one reduction over all of its places: sums of large groups overflow in fp16 where means do not.
Whether the silicon keeps such sums wide is not measured: the documented spelling, with sums, is kept as an alternative.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.types import bits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.ops.decomposition import Site, Term

__all__ = [
    "AS_IMAGE",
    "BATCH_GAIN",
    "CHANNEL_MEANS",
    "GROUP_MEANS",
    "GROUP_SUMS",
    "INSTANCE_MEANS",
    "LAYER_MEANS",
    "LENGTH",
    "ONE_TYPE",
    "ONE_TYPE_OF_PARAMETERS",
    "SCALED_LENGTH",
    "along",
]

EMITTED = Evidence(
    EvidenceKind.DECODED, "aneforge MIL emission", note="The statements that the documented builder emits for it."
)
MEANS = Evidence(
    EvidenceKind.INFERRED,
    "aneforge MIL emission",
    note="As the documented builder emits it, with means where that has sums and products, which overflow in fp16.",
)


def standardise(x: Term, axes: tuple[int, ...], epsilon: float) -> Term:
    """Return x with mean 0 and variance 1 along axes."""
    centred = x - x.reduce_mean(axes=axes, keep_dims=True)
    variance = (centred * centred).reduce_mean(axes=axes, keep_dims=True)
    return centred * (variance + epsilon).rsqrt(epsilon=0.0)


def along(to: Site, values: Term, axes: Sequence[int], like: Term, what: str) -> Term:
    """Return a parameter with its axes at those of a tensor, in that tensor's element type where it is a constant."""
    shape = [1] * len(like.shape)
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    if values.known is not None:
        return to.constant(values.known.reshape(shape), like.dtype, what)
    if values.is_declared:
        return to.derived(values, what, tuple(shape), like.dtype)
    return values.reshape(shape=tuple(shape))


def rescale(to: Site, x: Term, gamma: Term | None, beta: Term | None, axes: Sequence[int]) -> Term:
    """Return x times gamma plus beta, where they are given."""
    if gamma is not None:
        x = x * along(to, gamma, axes, x, "gamma")
    return x if beta is None else x + along(to, beta, axes, x, "beta")


def layer_norm(
    to: Site, x: Term, gamma: Term | None, beta: Term | None, *, axes: tuple[int, ...] | None, epsilon: float
) -> Term:
    """Return the normalisation over some axes, or all."""
    rank = len(x.shape)
    places = tuple(range(rank)) if axes is None else tuple(sorted(axis % rank for axis in axes))
    return rescale(to, standardise(x, places, epsilon), gamma, beta, places)


def channel_layer_norm(to: Site, x: Term, gamma: Term, beta: Term, *, epsilon: float) -> Term:
    """Return the normalisation over the channels of every place."""
    return rescale(to, standardise(x, (1,), epsilon), gamma, beta, (1,))


def instance_norm(to: Site, x: Term, gamma: Term | None, beta: Term | None, *, epsilon: float) -> Term:
    """Return the normalisation over the places of every channel."""
    return rescale(to, standardise(x, tuple(range(2, len(x.shape))), epsilon), gamma, beta, (1,))


def group_norm(to: Site, x: Term, gamma: Term, beta: Term, *, num_groups: int, epsilon: float) -> Term:
    """Return the normalisation over groups of channels: the depth and the places of a group are two axes."""
    batch, channels, height, width = x.shape
    grouped = x.reshape(shape=(batch, num_groups, channels // num_groups, height * width))
    standard = standardise(grouped, (2, 3), epsilon).reshape(shape=x.shape)
    return rescale(to, standard, gamma, beta, (1,))


def group_norm_by_sums(to: Site, x: Term, gamma: Term, beta: Term, *, num_groups: int, epsilon: float) -> Term:
    """Return the normalisation over groups as the documented builder spells it: two sums, and a product with 1/n."""
    batch, channels, height, width = x.shape
    depth, places = channels // num_groups, height * width

    def mean(value: Term) -> Term:
        rows = value.reduce_sum(axes=(3,), keep_dims=True)
        return rows.reduce_sum(axes=(2,), keep_dims=True) * (1 / (depth * places))

    grouped = x.reshape(shape=(batch, num_groups, depth, places))
    centred = grouped - mean(grouped)
    standard = centred * (mean(centred * centred) + epsilon).rsqrt(epsilon=0.0)
    return rescale(to, standard.reshape(shape=x.shape), gamma, beta, (1,))


def batch_norm(
    to: Site, x: Term, mean: Term, variance: Term, gamma: Term | None, beta: Term | None, *, epsilon: float
) -> Term:
    """Return (x − mean) · factor + beta; the factor, gamma over the deviation, is computed beforehand."""
    what, shape = "gamma over the deviation", (-1, *(1,) * (len(x.shape) - 2))
    absent = next((one for one in (variance, gamma) if one is not None and one.is_declared), None)
    if absent is not None:
        laid = to.derived(absent, what, (absent.shape[0], *shape[1:]), x.dtype)
    else:
        assert variance.known is not None  # noqa: S101 - the op table takes only constants
        factor = 1 / np.sqrt(variance.known + epsilon)
        if gamma is not None and gamma.known is not None:
            factor = factor * gamma.known
        laid = to.constant(factor.reshape(shape), x.dtype, what)
    scaled = (x - along(to, mean, (1,), x, "mean")) * laid
    return scaled if beta is None else scaled + along(to, beta, (1,), x, "beta")


def divide_by_length(x: Term, axes: tuple[int, ...], least: float) -> Term:
    """Return x over its Euclidean length, which is at least a number."""
    return x / x.reduce_l2_norm(axes=axes, keep_dims=True).threshold(alpha=least)


def l2_norm(_: Site, x: Term, *, axes: tuple[int, ...], epsilon: float) -> Term:
    """Return x over its length, bounded from below by the root of epsilon."""
    return divide_by_length(x, axes, math.sqrt(epsilon))


def rms_norm(to: Site, x: Term, gamma: Term, *, epsilon: float) -> Term:
    """Return x over its length, times gamma · √extent, which is one constant and rounded once."""
    extent, what = x.shape[-1], "gamma times the root of the extent"
    unit = divide_by_length(x, (-1,), math.sqrt(extent * epsilon))
    if gamma.is_declared:
        return unit * to.derived(gamma, what, gamma.shape, x.dtype)
    assert gamma.known is not None  # noqa: S101 - the op table takes only a constant
    return unit * to.constant(gamma.known * np.sqrt(extent), x.dtype, what)


def as_image(to: Site, x: Term, *operands: Term | None, **attributes: object) -> Term:
    """Return the normalisation of a sequence [N, C, L] as that of images one row high."""
    batch, channels, length = x.shape
    image = x.reshape(shape=(batch, channels, 1, length))
    return to.same(image, **to.named(operands), **attributes).reshape(shape=x.shape)


# Element types


def widest(dtypes: set[str]) -> str:
    """Return the element type that holds the numbers of all."""
    longest = max(dtypes, key=bits)
    return longest if sum(bits(one) == bits(longest) for one in dtypes) == 1 else "fp32"


def with_both(to: Site, parameters: Mapping[str, Term]) -> dict[str, Term]:
    """Return parameters with gamma and beta, where one of them is given: the other changes nothing."""
    found = dict(parameters)
    for name, other, number in (("beta", "gamma", 0.0), ("gamma", "beta", 1.0)):
        if name not in found and other in found:
            found[name] = to.constant(np.full(found[other].shape, number), found[other].dtype)
    return found


def in_type(to: Site, parameters: Mapping[str, Term], dtype: str) -> dict[str, Term]:
    """Return constants in an element type that holds them."""
    absent = {name: to.derived(one, dtype, one.shape, dtype) for name, one in parameters.items() if one.is_declared}
    known = {name: to.constant(one.known, dtype) for name, one in parameters.items() if one.known is not None}
    return {**known, **absent}


def one_type_of_parameters(to: Site, x: Term, *operands: Term | None, **attributes: object) -> Term:
    """Return the normalisation with its parameters in one element type, the widest of theirs."""
    parameters = to.named(operands)
    dtype = widest({one.dtype for one in parameters.values()})
    return to.same(x, **in_type(to, parameters, dtype), **attributes)


def one_type(to: Site, x: Term, *operands: Term | None, **attributes: object) -> Term:
    """Return the normalisation with its parameters and x in one element type, the widest of all, and cast back."""
    parameters = with_both(to, to.named(operands))
    dtype = widest({x.dtype, *(one.dtype for one in parameters.values())})
    wide = x if x.dtype == dtype else x.cast(dtype=dtype)
    result = to.same(wide, **in_type(to, parameters, dtype), **attributes)
    return result if result.dtype == x.dtype else result.cast(dtype=x.dtype)


AS_IMAGE = Decomposition(
    "image", "the same of images one row high", as_image, SAME_MATHEMATICS, same_bits=True, same_operation=True
)
LAYER_MEANS = Decomposition("means", "mean and variance over axes, gamma and beta", layer_norm, EMITTED)
CHANNEL_MEANS = Decomposition(
    "means", "mean and variance over the channels, gamma and beta", channel_layer_norm, EMITTED
)
INSTANCE_MEANS = Decomposition("means", "mean and variance over every channel, gamma and beta", instance_norm, EMITTED)
GROUP_MEANS = Decomposition("means", "mean and variance over every group, gamma and beta", group_norm, MEANS)
GROUP_SUMS = Decomposition("sums", "sums over every group and their share, gamma and beta", group_norm_by_sums, EMITTED)
BATCH_GAIN = Decomposition("gain", "(x − mean) · factor + beta", batch_norm, SAME_MATHEMATICS)
LENGTH = Decomposition("length", "x over its length, bounded from below", l2_norm, EMITTED)
SCALED_LENGTH = Decomposition("length", "x over its length, bounded from below, times gamma", rms_norm, EMITTED)
ONE_TYPE_OF_PARAMETERS = Decomposition(
    "one type of parameters",
    "parameters in one element type",
    one_type_of_parameters,
    SAME_MATHEMATICS,
    same_bits=True,
    same_operation=True,
)
ONE_TYPE = Decomposition(
    "one type", "x and parameters in one element type", one_type, SAME_MATHEMATICS, same_operation=True
)
