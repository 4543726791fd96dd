# SPDX-License-Identifier: Apache-2.0
"""Tags of send and recv: messages of one pair of ranks and one tag travel over a communicator of
their own, a lane, which the two make when the first of them is called."""
import queue
import threading
from ctypes import sizeof

from .. import _library as c
from .. import errors
from . import tensors as t

# Of a process and group: each lane is a communicator, with threads and memory.
MOST = 64
_NOTHING = c.CBuffer(None, 0, 7, c.HOST)


class Lanes:
    """Of one group. make(other, tag): the communicator of this rank and another, which returns when
    both have come; called in a thread. start() is called by one thread at a time."""

    def __init__(self, rank, make):
        self._rank, self._make = rank, make
        self._lanes = {}

    def start(self, kind, tensor, other, tag):
        """Begins a SEND or RECV; returns what Work takes as a part. Does not wait."""
        lane = self._lanes.get((other, tag))
        if lane is None:
            if len(self._lanes) >= MOST:
                raise errors.Unsupported(f"more than {MOST} pairs of tags and ranks in one group: "
                                         "each is a communicator of its own")
            lane = self._lanes[other, tag] = _Lane(lambda: self._make(other, tag))
        return lane.start(Message(kind, tensor, (self._rank, other, tag)))

    def abort(self, reason):
        for lane in self._lanes.values():
            if lane.comm is not None:
                lane.comm.abort(reason)

    def close(self):
        for lane in self._lanes.values():
            lane.close()
        self._lanes = {}


class Message:
    """A send or receive that may still wait for its lane. As muster.Work, as far as it is used."""

    def __init__(self, kind, tensor, place):
        self.kind, self.tensor = kind, tensor
        self._place = place  # this rank, the other, the tag
        self._begun = threading.Event()
        self._part, self._error = None, None

    @property
    def done(self):
        return self._begun.is_set() and (self._part is None or self._part.done)

    def wait(self, timeout=None):
        if not self._begun.wait(timeout):
            raise errors.TimedOut("the message goes on: the time given to wait is over")
        if self._error is not None:
            raise self._in_group(self._error)
        if self._part is not None:
            try:
                self._part.wait(timeout)
            except errors.Error as error:
                raise self._in_group(error) from None

    def begin(self, comm):
        """In the lane's thread: messages of one lane keep their order."""
        seen = t.moved(self.tensor)
        sends = self.kind == c.SEND
        call = c.CCall(sizeof(c.CCall), self.kind, 0, 1 - comm.rank, 1,
                       seen if sends else _NOTHING, _NOTHING if sends else seen, 0, 1.0, None)
        try:
            self._part = comm.start(call, None, (self.tensor,))
        except errors.Error as error:
            self._error = error
        self._begun.set()

    def _in_group(self, error):
        """A lane numbers its two ranks 0 and 1."""
        if error.rank is None:
            return error
        rank, other, tag = self._place
        low, high = sorted((rank, other))
        who = low if error.rank == 0 else high
        text = (f"tag {tag}, rank {who} of the group (for each other ranks {low} and {high} are 0 "
                f"and 1): {error}")
        return type(error)(text, who, error.epoch, error.seq, error.native)

    def fail(self, error):
        self._error = error
        self._begun.set()


class _Lane:
    def __init__(self, make):
        self.comm = None  # until both ranks have come
        self._make = make
        self._queue = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name="muster-lane").start()

    def start(self, message):
        self._queue.put(message)
        return message

    def close(self):
        """Messages under way are ended by both sides' closing, in whichever order."""
        self._queue.put(None)

    def _run(self):
        failure = None
        try:
            self.comm = self._make()
        except errors.Error as error:
            failure = error
        message = self._queue.get()
        while message is not None:
            if failure is None:
                message.begin(self.comm)
            else:
                message.fail(failure)
            message = self._queue.get()
        if self.comm is not None:
            self.comm.close()
