"""What an evaluation costs: processor seconds for each sample and chip of ResNet-18, and for the float32 reference.

Processor seconds are counted, not those of the clock, so that other work on the machine changes little. The last lines
say what 50,000 images on 21 targets take at that rate.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "networks"))

from aneforge.commands.evaluating import evaluate
from resnet18 import resnet18

IMAGES, TARGETS = 50_000, 21
FEW, MANY = 2, 10
CHIPS = ("m1", "m5")


def seconds(samples: int, chips: tuple[str, ...], *, reference: bool) -> float:
    """Return the processor seconds of an evaluation, with everything that belongs to it."""
    images = list(np.random.default_rng(0).standard_normal((samples, 3, 224, 224)).astype(np.float32))
    began = time.process_time()
    evaluate(resnet18(), images, list(chips), reference=reference, explain=0)
    return time.process_time() - began


def for_each_sample(chips: tuple[str, ...], *, reference: bool) -> float:
    """Return the processor seconds of one more sample: compiling and loading fall out of the difference."""
    few, many = (seconds(samples, chips, reference=reference) for samples in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    seconds(1, CHIPS, reference=True)  # what is compiled and imported once
    one = for_each_sample(CHIPS[:1], reference=False)
    two = for_each_sample(CHIPS, reference=False)
    reference = for_each_sample(CHIPS[:1], reference=True) - one
    print("| ResNet-18, processor seconds for a sample | |\n| --- | --- |")
    print(f"| one chip | {one:.3f} |")
    print(f"| a further chip | {two - one:.3f} |")
    print(f"| the float32 reference | {reference:.3f} |")
    for what, each in (("without the reference", 0.0), ("with it", reference)):
        hours = IMAGES * (one + (TARGETS - 1) * (two - one) + each) / 3600
        print(f"| {IMAGES:,} images on {TARGETS} targets {what} | {hours:.0f} core hours |")


if __name__ == "__main__":
    main()
