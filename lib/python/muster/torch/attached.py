# SPDX-License-Identifier: Apache-2.0
"""attach(): averages a module's gradients with GradientSync, without a process group."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

import torch

from .. import dtypes, errors
from ..communicator import Communicator
from ..gradients import GradientStats, GradientSync


def attach(module: torch.nn.Module, comm: Communicator, *, broadcast: bool = True,
           **options: Any) -> Attached:
    """Averages the gradients of a module's parameters over all ranks while backward() runs, for
    training loops without torch.distributed.

        comm = muster.Communicator.from_env()
        attached = muster.torch.attach(model, comm)
        for x, y in batches:
            loss(model(x), y).backward()
            attached.wait()              # parameters' .grad are now the averages
            optimizer.step()
            attached.zero_grad()

    Collective: all ranks attach a module with the same parameters, in the same order. All
    parameters are on one device, the host or a GPU, and have element types that muster can reduce.
    Sparse gradients become dense.

    comm: the ranks to average over. broadcast: copies rank 0's parameters and buffers to all other
    ranks. options: all options of GradientSync except owns_memory and device; reorder defaults to
    True. has_unused allows parameters without a gradient in some steps; if no rank has a gradient,
    .grad stays None.

    Each parameter's .grad is a view of a bucket. The first wait() may move the buckets; do not use
    older .grad tensors after that (reorder=False prevents the move). zero_grad() keeps the view.
    After optimizer.zero_grad(), which sets .grad to None, each gradient is copied once per step.

    On a GPU, a bucket is sent after the work of the streams on which backward() computed its
    gradients, and wait() makes torch's current stream wait for the averages. Only the first wait()
    blocks the host; with has_unused, every wait() blocks the host until the other ranks have called
    wait().

    Unsupported: PyTorch before 2.1, other element types, several devices. Mismatch: the ranks'
    modules differ; the message names the parameter.
    """
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise errors.Unsupported("muster.torch.attach needs PyTorch 2.1 or later "
                                 "(Tensor.register_post_accumulate_grad_hook); this is "
                                 f"{torch.__version__}")
    parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    for name, p in parameters:
        if dtypes.find(p.dtype) is None:
            raise errors.Unsupported(f"attach: muster does not support arithmetic on {p.dtype} "
                                     f"('{name}')")
        if p.device != parameters[0][1].device:
            raise errors.Unsupported(f"attach: all parameters must be on one device, but "
                                     f"'{parameters[0][0]}' is on {parameters[0][1].device} and "
                                     f"'{name}' on {p.device}")
    if broadcast:
        _broadcast(comm, [*module.parameters(), *module.buffers()])
    return Attached(parameters, comm, options)


class Attached:
    """Returned by attach(). Only the training thread may call its methods; PyTorch's threads call
    its hooks during backward().

    sync: the GradientSync.
    """

    def __init__(self, parameters: List[Tuple[str, torch.nn.Parameter]], comm: Communicator,
                 options: Dict[str, Any]) -> None:
        """For attach()."""
        self._parameters = [p for _, p in parameters]
        self._has_unused = options.get("has_unused", False)
        self._gpu = next((p.device for _, p in parameters if p.device.type == "cuda"), None)
        self._stream: Any = None  # the stream on which all gradients of this step are marked
        options = {"reorder": True, **options}
        self.sync = GradientSync(comm, **options, device=self._gpu.index if self._gpu else None)
        for name, p in parameters:
            self.sync.add(name, tuple(p.shape), p.dtype)
        self.sync.finalize()
        self._lock = threading.Lock()
        self._synchronizes = True
        self._marked: Optional[Set[int]] = None  # ids; None if no step has begun
        self._views: List[torch.Tensor] = []  # views of the gradients in their buckets
        self._update_views()
        if not self._has_unused:
            for p, view in zip(self._parameters, self._views):
                _move_grad(p, view, or_zeros=True)
        self._hooks = [p.register_post_accumulate_grad_hook(self._hook(id))
                       for id, p in enumerate(self._parameters)]

    def wait(self) -> GradientStats:
        """Call it after backward(). Returns when every .grad is the average over all ranks; on a
        GPU, makes later work on torch's current stream wait for the averages.
        InvalidState: parameters have no gradient, and has_unused is off; the message lists them.
        Otherwise raises the operation's error (PeerFailed, TimedOut and so on)."""
        self._begin()
        with self._lock:
            marked = self._marked or set()
            missing = [id for id in range(len(self._parameters)) if id not in marked]
        for id in missing if self._has_unused else ():
            if self._parameters[id].grad is None:
                self.sync.mark_unused(id, self._join())
            else:  # the gradient is from an accumulating backward pass
                self._mark_ready(id)
        try:
            stats = self._wait()
        except errors.InvalidState:
            raise  # the step continues
        except Exception:
            self._marked = None
            raise
        self._marked = None
        for id, p in enumerate(self._parameters if self._has_unused else ()):
            if p.grad is None and self.sync.used(id):
                p.grad = self._views[id]
        if stats.moved:
            self._replace_grads()
        return stats

    @contextlib.contextmanager
    def accumulate(self) -> Iterator[Attached]:
        """Backward passes inside the block only add to this rank's .grad. Use it for all but the
        last micro-batch. InvalidState: wait() was not called after the last backward pass."""
        if self._marked is not None:
            raise errors.InvalidState(
                "accumulate: wait() was not called after the last backward(); call wait() first")
        self._synchronizes = False
        try:
            yield self
        finally:
            self._synchronizes = True

    def zero_grad(self) -> None:
        """Sets every .grad to zeros in its bucket, or to None if has_unused is set."""
        for p, view in zip(self._parameters, self._views):
            if self._has_unused:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()
            else:
                p.grad = view.zero_()

    def rebind(self, comm: Communicator, broadcast: bool = False) -> None:
        """Continues with another communicator after a failure, like GradientSync.rebind. broadcast:
        copies rank 0's parameters to all other ranks. Synchronizes the GPU."""
        if broadcast:
            _broadcast(comm, self._parameters)
        self._synchronize_gpu()
        self.sync.rebind(comm)
        self._marked = None
        self._replace_grads()

    def close(self) -> None:
        """Detaches the module: its .grad tensors become independent copies. Synchronizes the GPU.
        A second call does nothing."""
        for hook in self._hooks:
            hook.remove()
        for p, view in zip(self._parameters, self._views):
            if p.grad is not None and p.grad.data_ptr() == view.data_ptr():
                p.grad = p.grad.clone()
        if self._hooks:
            self._synchronize_gpu()
        self._hooks, self._parameters, self._views = [], [], []
        self.sync.close()

    def _wait(self) -> GradientStats:
        if self._gpu:
            return self.sync.wait_stream(torch.cuda.current_stream(self._gpu))
        return self.sync.wait()

    def _join(self) -> Any:
        """On a GPU, all gradients of a step are marked on one stream, the stream of the first
        gradient. Makes that stream wait for torch's current stream, which computed this gradient,
        and returns it. Parts of a model may use separate streams, and wait() may run on a different
        stream from backward()."""
        if not self._gpu:
            return None
        current = torch.cuda.current_stream(self._gpu)
        with self._lock:
            if self._stream is None:
                self._stream = current
            elif self._stream != current:
                self._stream.wait_stream(current)
            return self._stream

    def _synchronize_gpu(self) -> None:
        """Call before gradient memory is moved or freed, because queued work may still use it."""
        if self._gpu:
            torch.cuda.synchronize(self._gpu)

    def _update_views(self) -> None:
        self._views = [self.sync.grad(id).torch() for id in range(len(self._parameters))]

    def _replace_grads(self) -> None:
        """Call after the gradients have been moved."""
        self._update_views()
        for p, view in zip(self._parameters, self._views):
            if p.grad is not None:
                p.grad = view

    def _begin(self) -> None:
        with self._lock:
            if self._marked is None:
                self.sync.begin()
                self._marked, self._stream = set(), None

    def _hook(self, id: int) -> Callable[[torch.Tensor], None]:
        def on_gradient(_: torch.Tensor) -> None:
            if self._synchronizes:
                self._begin()
                self._mark_ready(id)
        return on_gradient

    def _mark_ready(self, id: int) -> None:
        with torch.no_grad():
            _move_grad(self._parameters[id], self._views[id])
        self.sync.mark_ready(id, self._join())
        with self._lock:
            assert self._marked is not None  # _begin() has run
            self._marked.add(id)


def _move_grad(p: torch.nn.Parameter, view: torch.Tensor, or_zeros: bool = False) -> None:
    """Makes .grad a view of its bucket and keeps the values."""
    if p.grad is None:
        if or_zeros:
            p.grad = view
        return
    is_dense = p.grad.layout is torch.strided
    if not is_dense or p.grad.data_ptr() != view.data_ptr():
        view.copy_(p.grad if is_dense else p.grad.to_dense())
        p.grad = view


def _broadcast(comm: Communicator, tensors: Iterable[torch.Tensor]) -> None:
    """Copies rank 0's values to all ranks, for tensors of any layout."""
    with torch.no_grad():
        for tensor in tensors:
            flat = tensor.detach().contiguous()
            comm.broadcast(flat)
            if flat.data_ptr() != tensor.data_ptr():
                tensor.copy_(flat)
