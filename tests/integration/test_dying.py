# SPDX-License-Identifier: Apache-2.0
"""The launcher sees the death of a worker that uses the collective library before the kernel allows
reaping it. This test plays the kernel, which would be freeing the memory: it traces the worker, so
the launcher cannot reap the dead worker before the test has. Everything until then happened without
waiting for the exit."""

import os
import signal

import tracing
from harness import eventually, state
from nodes import NEVER, NodesCase, last_block

WORKER = os.environ["MUSTER_LIFE_WORKER"]
PUPPET = os.environ["MUSTER_PUPPET"]

# The kernel needs about 50 ms to free it; a small process disappears in less than 1 ms.
MANY_MEGABYTES = 512


class DyingCase(NodesCase):
    def worker(self, what="await-signal"):
        return ["--no-python", WORKER, what, self.folder]

    def pid_of(self, rank, attempt=0):
        self.wait_for(f"up-{rank}-{attempt}")
        return int((self.folder / f"up-{rank}-{attempt}").read_text())

    def hold(self, pid):
        """From now on the process stays a zombie after its death until let_go()."""
        tracing.seize(self, pid)

    def let_go(self, pid):
        """Reaps the process, which no other process may have reaped."""
        eventually(lambda: state(pid) == "Z", f"{pid} is dead and was not reaped")
        self.assertEqual(os.waitpid(pid, tracing.WALL)[0], pid)


class OneNode(DyingCase):
    def test_the_others_are_stopped_before_it_is_reaped_and_started_after(self):
        job = self.job("--nproc-per-node=3", "--max-restarts=1", "--log-level=info", *self.worker())
        pids = [self.pid_of(rank) for rank in range(3)]
        self.hold(pids[1])
        os.kill(pids[1], signal.SIGKILL)
        self.wait_for("signalled-0-0", "signalled-2-0")
        self.let_go(pids[1])
        for rank in range(3):
            self.pid_of(rank, 1)
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 143)
        expected = [
            f"local rank 1 (pid {pids[1]}) killed by SIGKILL; the kernel is freeing its memory\n",
            f"rank 1 (pid {pids[1]}) killed by SIGKILL; restarting all workers",
            f"local rank 1 (pid {pids[1]}) killed by SIGKILL\n",
            "attempt 2: "]
        places = [ended.err.find(line) for line in expected]
        self.assertNotIn(-1, places, ended)
        self.assertEqual(places, sorted(places), ended)
        self.assert_nothing_left(job)

    def end(self, how, program=None):
        """The report of a job whose rank 1 was held and exited in this way."""
        job = self.job("--nproc-per-node=2", *(program or self.worker()))
        self.pid_of(0)
        pid = self.pid_of(1)
        self.hold(pid)
        os.kill(pid, how)
        self.wait_for("signalled-0-0")
        self.let_go(pid)
        ended = job.end()
        self.assert_nothing_left(job)
        return pid, ended

    def test_the_report_is_that_of_any_death(self):
        pid, ended = self.end(signal.SIGKILL)
        self.assertEqual(ended.code, 137, ended)
        lines = ended.err.splitlines()
        self.assertEqual(lines[0], f"muster: {WORKER}: rank 1 killed by SIGKILL")
        self.assertRegex(lines[1], rf"^  node .*, local rank 1, pid {pid}$")
        self.assertEqual(len(lines), 2, ended)

    def test_a_code_is_told_as_well_also_behind_a_shell_that_became_the_worker(self):
        script = self.executable(f"#!/bin/sh\nexec {WORKER} await-signal {self.folder}\n",
                                 "train.sh")
        _, ended = self.end(signal.SIGUSR1, ["--no-python", script])
        self.assertEqual(ended.code, 3, ended)
        self.assertIn("rank 1 exited with code 3\n", ended.err)

    def test_memory_that_takes_longer_than_the_grace_is_no_disobedience(self):
        job = self.job("--nproc-per-node=2", "--shutdown-timeout=0", "--log-level=info",
                       *self.worker())
        self.pid_of(0)
        pid = self.pid_of(1)
        self.hold(pid)
        os.kill(pid, signal.SIGKILL)
        # The grace period is zero: rank 0 is killed, and rank 1 cannot be reaped before that.
        eventually(lambda: not self.alive(job, 0), "rank 0 is gone")
        self.let_go(pid)
        ended = self.wait_for_exit(job, 137)
        self.assertNotIn("could not be killed", ended.err)

    def alive(self, job, rank):
        return state(self.pid_of(rank)) not in ("", "Z")

    def test_others_are_told_who_died_first_though_they_look_late(self):
        job = self.job("--nproc-per-node=3", *self.worker("tell-death"))
        pids = [self.pid_of(rank) for rank in range(3)]
        first, last = (tracing.Halt(self, pids[rank]) for rank in (0, 2))
        os.kill(pids[1], signal.SIGKILL)
        eventually(lambda: not state(pids[1]), "the launcher has seen it die")
        first.kill()
        last.let_go()
        self.wait_for("told-2-0")
        self.assertRegex((self.folder / "told-2-0").read_text(),
                         rf"rank 1 \(pid {pids[1]}\) has died")
        self.assertEqual(job.end().code, 137)

    def test_what_a_worker_starts_is_its_own_business(self):
        script = self.executable(f"#!/bin/sh\n{WORKER} await-signal {self.folder}\n"
                                 f"echo $? > {self.folder}/seen-$RANK\nexit 5\n", "train.sh")
        job = self.job("--nproc-per-node=2", "--no-python", script)
        self.pid_of(0)
        os.kill(self.pid_of(1), signal.SIGKILL)
        self.wait_for_exit(job, 5)
        self.assertEqual((self.folder / "seen-1").read_text(), "137\n")


class TheCauseIsNamed(DyingCase):
    """Rank 1 holds memory and is killed. The others therefore exit with 9 immediately, and are
    reaped long before it."""

    def assert_rank_1_is_named(self, *program):
        for _ in range(5):
            job = self.job("--nproc-per-node=8", "--no-python", *program)
            ended = self.wait_for_exit(job, 137)
            self.assertIn("rank 1 killed by SIGKILL\n", ended.err)
            self.assert_nothing_left(job)

    def test_of_workers_that_use_the_library(self):
        self.assert_rank_1_is_named(WORKER, "exit-on-loss", self.folder, str(MANY_MEGABYTES))

    def test_of_workers_that_do_not(self):
        script = self.executable(
            f"""#!/bin/sh
            ready={self.folder}/ready-$PPID killed={self.folder}/killed-$PPID
            if [ $RANK = 1 ]; then
              exec {PUPPET} die-from-memory {MANY_MEGABYTES} touch $ready-$$ wait
            elif [ $RANK = 0 ]; then
              until set -- $ready-*; [ -e "$1" ]; do sleep 0.01; done
              kill -9 ${{1##*-}}
              : > $killed
            fi
            until [ -e $killed ]; do sleep 0.01; done
            exit 9
            """, "train.sh")
        self.assert_rank_1_is_named(script)


class ManyNodes(DyingCase):
    def test_the_other_nodes_are_told_before_it_is_reaped(self):
        job = self.cluster("2", conf=NEVER)
        job.start_all(2, program=[str(word) for word in self.worker()])
        pids = [self.pid_of(rank) for rank in range(2)]
        self.hold(pids[1])
        os.kill(pids[1], signal.SIGKILL)
        self.wait_for("signalled-0-0")
        self.let_go(pids[1])
        blocks = [last_block(ended) for ended in job.ends(*job.nodes, code=137)]
        self.assertEqual(blocks[0], blocks[1])
        self.assertIn("rank 1 killed by SIGKILL", blocks[0][0])
