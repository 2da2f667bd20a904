"""The opsets of MIL: which operations and parameters each has, in which element types.

Source of truth: `data/opsets.toml`, the public operations as coremltools registers them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from aneforge.typed_decoding import decode_typed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "ANY",
    "NAMED",
    "OPSETS",
    "STATES",
    "Opsets",
    "first_opset",
    "opset_name",
    "parameters_at",
    "public_operations",
]

OPSETS = ("ios15", "ios16", "ios17", "ios18")
NAMED = frozenset({*OPSETS, "ios26"})
"""Opsets that are known by name: what the last one adds is not registered here."""
NUMBERS = {"CoreML5": "ios15", "CoreML6": "ios16", "CoreML7": "ios17", "CoreML8": "ios18", "CoreML9": "ios26"}
"""The opsets of a package by their numbers: Core ML 5 came with iOS 15."""
ANY = "*"
STATES = "ios18"
"""The first opset with states, and with several functions in a package."""
Opsets = dict[str, dict[str, str]]
"""Element types of the parameters of an operation, by the opset that brought them."""


@cache
def public_operations() -> Mapping[str, Opsets]:
    """Return the public operations.

    >>> public_operations()["relu"]
    {'ios15': {'x': 'fp16 fp32'}}
    """
    content = files("aneforge.formats.mil").joinpath("data/opsets.toml").read_bytes()
    found = decode_typed(content, dict[str, Opsets], msgspec.toml.decode)
    return {**found, "write_state": {STATES: {"input": ANY, "data": ANY}}}  # made of an update of a state, at the end


def parameters_at(public: Opsets, opset: str) -> dict[str, str] | None:
    """Return the parameters that an operation has in an opset; None where there is no such operation yet.

    >>> sorted(parameters_at(public_operations()["topk"], "ios16"))
    ['ascending', 'axis', 'k', 'return_indices', 'sort', 'x']
    """
    before = [one for one in OPSETS[: OPSETS.index(opset) + 1] if one in public]
    return public[before[-1]] if before else None


def first_opset(op: str, given: Collection[str]) -> str | None:
    """Return the first opset that has an operation with the given parameters; None where none has.

    >>> first_opset("crop_resize", {"x", "roi"}), first_opset("crop_resize", {"x", "boxes"}), first_opset("relu", {"z"})
    ('ios15', 'ios17', None)
    """
    public = public_operations().get(op, {})
    return next((one for one in OPSETS if set(given) <= (parameters_at(public, one) or {}).keys()), None)


def opset_name(name: str) -> str:
    """Return an opset as MIL text spells it; one that is not known keeps its name.

    >>> opset_name("CoreML7"), opset_name("CoreML99")
    ('ios17', 'CoreML99')
    """
    return NUMBERS.get(name, name)
