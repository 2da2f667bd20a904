"""Operations that need a unit of the engine or a support byte which some targets lack.

Which operations those are is said by their entries in the op table.
"""

from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.rules.looking import depth_axis, first
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject

TEXTURE_PADDINGS = {"reflect", "symmetric"}
PRESENT = Relation.PRESENT


@rule("ANE-GATE-001", Severity.REJECT, bound="texture_engine", relation=PRESENT, gated=True)
def texture_operation(subject: Subject) -> Iterator[Seen]:
    """{op} runs on the texture engine, which {target} does not have.

    Remedy: resize with resize_bilinear, gather along one axis, or choose a target of the {since} family or a later one.

    One source says that older targets decompose these operations; the front end was seen to refuse them, and so do
    we (conflict S2).
    """
    yield Seen(subject.op)


@rule("ANE-GATE-002", Severity.REJECT, bound="texture_engine", relation=PRESENT, ops={"pad"})
def texture_padding(subject: Subject) -> Iterator[Seen]:
    """Padding of mode {seen} runs on the texture engine, which {target} does not have.

    Remedy: pad with a constant, or build the border from slices and concat.
    """
    mode = subject.attributes.get("mode")
    if isinstance(mode, str) and mode in TEXTURE_PADDINGS:
        yield Seen(mode)


@rule("ANE-GATE-003", Severity.DECOMPOSE, bound="random_block", relation=PRESENT, gated=True)
def random_operation(subject: Subject) -> Iterator[Seen]:
    """{op} needs the random-number block, which {target} does not have; the host supplies the numbers as an input.

    Remedy: draw the numbers on the host, or choose a target of the {since} family or a later one.
    """
    yield Seen(subject.op)


@rule("ANE-GATE-004", Severity.REJECT, bound="softmax_support", relation=PRESENT, gated=True)
def softmax(subject: Subject) -> Iterator[Seen]:
    """Softmax is not supported by {target}: its support byte is off.

    Remedy: choose a target of the {since} family or a later one.
    """
    yield Seen(subject.op)


@rule("ANE-GATE-005", Severity.REJECT, bound="instance_norm_support", relation=PRESENT, gated=True)
def instance_norm(subject: Subject) -> Iterator[Seen]:
    """Instance normalisation is not supported by {target}: its support byte is off.

    Remedy: choose a target of the {since} family or a later one.
    """
    yield Seen(subject.op)


@rule("ANE-GATE-006", Severity.REJECT, bound="lrn_support", relation=PRESENT, gated=True)
def local_response_norm(subject: Subject) -> Iterator[Seen]:
    """Local response normalisation is not supported by {target}: its support byte is off.

    Remedy: build it from square, avg_pool over channels, pow and mul.
    """
    yield Seen(subject.op)


@rule("ANE-GATE-007", Severity.REJECT, bound="minmax_norm_support", relation=PRESENT, gated=True)
def minmax_norm(subject: Subject) -> Iterator[Seen]:
    """Min-max normalisation is not supported by {target}: its support byte is off.

    Remedy: build it from reduce_min, reduce_max, sub and real_div.
    """
    yield Seen(subject.op)


@rule(
    "ANE-GATE-008",
    Severity.DECOMPOSE,
    bound="global_arg_reduction",
    relation=PRESENT,
    gated=True,
)
def global_arg_reduction(subject: Subject) -> Iterator[Seen]:
    """An arg-reduction over the whole tensor has no layer on {target} and is decomposed into one per axis.

    Remedy: reduce one axis at a time with reduce_argmax.

    This is the netplist route, gated by a byte; the MIL route has its own floor in the op table (conflict C24).
    """
    yield Seen(subject.op)


@rule("ANE-GATE-009", Severity.REJECT, bound="dynamic_gain_offset", relation=PRESENT, gated=True)
def dynamic_gain_offset(subject: Subject) -> Iterator[Seen]:
    """A gain and offset computed at run time is not supported by {target}: its support byte is off.

    Remedy: make gain and offset constants, or use mul and add.
    """
    yield Seen(subject.op)


@rule("ANE-GATE-010", Severity.REJECT, bound="upsample_1x1_fast_path", relation=PRESENT, ops={"broadcast"})
def depth_broadcast(subject: Subject) -> Iterator[Seen]:
    """Broadcasting along the depth axis is not supported by {target}.

    Remedy: reshape so that the broadcast axis is width, height or channel, or use tile.

    The depth is axis 2 of five.
    """
    for result in subject.results[:1]:
        axis, x = depth_axis(result), first(subject)
        if axis is None or x is None:
            continue
        place = axis - (result.rank - x.rank)
        if result.shape[axis] != (x.shape[place] if place >= 0 else 1):
            yield Seen("depth", "axis")


@rule("ANE-GATE-011", Severity.INFO, bound="square_after_reduction", relation=PRESENT, trait=Trait.REDUCTION)
def square_after_reduction(subject: Subject) -> Iterator[Seen]:
    """{op} followed by a square is not fused on {target}: the unfused form keeps one more fp16 rounding.

    Remedy: not needed; expect a difference of about one unit in the last place against a target that fuses.
    """
    if "square" in subject.consumers:
        yield Seen("square", "consumer")
