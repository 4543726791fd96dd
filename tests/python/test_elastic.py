# SPDX-License-Identifier: Apache-2.0
"""muster.elastic with NumPy: killed and stopped ranks in all phases of a job, and errors of the
program, under a launcher made for tests (tests/support/elastic_job.py)."""
import json
import os
import pathlib
import signal
import sys

import numpy as np

import muster
import support
from elastic_job import ElasticJob
from muster import elastic
from muster.elastic import _run
from support import environment, say

BORN = os.environ.get("MUSTER_EPOCH", "")  # elastic.run changes the variable
RANK = int(os.environ.get("RANK", "0"))
SAMPLES, BATCH, STEPS = 60, 2, 40  # with 3 ranks: 4 passes of 10 steps


def is_planned(place):
    """Whether the test wants this process, the one of this rank in this epoch, to fail here."""
    return f"{RANK}:{BORN}:{place}" in os.environ.get("PLAN", "").split()


def die_if_planned(place):
    if is_planned(place):
        os.kill(os.getpid(), signal.SIGKILL)


def touch(name):
    pathlib.Path(os.environ["FOLDER"], name).touch()


def wait_for_fifo():
    """Returns when the test opens the FIFO."""
    with open(os.path.join(os.environ["FOLDER"], "fifo"), "rb") as fifo:
        fifo.read()


class Dying(elastic.State):
    def sync(self):
        die_if_planned("sync")
        super().sync()
        die_if_planned("synced")


def count_step(state, indices):
    """One step: how often each sample was used, over all ranks."""
    counts = np.bincount(indices, minlength=SAMPLES)
    die_if_planned(f"step-{state.step}")
    state.comm.all_reduce(counts)
    die_if_planned(f"reduced-{state.step}")
    state.counts += counts
    state.step += 1
    state.commit()


def count_all(state):
    sampler = elastic.Sampler(SAMPLES, BATCH, state, seed=5)
    while state.step < STEPS:
        for indices in sampler:
            count_step(state, indices)
    die_if_planned("returning")
    return state.step


def new_state():
    return Dying(step=0, counts=np.zeros(SAMPLES, np.int64), started=BORN)


def report(state, **more):
    say(json.dumps({"counts": sorted(set(state.counts.tolist())), "step": state.step,
                    "commits": state.commits, "started": state.started, **more}))


@support.worker
def counts():
    die_if_planned("start")
    resets = []
    state = new_state()
    state.on_reset(lambda: resets.append(state.comm.epoch))
    step = elastic.run(count_all)(state)
    report(state, result=step, resets=resets, epoch=os.environ.get("MUSTER_EPOCH"))


@support.worker
def apart():
    """Rank 2 does not commit the step in which rank 1 dies; rank 0 does."""
    state, done = new_state(), []

    @elastic.run
    def train(state):
        while state.step < 6:
            counts = np.bincount([state.step], minlength=SAMPLES)
            state.comm.all_reduce(counts)
            if is_planned(f"skip-{state.step}"):
                wait_for_fifo()
                raise ConnectionError("for the test")
            state.counts += counts
            done.append(state.step)
            state.step += 1
            try:
                state.commit()
            finally:
                touch(f"committed-{RANK}-{state.step}")
            die_if_planned(f"committed-{state.step}")
    train(state)
    report(state, done=done)


@support.worker
def stops():
    """Only the launcher's report can free a rank that waits for a stopped rank."""
    state = new_state()

    @elastic.run
    def train(state):
        if is_planned("stop"):
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            state.comm.all_reduce(state.counts)
        except muster.Error:
            touch(f"raised-{RANK}")
            raise
    train(state)
    report(state)


@support.worker
def commits_alone():
    """Rank 2 performs no operations, so that only commit() can report the loss."""
    state = new_state()

    @elastic.run
    def train(state):
        die_if_planned("train")
        while RANK == 2 and state.comm.epoch == 1:
            state.commit()
        state.comm.barrier()
    train(state)
    report(state)


@support.worker
def fails():
    _run.NEWS_SECONDS = _run.NEWS_SECONDS_OF_NODES = 0.1
    state = new_state()

    @elastic.run
    def train(state):
        if is_planned("fail"):
            raise ValueError("the program's own error")
        state.comm.barrier()
    train(state)


class Jobs(support.FolderCase):
    @classmethod
    def setUpClass(cls):
        cls.store = muster.ServedStore()
        cls.addClassCleanup(cls.store.close)

    def job(self, name, *plan, **options):
        command = [sys.executable, os.path.abspath(__file__), name]
        variables = environment(PLAN=" ".join(plan), FOLDER=self.folder)
        return ElasticJob(command, 3, self.store.port, self.folder, variables, **options).run()

    def results(self, job):
        for rank in range(3):
            self.assertEqual(job.codes[rank], 0, job.err(rank))
        return [json.loads(job.out(rank)) for rank in range(3)]

    def check_counts(self, job, lost, epoch):
        """Each sample was used once in each pass. lost: the ranks that were replaced last."""
        results = self.results(job)
        for rank, result in enumerate(results):
            is_new = rank in lost
            self.assertEqual(
                {**result, "resets": len(result["resets"]) > 0},
                {"counts": [4], "step": STEPS, "commits": STEPS, "started": "1", "result": STEPS,
                 "resets": bool(lost) and not is_new, "epoch": str(epoch)})
            self.assertIn((epoch, rank), job.ready)
            self.assertTrue(job.ranks[rank].mends)

    def test_undisturbed(self):
        self.check_counts(self.job("counts"), (), 1)

    def test_a_rank_dies(self):
        for lost in (0, 1):
            for place in ("step-13", "reduced-29"):
                with self.subTest(lost=lost, place=place):
                    self.check_counts(self.job("counts", f"{lost}:1:{place}"), (lost,), 4)

    def test_a_rank_dies_before_the_first_step(self):
        for place in ("start", "sync", "synced"):
            with self.subTest(place=place):
                job = self.job("counts", f"1:1:{place}")
                for result in self.results(job):
                    self.assertEqual((result["counts"], result["epoch"]), ([4], "4"))

    def test_a_rank_dies_in_the_last_step(self):
        self.check_counts(self.job("counts", "1:1:returning"), (1,), 4)

    def test_two_ranks_die_at_once(self):
        for lost in ((0, 1), (1, 2)):
            with self.subTest(lost=lost):
                plan = [f"{rank}:1:step-13" for rank in lost]
                self.check_counts(self.job("counts", *plan, deaths=[2]), lost, 4)

    def test_replacements_die(self):
        for place in ("start", "sync", "synced"):
            with self.subTest(place=place):
                job = self.job("counts", "0:1:step-13", f"0:4:{place}", f"0:7:{place}")
                self.check_counts(job, (0,), 10)
        job = self.job("counts", "0:1:step-13", "1:1:step-20", "0:4:step-21", "2:1:step-30")
        self.check_counts(job, (2,), 13)

    def test_the_newest_commit_wins(self):
        os.mkfifo(os.path.join(self.folder, "fifo"))

        def release(job, lost):
            support.cases.eventually(lambda: os.path.exists(f"{self.folder}/committed-0-3"),
                                     "rank 0 commits")
            os.close(os.open(f"{self.folder}/fifo", os.O_WRONLY))
        job = self.job("apart", "1:1:committed-3", "2:1:skip-2", before_mend=release)
        results = self.results(job)
        for result in results:
            self.assertEqual((result["counts"], result["commits"]), ([0, 3], 6))
        self.assertEqual([each["done"] for each in results],
                         [[0, 1, 2, 3, 4, 5], [3, 4, 5], [0, 1, 3, 4, 5]])

    def test_the_report_frees_ranks_that_wait(self):
        def both_raised(job):
            support.cases.eventually(
                lambda: all(os.path.exists(f"{self.folder}/raised-{rank}") for rank in (0, 2)),
                "the ranks that wait for the stopped rank raise an error")
        job = self.job("stops", "1:1:stop", stopped=both_raised)
        self.results(job)
        self.assertEqual(job.epoch, 4)

    def test_commit_reports_the_loss(self):
        job = self.job("commits_alone", "1:1:train")
        self.assertGreaterEqual(min(each["commits"] for each in self.results(job)), 0)
        self.assertEqual(job.epoch, 4)

    def test_an_error_of_the_program_passes(self):
        job = self.job("fails", "1:1:fail", mends=0)
        self.assertEqual(job.codes[1], 1)
        self.assertIn("in train\n", job.err(1))
        self.assertIn("\nValueError: the program's own error\n", job.err(1))

    def test_the_launcher_dies_before_the_mend(self):
        def die(job, _):
            job.disconnect()
            job.collect()
        job = self.job("counts", "1:1:step-13", mends=0, before_mend=die)
        for rank in (0, 2):
            self.assertEqual(job.codes[rank], 1)
            self.assertRegex(job.err(rank), r"\nmuster.errors.(PeerFailed|Aborted): ")


if __name__ == "__main__":
    support.main()
