"""Property lists, XML and binary, as plain values: bounded in depth, size and time, with the lines of an XML file.

Binary files go through `plistlib`. XML goes through expat directly: `plistlib` skips elements that it does not know,
keeps the last of two equal keys, and knows no lines.
"""

from __future__ import annotations

import base64
import binascii
import plistlib
import re
import struct
from dataclasses import field
from typing import TYPE_CHECKING, cast
from xml.parsers import expat

from aneforge.errors import GraphError, GraphTypeError, Location
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MOST_BYTES", "PlistDict", "PlistValue", "parse_plist", "quote_value"]

MOST_BYTES = 1 << 28
"""A description of 256 MiB would have a million units; weights are in files of their own."""
MOST_DEPTH = 32
"""A description nests six deep."""
MOST_DIGITS = 40
"""An integer of 64 bits has 20."""
MOST_SHARED = 16
"""How much longer a binary file may be when what it shares is written out, as a factor of its size: sharing lists
within lists could otherwise make a small file endless."""
BINARY_MAGIC = b"bplist"
SHOWN = 60
WHOLE = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)
REAL = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)


class PlistDict(dict[str, "PlistValue"]):
    """A dictionary of a property list; it remembers the first key that was given twice, and its line in an XML file."""

    def __init__(self, line: int | None = None) -> None:
        super().__init__()
        self.line = line
        self.repeated: str | None = None

    def __setitem__(self, key: str, value: PlistValue) -> None:
        if key in self and self.repeated is None:
            self.repeated = key
        super().__setitem__(key, value)


PlistValue = bool | int | float | str | bytes | list["PlistValue"] | PlistDict
CONTAINER_TYPES = (list, dict)
PLAIN_TYPES = (bool, int, float, str, bytes, list)
"""What a description holds apart from dictionaries."""


def parse_plist(data: bytes, file: str | None = None) -> PlistDict:
    """Return the dictionary that a property list holds.

    >>> parse_plist(b"<plist><dict><key>Networks</key><array/></dict></plist>")
    {'Networks': []}

    Raises:
        GraphTypeError: It is not given as bytes.
        GraphError: The file is not a property list, is cut off, nests too deep, refers to itself, gives a key twice, or
            holds something other than a dictionary.
    """
    place = Location(file)
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("a property list is given as bytes", location=place, seen=type(data).__name__)
    if len(data) > MOST_BYTES:
        raise GraphError(
            "the description is too large", location=place, seen=f"{len(data)} bytes", limit=f"{MOST_BYTES} bytes"
        )
    root = parse_binary(data, place) if data.startswith(BINARY_MAGIC) else parse_xml(data, place)
    if not isinstance(root, PlistDict):
        raise GraphError("the description is not a dictionary", location=place, seen=quote_value(root))
    check_tree(root, place, MOST_SHARED * len(data))
    return root


def quote_value(value: object) -> str:
    """Return a value as an error shows it: short, whatever it is.

    >>> quote_value(10 ** 5000), quote_value([1, 2]), quote_value("a" * 100)
    ('an integer of 16610 bits', 'a list of 2', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'...")
    """
    if isinstance(value, str):
        return repr(value) if len(value) <= SHOWN else f"{value[:SHOWN]!r}..."
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    for kinds, what in (((list, tuple), "a list"), ((dict,), "a dictionary"), ((bytes,), "data")):
        if isinstance(value, kinds):
            return f"{what} of {len(cast('bytes', value))}"
    return f"a {type(value).__name__}"


# Binary


def parse_binary(data: bytes, place: Location) -> object:
    """Return what a binary property list holds.

    Raises:
        GraphError: It is damaged or nests too deep.
    """
    try:
        return cast("object", plistlib.loads(data, fmt=plistlib.FMT_BINARY, dict_type=PlistDict))
    except RecursionError:
        raise too_deep(place) from None
    except (plistlib.InvalidFileException, ValueError, TypeError, OverflowError, LookupError, struct.error) as error:
        detail = str(error) or type(error).__name__
        raise GraphError(
            f"the binary property list is corrupt: {detail[:SHOWN]}",
            location=place,
            seen=f"{len(data)} bytes",
            remedy="write the file again; it may be cut off",
        ) from error


# XML


@dataclass(slots=True)
class Open:
    """An element that is not closed yet."""

    tag: str
    value: PlistDict | list[PlistValue] | None = None
    text: list[str] = field(default_factory=list[str])
    key: str | None = None
    """The key of a dictionary that waits for its value."""


class XmlReader:
    """Builds values while expat walks through a file."""

    def __init__(self, place: Location) -> None:
        self.place = place
        self.root: PlistValue | None = None
        self.open: list[Open] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.EntityDeclHandler = self.entity

    def error(self, message: str, **details: object) -> GraphError:
        """Return an error at the line that is read."""
        return GraphError(
            message,
            location=Location(self.place.file or "the description", self.parser.CurrentLineNumber),
            seen=details.get("seen"),
            limit=details.get("limit"),
        )

    def entity(self, name: str, *_: object) -> None:
        """Refuse entities: nested ones grow without bound."""
        raise self.error("a property list declares no entities", seen=f"&{name[:SHOWN]};")

    def start(self, tag: str, _: dict[str, str]) -> None:
        """Begin an element."""
        if len(self.open) > MOST_DEPTH:
            raise self.error("the description nests too deep", limit=f"{MOST_DEPTH} levels")
        parent = self.open[-1] if self.open else None
        if parent is not None and parent.tag not in CONTAINERS:
            raise self.error(f"<{parent.tag}> may contain only text", seen=f"<{tag[:SHOWN]}>")
        if tag in OF_TEXT:
            self.open.append(Open(tag))
        elif tag == "dict":
            self.open.append(Open(tag, PlistDict(self.parser.CurrentLineNumber)))
        elif tag == "array":
            self.open.append(Open(tag, []))
        elif tag == "plist":
            self.open.append(Open(tag))
        else:
            raise self.error(
                "the element is not allowed in a property list",
                seen=f"<{tag[:SHOWN]}>",
                limit=", ".join((*CONTAINERS[1:], "key", *SCALARS)),
            )

    def characters(self, text: str) -> None:
        """Take text, which a container has none of."""
        if self.open and self.open[-1].tag not in CONTAINERS:
            self.open[-1].text.append(text)
        elif text.strip():
            raise self.error("there is text between elements", seen=quote_value(text.strip()))

    def end(self, _: str) -> None:
        """Close an element and put its value where it belongs."""
        closed = self.open.pop()
        if closed.tag == "key":
            self.take_key("".join(closed.text))
        elif closed.value is None:
            if closed.tag != "plist":
                self.put(self.scalar(closed.tag, "".join(closed.text)))
        elif closed.key is not None:
            raise self.error("a key has no value", seen=quote_value(closed.key))
        else:
            self.put(closed.value)

    def take_key(self, name: str) -> None:
        """Remember a key until its value comes."""
        parent = self.open[-1] if self.open else None
        if parent is None or parent.tag != "dict":
            raise self.error("a key is outside of a dictionary", seen=quote_value(name))
        if parent.key is not None:
            raise self.error("a key has no value", seen=quote_value(parent.key))
        parent.key = name

    def put(self, value: PlistValue) -> None:
        """Put a value into its dictionary or list, or make it the root."""
        parent = self.open[-1] if self.open else None
        if parent is None or parent.value is None:
            if self.root is not None:
                raise self.error("there are two values at the top", seen=quote_value(value))
            self.root = value
        elif isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            raise self.error("a value in a dictionary has no key", seen=quote_value(value))
        else:
            parent.value[parent.key] = value
            parent.key = None

    def scalar(self, tag: str, text: str) -> PlistValue:
        """Return the value of an element that holds text."""
        match tag:
            case "string":
                return text
            case "integer":
                return self.integer(text.strip())
            case "real":
                return self.real(text.strip())
            case "data":
                return self.data(text)
            case "date":
                raise self.error("a description cannot hold a date", seen=quote_value(text))
            case _:
                return tag == "true"

    def integer(self, text: str) -> int:
        """Return an integer."""
        if len(text) > MOST_DIGITS:
            raise self.error("the integer is too long", seen=f"{len(text)} digits", limit=f"{MOST_DIGITS} digits")
        if not WHOLE.fullmatch(text):
            raise self.error("it is not an integer", seen=quote_value(text))
        return int(text, 16 if "x" in text.lower() else 10)

    def real(self, text: str) -> float:
        """Return a number."""
        if len(text) > 16 * MOST_DIGITS or not REAL.fullmatch(text):
            raise self.error("it is not a number", seen=quote_value(text))
        return float(text)

    def data(self, text: str) -> bytes:
        """Return bytes."""
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error("it is not valid base64", seen=quote_value(text)) from None


CONTAINERS = ("plist", "dict", "array")
SCALARS = ("string", "integer", "real", "true", "false", "data", "date")
OF_TEXT = frozenset({"key", *SCALARS})


def parse_xml(data: bytes, place: Location) -> object:
    """Return what an XML property list holds.

    Raises:
        GraphError: It is not XML, is cut off, or is not a property list.
    """
    reader = XmlReader(place)
    try:
        reader.parser.Parse(data, True)  # noqa: FBT003 - the argument has no name
    except expat.ExpatError as error:
        raise GraphError(
            f"the file is not a property list: {expat.ErrorString(error.code)}",
            location=Location(place.file or "the description", error.lineno),
            remedy="give a property list, XML or binary; it may be cut off",
        ) from None
    except (ValueError, LookupError) as error:
        # An encoding that expat does not know goes to Python, which raises its own errors; ours pass.
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"the file is not a property list: {str(error)[:SHOWN]}", location=place) from None
    return reader.root


# Both


def check_tree(root: PlistDict, place: Location, most: int) -> None:
    """Check that a value is a tree: not deeper than allowed, in no loop, without keys given twice, of a bounded size.

    Raises:
        GraphError: It is not.
    """
    sizes: dict[int, int] = {}
    path: dict[int, None] = {}
    stack: list[tuple[object, bool]] = [(root, False)]
    while stack:
        value, ready = stack.pop()
        if ready:
            del path[id(value)]
            sizes[id(value)] = 1 + sum(sizes.get(id(child), 1) for child in children(value))
            continue
        if id(value) in path:
            raise GraphError("the description contains itself", location=place, seen=quote_value(value))
        if id(value) in sizes:
            continue
        check_value(value, place)
        if len(path) >= MOST_DEPTH:
            raise too_deep(place)
        path[id(value)] = None
        stack.append((value, True))
        for child in children(value):
            if is_container(child):
                stack.append((child, False))
            else:
                check_value(child, place)
    if sizes[id(root)] > max(most, 1 << 16):
        raise GraphError(
            "the description repeats its parts too often",
            location=place,
            seen=f"{sizes[id(root)]} values written out",
            limit=max(most, 1 << 16),
        )


def is_container(value: object) -> bool:
    """Return whether a value holds others."""
    return isinstance(value, CONTAINER_TYPES)


def children(container: object) -> Iterable[object]:
    """Return what a dictionary or a list holds."""
    held = cast("dict[object, object] | list[object]", container)
    return held.values() if isinstance(held, dict) else held


def check_value(value: object, place: Location) -> None:
    """Check that a value is one that a description can hold.

    Raises:
        GraphError: It is not.
    """
    if isinstance(value, PlistDict):
        line = Location(place.file or "the description", value.line) if value.line else place
        if value.repeated is not None:
            raise GraphError("a key is given twice", location=line, seen=quote_value(value.repeated))
        for key in value:
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a binary file may have others
                raise GraphError("a key is not text", location=line, seen=quote_value(key))
    elif not isinstance(value, PLAIN_TYPES):
        raise GraphError("a description cannot hold such a value", location=place, seen=quote_value(value))


def too_deep(place: Location) -> GraphError:
    """Return the error for a description that nests too deep."""
    return GraphError("the description nests too deep", location=place, limit=f"{MOST_DEPTH} levels")
