# SPDX-License-Identifier: Apache-2.0
"""GPU arrays whose only interface is __cuda_array_interface__ (Numba, PyCUDA and others). The
interface does not contain the GPU's ordinal, so the ordinal is queried from the driver."""
from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import dtypes, errors

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_DEFAULT_STREAM = 1


class Contents(NamedTuple):
    """The contents of the interface, plus the GPU. stream: None for the default stream."""

    data: int
    shape: Tuple[int, ...]
    dtype: Optional[str]
    itemsize: int
    device: int
    stream: Optional[int]


def read(x: Any, writable: bool) -> Contents:
    """Reads the array's interface. InvalidArgument: the array is not contiguous, or `writable` is
    true and the array is read-only. Unsupported: there is no driver."""
    about = x.__cuda_array_interface__
    data, read_only = about["data"]
    shape, size = tuple(about["shape"]), int(about["typestr"][2:])
    if not _is_contiguous(shape, about.get("strides"), size):
        raise errors.InvalidArgument("the array is not contiguous (C order): pass a contiguous "
                                     "copy")
    if writable and read_only:
        raise errors.InvalidArgument("the array is read-only, but the operation writes to it")
    stream = about.get("stream")
    return Contents(data, shape, dtypes.of_typestr(about["typestr"]), size,
                    0 if 0 in shape else device_of(data),
                    None if stream in (None, _DEFAULT_STREAM) else stream)


def device_of(address: int) -> int:
    """The CUDA ordinal of the GPU that holds this memory. Unsupported: there is no CUDA driver, or
    the memory is not on a GPU."""
    path = os.environ.get("MUSTER_CUDA_LIBRARY") or "libcuda.so.1"
    try:
        ask = ctypes.CDLL(path).cuPointerGetAttribute
    except (OSError, AttributeError) as error:
        raise errors.Unsupported("the array is on a GPU, but there is no CUDA driver: "
                                 f"{error}") from None
    ordinal = ctypes.c_int(-1)
    code = ask(ctypes.byref(ordinal), ctypes.c_int(_DEVICE_ORDINAL), ctypes.c_uint64(address))
    if code != 0:
            raise errors.Unsupported(f"the CUDA driver does not recognize memory at {address:#x} "
                                     f"(cuPointerGetAttribute returned {code})")
    return ordinal.value


def _is_contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], size: int) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = size
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
