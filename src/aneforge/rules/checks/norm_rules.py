"""Layers that take a few channels alone: local response normalisation, gain and offset computed at run time."""

from collections.abc import Iterator

from aneforge.rules.looking import argument
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject

CHANNELS = 1


@rule(
    "ANE-LRN-002",
    Severity.REJECT,
    bound="lrn_channels",
    relation=Relation.AT_MOST,
    ops={"local_response_norm", "lrn"},
)
def response_channels(subject: Subject) -> Iterator[Seen]:
    """A local response normalisation of {seen} channels passes its validator and fails in code generation on {target}.

    Remedy: build it from square, avg_pool over channels, pow and mul.
    """
    x, axis = argument(subject, "x"), 0 if subject.op == "lrn" else CHANNELS
    if x is not None and x.rank > axis:
        yield Seen(x.shape[axis], "channels")


@rule(
    "ANE-DYNAMICGOC-002",
    Severity.REJECT,
    bound="dynamic_gain_offset_channels",
    relation=Relation.ONE_OF,
    ops={"dynamic_goc"},
)
def runtime_gain_channels(subject: Subject) -> Iterator[Seen]:
    """A gain and offset computed at run time has {seen} channels, none of {limit}.

    Remedy: make gain and offset constants, or use mul and add.
    """
    x = argument(subject, "x")
    if x is not None and x.rank > CHANNELS:
        yield Seen(x.shape[CHANNELS], "channels")
