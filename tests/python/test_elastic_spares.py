# SPDX-License-Identifier: Apache-2.0
"""muster --spare-workers with muster.elastic: a process that waits in elastic.run replaces a rank
that is killed, and the job computes what it would compute without the failure."""
import os
import pathlib
import re
import signal
import threading

import numpy as np

import support
from cases import eventually
from elastic_case import ElasticCase
from muster import elastic, worker
from support import say

RANKS = 3
STEPS = 20
IS_SPARE = os.environ.get("MUSTER_SPARE") == "1"


def folder():
    return pathlib.Path(os.environ["FOLDER"])


def die_once(state):
    """The first process of each rank in DEATHS waits in a step of its own until the test lets it
    die or continue."""
    rank = state.comm.rank
    died = folder() / f"died-{rank}"
    if str(rank) in os.environ.get("DEATHS", "").split() and state.step == 5 + rank:
        eventually(lambda: died.exists() or (folder() / f"kill-{rank}").exists(),
                   "the test lets this rank die or continue")
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@elastic.run
def train(state):
    while state.step < STEPS:
        die_once(state)
        value = np.random.random(4) * (state.step + state.comm.rank)
        state.comm.all_reduce(value)
        state.total += value
        state.step += 1
        worker.progress(state.step)
        state.commit()


@support.worker
def spare_worker():
    """Draws random numbers before elastic.run, which a replacement must not repeat."""
    np.random.seed(7)
    if IS_SPARE:
        assert not any(name in os.environ for name in ("RANK", "LOCAL_RANK", "MUSTER_AGENT"))
        say("this line belongs to the spare worker")
    state = elastic.State(step=0, total=np.zeros(4))
    train(state)
    say(f"{state.total.tobytes().hex()} rank {os.environ['RANK']} of "
        f"{os.environ['LOCAL_RANK']} {'spare' if IS_SPARE else 'first'} {os.getpid()}")


@support.worker
def rank_worker():
    """Needs its rank before elastic.run, so it cannot have spare workers."""
    (folder() / f"started-{os.getpid()}").touch()
    np.random.seed(int(os.environ["RANK"]))
    train(elastic.State(step=0, total=np.zeros(4)))


@support.worker
def endless_worker():
    """The spare workers never reach elastic.run."""
    if IS_SPARE:
        (folder() / "spare").write_text(str(os.getpid()))
        threading.Event().wait()
    spare_worker()


class Spares(ElasticCase):
    def start(self, name, *options, deaths="", spares=1):
        self.logs = f"{self.folder}/logs-{len(os.listdir(self.folder))}"
        return self.job(name, f"--spare-workers={spares}", "--max-restarts=3",
                        f"--log-dir={self.logs}", *options, DEATHS=deaths)

    def texts(self):
        return [event["text"] for event in self.events(self.logs, "message")]

    def count(self, part):
        return sum(part in text for text in self.texts())

    def await_text(self, part, count=1):
        eventually(lambda: self.count(part) >= count, f"{count} times: {part}")

    def let_die(self, rank):
        (pathlib.Path(self.folder) / f"kill-{rank}").touch()

    def lines(self, out):
        """By rank: the result, whether the process was a spare worker, its pid."""
        found = {}
        for line in out.splitlines():
            result, _, rank, _, local_rank, kind, pid = line.split()
            self.assertEqual(rank, local_rank)
            found[int(rank)] = (result, kind, int(pid))
        self.assertEqual(sorted(found), list(range(RANKS)), out)
        return found

    def undisturbed(self):
        out, _ = self.end(self.start("spare_worker"))
        return {line[0] for line in self.lines(out).values()}

    def spares(self):
        """The pids of the spare workers that have been ready."""
        return [int(re.search(r"pid (\d+)\) is ready", text)[1]) for text in self.texts()
                if "is ready" in text]

    def test_spare_workers_replace_ranks_one_after_the_other(self):
        expected = self.undisturbed()
        job = self.start("spare_worker", deaths="0 1 2")
        for rank in range(RANKS):
            self.await_text("is ready", rank + 1)
            self.let_die(rank)
            self.await_text(f"rank {rank} continues in spare worker (pid {self.spares()[rank]}")
        out, err = self.end(job)
        lines = self.lines(out)
        self.assertEqual({line[0] for line in lines.values()}, expected, err)
        self.assertEqual([line[1:] for _, line in sorted(lines.items())],
                         [("spare", pid) for pid in self.spares()[:RANKS]])
        started = self.events(self.logs, "worker_started")
        self.assertEqual([event["pid"] for event in started[RANKS:]], self.spares()[:RANKS])

    def test_without_a_spare_worker_that_is_ready_a_process_is_started(self):
        expected = self.undisturbed()
        job = self.start("endless_worker", deaths="1")
        eventually((pathlib.Path(self.folder) / "spare").exists, "the spare worker runs")
        self.let_die(1)
        out, err = self.end(job)
        lines = self.lines(out)
        self.assertEqual({line[0] for line in lines.values()}, expected, err)
        self.assertEqual({line[1] for line in lines.values()}, {"first"})

    def test_spare_workers_die(self):
        """The first one that is not killed replaces the rank."""
        job = self.start("spare_worker", deaths="1")
        for number in range(2):
            self.await_text("is ready", number + 1)
            os.kill(self.spares()[-1], signal.SIGKILL)
            self.await_text("killed by SIGKILL; starting another", number + 1)
        self.await_text("is ready", 3)
        self.let_die(1)
        out, _ = self.end(job)
        self.assertEqual([line[1:] for _, line in sorted(self.lines(out).items())][1],
                         ("spare", self.spares()[2]))

    def test_a_program_that_needs_its_rank(self):
        job = self.start("rank_worker", deaths="1")
        self.await_text("no more spare workers")
        self.let_die(1)
        _, err = self.end(job)
        lines = [line for line in err.splitlines() if "spare" in line]
        self.assertEqual(len(lines), 1, err)
        self.assertRegex(lines[0],
                         r"--spare-workers: no more spare workers, because 3 have exited: the "
                         r"spare worker with pid \d+ exited with code 1: KeyError: 'RANK'. Before "
                         r"muster.elastic.run, a program must not use its rank or communicate$")
        self.assertEqual(len(list(pathlib.Path(self.folder).glob("started-*"))), RANKS + 1 + 3)

    def test_logs_of_a_spare_worker_until_it_replaces_a_rank(self):
        job = self.start("spare_worker", "--redirects=3", deaths="1")
        self.await_text("is ready")
        self.let_die(1)
        self.end(job)
        attempt, = pathlib.Path(self.logs).glob("*/attempt_0")
        self.assertEqual((attempt / "spare.1/stdout.log").read_text(),
                         "this line belongs to the spare worker\n")
        self.assertIn(" spare ", (attempt / "1.1/stdout.log").read_text())

    def test_a_job_that_is_stopped_leaves_no_spare_worker(self):
        job = self.start("spare_worker", spares=2, deaths="0")
        self.await_text("is ready", 2)
        job.send_signal(signal.SIGTERM)
        _, err = self.end(job, code=128 + signal.SIGTERM)
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in self.spares()))
        self.assertNotIn("left running", err)

    def test_a_restart_of_all_workers_kills_the_spare_workers(self):
        job = self.start("spare_worker", deaths="0")
        self.await_text("is ready")
        for event in self.events(self.logs, "worker_started"):
            os.kill(event["pid"], signal.SIGKILL)
        eventually(lambda: len(self.events(self.logs, "round_begun")) >= 2,
                   "all workers are restarted")
        self.assertFalse(os.path.exists(f"/proc/{self.spares()[0]}"))
        (pathlib.Path(self.folder) / "died-0").touch()
        out, _ = self.end(job)
        self.assertEqual({line[1] for line in self.lines(out).values()}, {"first"})


class Warm(Spares):
    """Spare workers are forked, too."""

    def start(self, name, *options, **more):
        return super().start(name, "--warm=numpy", *options, **more)


if __name__ == "__main__":
    support.main()
