"""The invokers: executables that run a network description on the software engine, as clients of the engine start them.

An invoker of one call (`sdpa_invoker`, `layer_invoker`, `rank_invoker`) compiles, loads, runs and ends: values come and
go in files, and the last line on standard output is a JSON object with `status`. The `persistent_worker` says once in
such a line that it is ready, and then answers requests through pipes until they end. `invoker_scripts` installs them.
"""

from __future__ import annotations

import io
import json
import signal
import statistics
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, TextIO

from aneforge.errors import Location
from aneforge.formats.netplist.reading import plain_size, readable
from aneforge.runtime.dispatch.invoker_arguments import once_arguments, rank_arguments, worker_arguments
from aneforge.runtime.dispatch.invoker_networks import load_network
from aneforge.runtime.dispatch.invoker_stages import InvokerError, Stage, during

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from aneforge.runtime.dispatch.invoker_arguments import Given
    from aneforge.runtime.dispatch.invoker_networks import LoadedNetwork

__all__ = ["INVOKERS", "main", "run"]

COUNT_BYTES = 4
"""A request begins with an unsigned number of input sets, little-endian."""


class RequestError(InvokerError):
    """A request to a worker that is ready failed: its standard output belongs to replies."""


def run(name: str, arguments: Sequence[str], requests: BinaryIO, answers: BinaryIO) -> int:
    """Run an invoker, and return its exit code; 0 is success, every other one a step that failed."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show_warning
        try:
            INVOKERS[name](name, arguments, requests, answers)
        except InvokerError as failure:
            return report_failure(name, failure, answers)
    return 0


def report_failure(name: str, failure: InvokerError, answers: BinaryIO) -> int:
    """Say what failed, and return the exit code for it.

    The reason goes to standard error, too: a worker that is ready has nothing but replies on standard output.
    """
    print(f"{name}: {failure}", file=sys.stderr)  # noqa: T201 - an executable talks to its user
    if failure.__cause__ is not None:
        traceback.print_exception(failure.__cause__)
    if not isinstance(failure, RequestError):
        write_line(answers, {"status": failure.stage.status, "error": str(failure)})
    return failure.stage.code


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without a place in our sources."""
    del category, filename, lineno, file, line  # the form of the hook
    print(f"warning: {message}", file=sys.stderr)  # noqa: T201 - as above


def write_line(answers: BinaryIO, answer: Mapping[str, object]) -> None:
    """Write a JSON object as one line."""
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


# One call


def run_once(name: str, arguments: Sequence[str], requests: BinaryIO, answers: BinaryIO) -> None:
    """Run a description: elements in, elements out."""
    del requests  # values come in files
    given = once_arguments(name, arguments)
    evaluate(given, answers, None)


def run_ranking(name: str, arguments: Sequence[str], requests: BinaryIO, answers: BinaryIO) -> None:
    """Run a description: elements in, surfaces of one size out."""
    del requests  # values come in files
    given = rank_arguments(name, arguments)
    evaluate(given, answers, given.output_bytes)


def evaluate(given: Given, answers: BinaryIO, surface_bytes: int | None) -> None:
    """Compile, load, map, run as often as asked, and write files and the answer.

    Raises:
        InvokerError: A step failed.
    """
    network = load_network(given.net_plist, given.weights)
    asked = [symbol for symbol, _ in (*given.output, *given.raw_output)]
    network.check_symbols([symbol for symbol, _ in given.input], asked)
    for symbol, path in given.input:
        network.set_input(symbol, read_input(network, symbol, path))
    for _ in range(given.warmup):
        network.execute()
    times = [network.execute() for _ in range(given.repeats)]
    results = [(path, network.output(symbol)) for symbol, path in given.output]
    results += [(path, network.raw_output(symbol, surface_bytes)) for symbol, path in given.raw_output]
    with during(Stage.READ):
        for path, data in results:
            path.write_bytes(data)  # in place: a client may hold the file open
    write_line(
        answers,
        {
            "status": "ok",
            **facts(network),
            "eval_us": round(statistics.median(times), 3),
            "exactness": str(network.exactness),
            "live_inputs": [surface.described() for surface in network.inputs.values()],
            "live_outputs": [surface.described() for surface in network.outputs.values()],
        },
    )


def facts(network: LoadedNetwork) -> dict[str, object]:
    """Return what every answer says of a network."""
    return {
        "target": network.loaded.program.target.name,
        "compile_ms": round(network.compile_ms, 3),
        "load_ms": round(network.load_ms, 3),
    }


def read_input(network: LoadedNetwork, symbol: str, path: Path) -> bytes:
    """Return the bytes of an input; a file of another size is not read.

    Raises:
        InvokerError: The file cannot be read, or has a different size than the port.
    """
    wanted, place = network.inputs[symbol].nbytes, Location(str(path))
    with during(Stage.READ), readable(path, place):
        size = plain_size(path, place)
        if size != wanted:
            raise InvokerError(Stage.MAP, f"{path}: input {symbol!r} must have {wanted} bytes, got {size}")
        return path.read_bytes()


# A worker that stays


def serve(name: str, arguments: Sequence[str], requests: BinaryIO, answers: BinaryIO) -> None:
    """Compile and load once, say that it is ready, and answer requests until they end.

    Raises:
        InvokerError: A step failed before it was ready.
        RequestError: A request is cut off, asks for nothing, or cannot be computed.
    """
    given = worker_arguments(name, arguments)
    network = load_network(given.net_plist, given.weights)
    network.check_symbols(given.input_symbols, given.output_symbols)
    sizes = [network.inputs[symbol].nbytes for symbol in given.input_symbols]
    write_line(
        answers,
        {
            "status": "ready",
            **facts(network),
            "input_elems": [network.inputs[symbol].dims.size for symbol in given.input_symbols],
            "output_elems": [network.outputs[symbol].dims.size for symbol in given.output_symbols],
        },
    )
    try:
        while count := read_count(requests):
            # A client sends a whole request before it reads, so none of the reply is written before the request is
            # read: both would wait for the other once a pipe is full.
            sets = [[read_whole(requests, size) for size in sizes] for _ in range(count)]
            for values in sets:
                for symbol, data in zip(given.input_symbols, values, strict=True):
                    network.set_input(symbol, data)
                network.execute()
                for symbol in given.output_symbols:
                    answers.write(network.output(symbol))
            answers.flush()
    except InvokerError as failure:
        raise RequestError(failure.stage, failure.message) from failure.__cause__


def read_count(requests: BinaryIO) -> int | None:
    """Return how many input sets follow; None where requests end.

    Raises:
        InvokerError: It is 0, or cut off.
    """
    head = requests.read(COUNT_BYTES)
    if not head:
        return None
    count = int.from_bytes(head + read_whole(requests, COUNT_BYTES - len(head)), "little")
    if not count:
        raise InvokerError(Stage.ARGUMENTS, "a request must have 1 input set or more, got 0")
    return count


def read_whole(requests: BinaryIO, size: int) -> bytes:
    """Return so many bytes of a request.

    Raises:
        InvokerError: The request ends before.
    """
    data = requests.read(size)
    if len(data) < size:
        raise InvokerError(Stage.READ, f"the request ends too early: expected {size} more bytes, got {len(data)}")
    return data


INVOKERS: Mapping[str, Callable[[str, Sequence[str], BinaryIO, BinaryIO], None]] = {
    "sdpa_invoker": run_once,
    "layer_invoker": run_once,
    "rank_invoker": run_ranking,
    "persistent_worker": serve,
}
"""What each executable does, by the name under which clients look for it."""


def main(name: str, arguments: Sequence[str]) -> int:
    """Run an invoker in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a client that went away wants no traceback
    closed = sys.stdin is None  # pyright: ignore[reportUnnecessaryComparison] - it is None where it was closed
    return run(name, arguments, io.BytesIO() if closed else sys.stdin.buffer, sys.stdout.buffer)
