"""Writes the table of Core ML's public operations: which parameters each opset gives them, and of which element types.

    python tools/coreml_opsets.py    write src/aneforge/formats/mil/data/opsets.toml

The table is data about public interfaces, read from the registry of operations of the installed coremltools.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, cast

__all__ = ["TABLE", "table_text"]

TABLE = Path(__file__).parent.parent / "src" / "aneforge" / "formats" / "mil" / "data" / "opsets.toml"
OPSETS = ("iOS15", "iOS16", "iOS17", "iOS18")
HEAD = """\
# Core ML's public operations: the parameters that each has from an opset on, and their element types; "*" is any.
# An opset is listed where something changed. Written by tools/coreml_opsets.py, from coremltools {version}.
"""
TENSOR = "TensorInputType"


def table_text() -> str:
    """Return the table."""
    coremltools = cast("Any", importlib.import_module("coremltools"))
    registry = cast("Any", importlib.import_module("coremltools.converters.mil.mil.ops.registry")).SSAOpRegistry
    lines = [HEAD.format(version=coremltools.__version__)]
    for name in sorted(registry.core_ops):
        if name.startswith("_"):
            continue
        lines.append(f"[{name}]")
        before: dict[str, str] = {}
        for opset in OPSETS:
            versions = registry.core_ops[name]
            known = [one for one in versions if one <= getattr(coremltools.target, opset)]
            now = parameters(versions[max(known)]) if known else {}
            if now != before:
                shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in now.items())
                lines.append(f"{opset.lower()} = {{ {shown} }}" if now else f"{opset.lower()} = {{}}")
            before = now
        lines.append("")
    return "\n".join(lines)


def parameters(operation: Any) -> dict[str, str]:  # noqa: ANN401 - a class of coremltools, which has no types
    """Return the element types of each parameter of an operation, in the order of its signature."""
    domains = operation.type_domains
    return {
        name: element_types(one, domains)
        for name, one in operation.input_spec.input_types.items()
        if not name.startswith("_")
    }


def element_types(parameter: Any, domains: dict[str, Any]) -> str:  # noqa: ANN401 - a class of coremltools, as above
    """Return the element types that a parameter takes."""
    types = cast("Any", importlib.import_module("coremltools.converters.mil.mil.types"))
    if type(parameter).__name__ != TENSOR:
        return "*"
    members = domains[parameter.type_domain_id] if parameter.type_domain_id else parameter.type_domain
    found = cast("list[Any]", members if isinstance(members, tuple | list) else [members])
    return " ".join(sorted(types.builtin_to_string(one) for one in found)) or "*"


def main() -> None:
    """Write the table."""
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(table_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
