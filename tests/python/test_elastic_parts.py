# SPDX-License-Identifier: Apache-2.0
"""The parts of muster.elastic in this process: the listener, State, Sampler, connections, and
programs without a launcher."""
import json
import os
import queue
import random
import socket
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np

import support
import cases
from muster import _channel, elastic
from muster.elastic import _gloo, _news, _run, _sockets

DEADLINE = 60.0  # seconds


class StuckInGloo(cases.FolderCase):
    """The files are those of a process whose threads gloo has named."""

    def thread(self, tid, timeout, name="pt_gloo_runloop"):
        folder = self.folder / str(tid)
        folder.mkdir(exist_ok=True)
        (folder / "comm").write_text(name + "\n")
        call = f"{_gloo._FUTEX} 0x7f 0x189 0x0 {timeout} 0x0 0xffffffff 0x1 0x2\n"
        (folder / "syscall").write_text(call)

    def looks(self, *times, **options):
        with mock.patch.object(_gloo, "_TASKS", str(self.folder)):
            return [self.watch.is_stuck(each, options.get("is_creating", False)) for each in times]

    def setUp(self):
        super().setUp()
        self.watch = _gloo.Watch()

    def test_a_wait_with_a_timeout_that_does_not_end(self):
        self.thread(1, "0x0")
        self.thread(2, "0x7ffe", "other")
        self.assertEqual(self.looks(0.0, 5.0, 10.0), [False] * 3)
        self.thread(3, "0x7ffe")
        self.assertEqual(self.looks(20.0, 21.9, 22.0), [False, False, True])

    def test_without_names_it_looks_at_threads_that_are_not_pythons(self):
        self.thread(threading.get_native_id(), "0x7ffe", "python3")
        self.assertEqual(self.looks(0.0, 5.0), [False] * 2)
        self.thread(1, "0x7ffe", "python3")
        self.assertEqual(self.looks(20.0, 22.0), [False, True])

    def test_another_wait_is_progress(self):
        self.thread(1, "0x7ffe")
        self.assertEqual(self.looks(0.0, 1.9), [False, False])
        self.thread(1, "0x7fff")
        self.assertEqual(self.looks(2.0, 3.9, 4.0), [False, False, True])

    def test_a_thread_that_computes_or_polls_or_has_ended(self):
        for tid, call in ((1, "running"), (2, "7 0x7f 0x6 0xffffffff 0x7ffe 0x0 0x7f 0x1 0x2")):
            self.thread(tid, "0x7ffe")
            (self.folder / str(tid) / "syscall").write_text(call + "\n")
        (self.folder / "3").mkdir()
        self.assertEqual(self.looks(0.0, 5.0), [False, False])

    def test_the_creation_of_a_group(self):
        self.assertEqual(self.looks(0.0, 1.9, 2.0, is_creating=True), [False, False, True])

    @unittest.skipUnless(os.path.exists("/proc/self/syscall"), "this kernel hides system calls")
    def test_the_kernel_says_so(self):
        """A thread of this process that waits in the same way."""
        leave = threading.Event()
        thread = threading.Thread(target=leave.wait, args=(DEADLINE,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(leave.set)
        with mock.patch.object(_gloo, "_NAME", cases.read("/proc/self/comm").strip()):
            cases.eventually(lambda: str(thread.native_id) in _gloo.waits(), "the thread waits")
            self.assertNotIn(str(os.getpid()), _gloo.waits())


class Launcher(unittest.TestCase):
    """The listener with a launcher that sends what the test wants."""

    def setUp(self):
        name = f"muster-test-elastic-{os.getpid()}-{random.random()}"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0" + name)
            server.listen()
            os.environ[_channel.VARIABLE] = name
            self.addCleanup(os.environ.pop, _channel.VARIABLE)
            self.addCleanup(os.environ.pop, "MUSTER_EPOCH", None)
            accepting = threading.Thread(target=self.accept, args=(server,))
            accepting.start()
            connection = _channel.Connection()
            accepting.join()
        self.addCleanup(self.launcher.close)
        self.news = _news.News(connection)
        self.addCleanup(self.news.close)
        self.lines = self.launcher.makefile()
        self.addCleanup(self.lines.close)
        self.cuts = queue.Queue()

    def accept(self, server):
        self.launcher, _ = server.accept()
        self.send("hello", 1, version=1, local_rank=1)

    def send(self, kind, epoch, **more):
        frame = {"type": kind, "epoch": epoch, "rank": 1, "count": 1, "failed": True, "why": "",
                 "world_size": 3, "store_address": "127.0.0.1", "store_port": 7, **more}
        self.launcher.sendall(json.dumps(frame).encode() + b"\n")

    def enter(self, epoch):
        self.news.enter(epoch, lambda: self.cuts.put(epoch))

    def test_it_subscribes_as_a_rank_that_survives(self):
        self.assertEqual(json.loads(self.lines.readline()), {"type": "subscribe", "mends": True})
        self.news.ready(5)
        self.assertEqual(json.loads(self.lines.readline()), {"type": "ready", "epoch": 5})

    def test_it_confirms_the_news_of_each_loss(self):
        self.lines.readline()  # its subscription
        self.send("round", 5)  # the first one
        self.send("gone", 5, failed=False)
        for kind, epoch in (("gone", 5), ("round", 6), ("gone", 6)):
            self.send(kind, epoch)
            self.assertEqual(json.loads(self.lines.readline()), {"type": "heard"})
        self.send("round", 7)
        self.assertEqual(json.loads(self.lines.readline()), {"type": "heard"})
        self.enter(7)
        self.assertEqual(json.loads(self.lines.readline()), {"type": "heard", "arrived": True})
        self.news.ready(6)
        self.assertEqual(json.loads(self.lines.readline()), {"type": "ready", "epoch": 6})

    def test_a_report_cuts_its_own_epoch_only(self):
        self.send("round", 5)
        self.assertEqual(self.news.newest(-1), _news.Members(5, 1, 3, ("127.0.0.1", 7)))
        self.enter(5)
        self.send("gone", 4)  # late
        self.send("gone", 5, failed=False)  # exited without an error
        self.send("gone", 5)
        self.assertEqual([self.cuts.get(timeout=DEADLINE) for _ in range(3)], [5] * 3)  # repeated
        self.news.leave()
        self.assertTrue(self.news.is_over(5))
        while not self.cuts.empty():
            self.cuts.get()
        self.send("round", 9)
        self.assertEqual(self.news.newest(5).epoch, 9)
        self.enter(9)
        self.send("gone", 5)
        self.send("gone", 9, failed=False)
        self.send("round", 9)
        self.send("round", 12)  # after the others, so they have been received
        self.assertEqual(self.news.newest(9).epoch, 12)
        self.assertEqual(self.cuts.get(timeout=DEADLINE), 9)  # for the round
        self.assertFalse(self.news.is_over(12))

    def test_neither_late_reports_nor_exits_end_an_epoch(self):
        self.send("round", 5)
        self.send("gone", 4)
        self.send("gone", 5, failed=False)
        self.send("round", 5, rank=2)  # the last frame
        while self.news.newest(-1).rank != 2:
            os.sched_yield()
        self.enter(5)
        self.assertFalse(self.news.is_over(5))

    def test_news_of_other_nodes_may_be_late(self):
        for nodes, seconds in (("1", _run.NEWS_SECONDS), ("2", _run.NEWS_SECONDS_OF_NODES)):
            with mock.patch.dict(os.environ, GROUP_WORLD_SIZE=nodes):
                self.assertEqual(_run._news_seconds(), seconds)

    def test_an_epoch_that_is_over_cannot_be_entered(self):
        self.send("round", 5)
        self.send("gone", 5)
        self.assertTrue(self.news.wait_over(5, DEADLINE))
        with self.assertRaises(elastic.Reset):
            self.enter(5)

    def test_a_launcher_that_closes_the_connection(self):
        self.send("round", 5)
        self.assertEqual(self.news.newest(-1).epoch, 5)
        self.launcher.shutdown(socket.SHUT_RDWR)
        with self.assertRaises(_news.LauncherGone):
            self.news.newest(5)
        self.assertFalse(self.news.wait_over(5, DEADLINE))


class States(unittest.TestCase):
    def test_restore_returns_to_the_last_commit(self):
        state = elastic.State(step=0, weights=np.zeros(2), table={"a": [1]})
        state.restore()  # no commit yet
        self.assertEqual(state.step, 0)
        state.weights += 1
        state.commit()
        for _ in range(2):  # a restored value is a copy, too
            state.step, state.weights[0], state.table["a"] = 5, 9, None
            state.restore()
            self.assertEqual((state.step, state.weights.tolist(), state.table),
                             (0, [1, 1], {"a": [1]}))
        self.assertEqual(state.commits, 1)

    def test_values_must_be_declared(self):
        state = elastic.State(step=0)
        with self.assertRaisesRegex(AttributeError, "no value 'steps'"):
            state.steps = 1
        with self.assertRaisesRegex(AttributeError, "no value 'steps'"):
            print(state.steps)
        with self.assertRaisesRegex(ValueError, "'commit'"):
            elastic.State(commit=1)
        with self.assertRaisesRegex(RuntimeError, "no communicator"):
            print(state.comm)


class Samplers(unittest.TestCase):
    def test_each_pass_uses_each_sample_once(self):
        ranks = [elastic.Sampler(25, 4, 0, 3, rank, 2) for rank in range(2)]
        passes = [[index for rank in ranks for step in range(3 * number, 3 * number + 3)
                   for index in rank[step]] for number in range(2)]
        for each in passes:
            self.assertEqual(len(set(each)), 24)
        self.assertNotEqual(*passes)
        self.assertEqual(len(ranks[0]), 3)
        self.assertNotEqual(elastic.Sampler(25, 4, 0, 4, 0, 2)[0], ranks[0][0])

    def test_it_continues_at_the_position_of_the_state(self):
        state = elastic.State(step=0)
        sampler = elastic.Sampler(25, 4, state, rank=1, world_size=2)
        first = list(sampler)
        state.step = 2
        self.assertEqual(list(sampler), first[2:])
        state.step = 3
        second = list(sampler)
        self.assertEqual(second, [sampler[step] for step in (3, 4, 5)])
        self.assertEqual(list(elastic.Sampler(25, 4, 4, rank=1, world_size=2)), second[1:])

    def test_too_few_samples(self):
        with self.assertRaisesRegex(ValueError, "7 samples do not suffice"):
            elastic.Sampler(7, 4, rank=0, world_size=2)


class Sockets(unittest.TestCase):
    def test_only_connections_are_shut_down(self):
        before = _sockets.inodes()
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen()
            client.connect(server.getsockname())
            other, _ = server.accept()
            left, right = socket.socketpair()
            with other, left, right:
                _sockets.shut_down(_sockets.inodes() - before - {os.fstat(other.fileno()).st_ino})
                self.assertEqual(other.recv(1), b"")
                left.sendall(b"x")
                self.assertEqual(right.recv(1), b"x")
            with socket.create_connection(server.getsockname()):
                server.accept()[0].close()


    def test_a_number_that_belongs_to_another_file_now(self):
        """The descriptors are listed before they are used."""
        left, right = socket.socketpair()
        with left, right, open(os.devnull, "rb") as file, socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
                before = os.listdir("/proc/self/fd")
                closed = max(map(int, before)) + 9
                for fd in (file.fileno(), left.fileno(), client.fileno(), closed):
                    _sockets._shut_down_one(fd, 1)
                self.assertEqual(os.listdir("/proc/self/fd"), before)
                client.send(b"x")


class Alone(support.FolderCase):
    def test_the_function_runs_once(self):
        calls = []

        @elastic.run
        def train(state, add, *, twice):
            calls.append(state.comm.size)
            state.step += add * twice
            state.commit()
            return state.step
        state = elastic.State(step=1)
        state.on_reset(lambda: calls.append("reset"))
        self.assertEqual(train(state, 2, twice=2), 5)
        self.assertEqual((train.__name__, calls, state.commits), ("train", [1], 1))

    def test_its_errors_pass_at_once(self):
        for error in (ValueError, KeyboardInterrupt, SystemExit):
            @elastic.run(backend="auto")
            def train(state, error=error):
                raise error
            with self.assertRaises(error):
                train(elastic.State())

    def test_several_ranks_without_a_launcher(self):
        script = ("from muster import elastic; import numpy\n"
                  "state = elastic.State(x=numpy.ones(1))\n"
                  "train = lambda state: state.comm.all_reduce(state.x)\n"
                  "print(elastic.run(train)(state)[0])\n")
        variables = support.environment(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                        MASTER_PORT=str(support.free_port()))
        ranks = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                  env={**variables, "RANK": str(rank)}) for rank in range(2)]
        self.assertEqual([each.communicate(timeout=DEADLINE)[0] for each in ranks], ["2.0\n"] * 2)

    def test_neither_torch_nor_numpy_is_imported(self):
        script = ("from muster import elastic; import sys\n"
                  "state = elastic.State(step=0, table=[1, {'a': 2}])\n"
                  "elastic.run(lambda state: [state.commit(), state.restore()])(state)\n"
                  "print('torch' in sys.modules or 'numpy' in sys.modules)\n")
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                              env=support.environment(), timeout=DEADLINE, check=True)
        self.assertEqual(done.stdout, "False\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
