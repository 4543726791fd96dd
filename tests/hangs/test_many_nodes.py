# SPDX-License-Identifier: Apache-2.0
"""Programs that hang (kinds.py, slow.py) in two-node jobs, with two launchers on loopback
addresses. Rank 0 is on node a, which leads; ranks 1 and 2 are on node b. One verdict for the whole
job must name the right rank, its node and the cause, and --on-hang acts on all nodes."""
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import uuid

import kinds
import slow
from test_hangs import (DEADLINE, HERE, HUNG, LIMIT, MUSTER, TORCH, FolderCase, environment,
                        missing)
from ports import free_port

NEW_NAMES = 0x04000000  # CLONE_NEWUTS
IS_ROOT = os.geteuid() == 0

# What rank 1 on node b does while rank 0 on node a and rank 2 wait. Both nodes are on one host, and
# only node a sees its flight recorders; tests/hosts contains the cases that need all of them.
KINDS = ["sleep", "stopped", "full_pipe", "fifo_without_reader", "socket_without_answer",
         "child_that_is_stopped", "spin", "sleep_with_gil", "lock_inversion", "condition",
         "child_that_sleeps", "waits_elsewhere", "barrier_of_a_part", "chain", "gloo_sleep",
         "gloo_other_operation"]


def is_hosted(port):
    """Whether a process listens on this port."""
    tables = pathlib.Path("/proc/net/tcp").read_text()
    return f":{port:04X} 00000000:0000 0A " in tables


def named(name):
    """Runs between fork and exec: sets a separate host name, if that is permitted."""
    def become():
        libc = ctypes.CDLL(None, use_errno=True)
        if IS_ROOT and libc.unshare(NEW_NAMES) == 0:
            libc.sethostname(name.encode(), len(name))
    return become


class Node:
    def __init__(self, scratch, name, args, python, ranks):
        self.folder = scratch / name
        self.folder.mkdir()
        self.name = name if IS_ROOT else socket.gethostname()
        self.ranks = ranks
        self.files = [self.folder / "out", self.folder / "err"]
        with self.files[0].open("wb") as out, self.files[1].open("wb") as err:
            self.process = subprocess.Popen(
                [MUSTER, f"--log-dir={self.folder}/logs", *args], stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, env=environment(str(scratch), python),
                preexec_fn=named(name))

    def err(self):
        return self.files[1].read_text(errors="replace")

    def wait(self):
        try:
            return self.process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def agent(self):
        pid, = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children"
                            ).read_text().split()
        return int(pid)

    def hangs(self):
        return sorted(self.folder.glob("logs/*/hang/*"))

    def verdicts(self):
        return [json.loads((folder / "verdict.json").read_text()) for folder in self.hangs()]

    def events(self):
        lines = next(self.folder.glob("logs/*/events.jsonl")).read_text().splitlines()
        return [json.loads(line) for line in lines]

    def wait_for(self, condition, what):
        ends = time.monotonic() + DEADLINE
        ticks = threading.Event()
        while not condition():
            if time.monotonic() > ends or self.process.poll() is not None:
                raise AssertionError(f"node {self.name} does not {what}:\n{self.err()}")
            ticks.wait(0.05)

    def says(self, text):
        """Waits until the node has printed the text; returns everything printed so far."""
        self.wait_for(lambda: text in self.err(), f"say '{text}'")
        return self.err()

    def __str__(self):
        return f"--- node {self.name}, code {self.process.poll()}\n{self.err()}"


class Case(FolderCase):
    def start(self, options, file, *words, python="", options_of=None):
        """options_of: for one node, instead of those for all."""
        job, port = "hang-" + uuid.uuid4().hex[:8], free_port()
        self.nodes = []
        first = 0
        for number, (name, ranks) in enumerate((("a", 1), ("b", 2))):
            args = ["--nnodes=2", f"--nproc-per-node={ranks}", f"--node-rank={number}",
                    "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
                    f"--rdzv-id={job}", f"--local-addr=127.0.0.{number + 1}", "--tee=3",
                    "--shutdown-timeout=1", *(options_of or {}).get(name, options),
                    str(HERE / file), *words]
            node = Node(self.folder, name, args, python, list(range(first, first + ranks)))
            self.addCleanup(node.kill)
            self.nodes.append(node)
            first += ranks
            node.wait_for(lambda: is_hosted(port), "listen")  # the first one leads
        return self.nodes

    def ends(self, code):
        for node in self.nodes:
            self.assertEqual(node.wait(), code, self.describe())

    def describe(self):
        return "\n".join(map(str, self.nodes))

    def one_verdict(self):
        """The same on both nodes, each of which also has the evidence about its own ranks."""
        found = [node.verdicts() for node in self.nodes]
        self.assertEqual([len(verdicts) for verdicts in found], [1, 1], self.describe())
        self.assertEqual(found[0], found[1])
        for node in self.nodes:
            stories = sorted(path.name for path in node.hangs()[0].glob("rank*.txt"))
            self.assertEqual(stories, [f"rank{rank}.txt" for rank in node.ranks])
            hang, = [event for event in node.events() if event["event"] == "hang"]
            verdict = found[0][0]
            self.assertEqual((hang["ranks"], hang["cause"], hang["nodes"]),
                             (verdict["ranks"], verdict["cause"], verdict["nodes"]))
        return found[0][0]

    def assert_shown_once(self):
        """The leading node prints the block; the other one prints one line."""
        a, b = (node.err() for node in self.nodes)
        self.assertIn("  no progress for ", a, self.describe())
        self.assertNotIn("  no progress for ", b, self.describe())
        for text in (a, b):
            self.assertEqual(text.count("warning: hang: "), 1, self.describe())
        self.assertIn(f"; see node '{self.nodes[0].name}' for details", b)


class Kinds(Case):
    """One test per kind: test_sleep, test_stopped, ..."""
    verdict = None


def add_kind(name):
    def test(self):
        kind = kinds.KINDS[name]
        if missing(kind):
            self.skipTest(missing(kind))
        self.start([f"--hang-timeout={LIMIT}", "--on-hang=stop", "--max-restarts=3"], "kinds.py",
                   name, python=TORCH if kind.torch else "")
        self.ends(HUNG)
        verdict = self.verdict = self.one_verdict()
        self.assertEqual(verdict["ranks"][0], 1, self.describe())
        self.assertEqual(verdict["nodes"], [self.nodes[1].name])
        self.assertIn(verdict["cause"], kind.causes, self.describe())
        self.assertIn(kind.words, verdict["reason"])
        self.assertEqual(verdict["gaps"], [])
        self.assert_shown_once()
        words = [f"rank {verdict['ranks'][0]} made no progress and was killed (--on-hang=stop)\n",
                 f"| hang: rank 1 on '{self.nodes[1].name}': "]
        for node in self.nodes:
            for each in words:
                self.assertIn(each, node.err(), self.describe())
            self.assertEqual(node.events()[-1]["exit_code"], HUNG)
            self.assertNotIn("restarting", node.err())
    setattr(Kinds, "test_" + name, test)


for each in KINDS:
    add_kind(each)


class Slow(Case):
    """Nothing is reported about programs that are only slow, wherever the slow rank is."""


def add_program(function):
    def test(self):
        self.start([f"--hang-timeout={slow.LIMIT:.0f}", "--on-hang=stop"], "slow.py",
                   function.__name__)
        self.ends(0)
        for node in self.nodes:
            self.assertEqual(node.verdicts(), [], self.describe())
            self.assertNotIn("hang", node.err(), self.describe())
    setattr(Slow, "test_" + function.__name__, test)


for each in slow.KINDS:
    add_program(each)


class Actions(Case):
    def setUp(self):
        super().setUp()
        self.fifo = self.folder / "fifo"
        os.mkfifo(self.fifo)

    def let_go_on(self):
        self.fifo.open("wb").close()

    def test_report_ends_nothing(self):
        a, b = self.start(["--hang-timeout=1"], "slow.py", "hang_always")
        a.says("details:")
        b.says("hang: rank 1 on ")
        self.let_go_on()
        self.ends(0)
        self.assertEqual(self.one_verdict()["cause"], "blocked_io")
        self.assert_shown_once()

    def test_what_goes_on_again_is_said_where_the_block_was(self):
        a, b = self.start(["--hang-timeout=1"], "slow.py", "fifo_then_steps")
        a.says("details:")
        self.let_go_on()
        a.says("workers are making progress again after")
        self.ends(0)
        self.assertNotIn("making progress again", b.err())

    def test_restart_uses_up_a_restart_of_the_job(self):
        a, b = self.start(["--hang-timeout=1", "--on-hang=restart", "--max-restarts=1"], "slow.py",
                          "hang_once")
        self.ends(0)
        self.assertEqual(self.one_verdict()["ranks"], [1])
        self.assertIn(f"rank 1 on '{b.name}' made no progress and was killed "
                      "(--on-hang=restart); restarting all workers", a.err(), self.describe())
        for node in (a, b):
            rounds = [each for each in node.events() if each["event"] == "round_begun"]
            self.assertEqual([each["restarts"] for each in rounds], [0, 1])

    def test_restart_without_restarts_fails_with_the_cause_on_all_nodes(self):
        _, b = self.start(["--hang-timeout=1", "--on-hang=restart"], "slow.py", "hang_always")
        self.ends(128 + signal.SIGKILL)
        self.one_verdict()
        for node in self.nodes:
            self.assertIn(f"| hang: rank 1 on '{b.name}': blocked in I/O on", node.err())
            self.assertIn("rank 1 made no progress and was killed (--on-hang=restart)\n",
                          node.err())

    def test_a_node_that_is_silent_is_the_cause(self):
        a, b = self.start(["--hang-timeout=1", "--on-hang=report", "--rdzv-conf=lease=6"],
                          "slow.py", "stop_own_agent")
        said = a.says("details:")
        self.assertIn(f"hang: ranks 1, 2 on '{b.name}': its node has been silent for ", said)
        verdict, = a.verdicts()
        self.assertEqual((verdict["cause"], verdict["ranks"]), ("node_silent", [1, 2]))
        self.assertIn("silent for", verdict["gaps"][0])
        for node in (a, b):
            os.kill(node.agent(), signal.SIGKILL)

    def test_a_node_that_does_not_look_is_named(self):
        options = ["--hang-timeout=1", "--on-hang=report"]
        a, b = self.start(options, "slow.py", "hang_always", options_of={"b": []})
        said = a.says("details:")
        self.assertIn(f"node '{b.name}': does not detect hangs: pass --hang-timeout", said)
        self.assertIn("the ranks are waiting for ranks that could not be inspected", said)
        self.let_go_on()
        self.ends(0)
        self.assertNotIn("hang", b.err())

    def test_a_leader_that_does_not_look_cannot_judge(self):
        _, b = self.start(["--hang-timeout=1"], "slow.py", "says_and_hangs",
                          options_of={"a": []})
        b.says("the leader does not watch for hangs; pass --hang-timeout on all nodes")
        self.let_go_on()
        self.ends(0)
        self.assertNotIn("hang: ", b.err())


def table():
    """`after`: seconds from the limit to the verdict."""
    print(f"{'kind':26} {'right':6} {'cause':22} {'rank':5} {'after':6} said")
    for name in sys.argv[2:] or KINDS:
        case = Kinds("test_" + name)
        result = unittest.TestResult()
        case.run(result)
        if not result.wasSuccessful() or case.verdict is None:
            print(f"{name:26} NO     {result.failures or result.errors or result.skipped}")
            continue
        verdict = case.verdict
        print(f"{name:26} yes    {verdict['cause']:22} {','.join(map(str, verdict['ranks'])):5} "
              f"{verdict['quiet'] - verdict['limit']:<6.1f} {verdict['reason']}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        table()
    else:
        unittest.main()
