"""The numbers that bound fp16, under one name each.

Only constants: importing this module costs nothing.
"""

from __future__ import annotations

__all__ = ["FP16_INFINITY", "FP16_MAX", "FP16_PATTERNS", "FP16_SMALLEST", "FP16_SMALLEST_NORMAL"]

FP16_MAX = 65504.0
"""The largest finite number."""
FP16_INFINITY = 2.0**16
"""The least magnitude that has no fp16 after rounding, and what the engine reads an infinity as: the number after
FP16_MAX, were exponent 31 an ordinary one. NaN is read as something larger."""
FP16_SMALLEST_NORMAL = 2.0**-14
FP16_SMALLEST = 2.0**-24
"""The smallest subnormal number above zero."""
FP16_PATTERNS = 2**16
"""How many patterns of bits there are, each a number of fp16, an infinity or NaN."""
