"""The dispatch library as a C program uses it: values, streams, threads, forks, a worker that dies."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aneforge.runtime.dispatch import library
from dispatch_tools import INCREMENT, build_client, environment, needs_compiler, needs_library, workers

pytestmark = [needs_library, needs_compiler]

PRINTED = {
    "run": """set 0
execute 0
get 0
last 4000 beyond 0000
views 0 0
bytes 128 aligned 1
execute 0
written 4200
part 0
rest 4000 4200
released -1
""",
    "share": """share 0
one buffer 1
counted 4400
too late -1
added 1
again 0
""",
    "stream": """operation 1
chain 0
operation 2
chain 0
operations 3
multi 0
three 4200
event 0 0
chain event 0 1
backwards -1
nameless -1
no chain -1
""",
    "async": """never submitted -2
wait 0
event 10
final 0 9 10
value 3c00
""",
    "block": "calls 2\nno function 1\n",
    "threads": "wrong 0\n",
    "forked": """child: inherited -1
child: zeros 0000
child: own 0
child: value 3c00
child ended 0
parent: 0
parent: value 4000
""",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the C client."""
    assert library.record_interpreter() is None
    return build_client(Path(__file__).with_name("abi_client.c"), tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def mil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a program that adds one."""
    path = tmp_path_factory.mktemp("increment") / "model.mil"
    path.write_text(INCREMENT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def printed(client: Path, mil: Path) -> dict[str, str]:
    """Return what one client process printed of each thing that it did."""
    ended = subprocess.run(
        [client, mil, *PRINTED], check=True, capture_output=True, text=True, env=environment(), timeout=60
    )
    assert "Traceback" not in ended.stderr
    return dict(part.split("\n", 1) for part in ended.stdout.split("== ")[1:])


@pytest.mark.parametrize("what", PRINTED)
def test_a_c_program_gets_what_the_abi_promises(what: str, printed: dict[str, str]) -> None:
    assert printed[what] == PRINTED[what]


def test_the_limits_of_the_runtime_hold_where_they_are_asked_for(client: Path, mil: Path) -> None:
    ended = subprocess.run(
        [client, mil, "limits"],
        check=True,
        capture_output=True,
        text=True,
        env=environment(ANEFORGE_ABI_LIMITS="1"),
        timeout=60,
    )
    assert ended.stdout == "== limits\nloaded 128\nin flight 1\nwait 0\n"
    assert "128 programs are loaded, and the runtime loads no more" in ended.stderr
    assert "127 requests are under way, and the queue holds no more" in ended.stderr


def test_a_worker_that_is_killed_costs_its_programs_and_nothing_else(client: Path, mil: Path) -> None:
    before = workers()
    with subprocess.Popen(
        [client, mil, "killed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        assert [running.stdout.readline() for _ in range(3)] == ["== killed\n", "before 0\n", "kill\n"]
        (worker,) = workers_of(running.pid, workers() - before)
        os.kill(worker, signal.SIGKILL)
        running.stdin.write("\n")
        running.stdin.flush()
        printed = [running.stdout.readline() for _ in range(4)]
        assert printed == ["after -1\n", "still -1\n", "again 0\n", "alive\n"]
        (second,) = workers_of(running.pid, workers() - before)
        running.kill()
        assert "the engine's process" in running.stderr.read()
    wait_for_end(second)


KILLED = """
import os, signal, sys
from dispatch_tools import Abi, workers
abi, before, ports = Abi.load(), workers(), ({"x": 128}, {"y": 128})
first = abi.compile(sys.argv[1], *ports)
def shared(process):  # the memory that a client has in common with its own worker, whoever else has one
    try:
        return {line.split()[4] for line in open(f"/proc/{process}/maps") if "/memfd:ane_open" in line}
    except OSError:
        return set()
(worker,) = {one for one in workers() - before if shared(one) & shared("self")}
os.kill(worker, signal.SIGKILL)
def lives() -> bool:  # its sockets are closed once its last thread has ended
    try:
        return len(os.listdir(f"/proc/{worker}/task")) > 1 or ") Z " not in open(f"/proc/{worker}/stat").read()
    except OSError:
        return False
while lives():
    pass
second = abi.compile(sys.argv[1], *ports)
print([abi.call("program_execute", one) for one in (second, first)])
"""


def test_the_next_compile_starts_another_worker(mil: Path) -> None:
    path = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, mil],
        check=True,
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=path),
        timeout=60,
    )
    assert ended.stdout == "[0, -1]\n"
    assert ended.stderr == "ane_open: the engine's process has ended, and its programs with it\n"


@pytest.mark.parametrize("megabytes", [40, 60])
def test_too_little_memory_for_the_worker_is_one_line(megabytes: int, repository: Path, tmp_path: Path) -> None:
    limit = megabytes << 20
    ended = subprocess.run(
        [build_client(repository / "examples" / "dispatch" / "increment.c", tmp_path)],
        cwd=repository,
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("ane_open: the engine")


def test_what_a_client_left_open_is_not_the_workers(client: Path, mil: Path) -> None:
    ended = subprocess.run([client, mil, "pipes"], capture_output=True, text=True, env=environment(), check=True)
    assert ended.stdout == "== pipes\nended 1\n"


@pytest.mark.parametrize("closed", [(2,), (0, 2)])
def test_a_client_without_standard_descriptors(closed: tuple[int, ...], client: Path, mil: Path) -> None:
    ended = subprocess.run(
        [client, mil, "run"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: [os.close(one) for one in closed] and None,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "== run\n" + PRINTED["run"]


def test_an_interpreter_without_the_package_is_one_line(client: Path, mil: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -S -c 'raise SystemExit(3)'\n", encoding="utf-8")
    bare.chmod(0o755)
    ended = subprocess.run(
        [client, mil, "run"],
        capture_output=True,
        text=True,
        env=environment(ANEFORGE_ENGINE_PYTHON=str(bare)),
        timeout=60,
        check=False,
    )
    assert ended.stderr.splitlines()[0] == f"ane_open: the engine cannot be started: {bare} ended with code 3"


def workers_of(client: int, found: set[int]) -> set[int]:
    """Return the workers of a client: those that have its memory."""
    own = shared_memory(client)
    return {one for one in found if own & shared_memory(one)}


def shared_memory(process: int) -> set[str]:
    """Return what tells the library's memory in a process from any other: inodes."""
    try:
        lines = Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {line.split()[4] for line in lines if "/memfd:ane_open" in line}


def wait_for_end(process: int) -> None:
    """Wait until a process is gone."""
    for _ in range(500):
        if process not in workers():
            return
        time.sleep(0.02)
    pytest.fail(f"process {process} outlives its client")
