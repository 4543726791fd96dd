# SPDX-License-Identifier: Apache-2.0
"""Communicator: the ranks that compute together, and the operations among them."""
import ctypes
import os
import sys
from ctypes import byref, c_void_p, sizeof

from . import _library as c
from . import dtypes, errors, memory
from ._library import check, lib
from .bucket import Bucket
from .work import SLICE, Started, Work

_U8 = dtypes.TYPES["u8"][0]
_NOTHING = c.CBuffer(None, 0, 7, c.HOST)
_ABSENT = object()  # an operation has no such buffer


class Core:
    """The C communicator; destroyed with the last that uses it (Communicator, buckets, arrays of
    gradients)."""

    def __init__(self, handle):
        self.handle = handle
        self.pid = os.getpid()
        self.unfinished = []  # of Started, which keep the buffers
        self.gradients = set()  # Handles of GradientSyncs, which end before

    def finish(self):
        """Waits for operations under way; whether they went well is not asked."""
        for started in self.unfinished:
            while not started.wait(SLICE):
                pass

    def __del__(self, getpid=os.getpid, c_library=lib):
        """Who closes waits for operations under way. Who lets go (an exception passes through, the
        process ends) does not, since others may never join them; nor may they go on, since they
        use buffers that are let go as well."""
        if self.pid == getpid():
            while self.gradients:
                self.gradients.pop().free()
            if not all(started.done() for started in self.unfinished):
                c_library.muster_abort(self.handle, b"it let go of the communicator, or ended, "
                                                    b"with operations under way")
                self.finish()  # so that a Work that is left knows how it ended
            c_library.muster_comm_destroy(self.handle)


def nanoseconds(seconds):
    return 0 if seconds is None else max(1, int(seconds * 1e9))


def _options(name="world", backend="auto", timeout=None, init_timeout=None, recorder_folder=None,
             host=None, address=None, arena_bytes=0):
    if backend not in c.BACKENDS:
        raise errors.InvalidArgument(f"backend '{backend}' is none of " + ", ".join(c.BACKENDS))
    texts = [text.encode() if text is not None else None
             for text in (name, recorder_folder, host, address)]
    return c.COptions(sizeof(c.COptions), texts[0], c.BACKENDS.index(backend),
                      nanoseconds(timeout), nanoseconds(init_timeout), *texts[1:], arena_bytes)


class Communicator:
    """The ranks of a job, or some of them (split).

    All ranks call the same operations in the same order, with the same counts and types; a rank
    that does not gets Mismatch, and so do the others. Calls come from one thread at a time; abort()
    and error from any. Other Python threads run during a call. A child made by os.fork() gets
    InvalidState and does the parent no harm.

    Buffers: contiguous torch tensors, NumPy arrays, buckets (alloc), and whatever has the buffer
    protocol or __dlpack__; on CPUs, or all on one GPU. Element types: i8 u8 i32 u32 i64 u64 f16 f32
    f64 bf16; operations that only move data take any type. ops: "sum", "avg", "prod", "min", "max",
    "premul_sum" (sum of scale × x). Floating sums are made in the order of ranks, f16 and bf16
    in f32: the same bits on every rank and in every run.

    Every operation takes timeout (seconds; None: that of the communicator) and, but for barrier,
    async_op: True returns a Work at once, and buffers are not to be touched before Work.wait().
    For GPUs the operation is queued on torch's current stream (the default stream for others).
    Errors are subclasses of muster.Error: PeerFailed and TimedOut name the rank. After a fatal one
    the communicator is dead, and rebuild() makes the next.
    """

    def __init__(self, handle):
        """For this module: from_env(), create(), split() and rebuild() make communicators."""
        self._core = Core(handle)
        self.rank = lib.muster_comm_rank(handle)
        self.size = lib.muster_comm_size(handle)
        self.epoch = lib.muster_comm_epoch(handle)
        self.backend = c.BACKENDS[lib.muster_comm_backend(handle)]

    @classmethod
    def from_env(cls, **options):
        """From what muster or torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the
        TORCHELASTIC_ variables; without a launcher's store rank 0 serves one. Returns when all
        ranks have come.

        Options: name ("world"), backend ("auto", "shm", "tcp", "hier", "nccl"), timeout (of an
        operation, 600 s), init_timeout (60 s), recorder_folder, host (ranks with the same word
        share memory), address (that others reach us by), arena_bytes (most that alloc() gives).
        MUSTER_COLLECTIVE_ variables win over them. InvalidArgument names the variable that is
        missing or wrong; TimedOut the ranks that did not come; StoreFailed; Mismatch.
        """
        handle = c_void_p()
        check(lib.muster_comm_from_env(byref(_options(**options)), byref(handle)))
        return cls(handle.value)

    @classmethod
    def create(cls, store, rank, size, epoch=0, job="job", **options):
        """With everything given. store: (host, port) of a store that somebody serves (ServedStore,
        muster-store, torchrun of PyTorch 2.1 or later), None for a rank that is alone. job: keeps
        apart what shares one store. epoch: counts restarts. Options and errors as for from_env;
        no variable is read."""
        host, port = store or ("", 0)
        place = c.CPlace(sizeof(c.CPlace), host.encode(), port, rank, size, epoch, job.encode())
        handle = c_void_p()
        check(lib.muster_comm_create(byref(place), byref(_options(**options)), byref(handle)))
        return cls(handle.value)

    def all_reduce(self, x, op="sum", out=None, *, scale=1.0, timeout=None, async_op=False):
        """Combines the x of all ranks, element by element; everybody gets the result, in out (the
        same count and type), or in x without one. Returns that."""
        out = x if out is None else out
        return self._run(c.ALL_REDUCE, x, out, op=op, scale=scale, timeout=timeout,
                         async_op=async_op)

    def reduce(self, x, root=0, op="sum", out=None, *, scale=1.0, timeout=None, async_op=False):
        """As all_reduce, with the result on root only; out of the others stays as it is. Returns
        out (or x)."""
        out = x if out is None else out
        return self._run(c.REDUCE, x, out, op=op, root=root, scale=scale, timeout=timeout,
                         async_op=async_op)

    def broadcast(self, x, root=0, *, timeout=None, async_op=False):
        """x of root to x of all. Returns x."""
        return self._run(c.BROADCAST, _ABSENT, x, root=root, timeout=timeout, async_op=async_op)

    def all_gather(self, x, out=None, *, timeout=None, async_op=False):
        """The x of all ranks, one after the other in out: size × as many elements. Without out a
        new array of shape (size, *x.shape) is made, for NumPy arrays and torch tensors. Returns
        out."""
        if out is None:
            out = _new_like(x, (self.size, *memory.of(x).shape))
        return self._run(c.ALL_GATHER, x, out, timeout=timeout, async_op=async_op)

    def reduce_scatter(self, x, op="sum", out=None, *, scale=1.0, timeout=None, async_op=False):
        """Combines the x of all ranks; rank r gets the r-th of size equal parts, in out: 1/size as
        many elements. Without out a new array of shape (x.shape[0] / size, …) is made, for NumPy
        and torch. Returns out."""
        if out is None:
            shape = memory.of(x).shape
            if not shape or shape[0] % self.size != 0:
                raise errors.InvalidArgument(f"reduce_scatter: the first extent of {shape} is no "
                                             f"multiple of {self.size}")
            out = _new_like(x, (shape[0] // self.size, *shape[1:]))
        return self._run(c.REDUCE_SCATTER, x, out, op=op, scale=scale, timeout=timeout,
                         async_op=async_op)

    def all_to_all(self, x, out=None, *, timeout=None, async_op=False):
        """Part j of this rank's x becomes part `rank` of out on rank j; x and out are size equal
        parts. Without out a new array like x is made, for NumPy and torch. Returns out."""
        if out is None:
            out = _new_like(x, memory.of(x).shape)
        return self._run(c.ALL_TO_ALL, x, out, timeout=timeout, async_op=async_op)

    def send(self, x, to, *, timeout=None, async_op=False):
        """To a recv of as many elements on rank `to`; in order per pair. Others take no part."""
        return self._run(c.SEND, x, _ABSENT, root=to, timeout=timeout, async_op=async_op)

    def recv(self, x, source, *, timeout=None, async_op=False):
        """Into x what rank `source` sends. Returns x."""
        return self._run(c.RECV, _ABSENT, x, root=source, timeout=timeout, async_op=async_op)

    def barrier(self, timeout=None):
        """Returns when all ranks have called it."""
        self.start(c.CCall(sizeof(c.CCall), c.BARRIER, 0, -1, 0, _NOTHING, _NOTHING,
                           nanoseconds(timeout), 1.0, None))

    def split(self, color, key=0):
        """A communicator of the ranks that give the same color, ordered by key, then by rank.
        Called by all ranks; those with a negative color get None."""
        part = c_void_p()
        check(lib.muster_comm_split(self._handle(), color, key, byref(part)))
        return type(self)(part.value) if part.value else None

    def rebuild(self, rank, size, epoch):
        """After a failure: the ranks that are left, or new ones, meet again through the same
        store, under another epoch. Leaves this communicator as it is."""
        made = c_void_p()
        check(lib.muster_comm_rebuild(self._handle(), rank, size, epoch, byref(made)))
        return type(self)(made.value)

    def alloc(self, shape, dtype="f32", device=None):
        """A Bucket of the shape (elements; a number or a tuple): memory of the library, which
        operations use without a copy when all ranks allocate alike. device: CUDA ordinal, None for
        the host."""
        self._handle()
        return Bucket(self._core, shape, dtype, device)

    def abort(self, reason="no reason given"):
        """Ends every operation of all ranks, now and later, with Aborted and this reason."""
        lib.muster_abort(self._handle(), reason.encode())

    @property
    def error(self):
        """Why the communicator is dead, as an exception; None while it lives."""
        return c.last_error() if lib.muster_comm_error(self._handle()) else None

    def dump(self):
        """Lines for people: where each rank of this host is, where the flight recorder lies."""
        return c.text_of(lib.muster_comm_dump, self._handle())

    def close(self):
        """Leaves, after operations under way have ended. Buckets that are still shown by an array
        keep their memory until it is gone. Again: does nothing. Without close(), operations under
        way are aborted at the end; so they are when an exception leaves a `with` block, and the
        others are told of it."""
        core, self._core = self._core, None
        if core is not None and core.pid == os.getpid():
            core.finish()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        failed = kind is not None and not issubclass(kind, SystemExit)
        if failed and self._core is not None and self._core.pid == os.getpid():
            self.abort(f"{kind.__name__}: {error}")
        self.close()

    def __repr__(self):
        return (f"<muster.Communicator rank {self.rank} of {self.size}, epoch {self.epoch}, "
                f"{self.backend}>")

    def start(self, call, value=None, keep=()):
        """For back ends of frameworks: runs a _library.CCall. Returns value, or a Work with it if
        call.is_async."""
        if not call.is_async:
            check(lib.muster_run(self._handle(), byref(call), None))
            return value
        handle = c_void_p()
        check(lib.muster_run(self._handle(), byref(call), byref(handle)))
        started = Started(handle.value, keep)
        unfinished = [each for each in self._core.unfinished if not each.done()]
        if handle.value is not None:
            unfinished.append(started)
        self._core.unfinished = unfinished
        return Work(started, value)

    def _handle(self):
        if self._core is None:
            raise errors.InvalidState("the communicator was closed")
        return self._core.handle

    def core(self):
        """For what lives on this communicator's memory. InvalidState: it was closed."""
        self._handle()
        return self._core

    def _run(self, kind, x, out, *, op=None, root=-1, scale=1.0, timeout=None, async_op=False):
        if op is not None and op not in c.OPS:
            raise errors.InvalidArgument(f"op '{op}' is none of " + ", ".join(c.OPS))
        target = None if out is _ABSENT else memory.of(out, writable=True)
        source = target if out is x else None if x is _ABSENT else memory.of(x)
        call = c.CCall(sizeof(c.CCall), kind, c.OPS.get(op, 0), root, 1 if async_op else 0,
                       _buffer(source, op), _buffer(target, op), nanoseconds(timeout), scale,
                       (source or target).stream)
        return self.start(call, out, (source, target))


def _buffer(seen, op):
    """For the C ABI. Without arithmetic, types that have no name travel as bytes."""
    if seen is None:
        return _NOTHING
    if seen.dtype is not None:
        return c.CBuffer(seen.data, seen.count, dtypes.TYPES[seen.dtype][0], seen.device)
    if op is not None:
        raise errors.InvalidArgument("the array's elements are of no type that the library "
                                     "computes with: " + ", ".join(dtypes.TYPES))
    return c.CBuffer(seen.data, seen.count * seen.itemsize, _U8, seen.device)


def _new_like(x, shape):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.new_empty(shape)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return numpy.empty(shape, x.dtype)
    raise errors.InvalidArgument(f"a result for a {type(x).__name__} is not made: give out=")


class ServedStore:
    """A store in a thread of this process, for ranks that no launcher serves one for. port: what
    it listens to on all addresses; 0 asks for a free one. SystemFailed: the port is taken."""

    def __init__(self, port=0):
        self._pid = os.getpid()
        self._handle = None
        handle, listening = c_void_p(), ctypes.c_int()
        check(lib.muster_store_serve(port, byref(handle), byref(listening)))
        self._handle, self.port = handle.value, listening.value

    def close(self):
        """Again: does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():
            lib.muster_store_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
