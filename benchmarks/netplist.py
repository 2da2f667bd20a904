"""Time to write network descriptions and to read them: networks, growth with the number of units, mapped weights."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import aneforge as af
from aneforge.formats.netplist.reading import load_netplist, parse_netplist
from aneforge.formats.netplist.writing import netplist, save_netplist

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "networks"))

from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from shared.timing import chain, seconds
from transformer import encoder
from unet import unet

NETWORKS = {"ResNet-18": resnet18, "MobileNet v2": mobilenet_v2, "transformer encoder": encoder, "U-Net": unet}
SIZES = (1_000, 10_000)
LARGE = (4096, 4096)
"""A weight of 32 MiB, eight times over."""


def report(name: str, graph: af.Graph, runs: int) -> float:
    """Print the times to write a graph and to read it back; return that of all together for one unit."""
    written = netplist(graph)
    text, binary = written.data(), written.data(binary=True)
    units = len(written.document.networks[0].units)
    lower = seconds(lambda: netplist(graph), runs)
    dump = [seconds(lambda binary=binary: written.data(binary=binary), runs) for binary in (False, True)]
    read = [seconds(lambda data=data: parse_netplist(data, written.weights), runs) for data in (text, binary)]
    print(
        f"{name}: {len(graph.nodes)} nodes, {units} units; lower {lower * 1e3:.0f} ms; "
        f"XML {len(text) / 1e3:.0f} kB, write {dump[0] * 1e3:.0f} ms, read {read[0] * 1e3:.0f} ms; "
        f"binary {len(binary) / 1e3:.0f} kB, write {dump[1] * 1e3:.0f} ms, read {read[1] * 1e3:.0f} ms"
    )
    return (lower + dump[0] + read[0]) / units


def report_mapping() -> None:
    """Print how long it takes to load a model whose weights are mapped, and how long the reading of its bytes alone."""
    x = af.input((1, LARGE[0]))
    generator = np.random.default_rng(0)
    y = x
    for _ in range(8):
        y = y.linear(generator.standard_normal(LARGE, np.float32).astype(np.float16)).relu()
    with tempfile.TemporaryDirectory() as folder:
        path = save_netplist(y, folder)
        weights = path.parent / "weights.1"
        load = seconds(lambda: load_netplist(path), 5)
        read = seconds(weights.read_bytes, 5)
        size = weights.stat().st_size
    print(
        f"mapped weights of {size / 1e6:.0f} MB: load {load * 1e3:.1f} ms, "
        f"{load / read:.2f} of the time to read the bytes alone"
    )


def main() -> None:
    """Print every line."""
    netplist(af.input((1, 4)).relu())  # reads the tables once
    for name, build in NETWORKS.items():
        report(name, build(), 3)
    per_unit = [report(f"synthetic {size}", chain(size), 1) for size in SIZES]
    print(f"  time per unit at {SIZES[-1]} over that at {SIZES[0]}: {per_unit[-1] / per_unit[0]:.2f}")
    report_mapping()


if __name__ == "__main__":
    main()
