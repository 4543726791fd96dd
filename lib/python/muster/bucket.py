# SPDX-License-Identifier: Apache-2.0
"""Bucket: memory of the library that operations read and write without a copy."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Optional

from . import errors
from ._library import check, lib
from .array_view import ArrayView
from .typing import DType, Shape

if TYPE_CHECKING:
    from .communicator import Core


class Bucket(ArrayView):
    """Made by Communicator.alloc(): zeroed, contiguous, aligned to 4 KiB. numpy(), torch(), view()
    and DLPack give arrays on it without a copy, and operations take it as it is. The memory lives
    until free(), or until the communicator is closed and no array on it is left.
    """

    def __init__(self, core: Core, shape: Shape, dtype: DType, device: Optional[int]) -> None:
        super().__init__(shape, dtype, device, None)
        self._core = core  # keeps the memory
        memory = ctypes.c_void_p()
        check(lib.muster_alloc(core.handle, max(self.nbytes, 1), self.device,
                               ctypes.byref(memory)))
        self.data = memory.value

    def free(self) -> None:
        """Returns the memory, so that another alloc() can use it. As alloc(), all ranks call it in
        the same order. No array on it may be used any more. InvalidState: it was freed before."""
        check(lib.muster_free(self._core.handle, self._address()))
        self.data = None

    def _address(self) -> int:
        if self.data is None:
            raise errors.InvalidState("the bucket was freed")
        return self.data
