# SPDX-License-Identifier: Apache-2.0
"""The worker's interface to its launcher: reports progress and health, and follows membership.

    from muster import worker
    for step in range(steps):
        train(step)
        worker.progress(step, loss=loss)  # numbers in shared memory: cheap enough for every step
        if worker.stopping():
            save(step)
            break

If a scheduler will stop the job (docs/preemption.md), all ranks can save at the same step:

    for step in range(steps):
        train(step)
        worker.progress(step)
        if worker.preempted():
            with worker.saving(step):
                save(step)
            sys.exit(worker.REQUEUE)

Programs other than trainers (servers, RL loops) can follow the members of the job:

    for news in worker.rounds():
        if isinstance(news, worker.Gone):
            ...  # news.rank has exited

Only preempted() and rounds() wait for the launcher, and no function raises an error if the launcher
fails. Without muster, all functions are no-ops: stopping() and preempted() are False, epoch() is 0,
rounds() is empty.
"""
from __future__ import annotations

import array
import contextlib
import dataclasses
import math
import operator
import os
import string
import struct
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, MutableSequence, Optional, Type, Union

from . import _channel

__all__ = ["Gone", "NodeRanks", "Preempt", "REQUEUE", "Round", "Stop", "deadline", "epoch", "event",
           "healthy", "on_preempt", "preempted", "progress", "ready", "rounds", "saved", "saving",
           "stopping", "unhealthy"]

REQUEUE = 75  # exit code of a worker that has saved after a preemption notice

SECONDS_BETWEEN_FRAMES = 1.0  # between progress frames, if there is no shared page
# preempted() waits for half of the time until the deadline, within these limits, until the launcher
# announces the step. Normally this takes one message to each node.
DECISION_SECONDS_MIN, DECISION_SECONDS_MAX = 1.0, 30.0
STEPS_MAX = 2 ** 64
BAD_STEP = "a step must be an integer from 0 to 2**64 - 1"

POLLS, NOTICE, DEADLINE = 3, 4, 5  # words of the page, after those that progress() writes

# The numbers that a worker reports: their count, then entries of a name (3 words) and a number.
NUMBERS_COUNT, NUMBERS, NUMBER_WORDS, NAME_WORDS = 6, 8, 4, 3
NUMBERS_MAX = 8
NAME_BYTES = 24
NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_./-")
BAD_NAME = "the name of a number must have 1 to 24 letters, digits and characters _ . / -"
PAGE_WORDS = NUMBERS + NUMBERS_MAX * NUMBER_WORDS


@dataclasses.dataclass(frozen=True)
class NodeRanks:
    """A node and its ranks: `count` ranks, starting at `rank`."""

    node: str
    rank: int
    count: int


@dataclasses.dataclass(frozen=True)
class Round:
    """The current members of the job."""

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
    left: List[NodeRanks]  # nodes that left, with their ranks in the previous round
    joined: List[NodeRanks]  # new nodes


@dataclasses.dataclass(frozen=True)
class Gone:
    """`count` ranks of this round, starting at `rank`, have exited."""

    epoch: int
    rank: int
    count: int
    failed: bool
    why: str


@dataclasses.dataclass(frozen=True)
class Stop:
    """This node's workers have been asked to stop; they are killed after `seconds`."""

    seconds: float
    why: str


@dataclasses.dataclass(frozen=True)
class Preempt:
    """The job will be stopped after `seconds`. preempted() returns True from `step` on. If no rank
    has reported a step, `step` is None, and the next call of preempted() returns True."""

    step: Optional[int]
    seconds: float
    why: str


News = Union[Round, Gone, Stop, Preempt]


_KINDS: Dict[str, Type[News]] = {"round": Round, "gone": Gone, "stop": Stop, "preempt": Preempt}


def _news(frame: _channel.Frame) -> Optional[News]:
    """The notification in a frame; None if this version does not know the frame's type."""
    kind = _KINDS.get(frame["type"])
    if kind is None:
        return None
    if kind is Preempt:
        frame.setdefault("step", None)
    fields = {field.name: frame[field.name] for field in dataclasses.fields(kind)}
    for name in ("left", "joined"):
        if name in fields:
            fields[name] = [NodeRanks(one["node"], one["rank"], one["count"])
                            for one in fields[name]]
    return kind(**fields)


class _Agent:
    """This process's connection to its launcher, opened by the first call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Optional[_channel.Connection] = None
        self.asked = False
        self.subscribed = False
        self.stopping = False
        self.words: Optional[MutableSequence[int]] = None
        self.numbers: Any = None  # the same memory as `words`, as floats
        self.places: Dict[str, int] = {}  # of the numbers, by name; 0 if there is no room
        self.told = 0.0  # time when the last progress frame was sent
        self.polled: Optional[MutableSequence[int]] = None  # the memory that preempted() reads
        self.is_forked = False
        self.polls = 0  # the number of polls that were reported as steps
        self.counted_at = 0  # the time of the last such poll
        self.save_step: Optional[int] = None  # from this step on, preempted() is True

    def connect(self) -> Optional[_channel.Connection]:
        """The connection; the first call opens it. The caller holds the lock."""
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
        """Closes the connection. The page does not depend on it, so progress() still works."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def begin(self) -> MutableSequence[int]:
        """The memory for progress: the shared page, or a dummy array if there is no page."""
        with self.lock:
            connection = self.connect()
            page: Any = connection.page if connection is not None else None
            words: MutableSequence[int]
            if page is None:
                words = array.array("Q", [0] * PAGE_WORDS)
                self.numbers = array.array("d", [0] * PAGE_WORDS)
            else:
                words, self.numbers = page, page.cast("B").cast("d")
            self.words = words
            return words

    def add_number(self, words: MutableSequence[int], name: str) -> int:
        """The word of the number with this name, which the first call adds. 0 if there are
        NUMBERS_MAX other numbers."""
        if not (1 <= len(name) <= NAME_BYTES and NAME_CHARACTERS.issuperset(name)):
            raise ValueError(BAD_NAME + ": %r" % name)
        wanted = list(struct.unpack("=3Q", name.encode().ljust(NAME_BYTES, b"\0")))
        with self.lock:
            count = min(words[NUMBERS_COUNT], NUMBERS_MAX)
            for i in range(NUMBERS_MAX):
                at = NUMBERS + i * NUMBER_WORDS
                if i == count:
                    for j in range(NAME_WORDS):
                        words[at + j] = wanted[j]
                    self.numbers[at + NAME_WORDS] = math.nan  # until the caller stores it
                    words[NUMBERS_COUNT] = count + 1
                if [words[at + j] for j in range(NAME_WORDS)] == wanted:
                    self.places[name] = at + NAME_WORDS
                    break
            return self.places.setdefault(name, 0)

    def begin_polls(self) -> MutableSequence[int]:
        """The memory for preempted(). A forked child takes no part in the worker's steps, so it
        gets a dummy array that contains a step and no notice."""
        if self.is_forked:
            self.polled = array.array("Q", [0, 1, 0, 0, 0, 0])
        else:
            self.polled = self.begin() if self.words is None else self.words
            self.polled[POLLS] = 1
        return self.polled

    def count_poll(self, words: MutableSequence[int]) -> None:
        """Reports a poll as a step, for programs that do not call progress()."""
        progress(self.polls)
        self.polls += 1
        self.counted_at = words[1]

    def is_preempted(self, words: MutableSequence[int]) -> bool:
        if self.save_step is None:
            self.save_step = _await_save_step(words[DEADLINE])
        return self.save_step is not None and words[0] >= self.save_step

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
        """Returns all frames that have arrived. The first call subscribes and waits for the current
        state, whose frames arrive together."""
        if not self.subscribed:
            self.subscribed = connection.send({"type": "subscribe"})
            if self.subscribed:
                connection.next(_channel.ANSWER_SECONDS)
        return connection.waiting()


_agent = _Agent()


def _forget() -> None:
    """Called in a forked child, which then opens its own connection."""
    global _agent  # pylint: disable=global-statement
    _agent = _Agent()
    _agent.is_forked = True


def _start_again() -> None:
    """Called in a spare worker that has become a worker."""
    global _agent  # pylint: disable=global-statement
    _agent = _Agent()


os.register_at_fork(after_in_child=_forget)


def progress(step: int, **numbers: float) -> None:
    """Reports that this worker is at this step (an integer from 0, at most 64 bits), and numbers
    such as its loss, which status shows. The launcher reads both on demand. Costs about as much as
    a plain Python function call. The names have at most 24 letters, digits and characters _ . / -,
    and a worker has at most eight: further ones are ignored."""
    words = _agent.words
    if words is None:
        words = _agent.begin()
    try:
        words[0] = step
    except (OverflowError, ValueError):  # the type depends on whether there is a launcher
        raise ValueError(BAD_STEP) from None
    if numbers:
        _store_numbers(words, numbers)
    now, before = time.monotonic_ns(), words[1]
    if before and now - before > words[2]:
        words[2] = now - before
    words[1] = now
    if type(words) is array.array:
        _tell_progress(step)


def _store_numbers(words: MutableSequence[int], numbers: Dict[str, float]) -> None:
    agent = _agent
    for name, number in numbers.items():
        at = agent.places.get(name)
        if at is None:
            at = agent.add_number(words, name)
        if at:
            agent.numbers[at] = number


def _tell_progress(step: int) -> None:
    agent = _agent
    if agent.connection is not None and time.monotonic() - agent.told >= SECONDS_BETWEEN_FRAMES:
        agent.told = time.monotonic()
        agent.say({"type": "progress", "step": step})


def healthy() -> bool:
    """Reports that this worker is healthy again, after unhealthy(). Returns False if not
    delivered."""
    return _agent.say({"type": "healthy"})


def unhealthy(why: str) -> bool:
    """Reports a problem as human-readable text. Has no other effect. Returns False if not
    delivered."""
    return _agent.say({"type": "unhealthy", "why": str(why)[:500]})


def event(data: Any) -> bool:
    """Adds any JSON value to events.jsonl: at most 8 KiB per value, 256 KiB in total, and 15
    nested lists and dicts. Returns False if not delivered. ValueError or TypeError: over these
    limits, or not JSON."""
    return _agent.say({"type": "event", "data": data})


def ready() -> bool:
    """Reports that this worker has started work in the current round. Returns False if not
    delivered."""
    return _agent.say({"type": "ready", "epoch": epoch()})


def epoch() -> int:
    """The round number: the same on all ranks, and increasing. 0 without muster."""
    text = os.environ.get("MUSTER_EPOCH", "")
    return int(text) if text.isdigit() else 0


def stopping() -> bool:
    """Whether this worker has been asked to stop."""
    return _agent.is_stopping()


def preempted() -> bool:
    """True if this rank must save its state now and exit, because the job will be stopped. Call it
    in the same steps on all ranks, after progress(). All ranks get True from the same step on. If
    the program never calls progress(), all ranks must make the same number of calls. Without a
    notice, a call only reads shared memory. Always False in a forked child."""
    agent = _agent
    words = agent.polled
    if words is None:
        words = agent.begin_polls()
    if words[1] == agent.counted_at:
        agent.count_poll(words)
    return words[NOTICE] != 0 and agent.is_preempted(words)


def _await_save_step(deadline_ns: int) -> Optional[int]:
    """Waits for the launcher's decision. If it does not arrive in time, this rank saves alone.
    After a stop request, the ranks can no longer save together, so it does not save (None)."""
    half = (deadline_ns - time.monotonic_ns()) / 2e9
    timeout = min(max(half, DECISION_SECONDS_MIN), DECISION_SECONDS_MAX)
    until = time.monotonic() + timeout
    for news in rounds(timeout):
        if isinstance(news, Preempt):
            return news.step or 0
        if isinstance(news, Stop):
            return None
        if time.monotonic() >= until:
            break
    return 0


def deadline() -> Optional[float]:
    """Seconds until the workers are killed; None without a notice. Another rank may learn of the
    notice a step later, so do not save or skip communication because of it."""
    words = _agent.begin() if _agent.words is None else _agent.words
    return (words[DEADLINE] - time.monotonic_ns()) / 1e9 if words[NOTICE] else None


def on_preempt(call: Callable[[Preempt], object]) -> None:
    """After a notice, calls `call` once, in a daemon thread, as soon as the launcher has chosen the
    step at which all ranks save."""
    _agent.begin_polls()
    threading.Thread(target=_call_once, args=(call,), daemon=True, name="muster-preempt").start()


def _call_once(call: Callable[[Preempt], object]) -> None:
    for news in rounds():
        if isinstance(news, Preempt):
            call(news)
            return


def saved(step: int) -> bool:
    """Reports that this rank has saved its state as of this step. Returns False if not
    delivered."""
    step = operator.index(step)
    if not 0 <= step < STEPS_MAX:
        raise ValueError(BAD_STEP)
    return _agent.say({"type": "saved", "step": step})


@contextlib.contextmanager
def saving(step: int) -> Iterator[None]:
    """Calls saved(step) when its block ends without an exception."""
    yield
    saved(step)


def rounds(timeout: Optional[float] = None) -> Iterator[News]:
    """Yields the current Round, then each further Gone, Stop, Preempt and Round as it arrives.
    Blocks while it waits for the next item. Ends with the job, or after `timeout` seconds without
    news."""
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
