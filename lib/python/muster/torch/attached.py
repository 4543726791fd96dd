# SPDX-License-Identifier: Apache-2.0
"""attach(): a module's gradients through GradientSync, without a process group."""
import contextlib
import threading

import torch

from .. import dtypes, errors
from ..gradients import GradientSync


def attach(module, comm, *, broadcast=True, **options):
    """Averages the gradients of a module's parameters over all ranks while backward() runs; for
    training loops of one's own, without torch.distributed.

        comm = muster.Communicator.from_env()
        attached = muster.torch.attach(model, comm)
        for x, y in batches:
            loss(model(x), y).backward()
            attached.wait()              # parameters' .grad are the averages now
            optimizer.step()
            attached.zero_grad()

    comm: a muster.Communicator. All ranks attach a module of the same parameters, all on one
    device, which is the host or a GPU, of types that muster computes with. Sparse gradients become
    dense.
    broadcast: rank 0's parameters and buffers go to all others. Options: those of GradientSync but
    owns_memory and device; reorder is on, and has_unused allows parameters without a gradient in
    some steps (where no rank has one, .grad stays None).

    .grad of each parameter is its place in a bucket. The first wait() may move it: tensors that
    were .grad before are not to be used then (reorder=False keeps them). zero_grad() keeps it
    there; after optimizer.zero_grad(), which sets it to None, each gradient is copied once.

    On a GPU a bucket is sent after the streams on which backward() made its gradients, and wait()
    lets torch's current stream wait for the averages. The host waits in the first wait(), and with
    has_unused for the other ranks to come.

    Returns an Attached. Unsupported: PyTorch before 2.1, other element types, several devices.
    Mismatch: the ranks' modules differ; the text names the parameter.
    """
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise errors.Unsupported("muster.torch.attach needs PyTorch 2.1 or later "
                                 "(Tensor.register_post_accumulate_grad_hook); this is "
                                 f"{torch.__version__}")
    parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    for name, p in parameters:
        if dtypes.named(p.dtype) is None:
            raise errors.Unsupported(f"attach: muster computes with no {p.dtype} ('{name}')")
        if p.device != parameters[0][1].device:
            raise errors.Unsupported(f"attach: '{parameters[0][0]}' is on "
                                     f"{parameters[0][1].device}, '{name}' on {p.device}")
    if broadcast:
        _broadcast(comm, [*module.parameters(), *module.buffers()])
    return Attached(parameters, comm, options)


class Attached:
    """Made by attach(). Calls from the thread that trains; hooks of backward() from PyTorch's."""

    def __init__(self, parameters, comm, options):
        self._parameters = [p for _, p in parameters]
        self._has_unused = options.get("has_unused", False)
        self._gpu = next((p.device for _, p in parameters if p.device.type == "cuda"), None)
        self._stream = None  # of this step's marks
        self.sync = GradientSync(comm, **{"reorder": True, **options},
                                 device=self._gpu.index if self._gpu else None)
        for name, p in parameters:
            self.sync.add(name, tuple(p.shape), p.dtype)
        self.sync.finalize()
        self._lock = threading.Lock()
        self._synchronizes = True
        self._marked = None  # numbers; None: no step was begun
        self._show()
        if not self._has_unused:
            for p, place in zip(self._parameters, self._places):
                _adopt(p, place, or_zeros=True)
        self._hooks = [p.register_post_accumulate_grad_hook(self._hook(id))
                       for id, p in enumerate(self._parameters)]

    def wait(self):
        """After backward(): returns GradientStats when every .grad is the average of all ranks; on
        a GPU for what torch's current stream is given from now on.
        InvalidState: some parameters got no gradient, and has_unused was not given; the text names
        them. Else what an operation failed with (PeerFailed, TimedOut …)."""
        self._begin()
        with self._lock:
            missing = [id for id in range(len(self._parameters)) if id not in self._marked]
        for id in missing if self._has_unused else ():
            if self._parameters[id].grad is None:
                self.sync.mark_unused(id, self._join())
            else:  # from an accumulating backward pass
                self._ready(id)
        try:
            stats = self._wait()
        except errors.InvalidState:
            raise  # the step goes on
        except Exception:
            self._marked = None
            raise
        self._marked = None
        for id, p in enumerate(self._parameters if self._has_unused else ()):
            if p.grad is None and self.sync.used(id):
                p.grad = self._places[id]
        if stats.moved:
            self._show()
            for p, place in zip(self._parameters, self._places):
                if p.grad is not None:
                    p.grad = place
        return stats

    @contextlib.contextmanager
    def accumulate(self):
        """Backward passes inside only add to .grad of this rank: for all but the last part of a
        batch. InvalidState: a step was begun, and wait() not called."""
        if self._marked is not None:
            raise errors.InvalidState("accumulate, but wait was not called")
        self._synchronizes = False
        try:
            yield self
        finally:
            self._synchronizes = True

    def zero_grad(self):
        """Zeros the gradients where they are; None with has_unused."""
        for p, place in zip(self._parameters, self._places):
            if self._has_unused:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()
            else:
                p.grad = place.zero_()

    def rebind(self, comm, broadcast=False):
        """Goes on with another communicator after a failure, as GradientSync.rebind. broadcast:
        rank 0's parameters go to all others. On a GPU waits for torch's work on it."""
        if broadcast:
            _broadcast(comm, self._parameters)
        self._settle()
        self.sync.rebind(comm)
        self._marked = None
        self._show()
        for p, place in zip(self._parameters, self._places):
            if p.grad is not None:
                p.grad = place

    def close(self):
        """Lets go of the module: its gradients are its own again. On a GPU waits for torch's work
        on it. Again: does nothing."""
        for hook in self._hooks:
            hook.remove()
        for p, place in zip(self._parameters, self._places):
            if p.grad is not None and p.grad.data_ptr() == place.data_ptr():
                p.grad = p.grad.clone()
        if self._hooks:
            self._settle()
        self._hooks, self._parameters, self._places = [], [], []
        self.sync.close()

    def _wait(self):
        if self._gpu:
            return self.sync.wait_stream(torch.cuda.current_stream(self._gpu))
        return self.sync.wait()

    def _join(self):
        """On a GPU the stream that all of a step are marked on, which is the first one's. It waits
        for torch's current one, on which the gradient was made: wait() may be called on another
        stream than backward(), and parts of a model may have streams of their own."""
        if not self._gpu:
            return None
        here = torch.cuda.current_stream(self._gpu)
        with self._lock:
            if self._stream is None:
                self._stream = here
            elif self._stream != here:
                self._stream.wait_stream(here)
            return self._stream

    def _settle(self):
        """Before memory of gradients moves or goes: no work of torch's uses it any more."""
        if self._gpu:
            torch.cuda.synchronize(self._gpu)

    def _show(self):
        self._places = [self.sync.grad(id).torch() for id in range(len(self._parameters))]

    def _begin(self):
        with self._lock:
            if self._marked is None:
                self.sync.begin()
                self._marked, self._stream = set(), None

    def _hook(self, id):
        def ready(p):
            if self._synchronizes:
                self._begin()
                self._ready(id)
        return ready

    def _ready(self, id):
        with torch.no_grad():
            _adopt(self._parameters[id], self._places[id])
        self.sync.mark_ready(id, self._join())
        with self._lock:
            self._marked.add(id)


def _adopt(p, place, or_zeros=False):
    """Lets .grad be its place in the bucket, with the value that it has."""
    if p.grad is None:
        if or_zeros:
            p.grad = place
        return
    is_dense = p.grad.layout is torch.strided
    if not is_dense or p.grad.data_ptr() != place.data_ptr():
        place.copy_(p.grad if is_dense else p.grad.to_dense())
        p.grad = place


def _broadcast(comm, tensors):
    """Rank 0's values, into tensors of any layout."""
    with torch.no_grad():
        for tensor in tensors:
            flat = tensor.detach().contiguous()
            comm.broadcast(flat)
            if flat.data_ptr() != tensor.data_ptr():
                tensor.copy_(flat)
