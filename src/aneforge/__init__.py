"""The Apple Neural Engine in the open: compile, run bit for bit, predict and explain its programs on any machine.

This module is the public face. It imports its rooms when they are first asked for, so that `import aneforge` stays
cheap and pulls in no framework.

>>> import aneforge as af
>>> len(af.targets.group("families"))
4
"""

import importlib
from typing import TYPE_CHECKING

from aneforge._version import __version__

if TYPE_CHECKING:
    from aneforge import errors, evidence, rules, targets

__all__ = ["__version__", "errors", "evidence", "rules", "targets"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
