# SPDX-License-Identifier: Apache-2.0
"""musterctl with launchers that answer late or never: stopped, overloaded, or hostile."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import unittest

from harness import DEADLINE, JobCase
from job_view import MUSTERCTL, ctl, wait_for_status, wait_until_ready
from nodes import LONG_LEASE, NodesCase

FAKE_PID = 1 << 22  # the kernel's own pids are smaller
LONG = 8 << 20  # more than fits into a socket buffer


def peer_pid(connection):
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def answer_of(number, padding=0):
    body = json.dumps({"launcher_pid": FAKE_PID + number, "job": f"fake{number}"})
    body += " " * padding
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def start_ctl(*args):
    return subprocess.Popen([MUSTERCTL, *map(str, args)], text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def stop_agent(test, job):
    agent = job.agent()

    def resume():
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, signal.SIGCONT)
    os.kill(agent, signal.SIGSTOP)
    test.addCleanup(resume)
    return agent


def fill_backlog(test, agent):
    """Connects to this agent's job socket until the kernel refuses."""
    with open("/proc/net/unix", encoding="utf-8") as table:
        names = {line.split()[-1][1:] for line in table if " @muster-job-" in line}
    for name in names:
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            test.addCleanup(client.close)
            try:
                client.connect("\0" + name)
            except BlockingIOError:
                return
            except ConnectionError:
                break
            if peer_pid(client) != agent:
                break
    raise AssertionError(f"no job socket of {agent} among {names}")


class Fakes(unittest.TestCase):
    """Launchers played by this process. Other tests' musterctl may query them, too."""

    def listen(self, letter, backlog=64):
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(f"\0muster-job-fake-{os.getpid()}-{letter}")
        listener.listen(backlog)
        return listener

    def serve(self, listener, talk):
        """Runs talk(connection) in a separate thread for each client, once the request has
        arrived."""
        def one(connection):
            with connection, contextlib.suppress(ConnectionError):
                if connection.recv(65536):
                    talk(connection)

        def run():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=one, args=[connection], daemon=True).start()
        threading.Thread(target=run, daemon=True).start()
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)

    def test_all_are_queried_before_any_has_answered(self):
        count = 3
        lock = threading.Lock()
        barriers = {}

        def talk_as(number):
            def talk(connection):
                with lock:
                    barrier = barriers.setdefault(peer_pid(connection), threading.Barrier(count))
                with contextlib.suppress(threading.BrokenBarrierError):
                    barrier.wait(DEADLINE)
                    connection.sendall(answer_of(number))
            return talk
        for number in range(count):
            self.serve(self.listen(f"a{number}"), talk_as(number))
        text = ctl("status", "--timeout", 5)
        for number in range(count):
            self.assertIn(f"fake{number}", text)

    def test_one_that_stalls_in_its_answer_takes_no_time_from_the_others(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def stall(connection):
            connection.sendall(answer_of(1, padding=100)[:-50])
            over.wait(DEADLINE)
        self.serve(self.listen("a"), stall)
        self.serve(self.listen("b"), lambda connection: connection.sendall(answer_of(2, LONG)))
        done = start_ctl("status", "--timeout", 3)
        out, said = done.communicate(timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("fake2", out)
        self.assertNotIn("fake1", out)
        self.assertRegex(said, rf"no answer within 3 s .* pids? (.*, )?{os.getppid()}\b")

    def test_a_full_backlog_is_tried_again(self):
        listener = self.listen("a", backlog=0)
        filler = socket.socket(socket.AF_UNIX)
        self.addCleanup(filler.close)
        filler.connect(listener.getsockname())
        queried = threading.Event()
        wanted = []

        def note(connection):
            connection.sendall(answer_of(2))
            if peer_pid(connection) in wanted:
                queried.set()
        later = self.listen("b")
        done = start_ctl("status", "--pid", FAKE_PID + 1, "--timeout", DEADLINE)
        wanted.append(done.pid)
        self.serve(later, note)
        self.assertTrue(queried.wait(DEADLINE))
        self.serve(listener, lambda connection: connection.sendall(answer_of(1)))
        filler.close()
        out, said = done.communicate(timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("fake1", out)


class Stopped(JobCase):
    def running(self):
        job = self.job(*self.puppets(1, "wait"))
        wait_until_ready(job)
        return job

    def test_stopped_agents_are_named_and_can_be_stopped_by_pid(self):
        running, *stopped = (self.running() for _ in range(3))
        for job in stopped:
            stop_agent(self, job)
        done = start_ctl("status", "--timeout", 5)  # the running one may be slow
        out, said = done.communicate(timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, said)
        self.assertIn(str(running.process.pid), out)
        for job in stopped:
            self.assertRegex(said, rf"no answer within 5 s .*\b{job.process.pid}\b")
        pid = stopped[0].process.pid
        self.assertIn(f"no answer within 1 s from the launcher with pid {pid}: it may be stopped, "
                      "or the host may be overloaded", ctl("status", "--pid", pid, code=69))
        self.assertIn("no answer within 1 s", ctl("stop", "--run-id", "unknown", code=69))
        self.assertIn("does not respond", ctl("stop", code=2))
        self.assertEqual(ctl("stop", "--pid", pid), f"pid {pid}: stopped\n")

    def test_a_stopped_agent_with_a_full_backlog_is_named(self):
        job = self.running()
        agent = stop_agent(self, job)
        fill_backlog(self, agent)
        pid = job.process.pid
        for by in (pid, agent):
            self.assertIn(f"from the launcher with pid {pid}:",
                          ctl("status", "--pid", by, code=69))
        self.assertEqual(ctl("stop", "--pid", pid), f"pid {pid}: stopped\n")


class ManyNodes(NodesCase):
    def test_drain_of_a_silent_node(self):
        job, (first, second), _ = self.form("2", 2, conf=LONG_LEASE)
        status = wait_for_status(second, lambda status: len(status["nodes"]) == 2, "it runs")
        node, = (node["name"] for node in status["nodes"] if node["here"])
        stop_agent(self, second)
        silent = f"no answer within 1 s from the launcher with pid {second.process.pid}:"
        said = ctl("drain", node, "--pid", second.process.pid, code=69)
        self.assertIn(silent, said)
        # To the other node it is on a different machine.
        said = ctl("drain", node, "--run-id", job.name, code=1)
        self.assertRegex(said, r"(?m)^musterctl: warning: no answer within 1 s .*"
                               rf"\b{second.process.pid}\b")
        self.assertIn("is on another host", said)
        os.kill(second.agent(), signal.SIGCONT)
        job.finish(first, second)
