# SPDX-License-Identifier: Apache-2.0
"""Bucket: memory of the library that operations read and write without a copy."""
import ctypes

from . import errors
from ._library import check, lib
from .shown import Shown


class Bucket(Shown):
    """Made by Communicator.alloc(). Zeroed at first, contiguous, aligned to 4 KiB; shown by
    numpy(), torch(), view() and DLPack without a copy, and taken by operations as it is. It lives
    until free(), or until the communicator is closed and nothing shows it any more.
    """

    def __init__(self, core, shape, dtype, device):
        super().__init__(shape, dtype, device, None)
        self._core = core  # keeps the memory
        memory = ctypes.c_void_p()
        check(lib.muster_alloc(core.handle, max(self.nbytes, 1), self.device,
                               ctypes.byref(memory)))
        self.data = memory.value

    def free(self):
        """Gives the memory back for another alloc(); all ranks do so in the same order. The caller
        has let go of every array that shows it. InvalidState: it was freed before."""
        check(lib.muster_free(self._core.handle, self._address()))
        self.data = None

    def _address(self):
        if self.data is None:
            raise errors.InvalidState("the bucket was freed")
        return self.data
