"""The documented import path `aneforge.hwx`: compiled containers.

Names only; `aneforge.formats.hwx` and `aneforge.runtime.hwx` hold the code.
"""

from aneforge.formats.hwx.ane_file import AneFile, ane_of, read_ane, write_ane
from aneforge.formats.hwx.container import Container, Port
from aneforge.formats.hwx.descriptors.disassembly import disassemble
from aneforge.formats.hwx.descriptors.meaning import TaskMeaning, meaning
from aneforge.formats.hwx.descriptors.task import Task
from aneforge.formats.hwx.program_tasks import tasks_of
from aneforge.formats.hwx.read_hwx import read
from aneforge.formats.hwx.write_hwx import write
from aneforge.runtime.hwx.emit_program import EmittedFile, EmittedProgram, emit
from aneforge.runtime.hwx.execute import HwxRun, execute

__all__ = [
    "AneFile",
    "Container",
    "EmittedFile",
    "EmittedProgram",
    "HwxRun",
    "Port",
    "Task",
    "TaskMeaning",
    "ane_of",
    "disassemble",
    "emit",
    "execute",
    "meaning",
    "read",
    "read_ane",
    "tasks_of",
    "write",
    "write_ane",
]
