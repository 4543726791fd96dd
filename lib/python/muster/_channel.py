# SPDX-License-Identifier: Apache-2.0
"""One connection of this process to its launcher (lib/worker/channel/CHANNEL.md)."""
from __future__ import annotations

import array
import json
import mmap
import os
import socket
import struct
import time
from typing import Any, Dict, List, Optional

VARIABLE = "MUSTER_AGENT"
FRAME_BYTES_MAX = 8192
DEPTH_MAX = 16  # objects and lists inside each other
NUMBER_BITS_MAX = 1023  # what is larger has no place in a double: to the launcher it is no JSON
PAGE_BYTES = 4096
ANSWER_SECONDS = 5.0  # for the first frame, which comes in microseconds unless it is stopped

Frame = Dict[str, Any]


def line_of(frame: Frame) -> bytes:
    """ValueError or TypeError: it is no JSON, too long or too deep. A lone surrogate, as in the
    name of a file that is no UTF-8, becomes "?": to the launcher it would be no JSON."""
    text = json.dumps(frame, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    line = text.encode(errors="replace")
    if len(line) > FRAME_BYTES_MAX:
        raise ValueError("more than %d bytes cannot be told to muster" % FRAME_BYTES_MAX)
    if depth_of(frame) > DEPTH_MAX:
        raise ValueError("more than %d levels cannot be told to muster" % DEPTH_MAX)
    if has_huge_number(frame):
        raise ValueError("a number of more than %d bits cannot be told to muster" % NUMBER_BITS_MAX)
    return line + b"\n"


def depth_of(value: Any) -> int:
    """Of what json.dumps() takes, and which therefore has an end."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, (list, tuple)):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def has_huge_number(value: Any) -> bool:
    """Only Python's whole numbers have no end."""
    if isinstance(value, dict):
        return any(map(has_huge_number, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_huge_number, value))
    return isinstance(value, int) and value.bit_length() > NUMBER_BITS_MAX


def is_same_user(peer: socket.socket) -> bool:
    """Anyone may listen in the abstract namespace: only our own launcher is believed."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


class Connection:
    """Frames there and back. OSError: there is no launcher, or it ends the connection."""

    def __init__(self) -> None:
        name = os.environ.get(VARIABLE, "")
        if not name:
            raise OSError("not started by muster")
        self._bytes = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A connection that may not wait fails where many others wait already.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                    struct.pack("ll", int(ANSWER_SECONDS), 0))
            self._connect("\0" + name)
            self._socket.settimeout(ANSWER_SECONDS)
            if not is_same_user(self._socket):
                raise OSError("another user's socket")
            self.page = self._receive_hello()
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, address: str) -> None:
        """A handled signal ends a connect() that waits, and leaves the socket as it was. Python
        takes it for a connection that goes on, and then for one that is there."""
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            self._socket.connect(address)
            try:
                self._socket.getpeername()
                return
            except OSError:
                if time.monotonic() >= until:
                    raise

    def _receive_hello(self) -> Optional[memoryview]:
        """The first frame, and the page of this worker, which the agent reads: step and time."""
        space = socket.CMSG_SPACE(struct.calcsize("i"))
        data, parts, _, _ = self._socket.recvmsg(FRAME_BYTES_MAX, space, socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, content in parts:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[:len(content) - len(content) % fds.itemsize])
        try:
            self._bytes = data
            hello = self.next(ANSWER_SECONDS)
            if not isinstance(hello, dict) or hello.get("type") != "hello":
                raise OSError("the launcher refuses this process: %s" % hello)
            return memoryview(mmap.mmap(fds[0], PAGE_BYTES)).cast("Q") if fds else None
        finally:
            for descriptor in fds:
                os.close(descriptor)

    def send(self, frame: Frame) -> bool:
        """Never waits. False: the launcher has not read what came before; this is left out."""
        line = line_of(frame)
        try:
            # A line that is so short goes as a whole or not at all.
            return self._socket.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(line)
        except BlockingIOError:
            return False

    def next(self, timeout: Optional[float]) -> Optional[Frame]:
        """The next frame; None: there was none in so many seconds (None: wait for ever)."""
        while b"\n" not in self._bytes:
            if len(self._bytes) > FRAME_BYTES_MAX:
                raise OSError("the launcher speaks something else")
            self._socket.settimeout(timeout)
            try:
                data = self._socket.recv(FRAME_BYTES_MAX)
            except (BlockingIOError, socket.timeout):
                return None
            if not data:
                raise OSError("the launcher has ended the connection")
            self._bytes += data
        line, self._bytes = self._bytes.split(b"\n", 1)
        frame: Frame = json.loads(line)
        return frame

    def waiting(self) -> List[Frame]:
        """All frames that are there."""
        frames = []
        frame = self.next(0)
        while frame is not None:
            frames.append(frame)
            frame = self.next(0)
        return frames

    def close(self) -> None:
        self._socket.close()
