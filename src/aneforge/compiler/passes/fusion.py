"""The passes of fusion, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.passes.collapse_layout import CollapseLayout
from aneforge.compiler.passes.constants_to_gain_offset import ConstantsToGainOffset
from aneforge.compiler.passes.eliminate_copies import EliminateCopies
from aneforge.compiler.passes.fold_dequantise import FoldDequantise
from aneforge.compiler.passes.fold_padding import FoldPadding
from aneforge.compiler.passes.fold_scale import FoldScale
from aneforge.compiler.passes.fuse_epilogue import FuseEpilogue
from aneforge.compiler.passes.fuse_square import FuseSquare
from aneforge.compiler.passes.hoist_through_concat import HoistThroughConcat
from aneforge.compiler.passes.matmul_to_convolution import MatmulToConvolution
from aneforge.compiler.passes.merge_activations import MergeActivations
from aneforge.compiler.passes.share_layouts import ShareLayouts

if TYPE_CHECKING:
    from aneforge.compiler.passes.base import Pass

__all__ = ["FUSION"]

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
