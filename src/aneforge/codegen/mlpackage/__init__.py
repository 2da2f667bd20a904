"""Graphs written as ML packages, which coremltools, Xcode and Core ML load."""

from aneforge.codegen.mlpackage.package import save_mlpackage

__all__ = ["save_mlpackage"]
