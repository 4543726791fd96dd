# SPDX-License-Identifier: Apache-2.0
"""Work: an operation that was started."""
import threading
import time

from . import errors
from ._library import last_error, lib

# The host looks for Python's signals (Ctrl-C) so often while it waits, in seconds.
SLICE = 0.2


class Started:
    """What the communicator and the Work share of an operation: the C handle until it is over,
    then how it ended. keep: the buffers. Any thread."""

    __slots__ = ("handle", "error", "_keep", "_lock", "_users")

    def __init__(self, handle, keep):
        self.handle = handle  # None: it is over
        self.error = None
        self._keep = keep
        self._lock = threading.Lock()
        self._users = 0  # threads inside of C calls with the handle

    def done(self):
        return self.handle is None or self._use(
            lambda handle: lib.muster_work_done(handle) and self._ended(errors.TimedOut.code))

    def wait(self, seconds):
        """Whether it is over within that time."""
        return self.handle is None or self._use(lambda handle: self._waited(handle, seconds))

    def wait_stream(self, stream):
        code = []
        if self.handle is not None:
            self._use(lambda handle: code.append(lib.muster_work_wait_stream(handle, stream)))
        if code and code[0] != 0:
            raise last_error()

    def _waited(self, handle, seconds):
        code = lib.muster_work_wait(handle, max(1, int(seconds * 1e9)))
        if code == errors.TimedOut.code and not lib.muster_work_done(handle):
            return None
        return self._ended(code)

    def _ended(self, code):
        """A patience that ended together with the operation says nothing: ask how it went."""
        if code == errors.TimedOut.code:
            code = lib.muster_work_wait(self.handle, 0)
        if code != 0:
            self.error = last_error()
        return True

    def _use(self, call):
        """Calls with the handle, which is freed by the last that uses it once it is over."""
        with self._lock:
            if self.handle is None:
                return True
            self._users += 1
        over = None
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
        return bool(over)


class Work:
    """Of Communicator methods with async_op=True. Any thread may ask and wait; it may also be
    dropped: the communicator keeps the buffers until the operation is over.

    value: what the method without async_op would have returned; to be read after wait().
    """

    __slots__ = ("_started", "value", "__weakref__")

    def __init__(self, started, value=None):
        self._started = started
        self.value = value

    @property
    def done(self):
        """Whether it is over; wait() then returns, or raises, at once. Device buffers: whether
        the GPU has done it."""
        return self._started.done()

    def wait(self, timeout=None):
        """Blocks until the results can be read by the host, and returns `value`.

        timeout: seconds; None: as long as the operation's own timeout lets it. TimedOut with
        rank None: this patience ended, the operation goes on. Raises what the operation failed
        with, each time. Other threads run meanwhile; Ctrl-C ends the wait, not the operation.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        left = SLICE
        while True:
            if give_up is not None:
                left = min(SLICE, give_up - time.monotonic())
            if self._started.wait(left):
                break
            if give_up is not None and time.monotonic() >= give_up:
                raise errors.TimedOut(f"the operation goes on: {timeout} s of waiting are over")
        if self._started.error is not None:
            raise self._started.error
        return self.value

    def wait_stream(self, stream):
        """Work queued on this CUDA stream (an address, or an object with cuda_stream) from now on
        runs after the operation; does not block the host."""
        self._started.wait_stream(getattr(stream, "cuda_stream", stream))
