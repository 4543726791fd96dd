# SPDX-License-Identifier: Apache-2.0
"""muster.worker in jobs, outside of jobs, and with launchers that send false data."""
import array
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest
import uuid

import support
from muster import _channel, worker
from support import environment, say


@support.worker
def tells():
    """All messages that a worker may send."""
    before = worker.epoch()
    for step in range(3):
        worker.progress(step)
    page = _channel.Connection().page
    told = [worker.ready(), worker.event({"saved": [1, None]}), worker.unhealthy("nan\n"),
            worker.healthy()]
    say(json.dumps([before, told, list(page[:1]), page[1] > 0, worker.stopping()]))


def nested(levels):
    """[[...]]"""
    return [nested(levels - 1)] if levels > 1 else []


@support.worker
def strange():
    """Values that a program may well report, and that json.dumps() accepts."""
    told = [worker.event("a\udc80\u20ac\U0001f600"), worker.event(nested(15)),
            worker.event(2 ** 1023 - 1)]
    for wrong in (nested(16), {"step": [10 ** 400]}, -2 ** 1023):
        try:
            worker.event(wrong)
        except ValueError:
            told.append(worker.event("still here"))
    say(json.dumps(told))


@support.worker
def steps():
    """Rejected equally with and without a page; the page keeps the last valid value."""
    refused = []
    worker.progress(5)
    for wrong in (-1, 2 ** 64, 10 ** 400):
        try:
            worker.progress(wrong)
        except ValueError as error:
            refused.append(str(error))
    say(json.dumps([refused, _channel.Connection().page[0]]))


def numbers_in(page):
    """The named numbers in a page, in order."""
    data = page.cast("B").tobytes()
    count = struct.unpack_from("=Q", data, 48)[0]
    entries = [struct.unpack_from("=24sd", data, 64 + 32 * i) for i in range(count)]
    return [[name.rstrip(b"\0").decode(), number] for name, number in entries]


@support.worker
def numbers():
    """Numbers are stored with the step, also by a forked child. Invalid ones are refused."""
    page = _channel.Connection().page
    refused = []
    for wrong in ("a b", "", "x" * 25, "n\u00e4me"):
        try:
            worker.progress(1, **{wrong: 1.0})
        except ValueError as error:
            refused.append(str(error))
    worker.progress(2, loss=2.5, **{"x" * 24: 1})
    child = os.fork()
    if child == 0:
        worker.progress(3, loss=0.5, child=7)
        os._exit(0)
    os.waitpid(child, 0)
    told = numbers_in(page)
    worker.progress(4, **{"n%d" % i: i for i in range(9)})
    worker.progress(5, n0=-1, n8=8)
    say(json.dumps([len(refused), refused[0], told, numbers_in(page), page[0]]))


@support.worker
def imports():
    say(json.dumps(sorted({"numpy", "torch"} & set(sys.modules))))


@support.worker
def forks():
    """Parent and child have separate connections; both speak for the same worker."""
    worker.event("parent")
    child = os.fork()
    if child == 0:
        heard = worker.event("child")
        worker.progress(8)
        os._exit(0 if heard else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    say(json.dumps([code, _channel.Connection().page[0], worker.event("again")]))


@support.worker
def threads():
    """Many threads send at the same time, and no event is split."""
    def tell(name):
        for _ in range(20):
            worker.event({"thread": name})
            worker.progress(name)
    started = [threading.Thread(target=tell, args=(name,)) for name in range(8)]
    for one in started:
        one.start()
    for one in started:
        one.join()


@support.worker
def follows():
    """The feed, until this worker is asked to stop; rank 1 dies as soon as the others listen."""
    news = worker.rounds()
    first = next(news)
    rank, folder = first.rank, pathlib.Path(os.environ["FOLDER"])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # before rank 1 continues
    (folder / str(rank)).touch()
    if rank == 1:
        while not all((folder / str(other)).exists() for other in range(3)):
            os.sched_yield()
        os._exit(7)
    heard = [first]
    for one in news:
        heard.append(one)
        if isinstance(one, worker.Stop):
            break
    gone = [one.rank for one in heard if isinstance(one, worker.Gone)]
    say(json.dumps([rank, [type(one).__name__ for one in heard if not isinstance(one, worker.Gone)],
                    gone[0], worker.stopping()]))


@support.worker
def asks_whether_it_is_to_stop():
    """stopping() alone, without the feed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rank = int(os.environ["RANK"])
    assert not worker.stopping()
    (pathlib.Path(os.environ["FOLDER"]) / str(rank)).touch()
    if rank == 1:
        while not (pathlib.Path(os.environ["FOLDER"]) / "0").exists():
            os.sched_yield()
        os._exit(7)
    while not worker.stopping():
        os.sched_yield()
    say("stopping")


class Jobs(support.FolderCase, support.JobCase):
    def events(self, name):
        path, = pathlib.Path(self.folder).glob("*/events.jsonl")
        events = [json.loads(line) for line in path.read_text().splitlines()]
        return [event for event in events if event["event"] == name]

    def test_what_a_worker_says_is_heard(self):
        lines = self.succeed(2, "tells", options=["--log-dir", self.folder])
        self.assertEqual([json.loads(line) for line in lines],
                         [[1, [True] * 4, [2], True, False]] * 2)
        for name in ("worker_ready", "worker_event", "worker_unhealthy", "worker_healthy"):
            self.assertEqual(sorted(event["rank"] for event in self.events(name)), [0, 1], name)
        self.assertEqual(self.events("worker_event")[0]["data"], {"saved": [1, None]})

    def test_neither_numpy_nor_torch_is_imported(self):
        self.assertEqual(self.succeed(1, "imports"), ["[]"])

    def test_a_forked_child_has_a_connection_of_its_own(self):
        lines = self.succeed(1, "forks", options=["--log-dir", self.folder])
        self.assertEqual(lines, ["[0, 8, true]"])
        self.assertEqual([event["data"] for event in self.events("worker_event")],
                         ["parent", "child", "again"])

    def test_numbers_are_stored_with_the_step(self):
        line, = self.succeed(1, "numbers")
        refused, why, told, in_the_end, step = json.loads(line)
        self.assertEqual((refused, step), (4, 5))
        self.assertIn("1 to 24 letters, digits", why)
        first = [["loss", 0.5], ["x" * 24, 1.0], ["child", 7.0]]
        self.assertEqual(told, first)
        self.assertEqual(in_the_end, first + [["n0", -1.0]] +
                         [["n%d" % i, float(i)] for i in range(1, 5)])

    def test_threads_do_not_tear_each_other_s_frames(self):
        self.succeed(1, "threads", options=["--log-dir", self.folder])
        told = [event["data"]["thread"] for event in self.events("worker_event")]
        self.assertEqual(sorted(told), sorted(list(range(8)) * 20))

    def test_a_step_that_is_none_is_refused_and_the_last_good_one_stays(self):
        line, = self.succeed(1, "steps")
        self.assertEqual(json.loads(line),
                         [["a step must be an integer from 0 to 2**64 - 1"] * 3, 5])

    def test_the_feed(self):
        done = self.job(3, "follows", FOLDER=self.folder)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual([json.loads(line) for line in sorted(done.stdout.splitlines())],
                         [[rank, ["Round", "Stop"], 1, True] for rank in (0, 2)])

    def test_stopping(self):
        done = self.job(2, "asks_whether_it_is_to_stop", FOLDER=self.folder)
        self.assertEqual((done.returncode, done.stdout), (7, "stopping\n"), done.stderr)

    def test_what_the_agent_would_take_for_no_frame_is_heard_or_refused_by_the_library(self):
        self.assertEqual(self.succeed(1, "strange", options=["--log-dir", self.folder]),
                         [json.dumps([True] * 6)])
        told = [event["data"] for event in self.events("worker_event")]
        self.assertEqual(told[:2] + told[3:],
                         ["a?\u20ac\U0001f600", nested(15)] + ["still here"] * 3)
        self.assertAlmostEqual(told[2] / 2 ** 1023, 1)

    def test_what_is_no_json_too_long_or_too_deep_is_refused_by_the_library(self):
        for wrong in (float("nan"), object(), {1, 2}, "x" * 9000, nested(16), ({"a": nested(14)},),
                      2 ** 1023):
            with self.assertRaises((TypeError, ValueError)):
                _channel.line_of({"type": "event", "data": wrong})


# What all functions return without a launcher.
NOTHING = "0 False False False False False [] False None False\n"


class Outside(unittest.TestCase):
    def run_outside(self, agent=None):
        script = ("from muster import worker as w; w.progress(3); w.progress(4);"
                  "print(w.epoch(), w.healthy(), w.unhealthy('x'), w.event(1), w.ready(),"
                  "w.stopping(), list(w.rounds()), w.preempted(), w.deadline(), w.saved(1))")
        variables = environment(**({"MUSTER_AGENT": agent} if agent else {}))
        variables.pop("MUSTER_EPOCH", None)
        return subprocess.run([sys.executable, "-c", script], env=variables, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=support.DEADLINE).stdout

    def test_without_a_launcher_nothing_happens(self):
        self.assertEqual(self.run_outside(), NOTHING)

    def test_a_launcher_that_is_gone_is_none(self):
        self.assertEqual(self.run_outside("muster-agent-of-nobody"),
                         NOTHING)

    def test_one_that_says_something_else_is_none(self):
        for words in (b"", b"\n", b"[]\n", b"hello\n", b'{"type":"refused","why":"no"}\n',
                      b"\xff\xfe\n", b"x" * 20000):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind("\0muster-test-%d" % os.getpid())
                listener.listen(8)
                thread = threading.Thread(target=self.answer, args=(listener, words))
                thread.start()
                self.assertEqual(self.run_outside("muster-test-%d" % os.getpid()),
                                 NOTHING, words)
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()

    def answer(self, listener, words):
        """To every client."""
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                caller.sendall(words)

    def test_a_step_is_a_whole_number(self):
        worker.progress(2 ** 64 - 1)
        for wrong in (-1, 2 ** 64, 10 ** 400):
            with self.assertRaisesRegex(ValueError, "from 0 to "):
                worker.progress(wrong)
        for wrong in (1.5, "1", None):
            with self.assertRaises(TypeError):
                worker.progress(wrong)
        self.assertIsInstance(worker._agent.words, array.array)


class Launcher:
    """A socket at which a process waits until the test answers."""

    HELLO = b'{"type":"hello","version":1,"epoch":1,"rank":0,"local_rank":0}\n'

    def __init__(self, case, backlog=8):
        self.name = "muster-test-%s" % uuid.uuid4().hex
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        case.addCleanup(self.listener.close)
        self.listener.settimeout(support.DEADLINE)
        self.listener.bind("\0" + self.name)
        self.listener.listen(backlog)
        self.case = case

    def start(self, *command):
        process = subprocess.Popen(command, env=environment(MUSTER_AGENT=self.name), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   start_new_session=True)
        self.case.addCleanup(self.end, process)
        return process

    def end(self, process):
        """Stops the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
        process.stdout.close()
        process.wait()

    def accept(self):
        caller, _ = self.listener.accept()
        self.case.addCleanup(caller.close)
        return caller


# Each separately: muster.worker in Python, and the library through its C interface.
SAY = {"python": "from muster import worker\ndef say(): return int(worker.event(1))",
       "c": "import ctypes, os\nlib = ctypes.CDLL(os.environ['MUSTER_COLLECTIVE_LIBRARY'])\n"
            "def say(): return lib.muster_worker_event(b'1')"}


class Interrupted(unittest.TestCase):
    def test_signals_do_not_end_the_wait_for_a_busy_launcher(self):
        script = ("import os, signal, threading\n"
                  "out, into = os.pipe()\n"
                  "os.set_blocking(into, False)\n"
                  "signal.set_wakeup_fd(into, warn_on_full_buffer=False)\n"
                  "def count():\n"
                  "    for _ in range(20): os.read(out, 1)\n"
                  "    os.write(1, b'20 signals\\n')\n"
                  "threading.Thread(target=count).start()\n"
                  "signal.signal(signal.SIGALRM, lambda *_: None)\n"
                  "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n"
                  "print(say())\n")
        for half, say_it in SAY.items():
            with self.subTest(half):
                launcher = Launcher(self, backlog=0)
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                    other.connect("\0" + launcher.name)  # no other connection fits
                    process = launcher.start(sys.executable, "-c", f"{say_it}\n{script}")
                    self.assertEqual(process.stdout.readline(), "20 signals\n")
                    launcher.accept()
                    launcher.accept().sendall(Launcher.HELLO)
                    self.assertEqual(process.stdout.readline(), "1\n")

    def test_a_child_that_is_forked_while_another_thread_waits_for_the_launcher(self):
        script = ("import os, threading\n"
                  "threading.Thread(target=say).start()\n"
                  "input()\n"
                  "child = os.fork()\n"
                  "if child == 0: os._exit(40 + say())\n"
                  "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n")
        for half, say_it in SAY.items():
            with self.subTest(half):
                launcher = Launcher(self)
                process = launcher.start(sys.executable, "-c", f"{say_it}\n{script}")
                first = launcher.accept()
                process.stdin.write("\n")
                process.stdin.flush()
                launcher.accept().sendall(Launcher.HELLO)
                self.assertEqual(process.stdout.readline(), "41\n")
                first.sendall(Launcher.HELLO)
                self.assertEqual(process.wait(support.DEADLINE), 0)


if __name__ == "__main__":
    support.main()
