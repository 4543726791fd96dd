# SPDX-License-Identifier: Apache-2.0
"""muster: collective operations between the workers of a job, over shared memory, TCP and NCCL.

    import muster, numpy
    comm = muster.Communicator.from_env()
    print(comm.rank, comm.all_reduce(numpy.ones(4, "float32")))

muster.launch(function) starts the workers itself, from a program or a notebook:

    print(muster.launch(lambda: muster.Communicator.from_env().rank, nproc=4))

`import muster.torch` registers the torch.distributed backend "muster". The package needs only the
standard library and libmuster_collective.so; NumPy and PyTorch are optional. The package is typed;
muster.typing has the argument types.
"""
import ctypes as _ctypes

if not hasattr(_ctypes, "pythonapi"):
    raise ImportError("muster needs CPython because it uses the C API to access array memory; this "
                      "interpreter (PyPy?) lacks ctypes.pythonapi: use CPython 3.9 or later")

# pylint: disable=wrong-import-position
from .array_view import ArrayView
from .bucket import Bucket
from .communicator import Communicator, ServedStore
from .errors import (Aborted, CudaFailed, Error, InvalidArgument, InvalidState, Mismatch,
                     NcclFailed, PeerFailed, StoreFailed, SystemFailed, TimedOut, Unsupported)
from .gradients import Gradient, GradientStats, GradientSync
from .jobs import JobError, WorkerError, launch, notebook_launcher
from .work import Work

__version__ = "0.1.0"  # keep in sync with the top-level CMakeLists.txt

__all__ = ["Aborted", "ArrayView", "Bucket", "Communicator", "CudaFailed", "Error", "Gradient",
           "GradientStats", "GradientSync", "InvalidArgument", "InvalidState", "JobError",
           "Mismatch", "NcclFailed", "PeerFailed", "ServedStore", "StoreFailed", "SystemFailed",
           "TimedOut", "Unsupported", "Work", "WorkerError", "launch", "notebook_launcher"]
