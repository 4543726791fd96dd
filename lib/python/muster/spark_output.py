# SPDX-License-Identifier: Apache-2.0
"""Forwards the output of ranks on executors to the driver's sys.stdout and sys.stderr.

A connection carries one stream of one task: first a line with the job's token and the stream
number (1 or 2), then text. The token keeps out other programs, including those of other users.
"""
from __future__ import annotations

import contextlib
import functools
import hmac
import io
import secrets
import selectors
import socket
import sys
import threading
import time
from types import TracebackType
from typing import Any, Dict, Iterator, Optional, TextIO, Tuple, Type

from .jobs.output import Output

FIRST_LINE_MAX = 256  # bytes until the end of the line with the token
CHUNK = 1 << 16  # bytes to read at once
SEND_TIMEOUT = 10.0  # seconds that output may block on the driver before it is dropped
DRAIN_TIMEOUT = 5.0  # seconds to receive remaining output after all tasks have finished

Address = Tuple[str, int, str]  # host, port, token


class _Connection:
    """One stream of one task: takes bytes, writes whole lines once the token is verified."""

    def __init__(self, token: bytes, streams: Dict[bytes, TextIO]) -> None:
        self._token = token
        self._streams = streams
        self._start = b""
        self._output: Optional[Output] = None

    def feed(self, data: bytes) -> bool:
        """Takes bytes. Returns False if the token is wrong; the connection then does not belong to
        this job."""
        if self._output is not None:
            self._output.feed(data)
            return True
        self._start += data
        first, newline, rest = self._start.partition(b"\n")
        if not newline:
            return len(self._start) <= FIRST_LINE_MAX
        for number, stream in self._streams.items():
            if hmac.compare_digest(first, self._token + b" " + number):
                self._output = Output(stream, whole_lines=True)
                self._output.feed(rest)
                return True
        return False

    def close(self) -> None:
        """Writes any incomplete line."""
        if self._output is not None:
            self._output.close()


class OutputServer:
    """Runs on the driver, in a thread, inside a `with` block. address: passed to the tasks."""

    def __init__(self, host: str) -> None:
        self._token = secrets.token_hex(16)
        try:
            self._socket = socket.create_server((host, 0))
        except OSError:  # the name resolves to a machine that forwards to this one
            self._socket = socket.create_server(("", 0))
        self.address: Address = (host, self._socket.getsockname()[1], self._token)
        self._ends, self._told = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._open: Dict[socket.socket, _Connection] = {}
        self._streams: Dict[bytes, TextIO] = {b"1": sys.stdout, b"2": sys.stderr}
        self._deadline: Optional[float] = None  # set when all tasks have finished
        self._thread = threading.Thread(target=self._run, daemon=True, name="muster-output")

    def __enter__(self) -> OutputServer:
        self._selector.register(self._socket, selectors.EVENT_READ, self._accept)
        self._selector.register(self._told, selectors.EVENT_READ, self._end)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ends.close()
        self._thread.join()

    def _run(self) -> None:
        with self._socket, self._told, self._selector:
            while self._deadline is None or (self._open and time.monotonic() < self._deadline):
                left = None if self._deadline is None else self._deadline - time.monotonic()
                for key, _ in self._selector.select(left):
                    key.data()
            for link in list(self._open):
                self._close(link)

    def _end(self) -> None:
        self._selector.unregister(self._told)
        self._accept()  # accept connections still in the backlog
        self._selector.unregister(self._socket)
        self._deadline = time.monotonic() + DRAIN_TIMEOUT

    def _accept(self) -> None:
        self._socket.setblocking(False)
        while True:
            try:
                link, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            link.setblocking(False)
            self._open[link] = _Connection(self._token.encode(), self._streams)
            self._selector.register(link, selectors.EVENT_READ,
                                    functools.partial(self._read, link))

    def _read(self, link: socket.socket) -> None:
        try:
            data = link.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or not self._open[link].feed(data):
            self._close(link)

    def _close(self, link: socket.socket) -> None:
        self._selector.unregister(link)
        self._open.pop(link).close()
        link.close()


class _ToDriver(io.TextIOBase):
    """A task's stream: writes go to the driver and to the executor's log."""

    def __init__(self, address: Address, number: int, log: TextIO) -> None:
        host, port, token = address
        self._log = log
        self._link: Optional[socket.socket] = None
        with contextlib.suppress(OSError):  # the log still has all output
            self._link = socket.create_connection((host, port), SEND_TIMEOUT)
            self._send(f"{token} {number}\n")

    def _send(self, text: str) -> None:
        if self._link is not None:
            try:
                self._link.sendall(text.encode("utf-8", "replace"))
            except OSError:
                self._link.close()
                self._link = None

    def write(self, text: str) -> int:
        self._log.write(text)
        self._send(text)
        return len(text)

    def flush(self) -> None:
        self._log.flush()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._link is not None:
            self._link.close()


@contextlib.contextmanager
def to_driver(address: Address) -> Iterator[None]:
    """In a task, also sends sys.stdout and sys.stderr to the driver."""
    out: Any  # implements only the parts of a text stream that print() and this module use
    err: Any
    with _ToDriver(address, 1, sys.stdout) as out, _ToDriver(address, 2, sys.stderr) as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
