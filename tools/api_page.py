"""The page of public names: signature and docstring of each, without the examples, which run in their own modules."""

from __future__ import annotations

import inspect
import textwrap

import aneforge

__all__ = ["api_page"]

INTRODUCTION = (
    "Every public name of `import aneforge as af`, from the docstrings. Their examples are left out here; "
    "`help(af.compile)` shows them, and the tests run them."
)


def api_page() -> str:
    """Return the page."""
    names = [name for name in sorted(dir(aneforge), key=str.lower) if not name.startswith("_")]
    return "\n\n".join(["# Public names", INTRODUCTION, *map(entry_of, names)])


def entry_of(name: str) -> str:
    """Return what the page says of one name."""
    value: object = getattr(aneforge, name)
    text = without_examples(inspect.getdoc(value) or "") if callable(value) or inspect.ismodule(value) else ""
    return "\n\n".join(part for part in (f"## `af.{name}`", heading_of(name, value), text) if part)


def heading_of(name: str, value: object) -> str:
    """Return how a name is called, or what it is."""
    if inspect.ismodule(value):
        return f"The module `{value.__name__}`."
    if inspect.isclass(value):
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__ if base is not object)
        return f"A class of `{value.__module__}`" + (f", derived from {bases}." if bases else ".")
    if inspect.isfunction(value):
        parameters = [plain(parameter) for parameter in inspect.signature(value).parameters.values()]
        return f"```text\naf.{name}({', '.join(parameters)})\n```"
    return f"A value of type `{type(value).__name__}`."


def plain(parameter: inspect.Parameter) -> str:
    """Return a parameter with its default, without its type."""
    mark = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{mark}{parameter.name}{default}"


def without_examples(text: str) -> str:
    """Return a docstring without its examples; a list of errors becomes a block of its own."""
    kept: list[str] = []
    for part in text.split("\n\n"):
        if part.lstrip().startswith(">>>"):
            continue
        first, _, rest = part.partition("\n")
        if first in ("Raises:", "Yields:", "Returns:") and rest:
            items = textwrap.dedent(rest).replace("\n    ", " ").splitlines()
            kept.append(first + "\n\n" + "\n".join(f"- {item}" for item in items))
        else:
            kept.append(part)
    return "\n\n".join(kept)
