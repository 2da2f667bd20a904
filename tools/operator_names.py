"""Write the names that ONNX and PyTorch have for operations, with ours that their converters use: `explain` reads it.

The names are those of the importers' registries. Ours are an operation of the same name, what a table of the
converter's module has under the name, and, for a converter of few operators, the operations that its source names.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from aneforge.formats.onnx.registry import converters as onnx_converters
from aneforge.formats.torch.registry import converters as torch_converters
from aneforge.ops.table import names, ops

__all__ = ["FILE", "operator_names"]

FILE = Path(__file__).parent.parent / "src" / "aneforge" / "commands" / "data" / "operator_names.toml"
DOMAINS = ("com.", "ai.", "org.")
"""How domains of ONNX operators begin."""
FEW = 3
"""Operators that share a converter whose source is asked."""
NOT_MEANT = {"input", "const", "cast", "select", "where", "range", "not", "and", "or", "state", "identity", "shape"}
"""Names of operations that are words of Python, or of the importers themselves."""


def operator_names() -> str:
    """Return the file."""
    onnx = {
        name if not domain else f"{domain}.{name}": [entry.convert for entry in entries]
        for (domain, name), entries in onnx_converters().items()
    }
    torch = {name: [convert] for name, convert in torch_converters().items()}
    parts = ["# Made by tools/operator_names.py: what other frameworks call operations, and ours that stand for them."]
    for title, table in (("onnx", onnx), ("torch", torch)):
        shared = {id(one): 0 for found in table.values() for one in found}
        for found in table.values():
            for one in found:
                shared[id(one)] += 1
        parts.append(f"[{title}]")
        parts += [
            f'"{name}" = [{", ".join(repr(one).replace(chr(39), chr(34)) for one in used(name, table[name], shared))}]'
            for name in sorted(table)
        ]
    return "\n".join(parts) + "\n"


def used(name: str, found: Iterable[Callable[..., object]], shared: Mapping[int, int]) -> list[str]:
    """Return the operations that stand for an operator."""
    plain = {key.replace("_", ""): key for key in names()}
    bare = name.rpartition(".")[2] if name.startswith(DOMAINS) else name.partition(".")[0]
    own = plain.get(bare.replace("_", "").lower())
    made = [names()[own].name] if own is not None else []
    for convert in found:
        made += from_tables(bare, convert)
        if not made and "." not in name and shared[id(convert)] <= FEW:
            made += from_source(convert)
    return list(dict.fromkeys(made))


def from_tables(name: str, convert: Callable[..., object]) -> list[str]:
    """Return what tables of a converter's module have under a name."""
    module = sys.modules[inspect.unwrap(convert).__module__]
    found: list[str] = []
    tables = (cast("Mapping[str, object]", one) for one in vars(module).values() if isinstance(one, Mapping))
    for table in tables:
        value = table.get(name)
        called = value if isinstance(value, str) else getattr(value, "name", getattr(value, "__name__", ""))
        if isinstance(called, str) and called in names():
            found.append(names()[called].name)
    return found


def from_source(convert: Callable[..., object]) -> list[str]:
    """Return the operations that the source of a converter calls."""
    text = inspect.getsource(inspect.unwrap(convert))
    called = re.findall(r"(?:\.|\b)([a-z_][a-z0-9_]*)\(", text)
    return [one for one in called if one in ops() and one not in NOT_MEANT]


if __name__ == "__main__":
    FILE.write_text(operator_names(), encoding="utf-8")
