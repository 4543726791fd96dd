# SPDX-License-Identifier: Apache-2.0
"""The caller's side of the sockets between the caller and its workers."""
from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
from typing import List, Optional, Sequence, Tuple

from .answers import Answers
from .messages import BadMessage, Inbox, Message, greeting
from .worker import CHUNK, CONTEXT, HEADER, HELLO, JOB

_PATH_MAX = 107  # maximum length of a socket path in bytes (sun_path in unix(7))
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Connection:
    """The connection to one worker. The worker sends HELLO, receives the job, and sends its answer.
    The socket is non-blocking."""

    def __init__(self, link: socket.socket, job: Sequence[bytes], answers: Answers) -> None:
        link.setblocking(False)
        self.socket = link
        self._job = job
        self._answers = answers
        self._inbox = Inbox()
        self._unsent: List[memoryview] = []
        self._who: Optional[Tuple[int, int]] = None

    @property
    def wants_to_write(self) -> bool:
        """Whether part of the job is still unsent."""
        return bool(self._unsent)

    def write(self) -> None:
        """Sends as much as the socket accepts."""
        try:
            rest = self._unsent[0][self.socket.send(self._unsent[0]):]
            self._unsent[:1] = [rest] if rest else []
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = []  # the worker has exited; the launcher reports why

    def read(self) -> bool:
        """Reads the available data. Returns False if the connection has been closed or has failed.
        Raises BadMessage."""
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._take(self._inbox.feed(data))
        return bool(data)

    def refuse(self, why: str) -> None:
        """Records for the caller that this worker sent invalid data."""
        self._answers.wrong = why

    def _take(self, messages: List[Message]) -> None:
        for kind, content in messages:
            if kind == HELLO and self._who is None:
                self._who = greeting(content)
                self._answers.hello(*self._who)
                self._unsent = [memoryview(part) for part in self._job]
            elif kind != HELLO and self._who is not None:
                self._answers.answer(*self._who, (kind, content))
            else:
                raise BadMessage(f"an unexpected message of type {kind!r}")


class Listener:
    """A listening Unix socket in a directory that only this user can enter. The owner must close
    it.

    job: the contents of CONTEXT and of JOB. All workers get the same bytes, which may be large.
    answers: receives the workers' answers.
    """

    def __init__(self, job: Tuple[bytes, bytes], answers: Answers) -> None:
        self.answers = answers
        context, call = job
        self._job = (HEADER.pack(CONTEXT, len(context)) + context + HEADER.pack(JOB, len(call)),
                     call)
        self._folder = tempfile.mkdtemp(prefix="muster-")  # mode 0700
        if len(os.fsencode(self._folder)) + len("/socket") > _PATH_MAX:
            os.rmdir(self._folder)
            self._folder = tempfile.mkdtemp(prefix="muster-", dir="/tmp")
        self.path = os.path.join(self._folder, "socket")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self.socket.bind(self.path)
        self.socket.listen(socket.SOMAXCONN)

    def accept(self) -> Optional[Connection]:
        """The next worker's connection; None if none is pending. Rejects peers that
        run as another user (only root can connect), because their data would be unpickled."""
        while True:
            try:
                link, _ = self.socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return None
            data = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(data)[1] == os.geteuid():
                return Connection(link, self._job, self.answers)
            link.close()

    def close(self) -> None:
        """Removes the socket and its directory."""
        self.socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)
