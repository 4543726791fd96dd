# SPDX-License-Identifier: Apache-2.0
"""Communicator: the ranks that compute together. Its operations are in operations.py."""
from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Set, Tuple, Type, TypeVar

from . import _library as c
from . import errors
from ._library import check, lib
from .bucket import Bucket
from .operations import Operations, nanoseconds
from .typing import Backend, DType, Shape
from .work import WAIT_SLICE, PendingOperation, Work

if TYPE_CHECKING:
    from .gradients import Handle

Self = TypeVar("Self", bound="Communicator")
SelfStore = TypeVar("SelfStore", bound="ServedStore")


class Core:
    """The C communicator; destroyed with its last user (Communicator, buckets, arrays of
    gradients)."""

    def __init__(self, handle: Optional[int]) -> None:
        self.handle = handle
        self.pid = os.getpid()
        self.pending: List[PendingOperation] = []  # they keep the buffers
        self.gradients: Set[Handle] = set()  # of GradientSyncs, which are freed before

    def finish(self) -> None:
        """Waits for the operations under way, whatever their outcome."""
        for operation in self.pending:
            while not operation.wait(WAIT_SLICE):
                pass

    def __del__(self, getpid: Callable[[], int] = os.getpid,
                c_library: ctypes.CDLL = lib) -> None:
        """Here nobody has called close(): an exception passes through, or the process ends. The
        operations under way are aborted, not waited for: other ranks may never join them, and they
        use buffers that go away as well. The defaults are there because module globals may be gone
        when the interpreter ends."""
        if self.pid == getpid():
            while self.gradients:
                self.gradients.pop().free()
            if not all(operation.done() for operation in self.pending):
                c_library.muster_abort(self.handle, b"the communicator was garbage-collected, or "
                                                    b"the process ended, with operations under way")
                self.finish()  # so that a Work that is left knows its outcome
            c_library.muster_comm_destroy(self.handle)


def _options(name: str, backend: Backend, timeout: Optional[float], init_timeout: Optional[float],
             recorder_folder: Optional[str], host: Optional[str], address: Optional[str],
             port_range: Optional[str], arena_bytes: int, recorder_entries: int) -> c.COptions:
    if backend not in c.BACKENDS:
        raise errors.InvalidArgument(f"unknown backend '{backend}'; there are "
                                     + ", ".join(c.BACKENDS))
    if recorder_entries < 0:
        raise errors.InvalidArgument(f"recorder_entries is {recorder_entries}, less than 0")
    texts = [text.encode() if text is not None else None
             for text in (name, recorder_folder, host, address, port_range)]
    return c.COptions(sizeof(c.COptions), texts[0], c.BACKENDS.index(backend),
                      nanoseconds(timeout), nanoseconds(init_timeout), *texts[1:], arena_bytes,
                      recorder_entries or c.RECORDER_OFF)


class Communicator(Operations):
    """The ranks of a job, or some of them (split).

    All ranks call the same operations in the same order, with the same counts, dtypes, op and root;
    if one does not, all get Mismatch. Counts may be 0.

    Arrays: contiguous torch tensors, NumPy arrays, buckets (alloc), and everything with the buffer
    protocol, __dlpack__ or __cuda_array_interface__; on the host, or all on one GPU. Element types:
    i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16; operations that only move data take any type. The arrays
    of one call have the same dtype; nothing is converted. ops: "sum", "avg", "prod", "min", "max",
    "premul_sum" (the sum of scale × x). Floating-point sums are made in the order of ranks, of f16
    and bf16 in f32: the bits are the same on every rank and in every run.

    timeout, of every operation: seconds until TimedOut; None: that of the communicator. async_op,
    of all but barrier: True returns a Work at once; the arrays may not be used before Work.wait().
    On GPUs the operation is queued on torch's current stream (arrays that are not torch's: on the
    stream that they name, or the default stream), and the call returns when it is queued.

    Threads: only one at a time may call operations and the other methods; any may call abort() and
    error. An operation that is called while another thread is in one ends the communicator on all
    ranks with Aborted. Other Python threads run during a call. A child made by os.fork() gets
    InvalidState, also from Work.wait(), and does the parent's communicator no harm.

    Errors are subclasses of muster.Error; PeerFailed and TimedOut name the rank that failed. After
    a fatal one every call raises it again, on all ranks, and rebuild() makes the next communicator.

    rank: of this process. size: how many ranks. epoch: counts restarts. backend: by which arrays on
    the host travel: "shm", "tcp" or "hier" (shm within hosts, tcp between them).
    """

    def __init__(self, handle: Optional[int]) -> None:
        """For the package itself; from_env(), create(), split() and rebuild() call it."""
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
        """The communicator of all ranks, from what muster or torchrun sets: RANK, WORLD_SIZE,
        MASTER_ADDR, MASTER_PORT and the TORCHELASTIC_ variables. Without a launcher's store rank 0
        serves one. Returns when all ranks have called it.

        name: keeps communicators apart. backend: "shm" needs all ranks on one host, "nccl" gives
        arrays on GPUs only; "auto" takes what fits. timeout: of an operation, seconds (None: 600).
        init_timeout: for all ranks to arrive, seconds (None: 60). recorder_folder: where the flight
        recorder's files are written (None: in memory, until the processes of the host end). host:
        ranks with the same text share memory (None: found out). address: by which other hosts reach
        this rank (None: the one towards the store). port_range: "A-B", where this rank listens for
        others (None: on any free port). arena_bytes: most that alloc() gives to this rank (0: 64
        GiB of address space). recorder_entries: how many of the last operations the
        flight recorder keeps (0: none). MUSTER_COLLECTIVE_ variables win over these arguments.

        InvalidArgument: a variable is missing or wrong. TimedOut: ranks did not arrive; the text
        names them. StoreFailed: the store cannot be reached. PeerFailed: a rank died meanwhile.
        Mismatch: ranks run different versions. SystemFailed: no memory, no descriptors.
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
        """A communicator from arguments alone; no variable is read. All ranks call it.

        store: (host, port) of a store that somebody serves (ServedStore, muster-store, or torchrun
        of PyTorch 2.1 or later); None for a single rank. job: keeps apart the jobs that share a
        store. epoch: counts restarts; ranks of different epochs never meet. Options and errors are
        those of from_env.
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
        """A communicator of the ranks that pass the same color, ordered by key, then by rank.
        Collective: all ranks call it; those with a negative color get None. It ends without this
        communicator. Errors are those of from_env, or of an operation of this communicator."""
        part = c_void_p()
        check(lib.muster_comm_split(self._handle(), color, key, byref(part)))
        return type(self)(part.value) if part.value else None

    def rebuild(self: Self, rank: int, size: int, epoch: int) -> Self:
        """The next communicator after a failure: the ranks that are left, or others, meet through
        the same store under another epoch. All of them call it, with their new ranks. This
        communicator stays as it is. Errors are those of from_env; it can be called again."""
        made = c_void_p()
        check(lib.muster_comm_rebuild(self._handle(), rank, size, epoch, byref(made)))
        return type(self)(made.value)

    def alloc(self, shape: Shape, dtype: DType = "f32", device: Optional[int] = None) -> Bucket:
        """A Bucket: zeroed memory of the library, which operations read and write without a copy.

        Collective: all ranks call it with the same shape and dtype, in the same order among their
        other calls of alloc and free; a bucket that only some ranks have is copied like any other
        memory. On the host it does not wait for other ranks; the first use of a GPU does. shape:
        in elements. device: the CUDA ordinal, None for the host. Unsupported: more than arena_bytes
        in all. SystemFailed: the host has not enough memory.
        """
        self._handle()
        return Bucket(self.core(), shape, dtype, device)

    def abort(self, reason: str = "no reason given") -> None:
        """Ends every operation of all ranks, now and later, with Aborted and this reason. Any
        thread."""
        lib.muster_abort(self._handle(), reason.encode())

    @property
    def error(self) -> Optional[errors.Error]:
        """The fatal error, as an exception; None while the communicator works. Any thread."""
        return c.last_error() if lib.muster_comm_error(self._handle()) else None

    def dump(self) -> str:
        """Lines for people: what each rank of this host does, where the flight recorder is."""
        return c.text_of(lib.muster_comm_dump, self._handle())

    def close(self) -> None:
        """Leaves the communicator after the operations under way have ended. Memory of buckets and
        gradients lives on as long as an array on it. A second call does nothing.

        Without close(), operations under way are aborted when the communicator is garbage-collected
        or the process ends. An exception that leaves a `with` block aborts them too, and the other
        ranks get its text in Aborted."""
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
        """For back ends of frameworks: runs a _library.CCall. Returns value, or a Work with it if
        call.is_async."""
        if not call.is_async:
            check(lib.muster_run(self._handle(), byref(call), None))
            return value
        handle = c_void_p()
        check(lib.muster_run(self._handle(), byref(call), byref(handle)))
        operation = PendingOperation(handle.value, keep)
        core = self.core()
        pending = [each for each in core.pending if not each.done()]
        if handle.value is not None:
            pending.append(operation)
        core.pending = pending
        return Work(operation, value)

    def core(self) -> Core:
        """For what lives on this communicator's memory. InvalidState: it was closed."""
        if self._core is None:
            raise errors.InvalidState("the communicator was closed")
        return self._core

    def _handle(self) -> Optional[int]:
        return self.core().handle


class ServedStore:
    """A store in a thread of this process, for ranks that no launcher serves one for.

    port: the TCP port that it listens on, at all addresses; 0 takes a free one. It serves until
    close(). SystemFailed: the port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self._pid = os.getpid()
        self._handle: Optional[int] = None
        handle, listening = c_void_p(), ctypes.c_int()
        check(lib.muster_store_serve(port, byref(handle), byref(listening)))
        self._handle, self.port = handle.value, listening.value

    def close(self) -> None:
        """Ends the store. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():
            lib.muster_store_close(handle)

    def __enter__(self: SelfStore) -> SelfStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
