# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed back end "muster": importing this module registers it.

    import muster.torch
    torch.distributed.init_process_group("muster")          # or
    group = torch.distributed.new_group(backend="muster")

It is for CPU tensors and PyTorch 1.13 or later, and tested with 1.13 and 2.15. It has every
operation that gloo has: all_reduce, broadcast, reduce, all_gather(_into_tensor),
reduce_scatter(_tensor), gather, scatter, all_to_all(_single, also with unequal splits), send and
recv with tags and from any source, batched sends, barrier, monitored_barrier, split_group, the
object collectives, the coalesced variants; ReduceOp SUM, AVG, PRODUCT, MIN, MAX, PREMUL_SUM, BAND,
BOR, BXOR; sparse tensors, and lists of several, in all_reduce. What it refuses, it refuses in
gloo's messages.

Errors: Work.wait() raises muster.PeerFailed, muster.TimedOut and so on, with the rank; where
PyTorch waits in C++ (DDP's backward) it raises RuntimeError with the same text. After one of these
the group is dead, as with gloo; after a monitored_barrier that ranks have missed it is not.

Groups use PyTorch's store. Where the library's client cannot (a FileStore, PyTorch before 2.1),
the group's rank 0 serves another one. MUSTER_COLLECTIVE_BACKEND, _HOST, _ADDRESS, _PORT_RANGE and
_FLIGHT_DIR have the same effect as for Communicator.from_env().

A compiled half, built by `python -m muster.torch.build` for PyTorch 2.4 or later, makes calls and
DDP faster; groups use it from then on (MUSTER_TORCH_BACKEND=python: they do not). It is for the CPU
alone: in "cpu:muster,cuda:nccl" GPUs keep NCCL. MUSTER_TORCH_ASYNC=inline or thread says who
performs asynchronous operations.

MUSTER_TORCH_REPLACES=gloo makes the groups that a program asks gloo for muster's.

attach(module, communicator) averages a module's gradients without any process group.
"""
from .attached import Attached, attach
from .bootstrap import create
from .group import ProcessGroup
from .registration import register

__all__ = ["Attached", "ProcessGroup", "attach", "create", "register"]

_register = register  # the name in the package's entry points
_register()
