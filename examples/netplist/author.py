"""Writes network descriptions of layers that no converter emits, and reads them back.

python examples/netplist/author.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import aneforge as af
from aneforge.formats.netplist.reading import load_netplist
from aneforge.formats.netplist.writing import netplist

HERE = Path(__file__).parent


def attention() -> af.Graph:
    """Return the fused attention layer with a causal mask: its fifth bottom."""
    query, key, value = (af.input((1, 8, 64, 32), name=name) for name in ("query", "key", "value"))
    return af.Graph({"attended": af.sdpa(query, key, value, is_causal=True, native=True)})


def ranking() -> af.Graph:
    """Return the five largest of a row, and where they stand."""
    values, places = af.topk(af.input((1, 256), name="scores"), 5)
    return af.Graph({"largest": values, "places": places.cast("fp16")})


def points() -> af.Graph:
    """Return points far from each other, and what lies around them."""
    cloud = af.input((512, 3), name="cloud")
    chosen = af.fps(cloud, 16)
    return af.Graph({"chosen": chosen, "around": af.radius_search(cloud, chosen, 0.25)})


def block() -> af.Graph:
    """Return a convolution, its normalisation and silu: what has no layer is built from what has one."""
    generator = np.random.default_rng(0)
    kernel = generator.standard_normal((16, 8, 3, 3)).astype(np.float16)
    image = af.input((1, 8, 32, 32), name="image")
    ones, zeros = np.ones(16), np.zeros(16)
    normal = af.batch_norm(af.conv(image, kernel, pad=1), ones, zeros, zeros, ones)
    return af.Graph({"features": normal.silu()})


EXAMPLES = {"attention": attention, "ranking": ranking, "points": points, "block": block}


def main() -> None:
    """Write every example into a folder, read it back, and print its layers and what was built from others."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        for name, build in EXAMPLES.items():
            written = netplist(build())
            path = written.save(folder / name)
            graph = load_netplist(path)
            layers = [unit.type for unit in written.document.networks[0].units]
            print(f"{name}: {', '.join(layers)}")
            for change in dict.fromkeys((change.op, change.detail) for change in written.changes):
                print(f"  {change[0]}: {change[1]}")
            print(f"  read back: {graph!r}")
    print(f"by hand: {load_netplist(HERE / 'upsampling.plist')!r}")


if __name__ == "__main__":
    main()
