# SPDX-License-Identifier: Apache-2.0
"""Work for torch.distributed: pending operations, the steps that run after them, and a future."""
from __future__ import annotations

import collections
import threading
from datetime import timedelta
from typing import Any, Callable, Deque, List, Optional, Protocol, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import errors
from .futures import Completer
from .tensors import all_of

_Base: Any = getattr(dist, "Work", None) or torch._C._distributed_c10d.Work
# Maximum total size in bytes of the results kept in a Work without Python references.
KEPT_BYTES = 4096
# Seconds to wait for a profiler range to end. It ends when the operation completes.
PROFILER_PATIENCE = 10.0


def timed_out(error: errors.TimedOut, seconds: Optional[float]) -> errors.TimedOut:
    """Returns the error with the message prefix that PyTorch's backends use."""
    if seconds is None or error.rank is None or "Timed out" in str(error):
        return error
    return errors.TimedOut(f"muster: Timed out waiting {seconds * 1000:.0f}ms: {error}", error.rank,
                           error.epoch, error.seq, error.native)


class Part(Protocol):
    """A part of a Work: a muster.Work, or a message."""

    @property
    def done(self) -> bool: ...

    def wait(self, timeout: Optional[float] = ...) -> Any: ...


class Dropped:
    """A group's latest Works that have no Python references. Only the most recent Work keeps large
    results. Earlier Works do not need their results: PyTorch requests the future, which keeps the
    results, as soon as it receives a Work."""

    def __init__(self, most: int) -> None:
        self._works: Deque[Work] = collections.deque(maxlen=most)

    def append(self, work: Work) -> None:
        if self._works:
            self._works[-1].forget_large_results()
        self._works.append(work)


class Work(_Base):
    """parts: in the order in which they were started. finish: called once, when all parts are
    complete (copies results to the caller's tensors). outputs: the tensors of result() and of the
    future. Any thread may wait.

    PyTorch wraps each Work in a C++ object that calls this one and may outlive it, for instance in
    DDP's Reducer. If this object were deleted, the C++ object would wait forever, so `dropped`
    keeps it alive.
    """

    completer: Optional[Completer] = None
    dropped: Optional[Dropped] = None
    seconds: Optional[float] = None  # the operation's timeout, for the error text
    is_seen: Optional[threading.Event] = None  # set when the profiler's range has ended

    def __init__(self, parts: Sequence[Part] = (), outputs: Sequence[torch.Tensor] = (),
                 finish: Optional[Callable[[], Any]] = None,
                 source: Callable[[], int] = lambda: -1) -> None:
        super().__init__()
        self._parts = list(parts)
        self._outputs = list(outputs)
        self._finish = finish
        self._source = source
        self._error: Optional[Exception] = None
        self._future: Any = None
        self._lock = threading.RLock()
        self._is_given_up = False
        self._is_forgotten = False

    def __del__(self) -> None:
        dropped, self.dropped = self.dropped, None
        if dropped is not None:
            dropped.append(self)

    def forget_large_results(self) -> None:
        """Drops large results; a future that was requested earlier keeps them."""
        if sum(each.numel() * each.element_size() for each in all_of(self._outputs)) > KEPT_BYTES:
            self._outputs, self._future, self._is_forgotten = [], None, True

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """True when complete; raises the operation's error. timeout: None and 0 mean the
        operation's own timeout. If muster.TimedOut has rank None, only the wait timed out."""
        seconds = timeout.total_seconds() if timeout else 0
        for part in list(self._parts):
            if self._is_given_up and not part.done:
                raise errors.Aborted("the process is exiting and the operation has not completed")
            try:
                part.wait(seconds if seconds > 0 else None)
            except Exception as error:
                if part.done:
                    self._error = self._worded(error)
                    raise self._error from None
                raise
        self.complete()
        if self.is_seen is not None:
            self.is_seen.wait(PROFILER_PATIENCE)
        return True

    def _worded(self, error: Exception) -> Exception:
        return timed_out(error, self.seconds) if isinstance(error, errors.TimedOut) else error

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not all(part.done for part in list(self._parts)):
            return False
        if self._parts:
            try:
                self.wait()
            except Exception as error:
                self._error = error
        return True

    def over_within(self, seconds: float) -> bool:
        """Whether all of the Work's parts complete, each within that time."""
        for part in list(self._parts):
            try:
                part.wait(seconds)
            except Exception:  # raised when the result is requested
                if not part.done:
                    return False
        return True

    def give_up(self) -> None:
        """After this call, waiting fails immediately unless the operation is complete."""
        self._is_given_up = True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error if self.is_completed() else None

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._outputs

    def _when_over(self, outputs: List[torch.Tensor]) -> List[torch.Tensor]:
        self.wait()
        return outputs

    def source_rank(self) -> int:
        return self._source()

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A future for the list of tensors. A thread of the group completes it, or this call
        does."""
        with self._lock:
            if self._is_forgotten:  # PyTorch's C++ crashes on an empty list
                raise errors.Error("muster: the results of this operation have been freed because "
                                   "no Python object references it any more")
            if self._future is None:
                outputs = self._outputs
                trigger: Any = torch.futures.Future()
                # Only an exception from a callback also reaches waiters in C++.
                self._future = trigger.then(lambda _: self._when_over(outputs))
                if self.completer is None or self.is_completed():
                    trigger.set_result(None)
                else:
                    self.completer.add(self, trigger)
            return self._future

    def contents(self) -> Tuple[List[Part], List[torch.Tensor]]:
        """This Work's parts and outputs, for a Work that contains it."""
        return list(self._parts), list(self._outputs)

    def complete(self) -> None:
        """Called when all parts are complete; only the first call has an effect."""
        with self._lock:
            if self._finish is not None:
                finish, self._finish = self._finish, None
                finish()
            self._parts = []
