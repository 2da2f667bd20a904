"""Names for examples in help texts: every other room asks for them here, as it asks for every name of a chip.

>>> from aneforge.targets import resolve
>>> [resolve(name).name for name in NAMES.values()]
['h13', 'h17', 'h16g', 'h17', 'h17s', 'h14']
"""

from __future__ import annotations

__all__ = ["NAMES"]

NAMES = {
    "old": "m1",
    "new": "m5",
    "pro": "m4-pro",
    "target": "h17",
    "large": "h17s",
    "family": "family:a14",
}
"""An early chip, a late one, one of several with one target; a target, a larger one; a family."""
