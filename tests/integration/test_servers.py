# SPDX-License-Identifier: Apache-2.0
"""Process trees of servers: whichever of their processes is killed, all are killed or restarted.
MUSTER_TEST_KILLS sets the number of kills; MUSTER_TEST_SEED replays a failure."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import statistics
import sys
import time
import unittest

import server_tree
from harness import DEADLINE, JobCase, children, eventually, read
from nodes import NodesCase

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
TREE = pathlib.Path(__file__).with_name("server_tree.py")
KILLS = int(os.environ.get("MUSTER_TEST_KILLS", "25"))
SEED = int(os.environ.get("MUSTER_TEST_SEED", random.randrange(1 << 32)))


class Members:
    """Processes of one attempt, each referenced by a pidfd to protect against pid reuse."""

    def __init__(self, pids):
        self.fds = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self.fds[pid] = os.pidfd_open(pid)

    def kill(self, pid, signo=signal.SIGKILL):
        signal.pidfd_send_signal(self.fds[pid], signo)

    def await_ends(self):
        """Waits until all have exited. Returns those that have not exited within the deadline."""
        poll, left = select.poll(), {fd: pid for pid, fd in self.fds.items()}
        for fd in left:
            poll.register(fd, select.POLLIN)
        give_up = time.monotonic() + DEADLINE
        while left and time.monotonic() < give_up:
            for fd, _ in poll.poll(1000):
                poll.unregister(fd)
                del left[fd]
        return list(left.values())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for fd in self.fds.values():
            os.close(fd)


def port_in(pids):
    """The reserved port, from the environments of these processes; 0: no process is left."""
    for pid in pids:
        for variable in read(f"/proc/{pid}/environ").split("\0"):
            if variable.startswith("MUSTER_PORTS="):
                return int(variable.split("=")[1])
    return 0


def watched_by(agent):
    """The processes that have a pidfd."""
    files = [read(f"/proc/{agent}/fdinfo/{fd}") for fd in os.listdir(f"/proc/{agent}/fdinfo")]
    return {int(pid) for text in files for pid in re.findall(r"^Pid:\s(\d+)", text, re.MULTILINE)}


class Servers(JobCase):
    def tree(self, *options, nproc=1, how="fork", **kwargs):
        return self.job(f"--nproc-per-node={nproc}", *options, sys.executable, TREE, self.folder,
                        how, **kwargs)

    def await_tree(self, job, turn, nproc=1):
        """The pids by name and rank, once all are there."""
        files = {(name, rank): self.folder / f"{turn}-{rank}-{name}"
                 for name in server_tree.MEMBERS for rank in range(nproc)}
        eventually(lambda: all(file.exists() for file in files.values()),
                   lambda: f"the tree of attempt {turn}: {job.process.poll()}")
        return {key: int(file.read_text()) for key, file in files.items()}

    def workers_of(self, job):
        """All processes of the job except guard and agent."""
        agent = job.agent()
        return [pid for pid in job.pids() if pid not in (job.process.pid, agent)]

    def say(self, pid):
        return f"{pid} {read(f'/proc/{pid}/cmdline')[:80]!r}"

    # -- which deaths count --------------------------------------------------------------------

    def test_by_default_children_may_come_and_go(self):
        job = self.tree()
        tree = self.await_tree(job, 0)
        with Members(tree.values()) as members:
            for name in ("helper", "session", "daemon", "engine"):
                members.kill(tree[name, 0])
            eventually(lambda: len(self.workers_of(job)) == 1, "only the front end is left")
            self.assertIsNone(job.process.poll())
            members.kill(tree["front", 0])
        self.assertEqual(job.end().code, 137)

    def test_each_kind_of_child_is_missed_and_named(self):
        for name in server_tree.MEMBERS:
            with self.subTest(name):
                # Longer than the test would wait, because the rest of the tree ignores SIGTERM.
                job = self.tree("--on-child-death=fail", "--shutdown-timeout=3600")
                tree = self.await_tree(job, 0)
                os.kill(tree[name, 0], signal.SIGKILL)
                ended = self.wait_for_exit(job, 137)
                what = ("rank 0 killed by SIGKILL" if name == "front" else
                        f"rank 0 lost its process {tree[name, 0]} (python")
                self.assertIn(what, ended.err)
                self.assert_nothing_left(job)
                for file in self.folder.glob("0-*"):
                    file.unlink()

    def test_the_exit_code_is_that_of_the_child(self):
        job = self.tree("--on-child-death=fail")
        tree = self.await_tree(job, 0)
        os.kill(tree["engine", 0], signal.SIGSEGV)
        ended = self.wait_for_exit(job, 128 + signal.SIGSEGV)
        self.assertIn("killed by SIGSEGV", ended.err)

    def test_children_that_are_asked_to_end_and_short_commands_that_fail_do_not_count(self):
        script = self.python(
            "import pathlib, subprocess, sys\n"
            "for command in ('exit 1', 'exit 0', 'kill -TERM $$', 'exit 3 & exit 0'):\n"
            "    subprocess.run(['sh', '-c', command])\n"
            "child = subprocess.Popen(['sleep', '1000'])\n"
            "child.terminate()\n"
            "child.wait()\n"
            "pathlib.Path(sys.argv[1]).touch()\n")
        ended = self.run_job("--on-child-death=fail", sys.executable, script, self.folder / "done")
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        self.assertTrue((self.folder / "done").exists())

    def test_a_child_whose_parent_reaps_it_at_once(self):
        info = os.uname().release.split(".")
        if (int(info[0]), int(info[1].split("-")[0])) < (6, 15):
            self.skipTest("needs Linux 6.15, which tells the status of a child of another process")
        job = self.job("--on-child-death=fail", "--no-python", "sh", "-c",
                       f"sleep 1000 & echo $! >{self.folder}/new; "
                       f"mv {self.folder}/new {self.folder}/pid; wait; sleep 1000")
        self.wait_for("pid")
        pid = int((self.folder / "pid").read_text())
        eventually(lambda: pid in watched_by(job.agent()), "the child is watched")
        os.kill(pid, signal.SIGKILL)
        ended = self.wait_for_exit(job, 137)
        self.assertIn(f"lost its process {pid} (sleep), killed by SIGKILL", ended.err)

    def test_the_others_get_their_grace(self):
        trap = "trap 'echo asked >$DIR/asked; exit 0' TERM; touch $DIR/up; while :; do wait; done"
        job = self.job(*self.by_rank("exec $PUPPET fork '{' touch $DIR/child wait '}' wait",
                                     f"sleep 1000 & {trap}",
                                     options=["--on-child-death=fail"]))
        self.wait_for("up", "child")
        child, = [pid for worker in children(job.agent()) for pid in children(worker)
                  if "muster-puppet" in read(f"/proc/{pid}/comm")]
        os.kill(child, signal.SIGKILL)
        ended = self.wait_for_exit(job, 137)
        self.assertTrue((self.folder / "asked").exists())
        self.assertIn(f"rank 0 lost its process {child}", ended.err)

    def test_stopping_such_a_job_is_no_failure_of_its_children(self):
        job = self.tree("--on-child-death=fail", "--shutdown-timeout=1")
        self.await_tree(job, 0)
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 143)
        self.assertNotIn("lost its", ended.err)
        self.assert_nothing_left(job)

    # -- repeated kills ------------------------------------------------------------------------

    def kill_again_and_again(self, count, nproc, how):
        chance = random.Random(SEED)
        print(f"MUSTER_TEST_SEED={SEED}: {count} kills of {nproc} trees, {how}", flush=True)
        with (self.folder / "err").open("wb") as err:
            job = self.tree("--on-child-death=fail", "--shutdown-timeout=0", "--ports=1",
                            f"--max-restarts={count - 1}", "--restart-delay=0",
                            nproc=nproc, how=how, stderr=err)
        times = []
        for turn in range(count):
            self.await_tree(job, turn, nproc)
            with Members(self.workers_of(job)) as members:
                victim = chance.choice(sorted(members.fds))
                what = f"seed {SEED}, attempt {turn}: {self.say(victim)}"
                begun = time.monotonic()
                members.kill(victim)
                left = members.await_ends()
                times.append(1000 * (time.monotonic() - begun))
                self.assertEqual(left, [], f"{what}: alive: {[self.say(pid) for pid in left]}")
            for file in self.folder.glob(f"{turn}-*"):
                file.unlink()
        self.assertEqual(job.end().code, 137, read(self.folder / "err")[-2000:])
        self.assertEqual(job.pids(), [])
        times.sort()
        print(f"from the kill until the last of the tree had ended, ms: median "
              f"{statistics.median(times):.1f}, 99 % {times[int(len(times) * 0.99)]:.1f}, most "
              f"{times[-1]:.1f}", flush=True)

    def test_random_members_are_killed(self):
        self.kill_again_and_again(KILLS, 1, "fork")

    def test_random_members_of_two_servers_are_killed(self):
        self.kill_again_and_again(max(2, KILLS // 5), 2, "spawn")

    def test_ports_are_free_again(self):
        job = self.tree("--on-child-death=fail", "--ports=1", "--max-restarts=1")
        tree = self.await_tree(job, 0)
        port = port_in([tree["front", 0]])
        os.kill(tree["daemon", 0], signal.SIGKILL)
        self.await_tree(job, 1)
        socket.create_connection(("127.0.0.1", port)).close()  # the second tree has it
        os.kill(int((self.folder / "1-0-session").read_text()), signal.SIGKILL)
        self.assertEqual(job.end().code, 137)
        with socket.socket() as taker:
            taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taker.bind(("127.0.0.1", port))
            taker.listen()


class Nodes(NodesCase):
    def test_every_node_reports_the_child_that_one_of_them_lost(self):
        job = self.cluster("2", options=["--on-child-death=fail", "--shutdown-timeout=0"])
        nodes = job.start_all(2, program=[sys.executable, str(TREE), str(self.folder), "fork"])
        self.wait_for(*(f"0-{rank}-{name}" for rank in (0, 1) for name in server_tree.MEMBERS))
        helper = int((self.folder / "0-1-helper").read_text())
        os.kill(helper, signal.SIGKILL)
        for ended in job.ends(*nodes, code=137):
            self.assertIn(f"rank 1 lost its process {helper} (python", ended.err)


GUNICORN = shutil.which("gunicorn")


@unittest.skipUnless(GUNICORN, "gunicorn is not installed (package gunicorn)")
class Gunicorn(JobCase):
    """The example: a real server with many processes, on a port that was reserved for it."""

    def start(self, *options):
        job = self.job("--ports=1", *options, "--no-python", GUNICORN, "--workers=2",
                       "--bind=127.0.0.1:${port0}", "--pythonpath", EXAMPLES, "server:app",
                       env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.port = eventually(lambda: port_in(job.pids()), "the server is started")
        return job

    def ask(self):
        """The server's answer; none while it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request("GET", "/here")
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def test_all_is_started_again_when_one_of_its_workers_is_killed(self):
        job = self.start("--on-child-death=fail", "--shutdown-timeout=0", "--max-restarts=1")
        first = eventually(self.ask, "the server answers")
        self.assertEqual((first["rank"], first["path"]), ("0", "/here"))
        self.assertEqual(first["muster_ports"], str(self.port))
        eventually(lambda: len(children(first["master"])) == 2, "both of its workers run")
        # Its master reaps it immediately.
        eventually(lambda: first["pid"] in watched_by(job.agent()), "the worker is watched")
        with Members([first["master"], *children(first["master"])]) as members:
            os.kill(first["pid"], signal.SIGKILL)
            self.assertEqual(members.await_ends(), [])
        again = eventually(self.ask, "the server answers again, on the same port")
        self.assertEqual(again["torchelastic_restart_count"], "1")
        self.assertNotEqual(again["master"], first["master"])
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 143)
        self.assertIn(f"rank 0 (pid {first['master']}) lost its process {first['pid']} (gunicorn",
                      ended.err)
        self.assert_nothing_left(job)

    def test_by_default_it_replaces_its_workers_itself(self):
        job = self.start()
        first = eventually(self.ask, "the server answers")
        os.kill(first["pid"], signal.SIGKILL)
        again = eventually(lambda: (answer := self.ask()) and answer["pid"] != first["pid"]
                           and answer, "another one of its workers answers")
        self.assertEqual(again["master"], first["master"])
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 143)
        self.assert_nothing_left(job)
