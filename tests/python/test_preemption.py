# SPDX-License-Identifier: Apache-2.0
"""Preemption in muster.worker and in the library's C interface: with a launcher that the
test emulates, which gives notice in the page and announces the step, and in jobs."""
import array
import contextlib
import itertools
import json
import mmap
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest
import uuid

import muster
import support
from muster import worker
from support import environment, say

# The worker runs one expression per line. The same expressions work with muster.worker and with the
# C interface.
PYTHON = "from muster.worker import *\n"
C = """
import ctypes, math, os
lib = ctypes.CDLL(os.environ['MUSTER_COLLECTIVE_LIBRARY'])
lib.muster_worker_deadline.restype = ctypes.c_double
def preempted(): return bool(lib.muster_worker_preempted())
def progress(step): lib.muster_worker_progress(ctypes.c_uint64(step))
def saved(step): return bool(lib.muster_worker_saved(ctypes.c_uint64(step)))
def deadline():
    left = lib.muster_worker_deadline()
    return None if math.isinf(left) else left
"""
LOOP = """
import os, sys
def in_child(call):
    out, into = os.pipe()
    if os.fork() == 0:
        os.write(into, repr(call()).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as answer:
        text = answer.read()
    os.wait()
    return text
for line in sys.stdin:
    print(eval(line), flush=True)
"""
HELLO = {"type": "hello", "version": 1, "epoch": 1, "rank": 0, "local_rank": 0}
ROUND = {"type": "round", "epoch": 1, "rank": 0, "world_size": 2, "local_rank": 0,
         "local_world_size": 2, "group_rank": 0, "group_world_size": 1, "restarts": 0,
         "store_address": "127.0.0.1", "store_port": 1, "left": [], "joined": []}
STOP = {"type": "stop", "seconds": 30.0, "why": "x"}
STEP, POLLS, NOTICE, DEADLINE = 0, 3, 4, 5  # words of the page (CHANNEL.md)


class Worker:
    """A process that uses the library, and its launcher's end of the channel."""

    def __init__(self, case, program):
        name = "muster-test-%s" % uuid.uuid4().hex
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        case.addCleanup(self.listener.close)
        self.listener.settimeout(support.DEADLINE)
        self.listener.bind("\0" + name)
        self.listener.listen(8)
        self.memory = os.memfd_create("page")
        case.addCleanup(os.close, self.memory)
        os.ftruncate(self.memory, 4096)
        self.mapped = mmap.mmap(self.memory, 4096)
        self.page = memoryview(self.mapped).cast("Q")
        self.case = case
        self.process = subprocess.Popen(
            [sys.executable, "-c", program + LOOP], env=environment(MUSTER_AGENT=name), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        case.addCleanup(self.end)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def begin(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def result(self):
        return self.process.stdout.readline().rstrip("\n")

    def run(self, expression):
        self.begin(expression)
        return self.result()

    def accept(self):
        """Accepts a connection, and sends the page."""
        caller, _ = self.listener.accept()
        self.case.addCleanup(caller.close)
        caller.settimeout(support.DEADLINE)
        socket.send_fds(caller, [line_of(HELLO)], [self.memory])
        return caller

    def first(self, expression):
        """Runs an expression that connects. Returns the connection and the result."""
        self.begin(expression)
        caller = self.accept()
        return caller, self.result()

    def subscriber(self):
        """Accepts a connection of the worker's, which subscribes."""
        caller = self.accept()
        self.case.assertEqual(frame_from(caller), {"type": "subscribe"})
        caller.sendall(line_of(ROUND))
        return caller

    def give_notice(self, seconds=30):
        self.page[DEADLINE] = time.monotonic_ns() + int(seconds * 1e9)
        self.page[NOTICE] = 1

    def preempt(self, expression, step):
        """Runs an expression that waits for the step, and announces it. Returns the result."""
        self.begin(expression)
        self.subscriber().sendall(line_of(preempt_at(step)))
        return self.result()

    def is_connecting(self):
        self.listener.settimeout(0)
        try:
            self.listener.accept()[0].close()
            return True
        except BlockingIOError:
            return False


def line_of(frame):
    return json.dumps(frame).encode() + b"\n"


def frame_from(caller):
    with caller.makefile("rb", buffering=0) as stream:
        return json.loads(stream.readline())


def preempt_at(step):
    frame = {"type": "preempt", "seconds": 30.0, "why": "SIGTERM"}
    return frame if step is None else {**frame, "step": step}


class Both:
    """The tests that muster.worker and the C interface have in common."""

    def setUp(self):
        self.worker = Worker(self, self.program)

    def test_without_a_notice_a_poll_only_reads_the_page(self):
        one = self.worker
        self.assertEqual(one.first("preempted()")[1], "False")
        self.assertEqual(one.page[POLLS], 1)
        self.assertEqual(one.run("[preempted() for _ in range(9)]"), str([False] * 9))
        self.assertEqual(one.run("deadline()"), "None")
        self.assertFalse(one.is_connecting())

    def test_a_worker_that_only_reports_steps_does_not_poll(self):
        one = self.worker
        self.assertEqual(one.first("progress(3)")[1], "None")
        self.assertEqual((one.page[STEP], one.page[POLLS]), (3, 0))

    def test_all_steps_from_the_announced_one_are_preempted(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice()
        self.assertEqual(one.preempt("preempted()", 7), "False")
        self.assertEqual(one.run("(progress(6), preempted())"), "(None, False)")
        self.assertEqual(one.run("(progress(7), preempted())"), "(None, True)")
        self.assertEqual(one.run("(progress(8), preempted())"), "(None, True)")
        self.assertFalse(one.is_connecting())

    def test_a_worker_waits_until_the_step_is_announced(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice()
        one.begin("preempted()")
        caller = one.subscriber()
        caller.sendall(line_of({"type": "gone", "epoch": 1, "rank": 1, "count": 1,
                                "failed": False, "why": "exited with code 0"}))
        caller.sendall(line_of(preempt_at(5)))
        self.assertEqual(one.result(), "True")

    def test_without_steps_the_next_poll_is_preempted(self):
        one = self.worker
        one.first("preempted()")
        one.give_notice()
        self.assertEqual(one.preempt("preempted()", None), "True")

    def test_polls_are_steps_if_the_program_reports_none(self):
        one = self.worker
        one.first("preempted()")
        self.assertEqual(one.page[STEP], 0)
        self.assertEqual(one.run("(preempted(), preempted())"), "(False, False)")
        self.assertEqual(one.page[STEP], 2)
        one.give_notice()
        self.assertEqual(one.preempt("preempted()", 4), "False")
        self.assertEqual(one.run("preempted()"), "True")
        self.assertEqual(one.page[STEP], 4)

    def test_a_stop_ends_the_wait_without_a_step(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice()
        one.begin("preempted()")
        one.subscriber().sendall(line_of(STOP))
        self.assertEqual(one.result(), "False")

    def test_a_rank_that_learns_of_no_step_saves_alone(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice(0)
        one.begin("preempted()")
        one.subscriber()
        self.assertEqual(one.result(), "True")

    def test_a_rank_whose_launcher_is_gone_saves_alone(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice()
        one.begin("preempted()")
        one.listener.accept()[0].close()
        self.assertEqual(one.result(), "True")

    def test_the_seconds_left(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice(1000)
        self.assertTrue(0 < float(one.run("deadline()")) < 1000)

    def test_a_forked_child_takes_no_part(self):
        one = self.worker
        one.first("progress(5)")
        one.give_notice()
        self.assertEqual(one.run("in_child(preempted)"), "False")
        self.assertEqual((one.page[STEP], one.page[POLLS]), (5, 0))
        self.assertEqual(one.preempt("preempted()", 5), "True")
        self.assertEqual(one.run("in_child(preempted)"), "False")

    def test_reports_what_is_saved(self):
        one = self.worker
        caller, result = one.first("saved(2**64 - 1)")
        self.assertEqual((result, frame_from(caller)),
                         ("True", {"type": "saved", "step": 2 ** 64 - 1}))


class InPython(Both, unittest.TestCase):
    program = PYTHON

    def test_only_a_block_that_succeeds_has_saved(self):
        program = ("def save(step, error=None):\n"
                   "    with saving(step):\n"
                   "        if error: raise error\n"
                   "def fails():\n"
                   "    try: save(3, OSError('disk full'))\n"
                   "    except OSError as error: return str(error)\n")
        one = Worker(self, PYTHON + program)
        self.assertEqual(one.run("fails()"), "disk full")
        caller, _ = one.first("save(4)")
        self.assertEqual(frame_from(caller), {"type": "saved", "step": 4})

    def test_calls_a_function_with_the_step(self):
        program = ("import threading\n"
                   "called = threading.Event()\n"
                   "def note(news): called.news = news; called.set()\n")
        one = Worker(self, PYTHON + program)
        one.begin("on_preempt(note)")
        one.accept()
        caller = one.subscriber()
        self.assertEqual((one.result(), one.page[POLLS]), ("None", 1))
        caller.sendall(line_of(STOP) + line_of(preempt_at(7)))
        self.assertEqual(one.run("called.wait() and called.news"),
                         str(worker.Preempt(7, 30.0, "SIGTERM")))

    def test_the_feed(self):
        self.worker.begin("[one for one in rounds() if not isinstance(one, Round)]")
        caller = self.worker.subscriber()
        caller.sendall(line_of(preempt_at(7)) + line_of(preempt_at(None)) + line_of(STOP))
        caller.shutdown(socket.SHUT_RDWR)
        self.assertEqual(self.worker.result(),
                         str([worker.Preempt(7, 30.0, "SIGTERM"),
                              worker.Preempt(None, 30.0, "SIGTERM"), worker.Stop(30.0, "x")]))

    def test_a_step_is_a_whole_number(self):
        for wrong in (-1, 2 ** 64):
            with self.assertRaisesRegex(ValueError, "from 0 to "):
                worker.saved(wrong)
        with self.assertRaises(TypeError):
            worker.saved(1.5)


class InC(Both, unittest.TestCase):
    program = C

    def test_the_feed(self):
        program = ("class News(ctypes.Structure):\n"
                   "    _fields_ = [('size', ctypes.c_size_t), ('kind', ctypes.c_int32),\n"
                   "                ('rank', ctypes.c_int32), ('count', ctypes.c_int32),\n"
                   "                ('world_size', ctypes.c_int32), ('epoch', ctypes.c_uint64),\n"
                   "                ('seconds', ctypes.c_double), ('step', ctypes.c_uint64)]\n"
                   "lib.muster_feed_open.restype = ctypes.c_void_p\n"
                   "def read():\n"
                   "    feed, out = ctypes.c_void_p(lib.muster_feed_open()), []\n"
                   "    for _ in range(3):\n"
                   "        news = News(ctypes.sizeof(News))\n"
                   "        lib.muster_feed_next(feed, -1, ctypes.byref(news))\n"
                   "        out.append((news.kind, news.step, news.seconds))\n"
                   "    lib.muster_feed_close(feed)\n"
                   "    return out\n")
        one = Worker(self, C + program)
        one.begin("read()")
        one.subscriber().sendall(line_of(preempt_at(7)) + line_of(STOP))
        self.assertEqual(one.result(), str([(1, 0, 0.0), (5, 7, 30.0), (3, 0, 30.0)]))


@support.worker
def trains(path, reports):
    """The ranks meet in each step, as in a training. In step 50, rank 0 creates the file."""
    comm = muster.Communicator.from_env()
    for step in itertools.count():
        comm.all_reduce(array.array("f", [step]))
        if reports == "True":
            worker.progress(step)
        if worker.preempted():
            with worker.saving(step):
                say(json.dumps([step, step > 50, worker.deadline() > 0]))
            sys.exit(worker.REQUEUE)
        if step == 50 and comm.rank == 0:
            pathlib.Path(path).touch()


class Jobs(support.FolderCase, support.JobCase):
    def test_all_ranks_save_at_the_same_step(self):
        for reports in (True, False):
            with self.subTest(reports=reports):
                path = os.path.join(self.folder, f"notice-{reports}")
                done = self.job(3, "trains", path, reports, options=["--preempt-file", path])
                self.assertEqual(done.returncode, worker.REQUEUE, done.stderr)
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertEqual(lines, [[lines[0][0], True, True]] * 3)


if __name__ == "__main__":
    support.main()
