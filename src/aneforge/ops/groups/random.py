"""Numbers drawn at random.

No source says which stream the engine draws, so the meaning here takes one of our own choice: the doubles u in [0, 1)
of NumPy's PCG64 with the given seed, in the order of the elements. Every other distribution is a function of them, the
inverse of its distribution function, so that a seed means the same numbers everywhere. A seed of −1 leaves the stream
to the runtime; the meaning here then takes that of seed 0.
"""

from __future__ import annotations

from statistics import NormalDist

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import NOWHERE, SHAPE
from aneforge.ops.forms import Domain, unary
from aneforge.ops.op import Below, Category, MilStatus, Op, Support, Trait
from aneforge.ops.results import FROM_ZERO, UNIT, Codomain
from aneforge.ops.sampling import FLOATS, Chooser, Fill, Sample, draw_shape
from aneforge.ops.shapes import expect_float
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.types import DTYPES, Array, TensorType, is_float

CATEGORY = Category.DETECTION
LOW = Attribute("low", AttributeKind.NUMBER, 0.0, finite=True)
HIGH = Attribute("high", AttributeKind.NUMBER, 1.0, finite=True)
SEED = Attribute("seed", AttributeKind.INTEGER, -1, least=-1)
DTYPE = Attribute("dtype", AttributeKind.TEXT, "fp32", choices=tuple(name for name in DTYPES if is_float(name)))
BLOCK = Support(floor=4, gate="random_block", below=Below.DECOMPOSE, mil_since=4)
LAYER = Support(floor=4, gate="random_block", below=Below.DECOMPOSE, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
RANDOM_TRAIT = frozenset({Trait.RANDOM})
STANDARD_NORMAL = NormalDist()


def stream(extents: tuple[int, ...], seed: int) -> Array:
    """Return the first numbers of a seed's stream, each in [0, 1); −1 is one that a runtime may choose."""
    return np.random.Generator(np.random.PCG64(max(seed, 0))).random(extents)


def drawn_type(*, shape: tuple[int, ...], dtype: str, **_: object) -> TensorType:
    """Return the type that the attributes state."""
    return TensorType(shape, dtype)


def uniform_type(*, shape: tuple[int, ...], low: float, high: float, dtype: str, **_: object) -> TensorType:
    """Return the type that the attributes state, the range checked."""
    if low > high:
        raise GraphError("the end of the range is before its start", seen=f"{low:g} to {high:g}")
    return TensorType(shape, dtype)


def uniform(*, shape: tuple[int, ...], low: float, high: float, seed: int, **_: object) -> Array:
    """Draw evenly from a range."""
    return low + (high - low) * stream(shape, seed)


def uniform_codomain(*, low: float, high: float, **_: object) -> Codomain:
    """Return the range from which is drawn."""
    return Codomain(low, high)


def normal(*, shape: tuple[int, ...], mean: float, stddev: float, seed: int, **_: object) -> Array:
    """Draw from a normal distribution."""
    inside = np.maximum(stream(shape, seed), 2.0**-54)  # the inverse at 0 is not a number
    quantiles = [STANDARD_NORMAL.inv_cdf(one) for one in inside.ravel().tolist()]
    return mean + stddev * np.array(quantiles, np.float64).reshape(shape)


def bernoulli(*, shape: tuple[int, ...], prob: float, seed: int, **_: object) -> Array:
    """Draw 1 with a probability, else 0."""
    return (stream(shape, seed) < prob).astype(np.float64)


def categorical_type(x: TensorType, *, size: int, **_: object) -> TensorType:
    """Return the type of the classes drawn: `size` for each line of `x`."""
    expect_float(x)
    if not x.rank or not x.shape[-1]:
        raise GraphError("there is no class to draw", seen=list(x.shape), limit="one class or more along the last axis")
    return x.with_shape(*x.shape[:-1], size)


def categorical(x: Array, *, mode: str, size: int, seed: int) -> Array:
    """Draw classes: the first whose probability, summed with all before it, is greater than u."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True)) if mode == "logits" else x
    limits = np.cumsum(weights, axis=-1) / weights.sum(axis=-1, keepdims=True)
    points = stream((*x.shape[:-1], size), seed)
    classes = (limits[..., np.newaxis, :] <= points[..., np.newaxis]).sum(axis=-1)
    return np.minimum(classes, x.shape[-1] - 1).astype(np.float64)


def expect_kept(_: TensorType, *, rate: float, **__: object) -> None:
    """Check that a rate does not drop everything.

    Raises:
        GraphError: It does.
    """
    if rate >= 1:
        raise GraphError("nothing would be kept", seen=rate, limit="a rate of 0 or more and less than 1")


def dropout(x: Array, *, rate: float, seed: int) -> Array:
    """Drop elements where u < rate, and scale the others so that the mean stays."""
    return np.where(stream(x.shape, seed) < rate, 0, x / (1 - rate))


def draw_seed(chooser: Chooser) -> int:
    """Draw a seed, also the runtime's own."""
    return chooser.choose([-1, chooser.integer(0, 2**31 - 1)])


def draw_distribution(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw what all distributions take."""
    return {
        "shape": draw_shape(chooser, 0, 3),
        "seed": draw_seed(chooser),
        "dtype": chooser.choose(FLOATS),
    }


def sample_uniform(chooser: Chooser) -> Sample:
    """Draw a range, also an empty one."""
    low, high = chooser.choose([(0.0, 1.0), (-3.0, 5.0), (2.0, 2.0)])
    return Sample({}, {**draw_distribution(chooser), "low": low, "high": high})


def sample_normal(chooser: Chooser) -> Sample:
    """Draw a normal distribution, also one without width."""
    mean, stddev = chooser.choose([(0.0, 1.0), (-3.0, 5.0), (2.0, 0.0)])
    return Sample({}, {**draw_distribution(chooser), "mean": mean, "stddev": stddev})


def sample_bernoulli(chooser: Chooser) -> Sample:
    """Draw a probability, also the ends."""
    return Sample({}, {**draw_distribution(chooser), "prob": chooser.choose([0.0, 0.25, 0.5, 1.0])})


def sample_categorical(chooser: Chooser) -> Sample:
    """Draw weights of classes."""
    mode = chooser.choose(["logits", "probs"])
    x = Fill(TensorType(draw_shape(chooser, 1, 3)), -2 if mode == "logits" else 0.1, 2)
    return Sample({"x": x}, {"mode": mode, "size": chooser.integer(1, 5), "seed": draw_seed(chooser)})


def draw_rate(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a rate, also none, and a seed."""
    return {"rate": chooser.choose([0.0, 0.5, 0.9]), "seed": draw_seed(chooser)}


RANDOM_UNIFORM = Op(
    name="random_uniform",
    category=CATEGORY,
    summary="low + (high − low) · u, u even in [0, 1)",
    operands=(),
    attributes=(SHAPE, LOW, HIGH, SEED, DTYPE),
    infer=uniform_type,
    meaning=uniform,
    sample=sample_uniform,
    traits=RANDOM_TRAIT,
    codomain=uniform_codomain,
    support=BLOCK,
    decompositions=lambda: (decompositions.drawing.NUMBERS_OF_HOST,),
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
RANDOM_NORMAL = Op(
    name="random_normal",
    category=CATEGORY,
    summary="mean + stddev · Φ⁻¹(u), u even in [0, 1)",
    operands=(),
    attributes=(
        SHAPE,
        Attribute("mean", AttributeKind.NUMBER, 0.0, finite=True),
        Attribute("stddev", AttributeKind.NUMBER, 1.0, least=0, finite=True),
        SEED,
        DTYPE,
    ),
    infer=drawn_type,
    meaning=normal,
    sample=sample_normal,
    traits=RANDOM_TRAIT,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
RANDOM_BERNOULLI = Op(
    name="random_bernoulli",
    category=CATEGORY,
    summary="1 where u < prob, else 0, u even in [0, 1)",
    operands=(),
    attributes=(SHAPE, Attribute("prob", AttributeKind.NUMBER, 0.5, least=0, most=1), SEED, DTYPE),
    infer=drawn_type,
    meaning=bernoulli,
    sample=sample_bernoulli,
    traits=RANDOM_TRAIT,
    codomain=UNIT,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
RANDOM_CATEGORICAL = Op(
    name="random_categorical",
    category=CATEGORY,
    summary="the class at which the summed probabilities pass u, `size` times for each line, u even in [0, 1)",
    operands=(Operand("x"),),
    attributes=(
        Attribute("mode", AttributeKind.TEXT, "logits", choices=("logits", "probs")),
        Attribute("size", AttributeKind.INTEGER, 1, least=1),
        SEED,
    ),
    infer=categorical_type,
    meaning=categorical,
    sample=sample_categorical,
    traits=RANDOM_TRAIT,
    codomain=FROM_ZERO,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)
DROPOUT = unary(
    "dropout",
    CATEGORY,
    "0 where u < rate, else x / (1 − rate), u even in [0, 1)",
    dropout,
    attributes=(Attribute("rate", AttributeKind.NUMBER, 0.5, least=0, most=1, finite=True), SEED),
    domain=Domain(attributes=draw_rate),
    check=expect_kept,
    traits=RANDOM_TRAIT,
    in_mil=False,
    support=LAYER,
    catalogued=False,
    decompositions=lambda: (decompositions.drawing.MASK_OF_HOST,),
    gradient=lambda: gradients.pointwise.DROPOUT,
)
RANDOM = Op(
    name="random",
    category=CATEGORY,
    summary="low + (high − low) · u, u even in [0, 1), by the layer that draws",
    operands=(),
    attributes=(SHAPE, LOW, HIGH, SEED, DTYPE),
    infer=uniform_type,
    meaning=uniform,
    sample=sample_uniform,
    traits=RANDOM_TRAIT,
    codomain=uniform_codomain,
    in_mil=False,
    support=LAYER,
    catalogued=False,
    decompositions=lambda: (decompositions.drawing.NUMBERS_OF_HOST,),
    gradient=lambda: gradients.reasons.NO_OPERANDS,
)
