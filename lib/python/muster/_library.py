# SPDX-License-Identifier: Apache-2.0
"""Finds libmuster_collective.so and declares its functions (muster/collective.h) for ctypes."""
from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, Tuple

from . import errors

ABI_VERSION = 1
VARIABLE = "MUSTER_COLLECTIVE_LIBRARY"
NAMES = ("libmuster_collective.so", "libmuster_collective.so.1")
HOST = -1
RECORDER_OFF = 2 ** 64 - 1
ON, OFF = 1, -1
BACKENDS = ("auto", "shm", "tcp", "hier", "nccl")
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4, "premul_sum": 5}
(BARRIER, ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND,
 RECV) = range(9)


class CError(Structure):
    _fields_ = [("size", c_size_t), ("code", c_int32), ("rank", c_int32), ("native", c_int32),
                ("epoch", c_uint64), ("seq", c_uint64)]


class COptions(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("backend", c_int32),
                ("timeout_ns", c_int64), ("init_timeout_ns", c_int64),
                ("recorder_folder", c_char_p), ("host", c_char_p), ("address", c_char_p),
                ("port_range", c_char_p), ("arena_bytes", c_uint64), ("recorder_entries", c_uint64)]


class CBootstrap(Structure):
    _fields_ = [("size", c_size_t), ("store_host", c_char_p), ("store_port", c_int32),
                ("rank", c_int32), ("ranks", c_int32), ("epoch", c_uint64), ("job", c_char_p)]


class CBuffer(Structure):
    _fields_ = [("data", c_void_p), ("count", c_size_t), ("dtype", c_int32), ("device", c_int32)]


class CCall(Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int32), ("op", c_int32), ("root", c_int32),
                ("is_async", c_int32), ("input", CBuffer), ("output", CBuffer),
                ("timeout_ns", c_int64), ("scale", c_double), ("stream", c_void_p),
                ("max_wait_ns", c_int64)]


# Parameters of the hook: context, communicator, bucket, work.
HOOK: Any = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(CBuffer), POINTER(c_void_p))
NO_HOOK = HOOK()


class CGradientsOptions(Structure):
    _fields_ = [("size", c_size_t), ("first_bucket", c_uint64), ("bucket_cap", c_uint64),
                *((name, c_int32) for name in ("wire", "average", "owns_memory", "background",
                                               "has_unused", "reorder", "on_gpu", "device")),
                ("hook", HOOK), ("context", c_void_p)]


class CGradientsStats(Structure):
    _fields_ = [("size", c_size_t), ("buckets", c_uint64), ("bytes", c_uint64),
                ("exposed_ns", c_int64), ("moved", c_int32)]


# function name: (result type, argument types)
_PROTOTYPES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "muster_abi_version": (c_int, ()),
    "muster_process_ends": (None, ()),
    "muster_last_error": (c_int, (POINTER(CError),)),
    "muster_last_error_text": (c_size_t, (c_char_p, c_size_t)),
    "muster_comm_from_env": (c_int, (POINTER(COptions), POINTER(c_void_p))),
    "muster_comm_create": (c_int, (POINTER(CBootstrap), POINTER(COptions), POINTER(c_void_p))),
    "muster_comm_destroy": (None, (c_void_p,)),
    "muster_comm_rank": (c_int, (c_void_p,)),
    "muster_comm_size": (c_int, (c_void_p,)),
    "muster_comm_epoch": (c_uint64, (c_void_p,)),
    "muster_comm_backend": (c_int, (c_void_p,)),
    "muster_run": (c_int, (c_void_p, POINTER(CCall), POINTER(c_void_p))),
    "muster_comm_split": (c_int, (c_void_p, c_int, c_int, POINTER(c_void_p))),
    "muster_comm_rebuild": (c_int, (c_void_p, c_int, c_int, c_uint64, POINTER(c_void_p))),
    "muster_alloc": (c_int, (c_void_p, c_size_t, c_int, POINTER(c_void_p))),
    "muster_free": (c_int, (c_void_p, c_void_p)),
    "muster_abort": (None, (c_void_p, c_char_p)),
    "muster_comm_error": (c_int, (c_void_p,)),
    "muster_comm_dump": (c_size_t, (c_void_p, c_char_p, c_size_t)),
    "muster_work_done": (c_int, (c_void_p,)),
    "muster_work_wait": (c_int, (c_void_p, c_int64)),
    "muster_work_wait_stream": (c_int, (c_void_p, c_void_p)),
    "muster_work_free": (None, (c_void_p,)),
    "muster_gradients_create": (c_int, (c_void_p, POINTER(CGradientsOptions), POINTER(c_void_p))),
    "muster_gradients_free": (None, (c_void_p,)),
    "muster_gradients_add": (c_int, (c_void_p, c_char_p, c_int, c_size_t, POINTER(c_int))),
    "muster_gradients_finalize": (c_int, (c_void_p,)),
    "muster_gradients_grad": (c_int, (c_void_p, c_int, POINTER(c_void_p))),
    "muster_gradients_bind": (c_int, (c_void_p, c_int, c_void_p)),
    "muster_gradients_begin": (c_int, (c_void_p, c_int)),
    "muster_gradients_mark_ready": (c_int, (c_void_p, c_int, c_void_p)),
    "muster_gradients_mark_unused_on": (c_int, (c_void_p, c_int, c_void_p)),
    "muster_gradients_wait": (c_int, (c_void_p, POINTER(CGradientsStats))),
    "muster_gradients_wait_stream": (c_int, (c_void_p, c_void_p, POINTER(CGradientsStats))),
    "muster_gradients_used": (c_int, (c_void_p, c_int)),
    "muster_gradients_zero_on": (c_int, (c_void_p, c_void_p)),
    "muster_gradients_rebind": (c_int, (c_void_p, c_void_p)),
    "muster_store_serve": (c_int, (c_int, POINTER(c_void_p), POINTER(c_int))),
    "muster_store_close": (None, (c_void_p,)),
}


def candidates(package: str = os.path.dirname(os.path.abspath(__file__))) -> List[str]:
    """Paths to search for the library, in order: the package's own directory, then the library
    directories of each prefix that the package may be installed under."""
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders = [package]
    prefix = package
    for _ in range(4):  # PREFIX/lib/python3/dist-packages/muster
        prefix = os.path.dirname(prefix)
        for name in ("lib", "lib64", *((os.path.join("lib", multiarch),) if multiarch else ())):
            folders.append(os.path.join(prefix, name))
    return [os.path.join(folder, name) for folder in folders for name in NAMES]


def find() -> str:
    """The path of the library. If the library is not found, returns its bare file name, which the
    dynamic loader then searches for."""
    named = os.environ.get(VARIABLE)
    if named:
        if not os.path.exists(named):
            raise ImportError(f"{VARIABLE}={named}: no such file; unset the variable, or set it to "
                              "the path of libmuster_collective.so")
        return named
    for path in candidates():
        if os.path.exists(path):
            return path
    return NAMES[1]


def load(path: str) -> ctypes.CDLL:
    """Loads the library and declares its prototypes. The ImportError contains the path and explains
    how to fix the problem."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"muster: cannot load {path} ({error}); set {VARIABLE} to the path of "
                          "the library, or install muster with cmake --install") from error
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise ImportError(f"muster: {path} has no {name}: it is older than this package "
                              f"({os.path.dirname(__file__)})") from error
        function.restype, function.argtypes = result, arguments
    version = library.muster_abi_version()
    if version != ABI_VERSION:
        raise ImportError(f"muster: {path} has ABI version {version}, but this package "
                          f"needs {ABI_VERSION}")
    return library


if sys.platform != "linux":
    raise ImportError("muster runs on Linux only")
PATH = find()
lib = load(PATH)


def text_of(function: Callable[..., int], *arguments: Any) -> str:
    """Calls a C function that writes text of any length; returns the text."""
    length = function(*arguments, None, 0)
    while True:
        buffer = ctypes.create_string_buffer(length + 1)
        now = function(*arguments, buffer, length + 1)
        if now <= length:
            return buffer.value.decode(errors="replace")
        length = now  # the text has grown since the first call


def last_error() -> errors.Error:
    """The exception for this thread's last error."""
    error = CError(size=ctypes.sizeof(CError))
    code = lib.muster_last_error(byref(error))
    return errors.make(code, text_of(lib.muster_last_error_text), error.rank, epoch=error.epoch,
                       seq=error.seq, native=error.native)


def check(code: int) -> None:
    """Raises the exception for a result code of the C ABI; 0 means success."""
    if code != 0:
        raise last_error()
