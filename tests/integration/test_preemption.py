# SPDX-License-Identifier: Apache-2.0
"""A scheduler announces that it will stop the job: all ranks save at the same step, the job does
not restart, and the exit code is 75."""

import json
import os
import pathlib
import random
import signal
import time
import unittest

from harness import JobCase, eventually
from nodes import LONG_LEASE, NodesCase
from test_events import events_of
from test_step_signals import one_node

WORKER = str(pathlib.Path(__file__).with_name("preemption_worker.py"))
RUNS = int(os.environ.get("MUSTER_TEST_PREEMPTIONS", "8"))


class PreemptionCase(JobCase):
    def setUp(self):
        super().setUp()
        self.here = self.folder / "preemption"
        self.here.mkdir()
        self.env = {**os.environ, "PREEMPTION_DIR": str(self.here), "PYTHONDONTWRITEBYTECODE": "1"}

    def told(self, key):
        """What the ranks have recorded under this key, by rank."""
        path = self.here / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        return {one["rank"]: one[key] for one in map(json.loads, lines) if key in one}

    def clear(self):
        for path in self.here.iterdir():
            path.unlink()

    def wait_up(self, ranks):
        self.wait_for(*(f"preemption/up{rank}" for rank in range(ranks)))

    def start(self, mode, *options, ranks=2, **env):
        job = self.job("--nproc-per-node", ranks, "--log-dir", self.folder / "logs", *options,
                       WORKER, mode, env={**self.env, **env})
        self.wait_up(ranks)
        return job

    def events(self, name):
        folder, = (self.folder / "logs").iterdir()
        return [event for event in events_of(folder) if event["event"] == name]

    def assert_one_step(self, ranks):
        """All ranks have saved the same step, which is the result."""
        saved = self.told("saved")
        self.assertEqual(sorted(saved), list(range(ranks)))
        step, = set(saved.values())
        return step


class OneNode(PreemptionCase):
    def test_sigterm_makes_all_ranks_save_at_one_step(self):
        job = self.start("train", "--max-restarts", 3)
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 75)
        step = self.assert_one_step(2)
        why = f"SIGTERM from pid {os.getpid()}"
        self.assertIn(f"preempted ({why}): the ranks have 30 s to save at step {step} and exit",
                      ended.err)
        self.assertIn(f"muster: preempted ({why}): all ranks saved step {step}\n", ended.err)
        begun, = self.events("preempt")
        self.assertEqual((begun["why"], begun["step"]), (why, step))
        self.assertAlmostEqual(begun["seconds"], 30, delta=5)
        self.assertEqual({event["rank"]: event["step"] for event in self.events("saved")},
                         {0: step, 1: step})
        end, = self.events("job_ended")
        self.assertEqual((end["exit_code"], end["outcome"]), (75, "succeeded"))
        self.assertEqual(end["preemption"],
                         {"why": why, "step": step, "saved": {"0": step, "1": step}})
        report, = (self.folder / "logs").glob("*/report.json")
        self.assertEqual(json.loads(report.read_text())["preemption"], end["preemption"])

    def test_workers_that_exit_with_code_0_have_saved_too(self):
        job = self.start("finish")
        job.kill(signal.SIGTERM)
        self.wait_for_exit(job, 75)
        self.assert_one_step(2)

    def test_only_the_first_rank_saves(self):
        job = self.start("first_saves", ranks=3)
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 75)
        (rank, step), = self.told("saved").items()
        self.assertEqual(set(self.told("exits").values()), {step})
        self.assertEqual(rank, 0)
        self.assertIn(f": rank 0 saved step {step}\n", ended.err)

    def test_a_chosen_signal_is_only_for_muster(self):
        job = self.start("train", "--preempt-signal=USR1")
        # As Slurm does: the signal also reaches the workers, which it must not kill.
        for pid in job.pids():
            if pid not in (job.process.pid, job.agent()):
                os.kill(pid, signal.SIGUSR1)
        job.kill(signal.SIGUSR1)
        ended = self.wait_for_exit(job, 75)
        step = self.assert_one_step(2)
        self.assertIn(f"SIGUSR1 from pid {os.getpid()}): all ranks saved step {step}\n", ended.err)

    def test_a_file_that_appears_is_a_notice(self):
        file = self.folder / "stop"
        job = self.start("train", "--preempt-file", file)
        file.touch()
        ended = self.wait_for_exit(job, 75)
        step = self.assert_one_step(2)
        self.assertIn(f"(the file '{file}' exists): all ranks saved step {step}\n", ended.err)

    def test_a_file_of_an_earlier_job_is_not(self):
        file = self.folder / "stop"
        file.touch()
        job = self.start("train", "--preempt-file", file)
        job.stderr_until(b"exists already: ignoring it")
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 75)
        self.assertIn("preempted (SIGTERM", ended.err)

    def test_the_time_limit_of_a_slurm_job_is_a_notice(self):
        job = self.start("train", "--shutdown-timeout=3500",
                         **one_node(SLURM_JOB_END_TIME=str(int(time.time()) + 3503)))
        ended = self.wait_for_exit(job, 75)
        self.assert_one_step(2)
        self.assertIn("preempted (the job reaches its time limit)", ended.err)

    def test_a_job_that_starts_shortly_before_its_time_limit(self):
        """The notice is due before the workers poll."""
        job = self.start("starts_late", "--shutdown-timeout=3500",
                         **one_node(SLURM_JOB_END_TIME=str(int(time.time()) + 3000)))
        ended = self.wait_for_exit(job, 75)
        self.assert_one_step(2)
        self.assertIn("preempted (the job reaches its time limit)", ended.err)

    def test_a_rank_that_never_polls_is_killed_at_the_deadline_and_named(self):
        job = self.start("never_polls", "--shutdown-timeout=6")
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 75)
        saved = self.told("saved")
        self.assertEqual(list(saved), [0])
        self.assertRegex(ended.err, r"rank 1 did not save before the deadline: it is at step 7, "
                                    rf"sleeping.*; rank 0 saved step {saved[0]}; killing it\n")
        self.assertIn(f": rank 0 saved step {saved[0]}\n", ended.err)

    def test_a_failure_after_the_notice_causes_no_restart(self):
        job = self.start("fails", "--max-restarts", 3)
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 9)
        self.assertEqual(self.told("restarted"), {})
        self.assertIn("not restarted: the scheduler is stopping the job", ended.err)

    def test_a_second_sigterm_stops_the_workers(self):
        job = self.start("stays")
        job.kill(signal.SIGTERM)
        self.wait_for("preemption/noticed0", "preemption/noticed1")
        sent = 0
        while job.process.poll() is None:
            job.kill(signal.SIGTERM)
            sent += 1
            self.assertLess(sent, 100, "thirty seconds of signals changed nothing")
            time.sleep(0.3)  # two signals at once count as one
        self.wait_for_exit(job, 143)

    def test_a_program_that_is_not_aware_behaves_as_before(self):
        job = self.start("unaware")
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 143)
        self.assertIn("interrupted by SIGTERM", ended.err)
        self.assertNotIn("preempted", ended.err)

    def test_stay_waits_until_the_scheduler_kills_the_launcher(self):
        job = self.start("train", "--on-preempt=stay")
        job.kill(signal.SIGTERM)
        said = job.stderr_until(b"waiting until the scheduler kills this process")
        self.assertIn(b"all ranks saved step", said)
        self.assertIsNone(job.process.poll())
        job.kill(signal.SIGTERM)
        self.wait_for_exit(job, 75)

    def test_requeue_runs_scontrol_and_says_if_it_cannot(self):
        scontrol = self.executable(
            "#!/bin/sh\necho \"$@\" >> \"$PREEMPTION_DIR/scontrol\"\n"
            "test \"$1\" != requeue || exit ${CODE:-0}\n"
            "echo \"JobId=77 JobState=$STATE Reason=None\"\n", "scontrol")
        path = f"{scontrol.parent}:{os.environ['PATH']}"
        both = ["show job -o 77", "requeue 77"]
        for state, code, calls, said in (
                ("RUNNING", "0", both, "asked Slurm to requeue job 77\n"),
                ("RUNNING", "1", both, "the job is not requeued: scontrol did not respond"),
                ("COMPLETING", "0", both[:1], "requeued: Slurm is already ending the job")):
            job = self.start("train", "--on-preempt=requeue", "--platform=none", SLURM_JOB_ID="77",
                             STATE=state, CODE=code, PATH=path)
            job.kill(signal.SIGTERM)
            ended = self.wait_for_exit(job, 75)
            self.assertEqual((self.here / "scontrol").read_text().splitlines(), calls)
            self.assertIn(said, ended.err)
            self.clear()
        job = self.start("train", "--on-preempt=requeue")
        job.kill(signal.SIGTERM)
        ended = self.wait_for_exit(job, 75)
        self.assertIn("the job is not requeued: SLURM_JOB_ID is not set", ended.err)


class ManyNodes(PreemptionCase, NodesCase):
    def form_job(self, mode, nodes, *options):
        self.clear()
        job = self.cluster(str(nodes), conf=LONG_LEASE, options=list(options))
        started = job.start_all(nodes, nproc=2, env=self.env, program=[WORKER, mode])
        self.wait_up(2 * nodes)
        return job, started

    def test_ranks_of_three_nodes_save_at_one_step(self):
        for _ in range(RUNS):
            job, nodes = self.form_job("train", 3)
            chosen = random.sample(nodes, random.randint(1, 3))
            for node in chosen:
                node.kill(signal.SIGTERM)
            for ended in job.ends(*nodes, code=75):
                step = self.assert_one_step(6)
                self.assertIn(f": all ranks on this node saved step {step}\n", ended.err)
                self.assertEqual(ended.err.count("to save at step"), 1, ended)

    def test_a_notice_before_the_workers_run_is_given_when_they_do(self):
        job = self.cluster("2", conf=LONG_LEASE, options=["--preempt-signal=USR1"])
        how = {"nproc": 2, "env": self.env, "program": [WORKER, "train"]}
        first = job.start(1, **how)
        eventually(job.is_hosted, "the first node waits for the second")
        first.kill(signal.SIGUSR1)
        job.ends(first, job.start(2, **how), code=75)
        self.assert_one_step(4)

    def test_a_node_that_waits_for_others_ends_at_the_deadline(self):
        """No round forms, so no leader passes the notice on."""
        job = self.cluster("2", conf=LONG_LEASE,
                           options=["--preempt-signal=USR1", "--shutdown-timeout=1"])
        first = job.start(1, nproc=2, env=self.env, program=[WORKER, "train"])
        eventually(job.is_hosted, "the first node waits for the second")
        first.kill(signal.SIGUSR1)
        self.wait_for_exit(first, 75)

    def test_a_scheduler_signals_one_node_after_another(self):
        _, nodes = self.form_job("stays", 3, "--shutdown-timeout=3")
        nodes[1].kill(signal.SIGTERM)
        for node in nodes:
            node.wait_for_text("preempted (SIGTERM")
        nodes[0].kill(signal.SIGTERM)
        nodes[2].kill(signal.SIGTERM)
        for node in nodes:
            ended = self.wait_for_exit(node, 75)
            self.assertEqual(ended.err.count("did not save before the deadline"), 2, ended)

    def test_the_job_ends_if_a_node_dies_even_the_leader(self):
        for victim in (2, 0):
            job, nodes = self.form_job("stays", 3, "--max-restarts", 3, "--shutdown-timeout=4")
            nodes[1].kill(signal.SIGTERM)
            for node in nodes:
                node.wait_for_text("preempted (SIGTERM")
            nodes[victim].kill_all()
            job.ends(*(node for node in nodes if node is not nodes[victim]), code=75)
            self.assertEqual(self.told("restarted"), {})

    def test_one_node_leaves_and_a_spare_takes_over(self):
        """The node that leaves leads the job, or is another member."""
        for victim in range(2):
            self.clear()
            job = self.cluster("2:2", conf=LONG_LEASE, options=["--preempt-scope=node"])
            how = {"nproc": 2, "env": self.env, "program": [WORKER, "resumes"]}
            nodes = [job.start(1, **how), job.start(2, **how)]
            self.wait_up(4)
            nodes.append(job.start(3, **how))
            nodes[2].wait_for_text("waiting")
            nodes[victim].kill(signal.SIGTERM)
            job.ends(nodes.pop(victim), code=75)
            ends = job.ends(*nodes, code=0)
            step = self.assert_one_step(4)
            self.assertEqual(self.told("resumed"), {rank: 0 for rank in range(4)})
            self.assertTrue(any(f"save at step {step} and exit; then the other nodes continue"
                                in ended.err for ended in ends))

    def test_two_nodes_leave_one_after_the_other(self):
        job = self.cluster("1:3", conf=LONG_LEASE, options=["--preempt-scope=node"])
        nodes = job.start_all(3, nproc=2, env=self.env, program=[WORKER, "resumes"])
        self.wait_up(6)
        nodes[0].kill(signal.SIGTERM)
        nodes[2].kill(signal.SIGTERM)
        job.ends(nodes[0], nodes[2], code=75)
        job.ends(nodes[1], code=0)
        self.assert_one_step(6)
        self.assertEqual(self.told("resumed"), {0: 0, 1: 0})

    def test_a_failure_on_another_node_causes_no_restart(self):
        job, nodes = self.form_job("fails", 2, "--max-restarts", 3)
        nodes[0].kill(signal.SIGTERM)
        for ended in job.ends(*nodes, code=9):
            self.assertIn("not restarted: the scheduler is stopping the job", ended.err)
        self.assertEqual(self.told("restarted"), {})

    def test_a_rank_that_never_polls_is_named_by_its_node(self):
        job, nodes = self.form_job("never_polls", 2, "--shutdown-timeout=6")
        nodes[0].kill(signal.SIGTERM)
        first, second = job.ends(*nodes, code=75)
        self.assertNotIn("did not save", first.err)
        self.assertIn("rank 3 did not save before the deadline: it is at step 7, sleeping",
                      second.err)
        self.assertEqual(len(set(self.told("saved").values())), 1)


if __name__ == "__main__":
    unittest.main()
