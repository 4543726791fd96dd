# SPDX-License-Identifier: Apache-2.0
"""Work for torch.distributed: operations under way, what is left to do after them, a future."""
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
# Bytes of results that a Work keeps which no Python object refers to any more.
KEPT_BYTES = 4096
# Seconds that the end of a range in a profile, which comes with the operation's, may take.
PROFILER_PATIENCE = 10.0


def timed_out(error: errors.TimedOut, seconds: Optional[float]) -> errors.TimedOut:
    """The error, with the text that PyTorch's back ends put in front."""
    if seconds is None or error.rank is None or "Timed out" in str(error):
        return error
    return errors.TimedOut(f"muster: Timed out waiting {seconds * 1000:.0f}ms: {error}", error.rank,
                           error.epoch, error.seq, error.native)


class Part(Protocol):
    """What a Work consists of: muster.Work, or a message."""

    @property
    def done(self) -> bool: ...

    def wait(self, timeout: Optional[float] = ...) -> Any: ...


class Dropped:
    """The Works of a group to which no Python object refers any more: the latest ones. Of large
    results only the last one's stay: PyTorch asks for the future as soon as it has the Work."""

    def __init__(self, most: int) -> None:
        self._works: Deque[Work] = collections.deque(maxlen=most)

    def append(self, work: Work) -> None:
        if self._works:
            self._works[-1].forget_large_results()
        self._works.append(work)


class Work(_Base):
    """parts: in the order in which they were started. finish: called once when all of them are over
    (copies into the caller's tensors). outputs: the tensors of result() and of the future. Any
    thread may wait.

    PyTorch has an object of its own for each Work, which asks this one. It may live longer, in the
    Reducer of DDP for instance, and would then wait for ever: `dropped` keeps this one for it.
    """

    completer: Optional[Completer] = None
    dropped: Optional[Dropped] = None
    seconds: Optional[float] = None  # the operation's timeout, to be named in the error
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
        """A future that was asked for before keeps them."""
        if sum(each.numel() * each.element_size() for each in all_of(self._outputs)) > KEPT_BYTES:
            self._outputs, self._future, self._is_forgotten = [], None, True

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """True when it is over; raises its error. timeout: None and 0 stand for the operation's own
        timeout. muster.TimedOut with rank None: only the wait timed out."""
        seconds = timeout.total_seconds() if timeout else 0
        for part in list(self._parts):
            if self._is_given_up and not part.done:
                raise errors.Aborted("the process ends before the operation does")
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
        """Whether it is over within that time, for each of its parts."""
        for part in list(self._parts):
            try:
                part.wait(seconds)
            except Exception:  # who asks for the result gets it
                if not part.done:
                    return False
        return True

    def give_up(self) -> None:
        """From now on waiting fails at once if it is not over."""
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
        """A future of the list of tensors; a thread of the group completes it, or this call."""
        with self._lock:
            if self._is_forgotten:  # PyTorch's C++ takes an empty list for a crash
                raise errors.Error("muster: the results of this operation were let go of, since no "
                                   "object of Python referred to it any more")
            if self._future is None:
                outputs = self._outputs
                trigger: Any = torch.futures.Future()
                # Only an exception from a callback reaches those who wait in C++ as well.
                self._future = trigger.then(lambda _: self._when_over(outputs))
                if self.completer is None or self.is_completed():
                    trigger.set_result(None)
                else:
                    self.completer.add(self, trigger)
            return self._future

    def contents(self) -> Tuple[List[Part], List[torch.Tensor]]:
        """Its parts and outputs, for a Work that contains this one."""
        return list(self._parts), list(self._outputs)

    def complete(self) -> None:
        """All parts are over: finishes once."""
        with self._lock:
            if self._finish is not None:
                finish, self._finish = self._finish, None
                finish()
            self._parts = []
