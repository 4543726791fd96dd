# SPDX-License-Identifier: Apache-2.0
"""Owners of the C objects: the communicator, and the GradientSyncs that must be freed before it."""
from __future__ import annotations

import ctypes
import os
from typing import Callable, List, Optional, Set

from ._library import lib
from .work import WAIT_SLICE, PendingOperation


class GradientsHandle:
    """The C object of a GradientSync. Freed once, before its communicator, by its owner or by the
    communicator's core, whichever runs first. open: whether a step that involves other ranks is in
    progress."""

    def __init__(self, handle: Optional[int], comm: Optional[int]) -> None:
        self.handle, self.comm, self.open = handle, comm, False

    def free(self, c_library: ctypes.CDLL = lib) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            if self.open:  # freeing waits for operations that other ranks may never join
                c_library.muster_abort(self.comm, b"a GradientSync was freed inside a step")
            c_library.muster_gradients_free(handle)


class Core:
    """The C communicator. Destroyed together with the last object that uses it (a Communicator, a
    bucket, or an array of gradients)."""

    def __init__(self, handle: Optional[int]) -> None:
        self.handle = handle
        self.pid = os.getpid()
        self.pending: List[PendingOperation] = []  # they keep the buffers alive
        self.gradients: Set[GradientsHandle] = set()  # freed before the communicator
        # For muster.elastic: called before this rank sends anything.
        self.before_send: Optional[Callable[[], None]] = None

    def finish(self) -> None:
        """Waits for the pending operations, whether they succeed or fail."""
        for operation in self.pending:
            while not operation.wait(WAIT_SLICE):
                pass

    def __del__(self, getpid: Callable[[], int] = os.getpid,
                c_library: ctypes.CDLL = lib) -> None:
        """If close() was not called, for example because of an exception or at process exit, aborts
        the pending operations instead of waiting, because other ranks may never join them, and
        their buffers are about to be freed. The default arguments keep these globals alive: the
        interpreter may clear module globals before it calls this function at shutdown."""
        if self.pid == getpid():
            while self.gradients:
                self.gradients.pop().free()
            if not all(operation.done() for operation in self.pending):
                c_library.muster_abort(self.handle, b"the communicator was garbage-collected, or "
                                                    b"the process exited, with pending operations")
                self.finish()  # so that a remaining Work gets its result
            c_library.muster_comm_destroy(self.handle)
