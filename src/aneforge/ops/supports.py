"""Supports that several groups of operations share; an entry whose support is its own states it.

An entry without a support has the default: every family has it, and a source says so. Floors come from the
reconstruction of the op floors; an operation that it does not list is taken to need family 2, as every program in MIL
does.
"""

from __future__ import annotations

from aneforge.ops.op import Basis, Below, MilStatus, Support

__all__ = [
    "BRIDGE_F0",
    "DECOMPOSED",
    "F2",
    "LIKELY_BRIDGE_F0",
    "LIKELY_BRIDGE_F2",
    "LIKELY_F0",
    "LIKELY_F2",
    "NOWHERE",
]

F2 = Support(floor=2)
LIKELY_F0 = Support(floor=0, basis=Basis.LIKELY)
LIKELY_F2 = Support(floor=2, basis=Basis.LIKELY)
NOWHERE = Support(floor=None, mil_since=None)
DECOMPOSED = Support(floor=None, below=Below.DECOMPOSE, mil_since=None)
"""No family has it, and every family that runs MIL has what it is written in."""

BRIDGE_F0 = Support(floor=0, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
LIKELY_BRIDGE_F0 = Support(floor=0, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
LIKELY_BRIDGE_F2 = Support(floor=2, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
