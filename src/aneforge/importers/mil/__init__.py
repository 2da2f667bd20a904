"""MIL text and its weights, read into graphs.

The dialect is that of programs which Apple's compilers write and which ANEForge 0.4.0 and public experiments (maderix)
hand to them: a head with build info, functions with an opset, typed statements, constants in the text or in a weights
blob, states.
"""

from aneforge.importers.mil.diagnostics import MilError, MilFinding, MilRule, mil_rules
from aneforge.importers.mil.program import MilProgram, from_mil, load_mil, parse_mil

__all__ = ["MilError", "MilFinding", "MilProgram", "MilRule", "from_mil", "load_mil", "mil_rules", "parse_mil"]
