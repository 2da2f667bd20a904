"""Which lines of a trace are the user's own: neither PyTorch's, nor this package's, nor the standard library's."""

from __future__ import annotations

import os
from pathlib import Path

import torch

__all__ = ["is_users"]

PYTORCH = str(Path(torch.__file__).parent) + os.sep
PACKAGE = str(Path(__file__).parents[2]) + os.sep
STANDARD = str(Path(os.__file__).parent) + os.sep
INSTALLED = ("site-packages", "dist-packages")
"""Folders of the standard library's that hold other people's packages."""


def is_users(file: str) -> bool:
    """Return whether a file is the user's; some of PyTorch's traces leave out where it is installed.

    >>> is_users("model.py"), is_users(os.__file__), is_users("torch/nn/functional.py")
    (True, False, False)
    """
    if file.startswith((PYTORCH, PACKAGE, "torch/", "<")):
        return False
    return not file.startswith(STANDARD) or any(one in Path(file).parts for one in INSTALLED)
