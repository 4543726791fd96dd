# SPDX-License-Identifier: Apache-2.0
"""Describes the caller's arrays by address, count and element type. Does not read or copy
elements.

Accepts torch tensors, NumPy arrays, views of the library's memory, and any object with the buffer
protocol (array.array, bytearray, memoryview, ctypes arrays), with __dlpack__ (JAX, CuPy and others)
or with __cuda_array_interface__ (Numba and others)."""
from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_int, c_ssize_t, c_void_p
from typing import Any, NoReturn, Optional, Tuple

from . import cuda_interface, dlpack, dtypes, errors
from ._library import HOST


class Memory:
    """Contiguous memory.

    data: the address; None or 0 for an empty array. shape: extents in elements. dtype: muster's
    name for the element type; None if muster has none. itemsize: size of an element in bytes.
    device: the CUDA ordinal; -1 for the host. stream: the CUDA stream that orders access to the
    memory; None for the default stream. keep: an object to keep alive as long as the memory is
    used.
    """

    __slots__ = ("data", "shape", "count", "dtype", "itemsize", "device", "stream", "keep")

    def __init__(self, data: Optional[int], shape: Tuple[int, ...], dtype: Optional[str],
                 itemsize: int, keep: Any) -> None:
        self.data, self.shape, self.dtype, self.itemsize = data, shape, dtype, itemsize
        self.keep = keep
        self.device = HOST
        self.stream: Optional[int] = None
        self.count = 1
        for extent in shape:
            self.count *= extent


def of(x: Any, writable: bool = False) -> Memory:
    """Returns a Memory for x. InvalidArgument: x is not contiguous, is read-only but must be
    written, or is not an array."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(torch, x)
    if hasattr(x, "__array_interface__"):
        return _of_interface(x, writable)
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, writable)
    if hasattr(x, "__cuda_array_interface__"):
        return _of_cuda_interface(x, writable)
    try:
        return _of_buffer(x, writable)
    except TypeError:
        raise errors.InvalidArgument(f"{type(x).__name__} is not an array: pass a torch tensor, a "
                                     "NumPy array, a buffer, or an object with __dlpack__ or "
                                     "__cuda_array_interface__") from None


def _refuse_layout() -> NoReturn:
    raise errors.InvalidArgument("the array is not contiguous (C order): pass a contiguous copy")


def _refuse_read_only() -> NoReturn:
    raise errors.InvalidArgument("the array is read-only, but the operation writes to it")


def _of_torch(torch: Any, x: Any) -> Memory:
    if x.layout is not torch.strided or not x.is_contiguous():
        _refuse_layout()
    memory = Memory(x.data_ptr(), tuple(x.shape), dtypes.find(x.dtype), x.element_size(), x)
    if x.device.type == "cuda":
        memory.device = x.device.index
        memory.stream = torch.cuda.current_stream(x.device).cuda_stream
    elif x.device.type != "cpu":
        raise errors.Unsupported(f"tensors on {x.device.type} are not supported; only CPU and CUDA "
                                 "tensors are")
    return memory


def _of_interface(x: Any, writable: bool) -> Memory:
    about = x.__array_interface__
    data, read_only = about["data"]
    if about.get("strides"):  # None if contiguous; NumPy's scalars have ()
        _refuse_layout()
    if writable and read_only:
        _refuse_read_only()
    dtype = getattr(x, "dtype", None)  # recognizes ml_dtypes' bfloat16; its typestr is "<V2"
    name = dtypes.of_typestr(about["typestr"])
    if name is None and about["typestr"][1] == "V" and dtype is not None:
        name = dtypes.find(dtype)
    size = int(about["typestr"][2:]) * (4 if about["typestr"][1] == "U" else 1)
    return Memory(data, tuple(about["shape"]), name, size, x)


def _of_cuda_interface(x: Any, writable: bool) -> Memory:
    contents = cuda_interface.read(x, writable)
    memory = Memory(contents.data, contents.shape, contents.dtype, contents.itemsize, x)
    memory.device, memory.stream = contents.device, contents.stream
    return memory


def _never_changes(x: Any) -> bool:
    """True for libraries with immutable arrays, because their DLPack capsules are not marked
    read-only."""
    return type(x).__module__.partition(".")[0] in ("jax", "jaxlib", "tensorflow")


def _of_dlpack(x: Any, writable: bool) -> Memory:
    kind, device = x.__dlpack_device__()
    on_gpu = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    if not on_gpu and kind not in (dlpack.CPU, dlpack.CUDA_HOST):
        raise errors.Unsupported(f"DLPack device type {kind} is not supported")
    capsule = x.__dlpack__(stream=1) if on_gpu else x.__dlpack__()  # 1: the default stream
    tensor, read_only = dlpack.read(capsule)
    if not dlpack.is_contiguous(tensor):
        _refuse_layout()
    if writable and (read_only or _never_changes(x)):
        _refuse_read_only()
    name = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    memory = Memory((tensor.data or 0) + tensor.byte_offset, dlpack.shape(tensor), name,
                    tensor.bits * tensor.lanes // 8, (x, capsule))
    if on_gpu:
        memory.device = device
    return memory


class _PyBuffer(ctypes.Structure):
    """Py_buffer. ctypes' from_buffer would work for writable memory, but rejects read-only
    memory."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", ctypes.c_char_p),
                ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("suboffsets", c_void_p), ("internal", c_void_p)]
    _held = False

    def take(self, x: Any, flags: int) -> None:
        _get(x, ctypes.byref(self), flags)
        self._held = True

    def __del__(self) -> None:
        if self._held:
            _release(ctypes.byref(self))


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, POINTER(_PyBuffer), c_int)
_release = ctypes.pythonapi.PyBuffer_Release
_release.restype, _release.argtypes = None, (POINTER(_PyBuffer),)
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x38


def _of_buffer(x: Any, writable: bool) -> Memory:
    view = _PyBuffer()
    try:
        view.take(x, _FORMAT | _C_CONTIGUOUS | (_WRITABLE if writable else 0))
    except BufferError:
        seen = memoryview(x)
        if not seen.c_contiguous:
            _refuse_layout()
        _refuse_read_only()
    text = (view.format or b"B").decode()
    shape = tuple(view.shape[i] for i in range(view.ndim))
    return Memory(view.buf, shape, dtypes.of_format(text, view.itemsize), view.itemsize, view)
