# SPDX-License-Identifier: Apache-2.0
"""Reads and creates DLPack capsules (https://dmlc.github.io/dlpack), using only ctypes."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, Dict, Sequence, Tuple

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
READ_ONLY = 1


class Tensor(Structure):
    """DLTensor."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


DELETER: Any = ctypes.CFUNCTYPE(None, c_void_p)


class Managed(Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", DELETER)]


class ManagedVersioned(Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", c_void_p),
                ("deleter", DELETER), ("flags", c_uint64), ("tensor", Tensor)]


_api = ctypes.pythonapi
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, (ctypes.py_object, ctypes.c_char_p)
_new = _api.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = (c_void_p, ctypes.c_char_p, c_void_p)
# A destructor receives a capsule that is being deallocated. Taking a reference would resurrect it,
# so it is passed as an address.
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api))


def read(capsule: Any) -> Tuple[Tensor, bool]:
    """The tensor in the capsule, and whether it is read-only; valid as long as the capsule lives.
    Does not consume the capsule: the capsule's own destructor frees the tensor."""
    if _is_valid(capsule, PLAIN):
        return ctypes.cast(_pointer(capsule, PLAIN), POINTER(Managed)).contents.tensor, False
    if _is_valid(capsule, VERSIONED):
        managed = ctypes.cast(_pointer(capsule, VERSIONED), POINTER(ManagedVersioned)).contents
        return managed.tensor, bool(managed.flags & READ_ONLY)
    raise TypeError("__dlpack__ returned something other than a capsule, or a consumed capsule")


def shape(tensor: Tensor) -> Tuple[int, ...]:
    return tuple(tensor.shape[i] for i in range(tensor.ndim))


def is_contiguous(tensor: Tensor) -> bool:
    """Whether the tensor is in C order. A tensor without strides is contiguous."""
    if not tensor.strides:
        return True
    expected = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.shape[i] != 1 and tensor.strides[i] != expected:
            return False
        expected *= tensor.shape[i]
    return True


_alive: Dict[int, Any] = {}  # {address of a Managed: objects that it keeps alive}


@DELETER  # type: ignore[misc]
def _release(address: int) -> None:
    _alive.pop(address, None)


@ctypes.PYFUNCTYPE(None, c_void_p)  # type: ignore[misc]
def _destroy(capsule: int) -> None:
    """A capsule's destructor. A consumer renames the capsule and calls the deleter itself; in that
    case there is nothing to free."""
    if _raw_is_valid(capsule, PLAIN):
        get = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", _api))
        _release(get(capsule, PLAIN))


def make(owner: Any, data: int, dims: Sequence[int], code_bits: Tuple[int, int],
         device: int) -> Any:
    """A capsule for contiguous memory, on the host if device < 0. It keeps `owner` alive until the
    consumer calls the deleter."""
    extents = (c_int64 * len(dims))(*dims)
    kind = CPU if device < 0 else CUDA
    managed = Managed(tensor=Tensor(data, kind, max(device, 0), len(dims), *code_bits, 1, extents,
                                    None, 0), context=None, deleter=_release)
    address = ctypes.addressof(managed)
    _alive[address] = (owner, managed, extents)
    return _new(address, PLAIN, ctypes.cast(_destroy, c_void_p))
