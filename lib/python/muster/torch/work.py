# SPDX-License-Identifier: Apache-2.0
"""Work for torch.distributed: operations under way, what is left to do after them, a future."""
import queue
import threading

import torch
import torch.distributed as dist

_Base = getattr(dist, "Work", None) or torch._C._distributed_c10d.Work


class Work(_Base):
    """parts: muster.Works, in order. finish: called once when all of them are over (copies into the
    caller's tensors). outputs: tensors that result() and the future give. Any thread may wait."""

    def __init__(self, parts=(), outputs=(), finish=None, source=-1):
        super().__init__()
        self._parts = list(parts)
        self._outputs = list(outputs)
        self._finish = finish
        self._source = source
        self._error = None
        self._future = None
        self._lock = threading.RLock()

    def wait(self, timeout=None):
        """True when it is over; raises what it failed with. timeout: a timedelta; none and 0: as
        long as the operation's own timeout lets it. muster.TimedOut: it goes on."""
        seconds = timeout.total_seconds() if timeout else 0
        for part in list(self._parts):
            try:
                part.wait(seconds if seconds > 0 else None)
            except Exception as error:
                if part.done:
                    self._error = error
                raise
        self._over()
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        if not all(part.done for part in list(self._parts)):
            return False
        if self._parts:
            try:
                self.wait()
            except Exception as error:
                self._error = error
        return True

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error if self.is_completed() else None

    def result(self):
        self.wait()
        return self._outputs

    def source_rank(self):
        return self._source

    _source_rank = source_rank

    def get_future(self):
        """Completed by a thread of the group, or at once; its value is the list of tensors."""
        with self._lock:
            if self._future is None:
                gate = torch.futures.Future()
                # An error of a callback is one for those who wait in C++ as well.
                self._future = gate.then(self._outcome)
                if self.is_completed():
                    gate.set_result(None)
                else:
                    self._complete_later(gate)
            return self._future

    def _outcome(self, _):
        self.wait()
        return self._outputs

    def _complete_later(self, gate):
        threading.Thread(target=complete, args=(self, gate), daemon=True).start()

    def _over(self):
        with self._lock:
            if self._finish is not None:
                finish, self._finish = self._finish, None
                finish()
            self._parts = []


class CollectiveWork(Work):
    """One whose future the group's completer completes, in the order of operations."""

    completer = None

    def _complete_later(self, gate):
        self.completer.add(self, gate)


def complete(work, gate):
    try:
        work.wait()
    except Exception:  # the future asks again, and tells
        pass
    gate.set_result(None)


class Completer:
    """A thread that waits for operations in their order and completes their futures; it starts
    with the first of them."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._thread = None

    def add(self, work, gate):
        if self._thread is None:
            self._thread = threading.Thread(target=_run, args=(self._queue,), daemon=True,
                                            name="muster-futures")
            self._thread.start()
        self._queue.put((work, gate))

    def close(self):
        if self._thread is not None:
            self._queue.put(None)


def _run(entries):
    entry = entries.get()
    while entry is not None:
        complete(*entry)
        entry = entries.get()
