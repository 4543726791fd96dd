# SPDX-License-Identifier: Apache-2.0
"""Signals to the launcher: forwarded once, with a grace period; some never stop it."""

import os
import platform
import signal
import time
import unittest

import tracing
from harness import PUPPET, JobCase, eventually, state

RT_SIGTIMEDWAIT, TGKILL = 128, 234  # system calls on x86-64


class Signals(JobCase):
    def test_term_int_hup_quit_reach_the_workers_once_and_become_the_code(self):
        for name in ("TERM", "INT", "HUP", "QUIT"):
            signo = signal.Signals["SIG" + name].value
            ready = [self.folder / f"{name}{rank}" for rank in range(2)]
            job = self.job(*self.by_rank(*(
                f"exec $PUPPET handle {name} touch {path} wait say told exit 0" for path in ready)))
            self.wait_for(*(path.name for path in ready))
            job.kill(signo)
            ended = self.wait_for_exit(job, 128 + signo)
            self.assertEqual(ended.out.count(f"got {name}"), 2, ended)
            self.assertEqual(ended.out.count("told"), 2, ended)
            self.assertIn(f"interrupted by SIG{name} from pid {os.getpid()}", ended.err)
            self.assertEqual(ended.err.count("\n"), 1, ended)

    def test_usr1_and_usr2_reach_main_processes_only_and_end_nothing(self):
        for name in ("USR1", "USR2"):
            job = self.job(*self.puppets(
                1, "fork", "{", "handle", name, "wait", "say", "child-hit", "}",
                "handle", name, "touch", self.folder / name, "wait", "say", "main-hit",
                "exit", "0", options=["--shutdown-timeout=0"]))  # for the waiting child
            self.wait_for(name)
            job.kill(signal.Signals["SIG" + name])
            ended = self.wait_for_exit(job, 0)
            self.assertIn("main-hit", ended.out)
            self.assertNotIn("child-hit", ended.out)

    def test_under_nohup_a_hangup_changes_nothing(self):
        job = self.job(
            *self.puppets(1, "handle", "USR1", "touch", self.folder / "up", "wait", "exit", "0"),
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for("up")
        job.kill(signal.SIGHUP)
        job.kill(signal.SIGUSR1)  # after the hangup
        self.assertEqual(job.end().code, 0)

    def test_workers_inherit_what_nohup_ignores_and_nothing_that_we_block(self):
        ended = self.run_job(
            *self.puppets(1, "mask", "exit", "0"),
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        plain = self.run_job(*self.puppets(1, "mask", "exit", "0"))
        self.assertIn("HUP", ended.out, ended)
        self.assertNotIn("HUP", plain.out, plain)
        self.assertNotIn("TERM", plain.out, plain)

    def test_a_second_interrupt_skips_the_grace(self):
        job = self.job(*self.puppets(2, "ignore", "INT", "touch", self.folder / "up", "wait"))
        self.wait_for("up")
        sent = 0
        while job.process.poll() is None:
            job.kill(signal.SIGINT)
            sent += 1
            self.assertLess(sent, 100, "ten seconds of interrupts changed nothing")
            time.sleep(0.3)  # a user pressing keys: two signals at once would count as one
        self.assertEqual(job.end().code, 130)
        self.assertGreaterEqual(sent, 2)

    def test_the_same_signal_twice_at_once_is_one_request(self):
        # `timeout` signals the process and then its group.
        job = self.job(*self.puppets(
            1, "handle", "TERM", "touch", self.folder / "up", "wait", "sleep", "300",
            "touch", self.folder / "saved", "exit", "0"))
        self.wait_for("up")
        job.kill(signal.SIGTERM)
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 143)
        self.assertTrue((self.folder / "saved").exists(), "the grace was cut")

    def test_the_grace_holds_on_restarts_too(self):
        job = self.job(*self.by_rank(
            "test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; "
            "exec $PUPPET handle TERM touch $DIR/up wait sleep 700 touch $DIR/saved exit 0",
            "test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; "
            "exec $PUPPET wait-file $DIR/up exit 5",
            options=["--max-restarts", "1", "--shutdown-timeout", "30"]))
        self.wait_for_exit(job, 0)
        self.assertTrue((self.folder / "saved").exists(), "killed before its grace was over")

    def test_what_ignores_the_request_is_killed_after_the_grace_and_named(self):
        ended = self.run_job(*self.by_rank(
            "exec $PUPPET ignore TERM touch $DIR/up wait",
            "exec $PUPPET wait-file $DIR/up exit 5",
            options=["--shutdown-timeout", "1"]), code=5)
        self.assertIn("killed after the grace period: local rank 0", ended.err)

    def test_a_shell_that_dies_at_once_does_not_cost_its_program_the_grace(self):
        # sh without exec: the shell dies of the signal, and its child process needs more time.
        job = self.job(*self.by_rank(
            "$PUPPET handle TERM touch $DIR/up wait sleep 500 touch $DIR/saved exit 0; exit $?"))
        self.wait_for("up")
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 143)
        self.assertTrue((self.folder / "saved").exists(), "the program below the shell was killed")

    def test_a_stopped_worker_is_continued_to_stop(self):
        job = self.job(*self.puppets(1, "touch", self.folder / "up", "stop", "wait"))
        self.wait_for("up")
        job.kill(signal.SIGTERM)
        self.wait_for_exit(job, 143)

    def test_a_signal_during_the_start_leaves_nothing(self):
        for step in range(20):
            job = self.job(*self.puppets(16, "wait"))
            # At any moment from the first instruction on; the loop's count is the only clock.
            for _ in range(step * 2000):
                pass
            job.kill(signal.SIGTERM)
            ended = job.end()
            # Before the launcher's first instruction, only the kernel handles the signal.
            self.assertIn(ended.code, (143, -signal.SIGTERM), ended)
            self.assert_nothing_left(job)

    def test_ctrl_c_on_a_terminal_ends_python_workers_quickly(self):
        # Both must be sleeping, because an interrupt while Python imports may be swallowed.
        script = self.python("import os, pathlib, sys, time\n"
                             "pathlib.Path(sys.argv[1] + os.environ['RANK']).touch()\n"
                             "time.sleep(1000)\n")
        job = self.job("--nproc-per-node", 2, script, self.folder / "up")
        self.wait_for("up0", "up1")
        job.kill(signal.SIGINT)
        self.assertEqual(job.end().code, 130)

    def test_ctrl_z_stops_the_workers_and_fg_continues_them(self):
        job = self.job(*self.puppets(1, "touch", self.folder / "up", "wait"))
        self.wait_for("up")
        worker = [pid for pid in job.pids() if os.path.realpath(f"/proc/{pid}/exe") ==
                  os.path.realpath(PUPPET)][0]
        job.kill(signal.SIGTSTP)
        eventually(lambda: state(worker) == "T", "the worker is stopped")
        eventually(lambda: state(job.process.pid) == "T", "the launcher is: a shell waits for that")
        job.kill(signal.SIGCONT)
        eventually(lambda: state(worker) != "T", "the worker goes on")
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 143)

    @unittest.skipUnless(platform.machine() == "x86_64", "reads registers of x86-64")
    def test_a_request_to_go_on_that_comes_before_the_stop_is_not_lost(self):
        job = self.job(*self.puppets(1, "touch", self.folder / "up", "wait"))
        self.wait_for("up")
        steps = tracing.Steps(self, job.process.pid)
        # Not with job.kill, which checks whether it has exited and thereby consumes the
        # notifications of its stops.
        os.kill(job.process.pid, signal.SIGTSTP)
        steps.until_call((RT_SIGTIMEDWAIT, TGKILL))  # about to check for signals, or to stop itself
        os.kill(job.process.pid, signal.SIGCONT)
        steps.let_go()
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 143)
