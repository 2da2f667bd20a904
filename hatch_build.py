"""The build hook of the package: compiles the kernels, or says why it cannot and lets the package be built without."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path(__file__).parent / "src" / "aneforge" / "engine" / "kernels"


def builder() -> Any:  # noqa: ANN401 - a module that is loaded by its file
    """Return the module that compiles; the package itself cannot be imported before it is installed."""
    spec = importlib.util.spec_from_file_location("aneforge_kernel_build", KERNELS / "build.py")
    assert spec is not None  # noqa: S101 - the file is part of the sources
    assert spec.loader is not None  # noqa: S101 - and has the suffix of a module
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


class KernelHook(BuildHookInterface):
    """Puts the library beside its binding, and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library; an editable install uses it where it lies."""
        build = builder()
        try:
            library = build.build_library(KERNELS)
        except build.BuildError as error:
            self.app.display_warning(f"the fast kernels are left out, the golden model will run: {error}")
            return
        if version == "editable":
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(library)] = f"aneforge/engine/kernels/{library.name}"
