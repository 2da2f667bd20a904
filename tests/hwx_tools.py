"""Real compiled containers: third-party files that the repository does not hold, read from a folder outside of it."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aneforge.formats.hwx.assembly import STYLES, Parts, PlannedPort, assemble
from aneforge.formats.hwx.container import Direction, Element
from aneforge.formats.hwx.descriptors.codec import blank_task, encode_task

if TYPE_CHECKING:
    from aneforge.formats.hwx.container import Container

VARIABLE = "ANEFORGE_HWX_DATA"
REASON = f"{VARIABLE} names no folder with fixtures/manifest.json: third-party .hwx files are not committed"


def hwx_data() -> Path | None:
    """Return the folder of real files: the one that the environment names, or the one beside the checkout."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "hwx"
    folder = Path(os.environ.get(VARIABLE) or beside)
    return folder if (folder / "fixtures" / "manifest.json").is_file() else None


def fixture_names() -> list[str]:
    """Return the names of all real files, for a test of each."""
    folder = hwx_data()
    if folder is None:
        return []
    return [entry["name"] for entry in json.loads((folder / "fixtures" / "manifest.json").read_text(encoding="utf-8"))]


def fixture_path(name: str) -> Path:
    """Return a real file, or skip the test that asks for it."""
    folder = hwx_data()
    if folder is None:
        pytest.skip(REASON)
    return folder / "fixtures" / f"{name}.hwx"


EACH_FIXTURE = pytest.mark.parametrize(
    "name", fixture_names() or [pytest.param("", marks=pytest.mark.skip(reason=REASON))]
)
"""A test of each real file."""


def parts_of(container: Container) -> Parts:
    """Take a container apart into what `assemble` makes it from."""
    text, constants = container.text, container.constants["__TEXT/__const"]
    assert text.content is not None
    assert constants.content is not None
    ports = [
        PlannedPort(port.name.removesuffix("@output"), port.direction, port.shape, Element(port.element))
        for port in sorted(container.ports, key=lambda port: port.address)
    ]
    program = container.program
    return Parts(
        cpu_subtype=container.header.cpu_subtype,
        text=text.content,
        first_task_words=program.first_task_words or 0,
        task_count=program.task_count,
        ports=ports,
        tensors=[tensor.name.removesuffix("@output") for tensor in container.tensors],
        constants=constants.content,
        constant_symbols=[
            (one.name, one.value - constants.address)
            for one in container.symbols
            if one.name[0] == "K" and one.type == 0xF
        ],
        relocations=[one.address for one in text.relocations],
        debug_events=program.debug_events,
        log_events=program.log_events,
        largest_estimate=program.items[0].value if program.items else 0,
        name=program.name,
        identification=container.identification,
    )


def hand_made(style: str = "v4", scratch: int = 0) -> Container:
    """Return a container made here: two tasks of zeros in a chain, three ports, constants and their relocations."""
    first, second = (list(encode_task(blank_task(7, "full"))) for _ in range(2))
    first[1], first[2], first[4], first[7] = (len(second) - 1) << 16 | 3, 0x408, 0x68, 0x300
    second[0], second[2], second[4] = 1 << 25 | 1, 0x422, 0x6A
    words = [*first, *[0] * (0x300 // 4 - len(first)), *second]
    parts = Parts(
        cpu_subtype=4,
        text=memoryview(struct.pack(f"<{len(words)}I", *words)),
        first_task_words=len(first),
        task_count=2,
        ports=[
            PlannedPort("left", Direction.INPUT, (1, 3, 2, 40)),
            PlannedPort("right", Direction.INPUT, (1, 3, 2, 40)),
            PlannedPort("sum", Direction.OUTPUT, (1, 3, 2, 40)),
        ],
        constants=memoryview(bytes(range(128))),
        constant_symbols=[("K_ne_0", 0), ("K_ne_1", 64)],
        relocations=[0x74, 0x78],
        scratch=scratch,
        debug_events=7,
        log_events=5,
        largest_estimate=3,
        identification="made by hand",
    )
    return assemble(parts, STYLES[style])
