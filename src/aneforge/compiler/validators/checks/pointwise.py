"""Activations, reductions, normalisations, gain and offset."""

from collections.abc import Iterator

from aneforge.compiler.axes import MOST_AXES, Axis, roles
from aneforge.compiler.validators.data import validators_file
from aneforge.compiler.validators.declare import gate, layer_rule
from aneforge.rules.looking import argument, depth_axis, first, integer, integers, text
from aneforge.rules.rule import Relation, Seen, Severity
from aneforge.rules.subject import Subject

CHANNELS = 1
FP8 = "fp8e4m3fn"
ENGINE_ORDER = (Axis.BATCH, Axis.DEPTH, Axis.CHANNEL, Axis.HEIGHT, Axis.WIDTH)
"""The order in which the compiler numbers its dimensions."""


@layer_rule("ANE-NEURON-002", Relation.AT_MOST, "neuron_mode_max")
def neuron_mode(subject: Subject) -> Iterator[Seen]:
    """The activation is mode {seen} of the non-linear unit; a layer can use at most mode {limit}.

    Remedy: use another activation, or an elementwise layer.
    """
    authored = integer(subject, "mode")
    mode = validators_file().neuron_modes.numbers.get(subject.op) if authored is None else authored
    if mode is not None:
        yield Seen(mode, "mode")


@layer_rule("ANE-NEURON-003", Relation.NEVER)
def no_neuron_mode(subject: Subject) -> Iterator[Seen]:
    """The activation is mode {seen} of the non-linear unit; a layer must use mode {limit}.

    Remedy: leave the layer out, or name its function.

    Mode 0 does nothing. The authored form of a layer names a mode by its number; an operation of a graph is one.
    """
    mode = integer(subject, "mode")
    if mode is not None and mode < 1:
        yield Seen(mode, "mode")


@layer_rule("ANE-REDUCTION-002", Relation.AT_MOST, "reduction_axis_max")
def reduced_axis(subject: Subject) -> Iterator[Seen]:
    """A reduction names axis {seen}; the last is {limit}, counted in the order batch, depth, channel, height, width.

    Remedy: reduce axes that the tensor has.
    """
    x = first(subject)
    if x is None or not 0 < x.rank <= MOST_AXES:
        return
    for axis in integers(subject, "axes"):
        inside = -x.rank <= axis < x.rank
        yield Seen(ENGINE_ORDER.index(roles(x.rank)[axis]) if inside else max(axis, MOST_AXES), "axis")


@layer_rule("ANE-REDUCTION-003", Relation.PRESENT, "square_after_reduction", Severity.DECOMPOSE)
def square_of_reduction(subject: Subject) -> Iterator[Seen]:
    """A reduction with its result squared is not a layer of {target}: its support byte is off.

    Remedy: not needed when compiled from a graph, where the square becomes a layer of its own.
    """
    if subject.op == "sq_after_reduce":
        yield Seen("square")


@layer_rule("ANE-SOFTMAX-002", Relation.ONE_OF)
def softmax_output(subject: Subject) -> Iterator[Seen]:
    """The result of softmax is {seen}; its layer writes {limit}.

    Remedy: quantise after it.
    """
    for result in subject.results:
        yield Seen(result.dtype, "result")


@layer_rule("ANE-LAYERNORM-002", Relation.ONE_OF)
def norm_output(subject: Subject) -> Iterator[Seen]:
    """The result of the normalisation is {seen}; its layer writes {limit}.

    Remedy: quantise after it.
    """
    for result in subject.results:
        yield Seen(result.dtype, "result")


@layer_rule("ANE-LAYERNORM-003", Relation.NEVER)
def norm_groups(subject: Subject) -> Iterator[Seen]:
    """The tensor has {seen} channels, which {limit} groups do not divide.

    Remedy: choose a number of groups that divides the channels.
    """
    x, groups = argument(subject, "x"), integer(subject, "num_groups")
    if x is not None and groups and x.rank > CHANNELS and x.shape[CHANNELS] % groups:
        yield Seen(x.shape[CHANNELS], "channels", groups)


@layer_rule("ANE-LAYERNORM-004", Relation.AT_MOST, "layer_norm_grouped_depth")
def norm_depth(subject: Subject) -> Iterator[Seen]:
    """A group normalisation has a depth of {seen}; {target} takes {limit}.

    Remedy: fold the depth into the height with reshape.
    """
    x, groups = argument(subject, "x"), integer(subject, "num_groups")
    axis = depth_axis(x) if x is not None else None
    if x is not None and groups and groups > 1 and axis is not None:
        yield Seen(x.shape[axis], "depth")


@layer_rule("ANE-MINMAXNORM-002", Relation.PRESENT, gate("minmax_over_channels"))
def minmax_channels(subject: Subject) -> Iterator[Seen]:
    """Min-max normalisation over the channels is not supported by {target}.

    Remedy: normalise along width or height, transposed before and after.
    """
    if text(subject, "dimension").lower() == "channel":
        yield Seen("channel", "dimension")


@layer_rule("ANE-QUANT-001", Relation.NEVER)
def zero_point_of_fp8(subject: Subject) -> Iterator[Seen]:
    """A tensor of {what} has a zero point, which E4M3 does not support.

    Remedy: quantise symmetrically.
    """
    tensors = (*subject.results, *(types[0] for types in subject.arguments.values() if types))
    if any(tensor.dtype == FP8 for tensor in tensors) and argument(subject, "zero_point") is not None:
        yield Seen("a zero point", FP8)
