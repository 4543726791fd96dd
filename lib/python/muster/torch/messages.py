# SPDX-License-Identifier: Apache-2.0
"""send and recv with tags and from any source, which the library's own messages do not support.
Two ranks that exchange tagged messages create a separate communicator, and agree on the next
message through control connections (control.py)."""
from __future__ import annotations

import functools
import os
import queue
import threading
import time
from ctypes import sizeof
from typing import Any, Callable, Dict, Optional, Protocol, Set, Tuple

import torch

from .. import _library as c
from .. import errors
from ..communicator import Communicator
from ..operations import NO_BUFFER
from . import tensors as t
from .control import GO, Control
from .matching import Announce, Go, Matching, Start
from .work import Part

_WAIT_SLICE = 0.2  # seconds between checks for a failure of the group


class Group(Protocol):
    """The part of a process group that Messages uses."""

    comm: Communicator
    seconds: float  # the group's timeout

    def transfer(self, kind: int, tensor: torch.Tensor, rank: int) -> Part:
        """Starts a SEND or RECV on the group's own communicator, which has no tags."""

    def make_channel(self, rank: int) -> Communicator:
        """The communicator of this rank and another rank; returns when both have called it."""

    def address_of(self, rank: int) -> Tuple[str, int]:
        """The address of the rank's Control."""


class Messages:
    """The messages of one group. Thread-safe."""

    def __init__(self, group: Group, control: Control) -> None:
        self._group, self._control = group, control
        self._lock = threading.RLock()
        self._matching = Matching()
        self._channels: Dict[int, _Channel] = {}
        self._gone: Set[int] = set()  # sources whose connections are closed
        self._is_closed = False
        control.listener = self

    def send(self, tensor: torch.Tensor, rank: int, tag: int) -> Part:
        self._control.start()
        with self._lock:
            if tag == 0:
                part = self._group.transfer(c.SEND, tensor, rank)
                self._matching.sent(rank)
                self._perform()
                return part
            message = Message(self._group, c.SEND, tensor, rank, tag)
            self._matching.send(rank, tag, message)
            self._perform()
        return message

    def receive(self, tensor: torch.Tensor, rank: int, tag: int) -> Part:
        with self._lock:
            if tag == 0 and self._matching.receives_at_once(rank):
                return self._group.transfer(c.RECV, tensor, rank)
        if tag != 0:
            self._control.connect(rank, functools.partial(self._group.address_of, rank))
        return self._wait_for(tensor, rank, tag)

    def receive_any(self, tensor: torch.Tensor, tag: int) -> Message:
        for rank in range(self._group.comm.size):
            if rank != self._group.comm.rank:
                self._control.connect(rank, functools.partial(self._group.address_of, rank))
        return self._wait_for(tensor, None, tag)

    def _wait_for(self, tensor: torch.Tensor, rank: Optional[int], tag: int) -> Message:
        message = Message(self._group, c.RECV, tensor, rank, tag)
        with self._lock:
            self._matching.receive(rank, tag, message)
            self._perform()
            self._fail_lost()
        return message

    def abort(self, reason: str) -> None:
        with self._lock:
            for channel in self._channels.values():
                if channel.comm is not None:
                    channel.comm.abort(reason)

    def close(self) -> None:
        self._control.close()
        with self._lock:
            self._is_closed = True
            for channel in self._channels.values():
                channel.close()

    # Callbacks from Control; they run on its thread.

    def subscribed(self, rank: int) -> None:
        with self._lock:
            self._matching.subscribed(rank)
            self._perform()

    def heard(self, rank: int, kind: int, tag: int, count: int) -> bool:
        with self._lock:
            if kind == GO:
                is_good = self._matching.go(rank, tag)
            else:
                self._matching.announced(rank, tag, count)
                is_good = True
            self._perform()
            return is_good

    def left(self, rank: int, is_source: bool) -> None:
        with self._lock:
            if self._is_closed:
                return
            if is_source:
                self._gone.add(rank)
                self._fail_lost()
            else:
                for message in self._matching.refused(rank):
                    message.lose(rank)

    def _fail_lost(self) -> None:
        for rank in self._gone:
            for message in self._matching.left(rank, self._group.comm.size, self._gone):
                message.lose(rank)

    def _perform(self) -> None:
        for effect in self._matching.take_effects():
            if isinstance(effect, Announce):
                self._control.announce(effect.rank, effect.tag, effect.count)
            elif isinstance(effect, Go):
                self._control.go(effect.rank, effect.tag)
            else:
                self._start(effect)

    def _start(self, start: Start) -> None:
        message: Message = start.message
        message.rank = start.rank
        if message.tag == 0:
            message.start(functools.partial(self._group.transfer, message.kind, message.tensor,
                                            start.rank))
            return
        channel = self._channels.get(start.rank)
        if channel is None:
            channel = self._channels[start.rank] = _Channel(
                functools.partial(self._group.make_channel, start.rank))
        channel.start(message)


class Message:
    """A send or receive that may still wait for the other side. A Part of a Work."""

    def __init__(self, group: Group, kind: int, tensor: torch.Tensor, rank: Optional[int],
                 tag: int) -> None:
        self.kind, self.tensor, self.rank, self.tag = kind, tensor, rank, tag
        self._group = group
        self._begun = time.monotonic()
        self._pid = os.getpid()
        self._started = threading.Event()
        self._part: Optional[Part] = None
        self._error: Optional[errors.Error] = None

    @property
    def done(self) -> bool:
        return self._started.is_set() and (self._part is None or self._part.done)

    def wait(self, timeout: Optional[float] = None) -> None:
        end = time.monotonic() + timeout if timeout is not None else None
        while not self._started.wait(_WAIT_SLICE if end is None else
                                     min(_WAIT_SLICE, max(0.0, end - time.monotonic()))):
            if end is not None and time.monotonic() >= end:
                raise errors.TimedOut(f"muster: Timed out waiting {timeout:g} s; {self} continues")
            self._check()
        if self._error is not None:
            raise self._error
        if self._part is not None:
            try:
                self._part.wait(None if end is None else max(0.0, end - time.monotonic()))
            except errors.Error as error:
                raise self._with_group_rank(error) from None

    def source(self) -> int:
        return -1 if self.rank is None or self.kind == c.SEND else self.rank

    def start(self, begin: Callable[[], Part]) -> None:
        try:
            self._part = begin()
        except errors.Error as error:
            self._error = self._with_group_rank(error)
        self._started.set()

    def start_on(self, comm: Communicator) -> None:
        """Runs in the channel's thread, so that messages on one channel stay in order."""
        buffer = t.data_buffer(self.tensor)
        sends = self.kind == c.SEND
        call = c.CCall(sizeof(c.CCall), self.kind, 0, 1 - comm.rank, 1,
                       buffer if sends else NO_BUFFER, NO_BUFFER if sends else buffer, 0, 1.0, None)
        self.start(lambda: comm.start(call, None, (self.tensor,)))

    def fail(self, error: errors.Error) -> None:
        self._error = error
        self._started.set()

    def lose(self, rank: int) -> None:
        """Called if the rank exits before it has joined the transfer."""
        self.fail(errors.PeerFailed(f"tag {self.tag}, rank {rank} of the group has died or left: "
                                    f"{self} can never complete", rank))

    def _check(self) -> None:
        """Raises if the group has failed, if the timeout has expired, or in a forked child, which
        has no thread to start messages."""
        if self._pid != os.getpid():
            raise errors.InvalidState(f"this process was forked while {self} was pending; only the "
                                      "rank that started it may wait for it")
        failure = self._group.comm.error
        if failure is not None:
            raise type(failure)(f"{self}: {failure}", failure.rank, failure.epoch, failure.seq,
                                failure.native)
        if time.monotonic() - self._begun > self._group.seconds:
            raise errors.TimedOut("muster: Timed out waiting "
                                  f"{self._group.seconds * 1000:.0f}ms for {self} to complete",
                                  self.rank)

    def _with_group_rank(self, error: errors.Error) -> errors.Error:
        """Translates the rank in an error: in a channel the ranks are 0 and 1."""
        if error.rank is None or self.tag == 0 or self.rank is None:
            return error
        low, high = sorted((self._group.comm.rank, self.rank))
        failed = low if error.rank == 0 else high
        text = (f"tag {self.tag}, rank {failed} of the group (the channel's ranks 0 and 1 are "
                f"{low} and {high}): {error}")
        return type(error)(text, failed, error.epoch, error.seq, error.native)

    def __str__(self) -> str:
        other = "any rank" if self.rank is None else f"rank {self.rank}"
        return (f"send to {other}" if self.kind == c.SEND else f"recv from {other}") + (
            f" with tag {self.tag}" if self.tag else "")


class _Channel:
    def __init__(self, make: Callable[[], Communicator]) -> None:
        self.comm: Optional[Communicator] = None  # None until both ranks have arrived
        self._make = make
        self._queue: queue.SimpleQueue[Optional[Message]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name="muster-channel").start()

    def start(self, message: Message) -> None:
        self._queue.put(message)

    def close(self) -> None:
        """Lets pending messages finish, then closes the channel. Returns immediately."""
        self._queue.put(None)

    def _run(self) -> None:
        failure: Any = None
        try:
            self.comm = self._make()
        except errors.Error as error:
            failure = error
        message = self._queue.get()
        while message is not None:
            if self.comm is not None:
                message.start_on(self.comm)
            else:
                message.fail(failure)
            message = self._queue.get()
        if self.comm is not None:
            self.comm.close()
