# SPDX-License-Identifier: Apache-2.0
"""Shown: memory of the library, for NumPy, torch, DLPack and the library's own operations."""
import ctypes
import sys

from . import dlpack, dtypes, errors
from ._library import HOST


class Shown:
    """Contiguous memory of a shape (elements) and an element type; nothing here copies it.

    numpy(), torch(), numpy.asarray(x), torch.from_dlpack(x) and view() show the same memory, and
    operations take the object itself as well as all of these. Each of them keeps the object, and
    with it the memory. device: a CUDA ordinal, -1 for the host.
    """

    def __init__(self, shape, dtype, device, data, keep=None):
        self.shape = extents(shape)
        self.dtype = dtypes.must_be_named(dtype)
        self.device = HOST if device is None else device
        self.size = count(self.shape)
        self.nbytes = self.size * dtypes.TYPES[self.dtype][1]
        self.data = data
        self._keep = keep

    def numpy(self):
        """As a NumPy array of this shape. Unsupported: on a GPU, or bf16 without the package
        ml_dtypes."""
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
        """As a torch tensor of this shape (on its GPU, if it is there)."""
        import torch
        return torch.utils.dlpack.from_dlpack(self.__dlpack__())

    def view(self):
        """As a memoryview of bytes. Unsupported: on a GPU."""
        return self._of_bytes(lambda raw, _: memoryview(raw).cast("B"))

    def _of_bytes(self, make):
        if self.device != HOST:
            raise errors.Unsupported("the memory is on a GPU: use torch() or DLPack")
        raw = (ctypes.c_ubyte * self.nbytes).from_address(self._address())
        raw.owner = self  # the view keeps raw, raw keeps us
        return make(raw, "u1")

    def _address(self):
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
        return f"<muster.{type(self).__name__} {self.dtype}{list(self.shape)}>"


def extents(shape):
    """A shape as a tuple; a number is a shape of one extent. InvalidArgument: a negative one."""
    out = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in out):
        raise errors.InvalidArgument(f"{out} is no shape")
    return out


def count(shape):
    """Elements of a shape."""
    out = 1
    for extent in shape:
        out *= extent
    return out
