# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "muster". Importing this module registers it.

    import muster.torch
    torch.distributed.init_process_group("muster")          # or
    group = torch.distributed.new_group(backend="muster")

It supports CPU tensors and PyTorch 1.13 or later; it is tested with 1.13 and 2.15. It has all of
gloo's operations: all_reduce, broadcast, reduce, all_gather(_into_tensor),
reduce_scatter(_tensor), gather, scatter, all_to_all(_single, also with unequal splits), send and
recv (with tags, and from any source), batched sends, barrier, monitored_barrier, split_group, the
object collectives and the coalesced variants. It supports ReduceOp SUM, AVG, PRODUCT, MIN, MAX,
PREMUL_SUM, BAND, BOR, BXOR. all_reduce also accepts sparse tensors and lists of several tensors.
Unsupported calls raise errors with gloo's messages.

Errors: Work.wait() raises muster.PeerFailed, muster.TimedOut and so on, with the rank. Where
PyTorch waits in C++ (DDP's backward), it raises RuntimeError with the same text. After an error
the group is dead, as with gloo, except after a monitored_barrier that some ranks missed.

Groups use PyTorch's store. If the library's client cannot use it (a FileStore, or PyTorch before
2.1), the group's rank 0 serves a separate store. MUSTER_COLLECTIVE_BACKEND, _HOST, _ADDRESS,
_PORT_RANGE and _FLIGHT_DIR have the same effect as in Communicator.from_env().

A compiled extension speeds up calls and DDP (PyTorch 2.4 or later). The first job builds it in the
background for later jobs, unless MUSTER_TORCH_BUILD=never; `python -m muster.torch.build` builds it
at once. New groups use it, unless MUSTER_TORCH_BACKEND=python. It supports only the CPU: with
"cpu:muster,cuda:nccl", GPUs still use NCCL. MUSTER_TORCH_ASYNC=inline or thread selects where
asynchronous operations run.

With MUSTER_TORCH_REPLACES=gloo, muster provides the groups of programs that request gloo.

attach(module, communicator) averages a module's gradients without a process group.
"""
from .attached import Attached, attach
from .bootstrap import create
from .group import ProcessGroup
from .registration import register

__all__ = ["Attached", "ProcessGroup", "attach", "create", "register"]

_register = register  # the name in the package's entry points
_register()
