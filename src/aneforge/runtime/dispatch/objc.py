"""The Objective-C runtime through ctypes: classes, messages, and the few Foundation objects that dispatch needs.

A message is a call of objc_msgSend with the types of that message: on Apple silicon a variadic call would pass its
arguments elsewhere. Numbers are given as values of ctypes, objects as their addresses; None is nil.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aneforge.errors import RuntimeStateError
from aneforge.runtime.dispatch.native_calls import Signature, bind_functions, load_library

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

__all__ = ["ObjectiveC", "ObjectiveCError"]

P = ctypes.c_void_p
NUMBERS = (ctypes.c_bool, ctypes.c_uint, ctypes.c_size_t, ctypes.c_longlong, ctypes.c_char_p)
"""Arguments that are passed as what they are; all others are addresses."""
FUNCTIONS = {
    "objc_getClass": Signature(P, (ctypes.c_char_p,)),
    "sel_registerName": Signature(P, (ctypes.c_char_p,)),
}


class ObjectiveCError(RuntimeStateError):
    """A message failed with an NSError."""

    def __init__(self, message: str, *, operation: str, code: int) -> None:
        super().__init__(message, operation=operation)
        self.code = code


class ObjectiveC:
    """The runtime, and the frameworks whose classes are wanted.

    Raises:
        RuntimeStateError: The runtime or a framework cannot be loaded.
    """

    def __init__(self, runtime: str, frameworks: Sequence[str]) -> None:
        self.library = load_library(runtime)
        self.frameworks = [load_library(path) for path in frameworks]
        self.functions = bind_functions(self.library, runtime, FUNCTIONS)
        self.message = ctypes.cast(self.library["objc_msgSend"], P).value or 0
        self.selectors: dict[str, int] = {}
        self.prototypes: dict[tuple[Any, ...], Any] = {}

    def get_class(self, name: str) -> int:
        """Return a class.

        Raises:
            RuntimeStateError: There is none of that name.
        """
        found = self.functions["objc_getClass"](name.encode())
        if not found:
            raise RuntimeStateError(f"the frameworks that are loaded have no class {name}")
        return found

    def send(self, receiver: int | str, selector: str, *arguments: object) -> int:
        """Send a message that gives an object, to an object or to a class by its name; 0 is nil."""
        return self.call(P, receiver, selector, *arguments) or 0

    def ask(self, receiver: int, selector: str, *arguments: object) -> int:
        """Send a message that gives an integer."""
        return self.call(ctypes.c_longlong, receiver, selector, *arguments)

    def call(self, result: Any, receiver: int | str, selector: str, *arguments: object) -> Any:  # noqa: ANN401 - types of ctypes
        """Send a message that gives a value of a type of ctypes, None for nothing."""
        target = self.get_class(receiver) if isinstance(receiver, str) else receiver
        if selector not in self.selectors:
            self.selectors[selector] = self.functions["sel_registerName"](selector.encode())
        types = tuple(type(one) if isinstance(one, NUMBERS) else P for one in arguments)
        if (result, types) not in self.prototypes:
            self.prototypes[result, types] = ctypes.CFUNCTYPE(result, P, P, *types)
        return self.prototypes[result, types](self.message)(target, self.selectors[selector], *arguments)

    def attempt(self, receiver: int, selector: str, *arguments: object) -> None:
        """Send a message that says whether it succeeded and takes the place for an error last.

        Raises:
            ObjectiveCError: It did not succeed; the message is that of the NSError.
        """
        error = P()
        if not self.call(ctypes.c_bool, receiver, selector, *arguments, ctypes.byref(error)):
            raise self.failure(selector, error.value)

    def failure(self, selector: str, error: int | None) -> ObjectiveCError:
        """Return an NSError as an error of Python."""
        if not error:
            return ObjectiveCError("the message failed without an NSError", operation=selector, code=-1)
        code = self.ask(error, "code")
        domain = self.read_text(self.send(error, "domain"))
        text = self.read_text(self.send(error, "localizedDescription"))
        return ObjectiveCError(f"{domain} {code}: {text}", operation=selector, code=code)

    @contextmanager
    def pool(self) -> Generator[None]:
        """Drain what messages give and was not retained, at the end of a block."""
        pool = self.send("NSAutoreleasePool", "new")
        try:
            yield
        finally:
            self.call(None, pool, "drain")

    def retain(self, thing: int) -> int:
        """Keep an object after the pool it is in."""
        return self.send(thing, "retain")

    def release(self, thing: int) -> None:
        """Keep an object no longer; nil is left alone."""
        if thing:
            self.call(None, thing, "release")

    def text(self, value: str) -> int:
        """Return a string."""
        return self.send("NSString", "stringWithUTF8String:", ctypes.c_char_p(value.encode()))

    def data(self, value: bytes) -> int:
        """Return data, which are copied."""
        return self.send("NSData", "dataWithBytes:length:", ctypes.c_char_p(value), ctypes.c_size_t(len(value)))

    def number(self, value: int) -> int:
        """Return an integer."""
        return self.send("NSNumber", "numberWithLongLong:", ctypes.c_longlong(value))

    def array(self, items: Sequence[int]) -> int:
        """Return an array of objects."""
        held = (P * len(items))(*items)
        return self.send("NSArray", "arrayWithObjects:count:", ctypes.cast(held, P), ctypes.c_size_t(len(items)))

    def dictionary(self, items: Mapping[str, int]) -> int:
        """Return a dictionary of objects by strings."""
        count = len(items)
        keys, values = (P * count)(*map(self.text, items)), (P * count)(*items.values())
        return self.send(
            "NSDictionary",
            "dictionaryWithObjects:forKeys:count:",
            ctypes.cast(values, P),
            ctypes.cast(keys, P),
            ctypes.c_size_t(count),
        )

    def read_text(self, thing: int | None) -> str:
        """Return a string of Objective-C; nil is empty."""
        found = self.call(ctypes.c_char_p, thing, "UTF8String") if thing else None
        return (found or b"").decode(errors="replace")

    def read_number(self, thing: int) -> int:
        """Return an integer of Objective-C."""
        return self.ask(thing, "longLongValue")

    def items(self, array: int) -> list[int]:
        """Return the objects of an array."""
        count = self.ask(array, "count")
        return [self.send(array, "objectAtIndex:", ctypes.c_size_t(number)) for number in range(count)]

    def value(self, dictionary: int, key: str) -> int | None:
        """Return the object of a key, or None."""
        return self.send(dictionary, "objectForKey:", self.text(key)) or None
