"""The text of the kernels, as a compiler takes it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["NATIVE", "body", "source"]

NATIVE = Path(__file__).parent / "native"
NUMBERS = Path(__file__).parents[1] / "kernels" / "native" / "numbers.h"
FILES = ("device.h", "planar.cu", "rows.cu", "products.cu", "exact_products.cu", "meanings.cu")
TYPES = """
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t; typedef signed char int8_t; typedef short int16_t; typedef int int32_t;
typedef long long int64_t; typedef unsigned long size_t;
"""
"""What the headers of C define, which NVRTC does not have."""


def body() -> str:
    """Return the kernels without what a compiler needs before them: numbers as the CPU kernels have them, first."""
    numbers = NUMBERS.read_text(encoding="utf-8").splitlines()
    kept = "\n".join(line for line in numbers if not line.startswith("#include"))
    return "\n".join([kept, *((NATIVE / name).read_text(encoding="utf-8") for name in FILES)])


@cache
def source() -> str:
    """Return the kernels as NVRTC takes them.

    >>> "KERNEL(product, " in source()
    True
    """
    return TYPES + body()
