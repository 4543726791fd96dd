# SPDX-License-Identifier: Apache-2.0
"""GradientSync: sums the gradients of a training step while the backward pass runs."""
from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import weakref
from ctypes import byref, c_void_p, sizeof
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, TypeVar

from . import _library as c
from . import dtypes, errors, memory
from ._library import check, last_error, lib
from .array_view import ArrayView, count, extents
from .communicator import Communicator
from .core import Core, GradientsHandle
from .typing import Array, DType, Shape, Stream
from .work import Work, address_of

Hook = Callable[[Communicator, ArrayView], Optional[Work]]
Self = TypeVar("Self", bound="GradientSync")


class GradientStats(NamedTuple):
    """Statistics of a step.

    buckets: number of buckets sent; 0 for an accumulating step. bytes: size of the gradients.
    exposed: seconds in wait(), that is, communication not overlapped with the backward pass.
    moved: the gradients are at new addresses; call grad() again.
    """

    buckets: int
    bytes: int
    exposed: float
    moved: bool


class _Parameter(NamedTuple):
    name: str
    shape: Tuple[int, ...]
    dtype: str


def _device_name(device: int) -> str:
    return "the host" if device == c.HOST else f"GPU {device}"


class Gradient(ArrayView):
    """A gradient in its bucket, from GradientSync.grad()."""


class Owner:
    """Objects that gradient arrays keep alive: the C object and its communicator's core."""

    def __init__(self, handle: Optional[int], core: Core) -> None:
        self.core, self.held = core, GradientsHandle(handle, core.handle)
        core.gradients.add(self.held)

    def move(self, core: Core) -> None:
        self.core.gradients.discard(self.held)
        self.core, self.held.comm = core, core.handle
        core.gradients.add(self.held)

    def close(self, getpid: Callable[[], int] = os.getpid) -> None:
        if self.core.pid == getpid():  # a forked child does not own the C object
            self.core.gradients.discard(self.held)
            self.held.free()

    __del__ = close


class GradientSync:
    """Averages the gradients of a model over all ranks, in buckets. Each bucket is sent as soon as
    it is complete, while the backward pass continues.

        sync = muster.GradientSync(comm)
        weights = sync.add("weights", (784, 10))     # in the order of the forward pass
        bias = sync.add("bias", 10)
        sync.finalize()
        for batch in batches:
            with sync.step():
                numpy.matmul(x.T, error, out=sync.grad(weights).numpy())
                sync.mark_ready(weights)
                ...
            # now they are averages, with the same bits on every rank

    All ranks add the same parameters with the same options, and begin the same steps. The result
    is bitwise identical for every bucket size. A GradientSync that is garbage-collected during a
    step aborts the communicator.

    Threads: any thread may call mark_ready() and mark_unused(). Only one thread at a time may call
    the other methods, and not during a call to one of the communicator's operations. Other Python
    threads can run during a call.

    average: False returns the sum. wire: "bf16" or "f16", the type in which f32 gradients are
    sent. On the host they are summed in f32 and rounded once; on GPUs NCCL sums them in that type.
    first_bucket, bucket_cap: maximum size in bytes of the first bucket and of the others; 0
    selects a default for the device. owns_memory: True keeps gradients in buckets (grad()); False
    keeps them in the caller's arrays (bind()) and copies them in and out. background: the
    communicator's thread sends buckets; if False, mark_ready() sends them and blocks. has_unused:
    allows mark_unused(), at the cost of one small operation per step. reorder: after the first
    step, rebuilds the buckets in the order in which gradients became ready on rank 0; then
    GradientStats.moved is True, and arrays from earlier grad() calls must not be used. device: the
    CUDA ordinal, None for the host. hook(comm, bucket): called instead of the all-reduce of each
    bucket (an ArrayView). It reduces the bucket in place and returns a Work or None. mark_ready()
    calls the hook; the hook must not call this object.
    """

    def __init__(self, comm: Communicator, *, average: bool = True, wire: Optional[DType] = None,
                 first_bucket: int = 0, bucket_cap: int = 0, owns_memory: bool = True,
                 background: bool = True, has_unused: bool = False, reorder: bool = False,
                 device: Optional[int] = None, hook: Optional[Hook] = None) -> None:
        self._comm = comm
        self._parameters: List[_Parameter] = []
        self._bound: Dict[int, memory.Memory] = {}  # by id; keeps the caller's arrays alive
        self._device = c.HOST if device is None else device
        self._owns_memory = owns_memory
        self._works: List[Work] = []
        self._hook_error: Optional[BaseException] = None
        self._is_unsent = False  # in a step that sends, before its first gradient
        self._sending = threading.Lock()
        self._hook = c.HOOK(self._for_c(hook)) if hook else c.NO_HOOK
        switches = [c.ON if on else c.OFF
                    for on in (average, owns_memory, background, has_unused, reorder)]
        options = c.CGradientsOptions(
            sizeof(c.CGradientsOptions), first_bucket, bucket_cap,
            dtypes.TYPES[dtypes.require(wire)][0] if wire else 0, *switches,
            device is not None, device or 0, self._hook, None)
        handle = c_void_p()
        core = comm.core()
        check(lib.muster_gradients_create(core.handle, byref(options), byref(handle)))
        self._owner = Owner(handle.value, core)

    def add(self, name: str, shape: Shape, dtype: DType = "f32") -> int:
        """Adds a gradient of this shape (in elements) and dtype; call it before finalize(). Returns
        the gradient's id, counting from 0. InvalidArgument: dtype is not f32 although `wire` is
        set."""
        shape, dtype = extents(shape), dtypes.require(dtype)
        id = ctypes.c_int()
        check(lib.muster_gradients_add(self._handle(), name.encode(), dtypes.TYPES[dtype][0],
                                       count(shape), byref(id)))
        self._parameters.append(_Parameter(name, shape, dtype))
        return id.value

    def finalize(self) -> None:
        """Forms the buckets. Collective: all ranks call it. Mismatch: ranks have different
        parameters or options; the message names the first parameter that differs, and the rank."""
        check(lib.muster_gradients_finalize(self._handle()))

    def grad(self, id: int) -> Gradient:
        """The gradient's memory in its bucket, initially zero. Call it again after rebind() and
        after a step with GradientStats.moved; do not use older arrays after that."""
        address = c_void_p()
        check(lib.muster_gradients_grad(self._handle(), id, byref(address)))
        _, shape, dtype = self._parameters[id]
        return Gradient(shape, dtype, self._device, address.value or 0,
                        (self._owner, self._owner.core))

    def bind(self, id: int, array: Array) -> None:
        """Binds a contiguous array of the caller: until another array is bound, the gradient is
        read from this array and the sum is written to it. On GPUs it is read on the stream of
        mark_ready(); the sum is written on the stream of wait_stream(), or before wait() returns.
        InvalidArgument: its count, dtype or device differs from the gradient's. InvalidState:
        owns_memory is True."""
        bound = memory.of(array, writable=True)
        if bound.device != self._device:
            raise errors.InvalidArgument(f"bind: the array is on {_device_name(bound.device)}, but "
                                         f"the gradients are on {_device_name(self._device)}")
        if 0 <= id < len(self._parameters):
            name, shape, dtype = self._parameters[id]
            if bound.count != count(shape) or bound.dtype != dtype:
                raise errors.InvalidArgument(f"bind: '{name}' is {dtype}[{count(shape)}], but the "
                                             f"array is {bound.dtype}[{bound.count}]")
        check(lib.muster_gradients_bind(self._handle(), id, bound.data))
        self._bound[id] = bound

    def begin(self, synchronize: bool = True) -> None:
        """Begins a step. synchronize=False: the step only accumulates and sends nothing."""
        check(lib.muster_gradients_begin(self._handle(), synchronize))
        self._works, self._hook_error = [], None
        self._is_unsent = bool(synchronize)
        self._owner.held.open = bool(synchronize)

    def mark_ready(self, id: int, stream: Optional[Stream] = None) -> None:
        """Marks the gradient as complete: immediately on the host; on a GPU, when this CUDA stream
        reaches this point (None: torch's current stream). Marking the last gradient of a bucket
        sends the bucket. Any thread may call it. InvalidState: no step has begun, or the gradient
        is already marked; the message names it. Also raises errors from the operation or
        the hook."""
        self._before_mark()
        self._check(lib.muster_gradients_mark_ready(self._handle(), id, self._stream(stream)))

    def mark_unused(self, id: int, stream: Optional[Stream] = None) -> None:
        """Marks the gradient as unused on this rank in this step. It counts as zeros. On a GPU,
        they are written on this CUDA stream (None: torch's current stream). Any thread may call
        it."""
        self._before_mark()
        self._check(lib.muster_gradients_mark_unused_on(self._handle(), id, self._stream(stream)))

    def wait(self) -> GradientStats:
        """Ends the step: returns when all gradients are summed. InvalidState: some gradients were
        not marked; the message lists them, and the step continues. After any other error
        (PeerFailed, TimedOut and so on) the step is over, and its gradients are undefined."""
        return self._end(lambda work: work.wait(), lib.muster_gradients_wait)

    def wait_stream(self, stream: Stream) -> GradientStats:
        """Like wait(), but for GPUs and without blocking the host: makes later work on this CUDA
        stream wait for the sums."""
        address = address_of(stream)
        return self._end(lambda work: work.wait_stream(stream),
                         lambda handle, stats: int(lib.muster_gradients_wait_stream(
                             handle, address, stats)))

    @contextlib.contextmanager
    def step(self: Self) -> Iterator[Self]:
        """Calls begin(), and wait() at the end of the block. After an exception the step stays
        open."""
        self.begin()
        yield self
        self.wait()

    @contextlib.contextmanager
    def accumulate(self: Self) -> Iterator[Self]:
        """A step that sends nothing. Use it for all but the last micro-batch."""
        self.begin(False)
        try:
            yield self
        finally:
            self.wait()

    def used(self, id: int) -> bool:
        """Whether any rank used the gradient in the last step; always True without has_unused."""
        return bool(lib.muster_gradients_used(self._handle(), id))

    def zero(self, stream: Optional[Stream] = None) -> None:
        """Zeroes the bucketed gradients; on GPUs the work is queued on `stream`, a CUDA stream
        (None: torch's current stream)."""
        check(lib.muster_gradients_zero_on(self._handle(), self._stream(stream)))

    def _stream(self, stream: Optional[Stream]) -> Optional[int]:
        torch = sys.modules.get("torch")
        if stream is None and self._device != c.HOST and torch and torch.cuda.is_initialized():
            stream = torch.cuda.current_stream(self._device)  # otherwise no torch work is queued
        return address_of(stream)

    def rebind(self, comm: Communicator) -> None:
        """Continues with another communicator, after a failure or with other ranks. Collective:
        all ranks of comm call it. Gradients on the host keep their values but have new addresses;
        call grad() again. Mismatch: as in finalize()."""
        core = comm.core()
        former = self._owner.core  # stays alive during the call
        code = lib.muster_gradients_rebind(self._handle(), core.handle)
        self._owner.move(core)
        self._comm, self._owner.held.open = comm, False
        del former
        check(code)

    def close(self) -> None:
        """Frees the buckets; do not use arrays from grad() after that. A second call does nothing.
        Without close(), the buckets live as long as this object or an array that uses them."""
        self._owner.close()

    @property
    def names(self) -> List[str]:
        """The parameters' names, by id."""
        return [parameter.name for parameter in self._parameters]

    def __repr__(self) -> str:
        return f"<muster.GradientSync of {len(self._parameters)} gradients, {self._comm!r}>"

    def _handle(self) -> int:
        if self._owner.held.handle is None:
            raise errors.InvalidState("the GradientSync was closed")
        if self._owner.core.pid != os.getpid():
            raise errors.InvalidState("the GradientSync belongs to the parent process that this "
                                      "one was forked from")
        return self._owner.held.handle

    def _end(self, wait: Callable[[Work], Any], end: Callable[..., int]) -> GradientStats:
        for work in self._works:  # started by the hook
            try:
                wait(work)
            except errors.Error as error:
                self._hook_error = self._hook_error or error
        stats = c.CGradientsStats(size=sizeof(c.CGradientsStats))
        code = end(self._handle(), byref(stats))
        if code != errors.InvalidState.code or self._hook_error:
            self._owner.held.open = False
        if self._hook_error is not None:
            raise self._hook_error
        self._check(code)
        return GradientStats(stats.buckets, stats.bytes, stats.exposed_ns / 1e9,
                             bool(stats.moved))

    def _before_mark(self) -> None:
        """Once per step, because it may cost more than a mark."""
        before_send = self._owner.core.before_send
        if self._is_unsent and before_send is not None:
            with self._sending:
                if self._is_unsent:
                    before_send()
                    self._is_unsent = False

    def _check(self, code: int) -> None:
        if code:
            raise self._hook_error or last_error()

    def _for_c(self, hook: Hook) -> Callable[..., int]:
        """Wraps the hook in a function that C can call. mark_ready() and wait() re-raise its
        exceptions."""
        weak = weakref.ref(self)  # avoids a reference cycle, which would be collected late

        def called(_: Any, __: Any, bucket: Any, ___: Any) -> int:
            self, b = weak(), bucket.contents
            assert self is not None  # one of its methods is running
            name = next(name for name, (number, _) in dtypes.TYPES.items() if number == b.dtype)
            try:
                work = hook(self._comm, ArrayView(b.count, name, b.device, b.data, self._owner))
                if work is not None:
                    self._works.append(work)
            except BaseException as error:
                self._hook_error = error
                return getattr(error, "code", 0) or errors.Aborted.code
            return 0
        return called
