"""The process that serves the dispatch library: it reads requests from sockets, and runs programs on the engine.

The library (`native/`) starts it with one end of a socket. Over that socket come channels, each served by a thread;
over a channel come requests, one at a time, each answered. The values of ports never pass through: they are in memory
that both processes have mapped. When the client ends, so does the first socket, and with it this process.
"""

from __future__ import annotations

import os
import resource
import socket
import struct
import sys
import threading
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from aneforge.errors import AneforgeError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aneforge.runtime.dispatch.programs import Programs

__all__ = ["main"]

WORKER_END = 3
"""The descriptor by which the client passes its socket (`WORKER_END` of worker.h)."""
CLIENT_VARIABLES = ("ANEFORGE_TARGET", "ANEFORGE_DYLIB", "ANEFORGE_TRACE")
"""What is the client's to say with each request, or not meant for this process."""
STDERR = 2
FAILED = -1
HEAD = struct.Struct("=II")
ANSWER = struct.Struct("=Ii")
CODE_BYTES = 4


class ClientGoneError(Exception):
    """The other end of a channel is closed."""


@dataclass(slots=True)
class Request:
    """The rest of a message, read field by field."""

    content: bytes
    memory: int | None = None
    """The descriptor that came with it."""
    position: int = 0

    def u32(self) -> int:
        """Read a number of four bytes."""
        return self._number("=I", 4)

    def u64(self) -> int:
        """Read a number of eight bytes."""
        return self._number("=Q", 8)

    def text(self) -> str:
        """Read a text with its length before it."""
        length = self.u32()
        self.position += length
        return os.fsdecode(self.content[self.position - length : self.position])

    def _number(self, form: str, size: int) -> int:
        (value,) = struct.unpack_from(form, self.content, self.position)
        self.position += size
        return value


def main() -> NoReturn:
    """Serve the client until it ends."""
    close_inherited()
    if os.fork():
        os._exit(0)  # the client waits for this one, and has no child left that its own waiting could meet
    for name in CLIENT_VARIABLES:
        os.environ.pop(name, None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft != hard else soft, hard))
    warnings.showwarning = show_warning
    threading.excepthook = show_end
    serve_client(socket.socket(fileno=WORKER_END))
    os._exit(0)  # whatever runs for a client that is gone need not end


def close_inherited() -> None:
    """Close what the client left open for any child of it: who reads a pipe waits until everybody has closed it."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all that is needed
        if int(name) > WORKER_END:
            with suppress(OSError):  # the listing had one of its own
                os.close(int(name))


def show_warning(message: Warning | str, *_: object) -> None:
    """Print a warning as the library prints its messages: the line of Python is not the client's."""
    sys.stderr.write(f"ane_open: {message}\n")


def show_end(arguments: threading.ExceptHookArgs) -> None:
    """Print in one line why a channel is served no more, which ends its client's calls."""
    sys.stderr.write(f"ane_open: a call of the engine ended: {arguments.exc_type.__name__} {arguments.exc_value}\n")


def serve_client(control: socket.socket) -> None:
    """Serve every channel that comes, until no more can come."""
    try:
        with stderr_held_back():
            from aneforge.runtime.dispatch.programs import Programs  # noqa: PLC0415 - the client is set free first
    except BaseException as error:  # noqa: BLE001 - libraries fail in many ways where memory is short
        if channel := next_channel(control):
            refuse_request(channel, f"the engine cannot be loaded: {root_of(error)}; is there enough memory for it?")
        return
    programs = Programs()
    while channel := next_channel(control):
        try:
            threading.Thread(target=serve_channel, args=(channel, programs), daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            refuse_request(channel, f"the engine cannot serve as many calls at once: {root_of(error)}")


@contextmanager
def stderr_held_back() -> Generator[None]:
    """Write what goes to stderr in a block once the block has ended well: libraries print there before they end."""
    before = os.dup(STDERR)
    with os.fdopen(os.memfd_create("stderr"), "rb+") as held:
        os.dup2(held.fileno(), STDERR)
        try:
            yield
        finally:
            os.dup2(before, STDERR)
            os.close(before)
        held.seek(0)
        os.write(STDERR, held.read())


def root_of(error: BaseException) -> str:
    """Return the first cause of an error, in one line."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__} {error}".partition("\n")[0].strip()


def next_channel(control: socket.socket) -> socket.socket | None:
    """Return the next channel that comes; None once no more can come."""
    sent, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    return socket.socket(fileno=descriptors[0]) if sent else None


def refuse_request(channel: socket.socket, reason: str) -> None:
    """Answer one request of a channel with a reason why it cannot be served, and close the channel."""
    with suppress(ClientGoneError, ConnectionError), channel:
        _, request = receive(channel)
        if request.memory is not None:
            os.close(request.memory)
        send_answer(channel, FAILED, reason)


def send_answer(channel: socket.socket, status: int, said: str) -> None:
    """Answer a request."""
    content = said.encode(errors="surrogateescape")
    channel.sendall(ANSWER.pack(CODE_BYTES + len(content), status) + content)


def serve_channel(channel: socket.socket, programs: Programs) -> None:
    """Answer requests one after the other, until the client closes the channel."""
    functions = programs.functions()
    try:
        while True:
            code, request = receive(channel)
            try:
                status, said = answer(functions[code], request)
            finally:
                if request.memory is not None:
                    os.close(request.memory)
            send_answer(channel, status, said)
    except (ClientGoneError, ConnectionError):
        channel.close()


def receive(channel: socket.socket) -> tuple[int, Request]:
    """Read one message.

    Raises:
        ClientGoneError: There is none any more.
    """
    head, descriptors, _, _ = socket.recv_fds(channel, HEAD.size, 1, socket.MSG_WAITALL)
    if len(head) != HEAD.size:
        raise ClientGoneError
    length, code = HEAD.unpack(head)
    content = channel.recv(length - CODE_BYTES, socket.MSG_WAITALL)
    if len(content) != length - CODE_BYTES:
        raise ClientGoneError
    return code, Request(content, descriptors[0] if descriptors else None)


def answer(function: Callable[[Request], str | int], request: Request) -> tuple[int, str]:
    """Return the status of a request, and what is said of it; nothing that goes wrong in one ends the process."""
    try:
        found = function(request)
    except (AneforgeError, OSError) as error:
        return FAILED, str(error)
    except MemoryError:
        return FAILED, "the engine has no memory left"
    except Exception as error:  # noqa: BLE001 - the client must hear of it, and the other programs live on
        return FAILED, f"this is a mistake of aneforge: {type(error).__name__}: {error}"
    return (found, "") if isinstance(found, int) else (0, found)
