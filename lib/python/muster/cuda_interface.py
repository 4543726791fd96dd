# SPDX-License-Identifier: Apache-2.0
"""Arrays on GPUs that only show __cuda_array_interface__ (Numba, PyCUDA …). The interface does not
say which GPU the memory is on: the driver does."""
import ctypes
import os

from . import dtypes, errors

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_DEFAULT_STREAM = 1


def fill(make, x, writable):
    """The Memory of x, which make(data, shape, dtype, itemsize, keep) begins."""
    about = x.__cuda_array_interface__
    data, read_only = about["data"]
    shape, size = tuple(about["shape"]), int(about["typestr"][2:])
    if not _is_contiguous(shape, about.get("strides"), size):
        raise errors.InvalidArgument("the array is not contiguous (C order): hand in a contiguous "
                                     "copy")
    if writable and read_only:
        raise errors.InvalidArgument("the array is read-only, and the result would go there")
    memory = make(data, shape, dtypes.of_typestr(about["typestr"]), size, x)
    memory.device = device_of(data) if memory.count else 0
    stream = about.get("stream")
    memory.stream = None if stream in (None, _DEFAULT_STREAM) else stream
    return memory


def device_of(address):
    """The CUDA ordinal of memory. Unsupported: there is no driver, or the memory is of no GPU."""
    path = os.environ.get("MUSTER_CUDA_LIBRARY") or "libcuda.so.1"
    try:
        ask = ctypes.CDLL(path).cuPointerGetAttribute
    except (OSError, AttributeError) as error:
        raise errors.Unsupported(f"an array on a GPU, but no CUDA driver: {error}") from None
    ordinal = ctypes.c_int(-1)
    code = ask(ctypes.byref(ordinal), ctypes.c_int(_DEVICE_ORDINAL), ctypes.c_uint64(address))
    if code != 0:
        raise errors.Unsupported(f"the CUDA driver does not know memory at {address:#x} (cuPointer"
                                 f"GetAttribute gave {code})")
    return ordinal.value


def _is_contiguous(shape, strides, size):
    if strides is None or 0 in shape:
        return True
    expected = size
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
