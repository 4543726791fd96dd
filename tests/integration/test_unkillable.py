# SPDX-License-Identifier: Apache-2.0
"""The launcher never hangs because of a worker that cannot be reaped."""

import os
import signal
import time

import tracing
from harness import JobCase, eventually, state

GRACE = 1
PROMISED_BEYOND_GRACE = 5  # s
MARGIN = 5  # s, for a machine under load


class Unkillable(JobCase):
    def seize(self, pid):
        """From now on we, and not its parent, can reap the dead worker, and we do not."""
        tracing.seize(self, pid)
        self.addCleanup(os.waitpid, pid, tracing.WALL)

    def test_ends_within_grace_and_5_s_and_names_the_pid(self):
        job = self.job(*self.by_rank(
            "echo $$ > $DIR/pid.new; mv $DIR/pid.new $DIR/pid; exec $PUPPET wait",
            "exec $PUPPET wait-file $DIR/go exit 9",
            options=["--shutdown-timeout", str(GRACE)]))
        self.wait_for("pid")
        pid = int((self.folder / "pid").read_text())
        self.seize(pid)
        (self.folder / "go").touch()
        failed_at = time.monotonic()
        ended = job.end()
        self.assertLess(time.monotonic() - failed_at, GRACE + PROMISED_BEYOND_GRACE + MARGIN)
        self.assertEqual(state(pid), "Z", "the test's worker was reaped: nothing was tested")
        self.assertEqual(ended.code, 9, ended)
        self.assertIn(f"pid {pid}", ended.err)

    def test_a_stopped_worker_does_not_hold_it(self):
        job = self.job(*self.by_rank(
            "exec $PUPPET ignore TERM touch $DIR/up stop wait",
            "exec $PUPPET wait-file $DIR/up exit 9",
            options=["--shutdown-timeout", str(GRACE)]))
        ended = job.end()
        self.assertLess(ended.seconds, GRACE + PROMISED_BEYOND_GRACE + MARGIN, ended)
        self.assertEqual(ended.code, 9, ended)
        self.assert_nothing_left(job)

    def test_a_stopped_agent_does_not_outlive_the_launcher(self):
        job = self.job(*self.puppets(1, "touch", self.folder / "up", "wait"))
        self.wait_for("up")
        agent = job.agent()
        os.kill(agent, signal.SIGSTOP)
        eventually(lambda: state(agent) == "T", "the agent is stopped")
        os.kill(agent, signal.SIGKILL)
        self.assertEqual(job.end().code, 137)
        self.assert_nothing_left(job)
