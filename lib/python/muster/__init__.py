# SPDX-License-Identifier: Apache-2.0
"""muster: workers of one job compute together, over shared memory, TCP and NCCL.

    import muster, numpy
    comm = muster.Communicator.from_env()
    print(comm.rank, comm.all_reduce(numpy.ones(4, "float32")))

`import muster.torch` registers the torch.distributed back end "muster". Nothing but the standard
library and libmuster_collective.so is needed; NumPy and PyTorch are used where they are loaded.
"""
from .bucket import Bucket
from .communicator import Communicator, ServedStore
from .errors import (Aborted, CudaFailed, Error, InvalidArgument, InvalidState, Mismatch,
                     NcclFailed, PeerFailed, StoreFailed, SystemFailed, TimedOut, Unsupported)
from .gradients import Gradient, GradientStats, GradientSync
from .shown import Shown
from .work import Work

__all__ = ["Aborted", "Bucket", "Communicator", "CudaFailed", "Error", "Gradient",
           "GradientStats", "GradientSync", "InvalidArgument", "InvalidState", "Mismatch",
           "NcclFailed", "PeerFailed", "ServedStore", "Shown", "StoreFailed", "SystemFailed",
           "TimedOut", "Unsupported", "Work"]
