# SPDX-License-Identifier: Apache-2.0
"""What a worker may say to its launcher, and what it hears of the job.

    from muster import worker
    for step in range(steps):
        train(step)
        worker.progress(step)  # two numbers in shared memory: cheap enough for every step
        if worker.stopping():
            save(step)
            break

Programs that are no trainers (servers, RL loops) follow the members of the job:

    for news in worker.rounds():
        if isinstance(news, worker.Gone):
            ...  # news.rank has ended

Nothing here waits for the launcher or raises because of it. Outside of muster every function does
nothing: stopping() is False, epoch() is 0, rounds() is empty.
"""
from __future__ import annotations

import array
import dataclasses
import os
import threading
import time
from typing import Any, Dict, Iterator, List, MutableSequence, Optional, Type, Union

from . import _channel

__all__ = ["Gone", "NodeRanks", "Round", "Stop", "epoch", "event", "healthy", "progress", "ready",
           "rounds", "stopping", "unhealthy"]

SECONDS_BETWEEN_FRAMES = 1.0  # of progress, where there is no shared page


@dataclasses.dataclass(frozen=True)
class NodeRanks:
    """A node with its ranks: count of them, from rank on."""

    node: str
    rank: int
    count: int


@dataclasses.dataclass(frozen=True)
class Round:
    """The members of the job, from now on."""

    epoch: int
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    group_rank: int
    group_world_size: int
    restarts: int
    store_address: str
    store_port: int
    left: List[NodeRanks]  # nodes that are gone, with their ranks of the round before
    joined: List[NodeRanks]  # nodes that are new


@dataclasses.dataclass(frozen=True)
class Gone:
    """count ranks of this round, from rank on, have ended."""

    epoch: int
    rank: int
    count: int
    failed: bool
    why: str


@dataclasses.dataclass(frozen=True)
class Stop:
    """This node's workers are asked to end, and killed after so many seconds."""

    seconds: float
    why: str


News = Union[Round, Gone, Stop]


_KINDS: Dict[str, Type[News]] = {"round": Round, "gone": Gone, "stop": Stop}


def _news(frame: _channel.Frame) -> Optional[News]:
    """None: of a kind that this version does not know."""
    kind = _KINDS.get(frame["type"])
    if kind is None:
        return None
    fields = {field.name: frame[field.name] for field in dataclasses.fields(kind)}
    for name in ("left", "joined"):
        if name in fields:
            fields[name] = [NodeRanks(one["node"], one["rank"], one["count"])
                            for one in fields[name]]
    return kind(**fields)


class _Agent:
    """What this process has of its launcher: one connection, made by the first call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Optional[_channel.Connection] = None
        self.asked = False
        self.subscribed = False
        self.stopping = False
        self.words: Optional[MutableSequence[int]] = None
        self.told = 0.0  # when progress went by a frame

    def connect(self) -> Optional[_channel.Connection]:
        """The caller has the lock."""
        if not self.asked:
            self.asked = True
            try:
                self.connection = _channel.Connection()
            except (OSError, ValueError):
                self.connection = None
        return self.connection

    def say(self, frame: _channel.Frame) -> bool:
        with self.lock:
            connection = self.connect()
            try:
                return connection is not None and connection.send(frame)
            except OSError:
                self.drop()
                return False

    def drop(self) -> None:
        """Page and connection are two things: progress goes on."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def begin(self) -> MutableSequence[int]:
        """Where progress goes: the shared page, else a place that nobody reads."""
        with self.lock:
            connection = self.connect()
            page: Any = connection.page if connection is not None else None
            self.words = array.array("Q", [0, 0]) if page is None else page
            return self.words

    def is_stopping(self) -> bool:
        with self.lock:
            connection = self.connect()
            try:
                if connection is not None and not self.stopping:
                    self.stopping = any(frame["type"] == "stop"
                                        for frame in self.new_frames(connection))
            except (OSError, ValueError):
                self.drop()
            return self.stopping

    def new_frames(self, connection: _channel.Connection) -> List[_channel.Frame]:
        """Subscribes first, and waits for what was told before: it comes in one piece."""
        if not self.subscribed:
            self.subscribed = connection.send({"type": "subscribe"})
            if self.subscribed:
                connection.next(_channel.ANSWER_SECONDS)
        return connection.waiting()


_agent = _Agent()


def _forget() -> None:
    """A forked child makes a connection of its own."""
    global _agent  # pylint: disable=global-statement
    _agent = _Agent()


os.register_at_fork(after_in_child=_forget)


def progress(step: int) -> None:
    """This worker is at this step (a whole number from 0, of at most 64 bits). The launcher reads
    it when somebody asks. Costs about as much as any call of a Python function."""
    words = _agent.words
    if words is None:
        words = _agent.begin()
    try:
        words[0] = step
    except (OverflowError, ValueError):  # which of them depends on whether there is a launcher
        raise ValueError("a step is a whole number from 0 to 2**64 - 1") from None
    words[1] = time.monotonic_ns()
    if type(words) is array.array:
        _tell_progress(step)


def _tell_progress(step: int) -> None:
    agent = _agent
    if agent.connection is not None and time.monotonic() - agent.told >= SECONDS_BETWEEN_FRAMES:
        agent.told = time.monotonic()
        agent.say({"type": "progress", "step": step})


def healthy() -> bool:
    """All is well again, after unhealthy(). False: nobody heard it."""
    return _agent.say({"type": "healthy"})


def unhealthy(why: str) -> bool:
    """Something is wrong, in words for people. It is reported, and nothing else follows from it.
    False: nobody heard it."""
    return _agent.say({"type": "unhealthy", "why": str(why)[:500]})


def event(data: Any) -> bool:
    """Adds any JSON value to events.jsonl. At most 8 KiB, and 256 KiB in all; at most 15 lists and
    dicts inside each other. False: nobody heard it. ValueError or TypeError: it is more than that,
    or no JSON."""
    return _agent.say({"type": "event", "data": data})


def ready() -> bool:
    """This worker has begun to work in the present round. False: nobody heard it."""
    return _agent.say({"type": "ready", "epoch": epoch()})


def epoch() -> int:
    """The number of the round: the same on all ranks, greater with each round. 0: no muster."""
    text = os.environ.get("MUSTER_EPOCH", "")
    return int(text) if text.isdigit() else 0


def stopping() -> bool:
    """Whether this worker has been asked to end."""
    return _agent.is_stopping()


def rounds(timeout: Optional[float] = None) -> Iterator[News]:
    """The present round, and then each Gone, Stop and Round as it happens. Waits for the next one;
    ends with the job, or when nothing came for so many seconds."""
    try:
        connection = _channel.Connection()
    except (OSError, ValueError):
        return
    try:
        connection.send({"type": "subscribe"})
        frame = connection.next(timeout)
        while frame is not None:
            news = _news(frame)
            if news is not None:
                yield news
            frame = connection.next(timeout)
    except (OSError, ValueError, KeyError):
        return
    finally:
        connection.close()
