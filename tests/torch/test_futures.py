# SPDX-License-Identifier: Apache-2.0
"""The threads that complete futures (futures.py), with operations and callbacks that a test
completes explicitly."""
import os
import sys
import threading
import unittest

import support

sys.path.insert(0, os.path.join(support.ROOT, "lib", "python"))
from muster.torch import futures  # noqa: E402

PATIENCE = 30.0  # seconds that any step may take on a busy machine


class Step:
    """An operation and its future: both block until they are released."""

    def __init__(self, is_over=False):
        self.over, self.called, self.returned = (threading.Event() for _ in range(3))
        if is_over:
            self.over.set()

    def over_within(self, seconds):
        return self.over.wait(seconds)

    def give_up(self):
        self.over.set()

    def set_result(self, _):
        self.thread = threading.current_thread()
        self.called.set()
        self.returned.wait(PATIENCE)


class Completer(unittest.TestCase):
    def setUp(self):
        self.completer = futures.Completer()

    def add(self, is_over=False):
        step = Step(is_over)
        self.completer.add(step, step)
        return step

    def idle(self, count):
        """Waits until this number of threads wait for a turn, including those that were woken in
        between."""
        lane, = self.completer._lanes
        support.wait_until(lambda: len(lane._condition._waiters) == count, "threads that are idle")
        return lane._threads

    def test_after_close_no_thread_waits_once_the_last_entry_is_taken(self):
        called_back = [self.add(is_over=True) for _ in range(4)]
        for step in called_back:  # one thread each, because none of these callbacks returns
            self.assertTrue(step.called.wait(PATIENCE))
        under_way = self.add()
        support.wait_until(lambda: not self.completer._lanes[0]._entries, "a thread to take it")
        for step in called_back:
            step.returned.set()
        threads = self.idle(4)
        last = self.add()
        self.completer.close()
        self.idle(4)  # close() wakes them, and they wait again, because an entry is left
        for step in (under_way, last):
            step.over.set()
            step.returned.set()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual([each.name for each in threads if each.is_alive()], [])
        self.assertTrue(last.called.is_set())

    def test_the_exit_waits_for_callbacks_once_not_once_for_each_thread(self):
        stuck = [self.add(is_over=True) for _ in range(3)]
        for step in stuck:
            self.assertTrue(step.called.wait(PATIENCE))
        self.addCleanup(setattr, futures, "EXIT_PATIENCE", futures.EXIT_PATIENCE)
        futures.EXIT_PATIENCE = 1.0
        joined = []
        for thread in self.completer._lanes[0]._threads:
            thread.join = joined.append  # the time that it may wait for this thread
        clock, futures.time = futures.time, self  # each reading adds half a second
        self.addCleanup(setattr, futures, "time", clock)
        self.now = 0.0
        self.completer.end()
        self.assertGreaterEqual(len(joined), 3)
        self.assertEqual(sum(joined), 0.5)
        for step in stuck:
            step.returned.set()

    def monotonic(self):
        self.now += 0.5
        return self.now

    def test_a_forked_child_completes_in_the_call_since_it_has_no_threads(self):
        self.add(is_over=True).returned.set()
        self.completer._pid += 1  # as in a forked child
        step = Step(is_over=True)
        step.returned.set()
        self.completer.add(step, step)
        self.assertTrue(step.called.wait(PATIENCE))
        self.assertIs(step.thread, threading.current_thread())


if __name__ == "__main__":
    unittest.main(verbosity=2)
