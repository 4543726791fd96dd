# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed back end "muster": importing this module registers it.

    import muster.torch
    torch.distributed.init_process_group("muster")          # or
    group = torch.distributed.new_group(backend="muster")

CPU tensors; PyTorch 1.13 and later, developed with 2.15. There is every collective that gloo has:
all_reduce, broadcast, reduce, all_gather(_into_tensor), reduce_scatter(_tensor), gather, scatter,
all_to_all(_single, also with unequal splits), send, recv, batched sends, barrier, the object
collectives, the coalesced variants; ReduceOp SUM, AVG, PRODUCT, MIN, MAX, PREMUL_SUM, BAND, BOR,
BXOR; sparse tensors in all_reduce (SUM). Tags of send and recv: a communicator for each tag and
other rank, at most 64 in a group. group.monitored_barrier(timeout, wait_all_ranks) names who
is missing and leaves the group as it was; dist.monitored_barrier lets no group through that a
Python class makes. Refused in words: receiving from any source.

Errors: operations that are waited for raise muster.PeerFailed, muster.TimedOut and so on, with
the rank; where PyTorch waits in C++ (DDP's backward) it raises RuntimeError with the same text.
After one the group is dead, as with gloo.

Groups of PyTorch's store take part in it; where our client cannot speak to that store (files,
PyTorch before 2.1) the group's rank 0 serves one. MUSTER_COLLECTIVE_BACKEND, _HOST, _ADDRESS and
_FLIGHT_DIR choose as they do for Communicator.from_env().

attach(module, communicator) averages a module's gradients without any process group.
"""
import torch.distributed as _dist

from .attached import Attached, attach
from .group import ProcessGroup
from .meeting import create

__all__ = ["Attached", "ProcessGroup", "attach", "create"]


def _register():
    if hasattr(_dist.Backend, "MUSTER"):
        return
    try:
        _dist.Backend.register_backend("muster", create, devices=["cpu"])
    except TypeError:  # PyTorch 1.13
        _dist.Backend.register_backend("muster", create)


_register()
