# SPDX-License-Identifier: Apache-2.0
"""What users hand in as buffers, seen as address, count and element type. Reads nothing of them.

Understood: torch tensors, NumPy arrays, library-owned buckets, anything with the buffer protocol
(array.array, bytearray, memoryview, ctypes arrays), anything with __dlpack__ (JAX, CuPy …) or
__cuda_array_interface__ (Numba …)."""
import ctypes
import sys
from ctypes import POINTER, c_int, c_ssize_t, c_void_p

from . import cuda_interface, dlpack, dtypes, errors
from ._library import HOST


class Memory:
    """Contiguous memory. shape: in elements. dtype: muster's name, None where it has none; then
    itemsize still holds. keep: what must live as long as the memory is used."""

    __slots__ = ("data", "shape", "count", "dtype", "itemsize", "device", "stream", "keep")

    def __init__(self, data, shape, dtype, itemsize, keep):
        self.data, self.shape, self.dtype, self.itemsize = data, shape, dtype, itemsize
        self.keep = keep
        self.device, self.stream = HOST, None
        self.count = 1
        for extent in shape:
            self.count *= extent


def of(x, writable=False):
    """The Memory of x. InvalidArgument: not contiguous, read-only but to be written, or nothing
    that has memory."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(torch, x)
    if hasattr(x, "__array_interface__"):
        return _of_interface(x, writable)
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, writable)
    if hasattr(x, "__cuda_array_interface__"):
        return cuda_interface.fill(Memory, x, writable)
    try:
        return _of_buffer(x, writable)
    except TypeError:
        raise errors.InvalidArgument(f"{type(x).__name__} is no array: wanted are torch tensors, "
                                     "NumPy arrays, buffers or what has __dlpack__ or "
                                     "__cuda_array_interface__") from None


def _refuse_layout():
    raise errors.InvalidArgument("the array is not contiguous (C order): hand in a contiguous copy")


def _refuse_read_only():
    raise errors.InvalidArgument("the array is read-only, and the result would go there")


def _of_torch(torch, x):
    if x.layout is not torch.strided or not x.is_contiguous():
        _refuse_layout()
    memory = Memory(x.data_ptr(), tuple(x.shape), dtypes.named(x.dtype), x.element_size(), x)
    if x.device.type == "cuda":
        memory.device = x.device.index
        memory.stream = torch.cuda.current_stream(x.device).cuda_stream
    elif x.device.type != "cpu":
        raise errors.Unsupported(f"tensors on {x.device.type} are not supported, only on CPUs and "
                                 "CUDA GPUs")
    return memory


def _of_interface(x, writable):
    about = x.__array_interface__
    data, read_only = about["data"]
    if about.get("strides") is not None:  # what is contiguous has none
        _refuse_layout()
    if writable and read_only:
        _refuse_read_only()
    dtype = getattr(x, "dtype", None)  # knows bfloat16, which the interface calls "<V2"
    name = dtypes.of_typestr(about["typestr"])
    if name is None and about["typestr"][1] == "V" and dtype is not None:
        name = dtypes.named(dtype)
    size = int(about["typestr"][2:]) * (4 if about["typestr"][1] == "U" else 1)
    return Memory(data, tuple(about["shape"]), name, size, x)


def _of_dlpack(x, writable):
    kind, device = x.__dlpack_device__()
    on_gpu = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    if not on_gpu and kind not in (dlpack.CPU, dlpack.CUDA_HOST):
        raise errors.Unsupported(f"DLPack device type {kind} is not supported")
    capsule = x.__dlpack__(stream=1) if on_gpu else x.__dlpack__()  # 1: the default stream
    tensor, read_only = dlpack.read(capsule)
    if not dlpack.is_contiguous(tensor):
        _refuse_layout()
    if writable and read_only:
        _refuse_read_only()
    name = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    memory = Memory((tensor.data or 0) + tensor.byte_offset, dlpack.shape(tensor), name,
                    tensor.bits * tensor.lanes // 8, (x, capsule))
    if on_gpu:
        memory.device = device
    return memory


class _PyBuffer(ctypes.Structure):
    """Py_buffer: unlike ctypes' from_buffer it also shows read-only memory."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", ctypes.c_char_p),
                ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("suboffsets", c_void_p), ("internal", c_void_p)]
    _held = False

    def take(self, x, flags):
        _get(x, ctypes.byref(self), flags)
        self._held = True

    def __del__(self):
        if self._held:
            _release(ctypes.byref(self))


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, POINTER(_PyBuffer), c_int)
_release = ctypes.pythonapi.PyBuffer_Release
_release.restype, _release.argtypes = None, (POINTER(_PyBuffer),)
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x38


def _of_buffer(x, writable):
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
