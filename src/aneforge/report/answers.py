"""The answers of commands other than `check` as JSON: the command, whether it succeeds, and all fields in order."""

from __future__ import annotations

import msgspec

__all__ = ["VERSION", "Answer", "answer_to_json"]

VERSION = 1
"""Number of this form."""


class Answer(msgspec.Struct, frozen=True):
    """What a command answers."""

    version: int
    command: str
    ok: bool
    """The exit code is 0."""
    answer: object


def answer_to_json(command: str, answer: object, *, ok: bool = True) -> str:
    """Return the answer of a command as JSON text; numbers that are not finite are null.

    >>> print(answer_to_json("ops", [{"op": "relu"}]), end="")
    {
     "version": 1,
     "command": "ops",
     "ok": true,
     "answer": [
      {
       "op": "relu"
      }
     ]
    }
    """
    encoded = msgspec.json.encode(Answer(VERSION, command, ok, answer))
    return msgspec.json.format(encoded, indent=1).decode() + "\n"
