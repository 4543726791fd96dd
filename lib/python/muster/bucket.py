# SPDX-License-Identifier: Apache-2.0
"""Bucket: library memory that operations read and write without a copy."""
from __future__ import annotations

import ctypes
from typing import Optional

from . import errors
from ._library import check, lib
from .array_view import ArrayView
from .core import Core
from .typing import DType, Shape


class Bucket(ArrayView):
    """Allocated by Communicator.alloc(): zeroed, contiguous, aligned to 4 KiB. numpy(), torch(),
    view() and DLPack return arrays that share its memory, and operations accept it directly. The
    memory lives until free(), or until the communicator is closed and its last array is deleted.
    """

    def __init__(self, core: Core, shape: Shape, dtype: DType, device: Optional[int]) -> None:
        super().__init__(shape, dtype, device, None)
        self._core = core  # keeps the memory alive
        memory = ctypes.c_void_p()
        check(lib.muster_alloc(core.handle, max(self.nbytes, 1), self.device,
                               ctypes.byref(memory)))
        self.data = memory.value

    def free(self) -> None:
        """Returns the memory to the pool for later alloc() calls. As with alloc(), all ranks must
        call it in the same order. Do not use arrays on this memory afterwards. InvalidState:
        already freed."""
        check(lib.muster_free(self._core.handle, self._address()))
        self.data = None

    def _address(self) -> int:
        if self.data is None:
            raise errors.InvalidState("the bucket was freed")
        return self.data
