"""The window that a unit slides: which parameters are its lengths, steps and padding, for reading and for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.schema import Dim
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.netplist.document import Parameter
    from aneforge.formats.netplist.parameters import Parameters

__all__ = ["SPATIAL", "Window"]

SPATIAL = (Dim.DEPTH, Dim.HEIGHT, Dim.WIDTH)
"""The dimensions that a window slides along, in the order of a graph's axes."""
SIDES = ("Front", "Back", "Top", "Bot", "Left", "Right")


@dataclass(frozen=True, slots=True)
class Window:
    """A window along the last of depth, height and width; along the others it has length 1 and does not move."""

    kernel: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]
    """Before and after, for one dimension after the other."""

    @classmethod
    def of(cls, params: Parameters) -> Window:
        """Return the window of a unit; along the depth only if it does something there."""
        kernel = tuple(params.integer(f"Kernel{dim.spelling}") for dim in SPATIAL)
        width, height, *depth = params.integers("Step")
        steps, pads = (*(depth or [1]), height, width), params.pads(*SIDES)
        if kernel[0] == steps[0] == 1 and not any(pads[:2]):
            return cls(kernel[1:], steps[1:], pads[2:])
        return cls(kernel, steps, pads)

    def in_depth(self) -> Window:
        """Return the same window along all three dimensions."""
        missing = len(SPATIAL) - len(self.kernel)
        return Window((1,) * missing + self.kernel, (1,) * missing + self.steps, (0, 0) * missing + self.pads)

    def params(self) -> dict[str, Parameter]:
        """Return the parameters that the window is."""
        window = self.in_depth()
        return {
            **{f"Kernel{dim.spelling}": length for dim, length in zip(SPATIAL, window.kernel, strict=True)},
            **{f"Pad{side}": pad for side, pad in zip(SIDES, window.pads, strict=True)},
            "Step": tuple(reversed(window.steps)),
        }
