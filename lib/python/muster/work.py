# SPDX-License-Identifier: Apache-2.0
"""Work: the handle of an asynchronous operation."""
from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, List, Optional

from . import errors
from ._library import last_error, lib
from .typing import Stream

# Seconds per blocking wait in C. Between waits Python handles signals such as Ctrl-C.
WAIT_SLICE = 0.2


def address_of(stream: Optional[Stream]) -> Optional[int]:
    """The raw handle of a CUDA stream."""
    given: Any = stream
    address: Optional[int] = getattr(given, "cuda_stream", given)
    return address


class PendingOperation:
    """The state that a communicator and a Work share for an operation: the C handle until it
    completes, then its error. keep: the buffers that the library's thread uses. Thread-safe."""

    __slots__ = ("handle", "error", "_keep", "_lock", "_users", "_pid")

    def __init__(self, handle: Optional[int], keep: Any) -> None:
        self.handle = handle  # None once the operation is complete
        self.error: Optional[errors.Error] = None
        self._keep = keep
        self._lock = threading.Lock()
        self._users = 0  # number of threads inside C calls with the handle
        self._pid = os.getpid()

    def done(self) -> bool:
        return self.handle is None or self._use(
            lambda handle: bool(lib.muster_work_done(handle)) and self._end(errors.TimedOut.code))

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds`. Returns whether the operation is complete."""
        return self.handle is None or self._use(lambda handle: self._wait(handle, seconds))

    def wait_stream(self, stream: Optional[int]) -> None:
        codes: List[int] = []

        def call(handle: int) -> bool:
            codes.append(lib.muster_work_wait_stream(handle, stream))
            return False  # the host cannot tell whether the GPU has finished
        if self.handle is not None:
            self._use(call)
        if codes and codes[0] != 0:
            raise last_error()

    def _wait(self, handle: int, seconds: float) -> bool:
        code = lib.muster_work_wait(handle, max(1, int(seconds * 1e9)))
        if code == errors.TimedOut.code and not lib.muster_work_done(handle):
            return False
        return self._end(code)

    def _end(self, code: int) -> bool:
        """Stores the result. If a wait times out just as the operation completes, a second wait on
        the completed operation returns the result."""
        if code == errors.TimedOut.code:
            code = lib.muster_work_wait(self.handle, 0)
        if code != 0:
            self.error = last_error()
        return True

    def _use(self, call: Callable[[int], bool]) -> bool:
        """Whether the operation is complete, according to call(handle). If so, the last thread
        that uses the handle frees it, because another thread may still be inside a C call. In a
        forked child the operation counts as complete with an error, and the lock is not used: a
        thread that exists only in the parent may hold it."""
        if self._pid != os.getpid():
            self.error = errors.InvalidState("this process was forked while the operation was "
                                             "pending; only the rank that started it may wait for "
                                             "it. Wait before the fork, or in the parent")
            self.handle = None  # the parent owns it
            return True
        with self._lock:
            if self.handle is None:
                return True
            self._users += 1
        over = False
        try:
            over = call(self.handle)
        finally:
            with self._lock:
                self._users -= 1
                if over:
                    self._keep = ()
                if over and self._users == 0 and self.handle is not None:
                    handle, self.handle = self.handle, None
                    lib.muster_work_free(handle)
        return over


class Work:
    """Returned by operations with async_op=True. Thread-safe. A Work may be dropped: the
    communicator keeps the buffers alive until the operation completes.

    value: the return value that the operation has without async_op; valid after wait().
    """

    __slots__ = ("_pending", "value", "__weakref__")

    def __init__(self, pending: PendingOperation, value: Any = None) -> None:
        self._pending = pending
        self.value = value

    @property
    def done(self) -> bool:
        """Whether the operation is complete, so that wait() returns or raises immediately. For
        buffers on GPUs: whether the GPU has finished the operation."""
        return self._pending.done()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Blocks until the host can read the results, and returns `value`.

        timeout: in seconds; None waits until the operation's own timeout. Every call raises the
        operation's error. TimedOut with rank None means that only this wait timed out and the
        operation continues. Other Python threads can run during the call. Ctrl-C interrupts the
        wait, not the operation.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        seconds = WAIT_SLICE
        while True:
            if deadline is not None:
                seconds = min(WAIT_SLICE, deadline - time.monotonic())
            if self._pending.wait(seconds):
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise errors.TimedOut(f"wait timed out after {timeout} s; the operation continues")
        if self._pending.error is not None:
            raise self._pending.error
        return self.value

    def wait_stream(self, stream: Stream) -> None:
        """Makes later work on this CUDA stream wait for the operation. Does not block the host.
        stream: a raw CUDA stream handle (int), or an object with a `cuda_stream` attribute."""
        self._pending.wait_stream(address_of(stream))
