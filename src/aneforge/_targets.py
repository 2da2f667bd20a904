"""The documented import path `from aneforge import _targets as tg`. Names only; the rooms hold the code."""

from aneforge.analysis.divergence.kinds import predict_fp16_divergence
from aneforge.compiler.verdict import preflight, preflight_all
from aneforge.rules.operations import op_status
from aneforge.targets import (
    FP16_SLICE_SAT,
    MIN_FAMILY,
    Family,
    arch_for_family,
    detect_family,
    family_of_arch,
    has_texture_engine,
    limit,
    native_streams,
    resolve,
    supports_mil,
)

__all__ = [
    "FP16_SLICE_SAT",
    "MIN_FAMILY",
    "Family",
    "arch_for_family",
    "detect_family",
    "family_of_arch",
    "has_texture_engine",
    "limit",
    "native_streams",
    "op_status",
    "predict_fp16_divergence",
    "preflight",
    "preflight_all",
    "resolve",
    "supports_mil",
]
