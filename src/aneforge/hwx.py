"""The documented import path `aneforge.hwx`: compiled containers. Names only; `aneforge.formats.hwx` holds the code."""

from aneforge.formats.hwx.container import Container, Port
from aneforge.formats.hwx.read_hwx import read
from aneforge.formats.hwx.task_framing import TaskWords, split_tasks
from aneforge.formats.hwx.write_hwx import write

__all__ = ["Container", "Port", "TaskWords", "read", "split_tasks", "write"]
