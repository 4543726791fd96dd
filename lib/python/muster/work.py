# SPDX-License-Identifier: Apache-2.0
"""Work: an operation that was started."""
import time

from . import errors
from ._library import check, last_error, lib

# The host looks for Python's signals (Ctrl-C) so often while it waits, in seconds.
SLICE = 0.2


class Work:
    """Of Communicator methods with async_op=True. Any thread may ask and wait; it may also be
    dropped: the communicator keeps the buffers until the operation is over.

    value: what the method without async_op would have returned; to be read after wait().
    """

    __slots__ = ("_handle", "_error", "_keep", "value", "__weakref__")

    def __init__(self, handle, value=None, keep=()):
        self._handle = handle  # None: it is over and went well
        self._error = None
        self._keep = keep
        self.value = value

    @property
    def done(self):
        """Whether it is over; wait() then returns, or raises, at once. Device buffers: whether
        the GPU has done it."""
        if self._handle is None or lib.muster_work_done(self._handle):
            self._keep = ()
            return True
        return False

    def wait(self, timeout=None):
        """Blocks until the results can be read by the host, and returns `value`.

        timeout: seconds; None: as long as the operation's own timeout lets it. TimedOut with
        rank None: this patience ended, the operation goes on. Raises what the operation failed
        with, each time. Other threads run meanwhile; Ctrl-C ends the wait, not the operation.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        while not self._ended_within(SLICE if give_up is None else
                                     min(SLICE, give_up - time.monotonic())):
            if give_up is not None and time.monotonic() >= give_up:
                raise errors.TimedOut(f"the operation goes on: {timeout} s of waiting are over")
        if self._error is not None:
            raise self._error
        self._keep = ()
        return self.value

    def wait_stream(self, stream):
        """Work queued on this CUDA stream (an address, or an object with cuda_stream) from now on
        runs after the operation; does not block the host."""
        if self._handle is not None:
            check(lib.muster_work_wait_stream(self._handle, getattr(stream, "cuda_stream", stream)))

    def _ended_within(self, seconds):
        if self._handle is None or self._error is not None:
            return True
        code = lib.muster_work_wait(self._handle, max(1, int(seconds * 1e9)))
        if code == errors.TimedOut.code and not lib.muster_work_done(self._handle):
            return False
        if code != 0:
            self._error = last_error()
        return True

    def __del__(self, free=lib.muster_work_free):
        if self._handle is not None:
            free(self._handle)
