# SPDX-License-Identifier: Apache-2.0
"""Communicator: a group of ranks. Its operations are in operations.py."""
from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Any, Optional, Tuple, Type, TypeVar

from . import _library as c
from . import errors
from ._library import check, lib
from .bucket import Bucket
from .core import Core
from .operations import Operations, nanoseconds
from .typing import Backend, DType, Shape
from .work import PendingOperation, Work

Self = TypeVar("Self", bound="Communicator")
SelfStore = TypeVar("SelfStore", bound="ServedStore")


def _options(name: str, backend: Backend, timeout: Optional[float], init_timeout: Optional[float],
             recorder_folder: Optional[str], host: Optional[str], address: Optional[str],
             port_range: Optional[str], arena_bytes: int, recorder_entries: int) -> c.COptions:
    if backend not in c.BACKENDS:
        raise errors.InvalidArgument(f"unknown backend '{backend}'; choose one of "
                                     + ", ".join(c.BACKENDS))
    if recorder_entries < 0:
        raise errors.InvalidArgument(f"recorder_entries is {recorder_entries}; must be >= 0")
    texts = [text.encode() if text is not None else None
             for text in (name, recorder_folder, host, address, port_range)]
    return c.COptions(sizeof(c.COptions), texts[0], c.BACKENDS.index(backend),
                      nanoseconds(timeout), nanoseconds(init_timeout), *texts[1:], arena_bytes,
                      recorder_entries or c.RECORDER_OFF)


class Communicator(Operations):
    """The ranks of a job, or a subset of them (split).

    All ranks call the same operations in the same order, with the same counts, dtypes, op and
    root; otherwise all ranks get Mismatch. Counts may be 0.

    Arrays: contiguous torch tensors, NumPy arrays, buckets (alloc), and any object with the buffer
    protocol, __dlpack__ or __cuda_array_interface__. All arrays of a call are on the host, or all
    are on one GPU. Element types: i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16; operations that only move
    data accept any type. The arrays in one call must have the same dtype; nothing is converted.
    ops: "sum", "avg", "prod", "min", "max", "premul_sum" (the sum of scale × x). Floating-point
    sums are computed in rank order, with f16 and bf16 summed in f32, so the bits are the same on
    every rank and in every run.

    timeout, in every operation: seconds until TimedOut; None means the communicator's timeout.
    async_op, in all operations except barrier: True returns a Work immediately; do not use the
    arrays before Work.wait() returns. On GPUs, a call returns when the operation is queued. It
    runs on torch's current stream; arrays from other packages use the stream that they specify, or
    the default stream.

    Threads: only one thread at a time may call operations and other methods, except abort() and
    error, which any thread may use. If two threads call operations at the same time, the
    communicator fails with Aborted on all ranks. Other Python threads can run during a call.
    In a child created by os.fork(), every call, including Work.wait(), raises InvalidState; the
    parent's communicator is not affected.

    Errors are subclasses of muster.Error; PeerFailed and TimedOut name the rank that failed. After
    a fatal error, every call on every rank raises it again; rebuild() creates a new communicator.

    rank: this process's rank. size: number of ranks. epoch: number of restarts. backend: the
    transport for arrays on the host: "shm", "tcp" or "hier" (shm within hosts, tcp between hosts).
    """

    def __init__(self, handle: Optional[int]) -> None:
        """For internal use. Users call from_env(), create(), split() or rebuild()."""
        super().__init__()
        self._core: Optional[Core] = Core(handle)
        self.rank: int = lib.muster_comm_rank(handle)
        self.size: int = lib.muster_comm_size(handle)
        self.epoch: int = lib.muster_comm_epoch(handle)
        self.backend = c.BACKENDS[lib.muster_comm_backend(handle)]

    @classmethod
    def from_env(cls: Type[Self], *, name: str = "world", backend: Backend = "auto",
                 timeout: Optional[float] = None, init_timeout: Optional[float] = None,
                 recorder_folder: Optional[str] = None, host: Optional[str] = None,
                 address: Optional[str] = None, port_range: Optional[str] = None,
                 arena_bytes: int = 0, recorder_entries: int = 2048) -> Self:
        """Creates the communicator of all ranks, from the variables that muster or torchrun sets:
        RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TORCHELASTIC_*. If the launcher does not
        serve a store, rank 0 does. Returns when all ranks have called it.

        name: distinguishes communicators. backend: "shm" requires all ranks on one host, "nccl"
        accepts only arrays on GPUs; "auto" chooses by hosts and devices. timeout: per operation, in
        seconds (None: 600). init_timeout: how long to wait for all ranks, in seconds (None: 60).
        recorder_folder: directory for the flight recorder's files (None: in memory, until the
        processes on the host exit). host: ranks that pass the same value share memory (None:
        detect). address: where other hosts reach this rank (None: the local address on the route to
        the store). port_range: "A-B", the range for this rank's listening port (None: any free
        port). arena_bytes: the maximum that alloc() can allocate on this rank (0: 64 GiB of address
        space). recorder_entries: the number of recent operations that the flight recorder keeps (0:
        none). MUSTER_COLLECTIVE_ variables override these arguments.

        InvalidArgument: a variable is missing or invalid. TimedOut: ranks did not arrive; the
        message lists them. StoreFailed: the store cannot be reached. PeerFailed: a rank died
        during startup. Mismatch: ranks run different versions. SystemFailed: out of memory or file
        descriptors.
        """
        options = _options(name, backend, timeout, init_timeout, recorder_folder, host, address,
                           port_range, arena_bytes, recorder_entries)
        handle = c_void_p()
        check(lib.muster_comm_from_env(byref(options), byref(handle)))
        return cls(handle.value)

    @classmethod
    def create(cls: Type[Self], store: Optional[Tuple[str, int]], rank: int, size: int,
               epoch: int = 0, job: str = "job", *, name: str = "world",
               backend: Backend = "auto", timeout: Optional[float] = None,
               init_timeout: Optional[float] = None, recorder_folder: Optional[str] = None,
               host: Optional[str] = None, address: Optional[str] = None,
               port_range: Optional[str] = None, arena_bytes: int = 0,
               recorder_entries: int = 2048) -> Self:
        """Creates a communicator from the arguments alone; reads no environment variables. All
        ranks call it.

        store: (host, port) of a running store (ServedStore, muster-store, or torchrun from PyTorch
        2.1 or later); None for a single rank. job: separates jobs that share a store. epoch:
        number of restarts; ranks connect only to ranks of the same epoch. For options and errors,
        see from_env.
        """
        at, port = store or ("", 0)
        bootstrap = c.CBootstrap(sizeof(c.CBootstrap), at.encode(), port, rank, size, epoch,
                                 job.encode())
        options = _options(name, backend, timeout, init_timeout, recorder_folder, host, address,
                           port_range, arena_bytes, recorder_entries)
        handle = c_void_p()
        check(lib.muster_comm_create(byref(bootstrap), byref(options), byref(handle)))
        return cls(handle.value)

    def split(self: Self, color: int, key: int = 0) -> Optional[Self]:
        """Creates a communicator of the ranks that pass the same color, ordered by key, then by
        rank. Collective: all ranks call it; those with a negative color get None. The call
        fails if this communicator fails. Raises the same errors as from_env and as an operation."""
        part = c_void_p()
        check(lib.muster_comm_split(self._handle(), color, key, byref(part)))
        if not part.value:
            return None
        made = type(self)(part.value)
        made.core().before_send = self.core().before_send
        return made

    def rebuild(self: Self, rank: int, size: int, epoch: int) -> Self:
        """Creates the next communicator after a failure: the surviving ranks (or a different
        set of ranks) connect through the same store under a new epoch. All of these ranks call it
        with their new rank numbers. This communicator does not change. Raises the same errors as
        from_env; it may be called again after an error."""
        made = c_void_p()
        check(lib.muster_comm_rebuild(self._handle(), rank, size, epoch, byref(made)))
        return type(self)(made.value)

    def alloc(self, shape: Shape, dtype: DType = "f32", device: Optional[int] = None) -> Bucket:
        """Allocates a Bucket: zeroed library memory that operations read and write without a copy.

        Collective: all ranks call it with the same shape and dtype, in the same order relative to
        their other alloc and free calls. A bucket that only some ranks have is copied like any
        other memory. On the host, alloc does not wait for other ranks; on a GPU, the first call
        does. shape: in elements. device: the CUDA ordinal, None for the host. Unsupported: more
        than arena_bytes in total. SystemFailed: out of memory on the host.
        """
        self._handle()
        return Bucket(self.core(), shape, dtype, device)

    def abort(self, reason: str = "no reason given") -> None:
        """Fails all current and future operations on all ranks with Aborted and this reason. Any
        thread may call it."""
        lib.muster_abort(self._handle(), reason.encode())

    @property
    def error(self) -> Optional[errors.Error]:
        """The fatal error, as an exception; None while the communicator is usable. Thread-safe."""
        return c.last_error() if lib.muster_comm_error(self._handle()) else None

    def dump(self) -> str:
        """Human-readable text: what each rank on this host is doing, and the path of the flight
        recorder."""
        return c.text_of(lib.muster_comm_dump, self._handle())

    def close(self) -> None:
        """Waits for the pending operations, then leaves the communicator. The memory of buckets
        and gradients lives as long as an array uses it. A second call does nothing.

        Without close(), pending operations are aborted when the communicator is garbage-collected
        or the process exits. An exception that leaves a `with` block also aborts them, and the
        other ranks get its text in Aborted."""
        core, self._core = self._core, None
        if core is not None and core.pid == os.getpid():
            core.finish()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 _: Optional[TracebackType]) -> None:
        failed = kind is not None and not issubclass(kind, SystemExit)
        if kind is not None and failed and self._core is not None and self._core.pid == os.getpid():
            self.abort(f"{kind.__name__}: {error}")
        self.close()

    def __repr__(self) -> str:
        return (f"<muster.Communicator rank {self.rank} of {self.size}, epoch {self.epoch}, "
                f"{self.backend}>")

    def start(self, call: c.CCall, value: Any = None, keep: Any = ()) -> Any:
        """For framework backends: runs a _library.CCall. Returns value, or if call.is_async, a
        Work with that value."""
        core = self.core()
        if core.before_send is not None:
            core.before_send()
        if not call.is_async:
            check(lib.muster_run(core.handle, byref(call), None))
            return value
        handle = c_void_p()
        check(lib.muster_run(core.handle, byref(call), byref(handle)))
        operation = PendingOperation(handle.value, keep)
        pending = [each for each in core.pending if not each.done()]
        if handle.value is not None:
            pending.append(operation)
        core.pending = pending
        return Work(operation, value)

    def core(self) -> Core:
        """The Core, for objects that use this communicator's memory. InvalidState: the communicator
        was already closed."""
        if self._core is None:
            raise errors.InvalidState("the communicator was closed")
        return self._core

    def _handle(self) -> Optional[int]:
        return self.core().handle


class ServedStore:
    """A store in a thread of this process, for ranks whose launcher does not serve one.

    port: the TCP port, on all addresses; 0 selects a free port. It runs until close().
    SystemFailed: the port is in use.
    """

    def __init__(self, port: int = 0) -> None:
        self._pid = os.getpid()
        self._handle: Optional[int] = None
        handle, listening = c_void_p(), ctypes.c_int()
        check(lib.muster_store_serve(port, byref(handle), byref(listening)))
        self._handle, self.port = handle.value, listening.value

    def close(self) -> None:
        """Stops the store. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():
            lib.muster_store_close(handle)

    def __enter__(self: SelfStore) -> SelfStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
