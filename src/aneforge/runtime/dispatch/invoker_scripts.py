"""Installing the invokers: small scripts that start the interpreter which has this package, and no other.

A client of the invokers may have a package of the same name, and an environment that points at it. So a script names
the interpreter and the folder of this package itself, and the interpreter starts isolated from the client's variables
and working directory. `/bin/sh` starts it, because a first line may name no path with spaces and no long one.
"""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge
from aneforge.runtime.dispatch.invokers import INVOKERS
from aneforge.targets import resolve
from aneforge.targets.host import ENVIRONMENT_VARIABLE
from aneforge.whole_files import write_together

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["install_invokers", "script_text"]

EXECUTABLE = 0o755
STARTED = """import sys
sys.path.insert(0, sys.argv[1])
from aneforge.runtime.dispatch.invokers import main
sys.exit(main(sys.argv[2], sys.argv[3:]))"""
SCRIPT = """#!/bin/sh
# Written by `aneforge invoker install`: it runs network descriptions on the software engine of aneforge.
python={python}
root={root}
if [ ! -x "$python" ] || [ ! -d "$root/aneforge/runtime/dispatch" ]; then
    echo "$0: aneforge is not at $root with the interpreter $python; run aneforge invoker install again" >&2
    echo '{{"status": "engine_missing", "error": "aneforge was moved; run aneforge invoker install again"}}'
    exit 1
fi
{setting}exec "$python" -I -c {started} "$root" {name} "$@"
"""
SETTING = """{variable}=${{{variable}:-{target}}}
export {variable}
"""


def install_invokers(folder: str | os.PathLike[str], target: str | None = None) -> tuple[Path, ...]:
    """Write the invokers into a folder, each of them whole or not at all, and return their paths.

    Descriptions are compiled for the target that ANEFORGE_TARGET names where an invoker is started; `target` is what
    they are compiled for where it names none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in install_invokers(folder)]
    ['sdpa_invoker', 'layer_invoker', 'rank_invoker', 'persistent_worker']

    Raises:
        UnknownTargetError: The target name is unknown.
        OSError: A file cannot be written.
    """
    chosen = None if target is None else resolve(target).name
    paths = tuple(Path(folder) / name for name in INVOKERS)
    write_together({path: partial(write_script, script_text(path.name, chosen)) for path in paths})
    return paths


def script_text(name: str, target: str | None) -> str:
    """Return the script of an invoker."""
    return SCRIPT.format(
        python=shlex.quote(sys.executable),
        root=shlex.quote(str(Path(aneforge.__path__[0]).resolve().parent)),
        setting="" if target is None else SETTING.format(variable=ENVIRONMENT_VARIABLE, target=target),
        started=shlex.quote(STARTED),
        name=name,
    )


def write_script(text: str, file: BinaryIO) -> None:
    """Write a script that is executable before it has its name."""
    file.write(os.fsencode(text))
    os.fchmod(file.fileno(), EXECUTABLE)
