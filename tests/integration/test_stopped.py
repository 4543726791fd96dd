# SPDX-License-Identifier: Apache-2.0
"""Guard and agent are stopped, in any combination: nothing runs at the same time as what others
start, and the job can still be stopped."""

import os
import signal

from harness import JobCase, eventually, state
from nodes import LEASE, NodesCase


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: state(pid) == "T", f"{pid} is stopped")


class OneNode(JobCase):
    def waiting_job(self):
        job = self.job(*self.puppets(1, "daemon", "{", "wait", "}", "touch", self.folder / "up",
                                     "wait"))
        self.wait_for("up")
        return job

    def test_the_agent_is_stopped_and_the_guard_is_killed(self):
        job = self.waiting_job()
        stop(job.agent())
        self.kill_launcher(job)

    def test_a_stopped_agent_handles_a_request_to_end(self):
        job = self.waiting_job()
        stop(job.agent())
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 143)
        self.assert_nothing_left(job)


class ManyNodes(NodesCase):
    """The workers of the silent node are not stopped. The end of every test checks that no two
    rounds ran at the same time."""

    def begin(self):
        job, nodes, _ = self.form("2:3", 3, conf=f"last_call_timeout=0.5,lease={LEASE}")
        return job, nodes

    def test_guard_and_agent_are_stopped(self):
        job, nodes = self.begin()
        silent = nodes[2]
        agent = silent.agent()
        workers = silent.worker_pids()
        silent.kill(signal.SIGSTOP)
        os.kill(agent, signal.SIGSTOP)
        job.round(2)
        eventually(lambda: all(state(pid) in ("", "Z") for pid in workers), "its workers are dead")
        os.kill(agent, signal.SIGCONT)
        job.round(3)
        job.finish()

    def test_the_agent_is_stopped_and_the_guard_is_killed(self):
        job, nodes = self.begin()
        stop(nodes[2].agent())
        nodes[2].kill_guard()
        job.round(2)
        self.assert_nothing_left(nodes[2])
        job.finish(*nodes[:2])
