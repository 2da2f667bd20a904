"""What is released: version and changelog, metadata, the files of sdist and wheel, and builds without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.utils import canonicalize_name, parse_wheel_filename

import native_build
from aneforge._version import __version__
from aneforge.engine.kernels import library
from built_libraries import put_built_libraries
from release_contents import changelog_version, file_names, metadata_text, missing_files, unwanted_files

ROOT = Path(__file__).parent.parent.parent
NO_COMPILER = "there is no C compiler (no-c-compiler)"
needs_backend = pytest.mark.skipif(
    find_spec("hatchling") is None, reason="hatchling is not here; the extra test has it"
)


@dataclass(frozen=True)
class Sources:
    """An sdist, and what is in it."""

    archive: Path
    tree: Path


def built(kind: str, tree: Path, output: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Build a distribution of a tree in a process of its own, as an installer does."""
    call = f"from hatchling.build import build_{kind} as build; print(build({str(output)!r}))"
    environment = {**os.environ, **settings}
    return subprocess.run(
        [sys.executable, "-c", call], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("release")
    done = built("sdist", ROOT, folder)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return Sources(archive, folder / archive.name.removesuffix(".tar.gz"))


def only_wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


def assert_metadata(distribution: Path) -> None:
    found = Metadata.from_email(metadata_text(distribution), validate=True)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (found.name, str(found.version), found.license_expression) == ("aneforge-open", __version__, "MIT")
    assert found.description_content_type == "text/markdown"
    assert set(found.provides_extra or ()) == set(wanted["optional-dependencies"])
    always = {canonicalize_name(one.name) for one in found.requires_dist or () if one.marker is None}
    assert always == {canonicalize_name(one.partition(">")[0]) for one in wanted["dependencies"]}


def test_the_changelog_begins_with_this_version() -> None:
    assert changelog_version()[0] == __version__


@needs_backend
def test_the_sdist_has_what_a_build_needs_and_no_more(sources: Sources) -> None:
    assert missing_files(sources.archive) == []
    assert unwanted_files(file_names(sources.archive)) == []
    assert_metadata(sources.archive)


@needs_backend
def test_without_a_compiler_the_wheel_says_why(sources: Sources, tmp_path: Path) -> None:
    done = built("wheel", sources.tree, tmp_path, CC="no-c-compiler")
    assert done.returncode == 0, done.stderr
    assert (
        f"the fast kernels are left out: the golden model (NumPy) will run, hundreds of times slower: {NO_COMPILER}"
        in (done.stdout + done.stderr)
    )
    wheel = only_wheel(tmp_path)
    assert {str(tag) for tag in parse_wheel_filename(wheel.name)[3]} == {"py3-none-any"}
    assert (missing_files(wheel), unwanted_files(file_names(wheel))) == ([], [])
    assert_metadata(wheel)
    reasons = {name for name in file_names(wheel) if name.endswith(".missing")}
    assert reasons == {f"aneforge/{folder}" for folder in reason_files()}
    assert (sources.tree / "src" / "aneforge" / reason_files()[0]).read_text(encoding="utf-8") == f"{NO_COMPILER}\n"


def reason_files() -> list[str]:
    """Return where each library's reason is, within the package."""
    wanted = [one for one in native_build.LIBRARIES if one.is_for_this_system]
    return [(one.folder.relative_to(native_build.PACKAGE) / one.reason_name).as_posix() for one in wanted]


@needs_backend
def test_a_release_without_its_libraries_is_a_build_error(sources: Sources, tmp_path: Path) -> None:
    done = built("wheel", sources.tree, tmp_path, CC="no-c-compiler", ANEFORGE_REQUIRE_NATIVE="1")
    assert done.returncode != 0
    assert f"aneforge_kernels cannot be built, and ANEFORGE_REQUIRE_NATIVE is set: {NO_COMPILER}" in (
        done.stdout + done.stderr
    )
    assert list(tmp_path.iterdir()) == []


@needs_backend
@pytest.mark.skipif(library.library() is None, reason="the kernels are not built: no C compiler when it was installed")
def test_a_wheel_with_libraries_is_for_this_platform(sources: Sources, tmp_path: Path) -> None:
    tree = Path(shutil.copytree(sources.tree, tmp_path / "tree"))
    libraries = put_built_libraries(tree)
    done = built("wheel", tree, tmp_path, CC="no-c-compiler")
    assert done.returncode == 0, done.stderr
    wheel = only_wheel(tmp_path)
    (tag,) = parse_wheel_filename(wheel.name)[3]
    assert (tag.interpreter, tag.abi) == ("py3", "none")
    assert tag.platform != "any"
    assert libraries <= set(file_names(wheel))
    assert (missing_files(wheel), unwanted_files(file_names(wheel))) == ([], [])


def test_the_reason_of_missing_kernels_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "PATH", tmp_path / "aneforge_kernels.so")
    assert library.reason_missing() == "there is no aneforge_kernels.so in the package (folder engine/kernels)"
    record = native_build.record_reason(native_build.KERNELS, native_build.BuildError("no compiler"), tmp_path)
    assert record.name == library.REASON
    assert library.reason_missing() == "no compiler"
    native_build.record_reason(native_build.KERNELS, native_build.BuildError("it failed\ncc -O3\nerror: x"), tmp_path)
    assert library.reason_missing() == f"it failed; see {record}"
    library.PATH.write_text("not a library")
    assert (
        library.reason_missing() == "aneforge_kernels.so cannot be loaded by this system, or belongs to another version"
    )
