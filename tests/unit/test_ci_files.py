"""The files for CI systems do what they say: their steps are read from them and run on a small model."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pytest
import yaml

from aneforge._version import __version__
from aneforge.engine.kernels.library import paths
from aneforge.report.written import load_report
from built_libraries import put_built_libraries
from release_contents import file_names
from report_models import saved
from shell_tools import asked_of, run_shell, with_command, with_recorder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

Read = TypeVar("Read")
ROOT = Path(__file__).parent.parent.parent
LONG = 20_000
"""A length that M1 takes after splitting only."""
INPUT = re.compile(r"\$\{\{ inputs\.([a-z]+) \}\}")
PACKAGE = re.compile(r"install --quiet (?P<package>\S+)\[(?P<extras>[a-z,]+)\]")
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


class Input(msgspec.Struct):
    """What an action is given."""

    description: str
    required: bool = False
    default: str = ""


class Step(msgspec.Struct):
    """A step of an action or of a workflow."""

    run: str = ""
    shell: str = ""
    env: dict[str, str] = {}
    uses: str = ""
    given: dict[str, str] = msgspec.field(default_factory=dict[str, str], name="with")


class Runs(msgspec.Struct):
    """How an action runs."""

    using: str
    steps: list[Step]


class Action(msgspec.Struct):
    """A composite action."""

    inputs: dict[str, Input]
    runs: Runs


class Job(msgspec.Struct):
    """A job of a GitLab pipeline, or of a workflow."""

    variables: dict[str, str] = {}
    before_script: list[str] = []
    script: list[str] = []
    artifacts: dict[str, object] = {}
    steps: list[Step] = []


class Workflow(msgspec.Struct):
    """A GitHub workflow."""

    jobs: dict[str, Job]


class Hook(msgspec.Struct):
    """A hook of pre-commit."""

    id: str
    entry: str
    language: str
    files: str
    args: list[str] = []
    additional_dependencies: list[str] = []


def read(name: str, kind: type[Read]) -> Read:
    """Return a YAML file in the form that its system documents."""
    texts = yaml.load((ROOT / name).read_bytes(), yaml.BaseLoader)  # noqa: S506 - it makes nothing but texts
    return msgspec.convert(texts, kind, strict=False)


def extras() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def assert_installs(asked: str, package: str) -> None:
    """Check that pip was asked for the package, with extras that there are."""
    found = PACKAGE.fullmatch(asked)
    assert found is not None, asked
    assert found["package"] == package
    assert set(found["extras"].split(",")) <= extras()


@dataclass(frozen=True)
class Ran:
    """What an action left behind."""

    done: subprocess.CompletedProcess[str]
    outputs: str
    summary: str
    folder: Path


def run_action(folder: Path, environment: Mapping[str, str], **given: str) -> Ran:
    """Run the steps of the composite action, as a runner does: expressions become text, bash runs the steps."""
    action = read("action.yml", Action)
    assert action.runs.using == "composite"
    values = {name: given.get(name, one.default) for name, one in action.inputs.items()}
    assert set(given) <= set(values)
    assert all(values[name] for name, one in action.inputs.items() if one.required)
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    runner = {**with_recorder(folder, environment), **files, "GITHUB_ACTION_PATH": str(ROOT)}
    done: list[subprocess.CompletedProcess[str]] = []
    for step in action.runs.steps:
        assert step.shell == "bash"
        assert "${{" not in step.run, "an expression within a script is text that it runs"
        settings = {name: INPUT.sub(lambda found: values[found[1]], text) for name, text in step.env.items()}
        done.append(run_shell("bash --noprofile --norc -eo pipefail", step.run, folder, {**runner, **settings}))
        if done[-1].returncode:
            break
    texts = [Path(path).read_text(encoding="utf-8") if Path(path).exists() else "" for path in files.values()]
    return Ran(done[-1], texts[0], texts[1], folder)


def test_the_action_annotates_and_leaves_reports(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    saved(tmp_path / "model.onnx", LONG)
    ran = run_action(tmp_path, clean_environment, model="model.onnx", targets="m1,m4", options="--min-native 0.1")
    assert ran.done.returncode == 1, ran.done.stderr
    assert "::error " in ran.done.stdout
    assert ran.outputs == "outcome=failed\n"
    assert ran.summary == (tmp_path / "neural-engine" / "report.md").read_text(encoding="utf-8")
    assert {path.name for path in (tmp_path / "neural-engine").iterdir()} == {
        "report.html", "report.json", "report.md", "findings.sarif", "findings.xml",
    }  # fmt: skip
    assert_installs(asked_of(tmp_path)[0], str(ROOT))


def test_the_action_passes_with_a_baseline(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    saved(tmp_path / "model.onnx", LONG)
    given = {"model": "model.onnx", "targets": "m1"}
    first = run_action(tmp_path, clean_environment, **given, options="--fail-on none", report=".")
    assert first.outputs == "outcome=passed\n", first.done.stderr
    again = run_action(tmp_path, clean_environment, **given, baseline="report.json")
    assert again.done.returncode == 0, again.done.stderr
    assert [one.target for one in load_report(tmp_path / "neural-engine" / "report.json").targets] == ["h13"]


def test_the_action_says_that_a_model_cannot_be_read(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    ran = run_action(tmp_path, clean_environment, model="model.onnx")
    assert (ran.done.returncode, ran.outputs, ran.summary) == (2, "outcome=error\n", "")


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    (job,) = read("examples/ci/github.yml", Workflow).jobs.values()
    (step,) = (one for one in job.steps if one.uses.partition("@")[0].endswith("/aneforge"))
    assert step.uses.endswith(f"@v{__version__}")
    assert set(step.given) <= set(read("action.yml", Action).inputs)
    findings, folder = (one.given for one in job.steps if "upload" in one.uses)
    assert findings == {"sarif_file": "neural-engine/findings.sarif"}
    assert folder == {"name": "neural-engine", "path": "neural-engine/"}


@pytest.mark.parametrize(("length", "code"), [(64, 0), (LONG, 1)])
def test_the_gitlab_template(length: int, code: int, tmp_path: Path, clean_environment: dict[str, str]) -> None:
    saved(tmp_path / "model.onnx", length)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "aneforge_open-1.2.3-py3-none-any.whl").touch()
    job = read("examples/ci/gitlab.yml", dict[str, Job])[".neural-engine"]
    environment = {**with_recorder(tmp_path, clean_environment), **job.variables}
    script = "\n".join([*job.before_script, *job.script])
    done = run_shell("bash -eo pipefail", script, tmp_path, environment)
    assert done.returncode == code, done.stderr
    assert_installs(asked_of(tmp_path)[0], "ci/aneforge_open-1.2.3-py3-none-any.whl")
    kept = {path.name for path in (tmp_path / "neural-engine").iterdir()}
    assert kept == {"report.html", "report.json", "report.md", "findings.xml"}
    assert job.artifacts == {
        "when": "always", "paths": ["neural-engine/"], "reports": {"junit": "neural-engine/findings.xml"},
    }  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """A line of a Dockerfile."""

    word: str
    rest: str


def instructions() -> list[Instruction]:
    text = re.sub(r"\\\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Instruction(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def copy_in(rest: str, folder: Path) -> None:
    """Do what COPY does with files of the checkout."""
    *names, last = rest.split()
    for name in names:
        into = folder / last
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, into, ignore=shutil.ignore_patterns("__pycache__"))
            continue
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, into)


@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not here; the extra test has it")
@pytest.mark.skipif(not paths(), reason="the kernels are not built: no C compiler when it was installed")
def test_the_steps_of_the_dockerfile_build_an_image(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    """The places of an image are folders here; packages come from this environment, and apt-get is only asked."""
    environment = with_recorder(tmp_path, clean_environment)
    (tmp_path / "path" / "pip").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n', encoding="utf-8")
    environment |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_QUIET": "1"}
    environment |= {"PIP_TARGET": str(tmp_path / "installed"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    folder = tmp_path
    wheel_names: list[str] = []
    libraries: set[str] = set()
    for one in instructions():
        rest = re.sub(r"(?<![\w.*])/(?=(source|wheels|var|work)\b)", f"{tmp_path}/", one.rest)
        if one.word == "WORKDIR":
            folder = Path(rest)
            folder.mkdir()
        elif one.word == "ENV":
            environment |= dict([rest.split("=")])
        elif one.word == "COPY" and not rest.startswith("--from"):
            copy_in(rest, folder)
        elif one.word == "RUN":
            if folder.name == "source":
                libraries = put_built_libraries(folder)  # so that nothing is compiled here again
            done = run_shell("sh", rest, folder, environment)
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
            wheel_names += [name for wheel in (tmp_path / "wheels").glob("*.whl") for name in file_names(wheel)]
    assert [line.split()[0] for line in asked_of(tmp_path)] == ["update", "install"]
    assert libraries
    assert libraries <= set(wheel_names)
    assert instructions()[-2:] == [Instruction("ENTRYPOINT", '["aneforge"]'), Instruction("CMD", '["--help"]')]
    installed = {**clean_environment, "PYTHONPATH": str(tmp_path / "installed")}
    shown = run_shell("sh", f'"{sys.executable}" "{tmp_path}/installed/bin/aneforge" --version', tmp_path, installed)
    assert shown.stdout.strip().endswith(__version__), shown.stderr


def test_the_hook_of_pre_commit(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    (hook,) = read(".pre-commit-hooks.yaml", list[Hook])
    assert hook.language == "python"
    environment = with_command(tmp_path, clean_environment)
    for name, length in (("good.onnx", 64), ("long.onnx", LONG)):
        assert re.search(hook.files, f"models/{saved(tmp_path / name, length).name}")
    call = " ".join([hook.entry, *hook.args])
    passed = run_shell("sh", f"{call} good.onnx", tmp_path, environment)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    failed = run_shell("sh", f"{call} good.onnx long.onnx", tmp_path, environment)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "long.onnx" in failed.stdout
