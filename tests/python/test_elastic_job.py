# SPDX-License-Identifier: Apache-2.0
"""muster --restart=rank with muster.elastic: ranks are killed, and the job computes what it would
compute without the failures."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading

import numpy as np

import support
import cases
from cases import eventually
from elastic_case import ElasticCase
from muster import elastic
from ports import free_port
from support import DEADLINE, MUSTER, environment, say

RANKS = 3
STEPS = int(os.environ.get("STEPS", "60"))
BORN = os.environ.get("MUSTER_EPOCH", "")  # elastic.run changes the variable


def total(steps=STEPS):
    return sum(RANKS * step + sum(range(RANKS)) for step in range(steps))


def folder():
    return pathlib.Path(os.environ["FOLDER"])


def die_if_planned(state):
    """The process that was started in this epoch dies at this step."""
    if f"{state.comm.rank}:{BORN}:{state.step}" in os.environ.get("PLAN", "").split():
        if os.environ.get("BUSY"):
            eventually((folder() / "busy").exists, "rank 0 is busy")
        os.kill(os.getpid(), signal.SIGKILL)


@elastic.run
def train(state):
    while state.step < STEPS:
        value = np.array([float(state.step + state.comm.rank)])
        die_if_planned(state)
        if (os.environ.get("BUSY") and (state.comm.rank, state.step) == (0, 20)
                and not (folder() / "busy").exists()):
            (folder() / "busy").touch()
            threading.Event().wait(15)  # much longer than muster waits for the library to react
        if os.environ.get("HANGS") and (state.comm.rank, BORN, state.step) == (0, "1", 40):
            signal.pause()
        state.comm.all_reduce(value)
        state.total += value
        state.step += 1
        state.commit()
        (folder() / f"{state.comm.rank}.{state.step}").touch()
        if os.environ.get("SLOW"):
            threading.Event().wait(0.005)  # the duration of a step


@support.worker
def elastic_worker():
    state = elastic.State(step=0, total=np.zeros(1))
    train(state)
    say(f"{state.total[0]} {os.environ['TORCHELASTIC_RESTART_COUNT']}")


@support.worker
def plain_worker():
    """Does not use muster.elastic; fails in its first life."""
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(3)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        signal.pause()


@support.worker
def finished_worker():
    """Rank 0 finishes before rank 1 fails."""
    plain = elastic.State(step=0)

    @elastic.run
    def wait(state):
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and state.comm.rank == 1:
            with open(folder() / "fifo", "rb") as fifo:
                fifo.read()  # until rank 0 has exited
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and state.comm.rank == 0:
            os.open(folder() / "fifo", os.O_WRONLY)
            os._exit(0)

    wait(plain)


@support.worker
def leaving_worker():
    """A helper process leaves the group of the rank that dies."""
    if os.environ["RANK"] == "1" and BORN == "1":
        helper = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (folder() / "helper").write_text(str(helper.pid))
    elif os.environ["RANK"] == "1":
        stat = pathlib.Path("/proc", (folder() / "helper").read_text(), "stat")
        # Killed processes remain as zombies until muster has reaped them.
        eventually(lambda: not stat.exists() or ") Z " in stat.read_text(), "the helper is killed")
    elastic_worker()


@support.worker
def hanging_worker():
    """After the replacement of rank 1, rank 0 stops in the middle of the job."""
    os.environ["HANGS"] = "1"
    elastic_worker()


@support.worker
def late_worker():
    """Rank 1 fails after all ranks have left elastic.run, in its first life."""
    elastic_worker()
    (folder() / f"left-{os.environ['RANK']}").touch()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ["RANK"] != "1":
            signal.pause()
        eventually(lambda: len(list(folder().glob("left-*"))) == RANKS, "all ranks have left")
        os.kill(os.getpid(), signal.SIGKILL)


@support.worker
def catching_worker():
    """Rank 0 catches the exception of its function and lives on. Then rank 1 fails."""
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

    @elastic.run
    def fail(state):
        if is_first and state.comm.rank == 0:
            raise ValueError("for the test")
        if is_first and state.comm.rank == 1:
            eventually((folder() / "left").exists, "rank 0 has left")
            os.kill(os.getpid(), signal.SIGKILL)
        if is_first:
            signal.pause()

    try:
        fail(elastic.State(step=0))
    except ValueError:
        (folder() / "left").touch()
        signal.pause()


@support.worker
def twice_worker():
    for _ in range(2):
        elastic_worker()


@support.worker
def nesting_worker():
    """A child of rank 0 that survives has the RANK of the rank that dies, as in a nested job."""
    child = None
    if os.environ["RANK"] == "0":
        child = subprocess.Popen(["sleep", "600"], env={**os.environ, "RANK": "1"})
    elastic_worker()
    if child is not None:
        say(f"child: {child.poll()}")
        child.kill()
        child.wait()


EDITED = """
import os
import signal
from muster import elastic

@elastic.run
def train(state):
    while state.step < 20:
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if (state.comm.rank, is_first, state.step) == (1, True, 10):
            with open(__file__, "a") as file:
                file.write("print('new')\\n")
            os.kill(os.getpid(), signal.SIGKILL)
        state.comm.barrier()
        state.step += 1
        state.commit()

train(elastic.State(step=0))
"""


class TrainCase(ElasticCase):
    def check_results(self, out, steps=STEPS):
        self.assertEqual(sorted(out.splitlines()), [f"{float(total(steps))} 0"] * RANKS)

    def last_step(self):
        return max(int(path.suffix[1:]) for path in pathlib.Path(self.folder).glob("[0-9].*"))

    def wait_for_step(self, job, step):
        """Returns when all ranks have completed it."""
        files = [pathlib.Path(self.folder, f"{rank}.{step}") for rank in range(RANKS)]
        eventually(lambda: all(file.exists() for file in files) or job.poll() is not None,
                   f"step {step}")
        self.assertIsNone(job.poll())


class Elastic(TrainCase):
    ranks = RANKS

    def test_each_rank_can_be_replaced(self):
        for rank in range(RANKS):
            with self.subTest(rank=rank):
                logs = f"{self.folder}/logs{rank}"
                job = self.job("elastic_worker", "--max-restarts=1", f"--log-dir={logs}",
                               PLAN=f"{rank}:1:20")
                out, err = self.end(job)
                self.check_results(out)
                self.assertRegex(err, rf"^muster: warning: rank {rank} \(pid \d+\) killed by "
                                      rf"SIGKILL; replacing rank {rank}: restart 1 of 1\n$")
                self.assertEqual(self.events(logs, "restart")[0]["replaced"], [rank])
                self.assertEqual(self.events(logs, "mended")[0]["ranks"], [rank])
                self.assertEqual(self.events(logs, "workers_signalled"), [])

    def test_a_survivor_may_be_busy(self):
        out, err = self.end(self.job("elastic_worker", "--max-restarts=1", PLAN="1:1:20", BUSY="1"))
        self.check_results(out)
        self.assertRegex(err, r"^muster: warning: rank 1 .*\n"
                              r"muster: warning: recovery is waiting up to \S+ for ranks? 0(, 2)? "
                              r"\(still in a step\)( and rank 1 \(still starting\))?\n$")

    def test_two_ranks_die_at_once_and_a_replacement_dies(self):
        plan = "0:1:20 2:1:20 2:3:25 2:2:25"
        out, err = self.end(self.job("elastic_worker", "--max-restarts=4", PLAN=plan))
        self.check_results(out)
        self.assertIn("replacing rank", err)

    def test_the_replacement_has_its_own_logs(self):
        job = self.job("elastic_worker", "--max-restarts=1", f"--log-dir={self.folder}/logs",
                       "--redirects=3", PLAN="1:1:20")
        self.end(job)
        for name in ("0", "1.1", "2"):
            found = list(pathlib.Path(self.folder, "logs").glob(f"*/attempt_0/{name}/stdout.log"))
            self.assertEqual(found[0].read_text(), f"{float(total())} 0\n")
        self.assertEqual(found[0].parent.parent.joinpath("1/stdout.log").read_text(), "")

    def test_ranks_that_are_killed_at_any_time(self):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        kills, steps = 12, 1000
        job = self.job("elastic_worker", f"--max-restarts={kills}", SLOW="1", STEPS=str(steps))
        self.wait_for_step(job, 1)
        opened = 0
        for kill in range(kills):
            os.kill(chance.choice(self.workers(job)), signal.SIGKILL)
            # A step that was in progress may still end, and the step after it needs all ranks.
            self.wait_for_step(job, self.last_step() + 2)
            if kill == 1:
                opened = self.descriptors(job)
            # The connections of dead processes are closed a moment later.
            eventually(lambda: kill == 0 or self.descriptors(job) <= opened,
                       lambda: f"{opened} descriptors, {self.descriptors(job)} later")
        out, err = self.end(job)
        self.assertEqual(err.count("replacing rank"), kills, f"seed {seed}\n{err}")
        self.assertNotIn("restarting all workers", err, f"seed {seed}")
        self.check_results(out, steps=steps)

    def test_what_left_the_group_of_a_dead_rank_is_killed(self):
        out, _ = self.end(self.job("leaving_worker", "--max-restarts=1", PLAN="1:1:20", SLOW="1"))
        self.check_results(out)
        helper = pathlib.Path(self.folder, "helper").read_text()
        self.assertFalse(pathlib.Path("/proc", helper).exists())

    def test_hangs_are_found_after_a_replacement_too(self):
        out, err = self.end(self.job("hanging_worker", "--max-restarts=2", "--hang-timeout=2",
                                     "--on-hang=restart", PLAN="1:1:20"))
        self.check_results(out)
        self.assertIn("replacing rank 1: restart 1 of 2\n", err)
        self.assertIn("replacing rank 0: restart 2 of 2\n", err)

    def test_processes_of_other_ranks_survive(self):
        out, _ = self.end(self.job("nesting_worker", "--max-restarts=1", PLAN="1:1:20"))
        self.assertIn("child: None\n", out)

    def test_workers_that_do_not_use_elastic_are_restarted_together(self):
        _, err = self.end(self.job("plain_worker", "--max-restarts=1"))
        self.assertIn("cannot replace only failed ranks: rank 0 has not entered muster.elastic.run",
                      err)
        self.assertIn("restarting all workers: restart 1 of 1", err)

    def test_a_rank_that_has_left_cannot_come_back(self):
        _, err = self.end(self.job("late_worker", "--max-restarts=1", STEPS="3"))
        self.assertRegex(err, r"cannot replace only failed ranks: rank [02] has left "
                         r"muster\.elastic\.run")

    def test_a_rank_that_has_left_with_an_exception_is_not_killed_as_a_survivor(self):
        _, err = self.end(self.job("catching_worker", "--max-restarts=2"))
        self.assertIn("cannot replace only failed ranks: rank 0 did not resume within 30s", err)
        self.assertNotIn("did not react", err)
        self.assertRegex(err, r"waiting up to \S+ for ranks 0, 2 \(still in a step\)")

    def test_all_ranks_run_the_same_text(self):
        """The script is edited while the job runs. A replacement would run the new text."""
        script = pathlib.Path(self.folder, "train.py")
        for warm in ([], ["--warm=numpy"]):
            script.write_text(EDITED)
            out, err = self.end(self.launch([script], *warm, "--max-restarts=1"))
            self.assertIn(f"cannot replace only failed ranks: {script} has changed since the "
                          "workers were started\n", err)
            self.assertEqual(out, "new\n" * RANKS)

    def test_a_second_call_is_refused(self):
        out, err = self.end(self.job("twice_worker", "--max-restarts=1", STEPS="3"), code=1)
        self.assertGreaterEqual(len(out.splitlines()), RANKS)
        self.assertIn("RuntimeError: cannot enter elastic.run again: this process has already", err)

    def test_a_rank_that_has_finished_cannot_come_back(self):
        os.mkfifo(os.path.join(self.folder, "fifo"))
        _, err = self.end(self.job("finished_worker", "--max-restarts=1"))
        self.assertIn("cannot replace only failed ranks: rank 0 has finished", err)


class SeveralNodes(TrainCase):
    """Ranks 0 and 1 on node 0, which has the job's store, and rank 2 on node 1. Either may lead."""

    def nodes(self, name, *options, **variables):
        endpoint = f"localhost:{free_port()}"
        out = []
        for number, ranks in enumerate((2, 1)):
            args = [MUSTER, "--nnodes=2", f"--nproc-per-node={ranks}", f"--node-rank={number}",
                    "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--restart=rank",
                    *options, __file__, name]
            state = f"{self.folder}/state{number}"
            out.append(cases.spawn(
                self, args, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(FOLDER=self.folder, XDG_STATE_HOME=state, **variables)))
        return out

    def end_all(self, nodes):
        ends = [self.end(node) for node in nodes]
        return "".join(out for out, _ in ends), [err for _, err in ends]

    def test_a_rank_of_each_node_can_be_replaced(self):
        for rank in range(RANKS):
            with self.subTest(rank=rank):
                nodes = self.nodes("elastic_worker", "--max-restarts=1", PLAN=f"{rank}:1:20")
                out, errs = self.end_all(nodes)
                self.check_results(out)
                for err in errs:
                    self.assertRegex(err, rf"muster: warning: rank {rank} on '.*' killed by "
                                          rf"SIGKILL; replacing rank {rank}: restart 1 of 1\n$")

    def test_ranks_of_both_nodes_die_at_once_and_a_replacement_dies(self):
        plan = "0:1:20 2:1:20 2:3:25 2:2:25"
        out, errs = self.end_all(self.nodes("elastic_worker", "--max-restarts=4", PLAN=plan))
        self.check_results(out)
        self.assertNotIn("restarting all workers", "".join(errs))

    def test_ranks_that_are_killed_at_any_time(self):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        kills, steps = 12, 1000
        nodes = self.nodes("elastic_worker", f"--max-restarts={kills}", SLOW="1", STEPS=str(steps))
        self.wait_for_step(nodes[0], 1)
        for _ in range(kills):
            os.kill(chance.choice([pid for node in nodes for pid in self.workers(node)]),
                    signal.SIGKILL)
            self.wait_for_step(nodes[0], self.last_step() + 2)
        out, errs = self.end_all(nodes)
        for err in errs:
            self.assertEqual(err.count("replacing rank"), kills, f"seed {seed}\n{err}")
            self.assertNotIn("restarting all workers", err, f"seed {seed}")
        self.check_results(out, steps=steps)

    def test_workers_that_do_not_use_elastic_are_restarted_together(self):
        _, errs = self.end_all(self.nodes("plain_worker", "--max-restarts=1"))
        self.assertIn("cannot replace only failed ranks: rank 0 has not entered muster.elastic.run",
                      errs[0])
        self.assertIn("restarting all workers: restart 1 of 1", "".join(errs))  # said by the leader

    def test_a_lost_node_ends_the_mend(self):
        """Its agent dies while its rank has not been replaced."""
        nodes = self.nodes("elastic_worker", "--max-restarts=3", "--nnodes=1:2", SLOW="1")
        self.wait_for_step(nodes[0], 1)
        worker, = self.workers(nodes[1])
        os.kill(worker, signal.SIGKILL)
        os.kill(self.agent(nodes[1]), signal.SIGKILL)
        out, err = self.end(nodes[0])
        nodes[1].communicate(timeout=DEADLINE)
        self.assertEqual([line.split()[1] for line in out.splitlines()], ["0", "0"], out + err)


if __name__ == "__main__":
    support.main()
