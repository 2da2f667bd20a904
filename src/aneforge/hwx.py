"""The documented import path `aneforge.hwx`: compiled containers. Names only; `aneforge.formats.hwx` holds the code."""

from aneforge.formats.hwx.ane_file import AneFile, ane_of, read_ane, write_ane
from aneforge.formats.hwx.container import Container, Port
from aneforge.formats.hwx.descriptors.disassembly import disassemble
from aneforge.formats.hwx.descriptors.meaning import TaskMeaning, meaning
from aneforge.formats.hwx.descriptors.task import Task
from aneforge.formats.hwx.program_tasks import tasks_of
from aneforge.formats.hwx.read_hwx import read
from aneforge.formats.hwx.write_hwx import write

__all__ = [
    "AneFile",
    "Container",
    "Port",
    "Task",
    "TaskMeaning",
    "ane_of",
    "disassemble",
    "meaning",
    "read",
    "read_ane",
    "tasks_of",
    "write",
    "write_ane",
]
