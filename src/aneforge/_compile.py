"""The documented import path `from aneforge._compile import …`. Names only; the rooms hold the code."""

from aneforge.analysis.crosscompile import cross_compile_check
from aneforge.runtime.compile import compile_multi

__all__ = ["compile_multi", "cross_compile_check"]
