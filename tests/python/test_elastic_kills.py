# SPDX-License-Identifier: Apache-2.0
"""muster --restart=rank under many kills: of random ranks, of two ranks at once, of replacements,
and inside muster.elastic. The job computes the same bits as without them, with random numbers from
the generators of Python and NumPy. KILLS: the number of random kills, by default 40. SEED: repeats
a run."""
import functools
import hashlib
import json
import os
import pathlib
import random
import signal
import threading

import numpy as np

import support
import cases
from cases import eventually
from elastic_case import ElasticCase
from muster import elastic
from support import say

RANK = int(os.environ.get("RANK", "0"))
DEAF = "rank 2 did not react to the loss of another rank within 5s"
KILLS = int(os.environ.get("KILLS", "40"))
STEPS_PER_KILL = 40  # more than a kill takes


def open_table(folder):
    """The last step and the process of each rank, written by the ranks."""
    return np.memmap(pathlib.Path(folder, "table"), np.int64, "r+").reshape(-1, 2)


def is_first(place):
    """Whether the test wants this rank to fail in this place, and no process has done so yet."""
    if f"{RANK}:{place}" not in os.environ.get("PLAN", "").split():
        return False
    try:
        pathlib.Path(os.environ["FOLDER"], f"{RANK}:{place}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die_once(place):
    if is_first(place):
        os.kill(os.getpid(), signal.SIGKILL)


class Dying(elastic.State):
    def _take(self):
        """The copy exists, but it is not the last commit yet."""
        values = super()._take()
        die_once(f"commit-{self.step}")
        return values


def die_late(step):
    """The other ranks commit this step, because they have everything from this rank."""
    if is_first(f"late-{step}"):
        table = open_table(os.environ["FOLDER"])
        eventually(lambda: np.delete(table[:, 0], RANK).min() > step, "the others commit the step")
        os.kill(os.getpid(), signal.SIGKILL)


def hash_of(weights):
    return hashlib.sha1(weights.tobytes()).hexdigest()


def take_step(state):
    gradient = np.random.rand(64) * random.random()
    die_once(f"step-{state.step}")
    state.comm.all_reduce(gradient)
    die_once(f"reduced-{state.step}")
    die_late(state.step)
    if is_first(f"apart-{state.step}"):
        raise ConnectionError("for the test")
    state.weights -= 0.01 * gradient
    state.step += 1
    state.commit()
    die_once(f"committed-{state.step}")


@support.worker
def train():
    table = open_table(os.environ["FOLDER"])
    table[RANK] = -1, os.getpid()
    finish = pathlib.Path(os.environ["FOLDER"], "finish")
    random.seed(RANK)
    np.random.seed(RANK)
    state = Dying(step=0, weights=np.zeros(64))
    before, resets = [], []

    @state.on_reset
    def note_reset():
        die_once(f"reset-{state.commits}")
        resets.append((before[-1], state.commits))

    @elastic.run
    def run(state):
        try:
            while state.step < int(os.environ["STEPS"]):
                take_step(state)
                table[RANK, 0] = state.step
                if not finish.exists():
                    threading.Event().wait(0.002)  # the duration of a step
        finally:
            before.append(state.commits)

    run(state)
    say(json.dumps({"weights": hash_of(state.weights),
                    "resets": resets, "restarts": os.environ["TORCHELASTIC_RESTART_COUNT"]}))


class Kills(ElasticCase):
    ranks = 4

    def start(self, restarts, steps, **variables):
        (pathlib.Path(self.folder) / "table").write_bytes(bytes(self.ranks * 16))
        self.table = open_table(self.folder)
        self.running = self.job("train", "--warm=numpy", f"--max-restarts={restarts}",
                                STEPS=str(steps), **variables)

    def finish(self, steps, about=""):
        """Ends the job. Returns what its ranks printed, and its messages."""
        pathlib.Path(self.folder, "finish").touch()
        while self.running.poll() is None and self.table[:, 0].min() < steps:
            last = self.table[:, 0].min()
            eventually(lambda: self.running.poll() is not None or self.table[:, 0].min() > last,
                       lambda: self.stuck("the job continues"))
        out, err = self.end(self.running)
        ranks = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(len(ranks), self.ranks, about)
        self.assertNotIn("all workers", err, about)
        self.assertNotIn("no intact record", err, about)
        for each in ranks:
            self.assertEqual((each["weights"], each["restarts"]),
                             (self.weights(steps), "0"), about + err)
        return ranks, err

    @functools.cache
    def weights(self, steps):
        """Those of a job without failures. muster adds in the order of ranks."""
        ranks = [(np.random.RandomState(rank), random.Random(rank)) for rank in range(self.ranks)]
        weights = np.zeros(64)
        for _ in range(steps):
            weights -= 0.01 * sum(one.rand(64) * other.random() for one, other in ranks)
        return hash_of(weights)

    def wait_for(self, check, what):
        eventually(lambda: self.running.poll() is not None or check(), lambda: self.stuck(what))
        if self.running.poll() is not None:
            self.fail(f"the job ended before this: {what}\n{self.running.communicate()}")

    def stuck(self, what):
        """What a reader needs to find out why the job does not go on."""
        table = [(*row, cases.state(row[1])) for row in self.table.tolist()]
        self.running.terminate()
        return f"{what}\nsteps, processes, states: {table}\n{self.running.communicate()}"

    def wait_for_progress(self):
        """All ranks have completed a step that began after this call."""
        last = self.table[:, 0].max()
        self.wait_for(lambda: self.table[:, 0].min() >= last + 2, "all ranks complete steps")

    def kill(self, rank):
        """Returns the process."""
        pid = int(self.table[rank, 1])
        self.assertIn(pid, self.workers(self.running))
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_for_replacement(self, rank, of):
        self.wait_for(lambda: self.table[rank, 1] != of, f"rank {rank} is replaced")

    def kill_some(self, chance, count):
        """One or two kills. Returns their number."""
        rank, other = chance.sample(range(self.ranks), 2)
        way = chance.choice(["one", "two", "replacement", "survivor"]) if count > 1 else "one"
        killed = self.kill(rank)
        if way == "one":
            return 1
        if way in ("replacement", "survivor"):
            self.wait_for_replacement(rank, killed)
        self.kill(rank if way == "replacement" else other)
        return 2

    def test_random_kills(self):
        seed = int(os.environ.get("SEED", random.randrange(2**32)))
        print("SEED", seed)
        chance, left, steps = random.Random(seed), KILLS, KILLS * STEPS_PER_KILL
        self.start(KILLS, steps)
        while left > 0:
            self.wait_for_progress()
            left -= self.kill_some(chance, left)
        self.finish(steps, f"seed {seed} ")

    def test_kills_inside_of_elastic(self):
        plan = "0:commit-20 3:reset-20 1:commit-40 2:step-60 0:reset-60 1:reduced-80 0:reduced-99"
        self.start(len(plan.split()), 120, PLAN=plan)
        self.finish(120)
        self.assertLessEqual(set(plan.split()), set(os.listdir(self.folder)))

    def test_a_rank_dies_when_only_the_others_have_committed(self):
        self.start(2, 60, PLAN="1:late-20 3:late-35")
        ranks, _ = self.finish(60)
        self.assertEqual(sorted(each["resets"] for each in ranks),
                         [[], [[21, 21], [36, 36]], [[21, 21], [36, 36]], [[36, 36]]])

    def test_survivors_that_are_one_step_apart(self):
        self.start(1, 60, PLAN="1:committed-21 2:apart-20")
        ranks, _ = self.finish(60)
        self.assertEqual(sorted(each["resets"] for each in ranks),
                         [[], [[20, 21]], [[21, 21]], [[21, 21]]])

    def lose_one_while_another_is_stopped(self):
        """Returns the stopped process, which is rank 2."""
        self.start(2, 400)
        self.wait_for_progress()
        stopped = int(self.table[2, 1])
        os.kill(stopped, signal.SIGSTOP)
        eventually(lambda: cases.state(stopped) == "T", "the survivor stops")
        killed = self.kill(1)
        self.wait_for_replacement(1, killed)
        return stopped

    def test_a_survivor_that_is_stopped_for_a_while(self):
        stopped = self.lose_one_while_another_is_stopped()
        os.kill(stopped, signal.SIGCONT)
        self.wait_for_progress()
        last = self.table[2, 1]
        _, err = self.finish(400)
        self.assertTrue(last == stopped or DEAF in err, err)  # on a very slow machine

    def test_a_survivor_that_stays_stopped_is_replaced(self):
        stopped = self.lose_one_while_another_is_stopped()
        self.wait_for_replacement(2, stopped)
        _, err = self.finish(400)
        self.assertEqual(err.count(DEAF), 1, err)

    def test_many_mends_need_no_more_memory(self):
        self.ranks, mends = 2, 150
        steps = mends * STEPS_PER_KILL
        self.start(mends, steps)
        for mend in range(mends):
            self.wait_for_progress()
            if mend == 20:
                early = self.use()
            self.kill(1)
        self.wait_for_progress()
        # The connections of dead processes are closed a moment later.
        eventually(lambda: all(one[0] <= other[0] and one[1] <= other[1]
                               for one, other in zip(self.use(), early)),
                   lambda: f"descriptors, threads, KiB: {early}, later {self.use()}", within=5)
        print("descriptors, threads, KiB of the agent and of rank 0:", early, self.use())
        growth = [one[2] - other[2] for one, other in zip(self.use(), early)]
        self.assertLess(max(growth), 8192, f"KiB; {early}, later {self.use()}")
        self.finish(steps)

    def use(self):
        """Descriptors, threads and resident KiB of the agent and of rank 0."""
        return [self.use_of(pid) for pid in (self.agent(self.running), int(self.table[0, 1]))]

    @staticmethod
    def use_of(pid):
        status = cases.read(f"/proc/{pid}/status")
        threads, resident = (int(status.partition(f"\n{name}:")[2].split()[0])
                             for name in ("Threads", "VmRSS"))
        return len(os.listdir(f"/proc/{pid}/fd")), threads, resident


if __name__ == "__main__":
    support.main()
