"""From a graph to a program for one target. What stands: `retarget`, which makes a graph legal there."""

from aneforge.compiler.retarget import Change, Retargeted, Route, retarget

__all__ = ["Change", "Retargeted", "Route", "retarget"]
