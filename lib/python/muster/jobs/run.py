# SPDX-License-Identifier: Apache-2.0
"""Runs the launcher as a child process: handles its output, its workers' answers and its exit, in
one event loop in the caller's thread."""
from __future__ import annotations

import functools
import os
import selectors
import signal
import subprocess
import sys
from typing import IO, Dict, Mapping, Optional, Sequence, TextIO

from .listener import Connection, Listener
from .messages import BadMessage
from .output import Output

# The launcher must get SIGTERM if the thread that waits for it exits for any reason. This small
# program requests that signal from the kernel and then execs the launcher. A separate program is
# needed because Python code is not safe between fork and exec in a process with threads, such as a
# notebook kernel. The program also resets two signals that Python ignores.
_BECOME = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
os.getppid() == int(sys.argv[1]) or os._exit(1)
for each in (signal.SIGPIPE, signal.SIGXFSZ): signal.signal(each, signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])"""

_CHUNK = 1 << 16  # bytes of output to read at once


class Run:
    """One job, from start to exit. listener: None if the ranks do not send answers."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str],
                 listener: Optional[Listener] = None) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._outputs: Dict[IO[bytes], Output] = {}
        python = sys.executable or "python3"
        # Use a separate session: Ctrl-C then reaches only the caller, which signals the launcher.
        self._process = subprocess.Popen(
            [python, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, bufsize=0)
        self._copy_from(self._process.stdout, sys.stdout)
        self._stderr = self._copy_from(self._process.stderr, sys.stderr)
        if listener is not None:
            self._selector.register(listener.socket, selectors.EVENT_READ, self._accept)

    @property
    def pid(self) -> int:
        """The launcher's pid."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The tail of standard error, which contains the launcher's report."""
        return self._stderr.tail

    def wait(self) -> int:
        """Runs the event loop until the launcher exits. Returns its exit code; 128 + n after
        signal n. KeyboardInterrupt stops the job; a second KeyboardInterrupt kills it."""
        try:
            self._serve()
            code = self._process.wait()
        except BaseException as error:
            self._end(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
            raise
        finally:
            self._close()
        return 128 - code if code < 0 else code

    def _end(self, signo: int) -> None:
        """Stops the job. All its processes have exited when this method returns."""
        self._process.send_signal(signo)
        try:
            self._serve()
            self._process.wait()
        except BaseException:  # a second Ctrl-C, or a stream that cannot be written
            self._process.kill()  # no process of a job outlives the launcher
            self._process.wait()

    def _serve(self) -> None:
        """Runs until both pipes close (only the launcher holds them open), then reads the rest."""
        while self._outputs:
            for key, events in self._selector.select():
                key.data(events)
        while self._listener is not None:
            ready = self._selector.select(0)
            if not ready:
                break
            for key, events in ready:
                key.data(events)

    def _copy_from(self, pipe: Optional[IO[bytes]], stream: TextIO) -> Output:
        assert pipe is not None
        output = self._outputs[pipe] = Output(stream)
        self._selector.register(pipe, selectors.EVENT_READ, functools.partial(self._copy, pipe))
        return output

    def _copy(self, pipe: IO[bytes], _: int) -> None:
        data = os.read(pipe.fileno(), _CHUNK)
        if data:
            self._outputs[pipe].feed(data)
            return
        self._selector.unregister(pipe)
        self._outputs.pop(pipe).close()

    def _accept(self, _: int) -> None:
        connection = self._listener.accept() if self._listener else None
        if connection is not None:
            self._selector.register(connection.socket, selectors.EVENT_READ,
                                    functools.partial(self._talk, connection))

    def _talk(self, connection: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            connection.write()
        goes_on = True
        if events & selectors.EVENT_READ:
            try:
                goes_on = connection.read()
            except BadMessage as error:
                connection.refuse(str(error))
                self._process.terminate()
                goes_on = False
        if goes_on:
            more = selectors.EVENT_WRITE if connection.wants_to_write else 0
            key = self._selector.get_key(connection.socket)
            self._selector.modify(connection.socket, selectors.EVENT_READ | more, key.data)
        else:
            self._selector.unregister(connection.socket)
            connection.socket.close()

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if self._listener is None or key.fileobj is not self._listener.socket:
                key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
