# SPDX-License-Identifier: Apache-2.0
"""GradientSync: the gradients of a training step are summed while the backward pass runs."""
import collections
import contextlib
import ctypes
import os
import sys
import weakref
from ctypes import byref, c_void_p, sizeof

from . import _library as c
from . import dtypes, errors, memory
from ._library import check, last_error, lib
from .shown import Shown, count, extents

GradientStats = collections.namedtuple("GradientStats", "buckets bytes exposed moved")
GradientStats.__doc__ = """What a step did. buckets: that were sent, 0 for an accumulating step.
bytes: of the gradients. exposed: seconds in wait(), which the backward pass did not hide. moved:
the gradients lie elsewhere now, grad() has to be asked again."""

_Parameter = collections.namedtuple("_Parameter", "name shape dtype")


def _place(device):
    return "the host" if device == c.HOST else f"GPU {device}"


class Gradient(Shown):
    """A gradient in its bucket, as grad() gives it; shown without a copy, as a Bucket is."""


class Handle:
    """The C object. Freed once, before its communicator: by its owner or by the communicator's
    core, whichever goes first. open: a step that the other ranks take part in was begun."""

    def __init__(self, handle, comm):
        self.handle, self.comm, self.open = handle, comm, False

    def free(self, c_library=lib):
        handle, self.handle = self.handle, None
        if handle is not None:
            if self.open:  # to free waits for operations that others may never join
                c_library.muster_abort(self.comm, b"it let go of a GradientSync inside a step")
            c_library.muster_gradients_free(handle)


class Owner:
    """What arrays that show gradients keep: the C object, and the core of its communicator."""

    def __init__(self, handle, core):
        self.core, self.held = core, Handle(handle, core.handle)
        core.gradients.add(self.held)

    def move(self, core):
        self.core.gradients.discard(self.held)
        self.core, self.held.comm = core, core.handle
        core.gradients.add(self.held)

    def close(self, getpid=os.getpid):
        if self.core.pid == getpid():  # in a forked child nothing is ours
            self.core.gradients.discard(self.held)
            self.held.free()

    __del__ = close


class GradientSync:
    """Averages the gradients of a model over all ranks, in buckets that are sent as soon as they
    are complete, beside the rest of the backward pass.

        sync = muster.GradientSync(comm)
        weights = sync.add("weights", (784, 10))     # in the order of the forward pass
        bias = sync.add("bias", 10)
        sync.finalize()
        for batch in batches:
            with sync.step():
                numpy.matmul(x.T, error, out=sync.grad(weights).numpy())
                sync.mark_ready(weights)
                ...
            # here they are averages, with the same bits on every rank

    All ranks add the same parameters with the same options. The result does not depend on the
    sizes of buckets, to the last bit. mark_ready() and mark_unused() may come from any thread, the
    other calls from one at a time, which is not inside an operation of the communicator; other
    Python threads run meanwhile. One that is let go of inside a step aborts the communicator.

    average: else the sum. wire: "bf16" or "f16", by which f32 gradients travel; on the host they
    are summed in f32 and rounded once, on GPUs NCCL sums them in that type. first_bucket,
    bucket_cap: bytes; 0: what suits the device. owns_memory: gradients lie in buckets (grad());
    else in arrays of the caller (bind()), copied in and out. background: the communicator's thread
    performs buckets; else mark_ready() does, and blocks. has_unused: allows mark_unused(), for one
    small operation a step. reorder: after the first step buckets are made anew in the order in
    which gradients became ready on rank 0; then moved is true, and arrays of grad() from before
    show nothing any more. device: a CUDA ordinal, None for the host. hook(comm, bucket): performs
    each bucket (a Shown) instead of the all-reduce, in place, and returns a Work or None; called by
    mark_ready(); it calls nothing of this object.
    """

    def __init__(self, comm, *, average=True, wire=None, first_bucket=0, bucket_cap=0,
                 owns_memory=True, background=True, has_unused=False, reorder=False, device=None,
                 hook=None):
        self._comm = comm
        self._parameters = []
        self._bound = {}  # id: what keeps the caller's memory
        self._device = c.HOST if device is None else device
        self._owns_memory = owns_memory
        self._works, self._hook_error = [], None
        self._hook = c.HOOK(self._call(hook)) if hook else c.HOOK()
        options = c.CGradientsOptions(
            sizeof(c.CGradientsOptions), first_bucket, bucket_cap,
            dtypes.TYPES[dtypes.must_be_named(wire)][0] if wire else 0, not average,
            not owns_memory, not background, has_unused, not reorder, device is not None,
            device or 0, self._hook, None)
        handle = c_void_p()
        core = comm.core()
        check(lib.muster_gradients_create(core.handle, byref(options), byref(handle)))
        self._owner = Owner(handle.value, core)

    def add(self, name, shape, dtype="f32"):
        """A gradient of this shape (elements; a number or a tuple); returns its number, from 0.
        Before finalize(). InvalidArgument: with a wire type all gradients are f32."""
        shape, dtype = extents(shape), dtypes.must_be_named(dtype)
        number = ctypes.c_int()
        check(lib.muster_gradients_add(self._handle(), name.encode(), dtypes.TYPES[dtype][0],
                                       count(shape), byref(number)))
        self._parameters.append(_Parameter(name, shape, dtype))
        return number.value

    def finalize(self):
        """Makes the buckets; all ranks call it. Mismatch: ranks have other parameters or options;
        the text names the first parameter that differs, and the rank."""
        check(lib.muster_gradients_finalize(self._handle()))

    def grad(self, id):
        """The Gradient: memory in its bucket, zeroed at first. Ask again after a step that moved
        them and after rebind(): arrays from before then show memory that is nobody's, or
        another's."""
        where = c_void_p()
        check(lib.muster_gradients_grad(self._handle(), id, byref(where)))
        _, shape, dtype = self._parameters[id]
        return Gradient(shape, dtype, self._device, where.value or 0,
                        (self._owner, self._owner.core))

    def bind(self, id, array):
        """The caller's contiguous array where this gradient is read and its sum is written, until
        another one is bound. On GPUs it is read on the stream of mark_ready(); the sum is written
        on that of wait_stream(), or before wait() ends. InvalidArgument: another count or type, or
        on another device than the gradients. InvalidState: the gradients lie in buckets."""
        seen = memory.of(array, writable=True)
        if seen.device != self._device:
            raise errors.InvalidArgument(f"bind: the array is on {_place(seen.device)}, the "
                                         f"gradients are on {_place(self._device)}")
        if 0 <= id < len(self._parameters):
            name, shape, dtype = self._parameters[id]
            if seen.count != count(shape) or seen.dtype != dtype:
                raise errors.InvalidArgument(f"bind: '{name}' is {dtype}[{count(shape)}], the "
                                             f"array {seen.dtype}[{seen.count}]")
        check(lib.muster_gradients_bind(self._handle(), id, seen.data))
        self._bound[id] = seen

    def begin(self, synchronize=True):
        """Begins a step. synchronize=False: this one only accumulates, and sends nothing."""
        check(lib.muster_gradients_begin(self._handle(), synchronize))
        self._works, self._hook_error = [], None
        self._owner.held.open = bool(synchronize)

    def mark_ready(self, id, stream=None):
        """The gradient is complete, on the host or on this CUDA stream (torch's current one). The
        last of a bucket sends it. InvalidState: not in a step, or marked in it already; the text
        names the parameter. Else what the operation, or the hook, failed with."""
        self._check(lib.muster_gradients_mark_ready(self._handle(), id, self._stream(stream)))

    def mark_unused(self, id, stream=None):
        """This rank has no such gradient in this step: it counts as zeros, on GPUs written on the
        stream of the others (torch's current one)."""
        self._check(lib.muster_gradients_mark_unused_on(self._handle(), id, self._stream(stream)))

    def wait(self):
        """Ends the step: returns GradientStats when all gradients are summed. InvalidState: some
        were not marked; the text names them, and the step goes on. Else what an operation failed
        with (PeerFailed, TimedOut …): the step is over, its gradients are worth nothing."""
        return self._end(lambda work: work.wait(), lib.muster_gradients_wait)

    def wait_stream(self, stream):
        """As wait(), on GPUs without blocking the host: work queued on this CUDA stream from now
        on sees the sums."""
        stream = getattr(stream, "cuda_stream", stream)
        return self._end(lambda work: work.wait_stream(stream),
                         lambda handle, stats: lib.muster_gradients_wait_stream(handle, stream,
                                                                                stats))

    @contextlib.contextmanager
    def step(self):
        """begin() … wait(). An exception inside passes through, and the step stays open."""
        self.begin()
        yield self
        self.wait()

    @contextlib.contextmanager
    def accumulate(self):
        """A step that sends nothing: for all but the last part of a batch."""
        self.begin(False)
        try:
            yield self
        finally:
            self.wait()

    def used(self, id):
        """Whether any rank used it in the last step; True without has_unused."""
        return bool(lib.muster_gradients_used(self._handle(), id))

    def zero(self, stream=None):
        """Sets the gradients in buckets to 0; on GPUs queued on this stream (torch's current
        one)."""
        check(lib.muster_gradients_zero_on(self._handle(), self._stream(stream)))

    def _stream(self, stream):
        torch = sys.modules.get("torch")
        if stream is None and self._device != c.HOST and torch and torch.cuda.is_initialized():
            stream = torch.cuda.current_stream(self._device)  # else others own the gradients
        return getattr(stream, "cuda_stream", stream)

    def rebind(self, comm):
        """Goes on with another communicator, after a failure or with other ranks; all of its ranks
        call it. Gradients on the host keep their values, and lie elsewhere. Mismatch as for
        finalize()."""
        core = comm.core()
        former = self._owner.core  # lives until the call is over
        code = lib.muster_gradients_rebind(self._handle(), core.handle)
        self._owner.move(core)
        self._comm, self._owner.held.open = comm, False
        del former
        check(code)

    def close(self):
        """Gives the buckets back; no array of grad() may be used any more. Again: does nothing.
        Without it they live as long as this object or an array of theirs."""
        self._owner.close()

    @property
    def names(self):
        """Of the parameters, by their numbers."""
        return [parameter.name for parameter in self._parameters]

    def __repr__(self):
        return f"<muster.GradientSync of {len(self._parameters)} gradients, {self._comm!r}>"

    def _handle(self):
        if self._owner.held.handle is None:
            raise errors.InvalidState("the GradientSync was closed")
        if self._owner.core.pid != os.getpid():
            raise errors.InvalidState("the GradientSync is of the process that this one was forked "
                                      "from")
        return self._owner.held.handle

    def _end(self, wait, end):
        for work in self._works:  # of the hook
            try:
                wait(work)
            except errors.Error as error:
                self._hook_error = self._hook_error or error
        stats = c.CGradientsStats(size=sizeof(c.CGradientsStats))
        code = end(self._handle(), byref(stats))
        if code != errors.InvalidState.code or self._hook_error:
            self._owner.held.open = False
        self._check(code or self._hook_error)
        return GradientStats(stats.buckets, stats.bytes, stats.exposed_ns / 1e9,
                             bool(stats.moved))

    def _check(self, failed):
        if failed:
            raise self._hook_error or last_error()

    def _call(self, hook):
        """The hook for C. What it raises is raised by mark_ready, and by wait."""
        weak = weakref.ref(self)  # who is let go of is gone at once

        def called(_, __, bucket, ___):
            self, b = weak(), bucket.contents
            name = next(name for name, (number, _) in dtypes.TYPES.items() if number == b.dtype)
            try:
                work = hook(self._comm, Shown(b.count, name, b.device, b.data, self._owner))
                if work is not None:
                    self._works.append(work)
            except BaseException as error:
                self._hook_error = error
                return getattr(error, "code", 0) or errors.Aborted.code
            return 0
        return called
