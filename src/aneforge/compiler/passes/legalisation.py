"""The passes of legalisation, in order: shapes first, then what is too large, then how every layer runs."""

from __future__ import annotations

from aneforge.compiler.passes.choose_output_groups import ChooseOutputGroups
from aneforge.compiler.passes.choose_reduction_route import ChooseReductionRoute
from aneforge.compiler.passes.choose_slice_route import ChooseSliceRoute
from aneforge.compiler.passes.choose_weight_stream import ChooseWeightStream
from aneforge.compiler.passes.choose_winograd import ChooseWinograd
from aneforge.compiler.passes.cut_segments import CutSegments
from aneforge.compiler.passes.factor_strides import FactorStrides
from aneforge.compiler.passes.legalise_gather import LegaliseGather
from aneforge.compiler.passes.legalise_rank import LegaliseRank
from aneforge.compiler.passes.legalise_resize import LegaliseResize
from aneforge.compiler.passes.legalise_transpose import LegaliseTranspose
from aneforge.compiler.passes.split_extents import SplitExtents
from aneforge.compiler.passes.split_groups import SplitGroups
from aneforge.compiler.passes.split_kernel_memory import SplitKernelMemory
from aneforge.compiler.passes.split_matmul import SplitMatmul
from aneforge.compiler.passes.split_windows import SplitWindows

__all__ = ["LEGALISATION"]

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
"""Passes that make layers stand before those that look at what they made."""
