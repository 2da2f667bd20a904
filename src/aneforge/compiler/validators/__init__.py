"""The validators of the engine's compiler: rules over the layers of a program, with the compiler's own refusals.

Three layers, as in the compiler: the exported validators (`validate`, `validate_layer`, `validate_program`), the
semantics that they are made of (the rules), and the check of a compiled program when it is loaded (`validate_at_load`).
"""

from aneforge.compiler.validators.catalogue import (
    Export,
    Standing,
    Validator,
    explain,
    exports,
    semantic_rules,
    validator_of,
    validators,
)
from aneforge.compiler.validators.data import Stage
from aneforge.compiler.validators.edits import is_compressible, validate_weight_edits
from aneforge.compiler.validators.exported import validate, validate_layer
from aneforge.compiler.validators.load import CompiledMatrix, MatrixForm, Plane, validate_at_load
from aneforge.compiler.validators.module import validate_module, validate_module_creation
from aneforge.compiler.validators.network import NetworkValidation, validate_program
from aneforge.compiler.validators.verdict import Objection, Validation, Verdict

__all__ = [
    "CompiledMatrix",
    "Export",
    "MatrixForm",
    "NetworkValidation",
    "Objection",
    "Plane",
    "Stage",
    "Standing",
    "Validation",
    "Validator",
    "Verdict",
    "explain",
    "exports",
    "is_compressible",
    "semantic_rules",
    "validate",
    "validate_at_load",
    "validate_layer",
    "validate_module",
    "validate_module_creation",
    "validate_program",
    "validate_weight_edits",
    "validator_of",
    "validators",
]
