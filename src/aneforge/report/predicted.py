"""Findings that no legality rule makes, because they are about values, about two targets or about a whole model.

Each has an id and an explanation, and where users reported it in public, the threads.
"""

from __future__ import annotations

from aneforge.records import dataclass

__all__ = [
    "DIVERGENCE",
    "NATIVE_SHARE",
    "OFF_ENGINE",
    "OPEN_SHAPES",
    "OWN_PROGRAM",
    "PREDICTED",
    "SEGMENTS",
    "SOME_TARGETS",
    "Predicted",
    "rule_of_edge",
]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A kind of finding that is predicted, not judged by a rule."""

    id: str
    edge: str
    """The edge of the engine that is passed; empty for what is none."""
    risk: str
    """saturation or loss, as a report calls the risk of fp16; empty for what is none."""
    message: str
    explanation: str
    remedy: str = ""
    threads: tuple[str, ...] = ()
    """Where users reported it: `owner/project#number`."""


DIVERGENCE = Predicted(
    "ANE-CHIPS-001",
    "",
    "",
    "Two targets can give different answers.",
    "Their programs or their datapaths differ in that operation. `aneforge compare` runs both and shows the bits.",
)
SOME_TARGETS = Predicted(
    "ANE-CHIPS-002",
    "",
    "",
    "A model has a program on some targets and none on others.",
    "Limits and operations differ between generations, in both directions: what compiles on one chip can fail on a "
    "later one. The table of all targets shows where.",
    "check on every target that the model is shipped to: --target all.",
    ("apple/coremltools#2503", "FluidInference/FluidAudio#828"),
)
SEGMENTS = Predicted(
    "ANE-SEGMENT-001",
    "",
    "",
    "Operations in the middle leave the engine and cut the program.",
    "What is before them is copied out and what is after them in again, at every call; two cuts can cost more than "
    "the operations themselves.",
    "write them with operations that the engine has, or move them to the start or the end of the model.",
    ("pytorch/executorch#8445", "pytorch/executorch#4091"),
)
OWN_PROGRAM = Predicted(
    "ANE-SEGMENT-002",
    "",
    "",
    "An operation needs a program of its own and cuts the model into several.",
    "The engine runs one program in a call. What is before the operation, the operation and what is after it are "
    "calls of their own, each with its dispatch, and with copies between them.",
    "write it with operations that cut nothing, or leave it to the host if it is at the start or end of the model.",
)
OFF_ENGINE = Predicted(
    "ANE-SEGMENT-003",
    "",
    "",
    "Core ML runs nothing of a model on the engine.",
    "Core ML sends an operation to another device where the engine does not take it, or where the change of device "
    "costs more than the engine saves. Such a model runs, with other arithmetic and other times than the engine's.",
    "check with --path direct to see what the engine makes of the model; small models gain from larger batches, or "
    "from becoming part of a larger one.",
)
OPEN_SHAPES = Predicted(
    "ANE-SHAPE-001",
    "",
    "",
    "A model whose dimensions are open or ranged runs off the engine as a whole.",
    "Programs of the engine have fixed shapes. A converter that is given a range, or no length at all, makes a "
    "model that no part of the engine runs.",
    "fix every length: one model for each of a few, such as 32, 128 and 512, and pad inputs up to the next of them. "
    "aneforge check MODEL --shape NAME=32:128:512 says what each costs.",
    ("apple/coremltools#2370", "ekhodzitsky/gigastt#42"),
)
NATIVE_SHARE = Predicted(
    "ANE-NATIVE-001",
    "",
    "",
    "Too few operations are native.",
    "Converters end well even where nothing of a model landed on the engine. A check fails: by default where "
    "an operation is refused, with --strict where anything does not run as written, and with --min-native where the "
    "share of native operations is below what was asked for.",
    "the findings say what to change; aneforge explain op NAME prints where an operation is native.",
    ("apple/coreai-models#205", "Pummelchen/NVMAI#7"),
)
EDGES = (
    Predicted(
        "ANE-RANGE-001",
        "fp16 overflow",
        "saturation",
        "A result can be larger than fp16 holds.",
        "The largest finite number of fp16 is 65504; larger values become infinite.",
    ),
    Predicted(
        "ANE-RANGE-002",
        "accumulator edge",
        "saturation",
        "A partial sum can pass the edge of the accumulator.",
        "Sums of products are kept in fixed point up to 2^15 in magnitude before they are rounded to fp16.",
    ),
    Predicted(
        "ANE-RANGE-003",
        "fixed-point crop",
        "saturation",
        "A slice can pass values that its fixed-point copy makes infinite.",
        "Where slices inside the width are copied with a factor of 16, magnitudes above 4094 become infinite.",
    ),
    Predicted(
        "ANE-RANGE-004",
        "int8 activations",
        "saturation",
        "Activations that are multiplied by int8 weights can be too large for their encoding.",
        "They pass an encoding with a factor of 16, which makes magnitudes above 4094 infinite.",
    ),
    Predicted(
        "ANE-RANGE-005",
        "product grid",
        "loss",
        "Products are so small that they lose bits.",
        "Products are rounded to multiples of 2^-16, so small ones keep fewer bits than fp16 has.",
    ),
    Predicted(
        "ANE-RANGE-006",
        "rebuilt operation",
        "saturation",
        "An operation is built from others in which large values become infinite.",
        "A target that does not have it computes it with others: a sine by a polynomial after whole periods were taken "
        "off, a resize by products. Those overflow where the operation itself would not.",
    ),
)
PREDICTED = {
    one.id: one
    for one in (*EDGES, DIVERGENCE, SOME_TARGETS, SEGMENTS, OWN_PROGRAM, OFF_ENGINE, OPEN_SHAPES, NATIVE_SHARE)
}


def rule_of_edge(edge: str) -> Predicted:
    """Return the kind of finding for an edge of the engine.

    >>> rule_of_edge("product grid").risk
    'loss'
    """
    return next(one for one in EDGES if one.edge == edge)
