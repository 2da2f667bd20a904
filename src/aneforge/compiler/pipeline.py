"""The compiler's passes in order.

A pipeline is a list that can be printed, cut and dumped: what it gives after any pass is a program in text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.verifier import verify
from aneforge.compiler.passes.choose_output_groups import ChooseOutputGroups
from aneforge.compiler.passes.choose_reduction_route import ChooseReductionRoute
from aneforge.compiler.passes.choose_slice_route import ChooseSliceRoute
from aneforge.compiler.passes.choose_weight_stream import ChooseWeightStream
from aneforge.compiler.passes.choose_winograd import ChooseWinograd
from aneforge.compiler.passes.collapse_layout import CollapseLayout
from aneforge.compiler.passes.constants_to_gain_offset import ConstantsToGainOffset
from aneforge.compiler.passes.cut_segments import CutSegments
from aneforge.compiler.passes.eliminate_copies import EliminateCopies
from aneforge.compiler.passes.factor_strides import FactorStrides
from aneforge.compiler.passes.fold_dequantise import FoldDequantise
from aneforge.compiler.passes.fold_padding import FoldPadding
from aneforge.compiler.passes.fold_scale import FoldScale
from aneforge.compiler.passes.fuse_epilogue import FuseEpilogue
from aneforge.compiler.passes.fuse_square import FuseSquare
from aneforge.compiler.passes.hoist_through_concat import HoistThroughConcat
from aneforge.compiler.passes.legalise_gather import LegaliseGather
from aneforge.compiler.passes.legalise_rank import LegaliseRank
from aneforge.compiler.passes.legalise_resize import LegaliseResize
from aneforge.compiler.passes.legalise_transpose import LegaliseTranspose
from aneforge.compiler.passes.matmul_to_convolution import MatmulToConvolution
from aneforge.compiler.passes.merge_activations import MergeActivations
from aneforge.compiler.passes.share_layouts import ShareLayouts
from aneforge.compiler.passes.split_extents import SplitExtents
from aneforge.compiler.passes.split_groups import SplitGroups
from aneforge.compiler.passes.split_kernel_memory import SplitKernelMemory
from aneforge.compiler.passes.split_matmul import SplitMatmul
from aneforge.compiler.passes.split_windows import SplitWindows
from aneforge.errors import UnknownNameError
from aneforge.records import dataclass
from aneforge.whole_files import replace_when_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.base import Pass

__all__ = ["FUSION", "LEGALISATION", "PIPELINE", "Pipeline", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """What the program was after one pass."""

    name: str
    modified: bool
    program: Program


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in the order in which they run.

    >>> print(PIPELINE.until("fold-padding"))
     1 fusion       eliminate-copies
     2 fusion       fold-padding
    """

    passes: tuple[Pass, ...]

    def __str__(self) -> str:
        return "\n".join(f"{number:2} {one.phase:<12} {one}" for number, one in enumerate(self.passes, 1))

    def place(self, name: str) -> int:
        """Return where a pass is.

        Raises:
            UnknownNameError: There is no such pass.
        """
        names = [one.name for one in self.passes]
        if name not in names:
            raise UnknownNameError.of("pass", name, names)
        return names.index(name)

    def until(self, name: str) -> Pipeline:
        """Return the pipeline up to a pass, that one included."""
        return Pipeline(self.passes[: self.place(name) + 1])

    def without(self, name: str) -> Pipeline:
        """Return the pipeline with a pass left out."""
        place = self.place(name)
        return Pipeline(self.passes[:place] + self.passes[place + 1 :])

    def exchanging(self, name: str, other: Pass) -> Pipeline:
        """Return the pipeline with another pass in a pass's place, such as the same with other options."""
        place = self.place(name)
        return Pipeline((*self.passes[:place], other, *self.passes[place + 1 :]))

    def run(self, program: Program, watch: Callable[[Step], None] | None = None) -> Program:
        """Return what the passes make of a program; `watch` is called after each.

        Raises:
            GraphError: What was given is not a program.
            NotSupportedError: A layer cannot be made legal.
            InternalError: A pass made something that is not a program.
        """
        verify(program)
        for one in self.passes:
            result = one(program)
            program = result.program
            if watch is not None:
                watch(Step(one.name, result.modified, program))
        return program

    def dump(self, program: Program, folder: Path) -> Program:
        """Run, and write the program before the first pass and after each that changed it into a folder.

        Files are called by their place and their pass; each is written under another name first and renamed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        written = 0

        def write(step: Step) -> None:
            nonlocal written
            if step.modified:
                file = folder / f"{written:02}-{step.name}.anec"
                with replace_when_written(file) as unfinished:
                    unfinished.write_text(str(step.program), encoding="utf-8")
            written += 1

        write(Step("lower", modified=True, program=program))
        return self.run(program, write)


FUSION: tuple[Pass, ...] = (
    EliminateCopies(),
    FoldPadding(),
    FoldDequantise(),
    FuseSquare(),
    MatmulToConvolution(),  # before gains and offsets: a bias of a product is one for every channel of the convolution
    ConstantsToGainOffset(),
    CollapseLayout(),
    ShareLayouts(),
    MergeActivations(),
    HoistThroughConcat(),
    FuseEpilogue(),
    FoldScale(),
)

LEGALISATION = (
    LegaliseRank(),
    LegaliseGather(),
    LegaliseResize(),
    FactorStrides(),
    SplitWindows(),
    SplitGroups(),
    LegaliseTranspose(),
    SplitMatmul(),
    SplitExtents(),
    ChooseWeightStream(),
    SplitKernelMemory(),
    ChooseOutputGroups(),
    ChooseWinograd(),
    ChooseSliceRoute(),
    ChooseReductionRoute(),
    CutSegments(),
)
"""Shapes first, then what is too large, then how every layer runs: passes that make layers come before those that look
at what they made."""

PIPELINE = Pipeline((*FUSION, *LEGALISATION))
"""Fusion, then legalisation."""
