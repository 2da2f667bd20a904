"""Texts and tokens by tokenizer.json, and tokenizers that do not belong to their model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers.pre_tokenizers import ByteLevel

from aneforge.errors import CheckpointError
from aneforge.llm.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "Größe: 3 € \N{GRINNING FACE}, ok"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a tokenizer of single bytes, with a token that begins texts."""
    alphabet = sorted(ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(["<s>", *alphabet])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>"])  # pyright: ignore[reportUnknownMemberType] - the library types its list partially
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_texts_come_back(folder: Path) -> None:
    tokenizer = TextTokenizer(folder, 257)
    tokens = tokenizer.encode(TEXT)
    assert tokens[0] == 0
    assert len(tokens) == 1 + len(TEXT.encode())
    assert tokenizer.encode(TEXT, special=False) == tokens[1:]
    assert tokenizer.decode(tokens) == TEXT
    assert tokenizer.decode(tokens, special=True) == "<s>" + TEXT


def test_streams_give_whole_characters(folder: Path) -> None:
    tokenizer = TextTokenizer(folder)
    pieces = list(tokenizer.stream(tokenizer.encode(TEXT)))
    assert "".join(pieces) == TEXT
    assert all("\N{REPLACEMENT CHARACTER}" not in piece for piece in pieces)
    assert len(pieces) == len(TEXT)


def test_bytes_that_are_no_characters_do_not_stop_a_stream(folder: Path) -> None:
    tokenizer = TextTokenizer(folder)
    tokens = tokenizer.encode("aé", special=False)
    broken = [tokens[0], *[tokens[1]] * 9, tokens[0]]
    assert "".join(tokenizer.stream(broken)).endswith("a")
    assert "".join(tokenizer.stream(tokens[:2])).startswith("a")


@pytest.mark.parametrize("rows", [1, 100, 256])
def test_a_tokenizer_of_another_model_is_refused(folder: Path, rows: int) -> None:
    with pytest.raises(CheckpointError, match="no rows for") as caught:
        TextTokenizer(folder / "tokenizer.json", rows)
    assert (caught.value.seen, caught.value.limit) == ("tokens up to 256", f"{rows} rows")


def test_more_rows_than_tokens_are_fine(folder: Path) -> None:
    assert TextTokenizer(folder, 512).size == 257


def test_bad_input(folder: Path) -> None:
    tokenizer = TextTokenizer(folder)
    with pytest.raises(CheckpointError, match="no tokens"):
        tokenizer.encode("", special=False)
    for token in (-1, 257):
        with pytest.raises(CheckpointError, match="no such token"):
            tokenizer.decode([token])
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        TextTokenizer(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"there is no tokenizer\.json"):
        TextTokenizer(folder)


def test_rows_beyond_the_tokens_are_shown_by_number(folder: Path) -> None:
    tokenizer = TextTokenizer(folder, 300)
    ok = tokenizer.encode("ok", special=False)
    assert tokenizer.readable([*ok, 257, 299, *ok]) == "ok<257><299>ok"
    with pytest.raises(CheckpointError, match="no such token"):
        tokenizer.decode([257])
