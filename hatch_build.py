"""The build hook of the package: compiles its C libraries, or leaves them out and records why.

The reason goes into the package, for pip hides what a build prints: whoever uses it without the libraries is told. With
`ANEFORGE_REQUIRE_NATIVE=1` a build that cannot have them fails instead, as a release must.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
REQUIRED = "ANEFORGE_REQUIRE_NATIVE"
WITHOUT = {
    "aneforge_kernels": "the fast kernels are left out: the golden model (NumPy) will run, hundreds of times slower",
    "libane_open": "the dispatch library is left out: programs that were written for a Mac's engine will not run",
}


def builder() -> Any:  # noqa: ANN401 - a module that is loaded by its file
    """Return the module that compiles; the package itself cannot be imported before it is installed."""
    spec = importlib.util.spec_from_file_location("aneforge_native_build", ROOT / "tools" / "native_build.py")
    assert spec is not None  # noqa: S101 - the file is part of the sources
    assert spec.loader is not None  # noqa: S101 - and has the suffix of a module
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


class NativeHook(BuildHookInterface):
    """Puts each library, or the reason why it is missing, beside its binding and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the libraries; an editable install uses them where they lie."""
        build = builder()
        for library in build.LIBRARIES:
            if not library.is_for_this_system:
                continue
            try:
                result = build.build_library(library)
            except build.BuildError as error:
                if os.environ.get(REQUIRED, "0") != "0":
                    self.app.abort(f"{library.name} cannot be built, and {REQUIRED} is set: {error}")
                self.app.display_warning(f"{WITHOUT[library.name]}: {error}")
                result = build.record_reason(library, error)
            else:
                platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{platform}"
            if version != "editable":
                build_data["force_include"][str(result)] = result.relative_to(ROOT / "src").as_posix()
