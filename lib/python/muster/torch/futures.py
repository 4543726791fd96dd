# SPDX-License-Identifier: Apache-2.0
"""Completes the futures of a group's operations, in threads that wait for operations in order.
PyTorch runs a future's callbacks in the thread that completes it."""
from __future__ import annotations

import atexit
import collections
import os
import threading
import time
import weakref
from typing import Any, Deque, List, Optional, Protocol, Tuple

from .. import _library as c

# If a callback runs for longer than this (in seconds), another thread continues with the next
# operation, because the callback may be waiting for the future of a later operation.
TAKEOVER = 0.1
# Seconds between checks for process exit.
WAIT_SLICE = 0.2
# How long to wait at process exit for running callbacks, in seconds.
EXIT_PATIENCE = 10.0

_local = threading.local()  # depth: the thread's callback nesting depth


class Operation(Protocol):
    """The operation that a future belongs to: a Work."""

    def over_within(self, seconds: float) -> bool: ...

    def give_up(self) -> None: ...


Entry = Tuple[Operation, Any]  # an operation, and the future to complete when it is over


class Completer:
    """Completes the futures of one group. Starts threads when the first future is added. If a
    callback starts an operation, a different thread completes that operation's future, so the
    callback can wait for it. Callbacks of later operations run after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: List[_Lane] = []
        self._is_closed = False
        self._pid = os.getpid()
        _completers.add(self)

    def add(self, operation: Operation, trigger: Any) -> None:
        """Sets the trigger when the operation is over, normally in a thread. After close(), and in
        a forked child (which has no threads), this call waits for the operation and sets the
        trigger itself."""
        if self._pid == os.getpid() and self._add((operation, trigger)):
            return
        while not operation.over_within(WAIT_SLICE):
            pass
        trigger.set_result(None)

    def _add(self, entry: Entry) -> bool:
        """Passes the entry to a thread. Returns False after close()."""
        with self._lock:
            if self._is_closed:
                return False
            depth = getattr(_local, "depth", 0)
            while len(self._lanes) <= depth:
                self._lanes.append(_Lane(len(self._lanes) + 1))
            self._lanes[depth].add(entry)
            return True

    def close(self) -> None:
        """Makes the threads exit after their remaining operations."""
        with self._lock:
            self._is_closed = True
            for lane in self._lanes:
                lane.close()

    def end(self) -> None:
        """Called at process exit: abandons pending operations and waits for the threads. A thread
        that returns from C++ after that would find no interpreter and abort the process."""
        if self._pid != os.getpid():
            return  # a forked child does not have the threads
        self.close()
        for lane in self._lanes:
            lane.give_up()
        deadline = time.monotonic() + EXIT_PATIENCE
        for lane in self._lanes:
            lane.join(deadline)


class _Lane:
    """Threads that take turns: one at a time waits for the next operation and completes its
    future."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._condition = threading.Condition()
        self._entries: Deque[Entry] = collections.deque()
        self._threads: List[threading.Thread] = []
        self._turn: Optional[Entry] = None  # the entry that is being waited for and completed
        self._calls_back = False  # the operation is over and its callbacks are running
        self._idle = 0
        self._is_closed = False
        self._gives_up = False

    def add(self, entry: Entry) -> None:
        with self._condition:
            self._entries.append(entry)
            if self._idle > 0:
                self._condition.notify()
            elif self._turn is None or self._calls_back:
                self._start_thread()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def give_up(self) -> None:
        self._gives_up = True

    def join(self, deadline: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, daemon=True, name="muster-futures")
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _run(self) -> None:
        _local.depth = self._depth
        turn = self._next_turn(None)
        while turn is not None:
            operation, trigger = turn
            while not operation.over_within(WAIT_SLICE):
                if self._gives_up:
                    operation.give_up()
                    break
            with self._condition:
                self._calls_back = True
                if self._idle > 0:
                    self._condition.notify()
                elif self._entries:
                    self._start_thread()
            trigger.set_result(None)
            del operation, trigger
            turn = self._next_turn(turn)

    def _next_turn(self, turn: Optional[Entry]) -> Optional[Entry]:
        """Ends this thread's turn and waits until it must complete another entry. Returns that
        entry; None if no entries follow."""
        with self._condition:
            if self._turn is turn:
                self._turn = None
            while not self._entries or self._turn is not None:
                if not self._entries and self._is_closed:
                    return None
                others = self._turn
                is_stuck = bool(self._entries) and self._calls_back
                self._idle += 1
                is_woken = self._condition.wait(TAKEOVER if is_stuck else None)
                self._idle -= 1
                if is_stuck and not is_woken and self._turn is others and self._entries:
                    break
            self._turn, self._calls_back = self._entries.popleft(), False
            if self._is_closed and not self._entries:
                self._condition.notify_all()  # idle threads may exit: no entry follows
            return self._turn


_completers: weakref.WeakSet[Completer] = weakref.WeakSet()


def _end_all() -> None:
    c.lib.muster_process_ends()
    for completer in list(_completers):
        completer.end()


atexit.register(_end_all)
