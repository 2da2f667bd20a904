"""Models by their names on the hub of Hugging Face: `owner/name` is fetched where the package for it is installed.

Nothing is fetched for a path: what exists here, or whose folder does, is a path. Files stay where the package keeps
them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol, cast

from aneforge.errors import CheckpointError, Location
from aneforge.packages import expect_package

__all__ = ["is_hub_id", "local_folder"]

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
SETTINGS = ("config.json",)
FILES = (*SETTINGS, "generation_config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json")
"""What is fetched: nothing that is a pickle."""


class FetchesFolder(Protocol):
    """What the package has for it."""

    def __call__(self, repo_id: str, *, allow_patterns: list[str]) -> str: ...


def is_hub_id(path: str | os.PathLike[str]) -> bool:
    """Return whether a text names a model of the hub, and not a place here.

    >>> is_hub_id("Qwen/Qwen3-0.6B"), is_hub_id("./Qwen3-0.6B"), is_hub_id("/models/Qwen3-0.6B"), is_hub_id("a/b.gguf")
    (True, False, False, False)
    """
    text = os.fspath(path)
    place = Path(text)
    if HUB_ID.fullmatch(text) is None or place.suffix in {".gguf", ".json"}:
        return False
    return not place.exists() and not place.parent.exists()


def local_folder(path: str | os.PathLike[str], *, settings_only: bool = False) -> Path:
    """Return a path as it is, and for a name of the hub the folder into which its files were fetched.

    Raises:
        MissingPackageError: It is a name of the hub, and the package that fetches it is not installed.
        CheckpointError: It cannot be fetched.
    """
    if not is_hub_id(path):
        return Path(path)
    name = os.fspath(path)
    expect_package("huggingface_hub")
    import huggingface_hub  # noqa: PLC0415 - few have it

    fetch = cast("FetchesFolder", huggingface_hub.snapshot_download)  # pyright: ignore[reportUnknownMemberType]
    try:
        return Path(fetch(name, allow_patterns=list(SETTINGS if settings_only else FILES)))
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise CheckpointError(
            f"the model cannot be fetched: {first}",
            location=Location(name),
            remedy="name a folder with config.json and safetensors, as save_pretrained writes it",
        ) from None
