# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions. Each is a muster.Error with the fields of the C++ one."""


class Error(RuntimeError):
    """An operation, or a call, that failed.

    rank: who is to blame, None where nobody is. epoch: of the communicator. seq: number of the
    operation on its communicator, from 1; 0 outside of one. native: errno, CUresult or
    ncclResult_t of what failed below, else 0. str(error): one sentence that names rank and
    operation. `fatal` (of the class): the communicator is dead until it is rebuilt.
    """

    code = 0
    fatal = False

    def __init__(self, text, rank=None, epoch=0, seq=0, native=0):
        super().__init__(text)
        self.rank = rank
        self.epoch = epoch
        self.seq = seq
        self.native = native


class TimedOut(Error, TimeoutError):
    """The deadline passed; `rank` is the first that did not come. From Work.wait(timeout): that
    patience ended, `rank` is None and the operation goes on."""

    code = -1
    fatal = True


class PeerFailed(Error, ConnectionError):
    """`rank` has died or left, or its host cannot be reached."""

    code = -2
    fatal = True


class Aborted(Error):
    """Somebody called abort(); the text says who and why."""

    code = -3
    fatal = True


class Mismatch(Error):
    """Ranks called with different operations, counts or types; the text has both sides."""

    code = -4
    fatal = True


class InvalidArgument(Error, ValueError):
    """Refused before anything was sent."""

    code = -5


class InvalidState(Error):
    """The communicator is dead or closed, or this process was forked from its owner."""

    code = -6


class Unsupported(Error, NotImplementedError):
    """Not by this back end, machine or library; the text says what is missing."""

    code = -7


class StoreFailed(Error, ConnectionError):
    """The rendezvous store failed or was not there in time."""

    code = -8


class SystemFailed(Error, OSError):
    """A system call failed; `native` is errno."""

    code = -9
    fatal = True


class CudaFailed(Error):
    """`native` is the CUresult."""

    code = -10
    fatal = True


class NcclFailed(Error):
    """`native` is the ncclResult_t."""

    code = -11
    fatal = True


_BY_CODE = {kind.code: kind for kind in (
    TimedOut, PeerFailed, Aborted, Mismatch, InvalidArgument, InvalidState, Unsupported,
    StoreFailed, SystemFailed, CudaFailed, NcclFailed)}


def make(code, text, rank, **more):
    """The exception for an error number of the C ABI; rank -1 is nobody."""
    return _BY_CODE.get(code, Error)(text, rank=None if rank < 0 else rank, **more)
