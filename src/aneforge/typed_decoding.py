"""Decoding into typed records by msgspec, one thread at a time.

msgspec learns a type when it first decodes into it. Another thread that decodes into the same type meanwhile meets it
half learnt, and the process ends (msgspec 0.22: a null pointer where the types of nested records are looked up). So no
two threads decode at once; msgspec itself holds the interpreter's lock in any case.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["decode_typed"]

Form = TypeVar("Form")
LOCK = RLock()
if hasattr(os, "register_at_fork"):  # a child would wait for a thread that it does not have
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def decode_typed(content: object, form: type[Form], decoder: Callable[..., Any] = msgspec.json.decode) -> Form:
    """Return what a text holds, or by `msgspec.convert` what a table holds, in the given form.

    >>> decode_typed(b"[1, 2]", tuple[int, ...])
    (1, 2)

    Raises:
        msgspec.MsgspecError: It holds something else.
    """
    with LOCK:
        return cast("Form", decoder(content, type=form))
