"""Values of a target that a pass can do without: a source may not give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aneforge.targets import Properties

__all__ = ["known"]


def known(properties: Properties, name: str) -> int | None:
    """Return an integer of a target; None where no source gives it.

    >>> from aneforge.targets import Family, resolve
    >>> target = resolve(Family.A13)
    >>> known(target.hal, "dense_kernel_memory"), known(target.hal, "unicast_input_channel_limit")
    (65536, None)
    """
    return properties.integer(name) if name in properties else None
