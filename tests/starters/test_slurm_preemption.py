# SPDX-License-Identifier: Apache-2.0
"""A job in a partition with a higher priority takes the nodes of a running job, under real Slurm:
immediately, after which the job is requeued and runs again, and with a grace time."""

import json
import time
import unittest

from harness import eventually, read
from test_slurm_ends import REQUEUED, Signals as Listening

# The code of each launcher. The shell receives Slurm's signals as well, but keeps waiting.
STEP = """srun sh -c 'trap : TERM CONT; "$@"; code=$?; echo $code >>{codes}; exit $code' sh "$@\""""


# As docs/slurm.md advises.
REQUEUE = """
code=$?
[ $code -ne 143 ] || scontrol requeue $SLURM_JOB_ID
exit $code"""


class Preemption(Listening):
    def setUp(self):
        super().setUp()
        self.codes = self.folder / "codes"

    def begin(self, *options, then=""):
        text = STEP.format(codes=self.codes) + then
        running = self.listen(self.sbatch, text, "-N4", "--requeue",
                              "--exclusive", *options, world=4, options=["--max-restarts=3"])
        born = time.monotonic()  # younger workers get the signal from their launcher, too
        eventually(lambda: time.monotonic() > born + 1, "the workers are a second old")
        return running

    def preempt(self):
        """Submits a job that wants one of the nodes. Returns its number."""
        script = self.script("exec sleep 1000", "urgent.sh")
        said = self.slurm.ask("sbatch", "--partition=urgent", "--exclusive", "-N1",
                              f"--output={self.folder}/urgent.out", script)
        number = said.split()[-1]
        self.addCleanup(self.slurm.ask, "scancel", number, check=False)
        return number

    def state(self, number):
        return self.slurm.ask("squeue", "-h", "-j", number, "-o", "%T", check=False).strip()

    def heard_of(self, run):
        """(what, rank) of everything that this run's workers have written, in order."""
        lines = [json.loads(line) for line in read(self.heard).splitlines()]
        return [(line["what"], line["rank"]) for line in lines if line["run"] == run]

    def assert_each_rank_once(self, run, *what):
        heard = self.heard_of(run)
        for one in what:
            self.assertEqual(sorted(rank for name, rank in heard if name == one), list("0123"),
                             f"{one}: {heard}")

    def run_again(self, job, number, urgent):
        """It runs after the urgent job, and its workers then succeed."""
        self.slurm.ask("scancel", urgent)
        eventually(lambda: not self.state(urgent), "the urgent job is gone")
        self.heard.with_name("heard.end").unlink()
        self.slurm.ask("scontrol", "update", f"jobid={number}", REQUEUED)
        eventually(lambda: len(self.heard_of(f"slurm-{number}.0-r1")) == 4, job.describe)
        self.end()

    def test_it_is_requeued_and_runs_again(self):
        job, node = self.begin()
        number = self.number()
        urgent = self.preempt()
        eventually(lambda: {rank for what, rank in self.heard_of(f"slurm-{number}.0")
                            if what == "SIGTERM"} == set("0123"), job.describe)
        self.end()
        eventually(lambda: self.state(urgent) == "RUNNING", "the urgent job has the node")
        # Slurm itself sends it up to three times; no worker is restarted.
        self.assert_each_rank_once(f"slurm-{number}.0", "start", "end")
        eventually(lambda: self.state(number) == "PENDING", "the job waits")
        self.assertEqual(read(self.codes).split(), ["143"] * 4)
        self.run_again(job, number, urgent)
        job.ends(node)
        self.assertEqual(sorted(self.heard_of(f"slurm-{number}.0-r1")),
                         sorted((what, rank) for what in ("start", "end") for rank in "0123"))

    def test_within_a_grace_time_workers_hear_of_it_once_and_finish(self):
        job, node = self.begin("--partition=graced")
        number = self.number()
        urgent = self.preempt()
        eventually(lambda: len(self.events("SIGTERM")) >= 4, job.describe)
        self.assertEqual(self.state(urgent), "PENDING")  # while the workers save their state
        self.end()
        eventually(lambda: self.state(urgent) == "RUNNING", "the urgent job has the node")
        self.assert_each_rank_once(f"slurm-{number}.0", "start", "SIGTERM", "end")
        self.assertEqual(read(self.codes).split(), ["143"] * 4)
        self.slurm.ask("scancel", urgent)
        eventually(lambda: node.process.poll() is not None, "the job ends")
        self.assertEqual(self.heard_of(f"slurm-{number}.0-r1"), [])  # it ended and was not requeued
        self.assertEqual(node.process.returncode, 143)

    def test_a_script_may_requeue_its_job_within_the_grace_time(self):
        job, node = self.begin("--partition=graced", then=REQUEUE)
        number = self.number()
        urgent = self.preempt()
        eventually(lambda: len(self.events("SIGTERM")) >= 4, job.describe)
        self.end()
        eventually(lambda: self.state(urgent) == "RUNNING", "the urgent job has the node")
        eventually(lambda: self.state(number) == "PENDING", "the job waits")
        self.run_again(job, number, urgent)
        job.ends(node)


def load_tests(loader, *_):
    """Not the tests of the base class."""
    names = [name for name in vars(Preemption) if name.startswith("test_")]
    return unittest.TestSuite(loader.loadTestsFromName(f"Preemption.{name}", __import__(__name__))
                              for name in names)
