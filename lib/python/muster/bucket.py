# SPDX-License-Identifier: Apache-2.0
"""Bucket: memory of the library that operations read and write without a copy."""
import ctypes
import sys

from . import dlpack, dtypes, errors
from ._library import HOST, check, lib


class Bucket:
    """Made by Communicator.alloc(). Zeroed at first, contiguous, aligned to 4 KiB.

    numpy(), torch(), numpy.asarray(bucket), torch.from_dlpack(bucket) and view() show the same
    memory without a copy, and operations take the bucket itself as well as all of these. It lives
    until free(), or until the communicator is closed and nothing shows it any more.
    """

    def __init__(self, core, shape, dtype, device):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtypes.must_be_named(dtype)
        self.device = HOST if device is None else device
        self.size = 1
        for extent in self.shape:
            if extent < 0:
                raise errors.InvalidArgument(f"alloc: {self.shape} is no shape")
            self.size *= extent
        self.nbytes = self.size * dtypes.TYPES[self.dtype][1]
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

    def numpy(self):
        """As a NumPy array of the bucket's shape. Unsupported: on a GPU, or bf16 without the
        package ml_dtypes."""
        import numpy
        if dtypes.to_typestr(self.dtype) or self.device != HOST:
            return numpy.asarray(self)
        try:
            import ml_dtypes
        except ImportError:
            raise errors.Unsupported(f"NumPy has no {self.dtype}: install the package ml_dtypes, "
                                     "or use torch()") from None
        return self._of_bytes(numpy.frombuffer).view(ml_dtypes.bfloat16).reshape(self.shape)

    def torch(self):
        """As a torch tensor of the bucket's shape (on its GPU, if it is there)."""
        import torch
        return torch.utils.dlpack.from_dlpack(self.__dlpack__())

    def view(self):
        """As a memoryview of bytes. Unsupported: on a GPU."""
        return self._of_bytes(lambda raw, _: memoryview(raw).cast("B"))

    def _of_bytes(self, make):
        if self.device != HOST:
            raise errors.Unsupported("the bucket is on a GPU: use torch() or DLPack")
        raw = (ctypes.c_ubyte * self.nbytes).from_address(self._address())
        raw.bucket = self  # the view keeps raw, raw keeps us
        return make(raw, "u1")

    def _address(self):
        if self.data is None:
            raise errors.InvalidState("the bucket was freed")
        return self.data

    @property
    def __array_interface__(self):
        typestr = dtypes.to_typestr(self.dtype)
        if typestr is None or self.device != HOST:
            raise AttributeError("__array_interface__")  # NumPy then looks further
        return {"version": 3, "shape": self.shape, "typestr": typestr, "strides": None,
                "data": (self._address(), False)}

    def __dlpack_device__(self):
        return (dlpack.CPU, 0) if self.device == HOST else (dlpack.CUDA, self.device)

    def __dlpack__(self, **_):
        """A capsule; operations of the library on this memory must have ended."""
        return dlpack.make(self, self._address(), self.shape, dtypes.to_dlpack(self.dtype),
                           self.device)

    if sys.version_info >= (3, 12):
        def __buffer__(self, flags):
            return self.view()

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<muster.Bucket {self.dtype}{list(self.shape)}>"
