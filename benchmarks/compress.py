"""Weight compression: the time to encode a large weight, in every encoding and from every element type."""

from __future__ import annotations

from time import process_time

import numpy as np

from aneforge.optimise.compress.encodings import blockwise, int4_palette, int8_per_channel, sparse_bitmask
from aneforge.optimise.compress.numbers import relative_error
from shared.timing import seconds

SIZE = 4096
PALETTE_BUDGET = 2.0
RUNS = 3


def main() -> None:
    """Print every line."""
    drawn = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    pruned = np.where(np.abs(drawn) > 1, drawn, 0)
    for dtype in (np.float16, np.float32, np.float64):
        for encoder in (int4_palette, int8_per_channel, blockwise, sparse_bitmask):
            weight = (pruned if encoder is sparse_bitmask else drawn).astype(dtype)
            duration = seconds(lambda: encoder(weight), RUNS, process_time)  # noqa: B023 - called here and now
            error = relative_error(encoder(weight).dense(), weight)
            line = f"{encoder.__name__} of {SIZE}×{SIZE} {dtype.__name__}: {duration:.2f} s, relative error {error:.2g}"
            share = f", {duration / PALETTE_BUDGET:.0%} of the budget of {PALETTE_BUDGET} s"
            print(line + (share if encoder is int4_palette else ""))


if __name__ == "__main__":
    main()
