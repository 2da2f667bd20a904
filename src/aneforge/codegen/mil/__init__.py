"""Graphs written as MIL text with a weights blob, in the form that ANEForge 0.4.0 hands to Apple's compiler."""

from aneforge.codegen.mil.files import write_mil
from aneforge.codegen.mil.text import MilText, mil_text

__all__ = ["MilText", "mil_text", "write_mil"]
