# SPDX-License-Identifier: Apache-2.0
"""The library's errors as exceptions. Each is a muster.Error with the fields of the C++ error."""
from __future__ import annotations

from typing import Any, Dict, Optional, Type


class Error(RuntimeError):
    """A failed operation or other call. str(error) is one sentence that names the rank and the
    operation.

    rank: the rank that failed; None if no single rank failed. epoch: the communicator's epoch. seq:
    the operation's number on its communicator, starting at 1; 0 outside an operation. native: the
    errno, CUresult or ncclResult_t of the failed call; 0 if there is none.
    code: the number in the C ABI (class attribute).
    fatal: whether the communicator is unusable until it is rebuilt (class attribute).
    """

    code: int = 0
    fatal: bool = False

    def __init__(self, text: str, rank: Optional[int] = None, epoch: int = 0, seq: int = 0,
                 native: int = 0) -> None:
        super().__init__(text)
        self.rank = rank
        self.epoch = epoch
        self.seq = seq
        self.native = native


class TimedOut(Error, TimeoutError):
    """The operation's deadline passed; `rank` is the first rank that did not join it. If
    Work.wait(timeout) raises it with `rank` None, only the wait timed out and the operation
    continues."""

    code = -1
    fatal = True


class PeerFailed(Error, ConnectionError):
    """`rank` has died or left, or its host cannot be reached."""

    code = -2
    fatal = True


class Aborted(Error):
    """A rank called abort(); the message contains the rank and the reason."""

    code = -3
    fatal = True


class Mismatch(Error):
    """Ranks called different operations, or one operation with different counts, types, ops or
    roots; the message quotes both calls."""

    code = -4
    fatal = True


class InvalidArgument(Error, ValueError):
    """The arguments were rejected and nothing was sent; the communicator stays usable."""

    code = -5


class InvalidState(Error):
    """The communicator is dead or closed, or this process was forked from its owner."""

    code = -6


class Unsupported(Error, NotImplementedError):
    """Not supported by this backend, machine or library; the message names what is missing."""

    code = -7


class StoreFailed(Error, ConnectionError):
    """The rendezvous store failed, or could not be reached in time."""

    code = -8


class SystemFailed(Error, OSError):
    """A system call failed; `native` is the errno."""

    code = -9
    fatal = True


class CudaFailed(Error):
    """A CUDA driver call failed; `native` is the CUresult."""

    code = -10
    fatal = True


class NcclFailed(Error):
    """An NCCL call failed; `native` is the ncclResult_t."""

    code = -11
    fatal = True


_BY_CODE: Dict[int, Type[Error]] = {kind.code: kind for kind in (
    TimedOut, PeerFailed, Aborted, Mismatch, InvalidArgument, InvalidState, Unsupported,
    StoreFailed, SystemFailed, CudaFailed, NcclFailed)}


def make(code: int, text: str, rank: int, **more: Any) -> Error:
    """The exception for an error code of the C ABI. rank: -1 if the error names no rank."""
    return _BY_CODE.get(code, Error)(text, rank=None if rank < 0 else rank, **more)
