# SPDX-License-Identifier: Apache-2.0
"""ArrayView: exposes the library's memory to NumPy, torch, DLPack and the library's operations."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from . import dlpack, dtypes, errors
from ._library import HOST
from .typing import DType, Shape

if TYPE_CHECKING:  # aliases, because the class has methods named numpy and torch
    import numpy as np
    import torch as pytorch


class ArrayView:
    """Contiguous memory with a shape and an element type. Never copies.

    numpy(), torch(), view(), numpy.asarray(x) and torch.from_dlpack(x) return arrays that share
    this memory. Operations accept these arrays and the view itself. Each array keeps the view, and
    thus the memory, alive.

    shape: extents in elements. size: number of elements. nbytes: size in bytes. dtype: muster's
    name for the element type ("f32"). device: the CUDA ordinal; -1 for the host. data: the
    address.
    """

    def __init__(self, shape: Shape, dtype: DType, device: Optional[int], data: Optional[int],
                 keep: Any = None) -> None:
        """For internal use. keep: an object to keep alive as long as the memory is used."""
        self.shape = extents(shape)
        self.dtype = dtypes.require(dtype)
        self.device = HOST if device is None else device
        self.size = count(self.shape)
        self.nbytes = self.size * dtypes.TYPES[self.dtype][1]
        self.data = data
        self._keep = keep

    def numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy array of this shape. Unsupported: the memory is on a GPU, or the type is bf16 and
        ml_dtypes is not installed."""
        import numpy
        if dtypes.to_typestr(self.dtype) or self.device != HOST:
            whole: np.ndarray[Any, Any] = numpy.asarray(self)
            return whole
        try:
            import ml_dtypes
        except ImportError:
            raise errors.Unsupported(f"NumPy has no {self.dtype}: install the ml_dtypes package, "
                                     "or use torch()") from None
        flat = self._as_bytes(numpy.frombuffer).view(ml_dtypes.bfloat16)
        shaped: np.ndarray[Any, Any] = flat.reshape(self.shape)
        return shaped

    def torch(self) -> pytorch.Tensor:
        """A torch tensor of this shape, on the GPU if the memory is on one."""
        import torch
        return torch.utils.dlpack.from_dlpack(self.__dlpack__())

    def view(self) -> memoryview:
        """A memoryview of the bytes. Raises Unsupported if the memory is on a GPU."""
        view: memoryview = self._as_bytes(lambda raw, _: memoryview(raw).cast("B"))
        return view

    def _as_bytes(self, make: Callable[[Any, str], Any]) -> Any:
        if self.device != HOST:
            raise errors.Unsupported("the memory is on a GPU: use torch() or DLPack")
        raw = (ctypes.c_ubyte * self.nbytes).from_address(self._address())
        raw.owner = self  # type: ignore[attr-defined]  # result → raw → self
        return make(raw, "u1")

    def _address(self) -> int:
        return self.data or 0

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        typestr = dtypes.to_typestr(self.dtype)
        if typestr is None or self.device != HOST:
            raise AttributeError("__array_interface__")  # NumPy then tries other protocols
        return {"version": 3, "shape": self.shape, "typestr": typestr, "strides": None,
                "data": (self._address(), False)}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (dlpack.CPU, 0) if self.device == HOST else (dlpack.CUDA, self.device)

    def __dlpack__(self, **_: Any) -> Any:
        """A capsule. This method does not synchronize any stream, so the caller must first wait
        for operations on this memory."""
        return dlpack.make(self, self._address(), self.shape, dtypes.to_dlpack(self.dtype),
                           self.device)

    # There is no __buffer__ (Python 3.12 and later), because NumPy would prefer it, and a byte
    # buffer has neither shape nor type.

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<muster.{type(self).__name__} {self.dtype}{list(self.shape)}>"


def extents(shape: Shape) -> Tuple[int, ...]:
    """The shape as a tuple; an int is a single extent. InvalidArgument: an extent is negative."""
    out = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in out):
        raise errors.InvalidArgument(f"shape {out} has a negative extent")
    return out


def count(shape: Tuple[int, ...]) -> int:
    """The number of elements in a shape."""
    out = 1
    for extent in shape:
        out *= extent
    return out
