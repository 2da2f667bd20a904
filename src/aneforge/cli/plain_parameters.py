"""Texts that users give become values of parameters without the framework's help where nothing can be wrong with them.

The framework converts every parameter of a command, given or not, and loads a library for it that takes a tenth of a
second. A default is a value already, and a text or a path is taken as it was given; numbers, and whatever must be
checked, are left to the framework.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    Processing = Callable[[object, object], object]

__all__ = ["PlainCommand", "PlainGroup"]


class PlainCommand(TyperCommand):
    """A command whose parameters take defaults, texts and paths as they are."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - the framework's own types, elsewhere in each release
        """Return the parameters, the one for help included."""
        return take_plainly(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands, as `PlainCommand`."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - as above
        """Return the parameters, the one for help included."""
        return take_plainly(super().get_params(ctx))


class Info(Protocol):
    """What a command says of a parameter: what is to be checked of a path, and its own reader."""

    exists: bool
    file_okay: bool
    dir_okay: bool
    readable: bool
    writable: bool
    resolve_path: bool
    parser: object


class Described(Protocol):
    """The type of a parameter, in releases of the framework that say it."""

    annotation: Any
    """A class, or a form of one such as list[str]."""
    parameter_info: Info


class Parameter(Protocol):
    """A parameter of a command, as the framework has it."""

    param_type_name: str
    default: object
    required: bool
    multiple: bool
    nargs: int
    callback: Callable[[object, object, object], object] | None
    process_value: Processing
    display_type: Callable[..., str | None]
    """How the type is called in the help; not in all releases."""


WORDS = {"<int>": "N", "<int range>": "N", "<float>": "NUMBER", "<float range>": "NUMBER", "<str>": "TEXT"}
"""What the help calls the types of options that have no word of their own; the framework uses names of Python."""


def take_plainly(parameters: list[Any]) -> list[Any]:
    """Return the parameters of a command, once made to take defaults, texts and paths as they are."""
    for one in cast("list[Parameter]", parameters):
        described = cast("Described | None", getattr(one, "type_descriptor", None))
        if described is not None and not isinstance(one.process_value, partial):
            one.process_value = partial(value_of, one, plain_type(described), one.process_value)
            one.display_type = partial(call_type, one, one.display_type)
    return parameters


def call_type(parameter: Parameter, framework: Callable[[object], str | None], ctx: object) -> str | None:
    """Return how the help calls the type of a parameter; an argument's name says what it is."""
    if parameter.param_type_name == "argument":
        return None
    text = framework(ctx)
    return text if text is None else WORDS.get(text, text)


def plain_type(described: Described) -> type[str | Path] | None:
    """Return the type of a parameter that is one or several texts or paths, unchecked; None for others."""
    info = described.parameter_info
    if info.parser is not None:
        return None
    if described.annotation in (str, list[str]):
        return str
    checked = info.exists or info.readable or info.writable or info.resolve_path
    unchecked = not checked and info.file_okay and info.dir_okay
    return Path if unchecked and described.annotation in (Path, list[Path]) else None


def value_of(
    parameter: Parameter, plain: type[str | Path] | None, converted: Processing, context: object, given: object
) -> object:
    """Return the value of a parameter: what was given, or what the framework makes of it."""
    several = parameter.multiple or parameter.nargs == -1
    value: object = None
    if given is None and not parameter.required:
        value = () if several else None
    elif given is not None and given is parameter.default:
        value = given
    elif plain is not None and isinstance(given, str) and not several:
        value = plain(given)
    elif plain is not None and several and given and all_texts(given):
        value = [plain(one) for one in cast("list[str] | tuple[str, ...]", given)]
    else:
        return converted(context, given)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def all_texts(given: object) -> bool:
    """Return whether something is a list of texts."""
    return isinstance(given, list | tuple) and all(isinstance(one, str) for one in cast("list[object]", given))
