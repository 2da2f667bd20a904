"""The main job on embedded models: will this network run on these chips, and if not, why and what to do.

python examples/demo.py

It is what `aneforge demo` prints; with arguments, what `aneforge` prints for them.
"""

from __future__ import annotations

import sys

from aneforge.cli.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:] or ["demo"]))
