"""Fuzzes the reader of network descriptions: bytes as they come, and valid descriptions with a few values changed.

Whatever it is given, the reader returns a graph or raises one of the package's own errors, in bounded time and memory.
A graph that it returns is written again and read again, with the same right to refuse. Needs `pip install atheris`:

    python tools/fuzz_netplist.py --seeds corpus
    python tools/fuzz_netplist.py corpus -max_len=16384 -max_total_time=900 -timeout=10 -rss_limit_mb=2048

What it finds becomes a test in tests/unit/formats/netplist/test_netplist_findings.py.
"""

from __future__ import annotations

import copy
import importlib
import plistlib
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from hypothesis import HealthCheck, Phase, given, settings

atheris: Any = importlib.import_module("atheris")  # installed for fuzzing alone, and without types

with atheris.instrument_imports(include=["aneforge.formats.netplist"]):
    from aneforge.formats.netplist.reading import parse_netplist

from aneforge.errors import AneforgeError  # noqa: E402 - as above
from aneforge.formats.netplist.writing import netplist  # noqa: E402 - what is instrumented is imported first
from aneforge.testing.descriptions import DRAWN, descriptions  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.sketch import Plain, Sketch


class Chooser(Protocol):
    """What takes decisions out of the fuzzer's bytes."""

    def ConsumeIntInRange(self, least: int, most: int) -> int:  # noqa: N802 - the fuzzer's name
        """Return an integer between two."""
        ...

    def ConsumeInt(self, nbytes: int) -> int:  # noqa: N802 - the fuzzer's name
        """Return an integer of some bytes."""
        ...

    def ConsumeBool(self) -> bool:  # noqa: N802 - the fuzzer's name
        """Return a boolean."""
        ...


RAW = 4
"""One input of so many is taken as the bytes of a file; the others change a description."""
TRICKY: tuple[Plain, ...] = (
    0, 1, -1, 2, 7, 255, 0x7C00, 0x7E00, 0xFFFF, 1 << 31, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 0.0, -0.0, 1.5,
    float("inf"), float("nan"), "", "x", "u", "y", "c", "Width", "Depth", "Units", "\x00", "\ud7ff", "a" * 300, b"data",
    True, False, [], {}, [0], ["x", "x"], {"Dimension": "Width", "Size": 3},
)  # fmt: skip


def seeds() -> list[Sketch]:
    """Return a few valid descriptions of every layer type."""
    found: list[Sketch] = []
    for kind in sorted(DRAWN):

        @settings(
            max_examples=4,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(descriptions(kind))
        def take(sketch: Sketch) -> None:
            found.append(sketch)

        take()
    return found


def containers(root: Plain) -> list[dict[str, Plain] | list[Plain]]:
    """Return every dictionary and list of a description that is not empty."""
    found: list[dict[str, Plain] | list[Plain]] = []
    stack = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, dict | list) and value:
            found.append(value)
            stack += value.values() if isinstance(value, dict) else value
    return found


def change(root: dict[str, Plain], chooser: Chooser) -> None:
    """Change, take away or exchange values of a description."""
    for _ in range(chooser.ConsumeIntInRange(1, 4)):
        places = containers(root)
        if not places:
            return
        place = places[chooser.ConsumeIntInRange(0, len(places) - 1)]
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[chooser.ConsumeIntInRange(0, len(keys) - 1)]
        kept = cast("dict[object, Plain]", place)
        match chooser.ConsumeIntInRange(0, 3):
            case 0:
                kept[key] = copy.deepcopy(TRICKY[chooser.ConsumeIntInRange(0, len(TRICKY) - 1)])
            case 1:
                kept[key] = chooser.ConsumeInt(8)
            case 2:
                del kept[key]
            case _:
                other = places[chooser.ConsumeIntInRange(0, len(places) - 1)]
                if not isinstance(other, dict) or root is not other:
                    kept[key] = copy.deepcopy(cast("Plain", other))


def read(data: bytes, weights: Mapping[str, bytes]) -> None:
    """Read a description, and write and read again what was read."""
    graph = parse_netplist(data, weights)
    with suppress(AneforgeError):
        written = netplist(graph)
        parse_netplist(written.data(binary=True), written.weights)


def write_seeds(folder: Path, known: list[Sketch]) -> None:
    """Write descriptions as inputs that are taken as the bytes of a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, sketch in enumerate(known):
        for binary in (False, True):
            data = b"\0" + sketch.data(binary=binary)
            (folder / f"seed{number}{'b' if binary else 'x'}").write_bytes(data)


def main() -> None:
    """Run until a time limit, or a finding."""
    warnings.simplefilter("ignore")
    known = seeds()
    if sys.argv[1:2] == ["--seeds"]:
        write_seeds(Path(sys.argv[2]), known)
        return

    def one_input(data: bytes) -> None:
        if data and data[0] % RAW == 0:
            with suppress(AneforgeError):
                parse_netplist(data[1:], {"weights.0": b"", "weights.1": bytes(64)})
            return
        chooser: Chooser = atheris.FuzzedDataProvider(data)
        sketch = known[chooser.ConsumeIntInRange(0, len(known) - 1)]
        root = copy.deepcopy(sketch.root)
        binary = chooser.ConsumeBool()
        change(root, chooser)
        try:
            described = plistlib.dumps(root, fmt=plistlib.FMT_BINARY if binary else plistlib.FMT_XML)
        except (ValueError, OverflowError, TypeError):
            return  # no such description can be written down
        with suppress(AneforgeError):
            read(described, sketch.weights)

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
