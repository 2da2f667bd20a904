"""Rules about the parameters of single operations, and about the ports of a function.

A check looks at a statement whose parameters are found and yields what breaks the rule; its docstring is the rule's
text. What the form of every parameter needs (a scalar, a boolean, a const) is checked where parameters are read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from aneforge.formats.mil.diagnostics import MilRule
from aneforge.formats.mil.dialect import LINEAR_AXES
from aneforge.formats.mil.mil_values import Encoded, Known
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.mil.calls import Call


__all__ = ["FOLDED", "PORT_DTYPE", "UNUSED_INPUT", "Breach", "Check", "checks_of"]


@dataclass(frozen=True, slots=True)
class Breach:
    """What breaks a rule, and where."""

    at: int
    found: str
    expected: str


Look = Callable[["Call"], Iterable[Breach]]


@dataclass(frozen=True, slots=True)
class Check:
    """A rule that is checked on statements of some operations."""

    rule: MilRule
    ops: frozenset[str]
    look: Look
    text: bool
    """It is checked in MIL text; otherwise in packages, where defaults may be left out."""


def check(
    rule_id: str, ops: Iterable[str], severity: Severity = Severity.REJECT, *, text: bool = True
) -> Callable[[Look], Check]:
    """Declare a check: the decorated function yields what breaks the rule, its docstring is the rule's text."""

    def declare(look: Look) -> Check:
        return Check(MilRule.of(rule_id, inspect.getdoc(look) or "", severity), frozenset(ops), look, text)

    return declare


@check("MIL-CONCAT-001", {"concat"})
def interleave_is_given(call: Call) -> Iterator[Breach]:
    """Interleave is not given.

    Remedy: add interleave = bool(false).

    The compiler of MIL text has no default for it.
    """
    if "interleave" not in call.given:
        yield Breach(call.statement.op_at, "no interleave", "interleave = bool(false)")


@check("MIL-EPSILON-001", {"batch_norm", "instance_norm", "layer_norm"})
def epsilon_is_of_the_parameters_type(call: Call) -> Iterator[Breach]:
    """Epsilon has a different element type than gamma and beta.

    Remedy: write {expected}.
    """
    epsilon = call.given.get("epsilon")
    if epsilon is None or not isinstance(epsilon.value, Known):
        return
    for name in ("gamma", "beta"):
        parameter = call.given.get(name)
        dtype = element_type(parameter.value) if parameter else None
        if dtype is not None and dtype != epsilon.value.kind.dtype:
            yield Breach(epsilon.at, str(epsilon.value.kind), f"{dtype}(…), as {name} is {dtype}")


@check("MIL-EPSILON-002", {"log"})
def log_has_epsilon(call: Call) -> Iterator[Breach]:
    """Epsilon is not given.

    Remedy: add epsilon = fp16(0x0p+0), or a small number that is added first.

    The compiler of MIL text has no default for it.
    """
    if "epsilon" not in call.given:
        yield Breach(call.statement.op_at, "no epsilon", "epsilon = fp16(0x0p+0)")


@check("MIL-GELU-001", {"gelu"})
def gelu_has_a_mode(call: Call) -> Iterator[Breach]:
    """Mode is not given.

    Remedy: add mode = string("EXACT"), "TANH_APPROXIMATION" or "SIGMOID_APPROXIMATION".

    The compiler of MIL text has no default for it.
    """
    if "mode" not in call.given:
        yield Breach(call.statement.op_at, "no mode", 'mode = string("EXACT")')


@check("MIL-LINEAR-001", {"linear"})
def linear_takes_three_axes(call: Call) -> Iterator[Breach]:
    """More than three axes enter a linear layer.

    Remedy: reshape to the rows of a matrix before it, and back after it.

    The documentation of the operation has one to three.
    """
    yield from many_axes(call)


@check("MIL-LINEAR-002", {"linear"}, Severity.WARN, text=False)
def linear_of_a_package_takes_three_axes(call: Call) -> Iterator[Breach]:
    """More than three axes enter a linear layer of a package.

    Remedy: reshape to the rows of a matrix before it, and back after it.

    The documentation of the operation has one to three; converters do not check it, so packages with more exist, and
    what Core ML does with them was not measured.
    """
    yield from many_axes(call)


def many_axes(call: Call) -> Iterator[Breach]:
    """Yield the input of a linear layer that has more axes than MIL documents."""
    x = call.given.get("x")
    if x is not None and isinstance(x.value, Tensor) and x.value.type.rank > LINEAR_AXES:
        yield Breach(x.at, f"{x.value.type.rank} axes", f"at most {LINEAR_AXES}")


@check("MIL-CONSTEXPR-001", {"expand_dims", "reshape", "squeeze", "transpose"}, Severity.WARN)
def encoded_weights_keep_their_shape(call: Call) -> Iterator[Breach]:
    """Weights are rearranged after their constexpr operation, and the front end does not route that as a weight.

    Remedy: store the weights in the shape in which they are used.
    """
    x = call.given.get("x")
    if x is not None and isinstance(x.value, Encoded):
        yield Breach(x.at, f"{call.name} of {x.value.op}", "the weights in their final shape")


FOLDED = MilRule.of(
    "MIL-CONSTEXPR-002",
    """The operation has no compressed form in a graph; the weights are made dense.

    Remedy: not needed: the values are the same and take more memory.
    """,
    Severity.WARN,
    found="{op}",
    expected="a form that constants have",
)
PORT_DTYPE = MilRule.of(
    "MIL-PORT-001",
    """Port {name} is {found}; a program that is dispatched directly takes and gives {expected}.

    Remedy: declare the port as fp16 and cast on the host. Where the port is fp32 and the cast is in the program, read
    the graph without it: graph(port_casts=False).
    """,
    Severity.WARN,
)
UNUSED_INPUT = MilRule.of(
    "MIL-PORT-002",
    """Input {name} is never used; the graph does not have it.

    Remedy: remove it from the function.
    """,
    Severity.WARN,
    found="{name}",
    expected="an input that is read",
)


def element_type(value: object) -> str | None:
    """Return the element type of a parameter that is a constant."""
    if isinstance(value, Known):
        return value.kind.dtype
    return value.constant.type.dtype if isinstance(value, Encoded) else None


@cache
def checks_of(op: str, *, text: bool) -> Sequence[Check]:
    """Return the checks on statements of an operation, in MIL text or in packages."""
    return [
        value for value in globals().values() if isinstance(value, Check) and value.text is text and op in value.ops
    ]
