# SPDX-License-Identifier: Apache-2.0
"""A connection from this process to its launcher (lib/worker/channel/CHANNEL.md)."""
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
DEPTH_MAX = 16  # maximum nesting of objects and lists
NUMBER_BITS_MAX = 1023  # a larger integer overflows a double, and the launcher rejects it
PAGE_BYTES = 4096
# Timeout in seconds for the launcher's first frame. The launcher normally sends it within 1 ms.
ANSWER_SECONDS = 5.0

Frame = Dict[str, Any]


def line_of(frame: Frame) -> bytes:
    """Encodes a frame. Raises ValueError or TypeError if the frame is not valid JSON, too long or
    nested too deeply. Replaces lone surrogates (from a file name that is not UTF-8) with "?",
    because the launcher's parser rejects them."""
    text = json.dumps(frame, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    line = text.encode(errors="replace")
    if len(line) > FRAME_BYTES_MAX:
        raise ValueError("cannot send more than %d bytes to muster" % FRAME_BYTES_MAX)
    if depth_of(frame) > DEPTH_MAX:
        raise ValueError("cannot send a value nested more than %d levels deep to muster"
                         % DEPTH_MAX)
    if has_huge_number(frame):
        raise ValueError("cannot send a number of more than %d bits to muster" % NUMBER_BITS_MAX)
    return line + b"\n"


def depth_of(value: Any) -> int:
    """The nesting depth. json.dumps() has accepted the value, so it has no cycles."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, (list, tuple)):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def has_huge_number(value: Any) -> bool:
    """Whether the value contains an int that is too large. Ints are Python's only numbers without a
    size limit."""
    if isinstance(value, dict):
        return any(map(has_huge_number, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_huge_number, value))
    return isinstance(value, int) and value.bit_length() > NUMBER_BITS_MAX


def is_same_user(peer: socket.socket) -> bool:
    """Whether the peer runs as our user. Any user may listen in the abstract namespace, so trust
    only our own user's launcher."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


class Connection:
    """Exchanges frames with the launcher. OSError: there is no launcher, or it closed the
    connection. page: this worker's step and time, for the agent. record: memory that outlives this
    process, for its replacement; only if wanted, and only with --restart=rank."""

    def __init__(self, wants_record: bool = False) -> None:
        name = os.environ.get(VARIABLE, "")
        if not name:
            raise OSError("not started by muster")
        self._bytes = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Without a timeout, a connect() to a full backlog would fail immediately.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                    struct.pack("ll", int(ANSWER_SECONDS), 0))
            self._connect("\0" + name)
            self._socket.settimeout(ANSWER_SECONDS)
            if not is_same_user(self._socket):
                raise OSError("another user's socket")
            self.page: Optional[memoryview] = None
            self.record: Optional[mmap.mmap] = None
            self._receive_hello(wants_record)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, address: str) -> None:
        """If a signal handler interrupts a blocked connect(), the socket stays unconnected.
        However, Python treats the connect as in progress and then as complete, so retry until
        connected."""
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            self._socket.connect(address)
            try:
                self._socket.getpeername()
                return
            except OSError:
                if time.monotonic() >= until:
                    raise

    def _receive_hello(self, wants_record: bool) -> None:
        """Receives the first frame and the descriptors of the page and the record."""
        space = socket.CMSG_SPACE(struct.calcsize("2i"))
        data, parts, _, _ = self._socket.recvmsg(FRAME_BYTES_MAX, space, socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, content in parts:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[:len(content) - len(content) % fds.itemsize])
        try:
            self._bytes = data
            hello = self.next(ANSWER_SECONDS)
            if not isinstance(hello, dict) or hello.get("type") != "hello":
                raise OSError("the launcher refused this process: %s" % hello)
            if fds:
                self.page = memoryview(mmap.mmap(fds[0], PAGE_BYTES)).cast("Q")
            if wants_record and len(fds) > 1:
                self.record = mmap.mmap(fds[1], os.fstat(fds[1]).st_size)
        finally:
            for descriptor in fds:
                os.close(descriptor)

    def send(self, frame: Frame) -> bool:
        """Sends a frame without blocking. Returns False and drops the frame if the launcher has not
        read earlier frames."""
        line = line_of(frame)
        try:
            # The kernel sends a line this short completely or not at all.
            return self._socket.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(line)
        except BlockingIOError:
            return False

    def next(self, timeout: Optional[float]) -> Optional[Frame]:
        """The next frame, or None if none arrives within `timeout` seconds (None for no limit)."""
        while b"\n" not in self._bytes:
            if len(self._bytes) > FRAME_BYTES_MAX:
                raise OSError("the launcher sent data that does not follow the muster protocol")
            self._socket.settimeout(timeout)
            try:
                data = self._socket.recv(FRAME_BYTES_MAX)
            except (BlockingIOError, socket.timeout):
                return None
            if not data:
                raise OSError("the launcher closed the connection")
            self._bytes += data
        line, self._bytes = self._bytes.split(b"\n", 1)
        frame: Frame = json.loads(line)
        return frame

    def waiting(self) -> List[Frame]:
        """Returns all frames that have arrived."""
        frames = []
        frame = self.next(0)
        while frame is not None:
            frames.append(frame)
            frame = self.next(0)
        return frames

    def shut_down(self) -> None:
        """Ends next() in another thread, with OSError. Any thread may call it."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the launcher closed the connection

    def close(self) -> None:
        self._socket.close()
