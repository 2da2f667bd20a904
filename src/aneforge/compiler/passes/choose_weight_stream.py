"""Decides for encoded weights whether they stream in their encoding or fold to dense fp16."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.kernels import encoding_of, kernel_of, unmet_preconditions
from aneforge.ops.constant import Folded
from aneforge.ops.declared import Declared
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.kernels import Kernel
    from aneforge.ops.constant import Constant
    from aneforge.targets import Target

__all__ = ["ChooseWeightStream"]

CHOICE = "weights"


def fate(layer: Layer, kernel: Kernel, constant: Constant, target: Target) -> tuple[str, str]:
    """Return what becomes of encoded weights, in one word, and why: streams, folds or unknown."""
    name = encoding_of(constant)
    stream = target.streams.get(name)
    if stream is None:
        return "unknown", f"no source says whether {constant.encoding} weights stream here"
    if not stream.streams:
        return "folds", f"{constant.encoding} weights fold to dense fp16 here: {stream.evidence}"
    if target.hal.get("kernel_streaming") is not True:
        return "unknown", "no source says whether kernels stream here"
    unmet = unmet_preconditions(layer, kernel, target)
    if unmet:
        return "folds", f"{constant.encoding} weights fold to dense fp16: streaming needs {', '.join(unmet)}"
    return "streams", ""


def decode(constant: Constant) -> Constant:
    """Return encoded weights as dense ones."""
    if isinstance(constant, Declared):
        return constant.derive("decoded", constant.type.shape)
    return Folded(constant)


@dataclass(frozen=True)
class ChooseWeightStream(Pass):
    """Keep encoded weights that the target streams, and fold the others to dense fp16.

    Where int8 weights fold:

    Before:
        %t1 = NE anec.linear(x = %t0, weight = @t1.weight) : fp16[1, 8]
        constant @t1.weight : fp16[8, 4] int8 sha256:…

    After:
        %t1 = NE anec.linear(x = %t0, weight = @t1.weight) : fp16[1, 8]
          chosen: {encoding = "int8", weights = "folds"}
        note "choose-weight-stream" %t1 "int8 weights fold to dense fp16 here: …"
        constant @t1.weight : fp16[8, 4] dense sha256:…

    An encoding that no source describes stays, and its choice is `unknown`. The encoding that was folded is noted: int8
    weights change what the activations pass.
    """

    name: ClassVar[str] = "choose-weight-stream"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Decide for every product with encoded weights."""
        notes: list[Note] = []
        folded: dict[int, Constant] = {}

        def decided(layer: Layer) -> list[Layer] | None:
            kernel = kernel_of(layer)
            constant = kernel and kernel.constant
            if kernel is None or constant is None or not constant.is_encoded or CHOICE in layer.choices:
                return None
            word, reason = fate(layer, kernel, constant, program.target)
            if reason:
                notes.append(Note(self.name, layer.name, reason))
            chosen = layer.choosing(weights=word)
            if word != "folds":
                return [chosen]
            chosen = chosen.choosing(encoding=constant.encoding)
            if id(constant) not in folded:  # weights that layers share stay one constant
                folded[id(constant)] = decode(constant)
            return [replace(chosen, operands={**chosen.operands, kernel.operand: folded[id(constant)]})]

        return replace_layers(program, decided, notes)
