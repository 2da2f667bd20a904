"""The build of the kernels: what it needs, what it keeps, and how it fails."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import native_build as build
from aneforge.engine.kernels import library

if TYPE_CHECKING:
    from pathlib import Path


def stand_in(folder: Path, name: str, text: str) -> None:
    """Put a program into a folder that stands in for a compiler."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_the_build_and_the_binding_agree_on_the_name() -> None:
    assert library.PATH.name == build.KERNELS.file_name


def test_no_compiler_is_a_clear_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(build.BuildError, match=r"there is no C compiler \(cc, gcc or clang\)"):
        build.build_library(build.KERNELS, tmp_path)
    monkeypatch.setenv("CC", "my-own-cc")
    with pytest.raises(build.BuildError, match=r"there is no C compiler \(my-own-cc\)"):
        build.Toolchain.of_host()


def test_systems_with_another_kind_of_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(build.BuildError, match="compilers like gcc and clang"):
        build.Toolchain.of_host()
    assert build.KERNELS.file_name == "aneforge_kernels.dll"


def test_a_compiler_that_fails_leaves_no_old_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "cc", "#!/bin/sh\necho no such luck >&2\nexit 1\n")
    old = tmp_path / build.KERNELS.file_name
    old.write_text("built from other sources")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(build.BuildError, match="no such luck"):
        build.build_library(build.KERNELS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_what_is_built_already_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "cc", '#!/bin/sh\nfor last; do :; done\necho built > "$last"\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv("CC", raising=False)
    built = build.build_library(build.KERNELS, tmp_path)
    assert built.read_text() == "built\n"
    monkeypatch.setenv("PATH", "")
    assert build.build_library(build.KERNELS, tmp_path) == built
    other = replace(build.KERNELS, flags=("-O0",))
    with pytest.raises(build.BuildError, match="no C compiler"):
        build.build_library(other, tmp_path)
    assert not built.exists()


def test_the_sources_of_every_machine_are_there() -> None:
    for one in build.LIBRARIES:
        named = {*one.common, *(source for sources in one.paths.values() for source in sources)}
        assert named == {path.stem for path in one.sources.glob("*.c")}
    assert build.machine_name("AMD64") == "x86_64"
    assert build.machine_name("arm64") == "aarch64"
    assert build.Toolchain("cc", "riscv64").definitions == ()


def test_the_dispatch_library_is_for_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(build.BuildError, match="libane_open is for linux, and this is darwin"):
        build.build_library(build.DISPATCH, tmp_path)


def test_the_interface_has_one_number() -> None:
    header = (build.KERNELS.sources / "kernels.h").read_text(encoding="utf-8")
    assert f"#define ANEFORGE_INTERFACE {library.INTERFACE}\n" in header


@pytest.mark.skipif(not library.paths(), reason="the kernels are not built: no C compiler when it was installed")
def test_a_path_that_is_not_there_is_refused() -> None:
    found = library.library()
    assert found is not None
    assert found.aneforge_path(99) is None
    assert found.aneforge_path(-1) is None
    assert found.aneforge_lookup(None, None, None, ctypes.c_int64(0), 99, 1) == 2
