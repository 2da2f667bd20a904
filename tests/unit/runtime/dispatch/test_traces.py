"""Records of the dispatch library's calls: written by the library, read and summed up by the command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from aneforge.cli.main import run as run_command
from aneforge.errors import GraphError
from aneforge.runtime.dispatch import library
from aneforge.runtime.dispatch.traces import call_times, program_calls, read_trace
from dispatch_tools import INCREMENT, build_client, environment, needs_compiler, needs_library

ABOUT = '{"target":"h13","layers":1,"exactness":"exact","inputs":{"x":"fp16[1, 64]"},"outputs":{"y":"fp16[1, 64]"}}'


def line(name: str, dur: float, status: int = 0, program: str = '"0x10010"', more: str = "", pid: int = 1) -> str:
    details = f'{{"status":{status},"program":{program}{more}}}'
    return f'{{"name":"{name}","cat":"dispatch","ph":"X","ts":1.0,"dur":{dur},"pid":{pid},"tid":1,"args":{details}}},\n'


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return a record of two processes, which have a handle of the same number."""
    path = tmp_path / "calls.json"
    path.write_text(
        "[\n"
        + line("compile", 900, more=f',"of":"/models/ab/model.mil","about":{ABOUT}')
        + "".join(line("execute", time) for time in (10, 30, 20))
        + line("compile", 800, more=f',"of":"/models/cd/model.mil","about":{ABOUT}', pid=2)
        + line("compile", 5, status=-1, program="null", more=',"of":"broken.mil"')
        + line("execute", 50, status=-1, pid=2),
        encoding="utf-8",
    )
    return path


def test_calls_are_summed_up(record: Path) -> None:
    calls = read_trace(record)
    times = {one.function: (one.count, one.failed, one.median, one.longest, one.total) for one in call_times(calls)}
    assert times == {"compile": (3, 1, 800, 900, 1705), "execute": (4, 1, 25, 50, 110)}
    assert [(one.path, one.executions, one.median) for one in program_calls(calls)] == [
        ("/models/ab/model.mil", 3, 20),
        ("/models/cd/model.mil", 1, 50),
    ]


def test_the_command_shows_both(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["trace", "show", str(record), "--most", "1"]) == 0
    printed = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["execute", "4", "1", "25.0", "50.0", "0.1"] in printed
    assert ["ab/model.mil", "h13", "1", "fp16[1,", "64]", "fp16[1,", "64]", "exact", "3", "20.0"] in printed
    assert printed[-1][:4] == ["…", "and", "1", "more;"]


@pytest.mark.parametrize("content", ["garbage\n", '[\n{"name": 3},\n', f"[\n{'x' * (3 << 20)}\n"])
def test_what_is_not_a_record_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(GraphError, match=r"calls.json:\d is not a call of the dispatch library"):
        read_trace(path)


@needs_library
@needs_compiler
def test_the_library_records_threads_processes_and_failures(tmp_path: Path) -> None:
    assert library.record_interpreter() is None
    client = build_client(Path(__file__).with_name("abi_client.c"), tmp_path)
    mil, record = tmp_path / 'a "quoted" name.mil', tmp_path / "calls.json"
    mil.write_text(INCREMENT, encoding="utf-8")
    given = environment(ANEFORGE_TRACE=str(record))
    for _ in range(2):  # a second run continues the record
        subprocess.run([client, mil, "threads", "forked"], check=True, capture_output=True, env=given, timeout=60)
    calls = read_trace(record)
    assert len({call.pid for call in calls}) == 4
    assert len({call.tid for call in calls}) == 12
    assert [call.args.status for call in calls if call.name == "execute"].count(-1) == 2
    assert {call.args.of for call in calls if call.name == "compile"} == {str(mil)}
    assert len(json.loads(record.read_text(encoding="utf-8"))) == len(calls)  # as any viewer reads it


@needs_library
@needs_compiler
def test_a_record_that_was_cut_off_is_continued(tmp_path: Path) -> None:
    client = build_client(Path(__file__).with_name("abi_client.c"), tmp_path)
    record = tmp_path / "calls.json"

    def record_again() -> None:
        given = environment(ANEFORGE_TRACE=str(record))
        subprocess.run([client, "none.mil", "stream"], check=False, capture_output=True, env=given, timeout=60)

    record_again()
    whole = record.read_bytes()
    count = len(json.loads(whole))
    for cut in (0, 1, 3):  # the last characters, which are the end of the list
        record.write_bytes(whole[: len(whole) - cut])
        record_again()
        assert len(read_trace(record)) == 2 * count
    record.write_bytes(whole[:-3])
    record_again()
    assert len(json.loads(record.read_bytes())) == 2 * count
    record.write_bytes(whole[:-40])  # in the middle of a call
    record_again()
    with pytest.raises(GraphError, match="is not a call"):
        read_trace(record)


@needs_library
@needs_compiler
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    client = build_client(Path(__file__).with_name("abi_client.c"), tmp_path)
    mine = tmp_path / "mine.txt"
    mine.write_text("my own\n")
    ended = subprocess.run(
        [client, "none.mil", "stream"],
        capture_output=True,
        text=True,
        env=environment(ANEFORGE_TRACE=str(mine)),
        check=True,
    )
    assert "mine.txt is not a record of calls; nothing is recorded" in ended.stderr
    assert mine.read_text() == "my own\n"
