"""What ONNX's own schemas say of an operator at an operator-set version: how it may be written.

Nodes are checked against it once, before their converter sees them: a converter may rely on the number of inputs, on
the types of attributes and tensors, and on defaults.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

import onnx
import onnx.defs

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RUNTIME_DOMAIN", "RUNTIME_LAYOUT_DOMAINS", "AttributeRule", "Bodies", "Rules", "newest_version", "rules_of"]

RUNTIME_DOMAIN = "com.microsoft"
RUNTIME_LAYOUT_DOMAINS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
"""Sets whose operators read layouts of one processor; models with them run where they were made."""
OpSchema = onnx.defs.OpSchema


class Bodies(Protocol):
    """What a schema knows of the functions that define its operator; onnx's own stubs leave it out."""

    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    def get_function_with_opset_version(self, version: int, /) -> bytes:
        """Return a function in its wire form."""
        ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes], /
    ) -> bytes:
        """Return the function for one node and the types of its inputs, in its wire form."""
        ...


class AttributeKind(Protocol):
    """A type of attributes, an enumeration of onnx's."""

    value: int


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """An attribute that an operator may have."""

    kind: int
    """A number of `AttributeProto.AttributeType`."""
    required: bool
    default: onnx.AttributeProto | None


@dataclass(frozen=True, slots=True)
class Rules:
    """How an operator is written."""

    bodies: Bodies | None
    """The functions of an operator that has a schema."""
    since: int
    """The version of the operator set that brought this form of it."""
    inputs: tuple[int, int]
    """The least and the greatest number of inputs."""
    outputs: tuple[int, int]
    optional: tuple[bool, ...]
    """Which inputs may be left out by an empty name; the last entry stands for all that follow."""
    types: tuple[frozenset[str], ...]
    """The types that each input may have; the last entry stands for all that follow."""
    attributes: Mapping[str, AttributeRule]
    ranks: tuple[tuple[int, int], ...] = ()
    """The least and the greatest rank of inputs, where their converter relies on it."""


@lru_cache(4096)
def rules_of(operator: str, version: int, domain: str) -> Rules | None:
    """Return the rules of an operator at a version of its operator set; None for one that the set does not have.

    >>> found = rules_of("Relu", 13, "")
    >>> found.since, found.inputs
    (13, (1, 1))
    """
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return runtime_rules(operator, domain)
    if schema.deprecated and not schema.inputs:  # only its name is left; other deprecated forms still mean something
        return None
    return Rules(
        cast("Bodies", schema),
        schema.since_version,
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(one.option != OpSchema.FormalParameterOption.Single for one in schema.inputs),
        tuple(frozenset(one.types) for one in schema.inputs),
        {name: attribute_rule(one) for name, one in schema.attributes.items()},
    )


def runtime_rules(operator: str, domain: str) -> Rules | None:
    """Return the rules of an operator that ONNX Runtime adds; None for one that is not known here."""
    from aneforge.formats.onnx.contributed import runtime_signature  # noqa: PLC0415 - few models have such operators

    found = runtime_signature(operator, domain)
    if found is None:
        return None
    attributes = {name: AttributeRule(*said) for name, said in found.attributes.items()}
    return Rules(None, 1, found.inputs, found.outputs, found.optional, found.types, attributes, found.ranks)


def attribute_rule(attribute: OpSchema.Attribute) -> AttributeRule:
    """Return the rule of an attribute."""
    default = attribute.default_value
    return AttributeRule(
        cast("AttributeKind", attribute.type).value, attribute.required, default if default.name else None
    )


@lru_cache(64)
def newest_version(domain: str) -> int:
    """Return the newest version of an operator set that the installed onnx knows; 0 for a set that it does not.

    >>> newest_version("") >= 21, newest_version("com.example")
    (True, 0)
    """
    if domain == "":
        return onnx.defs.onnx_opset_version()
    if domain == RUNTIME_DOMAIN:
        return 1
    return max(
        (one.since_version for one in onnx.defs.get_all_schemas_with_history() if one.domain == domain), default=0
    )
