"""Why some operations have no gradient."""

from __future__ import annotations

from aneforge.ops.gradient import NoGradient

INTEGERS = NoGradient("its results are integers")
BOOLEANS = NoGradient("its results are booleans")
NO_OPERANDS = NoGradient("it reads no tensor")
OF_CONSTANTS = NoGradient("it reads only constants")
OF_BYTES = NoGradient("it reads bytes")
FUNCTIONS = NoGradient("it runs a function of the program, which the graph does not hold")
UNKNOWN_MATHEMATICS = NoGradient("no source gives the mathematics of its results")
