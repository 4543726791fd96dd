# SPDX-License-Identifier: Apache-2.0
"""elastic.run: calls a training function again after the loss of other ranks."""
from __future__ import annotations

import functools
import gc
import itertools
import os
from typing import Any, Callable, Optional, TypeVar, cast, overload

from . import _spare
from ._link import Link
from ._news import AnyNews, LauncherGone, Members, NoNews, open_news
from .state import State

Function = TypeVar("Function", bound=Callable[..., Any])

# The error of a failed operation and the launcher's report of the lost rank race. A report that
# arrives within this time after an exception explains the exception. The report of a rank on
# another node is late if that node first has to reconnect to the job.
NEWS_SECONDS = 3.0
NEWS_SECONDS_OF_NODES = 15.0

_calls = itertools.count()  # of decorated functions in this process, under muster


@overload
def run(function: Function) -> Function: ...


@overload
def run(*, backend: Optional[str] = ...) -> Callable[[Function], Function]: ...


def run(function: Optional[Function] = None, *, backend: Optional[str] = None) -> Any:
    """Decorates a training function whose first argument is a State. The decorated function
    connects all ranks, calls State.sync() and then the function, and returns its result.

    If another rank is lost meanwhile, an operation in the function fails or State.commit() raises
    Reset. The decorated function then calls State.restore(), waits for the replacement, connects
    again, calls the functions of State.on_reset() and enters the function again. The function must
    therefore start from the state's values. It must let exceptions of failed operations and Reset
    pass.

    The decorated function returns when the function has returned on all ranks, so that the
    remaining ranks can repeat the last step if a rank is lost in it. It closes the communication;
    use it only inside the function.

    backend: for a TorchState, the backend of torch.distributed ("nccl" if there is a GPU, otherwise
    "gloo"; "muster" and combinations such as "cpu:gloo,cuda:nccl" work too); for a State, the
    backend of muster.Communicator ("auto").

    In a spare worker (--spare-workers), the decorated function first waits until the process
    replaces a failed rank. The rank's environment variables are set only then.

    An exception passes if muster reports no lost rank within 3 seconds, or within 15 seconds if the
    job has several nodes. KeyboardInterrupt and
    SystemExit pass at once. Without muster, every exception passes at once. OSError: muster
    rejects or closes this process's connection. RuntimeError: muster started this process, and the
    process has called a decorated function before.
    """
    def decorate(train: Function) -> Function:
        @functools.wraps(train)
        def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
            _spare.become_worker()
            news = open_news()
            try:
                _check_first_call(news)
                result = _Job(state, news, backend).run(lambda: train(state, *args, **kwargs))
                news.finish()
                return result
            finally:
                news.close()
        return cast(Function, wrapper)
    return decorate if function is None else decorate(function)


def _check_first_call(news: AnyNews) -> None:
    """A replacement starts with the first call, so the other ranks must be in the same call. The
    ranks also find each other by the number of the round, which works only once in a round."""
    if not isinstance(news, NoNews) and next(_calls) > 0:
        raise RuntimeError("cannot enter elastic.run again: this process has already called a "
                           "function that elastic.run decorates, and muster can replace ranks only "
                           "in the first call. Combine the functions into one, and call it once.")


class _Job:
    """One call of a decorated function."""

    def __init__(self, state: State, news: AnyNews, backend: Optional[str]) -> None:
        self._state, self._news, self._backend = state, news, backend
        self._link: Optional[Link] = None
        self._is_entered = False  # the function has been called

    def run(self, function: Callable[[], Any]) -> Any:
        members: Optional[Members] = self._news.newest(-1)
        while True:
            assert members is not None
            try:
                return self._attempt(members, function)
            except Exception as error:
                members = self._next(members.epoch)
                if members is None:
                    raise
                _drop_frames(error)
            gc.collect()  # DDP and other users of the old group, before the next group exists

    def _attempt(self, members: Members, function: Callable[[], Any]) -> Any:
        self._connect(members)
        self._state.sync()
        self._news.ready(members.epoch)
        if self._is_entered:
            self._state._call_callbacks()
        self._is_entered = True
        result = function()
        assert self._link is not None
        self._link.barrier()
        self._disconnect(is_lost=False)
        return result

    def _connect(self, members: Members) -> None:
        link = self._state._make_link(members, self._backend)
        self._news.enter(members.epoch, link.cut)
        self._link = link
        link.connect()
        self._state._attach(link, self._news, members.epoch)

    def _next(self, epoch: int) -> Optional[Members]:
        """The next round, after an exception in this epoch; None if no rank was lost, or if the
        launcher has exited."""
        if not self._news.wait_over(epoch, _news_seconds()):
            self._news.leave()
            return None
        self._disconnect(is_lost=True)
        self._state.restore()
        try:
            return self._news.newest(epoch)
        except LauncherGone:
            return None

    def _disconnect(self, is_lost: bool) -> None:
        """Cuts first: close() may wait for operations, and this rank may be the first to notice the
        loss."""
        self._news.leave()
        link, self._link = self._link, None
        self._state._attach(None, self._news, 0)
        if link is not None:
            if is_lost:
                link.cut()
            link.close(is_lost)


def _news_seconds() -> float:
    has_nodes = os.environ.get("GROUP_WORLD_SIZE", "1") != "1"
    return NEWS_SECONDS_OF_NODES if has_nodes else NEWS_SECONDS


def _drop_frames(error: Optional[BaseException]) -> None:
    """Releases the function's local variables, which the traceback would keep alive."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
