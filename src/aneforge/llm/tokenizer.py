"""Texts to tokens and back, by the `tokenizer.json` of a model folder, which the library `tokenizers` reads."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from aneforge.errors import CheckpointError, Location
from aneforge.packages import expect_package

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["TextTokenizer"]

FILE = "tokenizer.json"
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
"""What bytes that are not a whole character yet are shown as."""
LEFT_OPEN = 4
"""A character has at most so many bytes, each of which may be a token: what is open longer is not a character."""


class Encoded(Protocol):
    """A text in tokens, as the library has it."""

    ids: list[int]


class LibraryTokenizer(Protocol):
    """What is needed of the library here, typed."""

    def encode(self, text: str, /, *, add_special_tokens: bool) -> Encoded: ...
    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool) -> str: ...
    def get_vocab(self) -> Mapping[str, int]: ...
    def token_to_id(self, token: str, /) -> int | None: ...


class TextTokenizer:
    """The tokenizer of a model.

    `vocabulary` is how many tokens the model has rows for; a tokenizer with a token beyond them is that of another
    model. A model may have more rows than its tokenizer has tokens: they are padded to a round number.

    >>> TextTokenizer("/no/such/folder")
    Traceback (most recent call last):
    ...
    aneforge.errors.CheckpointError: at /no/such/folder: there is no tokenizer.json. Remedy: copy it from the source \
of the weights, or give tokens instead of a text

    Raises:
        CheckpointError: The file is missing or damaged, or does not match the vocabulary.
        MissingPackageError: The package tokenizers is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], vocabulary: int | None = None) -> None:
        place = Path(path)
        self.path = place if place.suffix == ".json" else place / FILE
        if not self.path.is_file():
            raise CheckpointError(
                f"there is no {FILE}",
                location=Location(os.fspath(path)),
                remedy="copy it from the source of the weights, or give tokens instead of a text",
            )
        self.library = open_tokenizer(self.path)
        self.size = 1 + max(self.library.get_vocab().values(), default=-1)
        if vocabulary is not None and self.size > vocabulary:
            raise CheckpointError(
                "the tokenizer has tokens that the model has no rows for",
                location=Location(os.fspath(self.path)),
                seen=f"tokens up to {self.size - 1}",
                limit=f"{vocabulary} rows",
                remedy="the tokenizer is of another model: copy the one that came with the weights",
            )

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; with `special`, as the model was trained, such as after one that begins a text.

        Raises:
            CheckpointError: There are none.
        """
        found = self.library.encode(text, add_special_tokens=special).ids
        if not found:
            raise CheckpointError(
                "the text has no tokens",
                location=Location(os.fspath(self.path)),
                seen=repr(text[:40]),
                remedy="give a prompt that is not empty",
            )
        return found

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """Return the text of tokens; those that are not text, such as an end, are left out unless `special` keeps them.

        Raises:
            CheckpointError: A number is not a token.
        """
        return self.library.decode(self.checked(tokens), skip_special_tokens=not special)

    def readable(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens that a model generated: those of rows beyond the tokenizer's tokens by number.

        A model may have such rows, and one that is not trained takes them as any others.
        """
        groups = itertools.groupby(tokens, key=lambda token: 0 <= token < self.size)
        return "".join(self.decode(group) if known else "".join(f"<{one}>" for one in group) for known, group in groups)

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text of tokens as they come, each piece as soon as its characters are whole.

        The pieces together are the text of all tokens. Only the last tokens are decoded again for each one.
        """
        window: list[int] = []
        shown = ""
        for token in tokens:
            window += self.checked([token])
            text = self.decode(window)
            if text.endswith(INCOMPLETE) and len(window) <= LEFT_OPEN + 1:
                continue
            if len(text) > len(shown):
                yield text[len(shown) :]
            # The last token stays: how a text goes on may depend on it, such as a blank before a word.
            window = window[-1:]
            shown = self.decode(window)
        rest = self.decode(window) if window else ""
        if len(rest) > len(shown):
            yield rest[len(shown) :]

    def checked(self, tokens: Iterable[int]) -> list[int]:
        """Return tokens as a list.

        Raises:
            CheckpointError: A number is not a token.
        """
        found = [int(token) for token in tokens]
        for token in found:
            if not 0 <= token < self.size:
                raise CheckpointError(
                    "there is no such token",
                    location=Location(os.fspath(self.path)),
                    seen=token,
                    limit=f"0 to {self.size - 1}",
                )
        return found


def open_tokenizer(path: Path) -> LibraryTokenizer:
    """Return what the library reads.

    Raises:
        CheckpointError: The file is damaged.
    """
    expect_package("tokenizers")
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

    try:
        return cast("LibraryTokenizer", Tokenizer.from_file(os.fspath(path)))
    except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
        raise CheckpointError(
            f"the tokenizer cannot be read: {error}",
            location=Location(os.fspath(path)),
            remedy="copy tokenizer.json again from the source of the weights",
        ) from None
